//! Pipes that play traces, against plain reference models that look at every step.

use std::sync::Arc;

use proptest::prelude::*;
use roost_topology::model::PacketOrder;
use roost_topology::trace::{Playback, Steps, Trace, TraceContent, TraceStep, TraceValues};

use super::*;

const MS: u64 = 1_000_000;

fn playback(content: TraceContent) -> Playback {
    let trace = Arc::new(Trace { path: "t".into(), sha256: String::new(), content });
    Playback { file: "t".to_owned(), start: Duration::ZERO, once: false, trace }
}

fn opportunities(times: &[u32]) -> Playback {
    playback(TraceContent::Opportunities(times.to_vec()))
}

/// Steps of lengths in microseconds and rates in bits a second.
fn rates(steps: &[(u64, u64)]) -> Playback {
    let mut at = 0;
    let step = |&(length, rate): &(u64, u64)| {
        let values = TraceValues { rate: Some(rate), ..TraceValues::default() };
        let step = TraceStep { at, values };
        at += length * 1_000;
        step
    };
    let steps = steps.iter().map(step).collect();
    playback(TraceContent::Steps(Steps::new(steps, at).unwrap()))
}

fn playing(playback: Playback, limit: u32) -> PipeConfig {
    PipeConfig { trace: Some(Arc::new(playback)), queue: packets(limit), ..PipeConfig::default() }
}

/// Sends packets of (arrival, bytes) and returns the time and number of each that comes out by `until`.
fn carried(config: &PipeConfig, packets: &[(u64, u32)], until: u64) -> Vec<(u64, u32)> {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(config.clone(), PipeConfig::default());
    let mut out = Vec::new();
    for (number, &(arrival, bytes)) in packets.iter().enumerate() {
        let now = Time::from_nanos(arrival);
        if number % 3 == 0 {
            out.extend(drain(&mut network, now));
        }
        network.send(now, a, Destination::Port(b), bytes, number as u32);
    }
    out.extend(drain(&mut network, Time::from_nanos(until)));
    out.into_iter().map(|(due, _, number)| (due, number)).collect()
}

#[test]
fn opportunities_are_used_as_in_mahimahi() {
    // 1514 bytes here are the 1504 of a full packet there.
    let config = playing(opportunities(&[1, 2, 2, 5, 10]), 50);
    let ms = |out: Vec<(u64, u32)>| out.into_iter().map(|(due, number)| (due / MS, number)).collect::<Vec<_>>();
    let full = [(0, 1514); 7];
    assert_eq!(ms(carried(&config, &full, 100 * MS)), [(1, 0), (2, 1), (2, 2), (5, 3), (10, 4), (11, 5), (12, 6)]);
    // A packet that comes at the instant of an opportunity is late, and an unused opportunity is lost.
    assert_eq!(ms(carried(&config, &[(2 * MS, 1514), (6 * MS, 1514)], 100 * MS)), [(5, 0), (10, 1)]);
    // Two of 752 share one; of 1000 the second goes on in the next.
    assert_eq!(ms(carried(&config, &[(0, 762), (0, 762), (0, 1514)], 100 * MS)), [(1, 0), (1, 1), (2, 2)]);
    assert_eq!(ms(carried(&config, &[(0, 1010), (0, 1010), (0, 1010)], 100 * MS)), [(1, 0), (2, 1), (2, 2)]);
    // A packet of 4000 needs three.
    assert_eq!(ms(carried(&config, &[(0, 4010)], 100 * MS)), [(2, 0)]);
}

#[test]
fn rate_step_holds_within_packet() {
    // 1250 bytes are 10 000 bits: 5 ms at 1 Mbit/s, a stop of 20 ms, then 0.5 ms at 10 Mbit/s.
    let config = playing(rates(&[(5_000, 1_000_000), (20_000, 0), (75_000, 10_000_000)]), 50);
    let out = carried(&config, &[(0, 1250), (0, 1250), (MS * 130, 1250)], 1_000 * MS);
    assert_eq!(out, [(25_500_000, 0), (26_500_000, 1), (131_000_000, 2)]);
}

#[test]
fn trace_played_once_keeps_its_end() {
    let once = |playback: Playback| Playback { once: true, ..playback };
    let config = playing(once(rates(&[(10_000, 1_000_000), (10_000, 2_000_000)])), 50);
    assert_eq!(carried(&config, &[(500 * MS, 1250)], 1_000 * MS), [(505 * MS, 0)]);
    let mut network: Network<u32> = Network::new(1);
    let [a, b] = network.add_link(playing(once(opportunities(&[1, 3])), 50), PipeConfig::default());
    burst(&mut network, Time::ZERO, a, b, 1514, 3);
    assert_eq!(dues_us(&mut network, at_ms(10_000)), [1_000, 3_000]);
    assert_eq!(network.poll_deadline(), None);
    assert_eq!(network.capacity(up(&network, a)), Some(2 * 1514));
}

