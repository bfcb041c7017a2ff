//! The machine of one node: its searches, its questions, its table.

use std::collections::{BTreeMap, VecDeque};

use roost_wire::Time;
use roost_wire::random::SplitMix64;

use crate::geometry::{Circle, Contact};
use crate::message::{DhtMessage, Purpose};
use crate::search::{Answered, AreaSearch, Parallelism};
use crate::settings::DhtSettings;
use crate::table::RoutingTable;

#[derive(Clone, Debug)]
pub enum DhtInput {
    /// The node starts, or has lost all contacts: these nodes are in the network.
    Join {
        contacts: Vec<Contact>,
    },
    Search {
        ticket: u64,
        circle: Circle,
    },
    Message {
        from: Contact,
        message: DhtMessage,
    },
    Timeout,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhtOutput {
    Send {
        to: Contact,
        message: DhtMessage,
    },
    Found(SearchResult),
    /// No contact is left, and the node needs others to join again.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResult {
    pub ticket: u64,
    /// The nodes in the area that answered.
    pub contacts: Vec<Contact>,
    /// False if the time was up before all nodes had answered or fallen silent.
    pub is_complete: bool,
    /// Round trips, one after the other, to the node nearest to the area that answered.
    pub hops: Option<u32>,
}

/// A search of the node itself has no ticket.
#[derive(Clone, Copy, Debug)]
struct SearchTask {
    ticket: Option<u64>,
    circle: Circle,
    near: usize,
}

#[derive(Debug)]
struct RunningSearch {
    ticket: Option<u64>,
    search: AreaSearch,
    until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchEnd {
    AllAsked,
    TimeUp,
}

#[derive(Clone, Copy, Debug)]
struct OpenQuestion {
    to: Contact,
    due: Time,
    /// The search that it is part of; a probe has none.
    search: Option<u64>,
}

#[derive(Debug)]
pub struct DhtNode {
    settings: DhtSettings,
    own: Contact,
    random: SplitMix64,
    table: RoutingTable,
    searches: BTreeMap<u64, RunningSearch>,
    /// By number, hence by due time, since all have the same timeout.
    questions: BTreeMap<u32, OpenQuestion>,
    next_search: u64,
    next_question: u32,
    next_refresh: Option<Time>,
    refreshed: u32,
    outputs: VecDeque<DhtOutput>,
}

impl DhtNode {
    pub fn new(settings: DhtSettings, own: Contact, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        // Answers to questions before a restart match none after it.
        let next_question = random.next_u64() as u32 >> 1;
        Self {
            settings,
            own,
            random,
            table: RoutingTable::new(own, settings.bucket, settings.stale),
            searches: BTreeMap::new(),
            questions: BTreeMap::new(),
            next_search: 0,
            next_question,
            next_refresh: None,
            refreshed: 0,
            outputs: VecDeque::new(),
        }
    }

    pub fn handle(&mut self, now: Time, input: DhtInput) {
        match input {
            DhtInput::Join { contacts } => self.join(now, &contacts),
            DhtInput::Search { ticket, circle } => {
                let known = self.table.closest(&circle, self.settings.near, usize::MAX);
                self.begin_search(now, SearchTask { ticket: Some(ticket), circle, near: self.settings.near }, &known);
            }
            DhtInput::Message { from, message } => self.handle_message(now, from, message),
            DhtInput::Timeout => self.handle_timeout(now),
        }
    }

    pub fn poll_output(&mut self) -> Option<DhtOutput> {
        self.outputs.pop_front()
    }

    pub fn poll_deadline(&self) -> Option<Time> {
        let question = self.questions.values().next().map(|question| question.due);
        let search = self.searches.values().map(|running| running.until).min();
        [question, search, self.next_refresh].into_iter().flatten().min()
    }

    /// Searches for the own cell, so that those near learn of the node and the node of them.
    fn join(&mut self, now: Time, contacts: &[Contact]) {
        let circle = Circle { center: self.own.cell, radius: 0 };
        let near = self.settings.near + self.settings.bucket;
        self.refreshed = 0;
        self.next_refresh = Some(now + self.random.jitter(self.settings.first_refresh));
        self.begin_search(now, SearchTask { ticket: None, circle, near }, contacts);
    }

    fn begin_search(&mut self, now: Time, task: SearchTask, first: &[Contact]) {
        let SearchTask { ticket, circle, near } = task;
        let parallel = Parallelism { outside: self.settings.parallel, inside: self.settings.parallel_inside };
        let mut search = AreaSearch::new(circle, near, parallel);
        let others: Vec<Contact> = first.iter().filter(|one| one.id != self.own.id).copied().collect();
        search.add(&others, None);
        let key = self.next_search;
        self.next_search += 1;
        self.searches.insert(key, RunningSearch { ticket, search, until: now + self.settings.patience });
        self.go_on(now, key);
    }

