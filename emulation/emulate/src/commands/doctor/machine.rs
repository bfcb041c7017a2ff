//! Facts about the machine.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use roost_terminal::Finding;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_getres};

/// Hosts for which a machine should have room: the largest published experiments have 92.
const HOSTS: u64 = 512;
/// Open files of a host with one interface; see the lab's own limits.
const FILES_PER_HOST: u64 = 4;
/// The number of sleeps in the test of timers.
const SLEEPS: u32 = 100;
/// The daemons of plans.
const DAEMONS: [&str; 3] = ["supernode", "overlay-node", "cs-server"];
/// Independent programs that `emulate bench` uses.
const JUDGES: [&str; 3] = ["ping", "iperf3", "tcpdump"];

pub(super) fn check() -> Vec<Finding> {
    vec![files(), namespaces(), timers(), clock(), processors(), daemons(), judges()]
}

fn files() -> Finding {
    const CHECK: &str = "open files";
    let needed = HOSTS * FILES_PER_HOST;
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < needed => Finding::warn(
            CHECK,
            format!("{most} at the most: enough for some {} hosts", most / FILES_PER_HOST),
            format!("add `* - nofile {}` to /etc/security/limits.conf and log in again", needed.next_power_of_two()),
        ),
        Some(most) => Finding::ok(CHECK, format!("{most} at the most")),
        None => Finding::ok(CHECK, "any number"),
    }
}

fn namespaces() -> Finding {
    const CHECK: &str = "hosts";
    match read("/proc/sys/user/max_net_namespaces").and_then(|text| text.parse::<u64>().ok()) {
        Some(most) if most <= HOSTS => Finding::warn(
            CHECK,
            format!("{most} network namespaces at the most, and every host is one"),
            "run `sudo sysctl -w user.max_net_namespaces=10000`",
        ),
        Some(most) => Finding::ok(CHECK, format!("{most} network namespaces at the most")),
        None => Finding::ok(CHECK, "no limit of network namespaces is known"),
    }
}

fn timers() -> Finding {
    const CHECK: &str = "timers";
    let resolution = |clock| {
        let time = clock_getres(clock);
        // Never negative.
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    };
    let tick = resolution(ClockId::MonotonicCoarse);
    let hertz = if tick.is_zero() { 0.0 } else { 1.0 / tick.as_secs_f64() };
    if resolution(ClockId::Monotonic) > Duration::from_micros(1) {
        let found = format!("times are known to {} µs only", resolution(ClockId::Monotonic).as_micros());
        return Finding::warn(CHECK, found, "use a kernel with CONFIG_HIGH_RES_TIMERS, not booted with highres=off");
    }
    let (half, most) = lateness();
    let found = format!(
        "exact (HZ is {hertz:.0}); a sleep of 1 ms ends {half:.3} ms late, {most:.3} ms in the worst of a hundred"
    );
    match half > 0.2 {
        true => {
            Finding::warn(CHECK, found, "look for what else runs (`top`), or in a virtual machine for its neighbours")
        }
        false => Finding::ok(CHECK, found),
    }
}

/// The lateness of sleeps of 1 ms, in milliseconds: the median and the maximum.
fn lateness() -> (f64, f64) {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let asked = Duration::from_millis(1);
    let sleep = |_| {
        let began = Instant::now();
        std::thread::sleep(asked);
        began.elapsed().saturating_sub(asked).as_secs_f64() * 1e3
    };
    let mut late: Vec<f64> = (0..SLEEPS).map(sleep).collect();
    late.sort_by(f64::total_cmp);
    (late[late.len() / 2], late.last().copied().unwrap_or_default())
}

fn clock() -> Finding {
    const CHECK: &str = "clock";
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.as_deref() {
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies")) => Finding::warn(
            CHECK,
            format!("the system's clock is {slow}, which takes a microsecond or more to read"),
            "boot with tsc=reliable if the processor's time stamp counter is sound",
        ),
        Some(source) => Finding::ok(CHECK, source),
        None => Finding::ok(CHECK, "its source is not known"),
    }
}

fn processors() -> Finding {
    const CHECK: &str = "processors";
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).unwrap_or_default();
    let found = format!("{count}, of which {load:.1} were busy in the last minute");
    if count < 2 {
        return Finding::warn(CHECK, found, "use two or more: one carries packets, the others run the hosts' programs");
    }
    if load > count as f64 / 2.0 {
        return Finding::warn(CHECK, found, "wait until the machine is quiet before measuring");
    }
    Finding::ok(CHECK, found)
}

fn daemons() -> Finding {
    const CHECK: &str = "daemons";
    let folder = std::env::current_exe().ok().and_then(|own| own.parent().map(PathBuf::from)).unwrap_or_default();
    let missing: Vec<&str> = DAEMONS.into_iter().filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() {
        return Finding::ok(CHECK, format!("{} are in {}", DAEMONS.join(", "), folder.display()));
    }
    Finding::warn(
        CHECK,
        format!("{} not in {}, where this program is; `run` and `sweep` start them", list(&missing), folder.display()),
        "install them there, or build all with `cargo build --bins`",
    )
}

fn judges() -> Finding {
    const CHECK: &str = "programs";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let missing: Vec<&str> = JUDGES.into_iter().filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return Finding::ok(CHECK, format!("{} are there", JUDGES.join(", ")));
    }
    Finding::warn(
        CHECK,
        format!("{} not there; only `bench` uses {}", list(&missing), if missing.len() == 1 { "it" } else { "them" }),
        "on Debian and its relatives: `sudo apt install iputils-ping iperf3 tcpdump`",
    )
}

/// `a is`, `a and b are`.
fn list(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        [most @ .., last] => format!("{} and {last} are", most.join(", ")),
        [] => String::new(),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_names_are_short_and_unique() {
        let names: Vec<&str> = check().into_iter().map(|finding| finding.check).collect();
        assert!(names.iter().all(|name| name.len() < 13), "{names:?}");
        let unique: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn names_are_listed_as_people_do() {
        assert_eq!(list(&["a"]), "a is");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c are");
    }
}
