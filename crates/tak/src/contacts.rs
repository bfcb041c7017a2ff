//! The contacts of TAK: its people and devices, by their own events and those of others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_services::track::cot::{self, CotEvent, CotPoint};
use roost_services::track::record::{Origin, TrackRecord};

use crate::clock::Clock;
use crate::kinds::is_type;
use crate::outgoing::Uid;

/// Every uid that a gateway makes begins so; no event with such a uid enters the overlay again.
pub(crate) const OWN_PREFIX: &str = "roost-";

/// The most contacts that a gateway holds; a large exercise has some hundreds.
pub(crate) const MAX_CONTACTS: usize = 4096;

/// A contact lasts no longer than this, whatever it says itself.
const LONGEST_LIFE: Duration = Duration::from_secs(3600);
/// Clocks of devices differ; an event that is older than this is from another time.
const LATEST: Duration = Duration::from_secs(300);
/// A contact without news for this time may come by another connection, or from another host of a group.
const HOLD: Duration = Duration::from_secs(60);
/// The longest line of a record, bytes: it fits a datagram of a reflected stream.
const MAX_LINE_BYTES: usize = 1200;

/// Beyond the range of sense: the deepest sea and geostationary satellites, escape from the Earth.
const ALTITUDES_M: std::ops::RangeInclusive<f64> = -12_000.0..=50_000_000.0;
const SPEEDS_MPS: std::ops::RangeInclusive<f64> = 0.0..=12_000.0;
const COURSES_DEG: std::ops::RangeInclusive<f64> = 0.0..=360.0;

/// The number of a connection with TAK: a server, a client, a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u32);

/// The sender of an event: a connection and, in a multicast group, a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sender {
    pub(crate) connection: ConnectionId,
    pub(crate) address: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    Malformed,
    TooLong,
    Echo,
    /// No atom: chat, a drawing, a task.
    Other,
    NoPosition,
    Old,
    /// Another sender has told of the contact within a minute.
    Held,
    Full,
}

impl Refusal {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::Echo => "echo",
            Self::Other => "other",
            Self::NoPosition => "no_position",
            Self::Old => "old",
            Self::Held => "held",
            Self::Full => "full",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Contact {
    pub(crate) event: CotEvent,
    xml: String,
    sender: Sender,
    /// No other sender may replace the contact before.
    held_until: Instant,
    ends: Instant,
}

/// A contact that was taken, and the other one that had to leave for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) uid: Uid,
    pub(crate) is_new: bool,
    pub(crate) left: Option<Uid>,
}

#[derive(Debug, Default)]
pub(crate) struct Contacts {
    contacts: BTreeMap<Uid, Contact>,
    counts: BTreeMap<Sender, usize>,
}

impl Contacts {
    pub(crate) fn len(&self) -> usize {
        self.contacts.len()
    }

