//! Errors of random losses, and their repeatability with the same seed.

use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_topology::model::Leg;

use crate::probe::{self, HEADERS, PacketTimes, Priority, ProbeFlow};
use crate::{BenchContext, BenchError, BenchRow, analysis, iperf, networks};

/// Loss, and packets per second: the rarer a loss, the more packets are needed.
const LINKS: [(f64, u32); 6] =
    [(0.0001, 20_000), (0.001, 10_000), (0.01, 4_000), (0.05, 2_000), (0.2, 2_000), (0.5, 2_000)];
const LENGTH: Duration = Duration::from_secs(10);
const BYTES: u32 = HEADERS + 58;
const PATIENCE: Duration = Duration::from_millis(300);
/// 1 % of correct links miss it.
const CONFIDENCE: f64 = 0.99;

/// The link that `iperf3` measures as well.
const SECOND_LOOK: usize = 3;
const IPERF_LENGTH: Duration = Duration::from_secs(4);

/// The loss and the number of packets for the repetition.
const REPEATED: (f64, u32) = (0.05, 20_000);
const REPEATED_INTERVAL: Duration = Duration::from_micros(100);

/// Measures all losses at once, then repeats some.
pub(crate) fn measure(bench: &mut BenchContext<'_>) -> Result<Vec<BenchRow>, BenchError> {
    let lab = bench.lab(&networks::links(LINKS.map(|(loss, _)| losing(loss))))?;
    let seconds = bench.length(LENGTH).as_secs_f64();
    let flow = |(link, (_, pace)): (usize, &(f64, u32))| {
        let (from, to) = networks::ends(link);
        let count = (f64::from(*pace) * seconds).max(1.0) as u32;
        ProbeFlow { from, to, bytes: BYTES, count, interval: Duration::from_secs(1) / *pace, uneven: false }
    };
    let flows: Vec<ProbeFlow> = LINKS.iter().enumerate().map(flow).collect();
    let traces = probe::send_probes(bench, &lab, &flows, Instant::now(), PATIENCE, Priority::Usual)?.traces;
    let dropped = dropped(&lab)?;
    let mut rows: Vec<BenchRow> =
        LINKS.iter().zip(&traces).zip(dropped).map(|((link, trace), dropped)| row(link.0, trace, dropped)).collect();
    if !bench.is_stopped() {
        rows.push(second_look(bench, &lab)?);
    }
    drop(lab);
    if !bench.is_stopped() {
        rows.push(repeated(bench)?);
    }
    Ok(rows)
}

fn losing(loss: f64) -> Leg {
    Leg { loss, delay: Duration::from_millis(1), ..Leg::default() }
}

/// By link, the emulator's counter of intended losses. If more are missing, a receiver or this machine was too
/// slow.
fn dropped(lab: &Lab) -> Result<Vec<u64>, BenchError> {
    let counters = lab.counters()?;
    let of_link = |link: usize| {
        let (from, _) = networks::ends(link);
        let name = &lab.topology().hosts[from].name;
        counters.iter().filter(|one| one.host == *name).map(|one| one.dropped_loss).sum()
    };
    Ok((0..LINKS.len()).map(of_link).collect())
}

fn row(loss: f64, trace: &PacketTimes, dropped: u64) -> BenchRow {
    let (sent, lost) = (trace.sent.len() as u64, trace.lost() as u64);
    let row = judged(format!("loss of {loss}"), loss, sent, lost);
    match lost.saturating_sub(dropped) {
        0 => row,
        more => row.noting(format!("{more} of them were lost elsewhere: this machine was too slow")),
    }
}

fn judged(what: String, loss: f64, sent: u64, lost: u64) -> BenchRow {
    let (low, high) = analysis::binomial_interval(sent, loss, CONFIDENCE);
    let target = format!("{low} to {high} of {sent}");
    let part = if sent == 0 { 0.0 } else { lost as f64 / sent as f64 };
    let seen = format!("{lost}, which is {part:.6}");
    BenchRow::judged(what, target, seen, (low..=high).contains(&lost) && sent > 0)
        .with("loss", part)
        .with("packets", sent as f64)
        .with("lost", lost as f64)
}

