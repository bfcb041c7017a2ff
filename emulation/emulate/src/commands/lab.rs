//! Common parts of the commands that bring a network up.

use std::path::{Path, PathBuf};

use clap::Args;
use roost_lab::sandbox::{self, SandboxEntry};
use roost_lab::{DeviceBackend, Lab, LabOptions};
use roost_terminal::Output;
use roost_topology::Topology;
use roost_topology::model::HostIndex;

use super::machines::MachineArgs;
use crate::failure::{CommandResult, Failure};

/// The network, and how it is carried.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// The topology: .toml, or .ns and .tcl of Emulab
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The seed of losses and jitter
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Network")]
    pub(crate) seed: u64,
    /// Device that takes packets to the core: auto, tap or veth
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Network")]
    pub(crate) backend: DeviceBackend,
    /// Never ask for real-time priority, nor for processors that stay awake
    #[arg(long, help_heading = "Network")]
    pub(crate) no_realtime: bool,
    #[command(flatten)]
    pub(crate) machines: MachineArgs,
}

/// Reads the topology, enters the sandbox, and brings the network up in it.
///
/// For this the command is started a second time, inside; outside this returns [`Failure::ProgramExit`] when
/// the inner one has ended. A command therefore calls it before any action that must happen once, and before it
/// has a second thread.
pub(crate) fn open(args: &LabArgs, output: Output) -> CommandResult<Lab> {
    // Outside first: mistakes in the file are reported even where no lab is possible.
    let mut topology = read(&args.file)?;
    args.machines.call(&topology)?;
    if let SandboxEntry::Done(code) = sandbox::enter()? {
        return Err(Failure::ProgramExit(code));
    }
    for note in &topology.notes.warnings {
        let place = if note.line == 0 { String::new() } else { format!(":{}", note.line) };
        output.say(format!("{}{place}: warning: {}", args.file.display(), note.text));
    }
    let machines = args.machines.greet()?;
    if machines.is_some() {
        roost_topology::trace::gather(&mut topology);
    }
    let summary_of_machines = machines.clone();
    let options = LabOptions {
        seed: args.seed,
        backend: args.backend,
        realtime: !args.no_realtime,
        machines,
        ..LabOptions::default()
    };
    let lab = Lab::start(&topology, &options)?;
    lab.warnings().iter().for_each(|warning| output.say(format!("warning: {warning}")));
    output.detail(summary(&lab));
    if let Some(machines) = summary_of_machines {
        output.say(machines.summary());
    }
    Ok(lab)
}

pub(crate) fn host(topology: &Topology, name: &str) -> CommandResult<HostIndex> {
    let place = topology.hosts.iter().position(|host| host.name == name);
    place.ok_or_else(|| Failure::bad_input(format!("there is no host `{name}`; there {}", list_hosts(topology))))
}

fn read(path: &Path) -> CommandResult<Topology> {
    Ok(roost_ns::load(path)?)
}

/// `are a, b and 3 more`.
fn list_hosts(topology: &Topology) -> String {
    const NAMED: usize = 8;
    let names: Vec<&str> = topology.hosts.iter().take(NAMED).map(|host| host.name.as_str()).collect();
    match topology.hosts.len() {
        0 => "are none".to_owned(),
        1 => format!("is {}", names[0]),
        count if count > NAMED => format!("are {} and {} more", names.join(", "), count - NAMED),
        _ => format!("are {}", names.join(", ")),
    }
}

fn summary(lab: &Lab) -> String {
    let fact = |name: &str| lab.facts().get(name).map_or("?", String::as_str);
    let topology = lab.topology();
    format!(
        "{} hosts on {} links and LANs, up in {}; packets by {}, real-time priority: {}",
        topology.hosts.len(),
        topology.nets.len(),
        fact("set_up"),
        fact("backend"),
        fact("realtime")
    )
}
