//! The resources of this machine, read from the kernel.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, geteuid, getrlimit};

use super::groups::ControlGroups;

/// The time for which the use of processors is measured.
const SAMPLE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemLimit {
    /// The number that a run may still use.
    pub left: u64,
    /// The way to raise it, for people.
    pub remedy: &'static str,
}

/// The means of a machine for runs. A limit that is not known is `None`, as one that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Resources {
    /// Processors that this process may use; a quota may be a part of one.
    pub processors: f64,
    /// Other programs use at least so many of these processors.
    pub others: f64,
    pub memory: Option<SystemLimit>,
    /// Free bytes of swap, where a program is not lost but slow.
    pub swap: u64,
    pub open_files: Option<SystemLimit>,
    pub system_files: Option<SystemLimit>,
    pub tasks: Option<SystemLimit>,
    pub namespaces: Option<SystemLimit>,
}

impl Resources {
    /// Reads the resources of this machine. It takes a quarter of a second.
    pub fn read() -> Self {
        let groups = ControlGroups::of_this_process();
        let all = rustix::thread::sched_getaffinity(None).map_or(1.0, |set| f64::from(set.count().max(1)));
        let processors = groups.processors().map_or(all, |quota| quota.min(all));
        Self {
            processors,
            others: others().beyond_idle(processors),
            memory: memory(&groups),
            swap: swap(&groups),
            open_files: getrlimit(Resource::Nofile).maximum.map(|left| SystemLimit {
                left,
                remedy: "raise the hard limit with `sudo prlimit --pid $$ --nofile=65536` in this shell, \
                         or `nofile` in /etc/security/limits.conf",
            }),
            system_files: system_files(),
            tasks: tasks(&groups),
            namespaces: number("/proc/sys/user/max_net_namespaces")
                .map(|left| SystemLimit { left, remedy: "`sudo sysctl -w user.max_net_namespaces=10000`" }),
        }
    }
}

fn memory(groups: &ControlGroups) -> Option<SystemLimit> {
    let of_system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "MemAvailable:"));
    let of_system = of_system.map(|left| SystemLimit { left, remedy: "end other programs" });
    let of_group = groups.memory_left();
    let of_group =
        of_group.map(|left| SystemLimit { left, remedy: "raise the memory of its control group or container" });
    least([of_system, of_group])
}

fn swap(groups: &ControlGroups) -> u64 {
    let of_system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "SwapFree:"));
    let of_system = of_system.unwrap_or(0);
    groups.swap_left().map_or(of_system, |of_group| of_group.min(of_system))
}

fn system_files() -> Option<SystemLimit> {
    let left = free_files(&fs::read_to_string("/proc/sys/fs/file-nr").ok()?)?;
    Some(SystemLimit { left, remedy: "raise fs.file-max with `sudo sysctl -w`" })
}

fn tasks(groups: &ControlGroups) -> Option<SystemLimit> {
    let running = fs::read_to_string("/proc/loadavg").ok().and_then(|text| all_tasks(&text)).unwrap_or(0);
    let of_system = ["threads-max", "pid_max"].map(|name| number(&format!("/proc/sys/kernel/{name}")));
    let of_system = of_system.into_iter().flatten().min().map(|most| SystemLimit {
        left: most.saturating_sub(running),
        remedy: "raise kernel.threads-max and kernel.pid_max with `sudo sysctl -w`",
    });
    let of_group = groups.tasks_left();
    let of_group =
        of_group.map(|left| SystemLimit { left, remedy: "raise `pids.max` (TasksMax) of its control group" });
    // The kernel does not apply it to root.
    let of_user = getrlimit(Resource::Nproc).maximum.filter(|_| !geteuid().is_root());
    let of_user = of_user.map(|most| SystemLimit {
        left: most.saturating_sub(tasks_of_user(geteuid().as_raw())),
        remedy: "raise `nproc` in /etc/security/limits.conf",
    });
    least([of_system, of_group, of_user])
}

fn least<const N: usize>(limits: [Option<SystemLimit>; N]) -> Option<SystemLimit> {
    limits.into_iter().flatten().min_by_key(|limit| limit.left)
}

