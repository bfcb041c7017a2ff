//! The node as a daemon: its start and its state.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_api::types::{EarthPlace, record_text};
use roost_api::{Connections, DocumentRow, State, Status, Streams, Transfer};
use roost_core::machine::Machine as _;
use roost_core::node::{self, Discovery, Node, NodeCommand, NodePlace};
use roost_core::{DocumentVerdict, HeldDocument, Input};
use roost_geo::{Datum, Place};
use roost_identity::Identity;
use roost_policy::Policy;
use roost_reflection::keys::KeySealer;
use roost_reflection::relay::RelayConfig;
use roost_reflection::{NodeReflection, ReflectionMachine as _};
use roost_runtime::api::DaemonService as Endpoints;
use roost_runtime::config::{ConfigError, Setting, Settings};
use roost_runtime::driver::{DriverStopped, Mailbox, Sockets, driver};
use roost_runtime::http::Router;
use roost_runtime::media::{MediaAddress, MediaMetrics, MediaSocket, RelayMailbox, rows as relayed};
use roost_runtime::naming::NodeNames;
use roost_runtime::places::Grid;
use roost_runtime::resolve::{EndpointResolver, resolve_all};
use roost_runtime::{Base, DaemonContext, Failure, Program, Running, random_secret, random_seed};
use roost_services::{SourceError, Sources};
use roost_wire::{Address, Cell, Labels, NodeId, Role, RoleSet, ServiceSet, Time};
use tokio::sync::mpsc;

use crate::config::{self, Config, Offer};
use crate::event_handler::NodeEventHandler;
use crate::following::{FollowStatus, PlaceSource, follow, standing};
use crate::form_cache::FormCache;
use crate::inbox::InboxService;
use crate::media::{NodeRelayHandler, ReceptionTable, RelayClient, SubscriberOutput};
use crate::metrics::NodeMetrics;
use crate::outbox::{self, Outbox};
use crate::provider_cache::ProviderCache;
use crate::request_feed::FeedClosing;
use crate::rooms::RoomNames;
use crate::session::{Sessions, SourceRegistry};
use crate::tickets::Tickets;
use crate::{api, rows};

/// The time between two looks of a draining node at its open flows.
const DRAIN_STEP: Duration = Duration::from_millis(50);

pub(crate) enum OverlayNode {}

/// A running node, as its endpoints see it.
#[derive(Clone)]
pub(crate) struct NodeService {
    pub(crate) shared: Arc<DaemonContext>,
    pub(crate) mailbox: Mailbox<Node>,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) providers: Arc<ProviderCache>,
    pub(crate) forms: Arc<FormCache>,
    pub(crate) names: Arc<NodeNames>,
    pub(crate) room_names: Arc<RoomNames>,
    pub(crate) registry: SourceRegistry,
    pub(crate) metrics: NodeMetrics,
    pub(crate) receptions: ReceptionTable,
    /// The relay with its address; `None` without super nodes.
    pub(crate) relay: Option<(SocketAddr, RelayMailbox<NodeRelayHandler>)>,
    media_metrics: Option<MediaMetrics>,
    pub(crate) outbox: Option<Arc<Outbox>>,
    pub(crate) hub_role: Role,
    following: Option<Arc<FollowStatus>>,
}

impl Program for OverlayNode {
    const NAME: &'static str = "overlay-node";
    const ABOUT: &'static str = "A node of a Roost overlay: offers services at a place on the grid, and asks for them";
    const PORT: u16 = 0;
    const ROLE: Role = Role::Node;
    const STATE: State = State::Attaching;
    type Config = Config;
    type Service = NodeService;

    fn settings() -> Vec<Setting> {
        config::settings()
    }

    fn configure(settings: &Settings) -> Result<Config, ConfigError> {
        Config::read(settings)
    }

    /// Nodes dial one another; a hub dials a node that it relays to.
    fn admit() -> RoleSet {
        RoleSet::ALL
    }

    async fn check(config: &Config, running: bool) -> Result<(), Failure> {
        let ports = if running { SourcePorts::InUse } else { SourcePorts::Free };
        check_sources(&config.offer.sources, ports).await?;
        let inbox = config.inbox.as_ref().map_or(Ok(()), |inbox| inbox.check());
        let outbox = config.outbox.as_ref().map_or(Ok(()), |outbox| outbox.check());
        inbox.and(outbox).map_err(Failure::config)
    }

    fn check_place(config: &Config, datum: Option<Datum>) -> Result<(), Failure> {
        start_place(config, datum).map(drop)
    }

