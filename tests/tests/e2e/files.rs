//! Objects that are large: read while they are sent, gone on with after any
//! break, verified; with the real daemons.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use roost_tests::network::{Client, Daemon, Network, PATIENCE, text};
use roost_tests::process::{binary, wait_until};
use roost_wait::unchanged;
use serde_json::Value;

const MB: u64 = 1_000_000;

/// A file of which no two pieces are alike.
fn survey(path: &Path, bytes: u64) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for number in 0..bytes / 8 {
        let word = (number ^ bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        file.write_all(&word.to_le_bytes()).unwrap();
    }
    file.flush().unwrap();
}

fn same(a: &Path, b: &Path) -> bool {
    let mut files = [a, b].map(|path| File::open(path).unwrap());
    if files[0].metadata().unwrap().len() != files[1].metadata().unwrap().len() {
        return false;
    }
    let mut pieces = [vec![0; 1 << 20], vec![0; 1 << 20]];
    loop {
        let read = files[0].read(&mut pieces[0]).unwrap();
        if read == 0 {
            return true;
        }
        files[1].read_exact(&mut pieces[1][..read]).unwrap();
        if pieces[0][..read] != pieces[1][..read] {
            return false;
        }
    }
}

/// Resident memory of a process, bytes: `VmRSS` now, `VmHWM` the most so far.
fn memory(of: &Daemon, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", of.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A super node, a provider of a file, and somebody who asks for it.
struct Trio {
    network: Network,
    hub: Daemon,
    source: PathBuf,
    provider: Daemon,
    requester: Daemon,
    file: PathBuf,
}

impl Trio {
    fn new(bytes: u64) -> Self {
        let network = Network::new();
        let hub = network.supernode("sn1", &[]);
        let (source, file) = (network.path("survey.tif"), network.path("got.tif"));
        survey(&source, bytes);
        let image = format!("file:{}", text(&source));
        let endpoint = hub.endpoint("udp");
        let provider = network.node("p", "5,5", &["--super", &endpoint, "--sources-image", &image]);
        let requester = network.node("r", "1,1", &["--super", &endpoint]);
        Self { network, hub, source, provider, requester, file }
    }

    /// Starts a daemon again that was killed.
    fn again(&self, name: &str, at: &str, more: &[&str]) -> Daemon {
        let endpoint = self.hub.endpoint("udp");
        let arguments = [&["--at", at, "--super", &endpoint], more].concat();
        self.network.start("overlay-node", name, &self.network.path(&format!("id-{name}")), &arguments).ready()
    }

    fn ask(&self) -> [String; 6] {
        ["request", "image", "--at", "5,5", "-o", &text(&self.file)].map(str::to_owned)
    }

    fn start(&self) -> Child {
        let words = self.ask();
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--json", "--progress"]).collect();
        let mut request = self.requester.command(&words);
        request.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts the request, and waits until so much of the file is there.
    fn start_until(&self, bytes: u64) -> Child {
        let mut child = self.start();
        let there = wait_until(PATIENCE, || (length(&part(&self.file)) >= bytes).then_some(()));
        let ended = child.try_wait().unwrap();
        assert!(there.is_some() && ended.is_none(), "{ended:?}: {} bytes", length(&part(&self.file)));
        child
    }

    /// Asks until it is served, and insists on the whole file.
    fn get(&self) -> Value {
        let child = self.start();
        let report = came(child);
        assert!(same(&self.source, &self.file), "{report}");
        assert!(!part(&self.file).exists());
        report
    }
}

fn part(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.part", file.display()))
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

#[track_caller]
fn came(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", output.status);
    let lines: Vec<Value> =
        output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let (report, progress) = lines.split_last().expect("a report");
    let far: Vec<u64> = progress.iter().map(|line| line["bytes"].as_u64().unwrap()).collect();
    assert!(far.is_sorted() && progress.iter().all(|line| line["event"] == "progress"), "{progress:?}");
    // A line from before the provider's answer has no percent.
    assert!(progress.iter().all(|line| line["percent"].as_f64().is_none_or(|part| part <= 100.0)), "{progress:?}");
    report.clone()
}

/// Ends it as the system would, without a word.
fn kill(mut child: Child) {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn large_file_transfers_in_bounded_memory() {
    let trio = Trio::new(200 * MB);
    let before = [&trio.provider, &trio.requester].map(|daemon| memory(daemon, "VmRSS"));
    let report = trio.get();
    assert_eq!(report["summary"]["bytes"], 200 * MB, "{report}");
    assert_eq!(report["summary"]["digest_ok"], true, "{report}");
    for (daemon, before) in [&trio.provider, &trio.requester].into_iter().zip(before) {
        let grown = memory(daemon, "VmHWM").saturating_sub(before);
        println!("from {before} by {grown} bytes");
        assert!(grown < 64 << 20, "from {before} by {grown} bytes");
    }
}

#[test]
fn transfer_resumes_after_any_kill() {
    let mut trio = Trio::new(120 * MB);
    kill(trio.start_until(10 * MB));

    let child = trio.start_until(30 * MB);
    trio.requester.process.kill();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(3));
    trio.requester = trio.again("r", "1,1", &[]);

    let child = trio.start_until(50 * MB);
    trio.provider.process.kill();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(7) && said.contains("incomplete after"), "{:?}: {said}", output.status);
    assert!(!trio.file.exists());
    let image = format!("file:{}", text(&trio.source));
    trio.provider = trio.again("p", "5,5", &["--sources-image", &image]);

    let report = trio.get();
    let resumed = report["resumed_at"].as_u64().unwrap();
    assert!(resumed >= 50 * MB, "{report}");
    assert_eq!(report["summary"]["bytes"].as_u64().unwrap() + resumed, 120 * MB, "{report}");
    assert_eq!(report["summary"]["digest_ok"], true, "{report}");
}

#[test]
fn damaged_part_is_discarded() {
    let trio = Trio::new(50 * MB);
    kill(trio.start_until(10 * MB));
    let mut damaged = OpenOptions::new().write(true).open(part(&trio.file)).unwrap();
    damaged.seek(SeekFrom::Start(1_000_000)).unwrap();
    damaged.write_all(b"rubbish").unwrap();
    let ask = trio.ask();
    let said = trio.requester.fails(7, &ask.each_ref().map(String::as_str));
    assert!(said.contains("SHA-256 differs") && said.contains("removed"), "{said}");
    assert!(!trio.file.exists() && !part(&trio.file).exists());
    assert_eq!(trio.get()["resumed_at"], Value::Null);
}

#[test]
fn changed_file_is_never_mixed() {
    let trio = Trio::new(60 * MB);
    let child = trio.start_until(10 * MB);
    OpenOptions::new().append(true).open(&trio.source).unwrap().write_all(b"more").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(7) && said.contains("file changed"), "{:?}: {said}", output.status);
    let log = trio.provider.log();
    assert!(log.contains("survey.tif changed while it was being read"), "{log}");
    let output = trio.start().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("anew"), "{:?}: {said}", output.status);
    assert!(same(&trio.source, &trio.file));
}

