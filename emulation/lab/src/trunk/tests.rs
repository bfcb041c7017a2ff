//! Tests of the trunk between two machines whose clocks differ.

use proptest::prelude::*;

use super::*;
use crate::carrier::testing_frame;

const TOKEN: TrunkToken = [7; 16];
const HOLD: Duration = Duration::from_millis(2);
/// The clock of the second machine less that of the first.
const AHEAD: u64 = 5_000_000_000;

fn address(machine: u16) -> SocketAddr {
    ([10, 0, 0, 1], 7000 + machine).into()
}

fn machine(machine: usize) -> Trunk {
    let addresses = vec![None, Some(address(1))];
    Trunk::new(TrunkSettings { machine, token: TOKEN, hold: HOLD, addresses })
}

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1_000)
}

fn there(micros: u64) -> Time {
    Time::from_nanos(AHEAD + micros * 1_000)
}

/// Two trunks after `count` pings, each `way` and back.
fn synchronized(count: u64, way: u64) -> (Trunk, Trunk) {
    let (mut here, mut far) = (machine(0), machine(1));
    for turn in 0..count {
        let now = turn * 10_000;
        for (address, ping) in here.poll_pings(at(now)) {
            let TrunkInput::Answer(pong) = far.receive(there(now + way), address, &ping) else { panic!("no answer") };
            here.receive(at(now + 2 * way), address, &pong);
        }
        for (_, ping) in far.poll_pings(there(now)) {
            let TrunkInput::Answer(pong) = here.receive(at(now + way), address(1), &ping) else { panic!("no answer") };
            far.receive(there(now + 2 * way), address(0), &pong);
        }
    }
    (here, far)
}

/// Sends a frame from the second machine, which takes `way`; returns its due time.
fn pass(far: &mut Trunk, here: &mut Trunk, left: u64, way: u64) -> Option<Time> {
    let mut buffer = Vec::new();
    far.frame(0, Port::from_number(3), there(left), &[9; 60], &mut buffer)?;
    let now = at(left + way);
    let TrunkInput::Frame { machine, sequence, left, port, bytes } = here.receive(now, address(1), &buffer) else {
        panic!("no frame");
    };
    let frame = testing_frame(bytes);
    here.hold(now, HeldInput { machine, sequence, left, port, frame });
    here.poll_arrival(now + HOLD * 3).map(|arrival| arrival.due)
}

#[test]
fn frames_are_held_exactly() {
    let (mut here, mut far) = synchronized(20, 50);
    for way in [10, 400, 1_900] {
        assert_eq!(pass(&mut far, &mut here, 1_000_000, way), Some(at(1_002_000)), "{way} us");
    }
    assert_eq!(pass(&mut far, &mut here, 1_000_000, 3_000), Some(at(1_002_000)), "late, and due before it came");
}

#[test]
fn frames_keep_order_when_estimate_steps() {
    let (mut here, mut far) = synchronized(20, 50);
    let mut sent = Vec::new();
    for left in [1_000_000, 1_000_010, 1_000_020] {
        let mut buffer = Vec::new();
        far.frame(0, Port::from_number(3), there(left), &[left as u8; 60], &mut buffer).unwrap();
        sent.push(buffer);
    }
    let arrive = |here: &mut Trunk, place: usize| {
        let now = at(1_000_060);
        let TrunkInput::Frame { machine, sequence, left, port, bytes } = here.receive(now, address(1), &sent[place])
        else {
            panic!("no frame");
        };
        here.hold(now, HeldInput { machine, sequence, left, port, frame: testing_frame(bytes) });
    };
    arrive(&mut here, 0);
    // A quicker ping puts the other clock 40 us further ahead, so that its times are earlier here.
    let received = AHEAD + 40_000;
    here.lines[1].clock.add(clock::Exchange { sent: 0, received, answered: received, returned: 0 });
    // The network swaps the last two.
    arrive(&mut here, 2);
    arrive(&mut here, 1);
    let arrivals: Vec<TrunkArrival> = std::iter::from_fn(|| here.poll_arrival(at(2_000_000))).collect();
    let firsts: Vec<u8> = arrivals.iter().map(|arrival| arrival.frame.bytes()[0]).collect();
    assert_eq!(firsts, [1_000_000, 1_000_010, 1_000_020].map(|left: u64| left as u8));
    assert!(arrivals.iter().all(|arrival| arrival.due == at(1_002_000)), "{arrivals:?}");
}

