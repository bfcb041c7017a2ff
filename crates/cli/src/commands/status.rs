//! `roost status`: the daemon on one screen.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_api::types::HubRow;
use roost_api::{DatumStatus, Following, HubConnection, OutboxTotals, PolicyStatus, Relation, State, Status, Transfer};
use roost_wire::{Role, format_node, printable};

use super::{bytes, connect, date, hub_connection, names, place, seconds};
use roost_terminal::Output;

use crate::failure::Outcome;

/// Prints the daemon's identity, its hubs, its work and its last error.
pub(crate) async fn run(socket: &Path, output: Output) -> Outcome {
    let status = connect(socket).await?.status().await?;
    if output.is_json() {
        return Ok(output.json(&status)?);
    }
    output.data(&screen(&status))?;
    if status.state == State::Attaching {
        output.say("It has no hub yet: `roost doctor` may tell why.");
    }
    Ok(())
}

fn policy(PolicyStatus { number, rules }: PolicyStatus) -> String {
    format!("number {number}, {rules} {}", if rules == 1 { "rule" } else { "rules" })
}

fn followed(Following { source, state, since_s }: &Following) -> String {
    let since = seconds(*since_s);
    match state.as_str() {
        "fix" => source.clone(),
        "no_fix" => format!("{source}, which has no fix for {since}"),
        "unreachable" => format!("{source}, which cannot be reached for {since}: see that gpsd runs there"),
        "unreadable" => format!("{source}, which cannot be read for {since}: its last elements count"),
        "expired" => format!("{source}, whose elements have no position for {since}: put newer ones into the file"),
        "out_of_reach" => format!("{source}, which is more than 2000 km from the datum's origin for {since}"),
        other => format!("{source}, {other} for {since}"),
    }
}

fn grid(DatumStatus { origin, cell }: &DatumStatus) -> String {
    format!("datum {origin}, cells of {cell}")
}

fn screen(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<12}{}", printable(&value));
        }
    };
    line("who", format!("{} ({}) of group {}", status.name, status.role, status.group));
    line("node", status.node.to_string());
    line("labels", status.labels.to_string());
    line("state", format!("{}, up {}, version {}", state(status.state), seconds(status.uptime_s), status.version));
    line("certificate", certificate(status));
    line("authority", authority(status));
    if let Some(number) = status.documents.get("revocations") {
        line("revocations", format!("list {number}"));
    }
    line("policy", status.policy.map(policy).unwrap_or_default());
    line("grid", status.datum.as_ref().map(grid).unwrap_or_default());
    line("place", status.cell.map(|cell| place(cell, status.place.as_ref())).unwrap_or_default());
    line("follows", status.following.as_ref().map(followed).unwrap_or_default());
    line("hub", hub(status.hub.as_ref()));
    line("standby", hub(status.standby.as_ref()));
    line("listens on", status.listen.join(" "));
    line("offers", names(&status.services));
    line("provides", transfers(&status.providing, "to"));
    line("receives", transfers(&status.receiving, "from"));
    line("outbox", outbox(status).unwrap_or_default());
    line("index", index(status));
    line("tier", tier(status));
    line("parents", hubs(status, |hub| hub.relation == Relation::Parent));
    line("beside", hubs(status, |hub| hub.relation == Relation::Sibling));
    let (sent, received) = (status.transport.sent_bytes, status.transport.received_bytes);
    line("traffic", format!("{} sent, {} received", bytes(sent), bytes(received)));
    line("messages", counts(status.traffic_sent_bytes.iter().map(|(class, count)| (class, bytes(*count)))));
    line("refused", counts(status.refused.iter().map(|(reason, count)| (reason, count.to_string()))));
    line("last error", last_error(status).unwrap_or_default());
    text
}

/// The daemon's last error, with its age.
pub(super) fn last_error(status: &Status) -> Option<String> {
    let ago = status.last_error_s.map(|past| format!(" ({} ago)", seconds(past)));
    Some(status.last_error.clone()? + &ago.unwrap_or_default())
}

fn certificate(status: &Status) -> String {
    let until = format!("valid until {}", date(certificate_end(status)));
    let failing = status.authority_failing_since_unix_s.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)));
    failing.map_or_else(|| until.clone(), |since| format!("{until}; cannot be renewed since {}", date(since)))
}

/// Nothing while the authority answers. Without it all goes on up to the certificate's end.
fn authority(status: &Status) -> String {
    let away = status.authority_away_since_unix_s.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)));
    let sentence = |since| format!("away since {}; all goes on until {}", date(since), date(certificate_end(status)));
    away.map(sentence).unwrap_or_default()
}

/// The last second of the daemon's certificate.
pub(super) fn certificate_end(status: &Status) -> SystemTime {
    // A time beyond the clock's own end counts as the epoch, which nobody issues.
    UNIX_EPOCH.checked_add(Duration::from_secs(status.certificate_not_after_unix_s)).unwrap_or(UNIX_EPOCH)
}

const fn state(state: State) -> &'static str {
    match state {
        State::Listening => "listening",
        State::Attaching => "attaching",
        State::Attached => "attached",
        State::MulticastOnly => "on its link, without a hub",
        State::Draining => "draining",
        _ => "unknown",
    }
}

fn hub(hub: Option<&HubRow>) -> String {
    let Some(hub) = hub else { return String::new() };
    let rtt = hub.rtt_ms.map(|rtt| format!(", round trip {rtt:.2} ms")).unwrap_or_default();
    let who = format_node(hub.node, Some(&hub.name));
    format!("{who}, {}, at {}{rtt}, since {}", hub.role, hub.address, seconds(hub.since_s))
}

/// The files that wait for their receivers; nothing if none does.
fn outbox(status: &Status) -> Option<String> {
    let OutboxTotals { files, bytes: size, oldest_s, .. } = status.outbox.filter(|outbox| outbox.files > 0)?;
    Some(format!("{files} files, {}, the oldest for {}", bytes(size), seconds(oldest_s as f64)))
}

fn index(status: &Status) -> String {
    let Some(index) = status.index else { return String::new() };
    let young = if index.warming_up { ", still learning" } else { "" };
    let kept = if status.role == Role::Server { "through caches" } else { "as a standby" };
    format!(
        "{} nodes, {} more {kept}, {} entries, {} other hubs, {} watches, {} relays{young}",
        index.nodes, index.replicas, index.entries, index.hubs, index.watches, index.relays
    )
}

/// The place of a super node in the hierarchy.
fn tier(status: &Status) -> String {
    let Some(index) = status.index.filter(|_| !status.hubs.is_empty()) else { return String::new() };
    let place = if index.parents_configured == 0 { ", a root" } else { "" };
    let cut_off = if index.cut_off { ", cut off from above" } else { "" };
    format!("{}{place}, {} below{cut_off}", index.tier, index.children)
}

/// Super nodes of certain relations to this one.
fn hubs(status: &Status, which: fn(&&HubConnection) -> bool) -> String {
    status.hubs.iter().filter(which).map(hub_connection).collect::<Vec<_>>().join(", ")
}

fn transfers(transfers: &[Transfer], way: &str) -> String {
    let one = |transfer: &Transfer| {
        let name = transfer.remote_name.as_deref();
        let other = transfer.remote.map(|node| format!(" {way} {}", format_node(node, name))).unwrap_or_default();
        format!("{}{other} ({}, {})", transfer.service, bytes(transfer.bytes), seconds(transfer.elapsed_s))
    };
    transfers.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn counts<'a>(counts: impl Iterator<Item = (&'a String, String)>) -> String {
    counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
