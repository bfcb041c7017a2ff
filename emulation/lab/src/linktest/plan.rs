//! The probes that measure a path, and the reasons for not measuring one.

use std::time::Duration;

use roost_topology::model::{NetIndex, Topology};

use super::LinktestOptions;
use super::criteria::{self, CriterionResult};
use super::expect::ExpectedPath;
use super::flow::{LARGEST_FRAME, LinktestFlow, LinktestTrace, OVERHEAD, SMALLEST_FRAME};
use super::report::{LinktestKind, NO_LIMIT};

/// Emulab's ping: 56 bytes of payload.
const PING_FRAME: u32 = OVERHEAD + 56;
/// The largest loss of a path that is measured for delay or, as in Emulab, for rate.
const PINGS: f64 = 10.0;
const MOST_LOSS: [f64; 2] = [0.9, 0.2];
/// The rates that are measured, bits per second. Emulab's linktest begins at 64 kbit/s, and ends at the same
/// rate.
const RATES: std::ops::RangeInclusive<u64> = 8_000..=100_000_000;
/// The offered load, as fractions of the rate, so that the queue never empties; less if a queue would drop
/// early because of it.
const OFFERED: [f64; 2] = [1.2, 1.05];
/// The longest transmission time of one frame when a rate is measured, seconds.
const FRAME_TIME: f64 = 0.05;
/// The fraction of a path's rate that probes for loss use, so that nothing queues.
const LOSS_LOAD: f64 = 0.5;
const TRACE: &str = "a trace changes it all the time; `emulate bench trace` measures how exactly traces are played";
const RADIO: &str = "its links follow from the places of hosts";
/// The extra time for arrivals on a busy machine.
const PATIENCE: Duration = Duration::from_millis(150);

/// A path, and the test to make on it.
#[derive(Clone, Debug)]
pub(super) struct PathTest {
    pub(super) test: LinktestKind,
    /// The link or LAN, and the indices of its sending and receiving members.
    pub(super) way: (NetIndex, usize, usize),
    pub(super) path: ExpectedPath,
    /// The probes, or the reason why there are none.
    pub(super) flow: Result<LinktestFlow, &'static str>,
    /// Time after which the queue on the path is empty again.
    pub(super) drain: Duration,
}

/// The number of probes, for a full or a quick test.
#[derive(Clone, Copy, Debug)]
struct LinktestVolume {
    /// Probes for loss, and their time in seconds.
    losses: f64,
    loss_time: f64,
    /// Frames that measure a rate, and their least time in seconds.
    frames: f64,
    rate_time: f64,
}

const FULL: LinktestVolume = LinktestVolume { losses: 1000.0, loss_time: 5.0, frames: 25.0, rate_time: 0.25 };
const QUICK: LinktestVolume = LinktestVolume { losses: 200.0, loss_time: 0.5, frames: 15.0, rate_time: 0.06 };

/// The test of one path of a net; `None` if the net has no such members.
pub(super) fn job(
    topology: &Topology,
    test: LinktestKind,
    net: NetIndex,
    from: usize,
    to: usize,
    options: &LinktestOptions,
) -> Option<PathTest> {
    let members = &topology.nets.get(net)?.members;
    let path = ExpectedPath::between(topology.nets.get(net)?, from, to)?;
    let size = if options.quick { QUICK } else { FULL };
    let (flow, drain) = match test {
        LinktestKind::Delay => (pings(&path), Duration::ZERO),
        LinktestKind::Loss => (losses(&path, size), Duration::ZERO),
        LinktestKind::Rate => flood(&path, size),
    };
    let flow = match topology.radio(net) {
        Some(_) => Err(RADIO),
        None if path.plays_trace() => Err(TRACE),
        None => flow,
    };
    let flow = flow.and_then(|draft| {
        let address = members[to].address.ok_or("the interface has no address")?;
        let longest = path.longest(draft.frame) + drain;
        Ok(LinktestFlow {
            from: members[from].host,
            to: members[to].host,
            address,
            way: Some((net, from, to)),
            patience: longest + PATIENCE,
            ..draft
        })
    });
    Some(PathTest { test, way: (net, from, to), path, flow, drain })
}

