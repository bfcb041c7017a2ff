//! Other machines that take part in a lab: how they are called, before the sandbox has no network any more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use roost_lab::Machines;
use roost_lab::machines::{CalledMachine, HERE};
use roost_topology::Topology;
use roost_topology::units::parse_length;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::failure::{CommandResult, Failure};

/// The version that all machines must have.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Tells this program, started again, the descriptors of its conversations: `TRUNK;DESCRIPTOR=ADDRESS;…`.
const CALLED: &str = "EMULATE_MACHINES";
const SELF: &str = "/proc/self/exe";
/// The place of the machine's name in the command that reaches it.
const MACHINE: &str = "{machine}";

const HEADING: &str = "Machines";
const SSH: &str = "ssh -o BatchMode=yes -o ServerAliveInterval=5 {machine} emulate";

/// Other machines, and the hosts that they make.
#[derive(Clone, Debug, Args)]
pub(crate) struct MachineArgs {
    /// Other machines that make a part of the hosts: names for ssh, or NAME=ADDRESS
    #[arg(long, alias = "hosts", value_name = "NAME", value_delimiter = ',', help_heading = HEADING)]
    machines: Vec<String>,
    /// The command that starts `emulate` on a machine
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = SSH, help_heading = HEADING
    )]
    via: String,
    /// Make this host on that machine; this machine is `here`. May be given more than once
    #[arg(long, value_name = "HOST=MACHINE", value_delimiter = ',', help_heading = HEADING)]
    place: Vec<String>,
    /// The time for which packets are kept on their way between machines: no link between them has a shorter delay
    #[arg(long, value_name = "TIME", value_parser = parse_length, default_value = "2ms", help_heading = HEADING)]
    hold: Duration,
}

impl MachineArgs {
    /// Starts the agents, and this program again with their conversations. Outside of a sandbox, before anything else
    /// that happens once; returns where that has been done, or nothing is to be done.
    pub(crate) fn call(&self, topology: &Topology) -> CommandResult {
        self.check(topology)?;
        if self.machines.is_empty() {
            return Ok(());
        }
        if Self::are_called() {
            return Ok(());
        }
        let failed = |error: std::io::Error| Failure::failed(format!("cannot open the trunk: {error}"));
        let trunk = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
        let mut streams = Vec::new();
        for machine in &self.machines {
            let (name, address) = named(machine)?;
            streams.push((self.start_agent(&name)?, address));
        }
        let mut text = trunk.as_raw_fd().to_string();
        keep_open(&trunk)?;
        for (stream, address) in &streams {
            keep_open(stream)?;
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            text.push_str(&format!(";{}={address}", stream.as_raw_fd()));
        }
        Err(again(CALLED, &text))
    }

    /// True in the program that was started again with its conversations.
    pub(crate) fn are_called() -> bool {
        std::env::var_os(CALLED).is_some()
    }

    /// The number of machines, this one among them.
    pub(crate) const fn count(&self) -> usize {
        self.machines.len() + 1
    }

