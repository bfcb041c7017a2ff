//! The system limits that a lab needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::LabError;

/// Open files besides those of hosts: the program's own, its threads', its children's pipes.
const FILES_BESIDES: u64 = 256;
/// Open files for each host: its namespace; a second one is open briefly.
const FILES_PER_HOST: u64 = 1;
/// Open files for each interface: its frames and its statistics.
const FILES_PER_INTERFACE: u64 = 2;

/// Raises the soft limit of open files to the hard one, and checks that it is enough.
///
/// # Errors
/// Fails when the hard limit is too low; the message gives the number needed.
pub(crate) fn raise_open_files(hosts: usize, interfaces: usize) -> Result<(), LabError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
            .map_err(|error| LabError::kernel("raise the limit of open files", error))?;
    }
    let needed = needed_files(hosts as u64, interfaces as u64);
    match limit.maximum {
        Some(most) if most < needed => Err(LabError::System(format!(
            "this topology needs {needed} open files, and this user may have {most}: \
             raise the hard limit with `sudo prlimit --pid $$ --nofile=65536` in this shell, \
             or `nofile` in /etc/security/limits.conf"
        ))),
        _ => Ok(()),
    }
}

pub const fn needed_files(hosts: u64, interfaces: u64) -> u64 {
    FILES_BESIDES + FILES_PER_HOST * hosts + FILES_PER_INTERFACE * interfaces
}
