//! A sender, receivers and their disks, and a hub, with every cut and crash at any step.

mod home;

use roost_wire::messages::DeliveryTerms;

use super::*;
use crate::node::receipts::{Receipt, ReceiptState, Receipts};
use home::Home;

const RECEIVERS: usize = 2;

/// Wall clock of the true time zero, Unix seconds.
const EPOCH_S: u64 = 1_000_000;

/// A receiver's clock that is so far ahead takes all for expired.
const FAR_AHEAD_S: i64 = 1_000_000;

struct Stored {
    item: OutboxItem,
    until: Time,
    end: Option<OutboxEnd>,
}

/// The work that the sender's daemon has begun. A crash ends it.
enum Task {
    Look { to: NodeSelector },
    Offer { id: DeliveryId, receiver: usize, left: Duration },
    Answer { id: DeliveryId, answer: Result<PushState, OfferFault> },
    Note { id: DeliveryId, end: OutboxEnd },
}

/// An object that arrives, and how far its storing has come.
struct Reception {
    id: DeliveryId,
    deadline: Time,
    until_s: u64,
    step: StoreStep,
    by: Bringer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bringer {
    Sender,
    Home,
}

/// The answer to whoever brought an object.
struct ReceptionEnd {
    id: DeliveryId,
    state: PushState,
    by: Bringer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreStep {
    Arriving,
    // On disk: `storing`.
    Begun,
    Named,
    // On disk: `stored`.
    Noted,
}

struct ReceiverHost {
    clock_s: i64,
    is_up: bool,
    has_link: bool,
    refuses: Option<PushState>,
    receipts: Receipts,
    receptions: Vec<Reception>,
    log: BTreeMap<DeliveryId, Receipt>,
    files: Vec<(DeliveryId, Time)>,
}

pub(super) struct Schedule {
    seed: u64,
    now: Time,
    chance: SplitMix64,
    random: SplitMix64,
    outbox: NodeOutbox,
    disk: BTreeMap<DeliveryId, Stored>,
    tasks: Vec<Task>,
    hosts: Vec<ReceiverHost>,
    home: Home,
}

fn sender() -> NodeId {
    node(99)
}

impl Schedule {
    /// Runs a schedule, checks it, and returns what the sender knows in the end.
    pub(super) fn run(seed: u64) -> Vec<(DeliveryId, OutboxEnd)> {
        let mut schedule = Self::new(seed);
        for _ in 0..schedule.chance.below(400) {
            schedule.disturb();
            schedule.step();
        }
        schedule.calm();
        schedule.check()
    }

    fn new(seed: u64) -> Self {
        let mut chance = SplitMix64::new(seed);
        let hosts = (0..RECEIVERS).map(|_| {
            let clock_s = if chance.below(20) == 0 { FAR_AHEAD_S } else { chance.below(500) as i64 - 250 };
            let refuses = (chance.below(20) == 0).then_some(PushState::NoInbox);
            let (receipts, receptions, log, files) = (Receipts::default(), Vec::new(), BTreeMap::new(), Vec::new());
            ReceiverHost {
                clock_s,
                is_up: chance.below(2) == 0,
                has_link: true,
                refuses,
                receipts,
                receptions,
                log,
                files,
            }
        });
        let hosts = hosts.collect();
        let random = SplitMix64::new(seed ^ 0xff);
        let (outbox, disk, tasks) = (NodeOutbox::default(), BTreeMap::new(), Vec::new());
        let home = Home::new(&mut chance);
        Self { seed, now: Time::ZERO, chance, random, outbox, disk, tasks, hosts, home }
    }

    fn disturb(&mut self) {
        let at = self.chance.below(RECEIVERS as u64) as usize;
        match self.chance.below(40) {
            0..=3 => self.deposit(at),
            4 => self.restart_sender(),
            5..=6 => self.hosts[at].crash(),
            7..=9 => self.hosts[at].start(),
            10..=11 => self.hosts[at].has_link = false,
            12..=15 => self.hosts[at].has_link = true,
            16 => {
                if let Some(id) = self.disk.keys().nth(at).copied().filter(|_| self.chance.below(8) == 0) {
                    self.command(OutboxCommand::Cancel { id });
                }
            }
            17 => self.home.crash(),
            18..=19 => self.home.start(),
            _ => {}
        }
    }

