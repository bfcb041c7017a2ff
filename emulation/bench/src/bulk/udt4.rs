//! An endless object by UDT4: a short program over Debian's libudt, compiled before the measurement.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

use super::arrivals::ByteArrivals;
use super::{BulkFlow, LOOK};

const SOURCE: &str = include_str!("udt4.cpp");

/// The compiled program, which lives as long as this value.
pub(super) struct Udt4 {
    folder: TempDir,
}

impl Udt4 {
    /// Compiles it.
    ///
    /// # Errors
    /// A sentence, if the compiler or the library is missing.
    pub(super) fn compile() -> Result<Self, String> {
        let missing = |why: String| format!("UDT4 is not measured: {why}; install g++ and libudt-dev");
        let folder = tempfile::tempdir().map_err(|error| missing(format!("no folder for it ({error})")))?;
        let source = folder.path().join("udt4.cpp");
        fs::write(&source, SOURCE).map_err(|error| missing(format!("it cannot be written ({error})")))?;
        let program = Self { folder };
        let compiled = Command::new("g++")
            .args(["-O2", "-o"])
            .arg(program.path())
            .arg(&source)
            .args(["-ludt", "-lpthread"])
            .output();
        let compiled = compiled.map_err(|error| missing(format!("g++ does not start ({error})")))?;
        let said = String::from_utf8_lossy(&compiled.stderr);
        let first = said.lines().find(|line| line.contains("error")).unwrap_or("g++ failed").to_owned();
        if compiled.status.success() { Ok(program) } else { Err(missing(first)) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("udt4")
    }

    pub(super) fn send(&self, flow: &BulkFlow<'_>, to: Ipv4Addr) -> io::Result<()> {
        // The receiver needs a moment to listen; the sender retries only every quarter of a second.
        thread::sleep(LOOK);
        let mut child = Udt4Process::start(&self.path(), &["send", &to.to_string(), &flow.port.to_string()])?;
        child.wait(flow)
    }

    pub(super) fn receive(&self, flow: &BulkFlow<'_>, arrivals: &ByteArrivals) -> io::Result<()> {
        let mut child = Udt4Process::start(&self.path(), &["receive", &flow.port.to_string()])?;
        let output = child.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        thread::scope(|scope| {
            scope.spawn(|| {
                for bytes in BufReader::new(output).lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
                    arrivals.record_bytes(bytes);
                }
            });
            let ended = child.wait(flow);
            drop(child);
            ended
        })
    }
}

/// A process that is killed when this value is dropped.
struct Udt4Process(Child);

impl Udt4Process {
    fn start(program: &Path, words: &[&str]) -> io::Result<Self> {
        Command::new(program).args(words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map(Self)
    }

    /// Waits until the run is over, or the process has ended by itself.
    fn wait(&mut self, flow: &BulkFlow<'_>) -> io::Result<()> {
        while !flow.is_over() {
            if let Some(status) = self.0.try_wait()? {
                return Err(io::Error::other(format!("UDT4 ended early: {status}")));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Udt4Process {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
