"""`cargo build -p arbor` and `cargo test --workspace` compile each crate with the same features: then `make test` builds our crates once.

A dependency of tests may switch on a feature of a crate that the program uses as well; the root Cargo.toml names such features."""

import subprocess


def check(root):
    alone = packages(root, "--package", "arbor", "--edges", "normal")
    with_tests = packages(root, "--workspace", "--edges", "normal,build,dev")
    for package in sorted(alone - with_tests):
        yield f"Cargo.toml: tests compile {package.split(' [')[0]} with other features than the program, which has {package}"


def packages(root, *arguments):
    """Returns packages with their versions and features."""
    command = ["cargo", "tree", "--locked", "--quiet", "--prefix", "none", "--format", "{p} [{f}]", *arguments]
    lines = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {line.removesuffix(" (*)") for line in lines}
