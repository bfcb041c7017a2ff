//! The start of a program: its variables, its root, and the readers of its output.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use roost_lab::{Lab, ProgramRoot, ROOT_RESULTS, ROOT_SOCKET};
use roost_topology::file_name;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{FOLDER, Programs};
use crate::private::RUN_FOLDER;
use crate::program_environment::HostFacts;
use crate::program_output::ProgramOutput;
use crate::redirection;

/// The search path of programs with a root of their own.
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The longest path of a Unix socket, bytes.
const MAX_SOCKET: usize = 107;

impl Programs {
    pub(super) fn spawn(&mut self, lab: &Lab, index: usize) -> Result<Child, String> {
        let (program, settings) = (&self.all[index], &self.settings[index]);
        let start = self.start.ok_or("the run has not begun")?;
        if program.command.trim().is_empty() {
            return Err("it has no command".to_owned());
        }
        let own = self.results.join(FOLDER).join(file_name(&program.name));
        std::fs::create_dir_all(&own).map_err(|error| format!("{} cannot be made: {error}", own.display()))?;
        let root = self.root(index, &own)?;
        let mut command = Command::new("sh");
        command.args(["-c", &redirection::for_sh(&program.command)]).stdin(Stdio::null()).process_group(0);
        let folder = self.base.join(program.folder.as_deref().unwrap_or(""));
        if root.is_some() {
            command.env_clear().env("PATH", ROOT_PATH).env("HOME", "/root");
            command.current_dir(program.folder.as_deref().unwrap_or("/"));
        } else if folder.is_dir() {
            command.current_dir(folder);
        } else {
            return Err(format!("its folder {} is not there", folder.display()));
        }
        let address = lab.address(program.host).map(|address| address.to_string());
        let shown = if root.is_some() { Path::new(ROOT_RESULTS) } else { &own };
        let host = HostFacts { name: &self.hosts[program.host], address };
        command.envs(self.facts.variables(program, &host, start, shown));
        self.offer_daemon(&mut command, index, root.as_ref());
        command.envs(&settings.environment);
        let pipe = || std::io::pipe().map_err(|error| format!("a pipe cannot be made: {error}"));
        let ((from_out, out), (from_err, err)) = (pipe()?, pipe()?);
        let logs = [(from_out, output(&program.name, "out")?), (from_err, output(&program.name, "err")?)];
        command.stdout(out).stderr(err);
        let enter = || root.as_ref().map_or(Ok(()), ProgramRoot::enter);
        let spawned = lab.run_in(program.host, || enter().map(|()| command.spawn()));
        let spawned = spawned.map_err(|error| error.to_string())?;
        let spawned = spawned.map_err(|error| format!("its root cannot be used: {error}"))?;
        let child = spawned.map_err(|error| format!("sh cannot be started: {error}"))?;
        // The pipes end with the program's own copies of their other ends.
        drop(command);
        let output = || ProgramOutput::new(&program.name, &self.hosts[program.host]);
        let first = if settings.is_silent { output().without_measurements() } else { output() };
        for (output, (from, log)) in [first, output().without_measurements()].into_iter().zip(logs) {
            if let Err(error) = self.readers.spawn(output, from, log, start.origin) {
                // Without a reader the program would wait for ever.
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                return Err(format!("a thread is refused: {error}"));
            }
        }
        Ok(child)
    }

    fn root(&self, index: usize, own: &Path) -> Result<Option<ProgramRoot>, String> {
        let Some(folder) = &self.settings[index].root else { return Ok(None) };
        let socket = self.socket(index);
        let root = ProgramRoot::new(folder, own, socket.as_deref());
        root.map(Some).map_err(|error| format!("a folder for its root cannot be made: {error}"))
    }

    /// The socket of the node on a program's host.
    fn socket(&self, index: usize) -> Option<PathBuf> {
        let host = self.all[index].host;
        self.nodes.contains(&host).then(|| self.socket_of(&self.hosts[host]))
    }

    fn socket_of(&self, daemon: &str) -> PathBuf {
        self.results.join(RUN_FOLDER).join(format!("{daemon}.sock"))
    }

    /// Tells a program of a plan where its host's daemons are, and where the commands are.
    fn offer_daemon(&self, command: &mut Command, index: usize, root: Option<&ProgramRoot>) {
        if !self.settings[index].is_of_plan {
            return;
        }
        // A daemon of this machine is none of the run.
        command.env_remove("ROOST_SOCKET").env_remove("EMULATE_HUB_SOCKET");
        if root.is_some() {
            if self.nodes.contains(&self.all[index].host) {
                command.env("ROOST_SOCKET", ROOT_SOCKET);
            }
            return;
        }
        let own = std::env::current_exe().ok();
        if let Some(folder) = own.as_deref().and_then(Path::parent) {
            let mut path = folder.as_os_str().to_owned();
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            command.env("PATH", path);
        }
        let hub = self.hubs.get(&self.all[index].host).map(|hub| self.socket_of(hub));
        for (variable, socket) in [("ROOST_SOCKET", self.socket(index)), ("EMULATE_HUB_SOCKET", hub)] {
            command.envs(socket.map(|socket| (variable, short(socket))));
        }
    }
}

/// A path of a socket that the system takes. The working folder of this process is that of the results.
fn short(socket: PathBuf) -> PathBuf {
    if socket.as_os_str().len() <= MAX_SOCKET {
        return socket;
    }
    let name = socket.file_name().unwrap_or_default();
    Path::new("/proc").join(std::process::id().to_string()).join("cwd").join(RUN_FOLDER).join(name)
}

/// The file of a program's output; later starts append to it.
fn output(name: &str, kind: &str) -> Result<File, String> {
    let path = Path::new(FOLDER).join(format!("{}.{kind}", file_name(name)));
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    opened.map_err(|error| format!("{} cannot be opened: {error}", path.display()))
}
