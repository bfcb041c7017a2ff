//! The variables that tell a program about its run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use roost_lab::Lab;
use roost_topology::model::HostProgram;
use rustix::time::{ClockId, clock_gettime};

use super::plan::Plan;
use super::workload::generator;

/// The longest list of hosts in a variable, bytes: the system takes 128 KiB.
const MAX_HOSTS: usize = 64 << 10;

/// The time 0 of a run, by several clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartClock {
    pub(super) unix: Duration,
    pub(super) monotonic: Duration,
    pub(super) origin: Instant,
}

impl StartClock {
    /// The clocks of a run that began then. It reads them anew: make one for a run, not for each program.
    pub(super) fn at(origin: Instant) -> Self {
        let elapsed = origin.elapsed();
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = Duration::from_secs(now.tv_sec.try_into().unwrap_or(0));
        let monotonic = seconds + Duration::from_nanos(now.tv_nsec.try_into().unwrap_or(0));
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix: unix.saturating_sub(elapsed), monotonic: monotonic.saturating_sub(elapsed), origin }
    }
}

/// The facts of a run that all of its programs get.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramFacts {
    pub(super) seed: u64,
    /// The length of the run, if it is known before.
    pub(super) length: Option<Duration>,
    pub(super) shared: BTreeMap<String, String>,
    /// `name=address` of all hosts, or nothing if there are too many.
    pub(super) hosts: String,
}

#[derive(Clone, Debug)]
pub(super) struct HostFacts<'a> {
    pub(super) name: &'a str,
    /// Absent if the host is on no net.
    pub(super) address: Option<String>,
}

impl ProgramFacts {
    pub(super) fn new(seed: u64, length: Option<Duration>, plan: Option<&Plan>, lab: &Lab) -> Self {
        let shared = plan.map(|plan| plan.environment.clone()).unwrap_or_default();
        let hosts = lab.topology().hosts.iter().enumerate();
        let pairs = hosts.filter_map(|(index, host)| Some(format!("{}={}", host.name, lab.address(index)?)));
        let hosts = Some(pairs.collect::<Vec<_>>().join(" ")).filter(|hosts| hosts.len() <= MAX_HOSTS);
        Self { seed, length, shared, hosts: hosts.unwrap_or_default() }
    }

    /// The variables of one program on this host, with its folder.
    pub(super) fn variables(
        &self,
        program: &HostProgram,
        host: &HostFacts<'_>,
        start: StartClock,
        folder: &Path,
    ) -> BTreeMap<String, String> {
        // As whole numbers that every language reads.
        let drawn = generator(self.seed, &format!("program {}", program.name)).next_u64() >> 1;
        let seconds = |time: Duration| format!("{}.{:06}", time.as_secs(), time.subsec_micros());
        let mut variables: BTreeMap<String, String> = [
            ("SEED", self.seed.to_string()),
            ("PROGRAM_SEED", drawn.to_string()),
            ("PROGRAM", program.name.clone()),
            ("HOST", host.name.to_owned()),
            ("HOSTS", self.hosts.clone()),
            ("START", seconds(start.unix)),
            ("START_MONOTONIC", seconds(start.monotonic)),
            ("FOLDER", folder.display().to_string()),
        ]
        .map(|(name, value)| (format!("EMULATE_{name}"), value))
        .into();
        variables.extend(host.address.clone().map(|address| ("EMULATE_ADDRESS".to_owned(), address)));
        variables.extend(self.length.map(|length| ("EMULATE_DURATION".to_owned(), seconds(length))));
        variables.extend(self.shared.clone());
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(seed: u64, name: &str) -> BTreeMap<String, String> {
        let shared = BTreeMap::from([("SYSTEM".to_owned(), "a".to_owned())]);
        let facts =
            ProgramFacts { seed, length: Some(Duration::from_millis(1500)), shared, hosts: "a=10.1.1.2".into() };
        let program = HostProgram { name: name.to_owned(), ..HostProgram::default() };
        let start =
            StartClock { unix: Duration::from_micros(5_000_007), monotonic: Duration::ZERO, origin: Instant::now() };
        let host = HostFacts { name: "a", address: Some("10.1.1.2".to_owned()) };
        facts.variables(&program, &host, start, Path::new("/x"))
    }

    #[test]
    fn program_learns_about_its_run() {
        let all = variables(7, "ask-a");
        let of = |name: &str| all[&format!("EMULATE_{name}")].as_str();
        assert_eq!([of("SEED"), of("PROGRAM"), of("HOST"), of("ADDRESS")], ["7", "ask-a", "a", "10.1.1.2"]);
        assert_eq!([of("START"), of("DURATION"), of("FOLDER")], ["5.000007", "1.500000", "/x"]);
        assert_eq!(all["SYSTEM"], "a");
    }

    #[test]
    fn drawn_seed_follows_seed_and_name() {
        let drawn = |seed, name| variables(seed, name)["EMULATE_PROGRAM_SEED"].clone();
        assert_eq!(drawn(1, "a"), drawn(1, "a"));
        assert_ne!(drawn(1, "a"), drawn(2, "a"));
        assert_ne!(drawn(1, "a"), drawn(1, "b"));
        assert!(drawn(1, "a").parse::<i64>().is_ok());
    }
}
