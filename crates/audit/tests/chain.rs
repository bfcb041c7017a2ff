//! Chains of audit records: changes are found, files are rotated, and a crash or a full disk ends no chain.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use roost_audit::{AuditEvent, AuditKind, AuditLog, AuditRecorder, Limits, read, verify};

const SMALL: Limits = Limits { file_bytes: 2_000, files: 3 };

fn event(number: usize) -> AuditEvent {
    AuditEvent::new(AuditKind::MemberJoined).about("6f0c", Some("uav7")).with("number", number)
}

fn events(count: usize) -> Vec<AuditEvent> {
    (0..count).map(event).collect()
}

fn log(dir: &Path) -> PathBuf {
    dir.join("audit.log")
}

fn chain() -> (tempfile::TempDir, PathBuf, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    AuditLog::open(&path, Limits::default()).unwrap().append(&events(10)).unwrap();
    let report = verify(std::slice::from_ref(&path), None).unwrap();
    assert_eq!((report.records, report.first, report.last, report.faults.len()), (10, 1, 10, 0));
    (dir, path, report.tip)
}

fn faults(path: &PathBuf, tip: &str) -> Vec<String> {
    let report = verify(std::slice::from_ref(path), Some(tip)).unwrap();
    report.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn every_changed_byte_is_found() {
    let (_dir, path, tip) = chain();
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).unwrap();
        let report = verify(std::slice::from_ref(&path), Some(&tip)).unwrap();
        let line = good[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        assert!(report.faults.first().is_some_and(|fault| fault.line.abs_diff(line) <= 1), "byte {at}: {report:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn deleted_and_moved_lines_are_found(one in 0..10_usize, other in 0..10_usize) {
        let (_dir, path, tip) = chain();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut fewer = lines.clone();
        fewer.remove(one);
        fs::write(&path, fewer.join("\n") + "\n").unwrap();
        // A chain may begin later, when the oldest files are gone.
        let report = verify(std::slice::from_ref(&path), Some(&tip)).unwrap();
        prop_assert!(!report.faults.is_empty() || report.first == 2 && one == 0);
        if one != other {
            let mut moved = lines.clone();
            moved.swap(one, other);
            fs::write(&path, moved.join("\n") + "\n").unwrap();
            prop_assert!(!faults(&path, &tip).is_empty());
        }
        let mut twice = lines;
        twice.insert(other, twice[one]);
        fs::write(&path, twice.join("\n") + "\n").unwrap();
        prop_assert!(!faults(&path, &tip).is_empty());
    }
}

#[test]
fn missing_end_is_seen_with_digest_only() {
    let (_dir, path, tip) = chain();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&path, lines[..8].join("\n") + "\n").unwrap();
    assert!(verify(std::slice::from_ref(&path), None).unwrap().faults.is_empty());
    assert!(faults(&path, &tip)[0].contains("audit.log:8: the chain does not end with the digest given"));
    fs::write(&path, [&lines[..4], &lines[6..]].concat().join("\n") + "\n").unwrap();
    assert!(faults(&path, &tip)[0].ends_with("audit.log:5: records 5 to 6 are missing before this line"));
}

#[test]
fn rotated_files_continue_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let mut log = AuditLog::open(&path, SMALL).unwrap();
    let files = [path.clone(), dir.path().join("audit.log.1"), dir.path().join("audit.log.2")];
    for batch in 0..20 {
        log.append(&events(3)).unwrap();
        let there: Vec<PathBuf> = files.iter().filter(|file| file.exists()).cloned().collect();
        let report = verify(&there, None).unwrap();
        assert_eq!((report.last, report.faults.len()), (3 * (batch + 1), 0), "{report:?}");
    }
    assert!(!dir.path().join("audit.log.3").exists());
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= SMALL.file_bytes));
    assert!(verify(&files, None).unwrap().first > 1);
    fs::remove_file(&files[1]).unwrap();
    let report = verify(&[files[0].clone(), files[2].clone()], None).unwrap();
    assert!(report.faults[0].message.contains("are missing before this line"), "{report:?}");
    // A crash between the renaming and the first line of the new file.
    fs::rename(&files[0], &files[1]).unwrap();
    let mut log = AuditLog::open(&path, SMALL).unwrap();
    log.append(&events(1)).unwrap();
    assert_eq!(verify(&files[..2], None).unwrap().faults, []);
}

