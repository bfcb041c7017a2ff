//! Whether the figures of a run can be trusted: did the emulation keep up?
//!
//! | criterion | limit | why |
//! |---|---|---|
//! | lateness, 99th percentile | 1 ms | Emulab's own acceptance test lets a round trip err by 3.5 ms; a packet that crosses three links here then errs by less. It is 1 % of the shortest published path (100 ms) |
//! | the same, second by second | 5 % of the seconds beyond it | a percentile over the whole run hides that everything stood still for a second |
//! | lateness, most | 50 ms | half of the shortest published path: no figure survives it |
//! | wait to be read, 99th percentile | 1 ms | what a packet waited in its host before the emulator took it is added to its delay, and no lateness tells of it |
//! | overruns | 0 | a packet that the core never got was lost by the emulator, not by the network described |
//! | processors in use | 95 % of any ten seconds | beyond it what is measured is this machine |
//! | waiting for a processor | 10 % of any ten seconds, for each daemon | a daemon is then slowed down by its neighbours, which on hosts of their own it would not be |
//! | links | as described | what linktest found |
//! | daemons | all run | one that died, other than by the plan, answers nobody |
//!
//! What could not be measured is not met. There are two exceptions, of which the
//! verdict tells and that is all: a link test that the plan leaves out, and paths
//! that it cannot measure, such as those of more than 100 Mbit/s.

use std::time::Duration;

use super::windows::Windows;
use crate::lab::carrier::Lateness;
use crate::report::record::Verdict;

/// The most lateness of 99 % of the packets.
const LATENESS_P99: Duration = Duration::from_millis(1);
/// The most of the seconds whose own 99th percentile may be beyond that.
const LATE_SECONDS: f64 = 0.05;
/// The most lateness of any packet.
const LATENESS_MAX: Duration = Duration::from_millis(50);
/// The most that 99 % of the packets may have waited to be read.
const UNREAD_P99: Duration = Duration::from_millis(1);
/// The most of all processors that may be in use in any window.
const CPU_BUSY: f64 = 0.95;
/// The most of any window that a daemon may wait for a processor.
const STARVED: f64 = 0.10;

/// How many seconds had packets, and how many of them were late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seconds {
    all: u32,
    late: u32,
}

impl Seconds {
    /// Takes in how late the packets of one second were.
    pub(super) fn take(&mut self, lateness: &Lateness) {
        self.all += u32::from(lateness.packets() > 0);
        self.late += u32::from(lateness.quantile(0.99) > LATENESS_P99);
    }

    fn late_part(self) -> Option<f64> {
        (self.all > 0).then(|| f64::from(self.late) / f64::from(self.all))
    }
}

/// What linktest said.
#[derive(Debug, Default)]
pub(super) struct Linktest {
    /// One line for each link or LAN.
    pub(super) lines: Vec<String>,
    /// How many of them are not as they are described.
    pub(super) failed: usize,
    /// What it could not tell, one sentence each.
    pub(super) not_measured: Vec<String>,
}

/// What was seen of the emulation itself.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// How late packets were.
    pub(super) lateness: Lateness,
    /// The same second by second.
    pub(super) seconds: Seconds,
    /// How long packets stood in their hosts at most, before they were read.
    pub(super) unread: Lateness,
    /// Packets that the core did not get.
    pub(super) overruns: u64,
    /// What was used of the processors, and who waited for them.
    pub(super) windows: Windows,
    /// What linktest said, unless it was left out.
    pub(super) linktest: Option<Linktest>,
    /// One sentence for each daemon that died without the plan's doing, or
    /// did not say at the end what it had counted.
    pub(super) losses: Vec<String>,
}

/// The verdict on what was seen.
pub(super) fn judge(observed: Observed) -> Verdict {
    let lateness = &observed.lateness;
    let micros = |part| lateness.quantile(part).as_nanos() as f64 / 1e3;
    let mut not_measured = not_measured(&observed);
    let unknown = not_measured.iter().map(|what| format!("it was not measured {what}"));
    let reasons: Vec<String> = reasons(&observed).into_iter().chain(unknown).collect();
    match &observed.linktest {
        Some(linktest) => not_measured.extend(linktest.not_measured.iter().cloned()),
        None => not_measured.push("whether links are as described: linktest was left out".to_owned()),
    }
    let read = observed.unread.packets() > 0;
    Verdict {
        valid: reasons.is_empty(),
        reasons,
        not_measured,
        lateness_us: lateness.doublings_us(),
        lateness_p50_us: micros(0.5),
        lateness_p99_us: micros(0.99),
        lateness_p999_us: micros(0.999),
        lateness_max_us: lateness.max().as_nanos() as f64 / 1e3,
        late_seconds: observed.seconds.late_part(),
        unread_p99_us: read.then(|| observed.unread.quantile(0.99).as_nanos() as f64 / 1e3),
        overruns: observed.overruns,
        cpu_busy: observed.windows.busy(),
        most_starved: observed.windows.most_starved(),
        linktest: observed.linktest.map(|linktest| linktest.lines).unwrap_or_default(),
    }
}

