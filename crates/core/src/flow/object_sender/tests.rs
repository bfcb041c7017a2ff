//! A sender alone, and with a receiver over a path that breaks.

use proptest::prelude::*;
use roost_wire::object::digest;

use super::super::{MAX_WINDOW_BYTES, ObjectReceiver, WINDOW_BYTES};
use super::*;

const ID: RequestId = RequestId(1);
const RTT: Duration = Duration::from_millis(50);

fn held(bytes: usize) -> ObjectSender {
    let object = Bytes::from(vec![7; bytes]);
    let digest = digest(&object);
    ObjectSender::held(ID, object, digest)
}

fn count(sender: &mut ObjectSender, room: SendBudget) -> usize {
    std::iter::from_fn(|| sender.poll(Time::ZERO, room)).count()
}

#[test]
fn sender_stops_one_window_past_report() {
    let mut sender = held(WINDOW_BYTES as usize * 2);
    assert_eq!(count(&mut sender, SendBudget::ALL), 16);
    sender.report(Time::ZERO, RTT, CHUNK_BYTES as u64);
    assert_eq!(count(&mut sender, SendBudget::ALL), 1);
    sender.report(Time::ZERO + 8 * RTT, RTT, WINDOW_BYTES * 9);
    assert_eq!(count(&mut sender, SendBudget::ALL), 17, "16 chunks and the end");
    assert!(!sender.is_done());
    sender.report(Time::ZERO, RTT, WINDOW_BYTES * 2);
    assert!(sender.is_done());
}

#[test]
fn first_chunk_per_path_is_small() {
    let mut sender = held(CHUNK_BYTES * 3);
    let next = |sender: &mut ObjectSender| match sender.poll(Time::ZERO, SendBudget::ALL) {
        Some(FlowMessage::Chunk(chunk)) => chunk.payload.len(),
        other => panic!("no chunk: {other:?}"),
    };
    assert_eq!([next(&mut sender), next(&mut sender)], [FIRST_CHUNK_BYTES, CHUNK_BYTES]);
    sender.interrupt();
    sender.report(Time::ZERO, RTT, 5);
    assert_eq!([next(&mut sender), next(&mut sender)], [FIRST_CHUNK_BYTES, CHUNK_BYTES]);
    assert_eq!(next(&mut held(10_000)), 10_000, "what is one piece comes as one");
}

#[test]
fn sender_respects_shared_budget() {
    let chunk = CHUNK_BYTES as u64;
    let mut sender = held(CHUNK_BYTES * 9);
    assert_eq!(count(&mut sender, SendBudget { share: 3 * chunk, left: u64::MAX }), 3);
    assert_eq!(count(&mut sender, SendBudget { share: u64::MAX, left: chunk - 1 }), 0);
    assert_eq!(sender.in_flight(), FIRST_CHUNK_BYTES as u64 + 2 * chunk);
}

#[test]
fn report_resumes_interrupted_sender() {
    let mut sender = held(CHUNK_BYTES * 4);
    assert_eq!(count(&mut sender, SendBudget::ALL), 6);
    sender.interrupt();
    assert_eq!(sender.poll(Time::ZERO, SendBudget::ALL), None);
    sender.report(Time::ZERO, RTT, CHUNK_BYTES as u64);
    let Some(FlowMessage::Chunk(chunk)) = sender.poll(Time::ZERO, SendBudget::ALL) else { panic!("no chunk") };
    assert_eq!(chunk.offset, CHUNK_BYTES as u64);
}

#[test]
fn moved_flow_skips_what_came_before() {
    let mut sender = held(100_000);
    sender.report(Time::ZERO, Duration::ZERO, 60_000);
    assert_eq!(sender.delivered(), 0, "nothing was sent");
    sender.go_on_as(RequestId(8), 0);
    sender.poll(Time::ZERO, SendBudget::ALL).unwrap();
    sender.report(Time::ZERO, Duration::ZERO, 60_000);
    let next = sender.poll(Time::ZERO, SendBudget::ALL);
    assert!(matches!(next, Some(FlowMessage::Chunk(Chunk { id: RequestId(8), offset: 60_000, .. }))), "{next:?}");
    sender.report(Time::ZERO, Duration::ZERO, u64::MAX);
    let next = sender.poll(Time::ZERO, SendBudget::ALL);
    assert!(matches!(next, Some(FlowMessage::End { bytes: 100_000, .. })), "{next:?}");
}

