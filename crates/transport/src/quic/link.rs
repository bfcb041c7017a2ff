//! A QUIC link: a connection, a task that reads, a task that writes streams.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use quinn::{Connection, ConnectionError, ReadToEndError, RecvStream, SendDatagramError, SendStream, VarInt};
use roost_identity::Standing;
use roost_proto::Channel;
use roost_proto::wire::MAX_MESSAGE_BYTES;
use tokio::sync::Notify;

use super::inbox::Inbox;
use super::sentence;
use super::settings::STREAM_HEADER;
use crate::counters::Live;
use crate::error::SendError;
use crate::event::Event;
use crate::link::{Carrier, Identified, LinkInfo, Tally};
use crate::tcp::after;
use crate::transport::{Context, cut};

/// What begins a stream: the listener's greeting, nothing else follows.
pub(super) const READY: u8 = 0;
/// A message; then four bytes that say how many streams back the message is
/// that it follows, or zero.
pub(super) const MESSAGE: u8 = 1;
/// The application close code of an ordinary end.
pub(super) const CLOSED: VarInt = VarInt::from_u32(0);
/// The application close code of a peer that broke the protocol.
const VIOLATION: VarInt = VarInt::from_u32(1);
/// Streams whose acknowledgement the writer looks out for. Older ones are
/// awaited before another is opened.
const MAX_UNACKED: usize = 512;
/// Flows remembered beyond those that may have messages on their way.
const IDLE_FLOWS: usize = 1024;
/// How long a closed link may take to hand over what was sent.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A QUIC link, as the owner reaches it.
pub(crate) struct QuicLink {
    identified: Identified,
    context: Arc<Context>,
    live: Arc<Live>,
    tally: Tally,
    connection: Connection,
    queue: Mutex<Queue>,
    /// Wakes the writer.
    work: Notify,
    /// Tells the writer that its time is limited.
    over: Notify,
    /// Room for datagrams while none waits.
    idle_space: usize,
}

#[derive(Default)]
struct Queue {
    /// Messages for streams, with their flow; datagrams too large have none.
    messages: VecDeque<(Option<u32>, Bytes)>,
    bytes: usize,
    farewell: Option<String>,
}

/// A message on its stream has ended, or the connection has.
type Read = Result<(u64, u8, u32, Bytes), ReadToEndError>;

impl QuicLink {
    pub(super) fn new(
        identified: Identified,
        context: Arc<Context>,
        live: Arc<Live>,
        connection: Connection,
    ) -> Arc<Self> {
        Arc::new(Self {
            identified,
            context,
            live,
            tally: Tally::default(),
            idle_space: connection.datagram_send_buffer_space(),
            connection,
            queue: Mutex::default(),
            work: Notify::new(),
            over: Notify::new(),
        })
    }

