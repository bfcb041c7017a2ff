//! The services that nodes offer, each set once: most nodes of a fleet offer the same, and a search looks at the set of
//! every node that it finds.

use std::collections::HashMap;

use roost_wire::ServiceSet;

/// The number of a set in [`ServiceSets`], in three bytes, as every record has one. A set of known services that tell no
/// more is its own number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SetNumber([u8; 3]);

/// Numbers of sets that need no table.
const PLAIN: u32 = ServiceSet::PLAIN_SETS as u32;

// There are no more sets than records.
const _: () = assert!(PLAIN + super::key::MAX_SLOTS < 1 << 24);

impl SetNumber {
    pub(super) const EMPTY: Self = Self([0; 3]);

    fn new(number: u32) -> Self {
        let [_, high, middle, low] = number.to_be_bytes();
        Self([high, middle, low])
    }

    fn get(self) -> u32 {
        let Self([high, middle, low]) = self;
        u32::from_be_bytes([0, high, middle, low])
    }

    fn at(place: usize) -> Self {
        Self::new(PLAIN + place as u32)
    }

    /// The place in the table, of a set that needs one.
    fn place(self) -> Option<usize> {
        self.get().checked_sub(PLAIN).map(|place| place as usize)
    }
}

#[derive(Debug, Default)]
pub(super) struct ServiceSets {
    held: Vec<HeldSet>,
    /// The place in `held` of each set.
    places: HashMap<ServiceSet, usize>,
    free: Vec<usize>,
    heap_bytes: usize,
}

#[derive(Debug, Default)]
struct HeldSet {
    set: ServiceSet,
    records: u32,
}

impl ServiceSets {
    /// Counts one more record with this set.
    pub(super) fn add(&mut self, set: &ServiceSet) -> SetNumber {
        if let Some(bits) = set.plain_bits() {
            return SetNumber::new(u32::from(bits));
        }
        if let Some(place) = self.places.get(set).copied() {
            self.held[place].records += 1;
            return SetNumber::at(place);
        }
        let place = self.free.pop().unwrap_or(self.held.len());
        if place == self.held.len() {
            self.held.push(HeldSet::default());
        }
        self.held[place] = HeldSet { set: set.clone(), records: 1 };
        self.places.insert(set.clone(), place);
        self.heap_bytes += set.heap_bytes();
        SetNumber::at(place)
    }

    /// Counts one record less with this set.
    pub(super) fn remove(&mut self, number: SetNumber) {
        let Some(place) = number.place() else { return };
        let held = &mut self.held[place];
        held.records -= 1;
        if held.records == 0 {
            let set = std::mem::take(&mut held.set);
            self.heap_bytes -= set.heap_bytes();
            self.places.remove(&set);
            self.free.push(place);
        }
    }

    pub(super) fn get(&self, number: SetNumber) -> &ServiceSet {
        number.place().map_or_else(|| ServiceSet::of_plain_bits(number.get() as u8), |place| &self.held[place].set)
    }

    /// Memory of the table and what its sets share, bytes, by computation.
    pub(super) fn bytes(&self) -> usize {
        /// A hash table has a control byte an entry, and leaves an eighth and more of its places free.
        const PLACE: usize = (size_of::<(ServiceSet, usize)>() + 1) * 3 / 2;
        self.heap_bytes
            + self.held.capacity() * size_of::<HeldSet>()
            + self.free.capacity() * size_of::<usize>()
            + self.places.len() * PLACE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roost_wire::Service;

    use super::*;

    fn set(texts: &[&str]) -> ServiceSet {
        texts.iter().map(|text| text.parse::<Service>().unwrap()).collect()
    }

    #[test]
    fn alike_sets_are_held_once() {
        let (mut sets, lidar) = (ServiceSets::default(), set(&["acme/lidar:stream", "video"]));
        let [first, second] = [sets.add(&lidar), sets.add(&lidar.clone())];
        assert_eq!((first, sets.held.len(), sets.get(first)), (second, 1, &lidar));
        let bytes = sets.heap_bytes;
        assert!(bytes > 0);
        sets.remove(first);
        assert_eq!((sets.get(second), sets.heap_bytes), (&lidar, bytes));
        sets.remove(second);
        assert_eq!((sets.places.len(), sets.heap_bytes), (0, 0));
        assert_eq!(sets.add(&ServiceSet::ALL).place(), None);
    }

    proptest! {
        /// The table holds what a list of the same sets would, whatever comes and goes.
        #[test]
        fn records_keep_their_sets(steps in prop::collection::vec((0_usize..6, 0_usize..6), 0..60)) {
            let kinds = [
                set(&[]), set(&["video"]), set(&["video#bow"]), set(&["acme/a:call"]),
                set(&["acme/a:call", "track"]), set(&["acme/b:stream"]),
            ];
            let (mut sets, mut records) = (ServiceSets::default(), vec![SetNumber::EMPTY; 6]);
            let mut expected = vec![ServiceSet::EMPTY; 6];
            for (record, kind) in steps {
                sets.remove(records[record]);
                records[record] = sets.add(&kinds[kind]);
                expected[record] = kinds[kind].clone();
                for (number, set) in records.iter().zip(&expected) {
                    prop_assert_eq!(sets.get(*number), set);
                }
                prop_assert!(sets.places.len() <= 4 && sets.held.len() <= 5);
            }
        }
    }
}
