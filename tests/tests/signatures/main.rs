//! The parts of a parameter have names: no function takes a tuple, and no call passes a bare `true`.
//!
//! Iterators of pairs and the parameters of closures are free, since maps and their iterators work
//! with pairs. A single `bool` is free, too, until a call gives it a literal. Code of tests does not count.
//!
//! Tests wait for conditions with `roost-wait`, or on tokio's paused time: they sleep only where a silence is their
//! subject.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

#[path = "../circles/product_code.rs"]
mod product_code;
mod reader;
mod sleeps;

use std::path::{Path, PathBuf};

use reader::{Code, read_crate};
use sleeps::Sleeps;

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

/// Silences that are the subject of tests: what stands still, is late, or works at a rate.
const SILENCES: [(&str, usize); 17] = [
    ("crates/authority/tests/service.rs", 3),
    ("crates/transport/tests/fairness.rs", 1),
    ("crates/transport/tests/key_exchange.rs", 2),
    ("crates/transport/tests/moving.rs", 3),
    ("crates/transport/tests/support/slow.rs", 1),
    ("crates/transport/tests/udp.rs", 2),
    ("emulation/bench/src/transport/end.rs", 1),
    ("emulation/experiment/src/traffic/threads.rs", 1),
    ("emulation/lab/src/carrier/tests.rs", 1),
    ("emulation/lab/tests/lab/inside.rs", 1),
    ("emulation/lab/tests/lab/outside.rs", 1),
    ("services/src/video/tests.rs", 1),
    ("tests/tests/e2e/call_deaths.rs", 1),
    ("tests/tests/e2e/greedy_streams.rs", 1),
    ("tests/tests/e2e/key_frames.rs", 1),
    ("tests/tests/e2e/outages.rs", 1),
    ("tests/tests/e2e/restarts.rs", 1),
];

#[test]
fn tests_sleep_only_for_silence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut sleeps = Sleeps::default();
    for folder in packages(&root, &["roost-wait"]) {
        sleeps.read_crate(&root, &folder);
    }
    assert_eq!(sleeps.counts(), SILENCES, "wait with `roost_wait` instead, or count a silence here");
}

fn crates(root: &Path) -> Vec<PathBuf> {
    // The helpers of tests are no product.
    packages(root, &["roost-tests", "roost-wait"])
}

fn packages(root: &Path, without: &[&str]) -> Vec<PathBuf> {
    let metadata =
        cargo_metadata::MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec().unwrap();
    let folder = |package: cargo_metadata::Package| package.manifest_path.parent().unwrap().into();
    let packages = metadata.packages.into_iter();
    packages.filter(|package| !without.contains(&package.name.as_str())).map(folder).collect()
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

#[test]
fn sleep_is_found_in_tests_alone() {
    let mut sleeps = Sleeps::default();
    let product = "fn a() { sleep(b) }\n#[cfg(test)]\nmod tests {\nfn c() { thread::sleep(d); select! { () = sleep(e) => {} } }\n\
        #[tokio::test(start_paused = true)]\nasync fn f() { sleep(g).await }\n}";
    sleeps.read("lib.rs", product, false);
    sleeps.read("it.rs", "fn a() { b(|| thread::sleep(c)) }", true);
    assert_eq!(sleeps.counts(), [("it.rs", 1), ("lib.rs", 2)]);
}
