//! Searches in areas that hubs do not know: each part is asked for, and what is found is tested here.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use roost_api::query::PlacedRequest;
use roost_api::server::ApiError;
use roost_api::{Code, LookupQuery, PlaceQuery, WatchEvent};
use roost_runtime::places::{SearchArea, place_of};
use roost_wire::messages::{Candidate, Coverage, LookupResult, MAX_CANDIDATES, ServiceRequest, WatchChange};
use roost_wire::{Area, NodeId, NodeSelector, RequestId};
use tokio::time::{Instant, timeout_at};

use crate::api::{explain_not_found, leaving};
use crate::node::NodeService;
use crate::region_movers::RegionMovers;
use crate::tickets::{Replies, Reply};

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
    Ok(LookupResult { id, candidates, coverage, has_omissions: None, has_losses: None })
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

/// Puts the area of a request into cells. In a region that hubs do not know, the request goes to the nearest provider,
/// of a stream with one left.
pub(crate) async fn place(node: &NodeService, placed: PlacedRequest) -> Result<ServiceRequest, ApiError> {
    let PlacedRequest { mut request, place } = placed;
    let Some(place) = place else { return Ok(request) };
    let search = search(node, Area::Anywhere, Some(place)).await?;
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
    let is_free = |candidate: &&Candidate| {
        let offer = candidate.services.offer(service, &request.filter);
        candidate.capacity.streams > 0 || offer.is_some_and(|offer| !offer.service.is_stream())
    };
    let free = found.candidates.iter().find(is_free);
    let Some(provider) = free.or(found.candidates.first()) else {
        let (code, why) = explain_not_found(found.coverage, 0);
        return Err(ApiError::new(code, format!("nobody offers {service} in that region: {why}")));
    };
    request.area = Area::Exact(provider.cell);
    request.provider = Some(provider.node.into());
    Ok(request)
}

/// The area of a query in the node's grid. An outline of many points takes a while.
pub(crate) async fn search(node: &NodeService, area: Area, words: Option<PlaceQuery>) -> Result<SearchArea, ApiError> {
    let grid = node.grid().await.map_err(leaving)?;
    if !matches!(words, Some(PlaceQuery::Region { .. })) {
        return grid.search(area, words.as_ref());
    }
    let searched = tokio::task::spawn_blocking(move || grid.search(area, words.as_ref())).await;
    searched.map_err(|error| ApiError::new(Code::Internal, format!("the region was not read: {error}")))?
}

/// A watch of which hubs know more than is wanted.
pub(crate) struct WatchedRegion {
    search: SearchArea,
    present: BTreeSet<NodeId>,
    movers: RegionMovers,
    id: RequestId,
    /// The number of the last change that was told.
    sequence: u64,
}

impl WatchedRegion {
    pub(crate) fn new(search: SearchArea) -> Self {
        Self { search, present: BTreeSet::new(), movers: RegionMovers::default(), id: RequestId(0), sequence: 0 }
    }

    /// The next reply, with changes in the region in the place of those that hubs tell.
    pub(crate) async fn next(&mut self, replies: &mut Replies) -> Option<Reply> {
        loop {
            let due = self.movers.next_due();
            let reply = match due {
                Some(due) => timeout_at(due, replies.next()).await,
                None => Ok(replies.next().await),
            };
            let change = match reply {
                Ok(Some(Reply::Changed(change))) => self.select(Instant::now(), change),
                Ok(reply) => return reply,
                Err(_) => self.look(Instant::now()),
            };
            if let Some(change) = change {
                return Some(Reply::Changed(change));
            }
        }
    }

    /// The change in the region; none if there is none there. A node that leaves the region is gone.
    fn select(&mut self, now: Instant, change: WatchChange) -> Option<WatchChange> {
        if self.search.whole().is_some() {
            return Some(change);
        }
        change.updated.iter().for_each(|candidate| self.movers.record(now, candidate));
        change.removed.iter().for_each(|node| self.movers.forget(*node));
        (self.id, self.sequence) = (change.id, change.sequence);
        let is_first = change.sequence <= 1;
        let change = self.inside(change);
        (is_first || !change.updated.is_empty() || !change.removed.is_empty()).then_some(change)
    }

