//! The comparison of a run's needs with a machine's resources.

use super::costs::Build;
use super::demand::Demand;
use super::machine::{Resources, SystemLimit};
use super::outline::RunOutline;

/// The estimated part of the processors up to which a run counts as safe.
///
/// It rests on stars of 25 to 200 nodes with the published mix, one run each: at an estimate of 0.48 a daemon waited for a
/// processor for 8 % of ten seconds, at 0.61 for 14 %, and the verdict's limit is 10 %. A run of tracks alone at 0.17
/// waited for 11 %, beside builds.
const VALID_PART: f64 = 0.5;
/// The estimated part from which a run counts as not valid. The star of 150, at 0.73, waited for 22 %, and that of 200
/// for 38 %.
const LATE_PART: f64 = 0.7;
/// The part of a limit of memory from which a run is doubtful: the estimate may be off by as much.
const TIGHT_MEMORY: f64 = 0.8;
/// The most nodes that are ever advised.
const MOST_NODES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShortageGrade {
    /// The run may come to a valid end or not.
    Doubtful,
    /// The run would end, and its figures could not be trusted.
    Late,
    /// The run would break off, or could not begin.
    Impossible,
}

/// A resource that a run needs more of than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub grade: ShortageGrade,
    /// The consequence and the remedy, without a full stop.
    pub sentence: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub demand: Demand,
    pub shortages: Vec<Shortage>,
    /// The most nodes of such a run for which everything suffices.
    pub most_nodes: Option<usize>,
    run: RunOutline,
    resources: Resources,
}

impl Estimate {
    pub fn compare(run: &RunOutline, build: Build, resources: &Resources) -> Self {
        let demand = Demand::of_run(run, build);
        let mut shortages = shortages(&demand, resources);
        shortages.sort_by_key(|shortage| std::cmp::Reverse(shortage.grade));
        let most_nodes = (run.nodes > 0).then(|| most_nodes(run, build, resources));
        Self { demand, shortages, most_nodes, run: *run, resources: *resources }
    }

    /// True if the run should not begin.
    pub fn is_refused(&self) -> bool {
        self.worst().is_some_and(|grade| grade > ShortageGrade::Doubtful)
    }

    pub fn worst(&self) -> Option<ShortageGrade> {
        self.shortages.first().map(|shortage| shortage.grade)
    }

    /// The needs in a sentence without an end: `401 daemons need some 3.1 processors and 2.1 GB`.
    pub fn needs(&self) -> String {
        let (daemons, hosts) = (self.run.daemons(), self.run.network.hosts);
        let (count, what) = if daemons > 0 { (daemons, "daemon") } else { (hosts, "host") };
        let verb = if count == 1 { "needs" } else { "need" };
        let Demand { processors, memory_bytes, .. } = self.demand;
        let processors = if processors < 0.05 { "less than 0.1".to_owned() } else { format!("some {processors:.1}") };
        let part = if self.run.other_machines > 0 { ", this machine's part," } else { "" };
        let rest = if self.run.has_programs { " without its programs" } else { "" };
        format!("{}{part} {verb} {processors} processors and {}{rest}", counted(count, what), gigabytes(memory_bytes))
    }

    /// The resources in a sentence without an end: `this machine has 2 processors and 22.6 GB free`.
    pub fn resources(&self) -> String {
        let memory = self.resources.memory.map(|memory| format!(" and {} free", gigabytes(memory.left)));
        let processors = self.resources.processors;
        let count = if processors.fract() == 0.0 { format!("{processors:.0}") } else { format!("{processors:.1}") };
        let unit = if processors == 1.0 { "processor" } else { "processors" };
        format!("this machine has {count} {unit}{}", memory.unwrap_or_default())
    }

    /// The needs, the resources, each shortage, and the ways out.
    pub fn explain(&self) -> String {
        let sentences: Vec<&str> = self.shortages.iter().map(|shortage| shortage.sentence.as_str()).collect();
        let ways = self.ways().join(", ");
        let ways = if ways.is_empty() { ways } else { format!("; use {ways}") };
        format!("{}, and {}: {}{ways}", self.needs(), self.resources(), sentences.join("; "))
    }

    /// The ways out. Each machine would have as many nodes.
    fn ways(&self) -> Vec<String> {
        let machines = self.run.other_machines + 1;
        let mut ways = match self.most_nodes {
            Some(0) => vec!["`emulate simulate`".to_owned()],
            Some(most) if most < self.run.nodes => {
                vec![format!("at most {} nodes", most * machines), "`emulate simulate`".to_owned()]
            }
            None if self.is_refused() => vec!["fewer hosts".to_owned(), "lower rates".to_owned()],
            _ => return Vec::new(),
        };
        if machines == 1 {
            ways.push("--machines".to_owned());
        }
        if let [.., _, last] = ways.as_mut_slice() {
            last.insert_str(0, "or ");
        }
        ways
    }
}