    pub(crate) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.contacts.keys()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.contacts.contains_key(uid)
    }

    /// Takes an event of an atom, with its text.
    pub(crate) fn accept(
        &mut self,
        event: CotEvent,
        xml: &str,
        sender: Sender,
        clock: Clock,
    ) -> Result<Taken, Refusal> {
        let ends = clock.at + life(&event, clock)?;
        let event = sensible(event)?;
        let uid = Uid::from(event.uid.as_str());
        let before = self.contacts.get(&uid);
        if before.is_some_and(|before| before.sender != sender && before.held_until > clock.at) {
            return Err(Refusal::Held);
        }
        let is_new = before.is_none();
        let left = if is_new { self.make_room(sender)? } else { None };
        self.remove(&uid);
        *self.counts.entry(sender).or_default() += 1;
        let contact = Contact { event, xml: xml.to_owned(), sender, held_until: clock.at + HOLD, ends };
        self.contacts.insert(Arc::clone(&uid), contact);
        Ok(Taken { uid, is_new, left })
    }

    /// Makes room in a full table: the sender of the most contacts loses one, or else takes no more.
    fn make_room(&mut self, sender: Sender) -> Result<Option<Uid>, Refusal> {
        if self.contacts.len() < MAX_CONTACTS {
            return Ok(None);
        }
        let greatest = self.counts.iter().max_by_key(|(_, count)| **count).map(|(sender, _)| *sender);
        let Some(greatest) = greatest.filter(|greatest| *greatest != sender) else { return Err(Refusal::Full) };
        let crowd = self.contacts.iter().filter(|(_, contact)| contact.sender == greatest);
        let left = crowd.min_by_key(|(_, contact)| contact.ends).map(|(uid, _)| Arc::clone(uid));
        if let Some(left) = &left {
            self.remove(left);
        }
        Ok(left)
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<Contact> {
        let contact = self.contacts.remove(uid)?;
        if let Some(count) = self.counts.get_mut(&contact.sender) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&contact.sender);
            }
        }
        Some(contact)
    }

    /// Removes a contact at the word of its own sender.
    pub(crate) fn end(&mut self, uid: &str, sender: Sender) -> bool {
        let is_held = self.contacts.get(uid).is_some_and(|contact| contact.sender == sender);
        is_held && self.remove(uid).is_some()
    }

    /// Lets others replace the contacts of a connection that is lost.
    pub(crate) fn release(&mut self, connection: ConnectionId) {
        for contact in self.contacts.values_mut().filter(|contact| contact.sender.connection == connection) {
            // Only a moment that is over holds nothing.
            contact.held_until = contact.held_until.checked_sub(HOLD).unwrap_or(contact.held_until);
        }
    }

    /// Removes the contacts whose time is over, and returns their uids.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Uid> {
        let over = self.contacts.iter().filter(|(_, contact)| contact.ends <= now);
        let over: Vec<Uid> = over.map(|(uid, _)| Arc::clone(uid)).collect();
        for uid in &over {
            self.remove(uid);
        }
        over
    }

    /// The record of a contact, a line of JSON.
    pub(crate) fn line(&self, uid: &str, clock: Clock) -> Option<Bytes> {
        let Contact { event, xml, .. } = self.contacts.get(uid)?;
        let point = event.point?;
        let mut record = TrackRecord {
            time: event.time,
            id: event.uid.clone(),
            lat: point.lat,
            lon: point.lon,
            alt_m: point.hae_m,
            speed_mps: event.speed_mps,
            course_deg: event.course_deg,
            source: Origin::Cot,
            raw: xml.clone(),
        };
        let line = record.line(clock.wall);
        if line.len() <= MAX_LINE_BYTES {
            return Some(line);
        }
        // The gateway's own text is shorter, and then one without the words of people.
        let plain = CotEvent { callsign: None, how: String::new(), ..event.clone() };
        for event in [event, &plain] {
            record.raw = cot::write(event, clock.wall, &[]);
            let line = record.line(clock.wall);
            if line.len() <= MAX_LINE_BYTES {
                return Some(line);
            }
        }
        record.raw = String::new();
        Some(record.line(clock.wall))
    }
}

/// The time that a contact lasts, by its own clock.
fn life(event: &CotEvent, clock: Clock) -> Result<Duration, Refusal> {
    let (time, stale) = event.time.zip(event.stale).ok_or(Refusal::Old)?;
    if stale + LATEST < clock.wall {
        return Err(Refusal::Old);
    }
    stale.duration_since(time).map(|life| life.min(LONGEST_LIFE)).map_err(|_| Refusal::Old)
}

