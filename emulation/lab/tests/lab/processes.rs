//! Processes in `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use roost_wait::wait_until;

/// The processes below `root`, itself included, parents first.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![root];
    let mut next = 0;
    while next < family.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == family[next]).map(|(pid, _)| *pid);
        family.extend(children.collect::<Vec<_>>());
        next += 1;
    }
    family
}

pub(crate) fn networks(of: &[u32]) -> BTreeSet<PathBuf> {
    of.iter().filter_map(|pid| network(*pid)).collect()
}

/// Waits until no process is in any of these namespaces; returns those that remain.
pub(crate) fn remaining_in(networks: &BTreeSet<PathBuf>, patience: Duration) -> Vec<u32> {
    let remaining = || all().filter(|pid| network(*pid).is_some_and(|it| networks.contains(&it))).collect::<Vec<u32>>();
    wait_until(patience, || remaining().is_empty().then(Vec::new)).unwrap_or_else(remaining)
}

/// The processor time of a process, in hundredths of a second.
pub(crate) fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

fn all() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn network(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}