/// A link, measured by the independent program `iperf3`.
fn second_look(bench: &BenchContext<'_>, lab: &Lab) -> Result<BenchRow, BenchError> {
    let (loss, _) = LINKS[SECOND_LOOK];
    let what = format!("loss of {loss}, by iperf3");
    let arguments = ["-u", "-b", "8M", "-l", "200"];
    match iperf::run(bench, lab, networks::ends(SECOND_LOOK), IPERF_LENGTH, &arguments) {
        Ok(received) => Ok(judged(what, loss, received.packets, received.lost)),
        Err(failed) => Ok(BenchRow::unmeasured(what, "within the 99 % interval", failed.reason()?)),
    }
}

fn repeated(bench: &mut BenchContext<'_>) -> Result<BenchRow, BenchError> {
    let seed = bench.options.seed;
    let runs = [seed, seed, seed.wrapping_add(1)].map(|seed| losses(bench, seed));
    let [first, second, other] = runs;
    Ok(repeat_row(&first?, &second?, &other?))
}

fn repeat_row(first: &[usize], second: &[usize], other: &[usize]) -> BenchRow {
    let (what, target) = ("the same seed again, another seed", "the same losses, others");
    let words = |same: bool| if same { "the same" } else { "others" };
    let (same, differs) = (first == second, first != other);
    let seen = format!("{} ({} of {}), {}", words(same), first.len(), REPEATED.1, words(!differs));
    BenchRow::judged(what, target, seen, same && differs && !first.is_empty())
}

/// The numbers of the packets that are lost with this seed.
fn losses(bench: &mut BenchContext<'_>, seed: u64) -> Result<Vec<usize>, BenchError> {
    let (loss, count) = REPEATED;
    let lab = bench.lab_with_seed(&networks::links([losing(loss)]), seed)?;
    let (from, to) = networks::ends(0);
    let flow = ProbeFlow { from, to, bytes: BYTES, count, interval: REPEATED_INTERVAL, uneven: false };
    let traces = probe::send_probes(bench, &lab, &[flow], Instant::now(), PATIENCE, Priority::Usual)?.traces;
    let received = traces.iter().flat_map(|trace| trace.received.iter().enumerate());
    Ok(received.filter(|(_, received)| received.is_none()).map(|(number, _)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchVerdict;

    fn trace(sent: usize, lost: usize) -> PacketTimes {
        let received = (0..sent).map(|number| (number >= lost).then_some(1)).collect();
        PacketTimes { sent: vec![0; sent], received }
    }

    #[test]
    fn loss_judged_by_confidence_interval() {
        assert_eq!(row(0.05, &trace(10_000, 520), 520).verdict, BenchVerdict::Met);
        assert_eq!(row(0.05, &trace(10_000, 600), 600).verdict, BenchVerdict::Missed);
        assert_eq!(row(0.05, &trace(10_000, 400), 400).verdict, BenchVerdict::Missed);
        assert_eq!(row(0.0001, &trace(0, 0), 0).verdict, BenchVerdict::Missed);
    }

    #[test]
    fn what_was_lost_elsewhere_is_said() {
        let row = row(0.05, &trace(10_000, 520), 500);
        assert!(row.note.unwrap().starts_with("20 of them"));
    }

    #[test]
    fn same_seed_repeats_losses() {
        assert_eq!(repeat_row(&[1, 5], &[1, 5], &[2]).verdict, BenchVerdict::Met);
        assert_eq!(repeat_row(&[1, 5], &[1, 6], &[2]).verdict, BenchVerdict::Missed);
        assert_eq!(repeat_row(&[1, 5], &[1, 5], &[1, 5]).verdict, BenchVerdict::Missed);
        assert_eq!(repeat_row(&[], &[], &[2]).verdict, BenchVerdict::Missed);
    }
}