/// Of what nothing is known though it has to be.
fn not_measured(observed: &Observed) -> Vec<String> {
    let mut missing = Vec::new();
    if observed.lateness.packets() == 0 {
        missing.push("how late packets were: none was delivered".to_owned());
    } else if observed.seconds.all == 0 {
        missing.push("how late packets were second by second: it ran for less than one".to_owned());
    }
    if observed.unread.packets() == 0 {
        missing.push("how long packets waited to be read: none was read".to_owned());
    }
    if observed.windows.busy().is_none() {
        missing.push("how much of the processors was in use: /proc/stat does not tell".to_owned());
    }
    let unknown = observed.windows.unknown();
    if !unknown.is_empty() {
        missing.push(format!("how long {} waited for a processor: /proc does not tell", unknown.join(", ")));
    }
    missing
}

fn reasons(observed: &Observed) -> Vec<String> {
    let mut reasons = lateness_reasons(observed);
    if observed.overruns > 0 {
        reasons.push(format!("{} packets were lost by the emulator, not by the network described", observed.overruns));
    }
    if let Some(busy) = observed.windows.busy().filter(|busy| *busy > CPU_BUSY) {
        reasons.push(format!(
            "{:.0} % of the processors were in use for ten seconds; {:.0} % is the limit",
            busy * 100.0,
            CPU_BUSY * 100.0
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
    use crate::machine::Processors;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn windows(busy: f64, waited: &[(&str, f64)]) -> Windows {
        let mut windows = Windows::default();
        for t in [0.0, 10.0] {
            let waited = waited.iter().map(|(name, part)| ((*name).to_owned(), Some(part * t)));
            windows.take(t, Some(Processors { busy: busy * t, all: t }), waited.collect());
        }
        windows
    }

    fn seconds(all: u32, late: u32) -> Seconds {
        Seconds { all, late }
    }

    fn quiet() -> Observed {
        Observed {
            lateness: Lateness::of(&[ms(1); 200]),
            seconds: seconds(60, 0),
            unread: Lateness::of(&[ms(1)]),
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
        assert_eq!((verdict.unread_p99_us, verdict.lateness_p99_us), (Some(1e3), 1e3));
        assert_eq!((verdict.cpu_busy, verdict.late_seconds), (Some(0.5), Some(0.0)));
        assert_eq!(verdict.most_starved.map(|(name, _)| name).as_deref(), Some("b"));
    }

    #[test]
    fn each_limit_has_its_sentence() {
        refused(Observed { lateness: Lateness::of(&[ms(5)]), ..quiet() }, "delivered more than 5.0 ms late");
        refused(Observed { unread: Lateness::of(&[ms(7)]), ..quiet() }, "may have waited 7.0 ms in its host");
        refused(Observed { overruns: 3, ..quiet() }, "3 packets were lost by the emulator");
        refused(Observed { windows: windows(0.97, &[]), ..quiet() }, "97 % of the processors");
        refused(Observed { windows: windows(0.5, &[("c", 0.15)]), ..quiet() }, "c waited for a processor for 15 %");
        let linktest = Some(Linktest { lines: vec![String::new(); 4], failed: 1, ..Linktest::default() });
        refused(Observed { linktest, ..quiet() }, "1 of 4 tested links");
        refused(Observed { losses: vec!["a died".to_owned()], ..quiet() }, "a died");
    }

    #[test]
    fn a_moment_of_standstill_is_not_lost_among_many_packets() {
        let mut packets = vec![ms(0); 9_999];
        packets.push(ms(51));
        refused(Observed { lateness: Lateness::of(&packets), ..quiet() }, "51 ms late; 50 ms is the limit");
        refused(Observed { seconds: seconds(60, 1), ..quiet() }, "in 1 of 60 seconds");
        assert!(judge(Observed { seconds: seconds(100, 1), ..quiet() }).valid);
        let mut seconds = Seconds::default();
        for lateness in [Lateness::default(), Lateness::of(&[ms(1)]), Lateness::of(&[ms(2)])] {
            seconds.take(&lateness);
        }
        assert_eq!(seconds, Seconds { all: 2, late: 1 });
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        refused(Observed { lateness: Lateness::default(), ..quiet() }, "how late packets were: none was delivered");
        refused(Observed { seconds: seconds(0, 0), ..quiet() }, "second by second");
        refused(Observed { unread: Lateness::default(), ..quiet() }, "not measured how long packets waited");
        refused(Observed { windows: Windows::default(), ..quiet() }, "how much of the processors was in use");
        let mut unknown = windows(0.5, &[]);
        unknown.take(20.0, None, vec![("d".to_owned(), None)]);
        refused(Observed { windows: unknown, ..quiet() }, "how long d waited for a processor");
    }

    #[test]
    fn a_link_test_that_was_left_out_is_told() {
        let verdict = judge(Observed { linktest: None, ..quiet() });
        assert!(verdict.valid && verdict.not_measured.len() == 1, "{verdict:?}");
        assert!(verdict.not_measured[0].contains("linktest was left out"));
    }

    #[test]
    fn what_the_link_test_cannot_measure_is_told() {
        let not_measured = vec!["whether the rate of l is as described: above 100 Mbit/s".to_owned()];
        let linktest = Some(Linktest { not_measured: not_measured.clone(), ..Linktest::default() });
        let verdict = judge(Observed { linktest, ..quiet() });
        assert!(verdict.valid && verdict.not_measured == not_measured, "{verdict:?}");
    }
}
