//! The shell of reflection: a thread and a socket for one of its machines.
//!
//! Packets wait for nothing that the control plane does, nor that for packets. The daemon reaches the machine
//! by commands; a [`RelayHandler`] hands them in, and the machine's outputs across.

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

/// A relay has stopped; see [`RelayMailbox::start`].
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
    /// The machine.
    type Machine: ReflectionMachine + Send + 'static;
    /// A command of the daemon.
    type Command: Send + 'static;

    /// The machine's input for a command.
    fn translate(&mut self, command: Self::Command) -> <Self::Machine as ReflectionMachine>::Input;

    /// Acts on an output of the machine.
    fn handle_output(&mut self, output: <Self::Machine as ReflectionMachine>::Output);
}

/// A look at the machine between two of its steps.
type RelayInspection<H> = Box<dyn FnOnce(&<H as RelayHandler>::Machine, Time) + Send>;

enum RelayMessage<H: RelayHandler> {
    Command(H::Command),
    Inspect(RelayInspection<H>),
}

/// Reaches a relay that runs. Clones reach the same one; it stops once all are gone.
pub struct RelayMailbox<H: RelayHandler> {
    letters: CommandSender<RelayMessage<H>>,
    passed: Arc<Passed>,
    clock: RelayClock,
}

impl<H: RelayHandler> Clone for RelayMailbox<H> {
    fn clone(&self) -> Self {
        Self { letters: self.letters.clone(), passed: Arc::clone(&self.passed), clock: self.clock }
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

impl<H: RelayHandler> RelayMailbox<H> {
    /// Starts a relay on a thread of its own, with the machine that is made of a secret seed. If its socket fails
    /// for good, or one of its steps, `gone` is called there with a sentence that says so; commands come to
    /// nothing from then on.
    ///
    /// # Errors
    /// When the system gives no thread, timer or randomness.
    pub fn start(
        bound: MediaSocket,
        machine: impl FnOnce([u8; 32]) -> H::Machine,
        handler: H,
        gone: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<Self> {
        let mut seed = [0; 32];
        crate::random_bytes(&mut seed)?;
        let (letters, received) = command_queue();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (passed, clock) = (Arc::<Passed>::default(), RelayClock::start());
        let ends = RelayEnds { machine: machine(seed), handler };
        let shell = RelayDriver::new(bound.socket, ends, received, (Arc::clone(&passed), clock));
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
        Ok(Self { letters, passed, clock })
    }

    /// The time of the relay's machine.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Gives a command, waiting while too many wait already.
    ///
    /// # Errors
    /// [`RelayStopped`].
    pub async fn command(&self, command: H::Command) -> Result<(), RelayStopped> {
        Ok(self.letters.send(RelayMessage::Command(command)).await?)
    }

    /// Whether there is no relay any more.
    pub fn is_stopped(&self) -> bool {
        self.letters.is_gone()
    }

    /// Gives a command from where one cannot wait, after all that were given before. A relay that is
    /// 65,536 such commands behind loses them, and the log says so.
    pub fn post(&self, command: H::Command) {
        self.letters.post(RelayMessage::Command(command));
    }

    /// Looks at the machine; `None` if it is gone.
    pub async fn inspect<R, F>(&self, look: F) -> Option<R>
    where
        R: Send + 'static,
        F: FnOnce(&H::Machine, Time) -> R + Send + 'static,
    {
        let (answer, receiver) = oneshot::channel();
        // The requester may have lost interest meanwhile.
        let look: RelayInspection<H> = Box::new(move |machine, now| drop(answer.send(look(machine, now))));
        self.letters.send(RelayMessage::Inspect(look)).await.ok()?;
        receiver.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use roost_reflection::relay::RelayConfig;
    use roost_reflection::{HubInput, HubOutput, HubReflection};

    use super::*;

    /// Stumbles over any command.
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