impl PathTest {
    /// The value of the description, in the unit of the test.
    pub(super) fn expected(&self) -> f64 {
        match self.test {
            LinktestKind::Delay => {
                let frame = self.flow.as_ref().map_or(PING_FRAME, |flow| flow.frame);
                self.path.delay(frame).as_secs_f64() * 1e3
            }
            LinktestKind::Loss => self.path.loss(),
            LinktestKind::Rate => self.path.rate().bps() as f64 * (1.0 - self.path.loss_after_bottleneck().0),
        }
    }

    /// The result of a flow's trace; `None` if too few probes arrived.
    pub(super) fn judge(&self, trace: &LinktestTrace) -> Option<CriterionResult> {
        let expected = self.expected();
        match self.test {
            LinktestKind::Delay => criteria::delay(&trace.delays(), expected),
            LinktestKind::Loss => criteria::loss(trace.lost(), trace.sent, expected, self.path.loss_variance()),
            LinktestKind::Rate => {
                let arrivals: Vec<u64> = trace.arrivals.iter().map(|arrival| arrival.received).collect();
                let measured = criteria::arrival_rate(&arrivals, self.flow.as_ref().ok()?.frame)?;
                let (loss, variance) = self.path.loss_after_bottleneck();
                let spread = (variance / (arrivals.len() / 2) as f64).sqrt() / (1.0 - loss);
                Some(criteria::rate(measured, expected, spread))
            }
        }
    }
}

/// A flow whose ends are not set yet.
fn draft(frame: u32, count: f64, interval: f64) -> LinktestFlow {
    LinktestFlow {
        from: 0,
        to: 0,
        address: std::net::Ipv4Addr::UNSPECIFIED,
        way: None,
        frame,
        // The callers' limits keep it far below u32.
        count: count.ceil() as u32,
        interval: Duration::from_secs_f64(interval),
        burst: 1,
        start: Duration::ZERO,
        patience: Duration::ZERO,
    }
}

fn pings(path: &ExpectedPath) -> Result<LinktestFlow, &'static str> {
    let loss = path.loss();
    if loss > MOST_LOSS[0] {
        return Err("too much is lost");
    }
    // Two more than needed on average where some get lost.
    let count = if loss > 0.0 { (PINGS + 2.0) / (1.0 - loss) } else { PINGS };
    let apart = path.spacing(PING_FRAME).max(Duration::from_millis(4));
    Ok(draft(PING_FRAME, count, apart.as_secs_f64()))
}

fn losses(path: &ExpectedPath, size: LinktestVolume) -> Result<LinktestFlow, &'static str> {
    let rate = path.rate();
    // At most a thousand per second: this is no load test.
    let pace = match rate.is_unlimited() {
        true => 1000.0,
        false => (LOSS_LOAD * rate.bps() as f64 / f64::from(SMALLEST_FRAME * 8)).min(1000.0),
    };
    let count = size.losses.min(pace * size.loss_time).max(1.0);
    if count < 10.0 {
        return Err("too slow for enough probes in the time");
    }
    Ok(draft(SMALLEST_FRAME, count, 1.0 / pace))
}

/// Also returns the time in which the queue empties.
fn flood(path: &ExpectedPath, size: LinktestVolume) -> (Result<LinktestFlow, &'static str>, Duration) {
    let rate = path.rate();
    let bps = rate.bps();
    let frame = (bps as f64 * FRAME_TIME / 8.0).clamp(128.0, LARGEST_FRAME.into()) as u32;
    // A queue in bytes must hold some of the frames.
    let frame = (128..=frame).rev().step_by(64).find(|frame| path.smallest_queue(*frame) >= 4).unwrap_or(128);
    let queue = path.smallest_queue(frame);
    let why_not = if rate.is_unlimited() {
        Some(NO_LIMIT)
    } else if !RATES.contains(&bps) {
        Some(if bps < *RATES.start() { "below 8 kbit/s" } else { "above 100 Mbit/s" })
    } else if path.loss() > MOST_LOSS[1] {
        Some("more than 20 % is lost")
    } else if queue < 2 {
        Some("the queue holds no second packet")
    } else {
        None
    };
    if let Some(why) = why_not {
        return (Err(why), Duration::ZERO);
    }
    let time = rate.time_for(frame.into());
    let offered = if path.drops_early() { OFFERED[1] } else { OFFERED[0] };
    let interval = time.as_secs_f64() * path.survival_before_bottleneck() / offered;
    let arrivals = size.frames.max(size.rate_time / time.as_secs_f64());
    let sent = arrivals * offered / path.survival_before_bottleneck();
    // At most half of the queue at once, so that catching up drops nothing.
    let flow = LinktestFlow { burst: (queue / 2).clamp(1, 16), ..draft(frame, sent, interval) };
    let left_over = arrivals * (offered - 1.0) + f64::from(flow.burst);
    (Ok(flow), time.mul_f64(left_over.min(queue.into()) + 1.0))
}

