//! The reference pages say what the programs say.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::path::Path;
use std::process::Command;

use roost_tests::process::binary;

#[test]
fn the_reference_pages_are_what_the_programs_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fresh = tempfile::tempdir().unwrap();
    let binaries = binary("roost").parent().unwrap().to_owned();
    for daemon in ["overlay-node", "supernode", "cs-server"] {
        binary(daemon);
    }
    let status = Command::new(root.join("scripts/reference")).arg(&binaries).arg(fresh.path()).status().unwrap();
    assert!(status.success());
    for page in ["cli.md", "configuration.md"] {
        let written = std::fs::read_to_string(root.join("docs/src/reference").join(page)).unwrap();
        let printed = std::fs::read_to_string(fresh.path().join(page)).unwrap();
        assert!(written == printed, "docs/src/reference/{page} is out of date: run scripts/reference");
    }
}
