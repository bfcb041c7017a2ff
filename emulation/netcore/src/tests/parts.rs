//! A network in parts carries what the whole network carries.

use roost_wire::random::SplitMix64;

use super::*;
use crate::{Crossing, PartId, PipeCounters};

const WINDOW: Duration = Duration::from_millis(5);
const PARTS: PartId = 3;

/// A packet to be sent: its time, sender, receiver (`None` for all) and length.
type Sending = (Time, Port, Option<Port>, u32);

/// Delays that an event at any nanosecond makes unequal, so that no order depends on a tie.
fn any_pipe(random: &mut SplitMix64, least_delay: Duration) -> PipeConfig {
    let extra = Duration::from_nanos(random.below(9_000_000));
    let jitter = if random.below(3) == 0 { Duration::from_nanos(random.below(4_000_000)) } else { Duration::ZERO };
    PipeConfig {
        rate: Rate::from_bps(if random.below(3) == 0 { 150_000 } else { 1_000_000 + random.below(20_000_000) }),
        delay: least_delay + extra,
        jitter,
        order: if random.below(2) == 0 { PacketOrder::Kept } else { PacketOrder::Free },
        loss: if random.below(3) == 0 { 0.1 } else { 0.0 },
        queue: packets(1 + random.below(30) as u32),
        ..PipeConfig::default()
    }
}

/// A LAN of six members over all parts, a LAN within each part, and a link from each part to the next; with the part
/// of each port.
fn network(seed: u64) -> (Network<u32>, Vec<PartId>, Vec<Vec<Port>>) {
    let (mut random, mut network) = (SplitMix64::new(seed), Network::new(seed));
    let (mut parts, mut nets) = (Vec::new(), Vec::new());
    let legs = |random: &mut SplitMix64, least| (any_pipe(random, least), any_pipe(random, Duration::ZERO));
    let members: Vec<_> = (0..6).map(|_| legs(&mut random, WINDOW)).collect();
    nets.push(network.add_lan(&members));
    parts.extend((0..6).map(|member| member % PARTS));
    for part in 0..PARTS {
        let members: Vec<_> = (0..4).map(|_| legs(&mut random, Duration::ZERO)).collect();
        nets.push(network.add_lan(&members));
        parts.extend([part; 4]);
        let [there, back] = [any_pipe(&mut random, WINDOW), any_pipe(&mut random, WINDOW)];
        nets.push(network.add_link(there, back).to_vec());
        parts.extend([part, (part + 1) % PARTS]);
    }
    (network, parts, nets)
}

fn sendings(seed: u64, nets: &[Vec<Port>]) -> Vec<Sending> {
    let mut random = SplitMix64::new(seed ^ 0x5e);
    let sending = |_| {
        let net = &nets[random.below(nets.len() as u64) as usize];
        let mut port = || net[random.below(net.len() as u64) as usize];
        let (from, to) = (port(), port());
        (
            Time::from_nanos(random.below(2_000_000_000)),
            from,
            Some(to).filter(|to| *to != from),
            40 + random.below(1_400) as u32,
        )
    };
    let mut all: Vec<Sending> = (0..600).map(sending).collect();
    all.sort_by_key(|(at, ..)| *at);
    all
}

/// Sends what is due before `until` at the network's own ports, and fetches all that comes out by then.
fn run(
    network: &mut Network<u32>,
    sendings: impl Iterator<Item = (u32, Sending)>,
    until: Time,
) -> Vec<(u64, usize, u32)> {
    let mut out = Vec::new();
    for (number, (at, from, to, bytes)) in sendings {
        out.extend(drain(network, Time::from_nanos(at.as_nanos() - 1)));
        network.send(at, from, to.map_or(Destination::Others, Destination::Port), bytes, number);
    }
    out.extend(drain(network, Time::from_nanos(until.as_nanos() - 1)));
    out
}

fn counters(network: &Network<u32>) -> Vec<PipeCounters> {
    network.pipes.iter().enumerate().map(|(id, _)| network.counters(PipeId(id as u32))).collect()
}

#[test]
fn parts_carry_what_the_whole_carries() {
    let end = at_ms(4_000);
    for seed in 0..60 {
        let (mut whole, parts_of, nets) = network(seed);
        let all: Vec<(u32, Sending)> = (0..).zip(sendings(seed, &nets)).collect();
        let mut parts: Vec<Network<u32>> = (0..PARTS).map(|_| whole.clone()).collect();
        (0..).zip(&mut parts).for_each(|(own, part)| part.set_part(own, parts_of.clone()));
        let mut expected = run(&mut whole, all.iter().copied(), end);
        let (mut found, mut now, mut crossed) = (Vec::new(), Time::ZERO, 0);
        while now < end {
            let until = now + WINDOW;
            let crossings: Vec<Crossing<u32>> = parts.iter_mut().flat_map(|part| part.crossings(now, until)).collect();
            crossed += crossings.len();
            for (own, part) in (0..).zip(&mut parts) {
                part.add_crossings(crossings.iter().filter(|crossing| crossing.to == own).cloned().collect());
                let own_now =
                    all.iter().filter(|(_, (at, from, ..))| parts_of[from.index()] == own && (now..until).contains(at));
                found.extend(run(part, own_now.copied(), until));
            }
            now = until;
        }
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "seed {seed}");
        assert!(crossed > 100, "only {crossed} packets crossed");
        for (id, counted) in counters(&whole).into_iter().enumerate() {
            let of_parts: Vec<PipeCounters> = parts.iter().map(|part| counters(part)[id]).collect();
            assert!(of_parts.contains(&counted), "pipe {id} of seed {seed}: {counted:?}, {of_parts:?}");
        }
        assert!(parts.iter().all(|part| part.held() == 0), "{:?}", parts.iter().map(Network::held).collect::<Vec<_>>());
    }
}
