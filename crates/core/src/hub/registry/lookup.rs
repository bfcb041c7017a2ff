//! Lookups: the path that has to be fast. A hit in the hub's own directory is
//! answered without a table entry, and the answer is written straight from
//! the records.

use bytes::Bytes;
use minicbor::Encoder;
use minicbor::encode::{Error, Write};
use roost_wire::messages::{
    Candidate, Coverage, DirectoryMessage, LookupResult, MAX_MESSAGE_BYTES, Request, RequestMode,
};
use roost_wire::{Area, ConnectionId, RequestId, Scope, Service, ServiceSet};

use super::Registry;
use crate::directory::{Directory, DirectoryEntry, DirectoryQuery, Hit, Rank};
use crate::hub::RequestOutcome;
use crate::hub::core::HubCore;
use crate::hub::disclose::without_local_hosts;
use crate::hub::found_candidate::FoundCandidate;
use crate::hub::summaries::Summaries;

/// A lookup to answer: its number, and the connection over which it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupReply {
    pub(crate) connection: ConnectionId,
    pub(crate) id: RequestId,
}

/// The part of an answer that other hubs have given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HubsFound<'a> {
    pub(crate) candidates: &'a [FoundCandidate],
    pub(crate) coverage: Coverage,
    /// True if they left out what another hub gets.
    pub(crate) has_omissions: bool,
    /// True if a hub that was asked has not answered.
    pub(crate) has_losses: bool,
}

impl HubsFound<'_> {
    /// Other hubs have nothing, or were not asked.
    pub(crate) const fn nothing(coverage: Coverage) -> Self {
        Self { candidates: &[], coverage, has_omissions: false, has_losses: false }
    }
}

impl Registry {
    /// Searches within a scope. The caller gives the list back to `self.hits`.
    pub(crate) fn search_within(&mut self, core: &mut HubCore, scope: Scope, query: &DirectoryQuery) -> Vec<Hit> {
        let mut hits = std::mem::take(&mut self.hits);
        self.records().search_within(core, scope, query, &mut hits);
        hits
    }

    /// Searches all records. The caller gives the list back to `self.hits`.
    fn search(&mut self, core: &mut HubCore, query: &DirectoryQuery) -> Vec<Hit> {
        let mut hits = std::mem::take(&mut self.hits);
        self.records().search(core, query, &mut hits);
        hits
    }

    /// Answers a lookup for which other hubs were asked as well.
    pub(crate) fn answer_merged_lookup(
        &mut self,
        core: &mut HubCore,
        reply: LookupReply,
        query: &DirectoryQuery,
        scope: Scope,
        remote: &[FoundCandidate],
        coverage: Coverage,
    ) {
        let hits = self.search_within(core, scope, query);
        let found = self.merged(core, hits, reply, query, remote, coverage);
        core.count_listed(query.service, found.candidates.len());
        core.send_answer(reply.connection, DirectoryMessage::LookupResult(found));
    }

    /// Candidates of this hub and of others, the best first.
    fn merged(
        &mut self,
        core: &mut HubCore,
        hits: Vec<Hit>,
        reply: LookupReply,
        query: &DirectoryQuery,
        remote: &[FoundCandidate],
        coverage: Coverage,
    ) -> LookupResult {
        let named = |candidate| if query.names.is_some() { core.named(candidate) } else { candidate };
        let own =
            |hit: &Hit| RankedCandidate { rank: hit.rank, candidate: named(self.directory.hit(*hit).candidate()) };
        let mut ranked: Vec<RankedCandidate> = hits.iter().map(own).collect();
        self.hits = hits;
        for FoundCandidate { candidate, .. } in remote.iter().filter(|found| core.admits(query, found.candidate.cell)) {
            merge(&mut ranked, query, candidate);
        }
        ranked.sort_unstable_by_key(|ranked| ranked.rank);
        ranked.truncate(query.count);
        let visible = |candidate: Candidate| Candidate {
            services: core
                .visible(query.judged, &candidate.services, candidate.cell)
                .about(query.service, &query.filter),
            ..candidate
        };
        let shown = |ranked: RankedCandidate| core.shown(reply.connection, visible(ranked.candidate));
        let (mut room, found) = (AnswerRoom::default(), ranked.len());
        let fitting = ranked.into_iter().map(shown).take_while(|candidate| room.has_place_for(candidate));
        let candidates: Vec<Candidate> = fitting.collect();
        let coverage = coverage_of(coverage, found, candidates.len());
        LookupResult { id: reply.id, candidates, coverage, has_omissions: None, has_losses: None }
    }

