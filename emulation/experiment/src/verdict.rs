//! The verdict on a run's validity: did the emulation keep up?
//!
//! | criterion | limit | why |
//! |---|---|---|
//! | lateness, 99th percentile | 1 ms | Emulab's own acceptance test lets a round trip err by 3.5 ms; a packet that crosses three links here then errs by less. It is 1 % of the shortest published path (100 ms) |
//! | the same, second by second | 5 % of the seconds beyond it | a percentile over the whole run hides that everything stood still for a second |
//! | lateness, most | 50 ms | half of the shortest published path: no figure survives it |
//! | wait to be read, 99th percentile | 1 ms | the time that a packet waits in its host before the emulator reads it adds to its delay, and the lateness does not include it |
//! | begin of the workload | 1 ms after time 0 of the links | the links' traffic in between belongs to no request |
//! | the schedule's lateness | 100 ms | the shortest published path: no host farther away could tell. Scheduled changes of links are exact |
//! | overruns | 0 | a packet that the core never got was lost by the emulator, not by the network described |
//! | datagrams dropped by the reader | 0 | the network delivered them, and this program was too slow to take them from the daemon |
//! | connections to other machines | none overflowed | requests that failed so would not have failed on one machine |
//! | interfaces | none broke | packets of a host whose interface is gone are lost |
//! | traffic agents | sent all their packets, except for 1 % | a sender that does not keep its rate does not match its description |
//! | waiting for a processor | 10 % of any ten seconds, for each daemon | other daemons then slow it down, which would not happen on separate hosts |
//! | links | as described | by linktest |
//! | daemons | all run | one that died, other than by the plan, answers nobody |
//!
//! A criterion that could not be measured is not met. There are three exceptions, which the verdict only
//! mentions: a link test that the plan leaves out, paths that it cannot measure, such as those of more than 100
//! Mbit/s, and the lateness of packets of a network on which nobody sent any.
//!
//! The verdict also mentions the load of the processors, which decides nothing: a load that does harm makes
//! packets late or daemons wait.

use std::time::Duration;

use roost_lab::carrier::Lateness;
use roost_results::record::RunVerdict;

use super::windows::Windows;

/// The limit of the lateness of 99 % of the packets.
const LATENESS_P99: Duration = Duration::from_millis(1);
/// The limit of the fraction of seconds whose own 99th percentile is beyond that.
const LATE_SECONDS: f64 = 0.05;
/// The most lateness of any packet.
const LATENESS_MAX: Duration = Duration::from_millis(50);
/// The limit of the wait before reading for 99 % of the packets.
const UNREAD_P99: Duration = Duration::from_millis(1);
/// The limit of the time from time 0 of the links to the first request.
const START_GAP: Duration = Duration::from_millis(1);
/// The limit of the lateness of the schedule.
const SCHEDULE_LATE: Duration = Duration::from_millis(100);
/// The limit of the fraction of any window in which a daemon waits for a processor.
const STARVED: f64 = 0.10;

/// The seconds that had packets, and those in which packets were late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LateSeconds {
    all: u32,
    late: u32,
}

impl LateSeconds {
    /// Adds the lateness of one second's packets.
    pub(super) fn add_second(&mut self, lateness: &Lateness) {
        self.all += u32::from(lateness.packets() > 0);
        self.late += u32::from(lateness.quantile(0.99) > LATENESS_P99);
    }

    fn late_part(self) -> Option<f64> {
        (self.all > 0).then(|| f64::from(self.late) / f64::from(self.all))
    }
}

#[derive(Debug, Default)]
pub(super) struct Linktest {
    /// A line for each link or LAN.
    pub(super) lines: Vec<String>,
    /// The number of links and LANs that do not match their description.
    pub(super) failed: usize,
    /// Measurements that were impossible, one sentence each.
    pub(super) not_measured: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Start {
    /// Time from time 0, from which links count, to the first requests.
    pub(super) gap: Duration,
    /// Time from the first reading of a daemon's counters to time 0.
    pub(super) asked_before: Duration,
    /// The daemons whose counters did not come before the run.
    pub(super) unheard: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) start: Start,
    /// Lateness of the latest action of the schedule.
    pub(super) schedule_late: Option<Duration>,
    /// Datagrams from daemons that this program was too slow to read.
    pub(super) dropped_by_reader: u64,
    /// Interfaces that broke, and those whose losses are unknown.
    pub(super) broken: Vec<String>,
    pub(super) uncounted: Vec<String>,
    pub(super) lateness: Lateness,
    /// By second.
    pub(super) seconds: LateSeconds,
    /// The longest possible wait of packets in their hosts, before they were read.
    pub(super) unread: Lateness,
    /// Packets that the core did not receive.
    pub(super) overruns: u64,
    /// The load of the processors, and the daemons' waits for them.
    pub(super) windows: Windows,
    /// The result of linktest, unless it was left out.
    pub(super) linktest: Option<Linktest>,
    /// A sentence for each daemon that died without the plan's doing or gave no final counters, and for each
    /// traffic agent that failed.
    pub(super) losses: Vec<String>,
}