    fn deposit(&mut self, at: usize) {
        if self.disk.len() >= 6 {
            return;
        }
        let left = SECOND * (1 + self.chance.below(200) as u32);
        let number = self.disk.len() as u64;
        let (priority, to) = (OutboxPriority::Normal, receiver(at).into());
        let item = OutboxItem { id: id(number), to, priority, since_s: number, left, tries: 0 };
        self.disk.insert(item.id, Stored { item: item.clone(), until: self.now + left, end: None });
        self.command(OutboxCommand::Deposit(item));
    }

    /// The daemon is killed and starts again, with what is on its disk.
    fn restart_sender(&mut self) {
        self.outbox = NodeOutbox::default();
        self.tasks.clear();
        self.home.forget_sender();
        let waiting = self.disk.values().filter(|stored| stored.end.is_none());
        let items: Vec<OutboxItem> =
            waiting.map(|stored| OutboxItem { left: stored.until.since(self.now), ..stored.item.clone() }).collect();
        items.into_iter().for_each(|item| self.command(OutboxCommand::Deposit(item)));
    }

    fn command(&mut self, command: OutboxCommand) {
        self.outbox.handle(self.now, &mut self.random, command);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(event) = self.outbox.poll_event() {
            match event {
                OutboxEvent::Look { to } => self.tasks.push(Task::Look { to }),
                OutboxEvent::Send { id, to, tries, left } => {
                    self.disk.get_mut(&id).unwrap().item.tries = tries;
                    let receiver = usize::from(to.to.node.as_bytes()[0]);
                    self.tasks.push(Task::Offer { id, receiver, left });
                }
                OutboxEvent::Stop { id } => {
                    self.tasks.retain(|task| !task.is_about(id));
                    self.tasks.push(Task::Answer { id, answer: Err(OfferFault::Receiver("stopped".to_owned())) });
                }
                OutboxEvent::Ended { id, end } => self.tasks.push(Task::Note { id, end }),
                OutboxEvent::Leave { .. } | OutboxEvent::Met { .. } => {}
            }
        }
    }

    /// Lets some time pass, then does one thing of those that are to be done.
    fn step(&mut self) {
        let pause = Duration::from_millis(self.chance.below(2_000));
        let due = self.outbox.next(self.now).filter(|at| *at <= self.now + pause);
        self.now = due.unwrap_or(self.now + pause);
        self.outbox.advance(self.now);
        self.drain();
        if !self.tasks.is_empty() {
            let at = self.chance.below(self.tasks.len() as u64) as usize;
            let task = self.tasks.swap_remove(at);
            self.perform(task);
        }
        self.leave_at_home();
        self.bring_from_home();
        for at in 0..RECEIVERS {
            let now = self.now;
            match self.hosts[at].advance(now, &mut self.chance) {
                Some(ReceptionEnd { id, state: PushState::Expired, by: Bringer::Sender }) => {
                    let state = self.hosts[at].deny(id);
                    self.reply(at, id, state);
                }
                Some(ReceptionEnd { id, state, by: Bringer::Sender }) => self.reply(at, id, state),
                Some(ReceptionEnd { id, state, by: Bringer::Home }) => self.home.end(id, state),
                None => {}
            }
        }
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Look { to } => {
                let at = (0..RECEIVERS).find(|at| NodeSelector::from(receiver(*at)) == to).unwrap();
                let found = match self.hosts[at].is_reached() {
                    true => Ok(FoundReceiver {
                        to: Provider { node: receiver(at), addresses: Vec::new() },
                        published_service: None,
                    }),
                    false => Err("away".to_owned()),
                };
                self.command(OutboxCommand::Found { to, found });
            }
            Task::Offer { id, receiver, left } => self.offer(id, receiver, left),
            Task::Answer { id, answer } => self.command(OutboxCommand::Tried { id, answer }),
            Task::Note { id, end } => {
                let noted = self.disk.get_mut(&id).unwrap().end.replace(end);
                assert!(noted.is_none_or(|noted| noted == end), "seed {}: {noted:?}, then {end:?}", self.seed);
            }
        }
    }

