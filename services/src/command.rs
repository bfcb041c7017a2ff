//! A command whose output is an object.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::SourceError;
use crate::error::plain;

/// A command that takes longer is ended.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes kept from the end of a command's standard error, for the error message.
const MAX_COMPLAINT: usize = 400;

/// Runs `sh -c COMMAND` without input and returns its standard output.
///
/// The command and all that it started are killed when it takes longer than 30 s, gives more than
/// `limit_bytes`, or when the caller no longer waits.
///
/// # Errors
/// The command failed, was too slow or gave too much; the reason quotes the end of its standard error.
pub(crate) async fn run(command: &str, limit_bytes: usize) -> Result<Vec<u8>, SourceError> {
    let failed = |reason: String| SourceError::Command { command: command.to_owned(), reason };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).process_group(0).kill_on_drop(true);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().map_err(|error| failed(format!("cannot be started: {}", plain(&error))))?;
    let mut group = ProcessGroup(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(failed("has no output".to_owned()));
    };
    let finished = async {
        let (output, complaint) = tokio::join!(read_limited(stdout, limit_bytes), read_end(stderr));
        // A command that was cut off is not waited for, since it may never end; dropping `group` kills it.
        let status = if matches!(output, Ok(Some(_))) { Some(child.wait().await) } else { None };
        (output, complaint, status)
    };
    let Ok((output, complaint, status)) = tokio::time::timeout(TIMEOUT, finished).await else {
        return Err(failed(format!("took longer than {} s and was ended", TIMEOUT.as_secs())));
    };
    let output = output.map_err(|error| failed(format!("cannot be read: {}", plain(&error))))?;
    let (Some(output), Some(status)) = (output, status) else {
        return Err(SourceError::TooLarge { from: format!("the command {command:?}"), limit_bytes });
    };
    let status = status.map_err(|error| failed(format!("is lost: {}", plain(&error))))?;
    if !status.success() {
        return Err(failed(format!("failed ({status}){complaint}")));
    }
    group.0 = None;
    if output.is_empty() { Err(failed(format!("wrote nothing to its standard output{complaint}"))) } else { Ok(output) }
}

/// The processes of a command, killed when this is dropped before they are done.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // The group may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads to the end, or returns `None` if there are more than `limit` bytes.
async fn read_limited(input: impl AsyncRead + Unpin, limit: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut output = Vec::new();
    input.take(limit as u64 + 1).read_to_end(&mut output).await?;
    Ok((output.len() <= limit).then_some(output))
}

/// Reads to the end and keeps the last [`MAX_COMPLAINT`] bytes, as the tail of a sentence.
async fn read_end(mut input: impl AsyncRead + Unpin) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(length @ 1..) = input.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..length]);
        let surplus = kept.len().saturating_sub(MAX_COMPLAINT);
        kept.drain(..surplus);
    }
    let text = String::from_utf8_lossy(&kept);
    let lines: Vec<_> = text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { String::new() } else { format!(": {}", lines.join("; ")) }
}

#[cfg(test)]
mod tests {
    use roost_wait::eventually;

    use super::*;

    #[tokio::test]
    async fn output_comes_and_failures_say_why() {
        assert_eq!(run("printf abc", 3).await, Ok(b"abc".to_vec()));
        let error = run("echo one >&2; echo two >&2; exit 3", 10).await.unwrap_err().to_string();
        assert!(error.contains("failed (exit status: 3): one; two"), "{error}");
        let error = run("true", 10).await.unwrap_err().to_string();
        assert!(error.contains("wrote nothing"), "{error}");
        let error = run("no-such-program-here", 10).await.unwrap_err().to_string();
        assert!(error.contains("not found"), "{error}");
    }

    #[tokio::test]
    async fn endless_output_is_cut_off() {
        let error = run("yes 2>/dev/null", 1000).await.unwrap_err();
        assert!(matches!(error, SourceError::TooLarge { limit_bytes: 1000, .. }), "{error}");
    }

    #[tokio::test]
    async fn cancelled_command_is_killed_with_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let command = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        let running = tokio::spawn(async move { run(&command, 10).await });
        let patience = Duration::from_secs(20);
        let started = || std::fs::read_to_string(&pid).ok()?.trim().parse::<i32>().ok();
        let child = eventually(patience, started).await.unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        let status = format!("/proc/{child}/stat");
        let runs = || std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(eventually(patience, || (!runs()).then_some(())).await.is_some(), "{child} lives");
    }
}
