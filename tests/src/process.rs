//! The real binaries, run as an operator would run them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub use roost_wait::{free_port, wait_until};

/// The path of a binary of this workspace, built beside the tests.
///
/// # Panics
/// Panics if it has not been built: `cargo test` alone does not build the binaries of other packages, `scripts/test`
/// does.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let path = test.ancestors().nth(2).expect("tests run from target/PROFILE/deps").join(name);
    assert!(path.exists(), "{} is missing: run scripts/test, or cargo build --workspace --bins first", path.display());
    path
}

/// Runs a binary to its end.
pub fn run(name: &str, arguments: &[&str]) -> Output {
    Command::new(binary(name)).args(arguments).stdin(Stdio::null()).output().expect("the binary starts")
}

/// Sends a signal, such as `TERM`, to a process that a test has started.
///
/// # Panics
/// Panics if the process has ended.
pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "could not send SIG{name}");
}

/// A daemon or a helper program that is killed when it goes out of scope.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both its outputs in the file `log`.
    pub fn start(mut command: Command, log: PathBuf) -> io::Result<Self> {
        let file = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(Self { child: command.spawn()?, log })
    }

    /// The output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True until the process has ended.
    pub fn is_running(&self) -> bool {
        Path::new(&format!("/proc/{}", self.id())).exists()
    }

    /// The resident memory, KiB.
    ///
    /// # Panics
    /// Panics if the process has ended.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let words = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says it");
        words.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal by its name (`TERM`, `HUP`, `STOP`, `CONT`).
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Waits for the end. Returns the exit code, or `None` when `within` has passed or a signal ended the process.
    pub fn wait(&mut self, within: Duration) -> Option<i32> {
        wait_until(within, || self.child.try_wait().ok().flatten()).and_then(|status| status.code())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Every file under a folder, in order of their names.
pub fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}