    /// Asks the next nodes of a search, or ends it.
    fn go_on(&mut self, now: Time, key: u64) {
        let Some(running) = self.searches.get_mut(&key) else { return };
        let circle = running.search.circle();
        let purpose = if running.ticket.is_some() { Purpose::Search } else { Purpose::Upkeep };
        let next: Vec<Contact> = std::iter::from_fn(|| running.search.ask_next()).collect();
        let is_over = running.search.is_over();
        for to in next {
            let question = self.open_question(now, to, Some(key));
            self.send(to, DhtMessage::Find { question, circle, purpose });
        }
        if is_over {
            self.end_search(key, SearchEnd::AllAsked);
        }
    }

    fn end_search(&mut self, key: u64, end: SearchEnd) {
        let Some(RunningSearch { ticket: Some(ticket), search, .. }) = self.searches.remove(&key) else { return };
        let (contacts, hops, is_complete) = (search.found(), search.hops(), end == SearchEnd::AllAsked);
        self.outputs.push_back(DhtOutput::Found(SearchResult { ticket, contacts, is_complete, hops }));
    }

    fn open_question(&mut self, now: Time, to: Contact, search: Option<u64>) -> u32 {
        let number = self.next_question;
        self.next_question = self.next_question.wrapping_add(1);
        self.questions.insert(number, OpenQuestion { to, due: now + self.settings.timeout, search });
        number
    }

    fn handle_message(&mut self, now: Time, from: Contact, message: DhtMessage) {
        self.learn(now, from);
        match message {
            DhtMessage::Find { question, circle, purpose } => {
                let mut contacts = self.table.closest(&circle, self.settings.near + 1, self.settings.answer);
                contacts.retain(|contact| contact.id != from.id);
                let is_inside = circle.contains(self.own.cell);
                self.send(from, DhtMessage::Found { question, contacts, is_inside, purpose });
            }
            DhtMessage::Ping { question } => self.send(from, DhtMessage::Pong { question }),
            DhtMessage::Found { .. } | DhtMessage::Pong { .. } => self.close_question(now, from, message),
        }
    }

    fn close_question(&mut self, now: Time, from: Contact, message: DhtMessage) {
        let number = message.question();
        let is_of_search = matches!(message, DhtMessage::Found { .. });
        let fits = |open: &OpenQuestion| open.to.id == from.id && open.search.is_some() == is_of_search;
        let Some(open) = self.questions.get(&number).copied().filter(fits) else { return };
        self.questions.remove(&number);
        let Some(key) = open.search else { return };
        let own = self.own.id;
        if let Some(running) = self.searches.get_mut(&key)
            && let DhtMessage::Found { mut contacts, .. } = message
        {
            contacts.retain(|contact| contact.id != own);
            running.search.close(from, Answered::Yes);
            running.search.add(&contacts, Some(from));
        }
        self.go_on(now, key);
    }

    fn send(&mut self, to: Contact, message: DhtMessage) {
        self.outputs.push_back(DhtOutput::Send { to, message });
    }

    fn learn(&mut self, now: Time, from: Contact) {
        if let Some(silent) = self.table.insert(now, from) {
            let question = self.open_question(now, silent, None);
            self.send(silent, DhtMessage::Ping { question });
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(entry) = self.questions.first_entry().filter(|entry| entry.get().due <= now) {
            let open = entry.remove();
            self.table.remove(open.to);
            if let Some(key) = open.search {
                if let Some(running) = self.searches.get_mut(&key) {
                    running.search.close(open.to, Answered::No);
                }
                self.go_on(now, key);
            }
        }
        let late = self.searches.iter().filter(|(_, running)| running.until <= now).map(|(key, _)| *key);
        for key in late.collect::<Vec<_>>() {
            self.end_search(key, SearchEnd::TimeUp);
        }
        if self.next_refresh.is_some_and(|at| at <= now) {
            self.refresh(now);
        }
    }

    fn refresh(&mut self, now: Time) {
        let is_first = self.refreshed < self.table.width();
        let pause = if is_first { self.settings.first_refresh } else { self.settings.refresh };
        self.next_refresh = Some(now + self.random.jitter(pause));
        self.refreshed = self.refreshed.saturating_add(1);
        match self.table.refresh_target(&mut self.random) {
            Some(center) => {
                let (circle, near) = (Circle { center, radius: 0 }, self.settings.near_of_refresh);
                let known = self.table.closest(&circle, near, near);
                self.begin_search(now, SearchTask { ticket: None, circle, near }, &known);
            }
            // The search of a node that joins may still bring contacts.
            None if self.searches.is_empty() => self.outputs.push_back(DhtOutput::Lost),
            None => {}
        }
    }
}
