//! The program behind an offer, with its environment and its end.

use std::process::Stdio;

use roost_api::OfferRequest;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::args::OfferArgs;

/// A program with all that it starts, killed when this is dropped before its end.
pub(super) struct Program {
    pub(super) child: Child,
    group: Option<Pid>,
}

impl Program {
    pub(super) fn start(args: &OfferArgs, request: &OfferRequest, input: Stdio) -> Result<Self, String> {
        let [name, arguments @ ..] = args.program.as_slice() else { return Err("no program is named".to_owned()) };
        let mut command = Command::new(name);
        command.args(arguments).process_group(0).kill_on_drop(true).stdin(input).stdout(Stdio::piped());
        command.env("ROOST_REQUEST", request.request.to_string());
        command.env("ROOST_SERVICE", request.service.full_text());
        command.env("ROOST_REQUESTER", request.requester.to_string());
        command.env("ROOST_REQUESTER_NAME", request.requester_name.as_deref().unwrap_or_default());
        command.env("ROOST_DURATION_MS", request.duration_ms.map(|millis| millis.to_string()).unwrap_or_default());
        command.env("ROOST_WHERE", request.filter.to_string());
        command.env("ROOST_PARAMS", &request.params);
        let child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, group })
    }

    /// Waits for the program, which has closed its output.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        let status = self.child.wait().await.map_err(|error| format!("the program is lost: {error}"))?;
        self.group = None;
        if status.success() { Ok(()) } else { Err(format!("the program failed ({status})")) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The group may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
