use super::*;
use crate::node::api::Provider;

mod schedule;

const SECOND: Duration = Duration::from_secs(1);

fn id(number: u64) -> DeliveryId {
    DeliveryId::from_bytes(number.to_be_bytes())
}

fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

fn item(number: u64, priority: OutboxPriority, since_s: u64) -> OutboxItem {
    OutboxItem { id: id(number), to: node(7).into(), priority, since_s, left: 3_600 * SECOND, tries: 0 }
}

fn item_to(to: u8, number: u64) -> OutboxItem {
    OutboxItem { to: node(to).into(), ..item(number, OutboxPriority::Normal, number) }
}

fn found() -> FoundReceiver {
    FoundReceiver { to: Provider { node: node(7), addresses: Vec::new() }, published_service: None }
}

/// An outbox whose owner finds and sends at once.
struct Owner {
    outbox: NodeOutbox,
    random: SplitMix64,
    now: Time,
    is_there: bool,
    looks: usize,
    sent: Vec<DeliveryId>,
    ended: Vec<(DeliveryId, OutboxEnd)>,
}

impl Owner {
    fn new() -> Self {
        let (outbox, random) = (NodeOutbox::default(), SplitMix64::new(1));
        Self { outbox, random, now: Time::ZERO, is_there: false, looks: 0, sent: Vec::new(), ended: Vec::new() }
    }

    fn command(&mut self, command: OutboxCommand) {
        self.outbox.handle(self.now, &mut self.random, command);
        while let Some(event) = self.outbox.poll_event() {
            match event {
                OutboxEvent::Look { to } => {
                    self.looks += 1;
                    let found = if self.is_there { Ok(found()) } else { Err("nobody knows it".to_owned()) };
                    self.outbox.handle(self.now, &mut self.random, OutboxCommand::Found { to, found });
                }
                OutboxEvent::Send { id, .. } => self.sent.push(id),
                OutboxEvent::Stop { .. } | OutboxEvent::Leave { .. } | OutboxEvent::Met { .. } => {}
                OutboxEvent::Ended { id, end } => self.ended.push((id, end)),
            }
        }
    }

    fn answer(&mut self, number: u64, state: PushState) {
        self.command(OutboxCommand::Tried { id: id(number), answer: Ok(state) });
    }

    fn fail(&mut self, number: u64, fault: fn(String) -> OfferFault) {
        self.command(OutboxCommand::Tried { id: id(number), answer: Err(fault("a fault".to_owned())) });
    }

    /// The objects that are sent since the last call.
    fn newly_sent(&mut self) -> Vec<u64> {
        let numbers = self.sent.drain(..).map(|id| u64::from_str_radix(&id.to_string(), 16).unwrap());
        numbers.collect()
    }

    /// Lets the time pass until something is due, and does it.
    fn wake(&mut self) {
        self.now = self.outbox.next(self.now).expect("something is due");
        self.command(OutboxCommand::Cancel { id: id(u64::MAX) });
    }
}

#[test]
fn priority_goes_before_age() {
    let mut owner = Owner::new();
    for (number, priority, since_s) in [
        (1, OutboxPriority::Low, 1),
        (2, OutboxPriority::Normal, 9),
        (3, OutboxPriority::Normal, 5),
        (4, OutboxPriority::High, 9),
    ] {
        owner.command(OutboxCommand::Deposit(item(number, priority, since_s)));
    }
    owner.is_there = true;
    owner.wake();
    for number in [4, 3, 2, 1] {
        owner.answer(number, PushState::Stored);
    }
    assert_eq!(owner.sent, [4, 3, 2, 1].map(id));
    assert_eq!(owner.ended.len(), 4);
}

#[test]
fn absent_receiver_is_sought_ever_rarer() {
    let mut owner = Owner::new();
    (0..50).for_each(|number| owner.command(OutboxCommand::Deposit(item(number, OutboxPriority::Normal, number))));
    let before = owner.looks;
    while owner.now < Time::ZERO + 3_000 * SECOND {
        owner.wake();
    }
    let looks = owner.looks - before;
    assert!((40..80).contains(&looks), "{looks} looks for one receiver in 50 minutes");
}

#[test]
fn full_inbox_holds_up_no_other_file() {
    let mut owner = Owner::new();
    owner.is_there = true;
    (1..=3).for_each(|number| owner.command(OutboxCommand::Deposit(item(number, OutboxPriority::Normal, number))));
    owner.answer(1, PushState::NoRoom);
    assert_eq!(owner.sent, [1, 2, 3].map(id));
    owner.answer(2, PushState::TooLarge);
    assert_eq!(owner.ended, [(id(2), OutboxEnd::Refused(PushState::TooLarge))]);
    let rows = owner.outbox.rows(owner.now);
    assert!(rows[0].obstacle.as_ref().is_some_and(|why| why.contains("no room")), "{rows:?}");
}

#[test]
fn unreadable_files_hold_up_no_other_file() {
    let mut owner = Owner::new();
    owner.is_there = true;
    (1..=4).for_each(|number| owner.command(OutboxCommand::Deposit(item(number, OutboxPriority::Normal, number))));
    owner.fail(1, OfferFault::Unoffered);
    owner.fail(2, OfferFault::Object);
    assert_eq!(owner.newly_sent(), [1, 2, 3, 4]);
    let rows = owner.outbox.rows(owner.now);
    assert!(rows[..2].iter().all(|row| row.obstacle.as_deref() == Some("a fault")), "{rows:?}");
    assert_eq!((rows[0].tries, rows[1].tries), (0, 1), "a receiver that heard nothing is asked nothing");
}

