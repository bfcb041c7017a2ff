//! `emulate agent`: makes a share of a lab for `emulate` on another machine.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use roost_experiment::Binaries;
use roost_lab::machines::{self, AgentSetting};
use roost_lab::sandbox::{self, SandboxEntry};
use roost_topology::Topology;

use super::machines::{VERSION, again, keep_open};
use crate::failure::{CommandResult, Failure};

/// Tells this program, started again, the descriptor of its trunk.
const TRUNK: &str = "EMULATE_TRUNK";

/// Opens the trunk, enters the sandbox, and serves the command on standard input and output.
pub(crate) fn run() -> CommandResult {
    let Some(trunk) = std::env::var(TRUNK).ok().and_then(|text| text.parse().ok()) else {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
        let socket = socket.map_err(|error| Failure::failed(format!("cannot open the trunk: {error}")))?;
        keep_open(&socket)?;
        return Err(again(TRUNK, &socket.as_raw_fd().to_string()));
    };
    if let SandboxEntry::Done(code) = sandbox::enter()? {
        return Err(Failure::ProgramExit(code));
    }
    let programs = Binaries::beside_this()?.folder().to_owned();
    Ok(machines::serve(AgentSetting { trunk, version: VERSION.to_owned(), programs, read })?)
}

fn read(path: &std::path::Path, text: &str) -> Result<Topology, String> {
    roost_ns::load_text(path, text).map_err(|error| error.to_string())
}
