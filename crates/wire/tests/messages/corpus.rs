//! Messages of every kind as earlier versions wrote them: they are read for ever.
//!
//! `data/wire-MAJOR.MINOR.txt` holds a message per line, as hexadecimal digits. Before the
//! version is raised, what it says so far is recorded:
//! `cargo test -p roost-wire --test messages -- --ignored record_corpus`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use roost_wire::messages::{Message, ProtocolVersion};

use super::messages::any_message;

/// Messages recorded of each kind.
const OF_EACH_KIND: usize = 12;

/// Longer ones say nothing that shorter ones do not.
const MAX_RECORDED_BYTES: usize = 600;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/messages/data")
}

fn kind(bytes: &[u8]) -> u64 {
    let mut decoder = minicbor::Decoder::new(bytes);
    decoder.array().unwrap();
    decoder.u64().unwrap()
}

#[test]
#[ignore = "writes the data that the other test reads"]
fn record_corpus() {
    let mut runner = TestRunner::deterministic();
    let mut recorded: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    for _ in 0..40_000 {
        let message = any_message().new_tree(&mut runner).unwrap().current();
        let bytes = message.encode().to_vec();
        let same = recorded.entry(kind(&bytes)).or_default();
        if same.len() < OF_EACH_KIND && bytes.len() <= MAX_RECORDED_BYTES && !same.contains(&bytes) {
            same.push(bytes);
        }
    }
    let mut text = String::new();
    for bytes in recorded.values().flatten() {
        bytes.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    std::fs::create_dir_all(folder()).unwrap();
    std::fs::write(folder().join(format!("wire-{}.txt", ProtocolVersion::CURRENT)), text).unwrap();
}

#[test]
fn earlier_messages_are_still_read() {
    let mut files = 0;
    for file in std::fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut kinds = BTreeMap::new();
        for line in text.lines() {
            let digits = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..line.len()).step_by(2).map(digits).collect();
            let message = Message::decode(&bytes).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(message.encode(), bytes, "{message:?} says something else now");
            *kinds.entry(kind(&bytes)).or_insert(0) += 1;
        }
        assert!(kinds.len() >= 48, "{}: {} kinds only", path.display(), kinds.len());
        files += 1;
    }
    assert!(files > 0);
}