#[cfg(test)]
mod tests {
    use roost_topology::units::Rate;
    use roost_topology::{addresses, testing};

    use super::*;

    fn topology(change: impl Fn(&mut roost_topology::model::Leg)) -> Topology {
        let mut topology = addresses::assign(&testing::nets(2, &[&[0, 1]])).unwrap();
        for member in &mut topology.nets[0].members {
            change(&mut member.to_net);
            change(&mut member.from_net);
        }
        topology
    }

    fn planned(test: LinktestKind, change: impl Fn(&mut roost_topology::model::Leg)) -> PathTest {
        job(&topology(change), test, 0, 0, 1, &LinktestOptions::default()).unwrap()
    }

    #[test]
    fn lossy_paths_get_more_pings() {
        let job = planned(LinktestKind::Delay, |_| {});
        let flow = job.flow.unwrap();
        assert_eq!((flow.count, flow.frame, flow.interval), (10, 98, Duration::from_millis(4)));
        assert!(flow.patience > Duration::from_millis(10));
        let lossy = planned(LinktestKind::Delay, |leg| leg.loss = 0.3).flow.unwrap();
        assert_eq!(lossy.count, 25, "12 of 0.49");
        assert_eq!(planned(LinktestKind::Delay, |leg| leg.loss = 0.7).flow, Err("too much is lost"));
        let slow = planned(LinktestKind::Delay, |leg| leg.rate = Rate::from_bps(56_000)).flow.unwrap();
        assert_eq!(slow.interval, Duration::from_millis(28), "two frames of 14 ms");
    }

    #[test]
    fn flood_exceeds_rate_by_fifth() {
        let job = planned(LinktestKind::Rate, |leg| leg.rate = Rate::from_bps(10_000_000));
        let flow = job.flow.unwrap();
        assert_eq!(flow.frame, 1514);
        let offered = 1514.0 * 8.0 / flow.interval.as_secs_f64();
        assert!((offered / 12e6 - 1.0).abs() < 0.001, "{offered}");
        assert!((flow.count as f64 * flow.interval.as_secs_f64() - 0.25).abs() < 0.01);
        assert_eq!(flow.burst, 16);
        // A fifth of 206 frames is 42; with the burst that is more than the queue holds.
        assert!((job.drain.as_secs_f64() - 51.0 * 1514.0 * 8.0 / 1e7).abs() < 0.01, "{:?}", job.drain);
    }

    #[test]
    fn slow_rates_use_small_frames() {
        let flow = planned(LinktestKind::Rate, |leg| leg.rate = Rate::from_bps(64_000)).flow.unwrap();
        assert_eq!(flow.frame, 400);
        assert!(flow.interval * flow.count < Duration::from_secs(2));
        let quick = job(
            &topology(|leg| leg.rate = Rate::from_bps(8_000)),
            LinktestKind::Rate,
            0,
            0,
            1,
            &LinktestOptions { quick: true, ..LinktestOptions::default() },
        );
        let flow = quick.unwrap().flow.unwrap();
        assert!(flow.interval * flow.count < Duration::from_secs(3));
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        for (bps, why) in [(0, NO_LIMIT), (7_999, "below 8 kbit/s"), (100_000_001, "above 100 Mbit/s")] {
            assert_eq!(planned(LinktestKind::Rate, |leg| leg.rate = Rate::from_bps(bps)).flow, Err(why));
        }
        assert_eq!(
            planned(LinktestKind::Rate, |leg| leg.queue.limit = 1).flow,
            Err("the queue holds no second packet")
        );
        assert_eq!(planned(LinktestKind::Rate, |leg| leg.loss = 0.11).flow, Err("more than 20 % is lost"));
        assert!(planned(LinktestKind::Loss, |leg| leg.rate = Rate::from_bps(1_000)).flow.is_err());
    }

    #[test]
    fn byte_queue_gets_fitting_frames() {
        let job = planned(LinktestKind::Rate, |leg| {
            leg.queue.in_bytes = true;
            leg.queue.limit = 3_000;
        });
        assert!(job.flow.is_ok_and(|flow| flow.frame <= 750));
    }
}
