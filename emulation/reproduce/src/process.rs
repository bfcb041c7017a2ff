//! Another process of this program, which is run to its end.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The interval at which its end is checked.
const LOOK: Duration = Duration::from_millis(100);
/// The time for an interrupted process to remove its lab.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest output that is read, bytes.
const MAX_OUTPUT: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct EmulateOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    /// Mostly errors.
    pub(super) stderr: String,
}

/// Runs `emulate WORDS` to its end; `None` if `interrupt` was set, and then it has ended as well.
///
/// # Errors
/// Fails when it cannot be started or waited for.
pub(super) fn run(words: &[impl AsRef<OsStr>], interrupt: &AtomicBool) -> io::Result<Option<EmulateOutput>> {
    // Temporary files, since a full pipe would block a process that prints much.
    let (mut printed, mut said) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .stderr(said.try_clone()?)
        .spawn()?;
    let Some(status) = wait(&mut child, interrupt, PATIENCE)? else { return Ok(None) };
    Ok(Some(EmulateOutput { status, stdout: read(&mut printed)?, stderr: read(&mut said)? }))
}

/// Waits for its end; `None` if it was interrupted. Then it has `patience` to end by itself.
fn wait(child: &mut Child, interrupt: &AtomicBool, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let mut until: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!interrupt.load(Ordering::Relaxed)).then_some(status));
        }
        match until {
            None if interrupt.load(Ordering::Relaxed) => {
                // If Ctrl-C came from a terminal, it has had the signal as well.
                if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    // A process that is gone needs no signal.
                    let _ = kill_process(id, Signal::INT);
                }
                until = Some(Instant::now() + patience);
            }
            Some(until) if Instant::now() >= until => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            _ => {}
        }
        thread::sleep(LOOK);
    }
}

fn read(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unresponsive_process_is_killed() {
        let deaf = ["-c", "trap '' INT; echo deaf; exec sleep 60"];
        let mut child = Command::new("sh").args(deaf).stdout(Stdio::piped()).spawn().unwrap();
        let mut word = [0; 5];
        child.stdout.take().unwrap().read_exact(&mut word).unwrap();
        let begun = Instant::now();
        assert!(wait(&mut child, &AtomicBool::new(true), Duration::from_millis(200)).unwrap().is_none());
        assert!(begun.elapsed() < Duration::from_secs(30) && child.try_wait().unwrap().is_some());
    }

    #[test]
    fn one_that_ends_has_its_status() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let status = wait(&mut child, &AtomicBool::new(false), PATIENCE).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }
}