/// Refuses an absurd position, and leaves out absurd numbers beside a sound one.
fn sensible(event: CotEvent) -> Result<CotEvent, Refusal> {
    let CotPoint { lat, lon, hae_m, ce_m } = event.point.ok_or(Refusal::NoPosition)?;
    let is_on_earth = (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon);
    // A device without a fix says 0, 0, where there is but sea.
    if !is_on_earth || (lat == 0.0 && lon == 0.0) || !is_type(&event.kind) {
        return Err(Refusal::NoPosition);
    }
    let within = |number: Option<f64>, range: std::ops::RangeInclusive<f64>| number.filter(|n| range.contains(n));
    let point = CotPoint { lat, lon, hae_m: within(hae_m, ALTITUDES_M), ce_m: within(ce_m, 0.0..=1e6) };
    let callsign = event.callsign.map(|callsign| callsign.chars().take(64).collect());
    Ok(CotEvent {
        point: Some(point),
        speed_mps: within(event.speed_mps, SPEEDS_MPS),
        course_deg: within(event.course_deg, COURSES_DEG),
        callsign,
        ..event
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sender(connection: u32) -> Sender {
        Sender { connection: ConnectionId(connection), address: None }
    }

    fn event(uid: &str, clock: Clock) -> CotEvent {
        CotEvent {
            uid: uid.to_owned(),
            kind: "a-f-G".to_owned(),
            time: Some(clock.wall),
            stale: Some(clock.wall + Duration::from_secs(60)),
            point: Some(CotPoint { lat: 47.0, lon: 8.0, hae_m: None, ce_m: None }),
            ..CotEvent::default()
        }
    }

    fn accept(contacts: &mut Contacts, uid: &str, from: u32, clock: Clock) -> Result<Taken, Refusal> {
        contacts.accept(event(uid, clock), "<event/>", sender(from), clock)
    }

    #[test]
    fn contact_lasts_until_stale() {
        let clock = Clock::now();
        let mut contacts = Contacts::default();
        assert!(accept(&mut contacts, "a", 1, clock).unwrap().is_new);
        assert!(!accept(&mut contacts, "a", 1, clock).unwrap().is_new);
        assert!(contacts.expire(clock.at + Duration::from_secs(59)).is_empty());
        assert_eq!(contacts.expire(clock.at + Duration::from_secs(60)), [Uid::from("a")]);
        assert_eq!((contacts.len(), contacts.counts.len()), (0, 0));
    }

    #[test]
    fn absurd_events_are_refused() {
        let clock = Clock::now();
        let mut contacts = Contacts::default();
        let ago = |seconds| Some(clock.wall - Duration::from_secs(seconds));
        let at = |lat, lon| Some(CotPoint { lat, lon, hae_m: None, ce_m: None });
        let good = event("a", clock);
        for (event, refusal) in [
            (CotEvent { point: at(0.0, 0.0), ..good.clone() }, Refusal::NoPosition),
            (CotEvent { point: at(f64::NAN, 8.0), ..good.clone() }, Refusal::NoPosition),
            (CotEvent { point: at(47.0, 181.0), ..good.clone() }, Refusal::NoPosition),
            (CotEvent { point: None, ..good.clone() }, Refusal::NoPosition),
            (CotEvent { kind: "a-\"/>".to_owned(), ..good.clone() }, Refusal::NoPosition),
            (CotEvent { time: ago(1000), stale: ago(400), ..good.clone() }, Refusal::Old),
            (CotEvent { stale: None, ..good.clone() }, Refusal::Old),
            (CotEvent { stale: ago(1), ..good.clone() }, Refusal::Old),
        ] {
            assert_eq!(contacts.accept(event, "", sender(1), clock), Err(refusal));
        }
        let point = Some(CotPoint { lat: 47.0, lon: 8.0, hae_m: Some(1e9), ce_m: Some(-1.0) });
        let odd = CotEvent { point, speed_mps: Some(f64::INFINITY), course_deg: Some(-3.0), ..good };
        contacts.accept(odd, "", sender(1), clock).unwrap();
        let CotEvent { point, speed_mps, course_deg, .. } = &contacts.contacts["a"].event;
        assert_eq!((point.unwrap().hae_m, point.unwrap().ce_m, *speed_mps, *course_deg), (None, None, None, None));
    }

    #[test]
    fn who_fills_the_table_loses_first() {
        let clock = Clock::now();
        let mut contacts = Contacts::default();
        for number in 0..MAX_CONTACTS {
            accept(&mut contacts, &format!("flood-{number}"), 1, clock).unwrap();
        }
        assert_eq!(accept(&mut contacts, "one more", 1, clock), Err(Refusal::Full));
        let taken = accept(&mut contacts, "honest", 2, clock).unwrap();
        assert!(taken.left.is_some_and(|left| left.starts_with("flood-")));
        assert_eq!(contacts.len(), MAX_CONTACTS);
        assert!(contacts.contains("honest"));
        assert_eq!(accept(&mut contacts, "one more", 1, clock), Err(Refusal::Full));
    }

    #[test]
    fn only_its_connection_ends_a_contact() {
        let clock = Clock::now();
        let mut contacts = Contacts::default();
        accept(&mut contacts, "a", 1, clock).unwrap();
        let other_host = Sender { address: Some([192, 0, 2, 1].into()), ..sender(1) };
        assert!(!contacts.end("a", sender(2)) && !contacts.end("a", other_host) && contacts.end("a", sender(1)));
    }

    #[test]
    fn others_get_a_silent_contact_only() {
        let clock = Clock::now();
        let mut contacts = Contacts::default();
        accept(&mut contacts, "a", 1, clock).unwrap();
        assert_eq!(accept(&mut contacts, "a", 2, clock), Err(Refusal::Held));
        contacts.release(ConnectionId(2));
        assert_eq!(accept(&mut contacts, "a", 2, clock), Err(Refusal::Held));
        contacts.release(ConnectionId(1));
        assert!(!accept(&mut contacts, "a", 2, clock).unwrap().is_new);
        let later = Clock { at: clock.at + HOLD, wall: clock.wall };
        assert!(!accept(&mut contacts, "a", 1, later).unwrap().is_new);
        assert_eq!(contacts.counts.len(), 1);
    }

    #[test]
    fn longest_line_fits_a_datagram() {
        let clock = Clock::now();
        let mut contacts = Contacts::default();
        let quotes = |count| "\"".repeat(count);
        let long = CotEvent { how: quotes(32), callsign: Some(quotes(64)), ..event(&quotes(128), clock) };
        let long = CotEvent { kind: format!("a{}", "-f".repeat(31)), ..long };
        contacts.accept(long, &quotes(2000), sender(1), clock).unwrap();
        let line = contacts.line(&quotes(128), clock).unwrap();
        assert!(line.len() <= MAX_LINE_BYTES, "{}", line.len());
    }

    #[test]
    fn line_fits_a_datagram() {
        let clock = Clock::now();
        let mut contacts = Contacts::default();
        let xml = format!("<event uid='a'>{}</event>", "\"".repeat(2000));
        contacts.accept(event("a", clock), &xml, sender(1), clock).unwrap();
        let line = contacts.line("a", clock).unwrap();
        assert!(line.len() <= MAX_LINE_BYTES, "{}", line.len());
        let record = TrackRecord::read(&line).unwrap();
        assert_eq!((record.id.as_str(), cot::read(&record.raw).unwrap().kind.as_str()), ("a", "a-f-G"));
    }

    proptest! {
        #[test]
        fn counts_agree(acts in prop::collection::vec((0_u32..4, 0_usize..20, 0_u64..100), 1..200)) {
            let (start, mut contacts) = (Clock::now(), Contacts::default());
            let mut clock = start;
            for (from, uid, seconds) in acts {
                clock.at += Duration::from_secs(seconds);
                clock.wall += Duration::from_secs(seconds);
                contacts.expire(clock.at);
                let _ = accept(&mut contacts, &uid.to_string(), from, clock);
                prop_assert_eq!(contacts.counts.values().sum::<usize>(), contacts.len());
            }
        }
    }
}