    /// Answers another hub with what this one and others have.
    pub(crate) fn answer_hub_lookup(
        &mut self,
        core: &mut HubCore,
        reply: LookupReply,
        query: &DirectoryQuery,
        HubsFound { candidates, coverage, has_omissions, has_losses }: HubsFound<'_>,
    ) {
        let hits = self.search(core, query);
        let merged = self.merged(core, hits, reply, query, candidates, coverage);
        let (has_omissions, has_losses) = (has_omissions.then_some(true), has_losses.then_some(true));
        let found = LookupResult { has_omissions, has_losses, ..merged };
        core.send_answer(reply.connection, DirectoryMessage::LookupResult(found));
    }

    pub(crate) fn holds(&mut self, core: &mut HubCore, query: &DirectoryQuery) -> bool {
        let hits = self.search(core, query);
        let any = !hits.is_empty();
        self.hits = hits;
        any
    }
}

impl Summaries {
    /// In which area other hubs are to be asked: where any will do on a miss
    /// only, otherwise as far as something there would be listed before what
    /// this hub has.
    pub(crate) fn hub_lookup_area(
        &mut self,
        core: &mut HubCore,
        request: &Request,
        query: &DirectoryQuery,
        hits: &[Hit],
    ) -> Option<Area> {
        let now = core.now;
        match request.spec.area {
            _ if !core.has_others() => None,
            area if area.wants_any() && !hits.is_empty() => None,
            Area::Exact(cell) if !core.is_cut_off() && self.is_none(now, query.service, cell) => {
                core.counters.negatives += 1;
                None
            }
            _ => match hits.last() {
                Some(worst) if hits.len() == query.count => query.nearer_than(&worst.rank),
                _ => Some(query.area),
            },
        }
    }
}

impl HubCore {
    pub(crate) fn count_listed(&mut self, service: Service, listed: usize) {
        let outcome = if listed == 0 { RequestOutcome::NotFound } else { RequestOutcome::Found };
        self.counters.count_outcome(service, RequestMode::Lookup, outcome);
    }

    /// A candidate with its name, if that is known here.
    pub(crate) fn named(&self, candidate: Candidate) -> Candidate {
        let known = self.remotes.get(candidate.node).map(|remote| remote.name.clone());
        Candidate { name: candidate.name.or(known), ..candidate }
    }
}

struct RankedCandidate {
    rank: Rank,
    candidate: Candidate,
}

/// Adds a candidate unless a newer record of its node is there.
fn merge(ranked: &mut Vec<RankedCandidate>, query: &DirectoryQuery, candidate: &Candidate) {
    let Candidate { node, cell, capacity, position, .. } = *candidate;
    let rank = Rank::new(candidate.services.flow_kind(query.service), query.center(), cell, capacity, node);
    let rank = rank.at(query.meters(cell, position));
    let added = RankedCandidate { rank, candidate: candidate.clone() };
    match ranked.iter_mut().find(|held| held.candidate.node == node) {
        Some(held) if held.candidate.version >= candidate.version => {}
        Some(held) => *held = added,
        None => ranked.push(added),
    }
}

