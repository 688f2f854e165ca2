//! Bindings to the system's RocksDB, made from its header. The vendored RocksDB brings its own.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(all(feature = "rocksdb-system", not(feature = "rocksdb-vendored")))]
    system::bind();
}

#[cfg(all(feature = "rocksdb-system", not(feature = "rocksdb-vendored")))]
mod system {
    use std::env;
    use std::path::Path;

    /// Directories other than the usual ones, by the names that `librocksdb-sys` gave them.
    const LIBRARY: &str = "ROCKSDB_LIB_DIR";
    const HEADERS: &str = "ROCKSDB_INCLUDE_DIR";

    pub(crate) fn bind() {
        println!("cargo:rerun-if-env-changed={LIBRARY}");
        println!("cargo:rerun-if-env-changed={HEADERS}");
        if let Ok(directory) = env::var(LIBRARY) {
            println!("cargo:rustc-link-search=native={directory}");
        }
        println!("cargo:rustc-link-lib=dylib=rocksdb");
        let headers = env::var(HEADERS).unwrap_or_else(|_| "/usr/include".to_owned());
        let made = bindgen::Builder::default()
            .header_contents("arbor_rocksdb.h", "#include <rocksdb/c.h>")
            .clang_arg(format!("-I{headers}"))
            .allowlist_item("rocksdb_.*")
            .rust_edition(bindgen::RustEdition::Edition2024)
            .layout_tests(false)
            .generate_comments(false)
            .generate();
        let bindings = made.expect("RocksDB's header rocksdb/c.h and libclang (scripts/setup rocksdb installs both)");
        let directory = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
        bindings.write_to_file(Path::new(&directory).join("rocksdb.rs")).expect("the build directory is writable");
    }
}
