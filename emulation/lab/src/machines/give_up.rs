//! The end of all conversations when the user wants no lab any more, while one is made.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::remote::RemoteMachine;
use crate::{Interrupt, LabError};

const LOOK: Duration = Duration::from_millis(50);

/// Ends the conversations upon an interrupt, until it is dropped. Whoever waits for an answer fails at once, and agents
/// end with their conversations.
pub(super) struct GiveUp {
    _end: Sender<()>,
}

impl GiveUp {
    pub(super) fn on_interrupt(interrupt: &Interrupt, machines: &[Arc<RemoteMachine>]) -> Result<Self, LabError> {
        let (interrupt, machines) = (interrupt.clone(), machines.to_vec());
        let (end, ended) = mpsc::channel();
        let watch = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if interrupt.is_set() {
                    machines.iter().for_each(|machine| machine.give_up("interrupted"));
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name("interrupt".to_owned()).spawn(watch);
        spawned.map_err(|error| LabError::kernel("start a thread", error))?;
        Ok(Self { _end: end })
    }
}