impl Observed {
    /// True if no host sent anything, and nothing was lost on the way to the emulator either.
    fn is_silent(&self) -> bool {
        self.unread.packets() == 0 && self.lateness.packets() == 0 && self.overruns == 0
    }
}

pub(super) fn judge(observed: Observed) -> RunVerdict {
    let lateness = &observed.lateness;
    let micros = |part| lateness.quantile(part).as_nanos() as f64 / 1e3;
    let mut not_measured = not_measured(&observed);
    let unknown = not_measured.iter().map(|what| format!("it was not measured {what}"));
    let reasons: Vec<String> = reasons(&observed).into_iter().chain(unknown).collect();
    not_measured.extend(observed.is_silent().then(|| "how late packets were: no host sent any".to_owned()));
    match &observed.linktest {
        Some(linktest) => not_measured.extend(linktest.not_measured.iter().cloned()),
        None => not_measured.push("whether links are as described: linktest was left out".to_owned()),
    }
    let read = observed.unread.packets() > 0;
    let millis = |time: Duration| time.as_nanos() as f64 / 1e6;
    RunVerdict {
        valid: reasons.is_empty(),
        reasons,
        not_measured,
        lateness_us: lateness.doublings_us(),
        lateness_p50_us: micros(0.5),
        lateness_p99_us: micros(0.99),
        lateness_p999_us: micros(0.999),
        lateness_max_us: lateness.max().as_nanos() as f64 / 1e3,
        late_seconds: observed.seconds.late_part(),
        read_wait_p99_us: read.then(|| observed.unread.quantile(0.99).as_nanos() as f64 / 1e3),
        overruns: observed.overruns,
        dropped_by_reader: observed.dropped_by_reader,
        start_gap_ms: Some(millis(observed.start.gap)),
        daemons_before_ms: Some(millis(observed.start.asked_before)),
        schedule_late_ms: observed.schedule_late.map(millis),
        cpu_busy: observed.windows.busy(),
        most_starved: observed.windows.most_starved(),
        linktest: observed.linktest.map(|linktest| linktest.lines).unwrap_or_default(),
    }
}

fn not_measured(observed: &Observed) -> Vec<String> {
    let mut missing = Vec::new();
    if observed.is_silent() {
        // The judge mentions it: nothing could be late.
    } else if observed.lateness.packets() == 0 {
        missing.push("how late packets were: none was delivered".to_owned());
    } else if observed.seconds.all == 0 {
        missing.push("how late packets were second by second: it ran for less than one".to_owned());
    }
    if observed.unread.packets() == 0 && !observed.is_silent() {
        missing.push("how long packets waited to be read: none was read".to_owned());
    }
    let unknown = observed.windows.unknown();
    if !unknown.is_empty() {
        missing.push(format!("how long {} waited for a processor: /proc does not tell", unknown.join(", ")));
    }
    if !observed.uncounted.is_empty() {
        missing.push(format!("how many packets were lost at {}: the kernel does not tell", some(&observed.uncounted)));
    }
    if !observed.start.unheard.is_empty() {
        let names = some(&observed.start.unheard);
        missing.push(format!("what {names} had counted before the run: asked, it did not say"));
    }
    missing
}

/// The first of some names, and the number of the others.
fn some(names: &[String]) -> String {
    match names {
        [first, _, _, _, ..] => format!("{first} and {} others", names.len() - 1),
        few => few.join(", "),
    }
}

fn reasons(observed: &Observed) -> Vec<String> {
    let mut reasons = lateness_reasons(observed);
    reasons.extend(time_reasons(observed));
    if observed.overruns > 0 {
        reasons.push(format!("{} packets were lost by the emulator, not by the network described", observed.overruns));
    }
    if observed.dropped_by_reader > 0 {
        reasons.push(format!(
            "{} datagrams came and are missing in the figures: the emulator was too slow to take them from the daemons",
            observed.dropped_by_reader
        ));
    }
    if !observed.broken.is_empty() {
        reasons.push(format!(
            "the interface of {} broke: nothing was carried from there any more",
            some(&observed.broken)
        ));
    }
    if let Some((name, part)) = observed.windows.most_starved().filter(|(_, part)| *part > STARVED) {
        reasons.push(format!(
            "{name} waited for a processor for {:.0} % of ten seconds; {:.0} % is the limit",
            part * 100.0,
            STARVED * 100.0
        ));
    }
    if let Some(linktest) = observed.linktest.as_ref().filter(|linktest| linktest.failed > 0) {
        let all = linktest.lines.len();
        reasons.push(format!("{} of {all} tested links were not as they are described", linktest.failed));
    }
    reasons.extend(observed.losses.iter().cloned());
    reasons
}

