//! The shell of the relay that reflected streams pass through.
//!
//! It has a thread and a socket of its own, so that packets wait for nothing
//! that the control plane does, nor that for packets. Its owner reaches it by
//! orders; what an order means, and what becomes of packets that are watched
//! here, is for the [`RelayHandler`].

mod media_address;
mod metrics;
mod relay_driver;
pub mod rows;

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use roost_proto::Time;
use roost_proto::reflection::StreamId;
use roost_reflection::relay::{RelayConfig, RelayEvent};
use roost_reflection::{Relay, Socket};
use tokio::sync::oneshot;

use crate::command_queue::{QueueClosed, Sender, command_queue};

pub use media_address::MediaAddress;
pub use metrics::MediaMetrics;
use metrics::Passed;
use relay_driver::RelayDriver;

/// A relay has stopped; see [`RelayMailbox::start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the relay of reflected streams has stopped: read the daemon's log, then restart the daemon")]
pub struct RelayStopped;

impl From<QueueClosed> for RelayStopped {
    fn from(_: QueueClosed) -> Self {
        Self
    }
}

/// Where streams begin or end at this host, if any do.
pub trait RelayHandler: Send + 'static {
    /// What the owner may ask.
    type RelayCommand: Send + 'static;

    /// Carries out what the owner asks.
    fn handle_command(&mut self, now: Time, relay: &mut Relay, order: Self::RelayCommand);

    /// Takes a packet of a stream that is watched here.
    fn deliver(&mut self, now: Time, stream: StreamId, packet: &[u8]);

    /// Acts on what the relay tells.
    fn event(&mut self, now: Time, relay: &mut Relay, event: RelayEvent);

    /// When it has something to do by itself.
    fn poll_deadline(&self) -> Option<Time>;

    /// That time has come, or another one.
    fn handle_timeout(&mut self, now: Time, relay: &mut Relay);
}

/// A look at the relay between two of its steps.
type RelayInspection<E> = Box<dyn FnOnce(&Relay, &E, Time) + Send>;

enum RelayMessage<E: RelayHandler> {
    Order(E::RelayCommand),
    Look(RelayInspection<E>),
}

/// Reaches a relay that runs. Clones reach the same one; it stops once all are gone.
pub struct RelayMailbox<E: RelayHandler> {
    letters: Sender<RelayMessage<E>>,
    passed: Arc<Passed>,
}

impl<E: RelayHandler> Clone for RelayMailbox<E> {
    fn clone(&self) -> Self {
        Self { letters: self.letters.clone(), passed: Arc::clone(&self.passed) }
    }
}

/// A socket for a relay, bound.
pub struct MediaSocket {
    socket: Socket,
    address: SocketAddr,
}

impl MediaSocket {
    /// Binds a relay's socket.
    ///
    /// # Errors
    /// When the address is in use or not this machine's.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::bind(address, true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Where it is, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl<E: RelayHandler> RelayMailbox<E> {
    /// Starts a relay on a thread of its own. If its socket fails for good, or one of its steps,
    /// `gone` is called there with a sentence that says so; orders come to nothing from then on.
    ///
    /// # Errors
    /// When the system gives no thread, timer or randomness.
    pub fn start(
        bound: MediaSocket,
        config: RelayConfig,
        ends: E,
        gone: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<Self> {
        let mut seed = [0; 32];
        crate::random_bytes(&mut seed)?;
        let (letters, received) = command_queue();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let passed = Arc::<Passed>::default();
        let shell = RelayDriver::new(bound.socket, Relay::new(config, seed), ends, received, Arc::clone(&passed));
        let run = move || {
            let why = match catch_unwind(AssertUnwindSafe(|| runtime.block_on(shell.run()))) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => format!("its socket fails: {error}"),
                Err(_) => "it panicked; the panic is above in the log".to_owned(),
            };
            let sentence = format!("the relay of reflected streams has stopped, restart the daemon: {why}");
            tracing::error!("{sentence}");
            gone(sentence);
        };
        std::thread::Builder::new().name("media".to_owned()).spawn(run)?;
        Ok(Self { letters, passed })
    }

    /// Gives an order, waiting while too many wait already.
    ///
    /// # Errors
    /// [`RelayStopped`].
    pub async fn command(&self, order: E::RelayCommand) -> Result<(), RelayStopped> {
        Ok(self.letters.send(RelayMessage::Order(order)).await?)
    }

    /// Whether there is no relay any more.
    pub fn is_stopped(&self) -> bool {
        self.letters.is_gone()
    }

    /// Gives an order from where one cannot wait, after all that were given before. A relay that is
    /// 65,536 such orders behind loses them, and the log says so.
    pub fn post(&self, order: E::RelayCommand) {
        self.letters.post(RelayMessage::Order(order));
    }

    /// Looks at the relay; `None` if it is gone.
    pub async fn inspect<R, F>(&self, look: F) -> Option<R>
    where
        R: Send + 'static,
        F: FnOnce(&Relay, &E, Time) -> R + Send + 'static,
    {
        let (answer, receiver) = oneshot::channel();
        // The requester may have lost interest meanwhile.
        let look: RelayInspection<E> = Box::new(move |relay, ends, now| drop(answer.send(look(relay, ends, now))));
        self.letters.send(RelayMessage::Look(look)).await.ok()?;
        receiver.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stumbles over any order.
    struct Clumsy;

    impl RelayHandler for Clumsy {
        type RelayCommand = ();

        fn handle_command(&mut self, _: Time, _: &mut Relay, (): ()) {
            panic!("as tests do");
        }

        fn deliver(&mut self, _: Time, _: StreamId, _: &[u8]) {}

        fn event(&mut self, _: Time, _: &mut Relay, _: RelayEvent) {}

        fn poll_deadline(&self) -> Option<Time> {
            None
        }

        fn handle_timeout(&mut self, _: Time, _: &mut Relay) {}
    }

    #[tokio::test]
    async fn stopped_relay_fails_its_callers() {
        let (told, hears) = oneshot::channel();
        let bound = MediaSocket::at(([127, 0, 0, 1], 0).into()).unwrap();
        let gone = |sentence| told.send(sentence).unwrap();
        let media = RelayMailbox::start(bound, RelayConfig::default(), Clumsy, gone).unwrap();
        assert_eq!(media.inspect(|relay, _, now| relay.streams(now).count()).await, Some(0));
        assert!(!media.is_stopped());
        media.post(());
        let sentence = hears.await.unwrap();
        assert!(sentence.contains("restart the daemon"), "{sentence}");
        assert!(media.is_stopped());
        assert_eq!(media.command(()).await, Err(RelayStopped));
        assert_eq!(media.inspect(|_, _, _| ()).await, None);
    }
}
