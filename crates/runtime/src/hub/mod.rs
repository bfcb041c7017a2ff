//! The hub as a daemon: `supernode` and `cs-server` differ in a name, a role and the settings for other hubs.

mod api;
mod event_handler;
mod known_remotes;
mod media;
mod metrics;
mod rooms;
mod settings;
mod status_rows;

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use roost_api::{Connections, DocumentRow, HubConnection, State, Status, Streams};
use roost_core::hub::{self, Hub, HubCommand, HubKind};
use roost_core::machine::Machine as _;
use roost_core::{DocumentVerdict, Input};
use roost_policy::Policy;
use roost_reflection::{HubInput, HubReflection, ReflectionMachine as _, relay};
use roost_wire::{Labels, NodeId, Role, RoleSet, Time};
use tokio_util::sync::CancellationToken;

use crate::api::DaemonService;
use crate::config::{ConfigError, Setting, Settings};
use crate::documents::MAX_NAMED;
use crate::driver::{DriverStopped, Mailbox, Sockets, driver};
use crate::media::{MediaMetrics, MediaSocket, RelayMailbox, rows};
use crate::naming::certified;
use crate::resolve::{EndpointResolver, resolve_all};
use crate::shared::millis;
use crate::{Base, DaemonContext, Failure, Program, Running, random_secret, random_seed};

use event_handler::HubEventHandler;
use media::HubRelayHandler;
use metrics::HubMetrics;
pub use settings::HubSettings;
use settings::MAX_PARENTS;

const PORT: u16 = 7700;

/// The difference between one hub and another.
pub trait HubProgram: 'static {
    const NAME: &'static str;
    /// For `--help`.
    const ABOUT: &'static str;
    const KIND: HubKind;
}

pub struct HubDaemon<H>(PhantomData<H>);

/// A running hub, as its endpoints see it.
#[derive(Clone)]
pub struct HubService {
    shared: Arc<DaemonContext>,
    mailbox: Mailbox<Hub>,
    metrics: HubMetrics,
    /// Knows the other hubs by the names of the configuration.
    redial: EndpointResolver,
    /// `None` for a server, and for a super node without `media`.
    relay: Option<Started>,
    media_metrics: Option<MediaMetrics>,
}

impl<H: HubProgram> Program for HubDaemon<H> {
    const NAME: &'static str = H::NAME;
    const ABOUT: &'static str = H::ABOUT;
    const PORT: u16 = PORT;
    const ROLE: Role = H::KIND.role();
    const STATE: State = State::Listening;
    type Config = HubSettings;
    type Service = HubService;

    fn settings() -> Vec<Setting> {
        settings::table(H::KIND)
    }

    fn configure(settings: &Settings) -> Result<HubSettings, ConfigError> {
        HubSettings::read(settings)
    }

    fn admit() -> RoleSet {
        // A server's caches are servers. The machine knows which of them may attach.
        RoleSet::only(Role::Node).with(Self::ROLE)
    }

    async fn check(_: &HubSettings, _: bool) -> Result<(), Failure> {
        Ok(())
    }

    async fn spawn(config: HubSettings, base: Base) -> Result<Running<HubService>, Failure> {
        let Base { common, identity, events, shared, stop } = base;
        let listening = shared.transport.local_addresses();
        let lists = [&config.parents[..], &config.siblings];
        let (redial, [mut parents, siblings]) = EndpointResolver::resolve(lists, listening).await;
        parents.truncate(MAX_PARENTS);
        let advertised = resolve_all(&common.advertise).await.map_err(Failure::failed)?;
        if H::KIND == HubKind::Server && parents.len() < config.parents.len() {
            let itself =
                "cache_of names this very server: name the central one, or leave it out if this is the central one";
            return Err(Failure::config(itself));
        }
        let addresses = if advertised.is_empty() { listening.to_vec() } else { advertised };
        let bound = config.relay.address.bind(listening)?;
        // A clock before 1970 has failed the check of the certificate's dates already.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut machine = Hub::new(hub::HubConfig {
            epoch: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
            name: identity.name().to_owned(),
            labels: shared.labels(),
            datum: shared.datum(),
            lease: config.lease,
            tier: config.tier,
            parents,
            siblings,
            summary_bits_per_second: config.summary_bits_per_second,
            addresses,
            limits: config.limits,
            reflection: bound.as_ref().map(|bound| config.relay.reflection(bound.address())),
            secret: random_secret().map_err(Failure::failed)?,
            ..hub::HubConfig::new(identity.node(), H::KIND, random_seed().map_err(Failure::failed)?)
        });
        // Before anybody is admitted.
        machine.handle(Time::ZERO, Input::Command(HubCommand::Policy(shared.documents.rules())));
        let metrics = HubMetrics::register(&shared.metrics).map_err(Failure::failed)?;
        let network = Sockets::new(shared.transport.clone(), events, redial.clone());
        let mut relay = Ok(None);
        let event_handler = |mailbox: &Mailbox<Hub>| {
            let start = |bound| start_relay(bound, config.relay.config(), mailbox, &shared, &stop);
            relay = bound.map(start).transpose();
            let media = relay.as_ref().ok().and_then(Option::as_ref).map(|(media, _)| media.clone());
            HubEventHandler::new(Arc::clone(&shared), mailbox.clone(), media)
        };
        let (driver, mailbox) = driver(machine, event_handler, network, Arc::clone(&shared.traffic));
        let relay = relay.map_err(Failure::failed)?;
        let media_metrics = relay.as_ref().map(|_| MediaMetrics::register(&shared.metrics));
        let media_metrics = media_metrics.transpose().map_err(Failure::failed)?;
        tokio::spawn(known_remotes::remember(
            known_remotes::file_path(&common.socket),
            shared.transport.clone(),
            stop.clone(),
        ));
        let driver = tokio::spawn(driver.run(stop, HubCommand::Leave));
        Ok(Running { service: HubService { shared, mailbox, metrics, redial, relay, media_metrics }, driver })
    }
}