    /// The change by nodes in motion that have crossed the border of the region by now.
    fn look(&mut self, now: Instant) -> Option<WatchChange> {
        let movers = self.movers.take_due(now, self.search.datum()?);
        let has_crossed =
            |mover: &Candidate| self.search.contains(&place_of(mover)) != self.present.contains(&mover.node);
        let updated: Vec<Candidate> = movers.into_iter().filter(has_crossed).collect();
        let change = WatchChange { id: self.id, sequence: self.sequence, updated, removed: Vec::new(), coverage: None };
        Some(self.inside(change)).filter(|change| !change.updated.is_empty() || !change.removed.is_empty())
    }

    fn inside(&mut self, mut change: WatchChange) -> WatchChange {
        let (inside, outside): (Vec<_>, Vec<_>) =
            change.updated.into_iter().partition(|candidate| self.search.contains(&place_of(candidate)));
        let gone = outside.iter().map(|candidate| candidate.node).chain(change.removed);
        change.removed = gone.filter(|node| self.present.remove(node)).collect();
        let room = MAX_WATCHED.saturating_sub(self.present.len());
        self.present.extend(inside.iter().map(|candidate| candidate.node).take(room));
        change.updated = inside;
        change
    }
}

pub(crate) fn watch_event(node: &NodeService, search: &SearchArea, change: &WatchChange) -> WatchEvent {
    let mut event = node.watch_event(change);
    for (row, candidate) in event.present.iter_mut().zip(&change.updated) {
        row.place = search.on_earth(candidate);
    }
    event
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roost_geo::{Datum, ExactPosition};
    use roost_runtime::places::Grid;
    use roost_wire::{Capacity, ServiceSet, Version};

    use super::*;

    fn grid() -> Grid {
        let datum = Datum::new("47.0,8.0".parse().unwrap(), "1km".parse().unwrap()).unwrap();
        Grid { datum: Some(datum), own: None }
    }

    fn watched() -> WatchedRegion {
        let words = PlaceQuery::Corners("47.1,8.1".to_owned(), "47.2,8.2".to_owned());
        WatchedRegion::new(grid().search(Area::Anywhere, Some(&words)).unwrap())
    }

    fn candidate(text: &str) -> Candidate {
        let place = grid().place(text).unwrap();
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
    }

    fn told(sequence: u64, updated: Vec<Candidate>, removed: Vec<NodeId>) -> WatchChange {
        WatchChange { id: RequestId(1), sequence, updated, removed, coverage: None }
    }

    #[test]
    fn mover_crosses_the_border_unseen() {
        let (mut watched, start) = (watched(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        // 440 m before the western border at 100 m/s, and 7.6 km to the eastern one.
        let mut mover = candidate("47.15,8.0942");
        mover.position =
            mover.position.map(|at| ExactPosition { course_deg: Some(90.0), speed_mps: Some(100.0), ..at });
        assert!(watched.select(start, told(1, vec![mover.clone()], Vec::new())).unwrap().updated.is_empty());
        assert_eq!(watched.movers.next_due(), Some(after(1)));
        assert_eq!(watched.look(after(3)), None, "before the border");
        let change = watched.look(after(6)).unwrap();
        assert_eq!((change.updated.len(), change.sequence), (1, 1));
        assert!(change.updated[0].position.unwrap().at.lon() > 8.1);
        assert_eq!(watched.look(after(60)), None, "inside");
        assert_eq!(watched.look(after(90)).unwrap().removed, [mover.node]);
        assert_eq!(watched.look(after(100)), None, "once");
        watched.select(after(100), told(2, Vec::new(), vec![mover.node]));
        assert_eq!(watched.movers.next_due(), None);
    }

    #[test]
    fn node_that_leaves_the_region_is_gone() {
        let mut watched = watched();
        let mut change = |sequence, at: &[&str], removed: &[u8]| {
            let updated = at.iter().map(|text| candidate(text)).collect();
            let removed = removed.iter().map(|id| NodeId::from_bytes([*id; 16])).collect();
            let change = watched.select(Instant::now(), told(sequence, updated, removed));
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