#[test]
fn torn_line_is_no_tampering() {
    let (_dir, path, tip) = chain();
    let good = fs::read(&path).unwrap();
    let line = good.iter().rev().skip(1).position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in 1..line {
        fs::write(&path, &good[..good.len() - cut]).unwrap();
        let report = verify(std::slice::from_ref(&path), None).unwrap();
        assert_eq!((report.torn.as_ref(), report.faults.len(), report.records), (Some(&path), 0, 9), "{cut}");
        AuditLog::open(&path, Limits::default()).unwrap().append(&events(1)).unwrap();
        let report = verify(std::slice::from_ref(&path), None).unwrap();
        assert_eq!((report.torn, report.faults.len(), report.records), (None, 0, 11), "{cut}");
        assert_ne!(report.tip, tip);
    }
    let kinds: Vec<String> = read(&[path]).unwrap().into_iter().map(|record| record.kind).collect();
    assert_eq!(kinds[9], "line-torn");
}

#[test]
fn processes_share_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let limits = Limits { file_bytes: 4_000, files: 100 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut log = AuditLog::open(&path, limits).unwrap();
                (0..25).for_each(|number| log.append(&[event(number)]).unwrap());
            });
        }
    });
    let files: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let report = verify(&files, None).unwrap();
    assert_eq!((report.records, report.faults.len()), (100, 0), "{report:?}");
}

#[test]
fn file_moved_away_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ended) = (log(dir.path()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for pause in (0..3_000).cycle().take_while(|_| !ended.load(Relaxed)) {
                (0..pause).for_each(|_| std::hint::spin_loop());
                let _ = fs::rename(&path, dir.path().join("moved"));
            }
        });
        let open = || (0..5_000).map(|_| AuditLog::open(&path, Limits::default())).find(Result::is_err);
        let opened = std::panic::catch_unwind(open);
        ended.store(true, Relaxed);
        assert!(matches!(opened, Ok(None)), "{opened:?}");
    });
}

#[test]
fn dangling_link_is_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    std::os::unix::fs::symlink(dir.path().join("missing").join("file"), &path).unwrap();
    assert!(AuditLog::open(&path, Limits::default()).is_err());
}

#[test]
fn rotation_disturbs_no_verification() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let limits = Limits { file_bytes: 600, files: 5 };
    let numbered = (1..limits.files).map(|number| dir.path().join(format!("audit.log.{number}")));
    let files: Vec<PathBuf> = std::iter::once(path.clone()).chain(numbered).collect();
    AuditLog::open(&path, limits).unwrap().append(&events(20)).unwrap();
    std::thread::scope(|scope| {
        let write = || {
            let mut log = AuditLog::open(&path, limits).unwrap();
            (0..400).for_each(|number| log.append(&[event(number)]).unwrap());
        };
        let writers = [scope.spawn(write), scope.spawn(write)];
        while !writers.iter().all(|writer| writer.is_finished()) {
            let report = verify(&files, None).unwrap();
            assert_eq!((report.torn, report.faults), (None, vec![]));
        }
    });
    assert_eq!(verify(&files, None).unwrap().last, 820);
}

