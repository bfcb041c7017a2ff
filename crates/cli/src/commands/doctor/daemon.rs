//! Findings from the daemon's status.

use std::time::{Duration, SystemTime};

use roost_api::{HubConnection, State, Status};
use roost_identity::{Refusal, Side};
use roost_wire::format_node;

use super::super::date;
use super::super::status::{certificate_end, last_error as last_said};
use super::{Finding, HubAnswer};

/// A certificate that ends sooner than this should be renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(super) fn check(status: &Status, answer: HubAnswer) -> Vec<Finding> {
    let mut findings = vec![
        Finding::ok("daemon", format!("{} ({}) of group {} answers", status.name, status.role, status.group)),
        version(status),
        certificate(status),
        hub(status, answer),
        listening(status),
    ];
    findings.extend(hierarchy(status));
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
    let end = certificate_end(status);
    let renew = "renew it (roost group renew), put its identity.pem in place and send SIGHUP to the daemon";
    match end.duration_since(SystemTime::now()) {
        Err(_) => Finding::fail("certificate", format!("the daemon's certificate ended {}", date(end)), renew),
        Ok(left) if left < RENEW_BEFORE => {
            Finding::warn("certificate", format!("the daemon's certificate ends {}", date(end)), renew)
        }
        Ok(_) => Finding::ok("certificate", format!("valid until {}", date(end))),
    }
}

fn hub(status: &Status, answer: HubAnswer) -> Finding {
    match (&status.hub, status.state) {
        (Some(hub), _) if answer == HubAnswer::Silent => {
            let found = format!("{} at {} does not answer", format_node(hub.node, Some(&hub.name)), hub.address);
            Finding::fail("hub", found, SILENT)
        }
        (Some(hub), _) => {
            Finding::ok("hub", format!("attached to {} at {}", format_node(hub.node, Some(&hub.name)), hub.address))
        }
        (None, State::Listening) => Finding::ok("hub", "it is one itself"),
        (None, State::Draining) => Finding::warn("hub", "the daemon is on its way out", "start it again"),
        (None, _) => {
            let why = status.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let fix = status.last_error.as_deref().map_or(UNREACHED, suggest_fix);
            Finding::fail("hub", format!("not attached to any{why}"), fix)
        }
    }
}

/// Checks that the super nodes of a super node's configuration are connected.
fn hierarchy(status: &Status) -> Option<Finding> {
    if status.hubs.is_empty() {
        return None;
    }
    let down: Vec<&HubConnection> = status.hubs.iter().filter(|hub| hub.up_s.is_none()).collect();
    let told: Vec<String> =
        down.iter().map(|hub| format!("the {} {}", hub.relation.name(), super::super::hub_connection(hub))).collect();
    let fix = down.iter().find_map(|hub| hub.reason.as_deref()).map_or(UNREACHED_HUB, fix_of_hub);
    let found = told.join("; ");
    Some(match status.index {
        _ if down.is_empty() => Finding::ok("super nodes", "all configured super nodes are connected"),
        Some(index) if index.cut_off => Finding::fail("super nodes", format!("cut off from above: {found}"), fix),
        _ => Finding::warn("super nodes", format!("not connected: {found}"), fix),
    })
}

/// The remedy for an unreachable super node, unless its reason names a certificate or a tier.
const UNREACHED_HUB: &str = "check `parent` and `sibling` in its configuration, that the other super node runs, and that UDP, TCP or QUIC reaches it";

/// The remedy for a super node that cannot be reached for this reason.
fn fix_of_hub(reason: &str) -> &'static str {
    if reason.contains("tier") {
        return "give the parent a greater `tier` than its children, and restart it";
    }
    match suggest_fix(reason) {
        UNREACHED => UNREACHED_HUB,
        fix => fix,
    }
}

/// The remedy for a hub that does not answer.
const SILENT: &str =
    "check that the hub runs and that the network reaches it; the node changes to its standby by itself";

/// The remedy for an unreachable hub, unless its error names a certificate.
const UNREACHED: &str = "check `super` in its configuration, that the hub runs, and that UDP, TCP or QUIC reaches it";

/// The remedy for an error of a daemon that is not attached.
/// The words of the refusal of another datum (`Hello::refusal`).
const OTHER_DATUM: &str = "a cell would be two places";

fn suggest_fix(error: &str) -> &'static str {
    if error.contains(OTHER_DATUM) {
        return "compare `roost status` here and at the hub with `roost group show`; upgrade Roost where it tells no grid, \
                and let the host with another grid join the group again";
    }
    let refused = |side: Side| Refusal::ALL.into_iter().find(|refusal| error.contains(&side.sentence(*refusal)));
    match (refused(Side::Remote), refused(Side::Local)) {
        (Some(refusal), _) => fix_of_ours(refusal),
        (None, Some(refusal)) => fix_of_hubs(refusal),
        (None, None) => UNREACHED,
    }
}