    async fn spawn(config: Config, base: Base) -> Result<Running<NodeService>, Failure> {
        let Base { common, identity, events, shared, stop } = base;
        if !config.hubs.is_empty() {
            // The first answer may take as long as the farthest hub's.
            let hubs = config.hubs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            tracing::info!(hubs, "looking for a hub");
        }
        let (redial, [hubs]) = EndpointResolver::resolve([&config.hubs], &[]).await;
        let advertised = resolve_all(&common.advertise).await.map_err(Failure::failed)?;
        let addresses = if advertised.is_empty() { shared.transport.local_addresses().to_vec() } else { advertised };
        join_multicast(&config, &identity, &shared)?;
        let metrics = NodeMetrics::register(&shared.metrics).map_err(Failure::failed)?;
        // A server reflects nothing.
        let place = if config.hub_role == Role::SuperNode { config.media } else { MediaAddress::Off };
        let bound = place.bind(shared.transport.local_addresses())?;
        let media = bound.as_ref().map(MediaSocket::address);
        let (labels, datum) = (shared.labels(), shared.datum());
        let start = start_place(&config, datum)?;
        let NodePlace { cell, position, orbit } = start;
        let machine = machine_config(&config, &identity, hubs, addresses, media)?;
        let mut machine = Node::new(node::NodeConfig { labels, cell, position, datum, ..machine });
        // Before anybody is admitted.
        machine.handle(Time::ZERO, Input::Command(NodeCommand::Policy(shared.documents.rules())));
        if orbit.is_some() {
            machine.handle(Time::ZERO, Input::Command(NodeCommand::Move(start)));
        }
        let followed =
            PlaceSource::parse(&config.at).map(|source| (source, Arc::new(FollowStatus::new(config.at.clone()))));
        let (tickets, registry) = (Arc::<Tickets>::default(), SourceRegistry::new(config.offer));
        registry.prepare();
        let network = Sockets::new(shared.transport.clone(), events, redial);
        let (inbox, outbox, hub_role) = (config.inbox, config.outbox, config.hub_role);
        let (outbox_events, events_of_outbox) = mpsc::unbounded_channel();
        let (receptions, names) = (ReceptionTable::default(), Arc::<NodeNames>::default());
        let mut relay = Ok(None);
        let owner = |mailbox: &Mailbox<Node>| {
            let output = SubscriberOutput {
                tickets: Arc::clone(&tickets),
                receptions: receptions.clone(),
                mailbox: mailbox.clone(),
            };
            relay = bound.map(|bound| start_relay(bound, &output, &shared, &metrics)).transpose();
            let (address, media) = relay.as_ref().ok().cloned().flatten().unzip();
            let inbox = InboxService {
                inbox,
                tickets: Arc::clone(&tickets),
                mailbox: mailbox.clone(),
                shared: Arc::clone(&shared),
                names: Arc::clone(&names),
                refusals: Arc::default(),
            };
            let sessions = Sessions::new(registry.clone(), mailbox.clone(), Arc::clone(&shared), media.clone());
            let sealer = identity.group_key().map(|key| KeySealer::new(identity.node(), *key.bytes()));
            NodeEventHandler::new(
                inbox,
                sessions,
                RelayClient::new(address, media, output),
                metrics.clone(),
                sealer,
                outbox_events,
            )
        };
        let (driver, mailbox) = driver(machine, owner, network, Arc::clone(&shared.traffic));
        let relay = relay.map_err(|error: std::io::Error| Failure::failed(error))?;
        let media_metrics = relay.as_ref().map(|_| MediaMetrics::register(&shared.metrics));
        let media_metrics = media_metrics.transpose().map_err(Failure::failed)?;
        let driver = tokio::spawn(driver.run(stop, NodeCommand::Leave));
        let providers = Arc::<ProviderCache>::default();
        let following = followed.as_ref().map(|(_, status)| Arc::clone(status));
        if let Some(((source, status), datum)) = followed.zip(datum) {
            tokio::spawn(follow(source, start, datum, mailbox.clone(), status));
        }
        let service = NodeService {
            shared,
            mailbox,
            tickets,
            providers,
            forms: Arc::default(),
            names,
            room_names: Arc::default(),
            registry,
            metrics,
            receptions,
            relay,
            media_metrics,
            outbox,
            hub_role,
            following,
        };
        if let Some(outbox) = &service.outbox {
            let waiting = outbox::load(outbox).await;
            tokio::spawn(outbox::run(service.clone(), Arc::clone(outbox), waiting, events_of_outbox));
        }
        Ok(Running { service, driver })
    }
}

