//! Whether the figures of a run can be trusted: did the emulation keep up?
//!
//! | criterion | limit | why |
//! |---|---|---|
//! | lateness, 99th percentile | 1 ms | Emulab's own acceptance test lets a round trip err by 3.5 ms; a packet that crosses three links here then errs by less. It is 1 % of the shortest published path (100 ms) |
//! | wait to be read, 99th percentile | 1 ms | what a packet waited in its host before the emulator took it is added to its delay, and no lateness tells of it |
//! | overruns | 0 | a packet that the core never got was lost by the emulator, not by the network described |
//! | processors in use | 95 % | beyond it what is measured is this machine |
//! | waiting for a processor | 10 % of the run, for each daemon | a daemon is then slowed down by its neighbours, which on hosts of their own it would not be |
//! | links | as described | what linktest found |
//! | daemons | all run | one that died, other than by the plan, answers nobody |

use std::time::Duration;

use crate::lab::carrier::Lateness;
use crate::report::record::Verdict;

/// The most lateness of 99 % of the packets.
const LATENESS_P99: Duration = Duration::from_millis(1);
/// The most that 99 % of the packets may have waited to be read.
const UNREAD_P99: Duration = Duration::from_millis(1);
/// The most of all processors that may be in use.
const CPU_BUSY: f64 = 0.95;
/// The most of the run that a daemon may wait for a processor.
const STARVED: f64 = 0.10;

/// What was seen of the emulation itself.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// How late packets were.
    pub(super) lateness: Lateness,
    /// How long packets stood in their hosts at most, before they were read.
    pub(super) unread: Lateness,
    /// Packets that the core did not get.
    pub(super) overruns: u64,
    /// The part of all processors in use, 0 to 1.
    pub(super) cpu_busy: f64,
    /// How long each daemon waited for a processor, seconds.
    pub(super) waited: Vec<(String, f64)>,
    /// How long the run was, seconds.
    pub(super) ran_s: f64,
    /// What linktest said, and how many links failed.
    pub(super) linktest: Vec<String>,
    /// See `linktest`.
    pub(super) links_failed: usize,
    /// One sentence for each daemon that died without the plan's doing, or
    /// did not say at the end what it had counted.
    pub(super) losses: Vec<String>,
}

/// The verdict on what was seen.
pub(super) fn judge(observed: Observed) -> Verdict {
    let lateness = &observed.lateness;
    let micros = |part| lateness.quantile(part).as_nanos() as f64 / 1e3;
    let longest = observed.waited.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let starved = longest.filter(|_| observed.ran_s > 0.0).map(|(name, wait)| (name.clone(), wait / observed.ran_s));
    let reasons = reasons(&observed, starved.as_ref());
    Verdict {
        valid: reasons.is_empty(),
        reasons,
        lateness_us: lateness.doublings_us(),
        lateness_p50_us: micros(0.5),
        lateness_p99_us: micros(0.99),
        lateness_p999_us: micros(0.999),
        lateness_max_us: lateness.max().as_nanos() as f64 / 1e3,
        unread_p99_us: observed.unread.quantile(0.99).as_nanos() as f64 / 1e3,
        overruns: observed.overruns,
        cpu_busy: observed.cpu_busy,
        most_starved: starved,
        linktest: observed.linktest,
    }
}

fn reasons(observed: &Observed, starved: Option<&(String, f64)>) -> Vec<String> {
    let mut reasons = Vec::new();
    let late = observed.lateness.quantile(0.99);
    if late > LATENESS_P99 {
        reasons.push(format!(
            "1 packet in 100 was delivered more than {:.1} ms late; {} ms is the limit: fewer hosts, or an idle machine",
            late.as_secs_f64() * 1e3,
            LATENESS_P99.as_millis()
        ));
    }
    let unread = observed.unread.quantile(0.99);
    if unread > UNREAD_P99 {
        reasons.push(format!(
            "1 packet in 100 may have waited {:.1} ms in its host before the emulator read it; {} ms is the limit: \
             fewer hosts, lower rates, or an idle machine",
            unread.as_secs_f64() * 1e3,
            UNREAD_P99.as_millis()
        ));
    }
    if observed.overruns > 0 {
        reasons.push(format!("{} packets were lost by the emulator, not by the network described", observed.overruns));
    }
    if observed.cpu_busy > CPU_BUSY {
        reasons.push(format!("{:.0} % of the processors were in use; 95 % is the limit", observed.cpu_busy * 100.0));
    }
    if let Some((name, part)) = starved.filter(|(_, part)| *part > STARVED) {
        reasons.push(format!("{name} waited for a processor for {:.0} % of the run; 10 % is the limit", part * 100.0));
    }
    if observed.links_failed > 0 {
        let all = observed.linktest.len();
        reasons.push(format!("{} of {all} tested links were not as they are described", observed.links_failed));
    }
    reasons.extend(observed.losses.iter().cloned());
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_run_is_valid_and_each_limit_has_its_sentence() {
        let quiet = || Observed {
            cpu_busy: 0.5,
            waited: vec![("a".to_owned(), 1.0), ("b".to_owned(), 2.0)],
            ran_s: 60.0,
            ..Observed::default()
        };
        let verdict = judge(quiet());
        assert!(verdict.valid && verdict.reasons.is_empty());
        assert_eq!(verdict.most_starved.map(|(name, _)| name).as_deref(), Some("b"));
        let part = |observed: Observed, word: &str| {
            let verdict = judge(observed);
            assert!(!verdict.valid && verdict.reasons.len() == 1 && verdict.reasons[0].contains(word), "{verdict:?}");
        };
        let late = |millis| Lateness::of(&[Duration::from_millis(millis)]);
        part(Observed { lateness: late(5), ..quiet() }, "delivered more than 5.0 ms late");
        part(Observed { unread: late(7), ..quiet() }, "may have waited 7.0 ms in its host");
        let bound = judge(Observed { unread: late(1), lateness: late(1), ..quiet() });
        assert!(bound.valid && (bound.unread_p99_us, bound.lateness_p99_us) == (1e3, 1e3), "{bound:?}");
        part(Observed { overruns: 3, ..quiet() }, "3 packets were lost by the emulator");
        part(Observed { cpu_busy: 0.97, ..quiet() }, "97 % of the processors");
        part(Observed { waited: vec![("c".to_owned(), 9.0)], ..quiet() }, "c waited for a processor for 15 %");
        part(Observed { links_failed: 1, linktest: vec![String::new(); 4], ..quiet() }, "1 of 4 tested links");
        part(Observed { losses: vec!["a died".to_owned()], ..quiet() }, "a died");
    }
}