#[test]
fn sender_requests_bounded_read_ahead() {
    let mut sender = ObjectSender::read(ID, 3 * READ_BYTES + 1, [0; 32]).starting_at(1);
    assert_eq!(sender.next_read(), Some((1, READ_BYTES)));
    assert_eq!((sender.next_read(), sender.poll(Time::ZERO, SendBudget::ALL)), (None, None));
    sender.supply(9, Bytes::from_static(b"not asked for"));
    assert_eq!(sender.next_read(), None);
    sender.supply(1, Bytes::from(vec![1; READ_BYTES as usize]));
    assert_eq!(sender.next_read(), None, "enough is there");
    assert!(sender.poll(Time::ZERO, SendBudget::ALL).is_some());
    assert_eq!(sender.next_read(), Some((1 + READ_BYTES, READ_BYTES)));
    assert_eq!(sender.held_bytes(), 0);
}

/// An object of which each byte tells where it is.
fn object(length: usize) -> Bytes {
    (0..length).map(|at| (at / 251 + at) as u8).collect::<Vec<_>>().into()
}

/// An occurrence between two messages.
#[derive(Clone, Debug)]
enum Happening {
    /// So many messages are delivered.
    Deliver(usize),
    /// The reader takes so many bytes, and the receiver reports.
    Read(u64),
    /// So many reads are answered.
    Disk(usize),
    /// The data under way is lost, and the receiver says what it has.
    Break,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (1..40_usize).prop_map(Happening::Deliver),
        3 => (1..600_000_u64).prop_map(Happening::Read),
        3 => (1..3_usize).prop_map(Happening::Disk),
        1 => Just(Happening::Break),
    ]
}

proptest! {
    #[test]
    fn each_byte_delivered_once_despite_breaks(
        happenings in prop::collection::vec(happening(), 1..60),
        length in 1..1_500_000_usize,
        began in 0..1_500_000_usize,
        is_held: bool,
    ) {
        let (object, began) = (object(length), began % length);
        let digest = digest(&object);
        let sender = if is_held { ObjectSender::held(ID, object.clone(), digest) } else { ObjectSender::read(ID, length as u64, digest) };
        let mut sender = sender.starting_at(began as u64);
        let mut receiver = ObjectReceiver::new(ID, length as u64, digest, began as u64);
        let (mut wire, mut disk, mut got) = (VecDeque::new(), VecDeque::new(), object[..began].to_vec());
        // In the end everybody does what is to be done.
        let rest = [Happening::Break, Happening::Disk(1), Happening::Deliver(500), Happening::Read(u64::MAX / 2)];
        let rest = rest.into_iter().cycle().take(4 * (8 + 2 * length / CHUNK_BYTES));
        for (at, happening) in happenings.into_iter().chain(rest.skip(1)).enumerate() {
            let now = Time::ZERO + RTT * at as u32;
            match happening {
                Happening::Deliver(count) => for message in wire.drain(..count.min(wire.len())) {
                    let FlowMessage::Chunk(chunk) = message else { continue };
                    got.extend_from_slice(&receiver.chunk(chunk).unwrap_or_default());
                },
                Happening::Read(bytes) => {
                    receiver.read(bytes);
                    sender.report(now, RTT, receiver.report().bytes);
                }
                Happening::Disk(count) => for (offset, bytes) in disk.drain(..count.min(disk.len())) {
                    let from = offset as usize;
                    sender.supply(offset, object.slice(from..from + bytes as usize));
                },
                Happening::Break if !sender.is_done() => {
                    wire.clear();
                    sender.interrupt();
                    sender.report(now, RTT, receiver.report().bytes);
                }
                Happening::Break => {}
            }
            disk.extend(sender.next_read());
            wire.extend(std::iter::from_fn(|| sender.poll(now, SendBudget::ALL)));
            disk.extend(sender.next_read());
            prop_assert!(disk.len() <= 1);
            prop_assert!(sender.in_flight() <= MAX_WINDOW_BYTES);
        }
        prop_assert!(receiver.has_everything() && sender.is_done(), "{} of {}", receiver.bytes(), length - began);
        prop_assert!(got == object[..]);
        prop_assert_eq!(receiver.digest_ok(), (began == 0).then_some(true));
    }
}
