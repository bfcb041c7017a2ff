//! Contacts in buckets, by direction and distance.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use roost_wire::random::SplitMix64;
use roost_wire::{Cell, Time};

use crate::geometry::{BucketKey, Circle, Contact, DIRECTIONS};

/// All contacts of a node. Only nodes from which a message came are in it: others may be gone.
#[derive(Clone, Debug)]
pub(crate) struct RoutingTable {
    own: Contact,
    size: usize,
    stale: Duration,
    buckets: BTreeMap<BucketKey, Bucket>,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    /// The one that was silent for longest comes first.
    contacts: Vec<(Contact, Time)>,
    /// With the time of their last message, as contacts have.
    spares: VecDeque<(Contact, Time)>,
}

impl RoutingTable {
    pub(crate) const fn new(own: Contact, size: usize, stale: Duration) -> Self {
        Self { own, size, stale, buckets: BTreeMap::new() }
    }

    /// Adds or renews a contact. The result is a silent contact of a full bucket, which a probe can remove.
    pub(crate) fn insert(&mut self, now: Time, contact: Contact) -> Option<Contact> {
        if contact.id == self.own.id {
            return None;
        }
        let bucket = self.buckets.entry(BucketKey::between(self.own.cell, contact.cell)).or_default();
        let known = bucket.contacts.iter().position(|(known, _)| known.id == contact.id);
        if let Some(place) = known {
            bucket.contacts.remove(place);
        }
        if bucket.contacts.len() < self.size {
            bucket.contacts.push((contact, now));
            return None;
        }
        bucket.spares.retain(|(spare, _)| spare.id != contact.id);
        bucket.spares.push_back((contact, now));
        if bucket.spares.len() > self.size {
            bucket.spares.pop_front();
        }
        let (oldest, at) = bucket.contacts.first_mut()?;
        let is_stale = now.since(*at) >= self.stale;
        // Probes of one contact do not overlap: an answer renews it, silence removes it.
        is_stale.then(|| {
            *at = now;
            *oldest
        })
    }

    /// Removes a contact that does not answer; the newest spare one takes its place.
    pub(crate) fn remove(&mut self, contact: Contact) {
        let key = BucketKey::between(self.own.cell, contact.cell);
        let Some(bucket) = self.buckets.get_mut(&key) else { return };
        bucket.spares.retain(|(spare, _)| spare.id != contact.id);
        let before = bucket.contacts.len();
        bucket.contacts.retain(|(known, _)| known.id != contact.id);
        if bucket.contacts.len() < before
            && let Some((spare, heard)) = bucket.spares.pop_back()
        {
            let later = bucket.contacts.iter().position(|(_, at)| *at > heard);
            bucket.contacts.insert(later.unwrap_or(bucket.contacts.len()), (spare, heard));
        }
        if bucket.contacts.is_empty() {
            self.buckets.remove(&key);
        }
    }

    /// The contacts inside of a circle, then those nearest to it if that makes fewer than `near`; at most `most`.
    pub(crate) fn closest(&self, circle: &Circle, near: usize, most: usize) -> Vec<Contact> {
        let all = self.buckets.values().flat_map(|bucket| &bucket.contacts);
        let mut ranked: Vec<(u64, Contact)> = all.map(|(contact, _)| (circle.gap(contact.cell), *contact)).collect();
        ranked.sort_unstable();
        let inside = ranked.iter().filter(|(gap, _)| *gap == 0).count();
        ranked.truncate(inside.max(near).min(most));
        ranked.into_iter().map(|(_, contact)| contact).collect()
    }

    #[cfg(test)]
    fn contacts(&self) -> Vec<crate::geometry::DhtId> {
        self.buckets.values().flat_map(|bucket| &bucket.contacts).map(|(contact, _)| contact.id).collect()
    }

    /// The number of buckets between the own cell and the farthest contact.
    pub(crate) fn width(&self) -> u32 {
        let rings = self.buckets.keys().next_back().map_or(0, |key| u32::from(key.ring) + 1);
        rings * u32::from(DIRECTIONS)
    }

    /// The cell to search for to refresh a bucket: mostly one with contacts, sometimes any up to the farthest.
    pub(crate) fn refresh_target(&self, random: &mut SplitMix64) -> Option<Cell> {
        let farthest = self.buckets.keys().next_back()?.ring;
        let drawn = random.below(self.buckets.len() as u64) as usize;
        let mut key = *self.buckets.keys().nth(drawn)?;
        if random.below(4) == 0 {
            let ring = random.below(u64::from(farthest) + 1) as u8;
            key = BucketKey { ring, direction: random.below(u64::from(DIRECTIONS)) as u8 };
        }
        let Cell { x, y } = key.middle(self.own.cell);
        // Anywhere around the middle, so that not the same nodes are asked each time.
        let spread = 1_u64 << key.ring.min(20);
        let mut shift = || random.below(spread) as i32 - (spread / 2) as i32;
        Some(Cell::new(x.saturating_add(shift()), y.saturating_add(shift())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::DhtId;

    const STALE: Duration = Duration::from_secs(60);

    fn contact(id: u32, x: i32, y: i32) -> Contact {
        Contact { id: DhtId(id), cell: Cell::new(x, y) }
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn full_bucket_keeps_its_oldest() {
        let mut table = RoutingTable::new(contact(0, 0, 0), 2, STALE);
        for id in 1..=3 {
            assert_eq!(table.insert(at(1), contact(id, 9, id as i32)), None);
        }
        assert_eq!(table.contacts(), [DhtId(1), DhtId(2)]);
        table.remove(contact(1, 9, 1));
        assert_eq!(table.contacts(), [DhtId(2), DhtId(3)]);
    }

    #[test]
    fn silent_contact_is_probed_once() {
        let mut table = RoutingTable::new(contact(0, 0, 0), 1, STALE);
        table.insert(at(1), contact(1, 9, 1));
        assert_eq!(table.insert(at(61), contact(2, 9, 2)), Some(contact(1, 9, 1)));
        assert_eq!(table.insert(at(62), contact(3, 9, 3)), None);
        table.remove(contact(1, 9, 1));
        assert_eq!(table.contacts(), [DhtId(3)]);
    }

    #[test]
    fn promoted_spare_keeps_its_time() {
        let mut table = RoutingTable::new(contact(0, 0, 0), 2, STALE);
        for id in 1..=3 {
            table.insert(at(1), contact(id, 9, id as i32));
        }
        table.insert(at(50), contact(2, 9, 2));
        table.remove(contact(1, 9, 1));
        // The spare was silent since the first second, longer than the other.
        assert_eq!(table.contacts(), [DhtId(3), DhtId(2)]);
        assert_eq!(table.insert(at(61), contact(4, 9, 4)), Some(contact(3, 9, 3)));
    }

    #[test]
    fn answer_has_all_inside_then_nearest() {
        let mut table = RoutingTable::new(contact(0, 0, 0), 8, STALE);
        for id in 1..=6 {
            table.insert(at(1), contact(id, id as i32 * 3, 0));
        }
        let ids = |radius, near, most| -> Vec<u32> {
            let circle = Circle { center: Cell::new(6, 0), radius };
            table.closest(&circle, near, most).iter().map(|contact| contact.id.0).collect()
        };
        assert_eq!(ids(3, 1, 9), [1, 2, 3]);
        assert_eq!(ids(0, 3, 9), [2, 1, 3]);
        assert_eq!(ids(100, 1, 4).len(), 4);
    }
}
