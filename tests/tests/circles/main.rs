//! No file of a crate imports a file that imports it, directly or through others.
//!
//! A file imports another one if it names an item that the other one defines, in a `use` or in a
//! path. A name is followed through re-exports to the file that defines it; a re-export alone is no
//! import. Code of tests does not count.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod modules;
mod product_code;
mod reader;

use std::fs;
use std::path::Path;

use reader::{Sources, read_modules};

/// The crates without circles.
const CRATES: [&str; 4] = ["wire", "geo", "core", "reflection"];

#[test]
fn no_file_imports_in_a_circle() {
    for name in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(name).join("src");
        let mut sources = Sources::new();
        read_folder(&root, "", &mut sources);
        let circles = read_modules(&sources).circles();
        assert!(
            circles.is_empty(),
            "files of crates/{name}/src import each other: move what they share into a file below them\n\n{}",
            circles.join("\n")
        );
    }
}

/// Reads all Rust files below a folder, by their paths from the root.
fn read_folder(folder: &Path, prefix: &str, sources: &mut Sources) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), sources);
        } else if path.ends_with(".rs") {
            sources.insert(path, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

/// The circles of a crate with these files.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    read_modules(&files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()).circles()
}

#[test]
fn circle_of_two_is_found() {
    let files = [
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        ("b.rs", "pub struct B;\nimpl B {\n    fn a(&self) { super::a::A::new() }\n}"),
    ];
    let expected =
        "a circle of 2 files:\n  a.rs:1 imports b.rs (crate::b::B)\n  b.rs:3 imports a.rs (super::a::A::new)\n";
    assert_eq!(circles(&files), [expected]);
}

#[test]
fn longer_circle_is_found() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nuse a::A;"),
        ("a.rs", "use crate::{b::{self}};\npub fn A() { b::B }"),
        ("b.rs", "pub fn B() { assert_eq!(1, crate::c::C(2)) }"),
        ("c.rs", "use super::*;\npub fn C() { a::A() }\nmod inner { use super::super::a::A; }"),
    ];
    let found = circles(&files);
    assert!(found.len() == 1 && found[0].starts_with("a circle of 4 files"), "{found:?}");
}

#[test]
fn re_export_leads_to_definition() {
    let with_outer = |outer: &'static str| {
        circles(&[
            ("lib.rs", "mod outer;\nmod user;"),
            ("outer/mod.rs", outer),
            ("outer/inner.rs", "mod word;\npub use word::*;"),
            ("outer/inner/word.rs", "pub struct Word;"),
            ("user.rs", "use crate::outer::Word;\npub struct User(Word);"),
        ])
    };
    assert!(with_outer("mod inner;\npub use inner::Word;\nuse crate::user::User;").is_empty());
    let own = with_outer("use crate::user::User;\npub struct Word;");
    assert!(own.len() == 1 && own[0].contains("user.rs:1 imports outer/mod.rs"), "{own:?}");
}

#[test]
fn used_re_export_is_import() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod b;\npub use b::B;\npub struct A(B);"),
        ("a/b.rs", "use super::A;\npub struct B;"),
    ];
    assert_eq!(circles(&files).len(), 1);
}

#[test]
fn code_of_tests_is_ignored() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod missing;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        (
            "b.rs",
            "pub struct B;\nimpl B {\n    #[cfg(test)]\n    fn a() -> crate::a::A { loop {} }\n}\n\
             #[cfg(all(test, unix))]\nmod tests {\n    use crate::a::A;\n}",
        ),
    ];
    assert!(circles(&files).is_empty());
}