/// The remote that gets an answer: one on the hub's machine sees all addresses, and none sees services that the
/// group's policy does not let it look up.
#[derive(Clone, Copy)]
pub(crate) struct Viewer<'a> {
    pub(crate) core: &'a HubCore,
    pub(crate) connection: ConnectionId,
    pub(crate) query: &'a DirectoryQuery,
}

/// Bytes that are left in an answer. Candidates with many long addresses and offers do not all fit into one message;
/// the last ones are left out.
struct AnswerRoom(usize);

impl Default for AnswerRoom {
    fn default() -> Self {
        Self(MAX_MESSAGE_BYTES - 1024)
    }
}

impl AnswerRoom {
    fn has_place_for(&mut self, candidate: &Candidate) -> bool {
        /// The head of an address, and of one of its hosts with its bytes.
        const ADDRESS: usize = 12;
        const HOST: usize = 20;
        let addresses = candidate.addresses.iter().map(|address| ADDRESS + HOST * address.hosts.len());
        self.takes(addresses.sum(), &candidate.services)
    }

    fn takes(&mut self, address_bytes: usize, services: &ServiceSet) -> bool {
        /// Id, version, cell, capacity, name and position, each with its head.
        const FRAME: usize = 144;
        let rest = self.0.checked_sub(FRAME + address_bytes + services.listed_bytes());
        self.0 = rest.unwrap_or(0);
        rest.is_some()
    }
}

/// Bytes of `Message::Found(…).encode()`, without the records in between.
pub(crate) fn encode_found(
    directory: &Directory,
    id: RequestId,
    hits: &[Hit],
    coverage: Coverage,
    viewer: Viewer<'_>,
) -> Bytes {
    let mut buffer = Vec::with_capacity(16 + hits.len() * 96);
    match write_found(&mut Encoder::new(&mut buffer), directory, id, hits, coverage, viewer) {
        Ok(()) => Bytes::from(buffer),
        // A `Vec` takes every write.
        Err(error) => unreachable!("encoding into memory cannot fail: {error}"),
    }
}

/// The coverage of an answer that names `told` of the nodes that were found: the rest may not fit its message.
fn coverage_of(coverage: Coverage, found: usize, told: usize) -> Coverage {
    if coverage == Coverage::Complete && told < found { Coverage::FirstMatch } else { coverage }
}

