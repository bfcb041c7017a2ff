//! A connection over one QUIC connection or several, which are its paths.
//!
//! [`MultipathConnection`](crate::multipath::MultipathConnection) decides, and its actions are carried out here. Each
//! path has a task that opens streams and waits for their acknowledgements, and one that reads. The connection has a
//! task for its deadlines.

use std::net::IpAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::{Connection, ConnectionError, SendDatagramError, VarInt};
use roost_identity::CertificateStatus;
use roost_wire::{Channel, Delivery};
use tokio::sync::{Notify, mpsc};

use super::address_update::{AddressUpdate, NOTICE};
use super::failure::sentence;
use super::hello::ConnectionKey;
use super::path::{PathCommand, drive_path};
use super::probing::Probing;
use super::state::{LocalEnd, State, as_sent};
use crate::connection::{AnyConnection, ConnectionIdentity, ConnectionInfo, LiveConnectionCounters};
use crate::counters::LiveSchemeCounters;
use crate::error::SendError;
use crate::event::Event;
use crate::known_remotes::KnownRemote;
use crate::multipath::{PathEvent, PathId};
use crate::transport::{Context, cut};

/// The application close code of an ordinary end.
pub(super) const CLOSED: VarInt = VarInt::from_u32(0);
/// The application close code for a remote that broke the protocol.
const VIOLATION: VarInt = VarInt::from_u32(1);
/// The application close code of a path that is given up; its connection goes on.
pub(super) const GIVEN_UP: VarInt = VarInt::from_u32(2);

/// A new path of the connection, and the receiver of its commands.
type Joined = (PathId, mpsc::UnboundedReceiver<PathCommand>);

/// A QUIC connection, as the application reaches it.
pub(crate) struct QuicConnection {
    pub(super) identified: ConnectionIdentity,
    context: Arc<Context>,
    live: Arc<LiveSchemeCounters>,
    pub(super) tally: LiveConnectionCounters,
    /// `None` if TLS gives no secret, so that no path can be added.
    pub(super) key: Option<ConnectionKey>,
    state: Mutex<State>,
    /// A single path at a time delivers messages, in the order of the connection.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Wakes the task that waits for the deadline.
    clock: Notify,
    /// Tells [`Self::wind_down`] that the connection is closing.
    over: Notify,
    /// Tells the path manager that a path has ended, or that addresses have changed.
    pub(super) changed: Notify,
    /// The addresses at which the remote that we dialed listens, and the number of the notice. `None` until it has
    /// reported a change.
    pub(super) hosts: Mutex<Option<(u32, Vec<IpAddr>)>>,
    /// The number of our notices about addresses.
    pub(super) told: AtomicU32,
    /// The port that the remote dialed; `None` if we dialed.
    pub(super) port: Option<u16>,
}

impl QuicConnection {
    pub(super) fn new(
        identified: ConnectionIdentity,
        context: Arc<Context>,
        live: Arc<LiveSchemeCounters>,
        key: Option<ConnectionKey>,
        port: Option<u16>,
    ) -> Arc<Self> {
        let state = State::new(context.limits.connection_queue_bytes);
        Arc::new(Self {
            identified,
            context,
            live,
            tally: LiveConnectionCounters::default(),
            key,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            clock: Notify::new(),
            over: Notify::new(),
            changed: Notify::new(),
            hosts: Mutex::default(),
            told: AtomicU32::new(0),
            port,
        })
    }

    /// Announces the connection with its first path, so that the path exists before anyone can close the connection.
    /// `busy` is dropped when the connection has ended.
    pub(super) fn start(
        self: &Arc<Self>,
        up: Event,
        quinn_connection: Connection,
        probing: Probing,
        here: LocalEnd,
        busy: &Arc<()>,
    ) -> Option<PathId> {
        let joined = self.join(&quinn_connection, probing, here);
        self.context.registry.insert(self.identified.connection, AnyConnection::Quic(Arc::clone(self)));
        self.context.queue.push(self.identified.sender(), up);
        tokio::spawn(Arc::clone(self).run_timers(Arc::clone(busy)));
        self.spawn_path(joined, quinn_connection, busy)
    }

    /// Adds a QUIC connection as another path. `None` if there are enough paths.
    pub(super) fn add_path(
        self: &Arc<Self>,
        quinn_connection: Connection,
        probing: Probing,
        here: LocalEnd,
        busy: &Arc<()>,
    ) -> Option<PathId> {
        let joined = self.join(&quinn_connection, probing, here);
        match joined {
            Some(_) if self.is_over() => quinn_connection.close(CLOSED, b"the connection is closed"),
            Some(_) => {
                let (name, address) = (&self.identified.remote.name, quinn_connection.remote_address());
                tracing::info!(name, %address, "there is another path");
            }
            None => quinn_connection.close(GIVEN_UP, b"the connection has enough paths"),
        }
        self.spawn_path(joined, quinn_connection, busy)
    }

