//! Hands events between a hub's machine and its part of reflection.

use roost_core::hub::Hub;
use roost_reflection::{HubInput, HubOutput, HubReflection};

use crate::driver::Mailbox;
use crate::log_limiter::LogLimiter;
use crate::media::RelayHandler;

/// The relay thread's way to the hub's machine.
pub(super) struct HubRelayHandler {
    mailbox: Mailbox<Hub>,
    refused: LogLimiter,
}

impl HubRelayHandler {
    pub(super) fn new(mailbox: Mailbox<Hub>) -> Self {
        Self { mailbox, refused: LogLimiter::default() }
    }
}

impl RelayHandler for HubRelayHandler {
    type Machine = HubReflection;
    type Command = HubInput;

    fn translate(&mut self, command: HubInput) -> HubInput {
        command
    }

    fn handle_output(&mut self, output: HubOutput) {
        match output {
            HubOutput::Command(command) => self.mailbox.post(command),
            HubOutput::GrantRefused(reason) => {
                if let Some(suppressed) = self.refused.admit() {
                    tracing::warn!(%reason, suppressed, "a stream is not sent on");
                }
            }
            HubOutput::Event(event) => tracing::debug!(?event, "a reflected stream"),
        }
    }
}