fn time_reasons(observed: &Observed) -> Vec<String> {
    let mut reasons = Vec::new();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    if observed.start.gap > START_GAP {
        reasons.push(format!(
            "nodes began to ask {:.1} ms after links began to count; {} ms is the limit: use an idle machine",
            millis(observed.start.gap),
            START_GAP.as_millis()
        ));
    }
    if let Some(late) = observed.schedule_late.filter(|late| *late > SCHEDULE_LATE) {
        reasons.push(format!(
            "a scheduled event happened {:.0} ms late; {} ms is the limit: use fewer hosts, or an idle machine",
            millis(late),
            SCHEDULE_LATE.as_millis()
        ));
    }
    reasons
}

fn lateness_reasons(observed: &Observed) -> Vec<String> {
    let mut reasons = Vec::new();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let late = observed.lateness.quantile(0.99);
    if late > LATENESS_P99 {
        reasons.push(format!(
            "1 packet in 100 was delivered more than {:.1} ms late; {} ms is the limit: fewer hosts, or an idle machine",
            millis(late),
            LATENESS_P99.as_millis()
        ));
    }
    if observed.seconds.late_part().is_some_and(|part| part > LATE_SECONDS) {
        reasons.push(format!(
            "in {} of {} seconds 1 packet in 100 was delivered more than {} ms late; {:.0} % of them is the limit",
            observed.seconds.late,
            observed.seconds.all,
            LATENESS_P99.as_millis(),
            LATE_SECONDS * 100.0
        ));
    }
    let most = observed.lateness.max();
    if most > LATENESS_MAX {
        reasons.push(format!(
            "a packet was delivered {:.0} ms late; {} ms is the limit: for a moment the emulator stood still",
            millis(most),
            LATENESS_MAX.as_millis()
        ));
    }
    let unread = observed.unread.quantile(0.99);
    if unread > UNREAD_P99 {
        reasons.push(format!(
            "1 packet in 100 may have waited {:.1} ms in its host before the emulator read it; {} ms is the limit: \
             fewer hosts, lower rates, or an idle machine",
            millis(unread),
            UNREAD_P99.as_millis()
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_facts::Processors;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn windows(busy: f64, waited: &[(&str, f64)]) -> Windows {
        let mut windows = Windows::default();
        for t in [0.0, 10.0] {
            let waited = waited.iter().map(|(name, part)| ((*name).to_owned(), Some(part * t)));
            windows.add_sample(t, Some(Processors { busy: busy * t, all: t }), waited.collect());
        }
        windows
    }

    fn seconds(all: u32, late: u32) -> LateSeconds {
        LateSeconds { all, late }
    }

    fn quiet() -> Observed {
        Observed {
            lateness: Lateness::from_packets(&[ms(1); 200]),
            seconds: seconds(60, 0),
            unread: Lateness::from_packets(&[ms(1)]),
            windows: windows(0.5, &[("a", 0.01), ("b", 0.02)]),
            linktest: Some(Linktest { lines: vec![String::new(); 4], ..Linktest::default() }),
            ..Observed::default()
        }
    }

    #[track_caller]
    fn refused(observed: Observed, word: &str) {
        let verdict = judge(observed);
        assert!(!verdict.valid && verdict.reasons.len() == 1 && verdict.reasons[0].contains(word), "{verdict:?}");
    }

    #[test]
    fn a_quiet_run_is_valid() {
        let verdict = judge(quiet());
        assert!(verdict.valid && verdict.reasons.is_empty() && verdict.not_measured.is_empty(), "{verdict:?}");
        assert_eq!((verdict.read_wait_p99_us, verdict.lateness_p99_us), (Some(1e3), 1e3));
        assert_eq!((verdict.cpu_busy, verdict.late_seconds), (Some(0.5), Some(0.0)));
        assert_eq!(verdict.most_starved.map(|(name, _)| name).as_deref(), Some("b"));
    }

    #[test]
    fn each_limit_has_its_sentence() {
        refused(Observed { lateness: Lateness::from_packets(&[ms(5)]), ..quiet() }, "delivered more than 5.0 ms late");
        refused(Observed { unread: Lateness::from_packets(&[ms(7)]), ..quiet() }, "may have waited 7.0 ms in its host");
        refused(Observed { overruns: 3, ..quiet() }, "3 packets were lost by the emulator");
        refused(Observed { windows: windows(0.5, &[("c", 0.15)]), ..quiet() }, "c waited for a processor for 15 %");
        let linktest = Some(Linktest { lines: vec![String::new(); 4], failed: 1, ..Linktest::default() });
        refused(Observed { linktest, ..quiet() }, "1 of 4 tested links");
        refused(Observed { losses: vec!["a died".to_owned()], ..quiet() }, "a died");
        refused(Observed { dropped_by_reader: 2, ..quiet() }, "2 datagrams came and are missing");
        refused(Observed { broken: vec!["a on l".to_owned()], ..quiet() }, "the interface of a on l broke");
    }

    #[test]
    fn late_start_or_schedule_is_invalid() {
        let start = |gap| Start { gap, asked_before: ms(400), ..Start::default() };
        refused(Observed { start: start(ms(3)), ..quiet() }, "nodes began to ask 3.0 ms after links");
        refused(Observed { schedule_late: Some(ms(250)), ..quiet() }, "happened 250 ms late; 100 ms is the limit");
        let verdict = judge(Observed { start: start(ms(1)), schedule_late: Some(ms(100)), ..quiet() });
        assert!(verdict.valid, "{verdict:?}");
        assert_eq!((verdict.start_gap_ms, verdict.daemons_before_ms), (Some(1.0), Some(400.0)));
        assert_eq!((verdict.schedule_late_ms, judge(quiet()).schedule_late_ms), (Some(100.0), None));
    }

    #[test]
    fn single_late_packet_is_noticed() {
        let mut packets = vec![ms(0); 9_999];
        packets.push(ms(51));
        refused(Observed { lateness: Lateness::from_packets(&packets), ..quiet() }, "51 ms late; 50 ms is the limit");
        refused(Observed { seconds: seconds(60, 4), ..quiet() }, "in 4 of 60 seconds");
        assert!(judge(Observed { seconds: seconds(60, 3), ..quiet() }).valid);
        let mut seconds = LateSeconds::default();
        for lateness in [Lateness::default(), Lateness::from_packets(&[ms(1)]), Lateness::from_packets(&[ms(2)])] {
            seconds.add_second(&lateness);
        }
        assert_eq!(seconds, LateSeconds { all: 2, late: 1 });
    }

    #[test]
    fn unmeasured_criterion_is_invalid() {
        refused(Observed { lateness: Lateness::default(), ..quiet() }, "how late packets were: none was delivered");
        refused(Observed { seconds: seconds(0, 0), ..quiet() }, "second by second");
        refused(Observed { unread: Lateness::default(), ..quiet() }, "not measured how long packets waited");
        let names = || ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        refused(Observed { uncounted: names(), ..quiet() }, "how many packets were lost at a and 3 others");
        let start = Start { unheard: names()[..2].to_vec(), ..Start::default() };
        refused(Observed { start, ..quiet() }, "what a, b had counted before the run");
        let mut unknown = windows(0.5, &[]);
        unknown.add_sample(20.0, None, vec![("d".to_owned(), None)]);
        refused(Observed { windows: unknown, ..quiet() }, "how long d waited for a processor");
    }

    #[test]
    fn busy_processors_harm_nobody() {
        let verdict = judge(Observed { windows: windows(1.0, &[("a", 0.01)]), ..quiet() });
        assert!(verdict.valid && verdict.cpu_busy == Some(1.0), "{verdict:?}");
        // A daemon that waits for a processor is harmed.
        refused(Observed { windows: windows(1.0, &[("a", 0.2)]), ..quiet() }, "a waited for a processor for 20 %");
    }

    #[test]
    fn silent_network_is_valid() {
        let silent = || Observed {
            lateness: Lateness::default(),
            seconds: seconds(0, 0),
            unread: Lateness::default(),
            ..quiet()
        };
        let verdict = judge(silent());
        assert!(verdict.valid && verdict.not_measured == ["how late packets were: no host sent any"], "{verdict:?}");
        let lost = judge(Observed { overruns: 1, ..silent() });
        assert!(!lost.valid, "{lost:?}");
    }

    #[test]
    fn skipped_linktest_is_reported() {
        let verdict = judge(Observed { linktest: None, ..quiet() });
        assert!(verdict.valid && verdict.not_measured.len() == 1, "{verdict:?}");
        assert!(verdict.not_measured[0].contains("linktest was left out"));
    }

    #[test]
    fn unmeasurable_linktest_is_reported() {
        let not_measured = vec!["whether the rate of l is as described: above 100 Mbit/s".to_owned()];
        let linktest = Some(Linktest { not_measured: not_measured.clone(), ..Linktest::default() });
        let verdict = judge(Observed { linktest, ..quiet() });
        assert!(verdict.valid && verdict.not_measured == not_measured, "{verdict:?}");
    }
}