    fn join(&self, quinn_connection: &Connection, probing: Probing, here: LocalEnd) -> Option<Joined> {
        let (commands, ordered) = mpsc::unbounded_channel();
        let id = self.apply(|state, now| state.add_path(now, quinn_connection, probing, here, commands))?;
        Some((id, ordered))
    }

    fn spawn_path(
        self: &Arc<Self>,
        joined: Option<Joined>,
        quinn_connection: Connection,
        busy: &Arc<()>,
    ) -> Option<PathId> {
        let (id, ordered) = joined?;
        tokio::spawn(drive_path(Arc::clone(self), id, quinn_connection, ordered, Arc::clone(busy)));
        Some(id)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` on the connection and carries out the actions that follow.
    pub(super) fn apply<R>(&self, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.lock();
        let answer = act(&mut state, Instant::now());
        self.drain_actions(&mut state);
        answer
    }

    fn drain_actions(&self, state: &mut State) {
        while let Some(event) = state.multipath.poll_event() {
            self.report_path_event(state, event);
        }
        while let Some(action) = state.multipath.poll_action() {
            state.carry_out(action);
        }
        let deadline = state.multipath.deadline();
        let is_earlier = deadline.is_some_and(|at| state.armed.is_none_or(|armed| at < armed));
        if is_earlier {
            state.armed = deadline;
            self.clock.notify_one();
        }
    }

    /// Logs and counts an event of a path, if there are several.
    fn report_path_event(&self, state: &State, event: PathEvent) {
        let (PathEvent::Lost(path) | PathEvent::Restored(path)) = event;
        let Some(path) = state.paths.get(&path).filter(|_| state.paths.len() > 1) else { return };
        let (name, address) = (&self.identified.remote.name, path.quinn_connection.remote_address());
        match event {
            PathEvent::Lost(_) => {
                LiveSchemeCounters::add(&self.live.paths_lost, 1);
                tracing::info!(name, %address, "a path does not answer; the others are used");
            }
            PathEvent::Restored(_) => {
                LiveSchemeCounters::add(&self.live.paths_restored, 1);
                tracing::info!(name, %address, "a path answers again");
            }
        }
    }

    /// Waits for the deadlines until the connection is over, then closes all paths.
    async fn run_timers(self: Arc<Self>, busy: Arc<()>) {
        tokio::select! {
            () = self.tick() => {}
            () = self.wind_down() => {}
        }
        let state = self.lock();
        let reason = state.farewell.clone().unwrap_or_default();
        state.paths.values().for_each(|path| path.quinn_connection.close(CLOSED, reason.as_bytes()));
        drop(busy);
    }

    /// Handles each deadline of the connection. Never ends.
    async fn tick(&self) {
        loop {
            let armed = {
                let mut state = self.lock();
                state.armed = state.multipath.deadline();
                state.armed
            };
            let due = async {
                match armed {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.apply(|state, now| state.multipath.handle_timeout(now)),
                () = self.clock.notified() => {}
            }
        }
    }

    /// Waits until the connection closes, and then until everything that was sent has arrived.
    async fn wind_down(&self) {
        self.over.notified().await;
        let handed_over = async {
            while self.lock().has_unsent() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // Messages that have not arrived by then are lost.
        let limit = self.context.limits.next_answer(self.identified.rtt);
        let _ = tokio::time::timeout(limit, handed_over).await;
    }

    pub(crate) fn send(&self, channel: Channel, delivery: &Delivery, message: Bytes) -> Result<(), SendError> {
        match channel {
            Channel::Reliable { .. } => self.enqueue(channel, delivery, message),
            Channel::Datagram => self.send_datagram(delivery, message),
        }?;
        LiveConnectionCounters::add(&self.tally.messages_sent, 1);
        Ok(())
    }

    /// Sends a datagram. With one path it is a QUIC datagram, if it fits into one.
    fn send_datagram(&self, delivery: &Delivery, message: Bytes) -> Result<(), SendError> {
        let direct = self.lock().direct().cloned();
        if let Some(quinn_connection) = direct {
            match quinn_connection.send_datagram(message.clone()) {
                Ok(()) => return Ok(()),
                Err(SendDatagramError::ConnectionLost(_)) => {
                    return Err(SendError::NoConnection(self.identified.connection));
                }
                Err(_) => {}
            }
        }
        if self.enqueue(Channel::Datagram, delivery, message) == Err(SendError::Full(self.identified.connection)) {
            LiveSchemeCounters::add(&self.live.dropped, 1);
        }
        Ok(())
    }

    fn enqueue(&self, channel: Channel, delivery: &Delivery, message: Bytes) -> Result<(), SendError> {
        self.apply(|state, now| {
            if state.farewell.is_some() {
                return Err(SendError::NoConnection(self.identified.connection));
            }
            let message = as_sent(channel, delivery, message, now, state.longest_rtt());
            state.multipath.send(now, message).then_some(()).ok_or(SendError::Full(self.identified.connection))
        })
    }

    /// The paths that the remote dialed, for [`crate::Transport::known_remotes`].
    pub(crate) fn known_remotes(&self) -> Vec<KnownRemote> {
        self.lock().known_remotes()
    }

    /// Closes the connection once everything that was sent has been acknowledged.
    pub(crate) fn close(&self, reason: String) {
        if self.context.registry.remove(self.identified.connection) {
            self.finish(cut(&reason).to_owned());
        }
    }

    /// Ends the connection because the remote has broken the protocol.
    pub(super) fn violated(&self) {
        LiveSchemeCounters::add(&self.live.malformed, 1);
        let state = self.lock();
        state.paths.values().for_each(|path| path.quinn_connection.close(VIOLATION, b"you broke the protocol"));
    }

    /// Removes a path whose QUIC connection is over. All messages that had arrived on it are delivered.
    pub(super) fn lose_path(&self, id: PathId, error: &ConnectionError) {
        let is_last = self.apply(|state, now| state.remove_path(now, id));
        // A remote that closes one path in the ordinary way closes the whole connection.
        let is_closed = matches!(error, ConnectionError::ApplicationClosed(close) if close.error_code != GIVEN_UP);
        if (is_last || is_closed) && self.context.registry.remove(self.identified.connection) {
            self.context.queue.push(self.identified.sender(), Event::down(self.identified.connection, sentence(error)));
        }
        if is_last || is_closed {
            self.finish(String::new());
        }
        self.changed.notify_one();
    }

    fn finish(&self, farewell: String) {
        self.apply(|state, _| {
            state.farewell.get_or_insert(farewell);
        });
        self.over.notify_one();
        self.changed.notify_one();
    }

    /// Handles a chunk from any path, and delivers the messages that it completes.
    pub(super) async fn receive(&self, chunk: &Bytes) {
        if chunk.first() == Some(&NOTICE) {
            // An unknown notice is of a later version.
            return AddressUpdate::read(chunk).into_iter().for_each(|notice| self.handle_address_update(notice));
        }
        let _turn = self.turn.lock().await;
        let taken = self.apply(|state, _| {
            let taken = state.multipath.handle_chunk(chunk);
            taken.map(|()| std::iter::from_fn(|| state.multipath.poll_message()).collect::<Vec<_>>())
        });
        match taken {
            Ok(messages) => {
                for message in messages {
                    self.deliver(message).await;
                }
            }
            Err(_) => self.violated(),
        }
    }

    pub(super) async fn deliver(&self, message: Bytes) {
        if self.lock().farewell.is_some() {
            return;
        }
        LiveConnectionCounters::add(&self.tally.messages_received, 1);
        let event = Event::Message { connection: self.identified.connection, message };
        self.context.queue.push_when_room(self.identified.sender(), event).await;
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().farewell.is_some()
    }

    pub(super) fn has_path(&self, id: PathId) -> bool {
        self.lock().paths.contains_key(&id)
    }

    pub(super) fn path_count(&self) -> usize {
        self.lock().paths.len()
    }

    /// Bytes of payload that the remote has sent over all paths.
    pub(super) fn received(&self) -> u64 {
        self.lock().traffic().received
    }

    pub(crate) fn certificate_status(&self) -> &CertificateStatus {
        &self.identified.certificate_status
    }

    pub(crate) fn info(&self) -> ConnectionInfo {
        let state = self.lock();
        let paths: Vec<_> = state.multipath.paths().filter_map(|view| state.describe(&view)).collect();
        let traffic = state.traffic();
        let rtt = paths.iter().filter(|path| path.answers).map(|path| path.rtt).min();
        ConnectionInfo {
            bytes_sent: traffic.sent,
            bytes_received: traffic.received,
            messages_sent: LiveConnectionCounters::get(&self.tally.messages_sent),
            messages_received: LiveConnectionCounters::get(&self.tally.messages_received),
            retransmissions: traffic.lost,
            packets_sent: Some(traffic.packets),
            given_up: state.multipath.counts().0,
            duplicates: state.multipath.counts().1,
            paths,
            ..self.identified.describe(rtt.unwrap_or(self.identified.rtt))
        }
    }
}