fn start_place(config: &Config, datum: Option<Datum>) -> Result<NodePlace, Failure> {
    let start = match (PlaceSource::parse(&config.at), &datum) {
        (Some(source), Some(datum)) => source.start(datum),
        (Some(_), None) => Err(format!(
            "{} has no cell in a group without a datum: write a cell such as 27,92, or make a group with one (roost group init --origin LAT,LON --cell 1km)",
            config.at
        )),
        (None, _) => Place::parse(&config.at, datum.as_ref()).map(standing).map_err(|error| error.to_string()),
    };
    start.map_err(|error| Failure::config(format!("setting at: {error}")))
}

/// Starts the relay, where reflected streams begin and end, and returns its address.
fn start_relay(
    bound: MediaSocket,
    output: &SubscriberOutput,
    shared: &Arc<DaemonContext>,
    metrics: &NodeMetrics,
) -> std::io::Result<(SocketAddr, RelayMailbox<NodeRelayHandler>)> {
    let handler = NodeRelayHandler::new(output.clone(), Arc::clone(shared), metrics.too_long.clone());
    let secrets = Box::new(|bytes: &mut [u8]| roost_runtime::random_bytes(bytes).is_ok());
    let machine = |seed| NodeReflection::new(RelayConfig::default(), seed, secrets);
    let (noted, ended) = (Arc::clone(shared), output.clone());
    let gone = move |sentence: String| {
        ended.end_all(&sentence);
        noted.set_last_error(sentence);
    };
    Ok((bound.address(), RelayMailbox::start(bound, machine, handler, gone)?))
}

/// Joins the multicast groups, if multicast is on.
fn join_multicast(config: &Config, identity: &Identity, shared: &DaemonContext) -> Result<(), Failure> {
    let Some(multicast) = &config.multicast else { return Ok(()) };
    let Some(key) = identity.group_key() else {
        let none = "this identity has no multicast.key: issue it again with `roost group issue`, or set multicast off";
        return Err(Failure::config(none));
    };
    shared.transport.join_multicast(multicast, key).map_err(Failure::failed)?;
    if config.discovery == Discovery::Multicast && config.hubs.is_empty() {
        shared.set_state(State::MulticastOnly);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SourcePorts {
    Free,
    /// By sources of this node.
    InUse,
}

async fn check_sources(sources: &Sources, ports: SourcePorts) -> Result<(), Failure> {
    for source in sources.iter() {
        match source.check().await {
            Ok(()) => {}
            Err(SourceError::CannotListen { .. }) if ports == SourcePorts::InUse => {}
            Err(error) => {
                let service = source.service();
                return Err(Failure::config(format!("the {service} source cannot be used: {error}")));
            }
        }
    }
    Ok(())
}

fn machine_config(
    config: &Config,
    identity: &Identity,
    hubs: Vec<Vec<Address>>,
    addresses: Vec<Address>,
    media: Option<SocketAddr>,
) -> Result<node::NodeConfig, Failure> {
    // A record of a later start replaces any of an earlier one; a clock before 1970 has failed the check of the
    // certificate's dates already.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(node::NodeConfig {
        node: identity.node(),
        name: identity.name().to_owned(),
        labels: Labels::default(),
        epoch: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
        // The place and the datum follow from the settings and the group.
        cell: Cell::new(0, 0),
        position: None,
        datum: None,
        services: config.offer.sources.services(),
        hubs,
        hub_role: config.hub_role,
        addresses,
        max_streams: config.offer.max_streams,
        uplink_kbps: config.offer.uplink_kbps,
        stream_duration: config.stream_duration,
        classes: config.classes,
        multicast: config.multicast.is_some(),
        discovery: config.discovery,
        media,
        seed: random_seed().map_err(Failure::failed)?,
        secret: random_secret().map_err(Failure::failed)?,
    })
}

impl NodeService {
    pub(crate) async fn grid(&self) -> Result<Grid, DriverStopped> {
        Ok(self.grid_at(&self.machine_status().await?))
    }

    pub(crate) fn middle(&self, cell: Cell) -> Option<EarthPlace> {
        let grid = Grid { datum: self.shared.datum(), own: None };
        grid.on_earth(&Place { cell, exact: None }, None)
    }

    fn grid_at(&self, machine: &node::NodeStatus) -> Grid {
        Grid { datum: self.shared.datum(), own: Some(Place { cell: machine.cell, exact: machine.position }) }
    }

    pub(crate) async fn machine_status(&self) -> Result<node::NodeStatus, DriverStopped> {
        self.mailbox.inspect(Node::status).await
    }

    /// Tells the machine of all offers, unless the node is leaving.
    pub(crate) fn publish(&self) {
        if self.shared.state() != State::Draining {
            self.registry.publish(&self.mailbox);
        }
    }

    /// The name of a node, if its certificate or a hub has told it.
    pub(crate) fn name(&self, node: NodeId) -> Option<String> {
        self.names.get(&self.shared, node)
    }

