//! Searches in areas that hubs do not know: each part is asked for, and what is found is tested here.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use roost_api::query::PlacedRequest;
use roost_api::server::ApiError;
use roost_api::{Code, LookupQuery, WatchEvent};
use roost_runtime::places::{SearchArea, place_of};
use roost_wire::messages::{Coverage, LookupResult, MAX_CANDIDATES, ServiceRequest, WatchChange};
use roost_wire::{Area, NodeId, NodeSelector, RequestId};

use crate::api::{explain_not_found, leaving};
use crate::node::NodeService;

/// Providers of an answer to a lookup that names no count, as hubs have it.
const DEFAULT_COUNT: usize = 16;

/// The most nodes of a watched region that are remembered; one beyond may leave the region unnoticed.
const MAX_WATCHED: usize = 65_536;

/// Looks up in all parts of the area at once, which are eight at most.
pub(crate) async fn find(
    node: &NodeService,
    query: LookupQuery,
    search: &SearchArea,
    names: Option<NodeSelector>,
) -> Result<LookupResult, ApiError> {
    if let Some(area) = search.whole() {
        let mut found = node.find(LookupQuery { area, place: None, ..query }, names).await?;
        found.candidates = search.select(found.candidates);
        return Ok(found);
    }
    let count = MAX_CANDIDATES as u8;
    let part = |area: &Area| node.find(LookupQuery { area: *area, count, place: None, ..query.clone() }, names);
    let parts = try_join_all(search.areas().iter().map(part)).await?;
    // An answer that is full may leave out a node of the region.
    let of_part = |part: &LookupResult| match part.coverage {
        Coverage::Complete if part.candidates.len() >= MAX_CANDIDATES => Coverage::FirstMatch,
        coverage => coverage,
    };
    let coverage = parts.iter().map(of_part).reduce(worse).unwrap_or(Coverage::Complete);
    let id = parts.first().map_or(RequestId(0), |part| part.id);
    let found = parts.into_iter().flat_map(|part| part.candidates).collect();
    let mut candidates = search.select(found);
    candidates.truncate(if query.count == 0 { DEFAULT_COUNT } else { query.count.into() });
    Ok(LookupResult { id, candidates, coverage })
}

/// The lesser of two parts of the directory: a search that ended early, then answers that did not come.
fn worse(a: Coverage, b: Coverage) -> Coverage {
    let rank = |coverage: Coverage| match coverage {
        Coverage::Complete => 0,
        Coverage::FirstMatch => 1,
        Coverage::HubStarting => 2,
        Coverage::Partial => 3,
        Coverage::UnreachableAbove => 4,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Puts the area of a request into cells. In a region that hubs do not know, the request goes to the nearest provider
/// with a stream left.
pub(crate) async fn place(node: &NodeService, placed: PlacedRequest) -> Result<ServiceRequest, ApiError> {
    let PlacedRequest { mut request, place } = placed;
    let Some(place) = place else { return Ok(request) };
    let search = node.grid().await.map_err(leaving)?.search(Area::Anywhere, Some(&place))?;
    if let Some(area) = search.whole() {
        request.area = area;
        return Ok(request);
    }
    if request.provider.is_some() {
        let both = "a request names a provider or a region, not both: leave one out";
        return Err(ApiError::new(Code::Usage, both));
    }
    let (service, filter) = (request.service, request.filter.clone());
    let query = LookupQuery { timeout: request.timeout, filter, ..LookupQuery::new(service, Area::Anywhere) };
    let found = find(node, query, &search, None).await?;
    let free = found.candidates.iter().find(|candidate| candidate.capacity.streams > 0);
    let Some(provider) = free.or(found.candidates.first()) else {
        let (code, why) = explain_not_found(found.coverage, 0);
        return Err(ApiError::new(code, format!("nobody offers {service} in that region: {why}")));
    };
    request.area = Area::Exact(provider.cell);
    request.provider = Some(provider.node.into());
    Ok(request)
}

/// A watch of which hubs know more than is wanted.
pub(crate) struct WatchedRegion {
    search: SearchArea,
    present: BTreeSet<NodeId>,
}

impl WatchedRegion {
    pub(crate) const fn new(search: SearchArea) -> Self {
        Self { search, present: BTreeSet::new() }
    }

    /// The change in the region; none if there is none there. A node that leaves the region is gone.
    pub(crate) fn select(&mut self, mut change: WatchChange) -> Option<WatchChange> {
        if self.search.whole().is_some() {
            return Some(change);
        }
        let is_first = change.sequence <= 1;
        let (inside, outside): (Vec<_>, Vec<_>) =
            change.updated.into_iter().partition(|candidate| self.search.contains(&place_of(candidate)));
        let gone = outside.iter().map(|candidate| candidate.node).chain(change.removed);
        change.removed = gone.filter(|node| self.present.remove(node)).collect();
        let room = MAX_WATCHED.saturating_sub(self.present.len());
        self.present.extend(inside.iter().map(|candidate| candidate.node).take(room));
        change.updated = inside;
        (is_first || !change.updated.is_empty() || !change.removed.is_empty()).then_some(change)
    }

    pub(crate) fn event(&self, node: &NodeService, change: &WatchChange) -> WatchEvent {
        let mut event = node.watch_event(change);
        for (row, candidate) in event.present.iter_mut().zip(&change.updated) {
            row.place = self.search.on_earth(candidate);
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use roost_geo::Datum;
    use roost_runtime::places::Grid;
    use roost_wire::messages::Candidate;
    use roost_wire::{Capacity, ServiceSet, Version};

    use super::*;

    #[test]
    fn node_that_leaves_the_region_is_gone() {
        let datum = Datum::new("47.0,8.0".parse().unwrap(), "1km".parse().unwrap()).unwrap();
        let grid = Grid { datum: Some(datum), own: None };
        let words = roost_api::PlaceQuery::Corners("47.1,8.1".to_owned(), "47.2,8.2".to_owned());
        let mut watched = WatchedRegion::new(grid.search(Area::Anywhere, Some(&words)).unwrap());
        let mut change = |sequence, at: &[&str], removed: &[u8]| {
            let candidate = |text: &&str| {
                let place = grid.place(text).unwrap();
                Candidate {
                    node: NodeId::from_bytes([1; 16]),
                    version: Version { epoch: 1, sequence: 1 },
                    cell: place.cell,
                    services: ServiceSet::ALL,
                    capacity: Capacity { streams: 1, uplink_kbps: 1 },
                    addresses: Vec::new(),
                    name: None,
                    position: place.exact,
                }
            };
            let updated = at.iter().map(candidate).collect();
            let removed = removed.iter().map(|id| NodeId::from_bytes([*id; 16])).collect();
            let change = watched.select(WatchChange { id: RequestId(1), sequence, updated, removed, coverage: None });
            change.map(|change| (change.updated.len(), change.removed.len()))
        };
        assert_eq!(change(1, &[], &[]), Some((0, 0)), "the first answer is told");
        assert_eq!(change(2, &["47.3,8.1"], &[]), None);
        assert_eq!(change(3, &["47.15,8.15"], &[]), Some((1, 0)));
        assert_eq!(change(4, &["47.3,8.1"], &[]), Some((0, 1)));
        assert_eq!(change(5, &[], &[1]), None, "it was gone");
    }

    #[test]
    fn worst_part_tells_the_coverage() {
        assert_eq!(worse(Coverage::Complete, Coverage::FirstMatch), Coverage::FirstMatch);
        assert_eq!(worse(Coverage::UnreachableAbove, Coverage::Partial), Coverage::UnreachableAbove);
    }
}
