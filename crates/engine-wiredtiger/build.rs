//! Makes the bindings to the system's WiredTiger. Without the feature `wiredtiger-system` it does nothing.

#[cfg(not(feature = "wiredtiger-system"))]
fn main() {}

#[cfg(feature = "wiredtiger-system")]
fn main() {
    use std::env;
    use std::path::PathBuf;

    let include = env::var("WIREDTIGER_INCLUDE_DIR").unwrap_or_else(|_| "/usr/include".to_owned());
    let header = format!("{include}/wiredtiger.h");
    for variable in ["WIREDTIGER_INCLUDE_DIR", "WIREDTIGER_LIB_DIR"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed={header}");
    let libraries = env::var("WIREDTIGER_LIB_DIR").unwrap_or_else(|_| system_libraries());
    println!("cargo:rustc-link-search=native={libraries}");
    println!("cargo:rustc-link-lib=dylib=wiredtiger");
    // Compressors are shared objects next to the library, loaded when the engine is opened.
    println!("cargo:rustc-env=ARBOR_WIREDTIGER_EXTENSIONS={libraries}");

    let bindings = bindgen::Builder::default()
        .header(header)
        .allowlist_function("wiredtiger_(open|strerror|version|config_validate|config_parser_open)")
        .allowlist_type("WT_(CONNECTION|SESSION|CURSOR|ITEM|EVENT_HANDLER|CONFIG_PARSER|CONFIG_ITEM)")
        .allowlist_var("WT_(ROLLBACK|NOTFOUND|PANIC|ERROR|CACHE_FULL|TRY_SALVAGE|RUN_RECOVERY)")
        .allowlist_var("WT_STAT_DSRC_BLOCK_REUSE_BYTES")
        .layout_tests(false)
        .generate_comments(false)
        .generate()
        .expect("bindings to wiredtiger.h (Debian's libwiredtiger-dev and libclang-dev)");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("wiredtiger.rs")).expect("OUT_DIR is writable");
}

/// Returns the directory in which Debian and others keep the library.
#[cfg(feature = "wiredtiger-system")]
fn system_libraries() -> String {
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let places = [format!("/usr/lib/{machine}-linux-gnu"), "/usr/lib64".to_owned(), "/usr/local/lib".to_owned()];
    let found = places.iter().find(|place| std::path::Path::new(place).join("libwiredtiger.so").exists());
    found.cloned().unwrap_or_else(|| "/usr/lib".to_owned())
}