    /// Names all mistakes in the names of machines and hosts.
    pub(crate) fn check(&self, topology: &Topology) -> CommandResult {
        let mut machines = BTreeSet::from([HERE]);
        let mut wrong = Vec::new();
        for machine in &self.machines {
            let (name, _) = split(machine);
            if !is_name(name) {
                wrong.push(format!("`{machine}` is no name of another machine"));
            } else if !machines.insert(name) {
                wrong.push(format!("--machines names {name} twice"));
            }
        }
        let mut hosts = BTreeSet::new();
        for place in &self.place {
            let Some((host, machine)) = place.split_once('=') else {
                wrong.push(format!("--place {place}: write HOST=MACHINE"));
                continue;
            };
            if self.machines.is_empty() {
                wrong.push(format!("--place {place} needs --machines"));
            } else if !machines.contains(machine) {
                wrong.push(format!("--place {place}: no machine is named `{machine}`, and this one is `{HERE}`"));
            }
            if topology.host_index(host).is_none() {
                wrong.push(format!("--place {place}: there is no host `{host}`"));
            }
            if !hosts.insert(host) {
                wrong.push(format!("--place names the host {host} twice"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Failure::bad_input(wrong.join("\n"))) }
    }

    /// Greets the agents. Inside of the sandbox.
    pub(crate) fn greet(&self) -> CommandResult<Option<Machines>> {
        let Some(text) = std::env::var_os(CALLED).filter(|_| !self.machines.is_empty()) else { return Ok(None) };
        let odd = || Failure::failed(format!("{CALLED} is not for people"));
        let text = text.into_string().map_err(|_| odd())?;
        let mut parts = text.split(';');
        let trunk = parts.next().and_then(|part| part.parse().ok()).ok_or_else(odd)?;
        let mut called = Vec::new();
        for (machine, part) in self.machines.iter().zip(parts) {
            let (descriptor, address) = part.split_once('=').ok_or_else(odd)?;
            let descriptor = descriptor.parse().map_err(|_| odd())?;
            let address = Some(address).filter(|address| !address.is_empty());
            let address = address.map(str::parse).transpose().map_err(|_| odd())?;
            called.push(CalledMachine { name: split(machine).0.to_owned(), address, descriptor });
        }
        let machines = Machines::greet(trunk, &called, VERSION, self.hold)?;
        Ok(Some(machines.place(self.placed())))
    }

    fn placed(&self) -> BTreeMap<String, String> {
        let pairs = self.place.iter().filter_map(|text| text.split_once('='));
        pairs.map(|(host, machine)| (host.to_owned(), machine.to_owned())).collect()
    }

    fn start_agent(&self, name: &str) -> CommandResult<UnixStream> {
        let words: Vec<String> = self.via.split_whitespace().map(|word| word.replace(MACHINE, name)).collect();
        let (program, args) = words.split_first().ok_or_else(|| Failure::bad_input("--via needs a command"))?;
        let failed = |error: std::io::Error| Failure::failed(format!("cannot start `{}`: {error}", words.join(" ")));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let input: OwnedFd = theirs.try_clone().map_err(failed)?.into();
        let mut command = Command::new(program);
        command.args(args).arg("agent").stdin(input).stdout(Stdio::from(OwnedFd::from(theirs)));
        // Ctrl-C is meant for this program, which ends the agents in order.
        command.process_group(0).spawn().map_err(failed)?;
        Ok(ours)
    }
}

/// The name of a machine, and its address: the one that is given, or that of its name.
fn named(machine: &str) -> CommandResult<(String, Option<IpAddr>)> {
    let (name, address) = split(machine);
    let resolve = |name: &str| (name, 0).to_socket_addrs().ok()?.map(|found| found.ip()).find(IpAddr::is_ipv4);
    let Some(address) = address else {
        let host = name.rsplit('@').next().unwrap_or(name);
        return Ok((name.to_owned(), resolve(host)));
    };
    let found = resolve(address).ok_or_else(|| not_ipv4(address))?;
    Ok((name.to_owned(), Some(found)))
}

fn not_ipv4(address: &str) -> Failure {
    Failure::bad_input(format!("`{address}` is no address of IPv4, over which packets go between machines"))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && name != HERE
}

fn split(machine: &str) -> (&str, Option<&str>) {
    machine.split_once('=').map_or((machine, None), |(name, address)| (name, Some(address)))
}

/// Lets the program that is started again have a descriptor.
pub(crate) fn keep_open(descriptor: &impl AsFd) -> CommandResult {
    let failed = |error| Failure::failed(format!("cannot pass a socket on: {error}"));
    fcntl_setfd(descriptor, FdFlags::empty()).map_err(failed)
}

/// Starts this program again with the same arguments and one more variable. Returns only if that fails.
pub(crate) fn again(variable: &str, value: &str) -> Failure {
    let mut args = std::env::args_os();
    let mut command = Command::new(SELF);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    let error = command.args(args).env(variable, value).exec();
    Failure::failed(format!("cannot start itself again: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_may_have_an_address() {
        assert_eq!(named("b=10.0.0.2").unwrap(), ("b".to_owned(), Some(IpAddr::from([10, 0, 0, 2]))));
        assert_eq!(named("user@127.0.0.1").unwrap(), ("user@127.0.0.1".to_owned(), Some(IpAddr::from([127, 0, 0, 1]))));
        for wrong in ["b=nowhere.invalid", "b=::1"] {
            assert!(named(wrong).unwrap_err().to_string().contains("no address of IPv4"), "{wrong}");
        }
    }

    #[test]
    fn all_wrong_names_are_told() {
        let text = "[[host]]\nname = ['a', 'b']\n[[link]]\nbetween = ['a', 'b']\nrate = '1Mbit'\ndelay = '1ms'\n";
        let topology = roost_ns::load_text("net.toml".as_ref(), text).unwrap();
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let checked = |machines: &[&str], place: &[&str]| {
            let (machines, place) = (strings(machines), strings(place));
            let args = MachineArgs { machines, via: SSH.to_owned(), place, hold: Duration::ZERO };
            args.check(&topology).map_err(|failure| failure.to_string())
        };
        assert_eq!(checked(&["m2", "m3=10.0.0.3"], &["a=here", "b=m3"]), Ok(()));
        assert_eq!(checked(&[], &[]), Ok(()));
        let told = checked(&["", "here", "-oProxyCommand=x", "m2", "m2=10.0.0.2"], &["a", "a=m4", "a=m2", "c=m2"]);
        let told = told.unwrap_err();
        assert_eq!(told.lines().count(), 8, "{told}");
        for part in ["-oProxyCommand=x", "m2 twice", "write HOST=MACHINE", "named `m4`", "host a twice", "host `c`"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(checked(&[], &["a=m2"]).unwrap_err().contains("needs --machines"));
    }
}