#[test]
fn long_rest_without_newline_is_torn() {
    let (_dir, path, _) = chain();
    let good = fs::read(&path).unwrap();
    for rest in [20_000, 32_769, 200_000] {
        fs::write(&path, [&good[..], &vec![0; rest]].concat()).unwrap();
        let report = verify(std::slice::from_ref(&path), None).unwrap();
        assert_eq!((report.torn.as_ref(), report.faults.len(), report.records), (Some(&path), 0, 10), "{rest}");
        AuditLog::open(&path, Limits::default()).unwrap().append(&events(1)).unwrap();
        let report = verify(std::slice::from_ref(&path), None).unwrap();
        assert_eq!((report.torn, report.faults, report.records), (None, vec![], 12), "{rest}");
        assert_eq!(read(std::slice::from_ref(&path)).unwrap()[10].details["bytes"], rest);
    }
}

#[test]
fn full_queue_is_waited_for_or_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let recorder = AuditRecorder::start(&path, Limits::default()).unwrap();
    let disk = fs::File::open(&path).unwrap();
    disk.lock().unwrap();
    (0..6_000).for_each(|number| recorder.record(event(number)));
    assert_eq!(recorder.finish(Duration::from_millis(50)), 6_000);
    std::thread::scope(|scope| {
        let finished = scope.spawn(|| recorder.finish(Duration::from_secs(20)));
        disk.unlock().unwrap();
        assert_eq!(finished.join().unwrap(), 0);
    });
    let report = verify(&[path], None).unwrap();
    let counts = read(&[log(dir.path())]).unwrap().iter().filter(|record| record.kind == "records-dropped").count();
    assert_eq!((report.records - counts) as u64 + report.dropped, 6_000);
    assert!(report.dropped > 0);
}

#[test]
fn long_details_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let mut log = AuditLog::open(&path, Limits::default()).unwrap();
    log.append(&[event(0).with("text", "x".repeat(20_000)), event(1)]).unwrap();
    let records = read(std::slice::from_ref(&path)).unwrap();
    assert!(records[0].details["left_out_bytes"].as_u64().unwrap() > 20_000);
    assert_eq!(verify(&[path], None).unwrap().faults, []);
}

#[test]
fn recorder_writes_what_it_took() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let recorder = AuditRecorder::start(&path, Limits::default()).unwrap();
    (0..500).for_each(|number| recorder.record(event(number)));
    assert_eq!(recorder.finish(Duration::from_secs(20)), 0);
    let report = verify(&[path], None).unwrap();
    assert_eq!((report.records, report.faults.len()), (500, 0));
    AuditRecorder::default().record(event(0));
}

/// Runs under a limit of file sizes, which stands for a full disk; see [`full_disk_costs_records_only`].
#[test]
#[ignore = "another test runs it, in a process with a limit"]
fn writes_beyond_the_limit() {
    let path = PathBuf::from(std::env::var_os("ROOST_AUDIT_TEST").unwrap());
    let mut log = AuditLog::open(&path, Limits::default()).unwrap();
    let failed = (0..100).filter(|number| log.append(&[event(*number)]).is_err()).count();
    assert!(failed > 0);
    // Room again: the oldest lines stay, the count of the lost ones comes.
    let kept = fs::read(&path).unwrap();
    fs::rename(&path, path.with_extension("full")).unwrap();
    log.append(&[event(100)]).unwrap();
    assert!(kept.ends_with(b"\n"), "no part of a line stays");
}

#[test]
fn full_disk_costs_records_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path());
    let program = std::env::current_exe().unwrap();
    // Blocks of 512 bytes. The signal of the limit is ignored, as a full disk sends none.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --ignored --exact writes_beyond_the_limit";
    let run = Command::new("sh").args(["-c", script]).arg(&program).env("ROOST_AUDIT_TEST", &path).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    let report = verify(&[path.with_extension("full")], None).unwrap();
    assert_eq!((report.torn, report.faults.len()), (None, 0));
    let records = read(std::slice::from_ref(&path)).unwrap();
    assert_eq!(verify(&[path.with_extension("full"), path], None).unwrap().faults, []);
    assert_eq!(records[0].kind, "records-dropped");
    assert_eq!(records[0].details["count"].as_u64().unwrap() as usize, 100 - report.records);
}