/// The remedy if the hub refuses the daemon's certificate.
const fn fix_of_ours(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Revoked => {
            "if it belongs to the group, issue the member again (roost group issue, into a new directory with -o), \
             put that identity in place and restart the daemon"
        }
        Refusal::Expired => {
            "if both clocks are right, renew its certificate (roost group renew), put its identity.pem in place and \
             send SIGHUP to the daemon"
        }
        Refusal::Malformed => {
            "issue the member again (roost group issue, into a new directory with -o), put that identity in place \
             and restart the daemon"
        }
        Refusal::NotYetValid => "set the clocks of this host and of the hub's, then wait for the next attempt",
        Refusal::UnknownAuthority | Refusal::WrongGroup => {
            "give the daemon an identity that the hub's group has issued (roost group issue), or name a hub of its own group"
        }
        Refusal::WrongRole => "give the daemon an identity of its own role (roost group issue --role node)",
    }
}

/// The remedy if the daemon refuses the hub's certificate.
const fn fix_of_hubs(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Revoked | Refusal::Expired | Refusal::Malformed => {
            "issue the hub again (roost group issue, into a new directory with -o), put that identity in place \
             and restart the hub"
        }
        Refusal::NotYetValid => "set the clocks of this host and of the hub's, then wait for the next attempt",
        Refusal::UnknownAuthority | Refusal::WrongGroup => {
            "name a hub of the daemon's own group, or give the daemon an identity of the hub's group"
        }
        Refusal::WrongRole => "name super nodes under `super` and servers under `server`",
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
    let fix = "the log line `remotes were refused` names them and their addresses; issue a new identity to members of the group";
    (!counts.is_empty()).then(|| Finding::warn("refused", format!("remotes refused: {}", counts.join(", ")), fix))
}

fn last_error(status: &Status) -> Option<Finding> {
    let error = last_said(status).filter(|_| status.state != State::Attaching)?;
    let fix = "check the daemon's log for later errors; a restart clears this one";
    Some(Finding::warn("last error", error, fix))
}

#[cfg(test)]
mod tests {
    use roost_api::{IndexTotals, TransportTotals};
    use roost_terminal::Verdict;

    use super::*;

    #[test]
    fn parent_down_warns_and_isolation_fails() {
        let connection = |name: &str, up: bool| -> HubConnection {
            let mut hub = serde_json::json!({ "relation": "parent", "endpoints": [name] });
            hub[if up { "up_s" } else { "down_s" }] = 5.0.into();
            serde_json::from_value(hub).unwrap()
        };
        let verdict = |hubs: Vec<HubConnection>, cut_off| {
            let index = IndexTotals { cut_off, ..IndexTotals::default() };
            hierarchy(&Status { hubs, index: Some(index), ..status() }).map(|finding| finding.verdict)
        };
        assert_eq!(verdict(Vec::new(), false), None, "one super node alone lacks nobody");
        assert_eq!(verdict(vec![connection("a", true)], false), Some(Verdict::Ok));
        assert_eq!(verdict(vec![connection("a", true), connection("b", false)], false), Some(Verdict::Warn));
        assert_eq!(verdict(vec![connection("b", false)], true), Some(Verdict::Fail));
        assert!(fix_of_hub("a child's tier must be below its parent's").contains("`tier`"));
        assert_eq!(fix_of_hub("no answer"), UNREACHED_HUB);
    }

    fn status() -> Status {
        serde_json::from_value(serde_json::json!({
            "schema": 2, "role": "supernode", "name": "sn1", "group": "g", "node": "aa".repeat(16), "version": "1",
            "state": "listening", "started_unix_s": 1, "uptime_s": 1.0, "certificate_not_after_unix_s": 1,
            "listen": [], "transport": TransportTotals::default(), "traffic_sent_bytes": {}
        }))
        .unwrap()
    }

    #[test]
    fn refusal_finding_suggests_fix() {
        for (side, refusal, part) in [
            (Side::Remote, Refusal::Revoked, "issue the member again"),
            (Side::Remote, Refusal::NotYetValid, "clocks"),
            (Side::Local, Refusal::Revoked, "issue the hub again"),
            (Side::Local, Refusal::WrongRole, "`server`"),
        ] {
            let error = format!("cannot attach: udp://10.0.0.1:7700: {}", side.sentence(refusal));
            assert!(suggest_fix(&error).contains(part), "{error}: {}", suggest_fix(&error));
        }
        assert_eq!(suggest_fix("cannot attach: udp://10.0.0.1:7700: no answer"), UNREACHED);
    }
}