    fn offer(&mut self, id: DeliveryId, at: usize, left: Duration) {
        if self.chance.below(20) == 0 {
            let unread = OfferFault::Unoffered("unreadable".to_owned());
            return self.tasks.push(Task::Answer { id, answer: Err(unread) });
        }
        let until = self.disk[&id].until;
        // As the machine that offers: what is left as it does.
        let left = left.min(until.since(self.now));
        let terms =
            DeliveryTerms { id, until_s: EPOCH_S + until.as_micros() / 1_000_000, left_s: left.as_secs() as u32 };
        let host = &mut self.hosts[at];
        let wall_s = (EPOCH_S + self.now.as_micros() / 1_000_000).saturating_add_signed(host.clock_s);
        if !host.is_reached() {
            return self.tasks.push(Task::Answer { id, answer: Err(OfferFault::Receiver("gone".to_owned())) });
        }
        // As the machine of the receiver, which owns one reception of an object at a time.
        let is_it = |reception: &&Reception| reception.id == id && reception.by == Bringer::Sender;
        if host.receptions.iter().any(|reception| is_it(&reception)) {
            return;
        }
        let answer = match host.refuses {
            Some(state) => Err(state),
            None => host.receipts.offer(sender(), &terms, wall_s),
        };
        if terms.left_s == 0 && answer == Err(PushState::Expired) {
            host.log.insert(id, Receipt { state: ReceiptState::Expired, until_s: terms.until_s });
        }
        match answer {
            Err(state) => self.reply(at, id, state),
            Ok(until_s) => {
                let deadline = self.now + SECOND * terms.left_s;
                let (step, by) = (StoreStep::Arriving, Bringer::Sender);
                host.receptions.push(Reception { id, deadline, until_s, step, by });
            }
        }
    }

    /// The answer of a receiver, if it arrives and is waited for.
    fn reply(&mut self, at: usize, id: DeliveryId, state: PushState) {
        let is_lost = !self.hosts[at].has_link || self.chance.below(6) == 0;
        let answer = if is_lost { Err(OfferFault::Receiver("no answer".to_owned())) } else { Ok(state) };
        self.tasks.push(Task::Answer { id, answer });
    }

    /// Everything is up from here on, until nothing is left to do.
    fn calm(&mut self) {
        self.hosts.iter_mut().for_each(ReceiverHost::start);
        self.home.start();
        self.hosts.iter_mut().for_each(|host| host.has_link = true);
        for _ in 0..20_000 {
            let is_idle = self.disk.values().all(|stored| stored.end.is_some());
            if is_idle {
                return;
            }
            // An offer whose receiver crashed ends by itself.
            if self.chance.below(30) == 0 {
                let tasks = &self.tasks;
                let is_lost =
                    |id: &DeliveryId, entry: &Entry| entry.is_sending() && !tasks.iter().any(|task| task.is_about(*id));
                let lost: Vec<DeliveryId> =
                    self.outbox.entries.iter().filter(|(id, entry)| is_lost(id, entry)).map(|(id, _)| *id).collect();
                let answer = |id| Task::Answer { id, answer: Err(OfferFault::Receiver("no answer".to_owned())) };
                self.tasks.extend(lost.into_iter().map(answer));
            }
            self.step();
        }
        panic!("seed {}: {:?}", self.seed, self.outbox);
    }

