//! The contract between the machines of this crate and their drivers.

use roost_wire::Time;

use crate::datagram_path::DatagramPath;
use crate::relay::Relay;
use crate::transmit::{SendOutcome, Transmit};

/// A host's part of reflection, without I/O: [`NodeReflection`](crate::NodeReflection) of a node and
/// [`HubReflection`](crate::HubReflection) of a hub.
///
/// ```text
/// loop {
///     wait until datagrams or inputs come, the socket has room, or poll_deadline
///     handle_input and handle_datagram for each that is there (up to some ten)
///     handle_timeout
///     end_batch
///     while poll_output is something { act on it }
///     while poll_transmit is something { send it; record_outcome; leave off if the socket is full, or after a while }
///     while poll_output is something { act on it }
/// }
/// ```
pub trait ReflectionMachine {
    type Input;
    type Output;

    fn relay(&self) -> &Relay;

    fn handle_input(&mut self, now: Time, input: Self::Input);

    /// Takes a datagram of the media socket.
    fn handle_datagram(&mut self, now: Time, path: DatagramPath, datagram: &[u8]);

    /// Does everything that is due.
    fn handle_timeout(&mut self, now: Time);

    /// Ends a batch of inputs and datagrams: packets that wait for more of their kind leave.
    fn end_batch(&mut self, now: Time);

    /// The next datagrams to send, each with its outcome to record.
    fn poll_transmit(&mut self, now: Time) -> Option<Transmit>;

    fn record_outcome(&mut self, now: Time, transmit: &Transmit, outcome: SendOutcome);

    fn poll_output(&mut self, now: Time) -> Option<Self::Output>;

    fn poll_deadline(&self) -> Option<Time>;
}
