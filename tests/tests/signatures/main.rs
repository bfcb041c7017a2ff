//! The parts of a parameter have names: no function takes a tuple, and no call passes a bare `true`.
//!
//! Iterators of pairs and the parameters of closures are free, since maps and their iterators work
//! with pairs. A single `bool` is free, too, until a call gives it a literal. Code of tests does not count.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

#[path = "../circles/product_code.rs"]
mod product_code;
mod reader;

use std::path::{Path, PathBuf};

use reader::{Code, read_crate};

/// Functions of a folder that may still have such parameters.
struct Limit {
    folder: &'static str,
    tuples: usize,
    flags: usize,
}

/// The tree as it stands: lower a limit with each change that allows it. Other folders have none.
const LIMITS: [Limit; 9] = [
    Limit { folder: "emulation/bench/", tuples: 13, flags: 4 },
    Limit { folder: "emulation/experiment/", tuples: 8, flags: 1 },
    Limit { folder: "emulation/lab/", tuples: 1, flags: 0 },
    Limit { folder: "emulation/netcore/", tuples: 3, flags: 0 },
    Limit { folder: "emulation/placement/", tuples: 4, flags: 0 },
    Limit { folder: "emulation/report/", tuples: 22, flags: 0 },
    Limit { folder: "emulation/reproduce/", tuples: 15, flags: 0 },
    Limit { folder: "emulation/sim/", tuples: 3, flags: 2 },
    Limit { folder: "emulation/topology/", tuples: 4, flags: 0 },
];

#[test]
fn parameters_name_their_parts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut code = Code::default();
    for folder in crates(&root) {
        read_crate(&root, &folder, &mut code);
    }
    let (tuples, flags) = (code.tuples(), code.flags());
    println!("{} tuples\n{}\n{} flags\n{}", tuples.len(), tuples.join("\n"), flags.len(), flags.join("\n"));
    for folder in crates(&root) {
        let part = format!("{}/", folder.strip_prefix(&root).unwrap().display());
        let limit = LIMITS.iter().find(|limit| limit.folder == part);
        let inside = |lines: &[String]| lines.iter().filter(|line| line.starts_with(&part)).count();
        let (max_tuples, max_flags) = limit.map_or((0, 0), |limit| (limit.tuples, limit.flags));
        assert!(inside(&tuples) <= max_tuples, "{part}: name the parts of tuples with a struct\n{}", tuples.join("\n"));
        assert!(inside(&flags) <= max_flags, "{part}: name the cases with an enum\n{}", flags.join("\n"));
    }
}

fn crates(root: &Path) -> Vec<PathBuf> {
    let metadata =
        cargo_metadata::MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec().unwrap();
    let folder = |package: cargo_metadata::Package| package.manifest_path.parent().unwrap().into();
    // The helpers of the end-to-end tests are no product.
    metadata.packages.into_iter().filter(|package| package.name != "roost-tests").map(folder).collect()
}

#[test]
fn tuple_is_found_behind_wrappers() {
    let code = Code::of_text(
        "fn a(at: (u8, u8)) {}\nfn b(at: &[(u8, u8)]) {}\nfn c(at: Option<&(u8, u8)>) {}\n\
         fn d(at: impl Iterator<Item = (u8, u8)>) {}\nfn e(at: ()) {}\nfn f(g: fn((u8, u8))) {}",
    );
    assert_eq!(code.tuples(), ["lib.rs:1 a", "lib.rs:2 b", "lib.rs:3 c"]);
}

#[test]
fn literal_reaches_its_function() {
    let code = Code::of_text(
        "struct A;\nimpl A {\nfn new(open: bool) {}\nfn set(&self, open: bool) {}\n}\nfn set(open: bool) {}\n\
         fn two(a: bool, b: bool) {}\nfn main() { A::new(false); vec![A.set(x)]; assert!(set(true)); set(x, true); }",
    );
    assert_eq!(code.flags(), ["lib.rs:3 A::new (lib.rs:8)", "lib.rs:6 set (lib.rs:8)", "lib.rs:7 two"]);
}
