//! Replays the committed fuzz corpus: every input once found, every crash once mended.

use roost_tests::fuzz::TARGETS;
use roost_tests::process::files_under;

#[test]
fn the_corpus_of_every_target_passes() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, target) in TARGETS {
        let files = files_under(&corpus.join(name));
        assert!(!files.is_empty(), "no corpus for {name}");
        for file in files {
            target(&std::fs::read(&file).unwrap());
        }
    }
}