#[test]
fn play_begins_anew_from_start() {
    let from = Playback { start: Duration::from_millis(40), ..opportunities(&[1, 50, 100]) };
    let mut network: Network<u32> = Network::new(1);
    let [a, b] = network.add_link(playing(from, 50), PipeConfig::default());
    burst(&mut network, Time::ZERO, a, b, 1514, 1);
    assert_eq!(dues_us(&mut network, at_ms(5)), [] as [u64; 0]);
    network.play(at_ms(5));
    // The place at 5 ms is 40 ms again.
    assert_eq!(dues_us(&mut network, at_ms(500)), [15_000]);
    burst(&mut network, at_ms(500), a, b, 1514, 1);
    assert_eq!(network.capacity(up(&network, a)), Some(1514 * 15));
}

#[test]
fn trace_takes_link_down() {
    let step = |at, is_up| TraceStep { at, values: TraceValues { is_up: Some(is_up), ..TraceValues::default() } };
    let steps = Steps::new(vec![step(0, true), step(MS, false)], 2 * MS).unwrap();
    let config = playing(playback(TraceContent::Steps(steps)), 10);
    let mut network: Network<u32> = Network::new(1);
    let [a, _] = network.add_link(config, PipeConfig::default());
    let pipe = network.to_net(a).unwrap();
    assert!(network.is_up(pipe));
    network.poll_delivery(Time::from_nanos(MS + 1));
    assert!(!network.is_up(pipe));
}

#[test]
fn delay_loss_and_down_follow_trace() {
    let step = |ms: u64, delay: u64, loss: f64, is_up: bool| TraceStep {
        at: ms * MS,
        values: TraceValues {
            rate: None,
            delay: Some(Duration::from_millis(delay)),
            loss: Some(loss),
            is_up: Some(is_up),
        },
    };
    let steps =
        vec![step(0, 10, 0.0, true), step(100, 50, 1.0, true), step(200, 1, 0.0, false), step(300, 5, 0.0, true)];
    let config = PipeConfig {
        delay: Duration::from_secs(9),
        ..playing(playback(TraceContent::Steps(Steps::new(steps, 400 * MS).unwrap())), 50)
    };
    let packets = [50, 95, 150, 250, 350, 450].map(|ms| (ms * MS, 100));
    let out = carried(&config, &packets, 9_000 * MS);
    assert_eq!(out, [(60 * MS, 0), (105 * MS, 1), (355 * MS, 4), (460 * MS, 5)]);
}

#[test]
fn changes_do_not_touch_given_values() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(playing(rates(&[(1_000, 1_000_000)]), 50), PipeConfig::default());
    plan(&mut network, 1, a, TopologyChange::Rate(Rate::from_bps(1_000)));
    plan(&mut network, 1, a, TopologyChange::Delay(Duration::from_millis(7)));
    burst(&mut network, at_ms(2), a, b, 1250, 1);
    assert_eq!(dues_us(&mut network, at_ms(100)), [19_000]);
}

/// The slow model of steps: goes through every step of every round.
fn described_steps(steps: &[(u64, u64)], packets: &[(u64, u32)], limit: usize) -> Vec<(u64, u32)> {
    // Ends as nanoseconds and billionths of bits that are used of the next one.
    let mut ends: Vec<(u64, u64)> = Vec::new();
    let mut out = Vec::new();
    let visible = |(nanos, part): (u64, u64)| nanos + u64::from(part > 0);
    for (number, &(arrival, bytes)) in packets.iter().enumerate() {
        if ends.iter().filter(|end| visible(**end) > arrival).count() >= limit {
            continue;
        }
        let last = ends.last().copied().filter(|end| visible(*end) > arrival);
        let (mut now, part) = last.unwrap_or((arrival, 0));
        let mut need = u128::from(bytes) * 8_000_000_000 + u128::from(part);
        let period: u64 = steps.iter().map(|(length, _)| length * 1_000).sum();
        let end = loop {
            let (mut place, mut index) = (now % period, 0);
            while place >= steps[index].0 * 1_000 {
                place -= steps[index].0 * 1_000;
                index += 1;
            }
            let (left, rate) = (steps[index].0 * 1_000 - place, steps[index].1);
            let possible = u128::from(left) * u128::from(rate);
            if possible >= need {
                break (now + (need / u128::from(rate)) as u64, (need % u128::from(rate)) as u64);
            }
            need -= possible;
            now += left;
        };
        ends.push(end);
        out.push((visible(end), number as u32));
    }
    out
}

/// The slow model of opportunities: uses each of them, one after the other.
fn described_opportunities(times: &[u32], packets: &[(u64, u32)], limit: usize) -> Vec<(u64, u32)> {
    let (mut waiting, mut out) = (std::collections::VecDeque::new(), Vec::new());
    let mut arrivals = packets.iter().enumerate().peekable();
    let period = u64::from(*times.last().unwrap());
    for round in 0.. {
        for ms in times {
            let at = (round * period + u64::from(*ms)) * MS;
            while let Some((number, (_, bytes))) = arrivals.next_if(|(_, (arrival, _))| *arrival < at) {
                if waiting.len() < limit {
                    waiting.push_back((number as u32, u64::from(*bytes) - 10));
                }
            }
            let mut room = 1504;
            while let Some((number, left)) = waiting.front_mut() {
                let sent = room.min(*left);
                (room, *left) = (room - sent, *left - sent);
                if *left > 0 {
                    break;
                }
                out.push((at, *number));
                waiting.pop_front();
            }
            if arrivals.peek().is_none() && waiting.is_empty() {
                return out;
            }
        }
    }
    out
}