    fn check(mut self) -> Vec<(DeliveryId, OutboxEnd)> {
        let files = |id: DeliveryId| {
            let all = self.hosts.iter().flat_map(|host| &host.files);
            all.filter(|file| file.0 == id).map(|file| file.1).collect::<Vec<Time>>()
        };
        for (id, stored) in &self.disk {
            let (files, seed) = (files(*id), self.seed);
            assert!(files.len() <= 1, "seed {seed}: {id} is there {} times", files.len());
            let latest = self.home.latest(stored.until);
            assert!(files.iter().all(|at| *at <= latest), "seed {seed}: {id} came after its end");
            match stored.end.unwrap() {
                OutboxEnd::Delivered => assert_eq!(files.len(), 1, "seed {seed}: {id} is not there"),
                OutboxEnd::Expired | OutboxEnd::Refused(_) => assert!(files.is_empty(), "seed {seed}: {id} is there"),
                OutboxEnd::ExpiredUnconfirmed | OutboxEnd::Cancelled => {}
            }
        }
        // A later offer of anything stores nothing twice.
        self.restart_sender();
        self.disk.iter().map(|(id, stored)| (*id, stored.end.unwrap())).collect()
    }
}

fn receiver(at: usize) -> NodeId {
    node(at as u8)
}

impl Task {
    fn is_about(&self, about: DeliveryId) -> bool {
        matches!(self, Self::Offer { id, .. } | Self::Answer { id, .. } if *id == about)
    }
}

impl ReceiverHost {
    fn is_reached(&self) -> bool {
        self.is_up && self.has_link
    }

    fn crash(&mut self) {
        self.is_up = false;
        self.receptions.clear();
    }

    /// Starts with what is on disk: an object with `storing` alone is stored if it has its name.
    fn start(&mut self) {
        if std::mem::replace(&mut self.is_up, true) {
            return;
        }
        self.receipts = Receipts::default();
        let named: Vec<DeliveryId> = self.files.iter().map(|file| file.0).collect();
        self.log.retain(|id, receipt| receipt.state != ReceiptState::Storing || named.contains(id));
        for (id, receipt) in &mut self.log {
            if receipt.state == ReceiptState::Storing {
                receipt.state = ReceiptState::Stored;
            }
            self.receipts.restore(sender(), *id, *receipt);
        }
    }

    /// An object came too late: no hub may bring it any more.
    fn deny(&mut self, id: DeliveryId) -> PushState {
        let denied = self.receipts.offer(sender(), &DeliveryTerms { id, until_s: EPOCH_S, left_s: 0 }, EPOCH_S);
        if denied == Err(PushState::Expired) {
            self.log.insert(id, Receipt { state: ReceiptState::Expired, until_s: EPOCH_S });
        }
        denied.err().unwrap_or(PushState::Expired)
    }

    /// Advances one reception by a step; the answer if it ends.
    fn advance(&mut self, now: Time, chance: &mut SplitMix64) -> Option<ReceptionEnd> {
        let count = self.receptions.len() as u64;
        if !self.is_up || count == 0 || chance.below(2) == 0 {
            return None;
        }
        let at = chance.below(count) as usize;
        let Reception { id, deadline, until_s, step, by } = self.receptions[at];
        let end = match step {
            StoreStep::Arriving if !self.has_link || chance.below(10) == 0 => Some(PushState::Interrupted),
            StoreStep::Arriving if now >= deadline => Some(PushState::Expired),
            StoreStep::Arriving => self.receipts.begin(sender(), id, until_s).err(),
            // The name follows in the same breath, else the disk is too slow to keep to the end.
            StoreStep::Begun if now >= deadline || chance.below(20) == 0 => {
                self.receipts.withdraw(sender(), id);
                self.log.remove(&id);
                Some(PushState::Unwritable)
            }
            StoreStep::Begun | StoreStep::Named => None,
            StoreStep::Noted => Some(PushState::Stored),
        };
        match (end, step) {
            (Some(state), _) => {
                self.receptions.swap_remove(at);
                return Some(ReceptionEnd { id, state, by });
            }
            (None, StoreStep::Arriving) => {
                self.log.insert(id, Receipt { state: ReceiptState::Storing, until_s });
                self.receptions[at].step = StoreStep::Begun;
            }
            (None, StoreStep::Begun) => {
                self.files.push((id, now));
                self.receptions[at].step = StoreStep::Named;
            }
            (None, StoreStep::Named | StoreStep::Noted) => {
                self.log.insert(id, Receipt { state: ReceiptState::Stored, until_s });
                self.receipts.complete(sender(), id);
                self.receptions[at].step = StoreStep::Noted;
            }
        }
        None
    }
}