    fn with_name(&self, transfer: Transfer) -> Transfer {
        Transfer { remote_name: transfer.remote.and_then(|node| self.name(node)), ..transfer }
    }

    pub(crate) async fn streams(&self) -> Streams {
        let Some((address, media)) = &self.relay else { return relayed::none() };
        let address = *address;
        let look = move |machine: &NodeReflection, now| {
            (relayed::streams(machine.relay(), now, address), machine.subscribed())
        };
        let Some((mut streams, watched)) = media.inspect(look).await else { return relayed::none() };
        // The machine of a node that ends does not answer.
        if let Ok(machine) = self.machine_status().await {
            rows::name_streams(&mut streams.streams, &machine, watched.into_iter());
            machine.home.iter().for_each(|home| rows::name_home(&mut streams.streams, home));
        }
        for row in &mut streams.streams {
            row.provider_name = row.provider.and_then(|node| self.name(node));
        }
        streams
    }
}

impl Endpoints for NodeService {
    fn shared(&self) -> &Arc<DaemonContext> {
        &self.shared
    }

    async fn status(&self) -> Result<Status, DriverStopped> {
        let machine = self.machine_status().await?;
        Ok(Status {
            hub: machine.home.as_ref().map(rows::hub),
            standby: machine.standby.as_ref().map(rows::hub),
            cell: Some(machine.cell),
            place: self.grid_at(&machine).own_place(),
            following: self.following.as_ref().map(|status| status.row()),
            record: Some(record_text(machine.version)),
            services: machine.services.iter().collect(),
            outbox: self.outbox.as_ref().map(|outbox| outbox.totals()),
            providing: machine.sessions.iter().map(|session| self.with_name(rows::providing(session))).collect(),
            receiving: machine.requests.iter().map(|request| self.with_name(rows::receiving(request))).collect(),
            ..self.shared.status()
        })
    }

    async fn connections(&self) -> Result<Connections, DriverStopped> {
        Ok(self.shared.connections(&self.mailbox.inspect(Node::clocks).await?))
    }

    fn check_liveness(&self, sign: fn()) -> impl Future<Output = Result<(), DriverStopped>> + Send + 'static {
        let mailbox = self.mailbox.clone();
        async move { mailbox.inspect(move |_, _| sign()).await }
    }

    async fn update_metrics(&self) {
        // Without a machine the metrics stay as they were.
        if let Ok(status) = self.machine_status().await {
            self.metrics.update(&status, self.outbox.as_ref().map(|outbox| outbox.totals()));
        }
        if let Ok(counters) = self.mailbox.inspect(|node, _| node.document_counters()).await {
            self.shared.documents.update_counters(&counters);
        }
        if let (Some((_, media)), Some(metrics)) = (&self.relay, &self.media_metrics) {
            metrics.update(media).await;
        }
    }

    async fn documents(&self) -> Result<Vec<DocumentRow>, DriverStopped> {
        let look = |node: &Node, _| {
            let row = |document: HeldDocument| (document, node.hubs_behind(document.kind));
            node.documents().into_iter().map(row).collect::<Vec<_>>()
        };
        let documents = self.mailbox.inspect(look).await?;
        Ok(documents.iter().map(|(document, behind)| self.shared.node_document(*document, behind)).collect())
    }

    fn take_verdict(&self, verdict: DocumentVerdict) {
        self.mailbox.post(NodeCommand::Document(verdict));
    }

    fn take_policy(&self, policy: Option<Arc<Policy>>) {
        self.mailbox.post(NodeCommand::Policy(policy));
    }

    fn take_labels(&self, labels: Labels) {
        self.mailbox.post(NodeCommand::Labels(labels));
    }

    fn routes(&self) -> Router {
        api::routes(self.clone())
    }

    async fn reload(&self, settings: &Settings) -> Result<(), Failure> {
        let offer = Offer::read(settings)?;
        check_sources(&offer.sources, SourcePorts::InUse).await?;
        self.registry.replace(offer);
        self.registry.prepare();
        self.publish();
        Ok(())
    }

    /// Withdraws all offers, and lets open flows end.
    async fn drain(&self) {
        // Also if the time for it is over.
        let _closing = FeedClosing(self.tickets.feed());
        let nothing = NodeCommand::Reconfigure { services: ServiceSet::EMPTY, max_streams: 0, uplink_kbps: Some(0) };
        if self.mailbox.command(nothing).await.is_err() {
            return;
        }
        while let Ok(status) = self.machine_status().await {
            if status.sessions.is_empty() && status.requests.is_empty() {
                return;
            }
            tokio::time::sleep(DRAIN_STEP).await;
        }
    }
}
