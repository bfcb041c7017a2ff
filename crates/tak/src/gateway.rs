//! The machine of the gateway: events of TAK and changes of the overlay in, events and records out. It does no I/O.
//!
//! The driver tells it what came, asks each connection for its next event by [`Gateway::poll_transmit`] until there is
//! none, and calls [`Gateway::on_timeout`] at [`Gateway::deadline`].

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_client::{Status, WatchEvent};
use roost_services::track::cot::{self, CotEvent};
use roost_services::track::record::TrackRecord;
use roost_wire::NodeId;

use crate::clock::Clock;
use crate::contacts::{ConnectionId, Contacts, OWN_PREFIX, Refusal, Sender};
use crate::events::Moment;
use crate::framing::{Framing, MAX_EVENT_BYTES};
use crate::kinds;
use crate::marks::{Content, Mark, MarkRules, Marks, TrackLine};
use crate::outgoing::{Outgoing, Uid};
use crate::totals::Totals;

/// The pause between two looks at what is due.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two events of what changes.
const NEWS_PAUSE: Duration = Duration::from_secs(2);
/// A node in motion is sent again after this time.
const MOVING_PAUSE: Duration = Duration::from_secs(5);
/// A node that stays is sent again after this time, three times before it is stale.
const STILL_PAUSE: Duration = Duration::from_secs(25);
/// Servers part with clients that are silent for a minute or more.
const PING_PAUSE: Duration = Duration::from_secs(20);
/// A requester that comes later gets a contact within this time.
const RECORD_PAUSE: Duration = Duration::from_secs(15);
const USUAL_EVENT_BYTES: usize = 800;
/// The rate at which contacts are sent to requesters: that of a track, less what the frames of datagrams take.
const RECORDS_BITS_PER_SECOND: f64 = 36_000.0;
/// A driver that does not read news loses the oldest.
const MAX_NEWS: usize = 1024;

const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8"?>"#;
const PING_UID: &str = "takPing";
const PONG_UID: &str = "takPong";

/// The form in which events come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carriage {
    Stream,
    Datagrams,
}

/// Something that people may want to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContactNews {
    Came { uid: String, callsign: Option<String> },
    Left { uid: String },
}

#[derive(Debug)]
struct Connection {
    /// `None` if each datagram is an event.
    framing: Option<Framing>,
    outgoing: Outgoing,
    pinged: Instant,
}

#[derive(Debug)]
pub(crate) struct Gateway {
    connections: BTreeMap<ConnectionId, Connection>,
    marks: Marks,
    contacts: Contacts,
    /// The contacts that wait for requesters, while there are some.
    records: Option<Outgoing>,
    bits_per_second: f64,
    news: VecDeque<ContactNews>,
    totals: Totals,
    looks: Instant,
}

impl Gateway {
    pub(crate) fn new(rules: MarkRules, bits_per_second: f64, clock: Clock) -> Self {
        Self {
            connections: BTreeMap::new(),
            marks: Marks::new(rules),
            contacts: Contacts::default(),
            records: None,
            bits_per_second,
            news: VecDeque::new(),
            totals: Totals::default(),
            looks: clock.at + LOOK,
        }
    }

