//! The addresses of the providers that the last lookups named.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use roost_geo::{Datum, is_moving, predict};
use roost_wire::messages::Candidate;
use roost_wire::{Address, Cell, ExactPosition, NodeId};

/// The time for which a lookup's answer is believed: the lease of a record.
pub(crate) const KEPT: Duration = Duration::from_secs(60);

/// The time for which the place of a node in motion is believed: it may turn.
const KEPT_IN_MOTION: Duration = Duration::from_secs(5);

/// The most providers that are remembered; the one named longest ago makes room.
const MAX_PROVIDERS: usize = 256;

/// Providers named by lookups within the last lease, and their addresses.
#[derive(Debug, Default)]
pub(crate) struct ProviderCache(Mutex<BTreeMap<NodeId, CachedProvider>>);

#[derive(Debug)]
struct CachedProvider {
    at: Instant,
    cell: Cell,
    position: Option<ExactPosition>,
    addresses: Vec<Address>,
}

impl ProviderCache {
    pub(crate) fn record_found(&self, now: Instant, found: &[Candidate]) {
        let mut known = self.lock();
        known.retain(|_, named| now.duration_since(named.at) < KEPT);
        for candidate in found {
            let Candidate { cell, position, ref addresses, .. } = *candidate;
            let addresses = addresses.clone();
            known.insert(candidate.node, CachedProvider { at: now, cell, position, addresses });
            if known.len() > MAX_PROVIDERS
                && let Some(oldest) = known.iter().min_by_key(|(_, named)| named.at).map(|(node, _)| *node)
            {
                known.remove(&oldest);
            }
        }
    }

    /// A provider's addresses; `None` if no lookup has named it lately.
    pub(crate) fn addresses(&self, now: Instant, node: NodeId) -> Option<Vec<Address>> {
        let known = self.lock();
        let named = known.get(&node).filter(|named| now.duration_since(named.at) < KEPT);
        named.map(|named| named.addresses.clone())
    }

    /// As [`Self::addresses`], with the cell of now.
    pub(crate) fn find(&self, now: Instant, node: NodeId, datum: Option<&Datum>) -> Option<(Cell, Vec<Address>)> {
        let known = self.lock();
        let named = known.get(&node)?;
        let (age, moving) = (now.duration_since(named.at), named.position.filter(is_moving));
        let cell = match moving {
            None => named.cell,
            Some(position) => datum?.cell(predict(&position, age).at).ok()?,
        };
        let kept = if moving.is_some() { KEPT_IN_MOTION } else { KEPT };
        (age < kept).then(|| (cell, named.addresses.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, CachedProvider>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::record::{Capacity, Version};
    use roost_wire::{Scheme, ServiceSet};

    use super::*;

    fn candidate(number: u16) -> Candidate {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        Candidate {
            node: NodeId::from_bytes(id),
            version: Version { epoch: 1, sequence: 1 },
            cell: Cell::new(0, 0),
            services: ServiceSet::ALL,
            capacity: Capacity { streams: 1, uplink_kbps: 1 },
            addresses: vec![Address::single(Scheme::Udp, ([127, 0, 0, 1], number).into())],
            name: None,
            position: None,
        }
    }

    #[test]
    fn lookup_results_are_cached() {
        let (providers, first, now) = (ProviderCache::default(), candidate(1), Instant::now());
        providers.record_found(now, std::slice::from_ref(&first));
        assert_eq!(providers.addresses(now, first.node), Some(first.addresses));
        assert_eq!(providers.addresses(now + KEPT, first.node), None);
    }

    #[test]
    fn provider_in_motion_is_elsewhere() {
        let datum = Datum::new("47.0,8.0".parse().unwrap(), "1km".parse().unwrap()).unwrap();
        let (providers, now) = (ProviderCache::default(), Instant::now());
        let at = ExactPosition::new("47.004,8.0".parse().unwrap());
        let position = Some(ExactPosition { course_deg: Some(90.0), speed_mps: Some(400.0), ..at });
        let car = Candidate { position, ..candidate(1) };
        providers.record_found(now, std::slice::from_ref(&car));
        let cell = |after: f64| {
            let found = providers.find(now + Duration::from_secs_f64(after), car.node, Some(&datum));
            found.map(|(cell, _)| cell)
        };
        assert_eq!([cell(1.0), cell(3.0)], [Some(Cell::new(0, 0)), Some(Cell::new(1, 0))]);
        assert_eq!(cell(5.0), None, "it is looked up anew");
        assert!(providers.addresses(now + Duration::from_secs(59), car.node).is_some());
    }

    #[test]
    fn the_oldest_makes_room() {
        let (providers, began) = (ProviderCache::default(), Instant::now());
        let at = |number: u16| began + Duration::from_millis(number.into());
        for number in 0..1_000 {
            providers.record_found(at(number), &[candidate(number)]);
        }
        assert_eq!(providers.lock().len(), MAX_PROVIDERS);
        assert!(providers.addresses(at(999), candidate(999).node).is_some());
        assert!(providers.addresses(at(999), candidate(0).node).is_none());
    }
}
