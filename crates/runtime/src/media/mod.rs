//! The driver of reflection: a thread and a socket for one of its machines.
//!
//! Packets do not wait for the control plane, nor the control plane for packets. The daemon reaches the machine by
//! commands; a [`RelayHandler`] hands commands to the machine and its outputs to the daemon.

mod media_address;
mod metrics;
mod relay_driver;
pub mod rows;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use roost_reflection::ReflectionMachine;
use roost_wire::Time;
use tokio::sync::oneshot;

use crate::command_queue::{CommandSender, QueueClosed, command_queue};

pub use media_address::MediaAddress;
pub use metrics::MediaMetrics;
use metrics::Passed;
use relay_driver::{RelayClock, RelayDriver, RelayEnds};
pub use socket::Socket;

/// The relay has stopped; see [`RelayMailbox::start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the relay of reflected streams has stopped: read the daemon's log, then restart the daemon")]
pub struct RelayStopped;

impl From<QueueClosed> for RelayStopped {
    fn from(_: QueueClosed) -> Self {
        Self
    }
}

/// Hands commands and outputs between a reflection machine and the rest of its daemon. It decides nothing.
pub trait RelayHandler: Send + 'static {
    type Machine: ReflectionMachine + Send + 'static;
    type Command: Send + 'static;

    fn translate(&mut self, command: Self::Command) -> <Self::Machine as ReflectionMachine>::Input;

    fn handle_output(&mut self, output: <Self::Machine as ReflectionMachine>::Output);
}

/// A look at the machine between two of its steps.
type RelayInspection<H> = Box<dyn FnOnce(&<H as RelayHandler>::Machine, Time) + Send>;

enum RelayMessage<H: RelayHandler> {
    Command(H::Command),
    Inspect(RelayInspection<H>),
}

/// The way to a running relay. Clones lead to the same relay, which stops once all are gone.
pub struct RelayMailbox<H: RelayHandler> {
    commands: CommandSender<RelayMessage<H>>,
    passed: Arc<Passed>,
    clock: RelayClock,
}

impl<H: RelayHandler> Clone for RelayMailbox<H> {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone(), passed: Arc::clone(&self.passed), clock: self.clock }
    }
}

pub struct MediaSocket {
    socket: Socket,
    address: SocketAddr,
}

impl MediaSocket {
    /// # Errors
    /// Fails if the address is in use or not this host's.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::bind(address)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// The bound address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl<H: RelayHandler> RelayMailbox<H> {
    /// Starts a relay on its own thread; `machine` gets a secret seed. If the socket fails for good or the machine
    /// panics, the thread calls `gone` with a sentence. Later commands do nothing.
    ///
    /// # Errors
    /// Fails if the system gives no thread, timer or randomness.
    pub fn start(
        bound: MediaSocket,
        machine: impl FnOnce([u8; 32]) -> H::Machine,
        handler: H,
        gone: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<Self> {
        let mut seed = [0; 32];
        crate::random_bytes(&mut seed)?;
        let (commands, received) = command_queue();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (passed, clock) = (Arc::<Passed>::default(), RelayClock::start());
        let ends = RelayEnds { machine: machine(seed), handler };
        let shell = RelayDriver::new(bound.socket, ends, received, Arc::clone(&passed), clock);
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
        Ok(Self { commands, passed, clock })
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Gives the machine a command; waits while too many wait already.
    pub async fn command(&self, command: H::Command) -> Result<(), RelayStopped> {
        Ok(self.commands.send(RelayMessage::Command(command)).await?)
    }

    pub fn is_stopped(&self) -> bool {
        self.commands.is_gone()
    }

    /// Gives the machine a command without waiting, after all earlier commands. If 65,536 such commands wait, more are
    /// dropped and logged.
    pub fn post(&self, command: H::Command) {
        self.commands.post(RelayMessage::Command(command));
    }

    /// Looks at the machine; `None` if the relay has stopped.
    pub async fn inspect<R, F>(&self, look: F) -> Option<R>
    where
        R: Send + 'static,
        F: FnOnce(&H::Machine, Time) -> R + Send + 'static,
    {
        let (answer, receiver) = oneshot::channel();
        // The caller may have been dropped.
        let look: RelayInspection<H> = Box::new(move |machine, now| drop(answer.send(look(machine, now))));
        self.commands.send(RelayMessage::Inspect(look)).await.ok()?;
        receiver.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use roost_reflection::relay::RelayConfig;
    use roost_reflection::{HubInput, HubOutput, HubReflection};

    use super::*;

    /// Panics at any command.
    struct Clumsy;

    impl RelayHandler for Clumsy {
        type Machine = HubReflection;
        type Command = ();

        fn translate(&mut self, (): ()) -> HubInput {
            panic!("as tests do");
        }

        fn handle_output(&mut self, _: HubOutput) {}
    }

    #[tokio::test]
    async fn stopped_relay_fails_its_callers() {
        let (told, hears) = oneshot::channel();
        let bound = MediaSocket::at(([127, 0, 0, 1], 0).into()).unwrap();
        let gone = |sentence| told.send(sentence).unwrap();
        let media =
            RelayMailbox::start(bound, |seed| HubReflection::new(RelayConfig::default(), seed), Clumsy, gone).unwrap();
        assert_eq!(media.inspect(|machine, now| machine.relay().streams(now).count()).await, Some(0));
        assert!(!media.is_stopped());
        media.post(());
        let sentence = hears.await.unwrap();
        assert!(sentence.contains("restart the daemon"), "{sentence}");
        assert!(media.is_stopped());
        assert_eq!(media.command(()).await, Err(RelayStopped));
        assert_eq!(media.inspect(|_, _| ()).await, None);
    }
}
