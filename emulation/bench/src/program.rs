//! Independent programs, run inside hosts.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use roost_lab::{Lab, LabError};
use roost_topology::model::HostIndex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use super::BenchError;

/// The interval at which a program's end is checked, rare enough not to affect the measurement.
const LOOK: Duration = Duration::from_millis(20);
/// The longest time until a program is ready.
const READY: Duration = Duration::from_secs(5);
/// Folders of programs that may not be on a user's path.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// The state of a TCP socket that listens, in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A program, and its package in Debian and Ubuntu.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    package: &'static str,
}

pub(super) const PING: Tool = Tool { name: "ping", package: "iputils-ping" };
pub(super) const IPERF3: Tool = Tool { name: "iperf3", package: "iperf3" };
pub(super) const TCPDUMP: Tool = Tool { name: "tcpdump", package: "tcpdump" };
pub(super) const SHELL: Tool = Tool { name: "sh", package: "dash" };

/// A program for comparison, which is compiled before its measurement.
pub(super) struct SourceProgram {
    /// For the sentence that it is not measured.
    pub(super) subject: &'static str,
    pub(super) source: &'static str,
    /// The file's name, whose ending tells the compiler the language.
    pub(super) file: &'static str,
    pub(super) compiler: &'static str,
    pub(super) libraries: &'static [&'static str],
    /// Packages of compiler and libraries.
    pub(super) packages: &'static str,
}

/// A folder with the compiled program, which goes when this value is dropped.
pub(super) struct CompiledProgram(TempDir);

impl SourceProgram {
    /// # Errors
    /// A sentence, if the compiler or a library is missing.
    pub(super) fn compile(&self) -> Result<CompiledProgram, String> {
        let Self { subject, compiler, packages, .. } = self;
        let missing = |why: String| format!("{subject} is not measured: {why}; install {packages}");
        let folder = tempfile::tempdir().map_err(|error| missing(format!("no folder for it ({error})")))?;
        let source = folder.path().join(self.file);
        fs::write(&source, self.source).map_err(|error| missing(format!("it cannot be written ({error})")))?;
        let program = CompiledProgram(folder);
        let mut command = Command::new(compiler);
        command.args(["-O2", "-o"]).arg(program.path()).arg(&source).args(self.libraries);
        let compiled = command.output().map_err(|error| missing(format!("{compiler} does not start ({error})")))?;
        let said = String::from_utf8_lossy(&compiled.stderr);
        let first = said.lines().find(|line| line.contains("error"));
        let first = first.map_or_else(|| format!("{compiler} failed"), str::to_owned);
        if compiled.status.success() { Ok(program) } else { Err(missing(first)) }
    }
}

impl CompiledProgram {
    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("program")
    }
}