    /// Makes the link known and starts its tasks. `busy` is dropped when they are done.
    pub(super) fn start(self: &Arc<Self>, up: Event, busy: Arc<()>) {
        self.context.registry.insert(self.identified.link, Carrier::Quic(Arc::clone(self)));
        self.context.queue.push(up);
        let (reader, writer) = (Arc::clone(self), Arc::clone(self));
        tokio::spawn(async move {
            // Each goes on until it has delivered what had arrived before the end.
            let (error, ()) = tokio::join!(reader.read_streams(), reader.read_datagrams());
            reader.end(sentence(&error));
        });
        tokio::spawn(async move {
            tokio::select! {
                () = writer.write() => {}
                _ = writer.connection.closed() => {}
                () = after(&writer.over, CLOSE_TIMEOUT) => writer.connection.close(CLOSED, b"the peer closed the link"),
            }
            drop(busy);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message.
    pub(crate) fn send(&self, channel: Channel, message: Bytes) -> Result<(), SendError> {
        Tally::add(&self.tally.messages_sent, 1);
        match channel {
            Channel::Reliable { flow } => self.enqueue(Some(flow), message),
            Channel::Datagram => {
                if self.connection.datagram_send_buffer_space() < message.len() {
                    Live::add(&self.live.dropped, 1);
                    return Ok(());
                }
                match self.connection.send_datagram(message.clone()) {
                    Ok(()) => Ok(()),
                    Err(SendDatagramError::ConnectionLost(_)) => Err(SendError::NoLink(self.identified.link)),
                    Err(_) => {
                        if self.enqueue(None, message) == Err(SendError::Full(self.identified.link)) {
                            Live::add(&self.live.dropped, 1);
                        }
                        Ok(())
                    }
                }
            }
        }
    }

    fn enqueue(&self, flow: Option<u32>, message: Bytes) -> Result<(), SendError> {
        let mut queue = self.lock();
        if queue.farewell.is_some() {
            return Err(SendError::NoLink(self.identified.link));
        }
        if queue.bytes + message.len() > self.context.limits.link_queue_bytes {
            return Err(SendError::Full(self.identified.link));
        }
        queue.bytes += message.len();
        queue.messages.push_back((flow, message));
        drop(queue);
        self.work.notify_one();
        Ok(())
    }

    /// Closes the link once what was sent has been acknowledged.
    pub(crate) fn close(&self, reason: String) {
        if self.context.registry.remove(self.identified.link) {
            self.say_farewell(cut(&reason).to_owned());
        }
    }

    /// The link is over and the owner is told.
    fn end(&self, reason: String) {
        if self.context.registry.remove(self.identified.link) {
            self.context.queue.push(Event::down(self.identified.link, reason));
        }
        self.say_farewell(String::new());
    }

    fn say_farewell(&self, reason: String) {
        self.lock().farewell.get_or_insert(reason);
        self.work.notify_one();
        self.over.notify_one();
    }

    async fn deliver(&self, message: Bytes) {
        if self.lock().farewell.is_some() {
            return;
        }
        Tally::add(&self.tally.messages_received, 1);
        self.context.queue.push_when_room(Event::Message { link: self.identified.link, message }).await;
    }

    async fn read_datagrams(&self) {
        while let Ok(message) = self.connection.read_datagram().await {
            self.deliver(message).await;
        }
    }

    /// Reads streams side by side and delivers their messages in order, until
    /// the connection is over and what had arrived is delivered.
    async fn read_streams(&self) -> ConnectionError {
        let mut inbox = Inbox::default();
        let mut reading = FuturesUnordered::new();
        let mut over = None;
        loop {
            tokio::select! {
                accepted = self.connection.accept_uni(), if over.is_none() && inbox.has_room() => match accepted {
                    Ok(stream) => {
                        inbox.opened(stream.id().index());
                        reading.push(read_stream(stream));
                    }
                    Err(error) => over = Some(error),
                },
                Some(read) = reading.next() => {
                    for message in self.take(&mut inbox, read) {
                        self.deliver(message).await;
                    }
                }
                else => return over.unwrap_or(ConnectionError::LocallyClosed),
            }
        }
    }

    /// Enters what a stream carried; answers what can be delivered.
    fn take(&self, inbox: &mut Inbox, read: Read) -> Vec<Bytes> {
        let mut ready = Vec::new();
        let sound = match read {
            Ok((number, MESSAGE, distance, message)) => {
                inbox.complete(number, distance, message, |message| ready.push(message)).is_ok()
            }
            // The rest of it will not come; nor will what follows it.
            Err(ReadToEndError::Read(quinn::ReadError::ConnectionLost(_))) => true,
            Ok(_) | Err(_) => false,
        };
        if !sound {
            Live::add(&self.live.malformed, 1);
            self.connection.close(VIOLATION, b"you broke the protocol");
        }
        ready
    }

    /// Writes each queued message on a stream of its own until the link is over.
    async fn write(&self) {
        let mut outbox = Outbox { idle_space: self.idle_space, ..Outbox::default() };
        loop {
            let next = {
                let mut queue = self.lock();
                let next = queue.messages.pop_front();
                if let Some((_, message)) = &next {
                    queue.bytes -= message.len();
                }
                next.ok_or_else(|| queue.farewell.clone())
            };
            match next {
                Ok((flow, message)) => {
                    if outbox.write(&self.connection, flow, message).await.is_err() {
                        return;
                    }
                }
                Err(Some(reason)) => {
                    outbox.drain(&self.connection).await;
                    return self.connection.close(CLOSED, reason.as_bytes());
                }
                Err(None) => self.work.notified().await,
            }
        }
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.identified.standing
    }

    pub(crate) fn info(&self) -> LinkInfo {
        let stats = self.connection.stats();
        LinkInfo {
            bytes_sent: stats.udp_tx.bytes,
            bytes_received: stats.udp_rx.bytes,
            messages_sent: Tally::get(&self.tally.messages_sent),
            messages_received: Tally::get(&self.tally.messages_received),
            retransmissions: stats.path.lost_packets,
            ..self.identified.describe(self.connection.rtt())
        }
    }
}

/// Reads a stream to its end.
async fn read_stream(mut stream: RecvStream) -> Read {
    let number = stream.id().index();
    let body = Bytes::from(stream.read_to_end(MAX_MESSAGE_BYTES + STREAM_HEADER).await?);
    Ok(match body.split_first_chunk() {
        Some((&[MESSAGE, a, b, c, d], _)) => {
            (number, MESSAGE, u32::from_be_bytes([a, b, c, d]), body.slice(STREAM_HEADER..))
        }
        // Whatever is too short for a message can only be a greeting.
        _ => (number, body.first().copied().unwrap_or(u8::MAX), 0, Bytes::new()),
    })
}

/// The writer's memory of what it has sent.
#[derive(Default)]
struct Outbox {
    /// Streams that the peer has not acknowledged, oldest first.
    unacked: VecDeque<SendStream>,
    /// The last stream of each flow.
    flows: HashMap<u32, u64>,
    /// Room for datagrams while none waits.
    idle_space: usize,
}

impl Outbox {
    async fn write(&mut self, connection: &Connection, flow: Option<u32>, message: Bytes) -> Result<(), ()> {
        let mut stream = connection.open_uni().await.map_err(drop)?;
        let number = stream.id().index();
        let before = flow.and_then(|flow| self.flows.insert(flow, number));
        // A distance that does not fit is one that the peer has long delivered.
        let distance = before.and_then(|before| u32::try_from(number - before).ok()).unwrap_or(0);
        let mut header = [MESSAGE; STREAM_HEADER];
        header[1..].copy_from_slice(&distance.to_be_bytes());
        let mut chunks = [Bytes::copy_from_slice(&header), message];
        stream.write_all_chunks(&mut chunks).await.map_err(drop)?;
        stream.finish().map_err(drop)?;
        self.unacked.push_back(stream);
        self.forget().await;
        Ok(())
    }

    /// Forgets what has been acknowledged.
    async fn forget(&mut self) {
        while let Some(oldest) = self.unacked.front() {
            let acked = oldest.stopped().now_or_never().is_some();
            if !acked && self.unacked.len() > MAX_UNACKED {
                let _ = oldest.stopped().await;
            } else if !acked {
                break;
            }
            self.unacked.pop_front();
        }
        if self.flows.len() > IDLE_FLOWS + 2 * MAX_UNACKED {
            // Acknowledged is not yet delivered, but this far back it is.
            let oldest = self.unacked.front().map_or(u64::MAX, |stream| stream.id().index());
            let settled = oldest.saturating_sub(MAX_UNACKED as u64);
            self.flows.retain(|_, last| *last >= settled);
        }
    }

    /// Waits until the peer has everything and the datagrams have left.
    async fn drain(&mut self, connection: &Connection) {
        while let Some(stream) = self.unacked.pop_front() {
            let _ = stream.stopped().await;
        }
        while connection.datagram_send_buffer_space() < self.idle_space {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
