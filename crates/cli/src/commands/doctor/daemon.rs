//! What the daemon itself tells.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_control::{State, Status};

use super::super::date;
use super::Finding;

/// A certificate that ends sooner than this should be renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Everything that can be seen in a daemon's status.
pub(super) fn check(status: &Status) -> Vec<Finding> {
    let mut findings = vec![
        Finding::ok("daemon", format!("{} ({}) of group {} answers", status.name, status.role, status.group)),
        version(status),
        certificate(status),
        hub(status),
        listening(status),
    ];
    findings.extend(refused(status));
    findings.extend(last_error(status));
    findings
}

fn version(status: &Status) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    if status.version == ours {
        return Finding::ok("version", format!("both sides are {ours}"));
    }
    let found = format!("the daemon is {}, this command {ours}", status.version);
    Finding::warn("version", found, "install the same release of both and restart the daemon")
}

fn certificate(status: &Status) -> Finding {
    let end = UNIX_EPOCH + Duration::from_secs(status.certificate_not_after_unix_s);
    let renew = "issue the identity again (roost group issue), put it in place and restart the daemon";
    match end.duration_since(SystemTime::now()) {
        Err(_) => Finding::fail("certificate", format!("the daemon's certificate ended {}", date(end)), renew),
        Ok(left) if left < RENEW_BEFORE => {
            Finding::warn("certificate", format!("the daemon's certificate ends {}", date(end)), renew)
        }
        Ok(_) => Finding::ok("certificate", format!("valid until {}", date(end))),
    }
}

fn hub(status: &Status) -> Finding {
    match (&status.hub, status.state) {
        (Some(hub), _) => Finding::ok("hub", format!("attached to {} at {}", hub.name, hub.address)),
        (None, State::Listening) => Finding::ok("hub", "it is one itself"),
        (None, State::Draining) => Finding::warn("hub", "the daemon is on its way out", "start it again"),
        (None, _) => {
            let why = status.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let fix = "check `super` in its configuration, that the hub runs, and that UDP, TCP or QUIC gets there";
            Finding::fail("hub", format!("not attached to any{why}"), fix)
        }
    }
}

fn listening(status: &Status) -> Finding {
    if status.listen.is_empty() {
        let fix = "set `listen`, so that others can answer it directly";
        return Finding::warn("ports", "the daemon listens nowhere: all data goes through the hub", fix);
    }
    Finding::ok("ports", format!("listens on {}", status.listen.join(" ")))
}

fn refused(status: &Status) -> Option<Finding> {
    let counts: Vec<String> = status
        .refused
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    let fix = "its log names them; issue them a new identity if they belong to the group";
    (!counts.is_empty()).then(|| Finding::warn("refused", format!("peers turned away: {}", counts.join(", ")), fix))
}

fn last_error(status: &Status) -> Option<Finding> {
    let attached = status.state != State::Attaching;
    let error = status.last_error.as_ref().filter(|_| attached)?;
    Some(Finding::warn("last error", error.clone(), "nothing, if it is over; else its log has more"))
}