/// In a namespace of its own, which this machine must allow, the command has a
/// disk of its own, too small at first.
#[test]
fn transfer_resumes_after_full_disk() {
    let trio = Trio::new(60 * MB);
    let disk = trio.network.path("disk");
    fs::create_dir(&disk).unwrap();
    let (binary, socket) = (text(&binary("roost")), text(&trio.requester.socket));
    let get = format!("{binary} --socket {socket} request image --at 5,5 --json -o got.tif");
    let script = format!(
        "mount -t tmpfs -o size=20m tmpfs {disk} && cd {disk} && {get}; echo exit $?; stat -c 'left %s' got.tif.part; \
         mount -o remount,size=80m {disk} && {get}; echo exit $?; cmp got.tif {source} && echo same",
        disk = text(&disk),
        source = text(&trio.source),
    );
    let output = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &script]).output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("exit 1\nleft ") && out.contains("exit 0\nsame"), "{out}\n{said}");
    assert!(said.contains("there is no room left"), "{out}\n{said}");
    let resumed =
        out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()?["resumed_at"].as_u64()).next_back();
    assert!(resumed.is_some_and(|bytes| bytes > 15 * MB), "{out}\n{said}");
}

#[test]
fn other_provider_continues_same_file() {
    let mut trio = Trio::new(80 * MB);
    let image = format!("file:{}", text(&trio.source));
    let child = trio.start_until(10 * MB);
    trio.provider.process.kill();
    let other = ["--super", &trio.hub.endpoint("udp"), "--sources-image", &image];
    let _other = trio.network.node("q", "5,5", &other);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(same(&trio.source, &trio.file));
}

#[test]
fn stopped_reader_stalls_provider() {
    let trio = Trio::new(60 * MB);
    let mut child = trio.start_until(10 * MB);
    let signal = |name: &str| {
        let status = std::process::Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
        assert!(status.unwrap().success());
    };
    signal("STOP");
    let sent = |daemon: &Client| daemon.status()?["providing"].as_array()?.first()?["bytes"].as_u64();
    // Chunks that are on their way come; then nothing does, and the provider still waits.
    let mut unchanged = unchanged(std::time::Duration::from_secs(2));
    let still = wait_until(PATIENCE, || unchanged(sent(&trio.provider)));
    assert!(still.flatten().is_some_and(|bytes| bytes < 60 * MB), "{still:?}");
    signal("CONT");
    assert!(child.wait().unwrap().success());
    assert!(same(&trio.source, &trio.file));
}

/// The provider falls silent in the middle, as a host whose power fails.
#[test]
fn frozen_provider_is_reported_in_time() {
    let trio = Trio::new(80 * MB);
    let words = trio.ask();
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--patience", "3s"]).collect();
    let mut request = trio.requester.command(&words);
    let mut child = request.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let there = wait_until(PATIENCE, || (length(&part(&trio.file)) >= 10 * MB).then_some(()));
    assert!(there.is_some() && child.try_wait().unwrap().is_none(), "{}", trio.requester.log());
    trio.provider.process.signal("STOP");
    let began = std::time::Instant::now();
    let output = child.wait_with_output().unwrap();
    let took = began.elapsed();
    trio.provider.process.signal("CONT");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("incomplete after") && said.contains("the provider fell silent"), "{said}");
    assert!(took >= std::time::Duration::from_secs(2) && took < PATIENCE, "{took:?}: {said}");
}

/// A disk that fills up under a stream: it is said, and what came is kept.
#[test]
fn full_disk_ends_stream_with_error() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let _provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video"]);
    let requester = network.node("r", "1,1", &["--super", &endpoint]);
    let disk = network.path("disk");
    fs::create_dir(&disk).unwrap();
    let (binary, socket) = (text(&binary("roost")), text(&requester.socket));
    let script = format!(
        "mount -t tmpfs -o size=400k tmpfs {disk} && cd {disk} && \
         {binary} --socket {socket} request video --at 5,5 --for 60s -o clip.ts; echo exit $?; ls",
        disk = text(&disk),
    );
    let output = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &script]).output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("exit 1\n") && !out.lines().any(|line| line == "clip.ts"), "{out}\n{said}");
    assert!(said.contains("cannot write clip.ts.part: there is no room left"), "{out}\n{said}");
    assert!(out.lines().any(|line| line == "clip.ts.part"), "{out}\n{said}");
}
