//! The state that all daemons have for their endpoints.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prometheus::IntGauge;
use roost_api::{
    ConnectionRow, Connections, DatumStatus, PathRow, SCHEMA, State, Status, TransportBytes, TransportTotals,
};
use roost_audit::AuditRecorder;
use roost_core::Traffic;
use roost_geo::Datum;
use roost_identity::{FileContent, Identity, Policy, SealError, SealedFor};
use roost_transport::{ConnectionInfo, MulticastCounters, PathInfo, SchemeCounters, Transport};
use roost_wire::{DeliveryId, Labels, NodeId, RemoteIdentity, Role, Scheme};
use tokio::sync::watch;

use crate::authority::AuthorityContact;
use crate::denials::DenialLog;
use crate::documents::GroupDocuments;
use crate::logging::Level;
use crate::metrics::{Metrics, ProcessMetrics, TransportMetrics, refused};
use crate::traffic::TrafficBytes;

/// The identity, the transports and the counters of a daemon.
pub struct DaemonContext {
    identity: Arc<Identity>,
    listen: Vec<String>,
    started: Instant,
    started_at: SystemTime,
    state: watch::Sender<State>,
    last_error: Mutex<Option<(Instant, String)>>,
    transport_metrics: TransportMetrics,
    process_metrics: ProcessMetrics,
    certificate: IntGauge,
    authority_failing: IntGauge,
    pub(crate) authority: AuthorityContact,
    pub(crate) audit: AuditRecorder,
    pub(crate) denials: Mutex<DenialLog>,
    pub transport: Transport,
    /// The driver counts these.
    pub traffic: Arc<TrafficBytes>,
    pub metrics: Metrics,
    pub level: Level,
    pub documents: GroupDocuments,
}

impl DaemonContext {
    /// # Errors
    /// Fails if the name of a metric is taken.
    pub fn new(
        identity: Arc<Identity>,
        policy: Arc<Policy>,
        transport: Transport,
        state: State,
        level: Level,
    ) -> Result<Self, prometheus::Error> {
        let metrics = Metrics::new(identity.role().name())?;
        let certificate = metrics
            .gauge("roost_certificate_not_after_seconds", "When the daemon's certificate ends, Unix seconds.")?;
        let authority_failing = metrics.gauge(
            "roost_authority_failing_since_seconds",
            "Since when the certificate could not be renewed, Unix seconds; 0 if nothing failed.",
        )?;
        Ok(Self {
            listen: transport.local_addresses().iter().map(ToString::to_string).collect(),
            started: Instant::now(),
            started_at: SystemTime::now(),
            state: watch::Sender::new(state),
            last_error: Mutex::default(),
            transport_metrics: TransportMetrics::register(&metrics)?,
            process_metrics: ProcessMetrics::register(&metrics)?,
            certificate,
            authority_failing,
            authority: AuthorityContact::default(),
            audit: AuditRecorder::default(),
            denials: Mutex::default(),
            traffic: Arc::default(),
            documents: GroupDocuments::register(policy, &metrics)?,
            identity,
            transport,
            metrics,
            level,
        })
    }

    #[must_use]
    pub(crate) fn with_audit(self, audit: AuditRecorder) -> Self {
        Self { audit, ..self }
    }

    pub fn role(&self) -> Role {
        self.identity.role()
    }

    pub fn node(&self) -> NodeId {
        self.identity.node()
    }

    pub fn name(&self) -> &str {
        self.identity.name()
    }

    /// The last certificate with which a node was accepted since the start.
    pub fn certificate_of(&self, node: NodeId) -> Option<Arc<[u8]>> {
        self.documents.policy.certificate_of(node)
    }

    /// # Errors
    /// As [`Identity::seal_file`].
    pub fn seal_file(
        &self,
        receiver: &[u8],
        id: DeliveryId,
        file: &FileContent,
    ) -> Result<(SealedFor, Vec<u8>), SealError> {
        self.identity.seal_file(&self.documents.policy, receiver, id, file)
    }

    /// # Errors
    /// As [`Identity::open_file`].
    pub fn open_file(&self, ends: &SealedFor, sealed: &[u8]) -> Result<(RemoteIdentity, FileContent), SealError> {
        self.identity.open_file(&self.documents.policy, ends, sealed)
    }

    pub fn labels(&self) -> Labels {
        self.identity.labels()
    }

    pub(crate) fn group(&self) -> &str {
        self.identity.group()
    }