fn write_found<W: Write>(
    e: &mut Encoder<W>,
    directory: &Directory,
    id: RequestId,
    hits: &[Hit],
    coverage: Coverage,
    viewer: Viewer<'_>,
) -> Result<(), Error<W::Error>> {
    /// The number of `Found` among the messages.
    const FOUND: u8 = 10;
    let Viewer { core, connection, query } = viewer;
    let is_here = core.is_here(connection);
    let mut room = AnswerRoom::default();
    let fitting = hits.iter().map(|hit| directory.hit(*hit));
    let fitting = fitting.take_while(|entry| room.takes(entry.encoded_addresses().len(), entry.services()));
    let fitting: Vec<DirectoryEntry<'_>> = fitting.collect();
    let coverage = coverage_of(coverage, hits.len(), fitting.len());
    e.array(2)?.u8(FOUND)?.array(3)?.u32(id.0)?.array(fitting.len() as u64)?;
    for entry in fitting {
        let position = entry.position();
        // The name before a position is nobody's.
        e.array(if position.is_some() { 8 } else { 6 })?
            .encode(entry.node())?
            .encode(entry.version())?
            .encode(entry.cell())?;
        let services = core.visible(query.judged, entry.services(), entry.cell());
        e.encode(services.excerpt(query.service, &query.filter))?.encode(entry.capacity())?;
        if is_here || !entry.is_confined() {
            e.writer_mut().write_all(entry.encoded_addresses()).map_err(Error::write)?;
        } else {
            e.encode(without_local_hosts(entry.addresses()))?;
        }
        if let Some(position) = position {
            e.null()?.encode(position)?;
        }
    }
    e.encode(coverage)?.ok()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use roost_wire::messages::MAX_CANDIDATES;
    use roost_wire::{Address, ExactPosition, LatLon, Offer};

    use super::*;
    use crate::directory::SearchPurpose;
    use crate::hub::testing::*;

    #[test]
    fn direct_encoding_matches_message_encoding() {
        let mut directory = Directory::new(10, Duration::from_secs(60));
        for number in 0..3u16 {
            let address = Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], 7_700 + number)));
            directory.publish(
                Time::ZERO,
                &Record {
                    node: NodeId::from_bytes([number as u8; 16]),
                    version: Version { epoch: 1_700_000_000, sequence: 3 },
                    cell: Cell::new(27, -92),
                    services: ServiceSet::ALL,
                    capacity: Capacity { streams: number, uplink_kbps: 10_000 },
                    addresses: vec![address; usize::from(number)],
                    position: (number == 1).then(|| ExactPosition::new(LatLon::new(47.0, 8.0).unwrap())),
                    orbit: None,
                },
            );
        }
        let area = Area::Exact(Cell::new(27, -92));
        let query = DirectoryQuery::new(Service::Video, area, SearchPurpose::List, 8);
        let mut hits = Vec::new();
        directory.find(&query, &mut hits);
        let candidates = hits.iter().map(|hit| directory.hit(*hit).candidate()).collect();
        let found = LookupResult {
            id: RequestId(70_000),
            candidates,
            coverage: Coverage::HubStarting,
            has_omissions: None,
            has_losses: None,
        };
        let bench = Bench::new();
        let viewer = Viewer { core: &bench.hub.core, connection: ConnectionId(1), query: &query };
        let short = encode_found(&directory, found.id, &hits, found.coverage, viewer);
        assert_eq!(hits.len(), 3);
        assert_eq!(short, Message::Directory(DirectoryMessage::LookupResult(found)).encode());
    }

    #[test]
    fn longest_answer_fits_into_a_message() {
        let mut directory = Directory::new(MAX_CANDIDATES as u32, Duration::from_secs(60));
        let hosts = vec![std::net::Ipv6Addr::from([0x20; 16]).into(); 4];
        let note = "x".repeat(200);
        let offer = |number: usize| Offer {
            metadata: format!("note={note}").parse().unwrap(),
            ..Offer::new(format!("acme/lidar#i{number}:stream").parse().unwrap())
        };
        for number in 0..MAX_CANDIDATES as u8 {
            let record = Record {
                node: NodeId::from_bytes([number; 16]),
                version: Version { epoch: 1_700_000_000, sequence: 70_000 },
                cell: Cell::new(900_000, -900_000),
                services: ServiceSet::from_offers((0..4).map(offer)).unwrap(),
                capacity: Capacity { streams: 900, uplink_kbps: 10_000_000 },
                addresses: vec![Address { scheme: Scheme::Udp, port: 7_700, hosts: hosts.clone() }; 8],
                position: None,
                orbit: None,
            };
            directory.publish(Time::ZERO, &record);
        }
        let service: Service = "acme/lidar".parse().unwrap();
        let query = DirectoryQuery::new(service, Area::Anywhere, SearchPurpose::List, MAX_CANDIDATES);
        let mut hits = Vec::new();
        directory.find(&query, &mut hits);
        assert_eq!(hits.len(), MAX_CANDIDATES);
        let bench = Bench::new();
        let viewer = Viewer { core: &bench.hub.core, connection: ConnectionId(1), query: &query };
        let answer = encode_found(&directory, RequestId(70_000), &hits, Coverage::Complete, viewer);
        let Ok(Message::Directory(DirectoryMessage::LookupResult(found))) = Message::decode(&answer) else {
            panic!("{} bytes", answer.len())
        };
        assert!(found.candidates.len() > MAX_CANDIDATES / 2, "{}", found.candidates.len());
    }
}