/// The processors of the whole system, and those of them in use. A quota or an affinity does not change them.
#[derive(Clone, Copy, Debug, Default)]
struct SystemLoad {
    processors: f64,
    busy: f64,
}

impl SystemLoad {
    /// The part of the load that the other processors cannot carry, if this process has so many.
    fn beyond_idle(self, own: f64) -> f64 {
        (self.busy - (self.processors - own).max(0.0)).max(0.0)
    }
}

fn others() -> SystemLoad {
    let read = || fs::read_to_string("/proc/stat").ok();
    let before = read().and_then(|text| busy_ticks(&text));
    std::thread::sleep(SAMPLE);
    let Some((before, text)) = before.zip(read()) else { return SystemLoad::default() };
    let ticks = busy_ticks(&text).unwrap_or(before).saturating_sub(before);
    SystemLoad { processors: processors(&text), busy: ticks as f64 / TICKS_PER_SECOND / SAMPLE.as_secs_f64() }
}

fn processors(stat: &str) -> f64 {
    let is_one =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    stat.lines().filter(is_one).count() as f64
}

const TICKS_PER_SECOND: f64 = 100.0;

/// Ticks in use, without those of niced programs, which give way to a run.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait irq softirq steal
    let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Some([0, 2, 5, 6, 7].into_iter().filter_map(|place| fields.get(place)).sum())
}

fn tasks_of_user(user: u32) -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let statuses =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(|c: char| c.is_ascii_digit()));
    statuses.filter_map(|entry| threads_of(&fs::read_to_string(entry.path().join("status")).ok()?, user)).sum()
}

/// The number of a process's threads, if it is this user's.
fn threads_of(status: &str, user: u32) -> Option<u64> {
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next();
    let is_own = value("Uid:")?.parse() == Ok(user);
    if is_own { value("Threads:")?.parse().ok() } else { None }
}

fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Reads `/proc/sys/fs/file-nr`: open files, unused ones, the most.
fn free_files(text: &str) -> Option<u64> {
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Some(fields.get(2)?.saturating_sub(*fields.first()?))
}

/// The number of all threads in `/proc/loadavg`: `0.1 0.2 0.3 1/345 6789`.
fn all_tasks(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read() {
        let read = Resources::read();
        assert!(read.processors > 0.0 && read.others >= 0.0, "{read:?}");
        assert!(read.memory.is_some_and(|memory| memory.left > 1 << 20), "{read:?}");
    }

    #[test]
    fn kernel_texts_are_parsed() {
        assert_eq!(kilobytes("MemFree: 1 kB\nMemAvailable:    2048 kB\n", "MemAvailable:"), Some(2 << 20));
        assert_eq!((free_files("1000 0 5000\n"), free_files("7")), (Some(4000), None));
        assert_eq!((all_tasks("0.1 0.2 0.3 1/345 6789"), all_tasks("odd")), (Some(345), None));
        let status = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nThreads:\t4\n";
        assert_eq!((threads_of(status, 1000), threads_of(status, 0), threads_of("", 0)), (Some(4), None, None));
    }

    #[test]
    fn niced_programs_give_way() {
        let stat = |user, nice| format!("cpu  {user} {nice} 20 800 5 1 2 3 0 0\ncpu0 1\n");
        assert_eq!(busy_ticks(&stat(100, 50)), Some(126));
        assert_eq!(busy_ticks(&stat(100, 90)), Some(126));
        assert_eq!(busy_ticks("odd"), None);
    }

    #[test]
    fn load_of_idle_machine_takes_nothing() {
        let load = |busy| SystemLoad { processors: 64.0, busy };
        assert_eq!((load(20.0).beyond_idle(2.0), load(63.0).beyond_idle(2.0)), (0.0, 1.0));
        assert_eq!((load(20.0).beyond_idle(64.0), SystemLoad::default().beyond_idle(1.0)), (20.0, 0.0));
        assert_eq!(processors("cpu  1 2\ncpu0 1\ncpu1 1\nctxt 5\n"), 2.0);
    }

    #[test]
    fn tightest_limit_counts() {
        let limit = |left| Some(SystemLimit { left, remedy: "x" });
        assert_eq!(least([limit(5), None, limit(3)]), limit(3));
        assert_eq!(least([None, None]), None);
    }
}