fn any_rates() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let rate = prop_oneof![1 => Just(0), 5 => 1_000_u64..50_000_000];
    prop::collection::vec((1_u64..300_000, rate), 1..20).prop_map(|mut steps| {
        steps.push((1_000, 1_000_000));
        steps
    })
}

fn any_times() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0_u32..400, 1..60).prop_map(|mut times| {
        times.sort_unstable();
        times.push(times[times.len() - 1] + 1);
        times
    })
}

/// A trace of any kind, from any place.
pub(super) fn any_playback() -> impl Strategy<Value = Arc<Playback>> {
    let content =
        prop_oneof![any_rates().prop_map(|steps| rates(&steps)), any_times().prop_map(|times| opportunities(&times))];
    (content, 0_u64..3_000)
        .prop_map(|(playback, start)| Arc::new(Playback { start: Duration::from_millis(start), ..playback }))
}

/// Arrivals in microseconds after the one before, and bytes.
fn any_packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((prop_oneof![Just(0), 0_u64..30_000], 14_u32..3_000), 1..150).prop_map(|steps| {
        let mut arrival = 0;
        let at = |(gap, bytes)| {
            arrival += gap * 1_000;
            (arrival, bytes)
        };
        steps.into_iter().map(at).collect()
    })
}

proptest! {
    #[test]
    fn steps_match_slow_model(steps in any_rates(), packets in any_packets(), limit in 1_u32..40) {
        let out = carried(&playing(rates(&steps), limit), &packets, u64::MAX);
        prop_assert_eq!(out, described_steps(&steps, &packets, limit as usize));
    }

    #[test]
    fn opportunities_match_slow_model(times in any_times(), packets in any_packets(), limit in 1_u32..40) {
        let out = carried(&playing(opportunities(&times), limit), &packets, u64::MAX);
        prop_assert_eq!(out, described_opportunities(&times, &packets, limit as usize));
    }

    /// While packets wait, each window of 100 ms carries what the trace gives, up to the packets at its ends.
    #[test]
    fn backlogged_windows_have_rate_of_trace(steps in any_rates(), seed in any::<u64>()) {
        let mut network = Network::new(seed);
        let playback = rates(&steps);
        let [a, b] = network.add_link(playing(playback, u32::MAX), PipeConfig::default());
        let pipe = up(&network, a);
        burst(&mut network, Time::ZERO, a, b, 1514, 20_000);
        let (mut windows, mut out) = (0, 0_u64);
        for window in 1..=100 {
            out += drain(&mut network, at_ms(100 * window)).len() as u64 * 1514;
            let capacity = network.capacity(pipe).unwrap();
            if network.held() > 0 {
                prop_assert!(out <= capacity && capacity < out + 1514, "{out} of {capacity} in window {window}");
                windows = window;
            }
        }
        prop_assert!(windows > 0);
    }

    #[test]
    fn overtaking_packets_keep_own_times(jitter in 1_u64..50, gaps in prop::collection::vec(0_u64..10, 2..80)) {
        let at = |order| {
            let config = PipeConfig { jitter: Duration::from_millis(jitter), order, ..roomy(8, 20) };
            let mut now = 0;
            let packets = gaps.iter().map(|gap| {
                now += gap * MS;
                (now, 1000)
            });
            carried(&config, &packets.collect::<Vec<_>>(), u64::MAX)
        };
        let (kept, free) = (at(PacketOrder::Kept), at(PacketOrder::Free));
        prop_assert!(free.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        // In order, each packet comes at the latest of its own time and those before it.
        let mut own = free.clone();
        own.sort_by_key(|(_, number)| *number);
        let mut latest = 0;
        for ((due, number), (kept_due, kept_number)) in own.into_iter().zip(kept) {
            latest = latest.max(due);
            prop_assert_eq!((latest, number), (kept_due, kept_number));
        }
    }
}

#[test]
fn long_run_keeps_rate_of_trace() {
    let playback = rates(&[(7_000, 9_999_991), (3_000, 1_234_567)]);
    let mut network = Network::new(1);
    let [a, b] = network.add_link(playing(playback, u32::MAX), PipeConfig::default());
    burst(&mut network, Time::ZERO, a, b, 1514, 200_000);
    let last = drain(&mut network, Time::from_nanos(u64::MAX)).pop().unwrap().0;
    let mean = (0.7 * 9_999_991.0) + (0.3 * 1_234_567.0);
    let seconds = 200_000.0 * 1514.0 * 8.0 / mean;
    assert!((last as f64 / 1e9 / seconds - 1.0).abs() < 1e-4, "{last} {seconds}");
}
