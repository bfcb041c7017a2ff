use super::*;

fn whole(bytes: &[u8]) -> ObjectIdentity {
    ObjectIdentity { digest: Sha256::digest(bytes).into(), length: bytes.len() as u64 }
}

fn found(path: &Path) -> Option<PartialFile> {
    PartialFile::find(path, |_| {}).unwrap()
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn resumed_part_becomes_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("survey.tif");
    assert!(found(&path).is_none());
    let mut part = PartialFile::create(&path, whole(b"whole file")).unwrap();
    part.write(b"whole").unwrap();
    assert!(matches!(PartialFile::find(&path, |_| {}), Err(SinkError::InUse { .. })), "one transfer at a time");
    assert!(matches!(part.finish().unwrap(), Finished::KeptPart { bytes: 5, .. }));
    assert_eq!(names(&folder), ["survey.tif.part", "survey.tif.part.json"]);
    let mut part = found(&path).unwrap();
    assert_eq!((part.bytes(), part.object()), (5, whole(b"whole file")));
    part.write(b" file").unwrap();
    assert!(matches!(part.finish().unwrap(), Finished::Written { bytes: 10, .. }));
    assert_eq!(std::fs::read(&path).unwrap(), b"whole file");
    assert_eq!(names(&folder), ["survey.tif"]);
}

#[test]
fn damaged_part_never_becomes_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("survey.tif");
    let mut part = PartialFile::create(&path, whole(b"whole file")).unwrap();
    part.write(b"whole").unwrap();
    drop(part);
    std::fs::write(folder.path().join("survey.tif.part"), "whale").unwrap();
    let mut part = found(&path).unwrap();
    part.write(b" file").unwrap();
    assert!(matches!(part.finish(), Err(SinkError::Damaged { .. })));
    assert!(names(&folder).is_empty());
}

#[test]
fn other_object_restarts_invalid_note_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("survey.tif");
    let mut part = PartialFile::create(&path, whole(b"an old and longer object")).unwrap();
    part.write(b"an old and longer").unwrap();
    drop(part);
    let mut part = found(&path).unwrap();
    part.replace(Some(whole(b"new")));
    part.write(b"new").unwrap();
    part.finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    for rubbish in ["", "{}", r#"{"sha256":"ée","bytes":1}"#, &"x".repeat(10_000)] {
        std::fs::write(folder.path().join("survey.tif.part.json"), rubbish).unwrap();
        assert!(found(&path).is_none());
    }
}

#[test]
fn other_object_without_data_keeps_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("survey.tif");
    let mut part = PartialFile::create(&path, whole(b"whole file")).unwrap();
    part.write(b"whole").unwrap();
    part.replace(Some(whole(b"new")));
    assert!(matches!(part.finish().unwrap(), Finished::KeptPart { bytes: 5, .. }));
    let part = found(&path).unwrap();
    assert_eq!((part.bytes(), part.object()), (5, whole(b"whole file")));
}

#[tokio::test]
async fn small_pieces_are_written_together() {
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("survey.tif"), folder.path().join("survey.tif.part"));
    let object: Vec<u8> = (0..3 * PIECE_BYTES).map(|n| (n % 251) as u8).collect();
    let mut slot = Some(PartialFile::create(&path, whole(&object)).unwrap());
    for (piece, number) in object.chunks(60_000).zip(1..) {
        PartialFile::add(&mut slot, piece).await.unwrap();
        let written = std::fs::metadata(&at).unwrap().len();
        let came = (number * 60_000).min(object.len() as u64);
        assert!(written <= came && came - written <= PIECE_BYTES as u64, "{written} of {came}");
    }
    let part = slot.unwrap();
    assert_eq!(part.bytes(), object.len() as u64);
    assert!(matches!(part.finish().unwrap(), Finished::Written { .. }));
    assert!(std::fs::read(&path).unwrap() == object);
}

#[test]
fn what_was_verified_elsewhere_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("survey.tif");
    for is_trusted in [true, false] {
        let mut part = PartialFile::create(&path, whole(b"whole file")).unwrap();
        part.write(b"whale file").unwrap();
        if is_trusted {
            part.mark_verified();
        }
        assert_eq!(part.finish().is_ok(), is_trusted);
    }
}

#[test]
fn overlong_object_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("survey.tif");
    // A sender that sends more than it announced loses the part, even if the digest would fit.
    let mut part = PartialFile::create(&path, ObjectIdentity { length: 5, ..whole(b"whole file") }).unwrap();
    part.write(b"whole").unwrap();
    assert!(matches!(part.write(b" file"), Err(SinkError::Overlong { length: 5, .. })));
    assert_eq!(std::fs::metadata(folder.path().join("survey.tif.part")).unwrap().len(), 5);
    assert!(matches!(part.finish(), Err(SinkError::Damaged { .. })));
}

#[test]
fn renamed_part_is_not_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("survey.tif"), folder.path().join("survey.tif.part"));
    let mut part = PartialFile::create(&path, whole(b"whole file")).unwrap();
    part.write(b"whole file").unwrap();
    let late = OpenOptions::new().read(true).write(true).open(&at).unwrap();
    assert!(matches!(claim(&late, &at), Err(SinkError::InUse { .. })));
    part.finish().unwrap();
    assert!(!claim(&late, &at).unwrap(), "it is the finished file");
    // Nor if another part has taken its place.
    let fresh = PartialFile::create(&path, whole(b"another")).unwrap();
    assert!(!claim(&late, &at).unwrap());
    fresh.discard();
    assert!(!claim(&fresh.file, &at).unwrap(), "it was removed");
    assert_eq!(std::fs::read(&path).unwrap(), b"whole file");
}

#[test]
fn symlink_at_part_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("survey.tif"), folder.path().join("other"));
    std::fs::write(&other, "precious").unwrap();
    for name in ["survey.tif.part", "survey.tif.part.json"] {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(matches!(PartialFile::create(&path, whole(b"new")), Err(SinkError::Unwritable { .. })), "{name}");
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(std::fs::read(&other).unwrap(), b"precious");
}
