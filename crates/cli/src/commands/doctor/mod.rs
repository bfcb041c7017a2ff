//! `roost doctor`: finds faults and says how to fix them.

mod daemon;
mod host;
mod media;

use std::path::Path;

use roost_api::error::{Code as ApiCode, plain};
use roost_api::{Client, ClientError, Ping};
use roost_terminal::{Finding, Output, Verdict, show};

use crate::args::DoctorArgs;
use crate::failure::{Code, Failure, Outcome};

/// The default folder of a daemon's identity.
const IDENTITY: &str = "/etc/roost/identity";

/// The remedy for a daemon that does not answer, of which no more is known.
const START: &str = "start it (systemctl start overlay-node, or overlay-node --config FILE) or give its --socket";

/// Checks the daemon, the host and, if it is named, the identity.
pub(crate) async fn run(args: &DoctorArgs, socket: &Path, output: Output) -> Outcome {
    let mut findings = Vec::new();
    let (client, reached) = match Client::connect(socket).await {
        Ok(client) => {
            let status = client.status().await;
            (Some(client), status)
        }
        Err(error) => (None, Err(error)),
    };
    let reachable = reached.is_ok();
    let clock = host::check_clock(reached.as_ref().ok());
    match reached {
        Ok(status) => {
            // An idle node learns of its hub's death when it renews its lease.
            let hub = match client.filter(|_| status.hub.is_some()) {
                Some(client) => HubAnswer::from_ping(&client.ping(None).await),
                None => HubAnswer::Unasked,
            };
            findings.extend(daemon::check(&status, hub));
            if hub != HubAnswer::Silent {
                findings.extend(media::check(&status));
            }
        }
        Err(error) => {
            let Failure::Reported { message, .. } = Failure::from(error) else { return Err(Failure::ClosedPipe) };
            let dir = args.identity.as_deref().unwrap_or(Path::new(IDENTITY));
            let fix = host::explain_waiting(dir).unwrap_or_else(|| START.to_owned());
            findings.push(Finding::fail("daemon", message, fix));
        }
    }
    findings.extend(args.identity.iter().flat_map(|dir| host::check_identity(dir)));
    findings.extend(args.listen.iter().map(host::check_port));
    findings.extend([clock, host::check_buffers(), host::check_open_files()]);
    findings.iter_mut().for_each(|finding| finding.found = plain(&finding.found));
    show(&findings, output)?;
    verdict(&findings, reachable)
}

/// The hub's answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HubAnswer {
    Unasked,
    Answered,
    Silent,
}

impl HubAnswer {
    /// Only a time-out is silence: the connection may just have ended, or too many ask.
    fn from_ping(ping: &Result<Ping, ClientError>) -> Self {
        match ping {
            Err(ClientError::Api(error)) if error.code == ApiCode::TimedOut => Self::Silent,
            Ok(_) => Self::Answered,
            Err(_) => Self::Unasked,
        }
    }
}

fn verdict(findings: &[Finding], reachable: bool) -> Outcome {
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Fail).count();
    match failed {
        0 => Ok(()),
        _ if !reachable => Err(Failure::new(Code::Unreachable, "the daemon does not answer; its fix is above")),
        1 => Err(Failure::failed("one check failed; its fix is above")),
        _ => Err(Failure::failed(format!("{failed} checks failed; their fixes are above"))),
    }
}