    /// The place of the group's grid on the Earth; `None` of a plain grid.
    pub fn datum(&self) -> Option<Datum> {
        self.identity.datum()
    }

    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Sets the state. A daemon that drains stays in [`State::Draining`].
    pub fn set_state(&self, state: State) {
        self.state.send_if_modified(|held| {
            let changes = *held != State::Draining && *held != state;
            if changes {
                *held = state;
            }
            changes
        });
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.state(), State::Attached | State::Listening | State::MulticastOnly)
    }

    /// Remembers the last error, for `status`.
    pub fn set_last_error(&self, error: impl Into<String>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), error.into()));
    }

    /// The addresses, with the ports that the system chose.
    pub fn listen(&self) -> &[String] {
        &self.listen
    }

    /// The part of a status that all daemons have.
    pub fn status(&self) -> Status {
        let counters = self.transport.counters();
        let classes = Traffic::ALL.map(|class| (class.name().to_owned(), self.traffic.sent(class)));
        let refused = refused(&counters).into_iter().filter(|(_, count)| *count > 0);
        let last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (at, last_error) = last.unzip();
        Status {
            schema: SCHEMA,
            role: self.identity.role(),
            name: self.identity.name().to_owned(),
            group: self.identity.group().to_owned(),
            node: self.identity.node(),
            labels: self.identity.labels(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: self.state(),
            started_unix_s: unix_seconds(self.started_at),
            uptime_s: self.started.elapsed().as_secs_f64(),
            certificate_not_after_unix_s: unix_seconds(self.identity.not_after()),
            authority_failing_since_unix_s: self.authority.renewals.since().map(unix_seconds),
            authority_away_since_unix_s: self.authority.documents.since().map(unix_seconds),
            listen: self.listen.clone(),
            hub: None,
            standby: None,
            outbox: None,
            cell: None,
            record: None,
            services: Vec::new(),
            providing: Vec::new(),
            receiving: Vec::new(),
            index: None,
            hubs: Vec::new(),
            transport: totals(&counters.schemes, self.transport.multicast_counters()),
            traffic_sent_bytes: classes.into_iter().collect(),
            documents: self.documents.numbers(),
            policy: self.documents.policy_status(),
            datum: self
                .datum()
                .map(|datum| DatumStatus { origin: datum.origin().to_string(), cell: datum.cell_size().to_string() }),
            place: None,
            following: None,
            refused: refused.map(|(reason, count)| (reason.to_owned(), count)).collect(),
            last_error,
            last_error_s: at.map(|at| at.elapsed().as_secs_f64()),
        }
    }

    /// The connections that are up. `clocks` are the seconds by which remotes' clocks are ahead.
    pub fn connections(&self, clocks: &BTreeMap<NodeId, i64>) -> Connections {
        let row = |connection: &ConnectionInfo| ConnectionRow {
            clock_ahead_s: clocks.get(&connection.remote.node).copied(),
            ..connection_row(connection)
        };
        Connections {
            schema: SCHEMA,
            connections: self.transport.connections().iter().map(row).collect(),
            down: Vec::new(),
        }
    }

    /// Updates the metrics of the transports and the process.
    pub fn update_metrics(&self) {
        self.transport_metrics.update(&self.transport, &self.traffic);
        self.process_metrics.update();
        self.documents.update_numbers();
        let gauge = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        self.certificate.set(gauge(unix_seconds(self.identity.not_after())));
        self.authority_failing.set(gauge(self.authority.renewals.since().map_or(0, unix_seconds)));
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}

fn totals(schemes: &[SchemeCounters; 3], multicast: Option<MulticastCounters>) -> TransportTotals {
    let mut totals = TransportTotals::default();
    let mut add = |name: &str, row: TransportBytes| {
        totals.sent_bytes += row.sent_bytes;
        totals.received_bytes += row.received_bytes;
        totals.sent_datagrams += row.sent_datagrams;
        totals.received_datagrams += row.received_datagrams;
        totals.schemes.insert(name.to_owned(), row);
    };
    if let Some(counters) = multicast {
        let row = TransportBytes {
            sent_bytes: counters.sent_bytes,
            received_bytes: counters.received_bytes,
            sent_datagrams: counters.sent,
            received_datagrams: counters.received,
            dropped: counters.unsent + counters.dropped,
            malformed: counters.forged,
            handshakes: 0,
        };
        add("multicast", row);
    }
    for scheme in Scheme::ALL {
        let counters = &schemes[scheme as usize];
        // TCP counts its writes and reads, which are no datagrams.
        let of_datagrams = |count| if scheme == Scheme::Tcp { 0 } else { count };
        let row = TransportBytes {
            sent_bytes: counters.bytes_sent,
            received_bytes: counters.bytes_received,
            sent_datagrams: of_datagrams(counters.datagrams_sent),
            received_datagrams: of_datagrams(counters.datagrams_received),
            dropped: counters.dropped,
            malformed: counters.malformed,
            handshakes: counters.handshakes,
        };
        add(scheme.name(), row);
    }
    totals
}

fn connection_row(connection: &ConnectionInfo) -> ConnectionRow {
    ConnectionRow {
        node: connection.remote.node,
        name: connection.remote.name.clone(),
        role: connection.remote.role,
        labels: connection.remote.labels.clone(),
        relation: None,
        tier: None,
        transport: connection.scheme,
        address: connection.address.to_string(),
        dialed: connection.dialled,
        rtt_ms: millis(connection.rtt),
        sent_bytes: connection.bytes_sent,
        received_bytes: connection.bytes_received,
        sent_messages: connection.messages_sent,
        received_messages: connection.messages_received,
        retransmissions: connection.retransmissions,
        sent_packets: connection.packets_sent,
        certificate_not_after_unix_s: Some(unix_seconds(connection.certificate_not_after)),
        since_s: connection.since.elapsed().map(|since| since.as_secs_f64()).unwrap_or_default(),
        clock_ahead_s: None,
        paths: connection.paths.iter().map(path_row).collect(),
    }
}

fn path_row(path: &PathInfo) -> PathRow {
    PathRow {
        local: path.local.map(|local| local.to_string()),
        remote: path.remote.to_string(),
        answers: path.answers,
        rtt_ms: millis(path.rtt),
        rate_bps: path.rate.map(|rate| rate.saturating_mul(8)),
        sent_bytes: path.bytes_sent,
        received_bytes: path.bytes_received,
        sent_packets: Some(path.packets_sent),
        retransmissions: path.retransmissions,
        repeated: path.repeated,
        losses: path.losses,
    }
}

/// A duration in milliseconds, to the microsecond.
pub fn millis(duration: std::time::Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}