#[test]
fn missing_frames_are_counted() {
    let (mut here, mut far) = synchronized(20, 50);
    pass(&mut far, &mut here, 1_000_000, 50);
    let mut lost = Vec::new();
    far.frame(0, Port::from_number(3), there(1_000_000), &[9; 60], &mut lost);
    assert_eq!(here.counts()[1].lost(), 0);
    let pings = far.poll_pings(there(2_000_000));
    here.receive(at(2_000_050), address(1), &pings[0].1);
    assert_eq!(here.counts()[1].lost(), 1);
    here.receive(at(2_000_060), address(1), &lost);
    assert_eq!(here.counts()[1].lost(), 0, "it was only late");
}

#[test]
fn clock_believes_quickest_ping() {
    let (mut here, _) = synchronized(20, 50);
    let ahead = here.counts()[1].clock_ahead_ns.unwrap();
    assert_eq!(ahead, AHEAD.cast_signed());
    // A ping that waits on its way back only.
    let line = &mut here.lines[1];
    line.clock.add(clock::Exchange { sent: 0, received: AHEAD + 50_000, answered: AHEAD + 50_000, returned: 900_000 });
    assert_eq!(line.clock.ahead(), Some(ahead));
}

#[test]
fn first_pings_are_long() {
    let (mut here, _) = synchronized(0, 50);
    assert_eq!(here.poll_pings(at(0))[0].1.len(), datagram::FULL);
    let mut frame = Vec::new();
    here.frame(1, Port::from_number(3), at(0), &[9; crate::carrier::MAX_FRAME_BYTES], &mut frame);
    assert_eq!(frame.len(), datagram::FULL);
    let (mut here, _) = synchronized(20, 50);
    assert!(here.poll_pings(at(1_000_000))[0].1.len() < 60, "later ones are quick");
}

#[test]
fn strangers_are_ignored() {
    let mut here = machine(0);
    let mut bytes = Vec::new();
    Datagram::Ping { sent: 1, frames: 1 }.write([8; 16], 1, &mut bytes);
    assert_eq!(here.receive(at(1), address(9), &bytes), TrunkInput::Nothing);
    for machine in [0, 2, 200] {
        Datagram::Ping { sent: 1, frames: 1 }.write(TOKEN, machine, &mut bytes);
        assert_eq!(here.receive(at(1), address(9), &bytes), TrunkInput::Nothing, "{machine}");
    }
}

#[test]
fn faulty_clock_delays_by_two_holds() {
    let (mut here, mut far) = synchronized(20, 50);
    assert_eq!(pass(&mut far, &mut here, 1_000_000, 0), Some(at(1_002_000)));
    let frame = testing_frame(&[1; 60]);
    here.hold(at(5), HeldInput { machine: 1, sequence: 0, left: u64::MAX, port: Port::from_number(0), frame });
    assert_eq!(here.poll_arrival(at(5) + HOLD * 2).unwrap().due, at(5) + HOLD * 2);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..80), valid in any::<bool>()) {
        let mut bytes = bytes;
        if valid && bytes.len() >= 16 {
            bytes[..16].copy_from_slice(&TOKEN);
        }
        machine(0).receive(at(1), address(1), &bytes);
    }

    #[test]
    fn datagrams_return_as_written(sequence in any::<u64>(), left in any::<u64>(), port in any::<u32>()) {
        let mut bytes = Vec::new();
        let frame = Datagram::Frame { sequence, left, port, bytes: &[1, 2] };
        frame.write(TOKEN, 1, &mut bytes);
        prop_assert_eq!(Datagram::read(TOKEN, &bytes), Some((1, frame)));
    }
}
