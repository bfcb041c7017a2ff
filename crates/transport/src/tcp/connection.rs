//! A TCP connection: a task that reads, a task that writes, and a queue between the application and the writer.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_identity::tls::refusal_from_tls_error;
use roost_identity::{CertificateStatus, Side};
use roost_wire::{Channel, Delivery};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Notify;

use super::frame::{self, Frame};
use super::queue::WriteQueue;
use crate::connection::{AnyConnection, ConnectionIdentity, ConnectionInfo, LiveConnectionCounters};
use crate::counters::LiveSchemeCounters;
use crate::error::SendError;
use crate::event::Event;
use crate::priority_queue::Pushed;
use crate::transport::{Context, cut, given};

/// Longest wait for the remote to close its side after a closed connection has sent everything. Dropping a socket with
/// unread data resets the connection, and the remote would lose the last bytes.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that are read from TLS beyond the current frame. Each idle connection holds this much. TLS keeps the rest of
/// its input, and longer reads bypass this buffer.
const READ_AHEAD: usize = 512;

/// A TCP connection, as the application reaches it.
pub(crate) struct TcpConnection {
    identified: ConnectionIdentity,
    context: Arc<Context>,
    live: Arc<LiveSchemeCounters>,
    tally: Arc<LiveConnectionCounters>,
    queue: Mutex<WriteQueue>,
    work: Notify,
    /// Starts the timer that limits the writer's remaining time.
    over: Notify,
    /// Starts the timer that limits the reader's remaining time.
    stop: Notify,
}

impl TcpConnection {
    pub(super) fn new(
        identified: ConnectionIdentity,
        context: Arc<Context>,
        live: Arc<LiveSchemeCounters>,
        tally: Arc<LiveConnectionCounters>,
    ) -> Arc<Self> {
        let queue = Mutex::default();
        Arc::new(Self {
            identified,
            context,
            live,
            tally,
            queue,
            work: Notify::new(),
            over: Notify::new(),
            stop: Notify::new(),
        })
    }

    /// Announces the connection and starts its tasks. `busy` is dropped when both are done.
    pub(super) fn start<S>(self: &Arc<Self>, stream: S, up: Event, busy: Arc<()>)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        self.context.registry.insert(self.identified.connection, AnyConnection::Tcp(Arc::clone(self)));
        self.context.queue.push(self.identified.sender(), up);
        let (reading, writing) = tokio::io::split(stream);
        let (reader, writer) = (Arc::clone(self), Arc::clone(self));
        let still_busy = Arc::clone(&busy);
        tokio::spawn(async move {
            tokio::select! {
                reason = reader.read(reading) => reader.end(reason),
                () = after(&reader.stop, LINGER) => {}
            }
            drop(still_busy);
        });
        tokio::spawn(async move {
            tokio::select! {
                written = writer.write(writing) => {
                    if let Err(error) = written {
                        writer.end(sentence(&error));
                    }
                }
                () = after(&writer.over, writer.context.limits.next_answer(writer.identified.rtt)) => {}
            }
            writer.stop.notify_one();
            drop(busy);
        });
    }

    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, channel: Channel, delivery: &Delivery, message: Bytes) -> Result<(), SendError> {
        let connection = self.identified.connection;
        let mut queue = self.lock();
        if queue.farewell.is_some() {
            return Err(SendError::NoConnection(connection));
        }
        match queue.push(Instant::now(), channel, delivery, message, self.context.limits.connection_queue_bytes) {
            Pushed::Queued => {}
            Pushed::Dropped => {
                LiveSchemeCounters::add(&self.live.dropped, 1);
                return Ok(());
            }
            Pushed::Full => return Err(SendError::Full(connection)),
        }
        drop(queue);
        LiveConnectionCounters::add(&self.tally.messages_sent, 1);
        self.work.notify_one();
        Ok(())
    }

    /// Closes the connection after all queued messages have left.
    pub(crate) fn close(&self, reason: String) {
        if self.context.registry.remove(self.identified.connection) {
            self.say_farewell(cut(&reason).to_owned());
        }
    }

    /// Ends the connection and reports it to the application.
    fn end(&self, reason: String) {
        if self.context.registry.remove(self.identified.connection) {
            self.context.queue.push(self.identified.sender(), Event::down(self.identified.connection, reason));
        }
        self.say_farewell(String::new());
    }

    fn say_farewell(&self, reason: String) {
        self.lock().farewell.get_or_insert(reason);
        self.work.notify_one();
        self.over.notify_one();
    }

    fn is_over(&self) -> bool {
        self.lock().farewell.is_some()
    }

    /// Delivers messages until the stream ends. Returns the reason.
    async fn read(&self, stream: impl AsyncRead + Unpin) -> String {
        let mut stream = BufReader::with_capacity(READ_AHEAD, stream);
        loop {
            match frame::read(&mut stream).await {
                Ok(Some(Frame::Message(_))) if self.is_over() => {}
                Ok(Some(Frame::Message(message))) => {
                    LiveConnectionCounters::add(&self.tally.messages_received, 1);
                    let event = Event::Message { connection: self.identified.connection, message };
                    self.context.queue.push_when_room(self.identified.sender(), event).await;
                }
                Ok(Some(Frame::Ready)) => {}
                Ok(Some(Frame::Close(reason))) => return given(&reason),
                Ok(None) => return "the remote closed the connection".to_owned(),
                Err(error) => {
                    LiveSchemeCounters::add(
                        &self.live.malformed,
                        u64::from(error.kind() == io::ErrorKind::InvalidData),
                    );
                    return sentence(&error);
                }
            }
        }
    }

    /// Writes queued messages until the connection is over.
    async fn write(&self, mut stream: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let farewell = self.lock().take_batch(Instant::now(), &mut bytes);
            if let Some(reason) = farewell {
                Frame::Close(reason).write(&mut bytes);
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            if bytes.is_empty() {
                // An idle connection holds no buffer.
                bytes = Vec::new();
                self.work.notified().await;
                continue;
            }
            stream.write_all(&bytes).await?;
            stream.flush().await?;
        }
    }

    pub(crate) fn certificate_status(&self) -> &CertificateStatus {
        &self.identified.certificate_status
    }

    pub(crate) fn info(&self) -> ConnectionInfo {
        ConnectionInfo {
            bytes_sent: LiveConnectionCounters::get(&self.tally.bytes_sent),
            bytes_received: LiveConnectionCounters::get(&self.tally.bytes_received),
            messages_sent: LiveConnectionCounters::get(&self.tally.messages_sent),
            messages_received: LiveConnectionCounters::get(&self.tally.messages_received),
            ..self.identified.describe(self.identified.rtt)
        }
    }
}

/// Waits for the notification, and then for `time`.
async fn after(told: &Notify, time: Duration) {
    told.notified().await;
    tokio::time::sleep(time).await;
}

/// An error of a stream, as a sentence for people.
pub(super) fn sentence(error: &io::Error) -> String {
    if let Some(refusal) = tls_error(error).and_then(refusal_from_tls_error) {
        let (side, refusal): (Side, _) = refusal;
        return side.sentence(refusal);
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "the remote reset the connection".to_owned(),
        io::ErrorKind::UnexpectedEof => "the remote broke the connection off".to_owned(),
        _ => error.to_string(),
    }
}

/// The TLS error inside an I/O error.
pub(super) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}