/// A process that is killed when this value is dropped.
pub(super) struct OwnedProcess(pub(super) Child);

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ToolError {
    /// The program is missing or failed: its rows are not measured.
    #[error("{0}")]
    NotMeasured(String),
    /// The lab or the system is at fault: nothing can be measured.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

impl From<LabError> for ToolError {
    fn from(error: LabError) -> Self {
        Self::Bench(error.into())
    }
}

impl ToolError {
    /// The reason for not measuring a row; an error of the bench is passed on.
    pub(super) fn reason(self) -> Result<String, BenchError> {
        match self {
            Self::NotMeasured(why) => Ok(why),
            Self::Bench(error) => Err(error),
        }
    }
}

/// A program that runs in a host. It is killed if it is dropped before its end.
pub(super) struct ToolProcess {
    tool: Tool,
    child: Child,
    /// Files, so that the program never waits for a reader.
    output: File,
    errors: File,
}

pub(super) struct ToolOutput {
    pub(super) output: Vec<u8>,
    pub(super) errors: String,
    pub(super) success: bool,
}

impl ToolProcess {
    pub(super) fn start(lab: &Lab, host: HostIndex, tool: Tool, arguments: &[&str]) -> Result<Self, ToolError> {
        let mut command = Command::new(find(tool)?);
        let file = || tempfile::tempfile().map_err(super::system("make a file for a program's output"));
        let shared = |file: &File| file.try_clone().map_err(super::system("share a file"));
        let (output, errors) = (file()?, file()?);
        command.args(arguments).stdin(Stdio::null()).stdout(shared(&output)?).stderr(shared(&errors)?);
        // A process group of its own: its children end with it, and Ctrl-C only reaches us.
        command.env("LC_ALL", "C").process_group(0);
        let not_started = |error: io::Error| ToolError::NotMeasured(format!("{} does not start: {error}", tool.name));
        let child = lab.run_in(host, || command.spawn())?.map_err(not_started)?;
        Ok(Self { tool, child, output, errors })
    }

    pub(super) fn wait_for(&mut self, is_ready: impl Fn() -> Result<bool, LabError>) -> Result<(), ToolError> {
        let began = Instant::now();
        while !is_ready()? {
            let ended = self.child.try_wait().ok().flatten().is_some();
            if ended || began.elapsed() > READY {
                self.kill();
                let said = String::from_utf8_lossy(&read(&mut self.errors)).into_owned();
                return Err(ToolError::NotMeasured(format!("{} does not start: {}", self.tool.name, one_line(&said))));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    pub(super) fn interrupt(&self) {
        // A process that is gone needs no signal.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    /// Waits for its end; kills it after `patience`, or when `stop` is set.
    pub(super) fn finish(mut self, patience: Duration, stop: &AtomicBool) -> Result<ToolOutput, ToolError> {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(super::system("wait for a program"))? {
                break status;
            }
            if stop.load(Relaxed) {
                return Err(ToolError::NotMeasured("it was stopped".to_owned()));
            }
            if began.elapsed() > patience {
                return Err(ToolError::NotMeasured(format!(
                    "{} took longer than {} s",
                    self.tool.name,
                    patience.as_secs()
                )));
            }
            thread::sleep(LOOK);
        };
        let (output, errors) = (read(&mut self.output), read(&mut self.errors));
        Ok(ToolOutput { output, errors: String::from_utf8_lossy(&errors).into_owned(), success: status.success() })
    }

    fn kill(&mut self) {
        // A process that is gone needs no signal, and then there is nothing to wait for.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for ToolProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

impl ToolOutput {
    /// The output as text, if the program succeeded.
    pub(super) fn text(self, tool: Tool) -> Result<String, ToolError> {
        match self.success {
            true => Ok(String::from_utf8_lossy(&self.output).into_owned()),
            false => Err(ToolError::NotMeasured(self.last_message(tool))),
        }
    }

    pub(super) fn last_message(&self, tool: Tool) -> String {
        let output = String::from_utf8_lossy(&self.output);
        let said = if self.errors.trim().is_empty() { &output } else { self.errors.as_str() };
        format!("{} failed: {}", tool.name, one_line(said))
    }
}

/// True if a program listens on a TCP port of a host.
pub(super) fn listens(lab: &Lab, host: HostIndex, port: u16) -> Result<bool, LabError> {
    let text = in_proc(lab, host, "tcp")?;
    let address = format!(":{port:04X}");
    Ok(text.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&address)) && fields.nth(1) == Some(LISTENING)
    }))
}

/// True if a host has a socket that captures packets.
pub(super) fn has_packet_socket(lab: &Lab, host: HostIndex) -> Result<bool, LabError> {
    // The first line is a heading.
    Ok(in_proc(lab, host, "packet")?.lines().count() > 1)
}

fn in_proc(lab: &Lab, host: HostIndex, file: &str) -> Result<String, LabError> {
    let text = lab.run_in(host, || fs::read_to_string(format!("/proc/thread-self/net/{file}")))?;
    text.map_err(|error| LabError::kernel(format!("read /proc/net/{file}"), error))
}

fn find(tool: Tool) -> Result<PathBuf, ToolError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(Into::into));
    let found = folders.map(|folder| folder.join(tool.name)).find(|file| is_executable(file));
    found.ok_or_else(|| {
        let Tool { name, package } = tool;
        ToolError::NotMeasured(format!("{name} is not installed: `sudo apt install {package}`"))
    })
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn read(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // An error ends the reading; bytes read so far are kept.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    bytes
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_names_its_package() {
        let missing = Tool { name: "no-such-program", package: "some-package" };
        let said = find(missing).unwrap_err().to_string();
        assert_eq!(said, "no-such-program is not installed: `sudo apt install some-package`");
        assert!(find(SHELL).is_ok());
    }

    #[test]
    fn last_line_is_program_message() {
        assert_eq!(one_line("listening\n  permission denied  \n\n"), "permission denied");
        assert_eq!(one_line("\n"), "it said nothing");
    }
}
