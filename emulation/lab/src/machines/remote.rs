//! The command's end of its conversation with another machine.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::protocol::{AgentCall, Answer, Message, PROTOCOL, Packet};
use super::queue::{ByteQueue, Overflow, byte_queue};
use crate::{LabError, Usage};

/// The longest time for an answer, and for the first message of an agent.
const ANSWER: Duration = Duration::from_secs(20);
/// The longest time for an agent to begin: a key may have to be touched, or a machine to wake up.
const HELLO: Duration = Duration::from_secs(60);
const BEAT: Duration = Duration::from_secs(2);
/// Bytes of a connection in one message.
const CHUNK: usize = 64 * 1024;

/// Another machine, with an agent that makes its share of the lab.
#[derive(Debug)]
pub(crate) struct RemoteMachine {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    link: Arc<RemoteLink>,
}

#[derive(Debug)]
struct RemoteLink {
    name: String,
    writer: Mutex<UnixStream>,
    /// A second handle of the stream, which ends it while somebody writes.
    reader: UnixStream,
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Sender<Result<Answer, String>>>>,
    streams: Mutex<BTreeMap<u64, RemoteStream>>,
    /// Connections and messages that did not fit into a queue here.
    overflows: AtomicU64,
    /// The first log here that took no more messages, and why.
    unwritten: OnceLock<String>,
    exits: Mutex<BTreeMap<u64, i32>>,
    /// The latest known usage of the programs there.
    usages: Mutex<BTreeMap<u64, Usage>>,
    sockets: Mutex<Vec<PathBuf>>,
    /// The cause, once the conversation has ended.
    gone: OnceLock<String>,
}

/// Bytes that come from the other machine.
#[derive(Debug)]
enum RemoteStream {
    /// A gap in them makes the rest useless.
    Connection(ByteQueue),
    Log(ByteQueue),
}

impl RemoteStream {
    fn push(&self, bytes: Vec<u8>) -> Result<(), Overflow> {
        match self {
            Self::Connection(queue) | Self::Log(queue) => queue.push(bytes),
        }
    }
}

pub(crate) struct PendingAnswer {
    pub(crate) id: u64,
    receiver: Receiver<Result<Answer, String>>,
    link: Arc<RemoteLink>,
}

impl RemoteMachine {
    /// Waits for the agent's first message, and begins the conversation. `address` is where its trunk is, if it is given.
    pub(crate) fn greet(
        name: &str,
        stream: UnixStream,
        address: Option<IpAddr>,
        version: &str,
    ) -> Result<Self, LabError> {
        let failed = |why: String| LabError::Machine { machine: name.to_owned(), why };
        stream.set_read_timeout(Some(HELLO)).map_err(|error| failed(error.to_string()))?;
        let mut reader = stream.try_clone().map_err(|error| failed(error.to_string()))?;
        let hello = match Packet::read(&mut reader) {
            Ok(Some(Packet { message: Message::Hello(hello), .. })) => hello,
            Ok(None) => return Err(failed("no agent began there: does the command start `emulate` on it?".to_owned())),
            Ok(Some(_)) => return Err(failed("it began with another message than an agent's".to_owned())),
            Err(error) => return Err(failed(format!("no agent answered there: {error}"))),
        };
        if (hello.protocol, hello.version.as_str()) != (PROTOCOL, version) {
            return Err(failed(format!("it has emulate {}, and here is {version}: install the same", hello.version)));
        }
        let address = address.or(hello.address);
        let address = address.ok_or_else(|| failed(format!("its address is not known: write {name}=ADDRESS")))?;
        if address.is_ipv6() {
            let why = format!("packets between machines go over IPv4, and its address is {address}");
            return Err(failed(format!("{why}: write {name}=ADDRESS with another")));
        }
        let times = stream.set_read_timeout(None).and_then(|()| stream.set_write_timeout(Some(ANSWER)));
        times.map_err(|error| failed(error.to_string()))?;
        let same = reader.try_clone().map_err(|error| failed(error.to_string()))?;
        let link = Arc::new(RemoteLink {
            name: name.to_owned(),
            reader: same,
            writer: Mutex::new(stream),
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            streams: Mutex::default(),
            overflows: AtomicU64::new(0),
            unwritten: OnceLock::new(),
            exits: Mutex::default(),
            usages: Mutex::default(),
            sockets: Mutex::default(),
            gone: OnceLock::new(),
        });
        let of_reader = Arc::clone(&link);
        thread::spawn(move || of_reader.listen(reader));
        let of_beat = Arc::clone(&link);
        thread::spawn(move || of_beat.beat());
        Ok(Self { name: name.to_owned(), address: SocketAddr::new(address, hello.port), link })
    }

