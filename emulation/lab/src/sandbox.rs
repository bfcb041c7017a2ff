//! The processes around a lab, so that no part of it can outlive them.
//!
//! ```text
//! outer    the process that was started: waits, passes signals on
//!  └ init  process 1 of a PID namespace: reaps, passes signals on, ends with the outer
//!     └ worker   runs the command; its children are the hosts' programs
//! ```
//! Each is the same program, started again. When `init` ends for any reason, the kernel kills every process of
//! the PID namespace, and with the last of them the network namespaces and their devices end: none has a name.
//! `init` ends when the worker does, or when its lifeline, a socket whose other end the outer process holds
//! open, breaks. So `kill -9` of any of the three ends all.
//!
//! A user who is not root gets a user namespace first and is root in it only.

mod refusal;
mod signals;
mod terminal;

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getegid, geteuid, getpid, getppid};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities};

use super::LabError;
use super::kernel;
use super::netlink::{Netlink, NetlinkRequest};
use signals::Signals;
use terminal::SandboxTerminal;

/// The running program, even if its file has been replaced.
const SELF: &str = "/proc/self/exe";
/// The name (`argv[0]`) of `init`; the descriptor number of its lifeline follows.
const INIT_NAME: &str = "emulate-init-";
/// The name (`argv[0]`) of the worker.
const WORKER_NAME: &str = "emulate-lab";
/// The exit code after the lifeline broke, as if killed by `SIGKILL`.
const KILLED: u8 = 128 + 9;
/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 128 + 2;

/// True once [`enter`] has returned [`SandboxEntry::Inside`].
static INSIDE: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
pub enum SandboxEntry {
    /// Inside the sandbox: go on with the command.
    Inside,
    /// Outside: the command has run inside and ended. Exit with its code.
    Done(ExitCode),
}

/// Runs the rest of the program inside a sandbox. Call it early in `main`, while the process has one thread.
///
/// The program is started again with the same arguments, in namespaces of its own (PID, mount, network, IPC,
/// host name, and user if this one is not root), and gets [`SandboxEntry::Inside`] from this call. The process
/// outside gets [`SandboxEntry::Done`] when the inner one has ended. Standard input, output and error are
/// shared, and so is the terminal. `SIGINT`, `SIGTERM`, `SIGHUP` and `SIGQUIT` are passed on to the inside.
///
/// # Errors
/// [`LabError::System`] when this system has no namespaces for this user.
pub fn enter() -> Result<SandboxEntry, LabError> {
    let name = std::env::args_os().next().unwrap_or_default();
    // Any user may start a program under any name; only inside, init is process 1 and the worker its child.
    if name == WORKER_NAME && getppid() == Some(Pid::INIT) {
        Signals::release()?;
        show_as(WORKER_NAME);
        INSIDE.store(true, Relaxed);
        return Ok(SandboxEntry::Inside);
    }
    match name.to_str().and_then(|name| name.strip_prefix(INIT_NAME)).and_then(|number| number.parse().ok()) {
        Some(lifeline) if getpid() == Pid::INIT => be_init(lifeline).map(SandboxEntry::Done),
        _ => be_outer().map(SandboxEntry::Done),
    }
}

/// True in the process that was started, which [`enter`] has not started again.
pub fn is_outside() -> bool {
    let name = std::env::args_os().next().unwrap_or_default();
    name != WORKER_NAME && name.to_str().is_none_or(|name| !name.starts_with(INIT_NAME))
}

/// Refuses to make a lab outside a sandbox: it would change this system's own network.
///
/// # Errors
/// Fails when [`enter`] has not returned [`SandboxEntry::Inside`].
pub fn expect_inside() -> Result<(), LabError> {
    match INSIDE.load(Relaxed) {
        true => Ok(()),
        false => Err(LabError::System("a lab is made inside a sandbox only: call `sandbox::enter` first".to_owned())),
    }
}

fn be_outer() -> Result<ExitCode, LabError> {
    if !may_make_namespaces() {
        enter_user_namespace()?;
    }
    kernel::unshare(UnshareFlags::NEWPID).map_err(|error| refusal::explain("a PID namespace", &error))?;
    let signals = Signals::hold()?;
    let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
    let pair = socketpair(kind.0, kind.1, kind.2, None);
    let (lifeline, held) = pair.map_err(|error| LabError::kernel("make a pair of sockets", error))?;
    fcntl_setfd(&lifeline, FdFlags::empty()).map_err(|error| LabError::kernel("pass a socket on", error))?;
    let terminal = SandboxTerminal::of_this_process();
    let mut command = again(format!("{INIT_NAME}{}", lifeline.as_raw_fd()));
    // A signal to the whole group of the outer process is meant for that process, which passes it on. In a
    // group of its own the inside does not get it twice.
    command.process_group(0);
    let init = command.spawn().map_err(|error| refusal::explain("a process in a PID namespace", &error))?;
    drop(lifeline);
    let init = pid_of(&init);
    if let Some(terminal) = terminal {
        terminal.lend(init);
    }
    // The worker may begin now. If it has ended already, the loop below notices.
    let _ = rustix::io::write(&held, &[0]);
    let code = wait_outside(init, &signals, &held, terminal);
    if let Some(terminal) = terminal {
        terminal.take_back(init);
        if matches!(code, Ok(INTERRUPTED)) {
            Signals::release()?;
            terminal.interrupted();
        }
    }
    code.map(ExitCode::from)
}

