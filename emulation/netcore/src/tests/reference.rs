//! A pipe against a plain reference model: the times of each packet follow from those of earlier packets, in
//! whole fractions of nanoseconds, without events.

use proptest::prelude::*;

use super::*;

/// The reference model of a pipe without random effects, for packets of (arrival, bytes): the number and time
/// of each packet that comes out.
fn described(config: &PipeConfig, packets: &[(u64, u32)]) -> Vec<(u64, u32)> {
    let rate = u128::from(config.rate.bps());
    // Ends of transmissions in units of 1/rate nanoseconds, with the packets' bytes, in order.
    let mut ends: Vec<(u128, u32)> = Vec::new();
    let mut out = Vec::new();
    for (number, &(arrival, bytes)) in packets.iter().enumerate() {
        let now = u128::from(arrival) * rate;
        let inside: Vec<u64> = ends.iter().filter(|(end, _)| *end > now).map(|&(_, bytes)| bytes.into()).collect();
        let room = match config.queue.in_bytes {
            false => (inside.len() as u64) < u64::from(config.queue.limit),
            true => inside.iter().sum::<u64>() + u64::from(bytes) <= u64::from(config.queue.limit),
        };
        if room {
            let start = ends.last().map_or(now, |&(end, _)| end.max(now));
            let end = start + u128::from(bytes) * 8_000_000_000;
            ends.push((end, bytes));
            out.push((end.div_ceil(rate) as u64 + config.delay.as_nanos() as u64, number as u32));
        }
    }
    out
}

fn config() -> impl Strategy<Value = PipeConfig> {
    (1_000_u64..2_000_000_000, 0_u64..100_000_000, 1_u32..20, any::<bool>()).prop_map(
        |(bps, delay, limit, in_bytes)| {
            let limit = if in_bytes { limit * 700 } else { limit };
            PipeConfig {
                rate: Rate::from_bps(bps),
                delay: Duration::from_nanos(delay),
                queue: Queue { limit, in_bytes, discipline: Discipline::DropTail },
                ..PipeConfig::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn pipe_matches_reference_model(
        config in config(),
        steps in prop::collection::vec((0_u64..2_000, 1_u32..3_000), 1..150),
        load in 1_u64..300,
    ) {
        // Gaps as percentages of the time of 1500 bytes, so that queues both fill and empty.
        let unit = config.rate.time_for(1500).as_nanos() as u64;
        let mut arrival = 0;
        let packets: Vec<(u64, u32)> = steps.into_iter().map(|(gap, bytes)| {
            arrival += unit / 1_000 * gap * load / 100;
            (arrival, bytes)
        }).collect();

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
        out.extend(drain(&mut network, Time::from_nanos(u64::MAX)));
        let out: Vec<(u64, u32)> = out.into_iter().map(|(due, _, number)| (due, number)).collect();
        prop_assert_eq!(out, described(&config, &packets));
    }
}