    pub(crate) fn call(&self, call: AgentCall) -> Result<Answer, LabError> {
        self.send(call, &[])?.wait(ANSWER)
    }

    /// Sends a call without waiting for its answer.
    pub(crate) fn send(&self, call: AgentCall, body: &[u8]) -> Result<PendingAnswer, LabError> {
        RemoteLink::send(&self.link, call, body)
    }

    /// Starts a program there. Its messages are appended to `log` here.
    pub(crate) fn spawn(&self, call: AgentCall, mut log: std::fs::File) -> Result<RemoteProcess, LabError> {
        let (queue, mut bytes) = byte_queue();
        let pending = RemoteLink::send_with_stream(&self.link, call, RemoteStream::Log(queue))?;
        let id = pending.id;
        let of_log = Arc::clone(&self.link);
        thread::spawn(move || {
            if let Err(error) = bytes.try_for_each(|bytes| log.write_all(&bytes)) {
                let _ = of_log.unwritten.set(error.to_string());
            }
        });
        pending.wait(ANSWER)?;
        Ok(RemoteProcess { id, link: Arc::clone(&self.link) })
    }

    /// Offers a Unix socket of that machine under the same path here.
    pub(crate) fn forward(&self, path: &Path) -> io::Result<()> {
        let mut sockets = lock(&self.link.sockets);
        if sockets.iter().any(|known| known == path) {
            return Ok(());
        }
        let listener = UnixListener::bind(path)?;
        sockets.push(path.to_owned());
        let (link, path) = (Arc::clone(&self.link), path.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                // A connection that fails is closed, as if nobody listened.
                let _ = RemoteLink::connect(&link, &path, client);
            }
        });
        Ok(())
    }

    /// Ends the conversation, and with it the agent.
    pub(super) fn give_up(&self, why: &str) {
        self.link.give_up(why.to_owned());
    }

    pub(super) fn overflows(&self) -> u64 {
        self.link.overflows.load(Relaxed)
    }

    /// The reason why messages of programs are not in their logs.
    pub(super) fn unwritten(&self) -> Option<&str> {
        self.link.unwritten.get().map(String::as_str)
    }

    pub(crate) fn keep_usages(&self, usages: &BTreeMap<u64, Usage>) {
        lock(&self.link.usages).clone_from(usages);
    }

    pub(crate) fn end_sockets(&self) {
        for path in lock(&self.link.sockets).drain(..) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl PendingAnswer {
    pub(crate) fn wait(self, within: Duration) -> Result<Answer, LabError> {
        let failed = |why: String| LabError::Machine { machine: self.link.name.clone(), why };
        match self.receiver.recv_timeout(within) {
            Ok(answer) => answer.map_err(failed),
            Err(RecvTimeoutError::Timeout) => {
                // Others would wait as long, one after the other.
                self.link.give_up("it does not answer any more".to_owned());
                Err(self.link.ended())
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.link.ended()),
        }
    }
}

impl RemoteLink {
    fn send(self: &Arc<Self>, call: AgentCall, body: &[u8]) -> Result<PendingAnswer, LabError> {
        let id = self.next.fetch_add(1, Relaxed);
        self.send_as(id, call, body)
    }

    fn send_with_stream(self: &Arc<Self>, call: AgentCall, stream: RemoteStream) -> Result<PendingAnswer, LabError> {
        let id = self.next.fetch_add(1, Relaxed);
        // Before the call: its first bytes may come with the answer.
        lock(&self.streams).insert(id, stream);
        self.send_as(id, call, &[])
    }

    fn send_as(self: &Arc<Self>, id: u64, call: AgentCall, body: &[u8]) -> Result<PendingAnswer, LabError> {
        let (sender, receiver) = mpsc::channel();
        lock(&self.waiting).insert(id, sender);
        if self.write(&Message::Call { id, call }, body).is_err() {
            lock(&self.waiting).remove(&id);
            return Err(self.ended());
        }
        Ok(PendingAnswer { id, receiver, link: Arc::clone(self) })
    }

    fn write(&self, message: &Message, body: &[u8]) -> io::Result<()> {
        if self.gone.get().is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = Packet::write(message, body, &mut *lock(&self.writer));
        if let Err(error) = &written {
            // A part of the message may be there: nothing can follow it.
            self.give_up(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it takes no messages any more".to_owned(),
                _ => format!("its connection has ended: {error}"),
            });
        }
        written
    }

    /// Ends the conversation. Those who wait for answers fail.
    fn give_up(&self, why: String) {
        let _ = self.gone.set(why);
        // Fails only if it has ended already.
        let _ = self.reader.shutdown(std::net::Shutdown::Both);
        lock(&self.waiting).clear();
        lock(&self.streams).clear();
    }

    fn ended(&self) -> LabError {
        let why = self.gone.get().cloned().unwrap_or_else(|| "its connection has ended".to_owned());
        LabError::Machine { machine: self.name.clone(), why }
    }

    /// Reads all messages until the end, and hands them to those who wait.
    fn listen(&self, mut reader: UnixStream) {
        let why = loop {
            let Packet { message, body } = match Packet::read(&mut reader) {
                Ok(Some(packet)) => packet,
                Ok(None) => break "its connection has ended".to_owned(),
                Err(error) => break format!("its connection has ended: {error}"),
            };
            match message {
                Message::Answer { id, answer } => {
                    if let Some(waiting) = lock(&self.waiting).remove(&id) {
                        // Fails only if the caller has given up.
                        let _ = waiting.send(answer);
                    }
                }
                Message::Data { id } => self.hand_over(id, body),
                Message::End { id } => drop(lock(&self.streams).remove(&id)),
                Message::Exited { id, status } => drop(lock(&self.exits).insert(id, status)),
                Message::Hello(_) | Message::Call { .. } | Message::Beat => {}
            }
        };
        self.give_up(why);
    }

    /// Hands bytes to their reader. Nobody may wait here: answers come on the same way.
    fn hand_over(&self, id: u64, bytes: Vec<u8>) {
        let mut streams = lock(&self.streams);
        let Some(stream) = streams.get(&id) else { return };
        if stream.push(bytes).is_err() {
            self.overflows.fetch_add(1, Relaxed);
            if matches!(stream, RemoteStream::Connection(_)) {
                streams.remove(&id);
            }
        }
    }

    fn beat(&self) {
        while self.write(&Message::Beat, &[]).is_ok() {
            thread::sleep(BEAT);
        }
    }

    /// Joins a client here with the socket there.
    fn connect(self: &Arc<Self>, path: &Path, mut client: UnixStream) -> Result<(), LabError> {
        let (queue, bytes) = byte_queue();
        let connect = AgentCall::Connect { path: path.to_owned() };
        let pending = self.send_with_stream(connect, RemoteStream::Connection(queue))?;
        let id = pending.id;
        let mut to_client = client.try_clone().map_err(|error| LabError::kernel("use a connection", error))?;
        thread::spawn(move || {
            for bytes in bytes {
                if to_client.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = to_client.shutdown(std::net::Shutdown::Both);
        });
        let link = Arc::clone(self);
        thread::spawn(move || {
            if pending.wait(ANSWER).is_ok() {
                let mut buffer = vec![0; CHUNK];
                while let Ok(length) = client.read(&mut buffer) {
                    if length == 0 || link.write(&Message::Data { id }, &buffer[..length]).is_err() {
                        break;
                    }
                }
                let _ = link.write(&Message::End { id }, &[]);
            }
            lock(&link.streams).remove(&id);
        });
        Ok(())
    }
}

#[derive(Debug)]
pub struct RemoteProcess {
    id: u64,
    link: Arc<RemoteLink>,
}

impl RemoteProcess {
    /// Returns the status, as the system gives it, of a program that has ended. Without its machine it counts as killed.
    pub(super) fn status(&self) -> Option<i32> {
        let ended = lock(&self.link.exits).get(&self.id).copied();
        ended.or_else(|| self.link.gone.get().map(|_| libc::SIGKILL))
    }

    /// Sends a signal without waiting. If its machine is gone, so is the program.
    pub(super) fn signal(&self, signal: i32) {
        let _ = RemoteLink::send(&self.link, AgentCall::Signal { process: self.id, signal }, &[]);
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        lock(&self.link.usages).get(&self.id).copied()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
