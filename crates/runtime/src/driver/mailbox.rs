//! The way of other tasks to a machine.

use roost_core::machine::Machine;
use roost_wire::Time;
use tokio::sync::oneshot;

use crate::command_queue::{self, CommandReceiver, CommandSender, command_queue};

pub(super) enum MachineMessage<M: Machine> {
    Command(M::Command),
    /// A look at the machine between two inputs.
    Inspect(MachineInspection<M>),
}

type MachineInspection<M> = Box<dyn FnOnce(&M, Time) + Send>;

pub(super) struct MachineQueue<M: Machine>(CommandReceiver<MachineMessage<M>>);

impl<M: Machine> MachineQueue<M> {
    /// Waits for messages; for ever once all senders are gone.
    pub(super) async fn recv_many(&mut self, into: &mut Vec<MachineMessage<M>>, max: usize) {
        if self.0.recv_many(into, max).await == 0 {
            std::future::pending::<()>().await;
        }
    }
}

pub(super) fn mailbox<M: Machine>() -> (Mailbox<M>, MachineQueue<M>) {
    let (sender, receiver) = command_queue();
    (Mailbox { sender }, MachineQueue(receiver))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the daemon is shutting down")]
pub struct DriverStopped;

impl From<command_queue::QueueClosed> for DriverStopped {
    fn from(_: command_queue::QueueClosed) -> Self {
        Self
    }
}

/// The way to a machine that a driver runs. Clones lead to the same machine.
pub struct Mailbox<M: Machine> {
    sender: CommandSender<MachineMessage<M>>,
}

impl<M: Machine> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<M: Machine> Mailbox<M> {
    /// Gives the machine a command; waits while the mailbox is full.
    ///
    /// # Errors
    /// [`DriverStopped`] when the machine is no longer driven.
    pub async fn command(&self, command: M::Command) -> Result<(), DriverStopped> {
        Ok(self.sender.send(MachineMessage::Command(command)).await?)
    }

    /// Looks at the machine between two inputs.
    ///
    /// # Errors
    /// [`DriverStopped`] when the machine is no longer driven.
    pub async fn inspect<R, F>(&self, look: F) -> Result<R, DriverStopped>
    where
        R: Send + 'static,
        F: FnOnce(&M, Time) -> R + Send + 'static,
    {
        let (answer, receiver) = oneshot::channel();
        // The caller may have been dropped.
        let look = Box::new(move |machine: &M, now| drop(answer.send(look(machine, now))));
        self.sender.send(MachineMessage::Inspect(look)).await?;
        receiver.await.map_err(|_| DriverStopped)
    }

    /// Gives the machine a command without waiting, after all earlier commands. If 65,536 such commands wait, more are
    /// dropped and logged.
    pub fn post(&self, command: M::Command) {
        self.sender.post(MachineMessage::Command(command));
    }
}