    /// A connection is up: everything is sent on it.
    pub(crate) fn connect(&mut self, id: ConnectionId, carriage: Carriage, clock: Clock) {
        let framing = (carriage == Carriage::Stream).then(Framing::default);
        let mut outgoing = Outgoing::new(self.bits_per_second, clock.at);
        // This node comes first: servers learn from it who is there.
        let is_own = |mark: &Mark| matches!(mark.content, Content::Own(_));
        for own in [true, false] {
            for (uid, mark) in self.marks.iter().filter(|(_, mark)| is_own(mark) == own) {
                if !mark.is_gone() {
                    outgoing.put(uid);
                }
            }
        }
        self.connections.insert(id, Connection { framing, outgoing, pinged: clock.at });
    }

    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.totals.close(&connection.outgoing, connection.framing.as_ref());
        }
        self.contacts.release(id);
    }

    /// Takes bytes of a stream, or a datagram, with the host that sent it. Returns the number of sound events.
    pub(crate) fn receive(&mut self, id: ConnectionId, address: Option<IpAddr>, bytes: &[u8], clock: Clock) -> usize {
        let Some(connection) = self.connections.get_mut(&id) else { return 0 };
        let sender = Sender { connection: id, address };
        let Some(mut framing) = connection.framing.take() else {
            let taken = self.accept_datagram(bytes, sender, clock);
            return self.count(taken);
        };
        let mut sound = 0;
        framing.push(bytes, |event| {
            let taken = self.accept(event, sender, clock);
            sound += self.count(taken);
        });
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.framing = Some(framing);
        }
        sound
    }

    /// Counts an event, and returns 1 if it was sound.
    fn count(&mut self, taken: Result<(), Refusal>) -> usize {
        self.totals.received += 1;
        if let Err(refusal) = taken {
            *self.totals.refused.entry(refusal.name()).or_default() += 1;
        }
        usize::from(!matches!(taken, Err(Refusal::Malformed | Refusal::TooLong)))
    }

    fn accept_datagram(&mut self, datagram: &[u8], sender: Sender, clock: Clock) -> Result<(), Refusal> {
        if datagram.len() > MAX_EVENT_BYTES {
            return Err(Refusal::TooLong);
        }
        match cot::read_protobuf(datagram) {
            Some(event) => {
                let event = event.map_err(|_| Refusal::Malformed)?;
                let xml = cot::write(&event, clock.wall, &[]);
                self.accept_event(event, &xml, sender, clock)
            }
            None => self.accept(datagram, sender, clock),
        }
    }

    fn accept(&mut self, xml: &[u8], sender: Sender, clock: Clock) -> Result<(), Refusal> {
        let xml = std::str::from_utf8(xml).map_err(|_| Refusal::Malformed)?;
        let event = cot::read(xml).map_err(|_| Refusal::Malformed)?;
        self.accept_event(event, xml, sender, clock)
    }

    fn accept_event(&mut self, event: CotEvent, xml: &str, sender: Sender, clock: Clock) -> Result<(), Refusal> {
        match event.kind.as_str() {
            kinds::PING => {
                self.answer_ping(sender.connection);
                Ok(())
            }
            kinds::PONG => Ok(()),
            kinds::DELETE => {
                self.end_contact(&event, sender);
                Ok(())
            }
            _ if event.uid.starts_with(OWN_PREFIX) => Err(Refusal::Echo),
            kind if kind.starts_with("a-") => self.accept_contact(event, xml, sender, clock),
            _ => Err(Refusal::Other),
        }
    }

    /// However many pings come, one answer waits.
    fn answer_ping(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.outgoing.put(&Uid::from(PONG_UID));
        }
    }

    fn end_contact(&mut self, event: &CotEvent, sender: Sender) {
        if let Some(uid) = event.link.as_deref().filter(|uid| self.contacts.end(uid, sender)) {
            self.forget_record(&Uid::from(uid));
            self.push_news(ContactNews::Left { uid: uid.to_owned() });
        }
    }

    fn accept_contact(&mut self, event: CotEvent, xml: &str, sender: Sender, clock: Clock) -> Result<(), Refusal> {
        let callsign = event.callsign.clone();
        let taken = self.contacts.accept(event, xml, sender, clock)?;
        if let Some(left) = taken.left {
            self.forget_record(&left);
            self.push_news(ContactNews::Left { uid: left.to_string() });
        }
        if taken.is_new {
            self.push_news(ContactNews::Came { uid: taken.uid.to_string(), callsign });
            let shown = self.marks.contact_came(&taken.uid, clock.at);
            self.put_marks(shown, clock);
        }
        if let Some(records) = &mut self.records {
            put_after(records, &taken.uid, NEWS_PAUSE, clock.at);
        }
        Ok(())
    }

    pub(crate) fn on_watch(&mut self, change: &WatchEvent, clock: Clock) {
        for candidate in &change.present {
            let changed = self.marks.present(candidate, clock.at);
            self.put_marks(changed, clock);
        }
        for node in &change.gone {
            let changed = self.marks.gone(*node, clock.at);
            self.put_marks(changed, clock);
        }
    }

    pub(crate) fn on_status(&mut self, status: &Status, clock: Clock) {
        let changed = self.marks.own(status, clock.at);
        self.put_marks(changed, clock);
    }

    /// Takes a line of a provider's track.
    pub(crate) fn on_line(&mut self, provider: NodeId, name: &str, line: &[u8], clock: Clock) {
        let Some(record) = TrackRecord::read(line) else { return };
        let line = TrackLine { provider, name, record };
        let changed = self.marks.target(line, &self.contacts, clock.at);
        self.put_marks(changed, clock);
    }

    fn put_marks(&mut self, changed: impl IntoIterator<Item = Uid>, clock: Clock) {
        for uid in self.marks.take_evicted() {
            self.connections.values_mut().for_each(|connection| connection.outgoing.forget(&uid));
        }
        for uid in changed {
            for connection in self.connections.values_mut() {
                put_after(&mut connection.outgoing, &uid, NEWS_PAUSE, clock.at);
            }
        }
    }

    /// Returns the next event for a connection, if one waits and the rate allows it.
    pub(crate) fn poll_transmit(&mut self, id: ConnectionId, clock: Clock) -> Option<Bytes> {
        let connection = self.connections.get_mut(&id)?;
        loop {
            let uid = connection.outgoing.pop(clock.at)?;
            let life = connection.outgoing.time_of(self.marks.len() * USUAL_EVENT_BYTES) * 3;
            let moment = Moment { clock, life, marks: &self.marks };
            let xml = match &*uid {
                PING_UID => moment.short(PING_UID, kinds::PING, &[]),
                PONG_UID => moment.short(PONG_UID, kinds::PONG, &[]),
                _ => match moment.event(&uid) {
                    Some(xml) => xml,
                    None => continue,
                },
            };
            // A datagram is a document of its own.
            let xml = if connection.framing.is_some() { xml } else { format!("{DECLARATION}{xml}") };
            connection.outgoing.spend(uid, xml.len(), clock.at);
            self.totals.sent += 1;
            self.totals.sent_bytes += xml.len() as u64;
            return Some(xml.into());
        }
    }

    /// Contacts are sent to requesters, from now on or no more.
    pub(crate) fn offer_records(&mut self, requested: Requested, clock: Clock) {
        match (requested, &self.records) {
            (Requested::No, _) => self.records = None,
            (Requested::Yes, None) => {
                let mut records = Outgoing::new(RECORDS_BITS_PER_SECOND, clock.at);
                self.contacts.uids().for_each(|uid| records.put(uid));
                self.records = Some(records);
            }
            (Requested::Yes, Some(_)) => {}
        }
    }

    /// Returns the next record for requesters, a line of JSON.
    pub(crate) fn poll_record(&mut self, clock: Clock) -> Option<Bytes> {
        let records = self.records.as_mut()?;
        loop {
            let uid = records.pop(clock.at)?;
            let Some(line) = self.contacts.line(&uid, clock) else { continue };
            records.spend(uid, line.len(), clock.at);
            self.totals.records += 1;
            return Some(line);
        }
    }

    pub(crate) fn poll_news(&mut self) -> Option<ContactNews> {
        self.news.pop_front()
    }

    /// The next moment at which something is to do, for all connections that take events now.
    pub(crate) fn deadline(&self, is_open: impl Fn(ConnectionId) -> bool) -> Instant {
        let open = self.connections.iter().filter(|(id, _)| is_open(**id));
        let sends = open.filter_map(|(_, connection)| connection.outgoing.deadline());
        let records = self.records.as_ref().and_then(Outgoing::deadline);
        sends.chain(records).fold(self.looks, Instant::min)
    }

    /// Puts what is due, and ends what is over.
    pub(crate) fn on_timeout(&mut self, clock: Clock) {
        if clock.at < self.looks {
            return;
        }
        self.looks = clock.at + LOOK;
        for uid in self.contacts.expire(clock.at) {
            self.forget_record(&uid);
            self.push_news(ContactNews::Left { uid: uid.to_string() });
        }
        let (ended, forgotten) = self.marks.expire(clock.at);
        self.put_marks(ended, clock);
        for connection in self.connections.values_mut() {
            forgotten.iter().for_each(|uid| connection.outgoing.forget(uid));
            put_due(&self.marks, connection, clock.at);
        }
        if let Some(records) = &mut self.records {
            self.contacts.uids().for_each(|uid| put_after(records, uid, RECORD_PAUSE, clock.at));
        }
    }

    fn forget_record(&mut self, uid: &Uid) {
        if let Some(records) = &mut self.records {
            records.forget(uid);
        }
    }

    #[cfg(test)]
    pub(crate) fn remembered_records(&self) -> usize {
        self.records.as_ref().map_or(0, Outgoing::remembered)
    }

    #[cfg(test)]
    pub(crate) fn remembered_events(&self) -> usize {
        self.connections.values().map(|connection| connection.outgoing.remembered()).sum()
    }

    fn push_news(&mut self, news: ContactNews) {
        if self.news.len() >= MAX_NEWS {
            self.news.pop_front();
        }
        self.news.push_back(news);
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.totals.clone();
        for connection in self.connections.values() {
            totals.close(&connection.outgoing, connection.framing.as_ref());
        }
        (totals.connections, totals.contacts) = (self.connections.len(), self.contacts.len());
        totals.marks = self.marks.len();
        totals.not_shown += self.marks.refused();
        totals
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    Yes,
    No,
}

/// Puts a uid unless its last event is younger than a pause; a look puts it later.
fn put_after(outgoing: &mut Outgoing, uid: &Uid, pause: Duration, now: Instant) {
    if outgoing.sent_at(uid).is_none_or(|sent| sent + pause <= now) {
        outgoing.put(uid);
    }
}

fn put_due(marks: &Marks, connection: &mut Connection, now: Instant) {
    for (uid, mark) in marks.iter() {
        let sent = connection.outgoing.sent_at(uid);
        let pause = match sent {
            None if mark.is_gone() => continue,
            Some(sent) if sent < mark.changed => NEWS_PAUSE,
            _ if mark.is_sent_once() => continue,
            _ if mark.is_moving() => MOVING_PAUSE,
            _ => STILL_PAUSE,
        };
        put_after(&mut connection.outgoing, uid, pause, now);
    }
    if connection.framing.is_some() && connection.pinged + PING_PAUSE <= now {
        connection.pinged = now;
        connection.outgoing.put(&Uid::from(PING_UID));
    }
}