#[test]
fn unoffered_file_expires_at_its_end() {
    let mut owner = Owner::new();
    owner.is_there = true;
    owner.command(OutboxCommand::Deposit(item(1, OutboxPriority::Normal, 1)));
    owner.now = owner.now + 3_600 * SECOND;
    owner.command(OutboxCommand::Cancel { id: id(9) });
    owner.fail(1, OfferFault::Unoffered);
    assert_eq!(owner.ended, [(id(1), OutboxEnd::Expired)]);
}

#[test]
fn stuck_files_take_one_place() {
    let mut owner = Owner::new();
    owner.is_there = true;
    (1..=6).for_each(|number| owner.command(OutboxCommand::Deposit(item(number, OutboxPriority::Normal, number))));
    for _ in 0..12 {
        for number in owner.newly_sent() {
            match number {
                1 | 2 => owner.answer(number, PushState::Interrupted),
                _ => owner.answer(number, PushState::Stored),
            }
        }
        if owner.sent.is_empty() {
            owner.wake();
        }
    }
    assert_eq!(owner.ended, [3, 4, 5, 6].map(|number| (id(number), OutboxEnd::Delivered)));
}

#[test]
fn silent_receivers_hold_up_no_other() {
    let mut owner = Owner::new();
    owner.is_there = true;
    (10..30).for_each(|number| owner.command(OutboxCommand::Deposit(item_to(number, number.into()))));
    owner.command(OutboxCommand::Deposit(item_to(30, 30)));
    let mut rounds = Vec::<Vec<u64>>::new();
    while !rounds.iter().flatten().any(|number| *number == 30) && rounds.len() < 20 {
        let round = owner.newly_sent();
        owner.now = owner.now + 20 * SECOND;
        round.iter().for_each(|number| owner.fail(*number, OfferFault::Receiver));
        rounds.push(round);
    }
    assert!(rounds.len() <= 4, "{rounds:?}");
}

#[test]
fn absent_receivers_are_sought_in_turn() {
    let mut owner = Owner::new();
    let mut sought = std::collections::BTreeSet::new();
    for number in 1..=60 {
        owner.outbox.handle(owner.now, &mut owner.random, OutboxCommand::Deposit(item_to(number, number.into())));
    }
    for _ in 0..20 {
        let events = std::iter::from_fn(|| owner.outbox.poll_event());
        let looks = events.filter_map(|event| if let OutboxEvent::Look { to } = event { Some(to) } else { None });
        let looks: Vec<NodeSelector> = looks.collect();
        owner.now = owner.now + 10 * SECOND;
        for to in looks {
            sought.insert(to);
            let found = Err("nobody knows it".to_owned());
            owner.outbox.handle(owner.now, &mut owner.random, OutboxCommand::Found { to, found });
        }
    }
    assert_eq!(sought.len(), 60);
}

#[test]
fn thousand_small_files_go_in_their_order() {
    let mut owner = Owner::new();
    for number in 0..MAX_OUTBOX as u64 {
        owner.command(OutboxCommand::Deposit(item(number, OutboxPriority::Normal, number)));
    }
    owner.is_there = true;
    owner.wake();
    let mut order = Vec::new();
    while order.len() < MAX_OUTBOX {
        let sent = owner.newly_sent();
        assert!((1..=MAX_SENDS_TO_ONE).contains(&sent.len()), "{sent:?}");
        sent.iter().for_each(|number| owner.answer(*number, PushState::Stored));
        order.extend(sent);
    }
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn offered_file_is_asked_about_after_its_end() {
    let mut owner = Owner::new();
    owner.is_there = true;
    owner.command(OutboxCommand::Deposit(item(1, OutboxPriority::Normal, 1)));
    owner.now = owner.now + 3_600 * SECOND;
    owner.command(OutboxCommand::Cancel { id: id(9) });
    owner.command(OutboxCommand::Tried { id: id(1), answer: Err(OfferFault::Receiver("stopped".to_owned())) });
    assert_eq!((owner.sent.len(), owner.ended.len()), (2, 0));
    owner.answer(1, PushState::Stored);
    assert_eq!(owner.ended, [(id(1), OutboxEnd::Delivered)]);
}

#[test]
fn file_that_nobody_was_offered_just_expires() {
    let mut owner = Owner::new();
    owner.command(OutboxCommand::Deposit(item(1, OutboxPriority::Normal, 1)));
    while owner.ended.is_empty() {
        owner.wake();
    }
    assert_eq!((owner.ended, owner.now), (vec![(id(1), OutboxEnd::Expired)], Time::ZERO + 3_600 * SECOND));
}

#[test]
#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a test has its size from outside, and says it")]
fn cuts_and_crashes_lose_and_double_nothing() {
    let schedules = std::env::var("ROOST_SEEDS").map_or(500, |seeds| seeds.parse::<u64>().unwrap());
    let mut ends = BTreeMap::<String, u64>::new();
    for seed in 0..schedules {
        for (_, end) in schedule::Schedule::run(seed) {
            *ends.entry(format!("{end:?}")).or_default() += 1;
        }
    }
    println!("{schedules} schedules: {ends:?}");
    assert!(ends.keys().any(|end| end == "Delivered") && ends.keys().any(|end| end == "Expired"), "{ends:?}");
}
