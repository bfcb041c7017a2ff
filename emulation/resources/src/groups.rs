//! The limits of control groups (cgroups), of both versions.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";
/// The greatest number of microseconds or bytes that is a limit; version 1 writes almost `i64::MAX` for none.
const NO_LIMIT: u64 = 1 << 60;

/// Reads this process's control groups up to the root.
pub(super) struct ControlGroups {
    lines: String,
}

/// A group's folder, and the version of its files.
#[derive(Debug, PartialEq, Eq)]
struct GroupFolder {
    path: PathBuf,
    is_old: bool,
}

impl ControlGroups {
    pub(super) fn of_this_process() -> Self {
        Self { lines: fs::read_to_string("/proc/self/cgroup").unwrap_or_default() }
    }

    /// The processors that all groups allow, if one has a quota.
    pub(super) fn processors(&self) -> Option<f64> {
        let quota = |group: &GroupFolder| match group.is_old {
            true => {
                let quota = number(&group.path.join("cpu.cfs_quota_us"))?;
                Some(quota as f64 / number(&group.path.join("cpu.cfs_period_us"))?.max(1) as f64)
            }
            false => parse_quota(&fs::read_to_string(group.path.join("cpu.max")).ok()?),
        };
        self.folders("cpu").iter().filter_map(quota).reduce(f64::min)
    }

    /// The memory that all groups leave, if one has a limit.
    pub(super) fn memory_left(&self) -> Option<u64> {
        let left = |group: &GroupFolder| {
            let (limit, used) = match group.is_old {
                true => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
                false => ("memory.max", "memory.current"),
            };
            let limit = number(&group.path.join(limit)).filter(|limit| *limit < NO_LIMIT)?;
            let stat = fs::read_to_string(group.path.join("memory.stat")).unwrap_or_default();
            let used = number(&group.path.join(used))?.saturating_sub(reclaimable(&stat));
            Some(limit.saturating_sub(used))
        };
        self.folders("memory").iter().filter_map(left).min()
    }

    /// The swap that all groups leave, if one has a limit. Version 1 counts it with memory.
    pub(super) fn swap_left(&self) -> Option<u64> {
        let left = |group: &GroupFolder| {
            let limit = number(&group.path.join("memory.swap.max"))?;
            Some(limit.saturating_sub(number(&group.path.join("memory.swap.current"))?))
        };
        self.folders("memory").iter().filter_map(left).min()
    }

    /// The threads that all groups leave, if one has a limit.
    pub(super) fn tasks_left(&self) -> Option<u64> {
        let left = |group: &GroupFolder| {
            let limit = number(&group.path.join("pids.max"))?;
            Some(limit.saturating_sub(number(&group.path.join("pids.current"))?))
        };
        self.folders("pids").iter().filter_map(left).min()
    }

    fn folders(&self, controller: &str) -> Vec<GroupFolder> {
        folders(&self.lines, controller)
    }
}

/// The folders of a controller's groups, from the process's own to the root.
fn folders(lines: &str, controller: &str) -> Vec<GroupFolder> {
    let own = lines.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_old = controllers.split(',').any(|name| name == controller);
        (is_old || controllers.is_empty()).then_some((is_old, path))
    });
    let above = own.flat_map(|(is_old, path)| {
        let base = if is_old { Path::new(ROOT).join(controller) } else { ROOT.into() };
        let group = base.join(path.trim_start_matches('/'));
        let up: Vec<PathBuf> =
            group.ancestors().take_while(|folder| folder.starts_with(&base)).map(Into::into).collect();
        up.into_iter().map(move |path| GroupFolder { path, is_old })
    });
    above.collect()
}

/// A file's number; `max` and negative numbers are none.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Reads `cpu.max`: a quota and a period in microseconds.
fn parse_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|period| *period > 0.0)?)
}

/// Memory of files in the cache, and of the system's own caches, that the system gives back when it is needed.
fn reclaimable(stat: &str) -> u64 {
    let line = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok();
        stat.lines().find_map(value)
    };
    let of_all = |name: &str| line(&format!("total_{name}")).or_else(|| line(name)).unwrap_or(0);
    ["inactive_file", "active_file", "slab_reclaimable"].into_iter().map(of_all).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_above_are_read() {
        let path = |text: &str, is_old| GroupFolder { path: text.into(), is_old };
        let new = folders("0::/user.slice/a.scope\n", "cpu");
        assert_eq!(new, ["/user.slice/a.scope", "/user.slice", ""].map(|at| path(&format!("{ROOT}{at}"), false)));
        let old = "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n";
        assert_eq!(folders(old, "cpu")[0], path("/sys/fs/cgroup/cpu/docker/x", true));
        assert_eq!((folders(old, "memory").len(), folders(old, "pids").len(), folders("odd", "cpu").len()), (3, 0, 0));
    }

    #[test]
    fn quotas_and_caches_are_parsed() {
        assert_eq!(
            (parse_quota("150000 100000\n"), parse_quota("max 100000\n"), parse_quota("1 0")),
            (Some(1.5), None, None)
        );
        assert_eq!(reclaimable("anon 5\ninactive_file 4096\n"), 4096);
        assert_eq!(reclaimable("inactive_file 1\ntotal_inactive_file 7\n"), 7);
        assert_eq!(reclaimable("active_file 30\ninactive_file 4\nslab_reclaimable 200\nslab 900\n"), 234);
        assert_eq!(reclaimable(""), 0);
    }
}
