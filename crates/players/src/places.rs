//! Places for those who are served at once. One address cannot fill them all.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Debug)]
pub(crate) struct Places {
    most: usize,
    most_of_address: usize,
    taken: Arc<Mutex<Vec<IpAddr>>>,
}

#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    pub(crate) fn new(most: usize, most_of_address: usize) -> Self {
        Self { most, most_of_address, taken: Arc::default() }
    }

    fn taken(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for somebody at this address, if there is one left.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let same = taken.iter().filter(|other| **other == address).count();
        if taken.len() >= self.most || same >= self.most_of_address {
            return None;
        }
        taken.push(address);
        Some(Place { places: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(at) = taken.iter().position(|address| *address == self.address) {
            taken.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others() {
        let places = Places::new(32, 16);
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let first: Vec<Place> = std::iter::from_fn(|| places.admit(address(1))).collect();
        assert_eq!(first.len(), 16);
        let others: Vec<Place> = (2..).map_while(|last| places.admit(address(last))).collect();
        assert_eq!(others.len(), 16);
        drop(first);
        assert!(places.admit(address(1)).is_some());
    }
}