fn be_init(lifeline: i32) -> Result<ExitCode, LabError> {
    show_as(INIT_NAME.trim_end_matches('-'));
    let lifeline = kernel::inherit(lifeline).map_err(|error| LabError::kernel("take over the lifeline", error))?;
    // This also ends a stopped process, which cannot watch its lifeline.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| LabError::kernel("ask to end with the parent", error))?;
    // The worker must not begin before it has the terminal, if there is one.
    if !rustix::io::read(&lifeline, &mut [0; 1]).is_ok_and(|count| count == 1) {
        return Ok(ExitCode::from(KILLED));
    }
    let namespaces = UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    kernel::unshare(namespaces).map_err(|error| refusal::explain("mount and network namespaces", &error))?;
    isolate_mounts()?;
    let loopback = Netlink::open().and_then(|mut netlink| netlink.apply(&[NetlinkRequest::Up { index: 1 }]));
    loopback.map_err(|error| LabError::kernel("set up the loopback interface", error))?;
    let signals = Signals::hold()?;
    let worker = again(WORKER_NAME).spawn().map_err(|error| LabError::kernel("start itself", error))?;
    wait_inside(&worker, &signals, &lifeline).map(ExitCode::from)
}

/// This program under another name, with the same arguments.
fn again(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(SELF);
    command.arg0(name).args(std::env::args_os().skip(1));
    command
}

/// The name that `ps` shows; it would be `exe` for both.
fn show_as(name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}

fn may_make_namespaces() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn enter_user_namespace() -> Result<(), LabError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    kernel::unshare(UnshareFlags::NEWUSER).map_err(|error| refusal::explain("a user namespace", &error))?;
    // After giving up the right to set groups, a group map needs no right outside (user_namespaces(7)).
    for (file, text) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("0 {user} 1")), ("gid_map", format!("0 {group} 1"))]
    {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| refusal::explain("a user namespace", &error))?;
    }
    Ok(())
}

/// Gives the namespace its own mounts and a `/proc` of its processes.
fn isolate_mounts() -> Result<(), LabError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| refusal::explain("mounts of its own", &error.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Refused in containers that hide parts of /proc. The old /proc still serves a process's own entry, which
    // is enough.
    let _ = mount("proc", "/proc", "proc", flags, None);
    Ok(())
}

fn wait_outside(
    init: Pid,
    signals: &Signals,
    held: &OwnedFd,
    terminal: Option<SandboxTerminal>,
) -> Result<u8, LabError> {
    let mut is_open = true;
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(held, PollFlags::IN)];
        let looked_at = if is_open { &mut ready[..] } else { &mut ready[..1] };
        poll(looked_at, None).map_err(|error| LabError::kernel("wait for its children", error))?;
        let [has_signal, has_word] = ready.map(|one| !one.revents().is_empty());
        if has_word {
            // Init is ending, together with its namespace; a signal tells when it has ended.
            is_open = rustix::io::read(held, &mut [0; 16]).is_ok_and(|count| count > 0);
            if is_open {
                terminal.iter().for_each(|terminal| terminal.stopped(init));
            }
        }
        if !has_signal {
            continue;
        }
        match signals.next()?.number {
            libc::SIGCHLD => {
                if let ChildState::Ended(code) = reap(init)? {
                    return Ok(code);
                }
            }
            number => signals::send(init, number),
        }
    }
}

fn wait_inside(worker: &Child, signals: &Signals, lifeline: &OwnedFd) -> Result<u8, LabError> {
    let worker = pid_of(worker);
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(lifeline, PollFlags::IN)];
        poll(&mut ready, None).map_err(|error| LabError::kernel("wait for its children", error))?;
        if !ready[1].revents().is_empty() {
            return Ok(KILLED);
        }
        let signal = signals.next()?;
        if signal.number == libc::SIGCHLD {
            match reap(worker)? {
                ChildState::Ended(code) => return Ok(code),
                // If the outer process is gone, the next check of the lifeline tells.
                ChildState::Stopped => drop(rustix::io::write(lifeline, &[0])),
                ChildState::None => {}
            }
        } else if !signal.is_from_terminal {
            signals::send(worker, signal.number);
        }
    }
}

enum ChildState {
    None,
    Stopped,
    /// Ended, with this exit code.
    Ended(u8),
}

/// Reaps every child that has ended; returns the state of the awaited one.
fn reap(awaited: Pid) -> Result<ChildState, LabError> {
    let mut news = ChildState::None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((child, status))) if child == awaited && status.stopped() => news = ChildState::Stopped,
            Ok(Some((child, status))) if child == awaited => news = code_of(status).map_or(news, ChildState::Ended),
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(news),
            Err(error) => return Err(LabError::kernel("wait for its children", error)),
        }
    }
}

/// The exit code of a process, as shells give it: 128 plus the signal that killed it.
fn code_of(status: WaitStatus) -> Option<u8> {
    let status = ExitStatus::from_raw(status.as_raw());
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal))?;
    u8::try_from(code).ok()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}