fn shortages(demand: &Demand, resources: &Resources) -> Vec<Shortage> {
    let limits = [
        ("open files in one process", demand.open_files, resources.open_files),
        ("open files in all", demand.system_files, resources.system_files),
        ("threads", demand.tasks, resources.tasks),
        ("network namespaces", demand.namespaces, resources.namespaces),
    ];
    let limited = limits.into_iter().filter_map(|(what, needed, limit)| exceeded(what, needed, limit?));
    let found = [processors(demand, resources), memory(demand, resources)];
    found.into_iter().flatten().chain(limited).collect()
}

fn processors(demand: &Demand, resources: &Resources) -> Option<Shortage> {
    let used = demand.processors / resources.processors.max(0.01);
    if used > LATE_PART {
        let sentence = "daemons and packets would wait for a processor, and the run would not be valid".to_owned();
        return Some(Shortage { grade: ShortageGrade::Late, sentence });
    }
    let sentence = if used > VALID_PART {
        "daemons and packets may wait for a processor, and then the run is not valid".to_owned()
    } else if demand.processors + resources.others > VALID_PART * resources.processors && is_busy(resources) {
        format!("other programs use {:.1} processors now: end them, or the run may not be valid", resources.others)
    } else {
        return None;
    };
    Some(Shortage { grade: ShortageGrade::Doubtful, sentence })
}

/// Below this a machine counts as quiet: every system does something.
fn is_busy(resources: &Resources) -> bool {
    resources.others > 0.1 * resources.processors
}

fn memory(demand: &Demand, resources: &Resources) -> Option<Shortage> {
    let SystemLimit { left, remedy } = resources.memory?;
    let used = demand.memory_bytes as f64 / left.max(1) as f64;
    let (grade, consequence) = match used {
        _ if demand.memory_bytes > left.saturating_add(resources.swap) => {
            (ShortageGrade::Impossible, "the system would kill daemons for lack of memory")
        }
        _ if used > 1.0 => (ShortageGrade::Doubtful, "daemons may wait for memory that is swapped out"),
        _ if used > TIGHT_MEMORY => (ShortageGrade::Doubtful, "the system may kill daemons for lack of memory"),
        _ => return None,
    };
    Some(Shortage { grade, sentence: format!("{consequence}: {remedy}") })
}

fn exceeded(what: &str, needed: u64, limit: SystemLimit) -> Option<Shortage> {
    let SystemLimit { left, remedy } = limit;
    (needed > left).then(|| Shortage {
        grade: ShortageGrade::Impossible,
        sentence: format!("{needed} {what} are needed and {left} are left: {remedy}"),
    })
}