type Started = (RelayMailbox<HubRelayHandler>, SocketAddr);

/// Starts the relay and tells it when the hub leaves. If the relay stops, the hub counts as one without room.
fn start_relay(
    bound: MediaSocket,
    config: relay::RelayConfig,
    mailbox: &Mailbox<Hub>,
    shared: &Arc<DaemonContext>,
    stop: &CancellationToken,
) -> std::io::Result<Started> {
    let address = bound.address();
    let (full, shared) = (mailbox.clone(), Arc::clone(shared));
    let gone = move |sentence| {
        shared.set_last_error(sentence);
        full.post(HubCommand::ReflectedStreams { streams: Vec::new() });
        full.post(HubCommand::ReflectionCapacity { residual_kbps: Some(0), subscribers: u32::MAX });
    };
    let machine = move |seed| HubReflection::new(config, seed);
    let media = RelayMailbox::start(bound, machine, HubRelayHandler::new(mailbox.clone()), gone)?;
    let (told, stopped) = (media.clone(), stop.clone().cancelled_owned());
    tokio::spawn(async move {
        stopped.await;
        // A relay that has stopped sends no streams.
        let _ = told.command(HubInput::Leave).await;
    });
    Ok((media, address))
}

impl HubService {
    async fn streams(&self) -> Streams {
        let Some((media, address)) = &self.relay else { return rows::none() };
        let address = *address;
        let look = media.inspect(move |machine, now| rows::streams(machine.relay(), now, address)).await;
        let mut streams = look.unwrap_or_else(rows::none);
        for row in &mut streams.streams {
            row.provider_name = row.provider.and_then(|node| certified(&self.shared, node));
        }
        streams
    }

    async fn machine_status(&self) -> Result<hub::HubStatus, DriverStopped> {
        self.mailbox.inspect(Hub::status).await
    }

    /// Describes another hub, with its latest round trip.
    fn hub_connection(&self, hub: &hub::RemoteHubStatus) -> HubConnection {
        let connections = self
            .shared
            .transport
            .connections()
            .into_iter()
            .filter(|connection| Some(connection.remote.node) == hub.node);
        let rtt_ms = connections.map(|connection| connection.rtt).min().map(millis);
        HubConnection { rtt_ms, ..status_rows::hub_connection(hub, &self.redial) }
    }

    /// Returns at most `limit` nodes of the index after `after`.
    async fn index(&self, after: Option<NodeId>, limit: usize) -> Result<Vec<hub::IndexEntry>, DriverStopped> {
        self.mailbox.inspect(move |hub, now| hub.index(now, after, limit)).await
    }
}

impl DaemonService for HubService {
    fn shared(&self) -> &Arc<DaemonContext> {
        &self.shared
    }

    async fn status(&self) -> Result<Status, DriverStopped> {
        let machine = self.machine_status().await?;
        let hubs = machine.hubs.iter().map(|hub| self.hub_connection(hub)).collect();
        Ok(Status { index: Some(status_rows::totals(&machine)), hubs, ..self.shared.status() })
    }

    async fn connections(&self) -> Result<Connections, DriverStopped> {
        let (machine, clocks) = self.mailbox.inspect(|hub, now| (hub.status(now), hub.clocks(now))).await?;
        let mut answer = self.shared.connections(&clocks);
        for row in &mut answer.connections {
            let hub = machine.hubs.iter().find(|hub| hub.node == Some(row.node));
            let (relation, tier) = hub.map(|hub| status_rows::relation(hub.relation)).unzip();
            (row.relation, row.tier) = (relation, tier.flatten());
        }
        let down = machine.hubs.iter().filter(|hub| hub.up.is_none());
        answer.down = down.map(|hub| self.hub_connection(hub)).collect();
        Ok(answer)
    }

    fn check_liveness(&self, sign: fn()) -> impl Future<Output = Result<(), DriverStopped>> + Send + 'static {
        let mailbox = self.mailbox.clone();
        async move { mailbox.inspect(move |_, _| sign()).await }
    }

    async fn update_metrics(&self) {
        // Without a machine the metrics stay as they were.
        if let Ok((status, counters)) = self.mailbox.inspect(|hub, now| (hub.status(now), hub.counters().clone())).await
        {
            self.metrics.update(&status, &counters);
        }
        if let Ok(counters) = self.mailbox.inspect(|hub, _| hub.document_counters()).await {
            self.shared.documents.update_counters(&counters);
        }
        if let (Some((media, _)), Some(metrics)) = (&self.relay, &self.media_metrics) {
            metrics.update(media).await;
        }
    }

    async fn documents(&self) -> Result<Vec<DocumentRow>, DriverStopped> {
        let documents = self.mailbox.inspect(|hub, _| hub.documents(MAX_NAMED)).await?;
        Ok(documents.iter().map(|document| self.shared.hub_document(document)).collect())
    }

    fn take_verdict(&self, verdict: DocumentVerdict) {
        self.mailbox.post(HubCommand::Document(verdict));
    }

    fn take_policy(&self, policy: Option<Arc<Policy>>) {
        self.mailbox.post(HubCommand::Policy(policy));
    }

    fn take_labels(&self, labels: Labels) {
        self.mailbox.post(HubCommand::Labels(labels));
    }

    fn routes(&self) -> Router {
        api::routes(self.clone())
    }

    /// A hub has no reloadable settings of its own.
    async fn reload(&self, _: &Settings) -> Result<(), Failure> {
        Ok(())
    }

    /// The machine drains by itself when it leaves.
    async fn drain(&self) {}
}
