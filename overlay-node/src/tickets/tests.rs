use super::backlog::{MAX_OBJECTS_BYTES, MAX_STREAM_QUEUE_BYTES, cost};
use super::*;

fn taken(purpose: Purpose) -> (Tickets, mpsc::UnboundedReceiver<Reply>, Arc<Backlog>) {
    let tickets = Tickets::default();
    let backlog = tickets.backlog(purpose);
    let (sender, receiver) = mpsc::unbounded_channel();
    tickets.lock().insert(Ticket(1), Entry { purpose, sender, backlog: Arc::clone(&backlog) });
    (tickets, receiver, backlog)
}

fn piece() -> Reply {
    Reply::Data(Bytes::from(vec![0; 100_000]))
}

#[test]
fn slow_stream_reader_loses_datagrams() {
    let (tickets, mut receiver, backlog) = taken(Purpose::Request(Service::Video, RequestMode::Forward));
    for _ in 0..100 {
        tickets.deliver(Ticket(1), piece());
    }
    let kept = MAX_STREAM_QUEUE_BYTES / 100_000;
    assert_eq!(backlog.unread(), 100 - kept as u64);
    let mut read = receiver.try_recv().unwrap();
    backlog.release(&mut read);
    tickets.deliver(Ticket(1), piece());
    assert_eq!(receiver.len(), kept);
    for _ in 0..20_000 {
        tickets.deliver(Ticket(1), Reply::Data(Bytes::new()));
    }
    assert!(receiver.len() < 10_000, "what is empty takes memory, too");
}

#[test]
fn object_waits_for_slow_reader() {
    let (tickets, receiver, backlog) = taken(Purpose::Request(Service::Image, RequestMode::Forward));
    for _ in 0..100 {
        tickets.deliver(Ticket(1), piece());
    }
    assert_eq!((receiver.len(), backlog.unread()), (100, 0));
}

#[test]
fn slow_room_reader_gets_latest_roster() {
    let (tickets, mut receiver, backlog) = taken(Purpose::Other);
    let member = |number: u8| RoomMember {
        node: NodeId::from_bytes([number; 16]),
        cell: Cell::new(1, 1),
        services: roost_wire::ServiceSet::ALL,
    };
    for number in 1..=3 {
        for _ in 0..3 {
            tickets.deliver(Ticket(1), Reply::Roster(vec![member(number - 1)]));
        }
        tickets.deliver(Ticket(1), Reply::Roster(vec![member(number)]));
        let mut read = receiver.try_recv().unwrap();
        backlog.release(&mut read);
        assert!(matches!(&read, Reply::Roster(members) if *members == [member(number)]), "{read:?}");
        assert!(receiver.is_empty());
    }
}

#[test]
fn all_objects_together_have_a_limit() {
    let (tickets, mut receiver, backlog) = taken(Purpose::Request(Service::Image, RequestMode::Forward));
    let big = Bytes::from(vec![0; 31 << 20]);
    let most = MAX_OBJECTS_BYTES / cost(&big);
    for _ in 0..most {
        assert_eq!(tickets.deliver_data(Ticket(1), big.clone()), None);
    }
    let refused = tickets.deliver_data(Ticket(1), big.clone());
    assert_eq!(refused, Some(Purpose::Request(Service::Image, RequestMode::Forward)));
    assert_eq!(tickets.deliver_data(Ticket(1), big.clone()), None, "the ticket is over");
    let mut read = receiver.try_recv().unwrap();
    backlog.release(&mut read);
    assert_eq!(tickets.objects.load(Ordering::Relaxed), (most - 1) * cost(&big));
    drop(backlog);
    assert_eq!(tickets.objects.load(Ordering::Relaxed), 0, "what nobody reads any more counts no more");
    let last = std::iter::from_fn(|| receiver.try_recv().ok()).last();
    assert!(matches!(last, Some(Reply::Failed(Failure { reason: Reason::Busy, .. }))), "{last:?}");
}

#[test]
fn the_last_reply_ends_the_ticket() {
    let (tickets, _receiver, _) = taken(Purpose::Other);
    let failed = || Reply::Failed(Failure::new(Reason::TimedOut, "late"));
    assert_eq!(tickets.deliver(Ticket(1), failed()), Some(Purpose::Other));
    assert_eq!(tickets.deliver(Ticket(1), failed()), None);
    assert!(tickets.lock().is_empty());
}
