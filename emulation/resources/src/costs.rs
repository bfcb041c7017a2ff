//! The measured costs of daemons, hosts and packets. `docs/benchmarks.md` says how they were measured.

/// The build of the daemons and of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Debug,
    Release,
}

impl Build {
    pub const fn of_this_program() -> Self {
        if cfg!(debug_assertions) { Self::Debug } else { Self::Release }
    }

    pub const fn costs(self) -> Costs {
        match self {
            Self::Release => RELEASE,
            Self::Debug => DEBUG,
        }
    }
}

/// Processor times are seconds of one processor, of the system's own work too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Each second of a daemon that does nothing but stay attached.
    pub idle_daemon_s: f64,
    /// A request, with its connection, at all daemons and in the emulator.
    pub request_s: f64,
    /// A packet of data at its provider, its requester, and in the emulator, which counts it.
    pub delivered_packet_s: f64,
    /// A packet of data that a hub passes on.
    pub relayed_packet_s: f64,
    /// A packet of data that a link or LAN carries, with its part of all other packets.
    pub carried_packet_s: f64,
    /// Memory of a daemon, of which none is shared with others.
    pub daemon_bytes: u64,
    /// Memory of the system for a host with one interface.
    pub host_bytes: u64,
    /// Memory of the emulator, and of the programs' text that daemons share.
    pub base_bytes: u64,
}

const RELEASE: Costs = Costs {
    idle_daemon_s: 0.000_27,
    request_s: 0.003,
    delivered_packet_s: 240e-6,
    relayed_packet_s: 15e-6,
    carried_packet_s: 70e-6,
    daemon_bytes: 5_000_000,
    host_bytes: 600_000,
    base_bytes: 150_000_000,
};

const DEBUG: Costs = Costs {
    idle_daemon_s: 0.000_73,
    request_s: 0.009,
    delivered_packet_s: 740e-6,
    relayed_packet_s: 60e-6,
    carried_packet_s: 110e-6,
    daemon_bytes: 6_500_000,
    host_bytes: 600_000,
    base_bytes: 350_000_000,
};
pub const DAEMON_TASKS: u64 = 4;
/// Threads of the emulator, of its carrier and of the sandbox, beside those of daemons.
pub const BASE_TASKS: u64 = 16;
/// Open files of a daemon, which count for the whole system.
pub const DAEMON_FILES: u64 = 50;
pub const BASE_NAMESPACES: u64 = 2;