/// The most nodes for which a quiet machine suffices without doubt.
fn most_nodes(run: &RunOutline, build: Build, resources: &Resources) -> usize {
    let quiet = Resources { others: 0.0, ..*resources };
    let fits = |nodes: usize| shortages(&Demand::of_run(&run.with_nodes(nodes), build), &quiet).is_empty();
    let (mut fitting, mut beyond) = (0, MOST_NODES + 1);
    while fitting + 1 < beyond {
        let middle = fitting.midpoint(beyond);
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    fitting
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{NetworkOutline, TrafficOutline};

    const fn limit(left: u64) -> Option<SystemLimit> {
        Some(SystemLimit { left, remedy: "raise it" })
    }

    /// A laptop: as many processors, and everything else in plenty.
    fn machine(processors: f64) -> Resources {
        Resources { processors, memory: limit(16 << 30), open_files: limit(4096), ..Resources::default() }
    }

    /// A star of so many nodes with the published mix.
    fn star(nodes: usize) -> RunOutline {
        let network = NetworkOutline { hosts: nodes + 1, interfaces: nodes + 1, open_files: 3 * nodes as u64 };
        let packets = 28.0 * nodes as f64;
        let requests = nodes as f64 / 6.0;
        let traffic = TrafficOutline { requests, delivered: packets, relayed: 0.0, carried: packets };
        RunOutline { nodes, hubs: 1, network, traffic, ..RunOutline::default() }
    }

    fn compare(nodes: usize, resources: &Resources) -> Estimate {
        Estimate::compare(&star(nodes), Build::Release, resources)
    }

    #[test]
    fn small_run_needs_no_words() {
        let estimate = compare(10, &machine(2.0));
        assert_eq!((estimate.shortages.as_slice(), estimate.is_refused()), ([].as_slice(), false));
        assert!(estimate.needs().starts_with("11 daemons need some 0."), "{}", estimate.needs());
        assert_eq!(estimate.resources(), "this machine has 2 processors and 17.2 GB free");
    }

    #[test]
    fn many_nodes_are_late() {
        let estimate = compare(3000, &Resources { open_files: None, memory: None, ..machine(2.0) });
        assert_eq!(estimate.worst(), Some(ShortageGrade::Late));
        let most = estimate.most_nodes.unwrap();
        assert!(most > 10 && most < 3000, "{most}");
        let text = estimate.explain();
        assert!(text.contains(&format!("use at most {most} nodes, `emulate simulate`")), "{text}");
        assert!(compare(most, &machine(2.0)).shortages.is_empty());
        assert!(!compare(most + 1, &machine(2.0)).shortages.is_empty());
    }

    #[test]
    fn hard_limits_come_first() {
        let small = Resources { memory: limit(100 << 20), namespaces: limit(50), tasks: limit(50), ..machine(0.5) };
        let estimate = compare(400, &small);
        let grades: Vec<ShortageGrade> = estimate.shortages.iter().map(|shortage| shortage.grade).collect();
        assert_eq!(grades[..3], [ShortageGrade::Impossible; 3]);
        assert_eq!(grades.last(), Some(&ShortageGrade::Late));
        let text = estimate.explain();
        assert!(text.contains("403 network namespaces are needed and 50 are left: raise it"), "{text}");
        assert!(text.contains("kill daemons for lack of memory"), "{text}");
    }

    #[test]
    fn other_programs_make_doubtful() {
        let estimate = compare(10, &Resources { others: 1.5, ..machine(2.0) });
        assert_eq!((estimate.worst(), estimate.is_refused()), (Some(ShortageGrade::Doubtful), false));
        assert!(estimate.explain().contains("other programs use 1.5 processors now"), "{}", estimate.explain());
        assert_eq!(compare(10, &Resources { others: 0.1, ..machine(2.0) }).shortages, []);
    }

    #[test]
    fn network_without_daemons_needs_less() {
        let hosts = RunOutline { nodes: 0, hubs: 0, ..star(10) };
        let estimate = Estimate::compare(&hosts, Build::Release, &machine(2.0));
        assert!(estimate.needs().starts_with("11 hosts need") && estimate.most_nodes.is_none(), "{estimate:?}");
    }

    #[test]
    fn machines_share_a_run() {
        let run = star(400);
        let third = run.shared_by(3);
        assert_eq!((third.nodes, third.network.hosts, run.shared_by(1)), (134, 134, run));
        assert!((third.traffic.requests * 3.0 - run.traffic.requests).abs() < 1e-9);
    }

    #[test]
    fn advice_counts_all_machines() {
        let small = Resources { memory: None, open_files: None, ..machine(2.0) };
        let most = compare(400, &small).most_nodes.unwrap();
        let estimate = Estimate::compare(&star(1200).shared_by(3), Build::Release, &small);
        let (each, text) = (estimate.most_nodes.unwrap(), estimate.explain());
        assert!(each.abs_diff(most) < 3, "{each}");
        assert!(text.contains(&format!("use at most {} nodes, or `emulate simulate`", each * 3)), "{text}");
        assert!(!text.contains("--machines") && text.contains("this machine's part,"), "{text}");
        assert!(compare(400, &small).explain().ends_with("`emulate simulate`, or --machines"));
    }

    #[test]
    fn swap_makes_lack_of_memory_doubtful() {
        let short = Resources { memory: limit(200 << 20), ..machine(64.0) };
        let graded = |swap| compare(100, &Resources { swap, ..short }).worst();
        assert_eq!((graded(0), graded(8 << 30)), (Some(ShortageGrade::Impossible), Some(ShortageGrade::Doubtful)));
    }

    #[test]
    fn unknown_programs_are_named() {
        let run = RunOutline { has_programs: true, ..star(10) };
        let needs = Estimate::compare(&run, Build::Release, &machine(2.0)).needs();
        assert!(needs.ends_with(" GB without its programs"), "{needs}");
    }

    proptest! {
        #[test]
        fn any_numbers_compare(nodes in 0usize..200_000, processors in 0.0..512.0f64, left in any::<u64>()) {
            let some = limit(left);
            let resources = Resources {
                processors, others: 0.0, memory: some, open_files: some, system_files: some, tasks: some,
                namespaces: some, swap: left,
            };
            let estimate = compare(nodes, &resources);
            prop_assert!(!estimate.explain().is_empty());
            prop_assert!(estimate.most_nodes.is_none_or(|most| most <= MOST_NODES));
        }

        #[test]
        fn more_nodes_never_fit_better(nodes in 1usize..2000, more in 1usize..2000) {
            let few = compare(nodes, &machine(4.0)).worst();
            prop_assert!(compare(nodes + more, &machine(4.0)).worst() >= few);
        }
    }
}
