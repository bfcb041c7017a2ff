//! The machine's status in the types of the local API.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_api::types::HubRow;
use roost_api::{self as control, Code, Error, Roster, SCHEMA, StreamRow, Transfer, WatchEvent};
use roost_core::node::{self, HomeStatus, RequestStatus, RequestSummary, SessionStatus, Ticket, Trace, TracedHop};
use roost_runtime::shared::millis;
use roost_wire::StreamId;
use roost_wire::messages::{Coverage, FlowDescription, LookupResult, Reason, WatchChange};
use roost_wire::object::digest_text;
use roost_wire::room::RoomMember;

use crate::metrics::reason_name;
use crate::tickets::{Accepted, Failure};

pub(crate) fn hub(home: &HomeStatus) -> HubRow {
    HubRow {
        node: home.hub.node,
        name: home.hub.name.clone(),
        role: home.hub.role,
        address: home.address.to_string(),
        rtt_ms: Some(millis(home.rtt)),
        since_s: home.attached.as_secs_f64(),
        protocol: Some(home.protocol.to_string()),
        clock_ahead_s: home.clock_ahead_s,
        media: home.media,
    }
}

pub(crate) fn providing(session: &SessionStatus) -> Transfer {
    Transfer {
        service: session.service,
        remote: Some(session.requester),
        remote_name: None,
        bytes: session.bytes,
        elapsed_s: session.age.as_secs_f64(),
    }
}

pub(crate) fn receiving(request: &RequestStatus) -> Transfer {
    Transfer {
        service: request.service,
        remote: request.provider,
        remote_name: None,
        bytes: request.bytes,
        elapsed_s: request.age.as_secs_f64(),
    }
}

/// Adds the services of streams that begin here, or that requests have.
pub(crate) fn name_streams(
    rows: &mut [StreamRow],
    machine: &node::NodeStatus,
    watched: impl Iterator<Item = (StreamId, Ticket)>,
) {
    let published = machine.publications.iter();
    let published =
        published.filter_map(|one| Some((one.stream?, one.service, Some(machine.cell), Some(machine.node))));
    let taken = watched.filter_map(|(stream, ticket)| {
        let request = machine.requests.iter().find(|request| request.ticket == ticket)?;
        Some((stream, request.service, request.cell, request.provider))
    });
    for (stream, service, cell, provider) in published.chain(taken) {
        let stream = stream.to_string();
        for row in rows.iter_mut().filter(|row| row.stream == stream) {
            (row.service, row.cell, row.provider) = (Some(service), cell, provider);
        }
    }
}

/// Marks the node's home among the remotes.
pub(crate) fn name_home(rows: &mut [StreamRow], home: &HomeStatus) {
    let Some(media) = home.media.map(|media| media.to_string()) else { return };
    let (node, name) = (Some(home.hub.node), Some(home.hub.name.clone()));
    for row in rows {
        for from in row.upstreams.iter_mut().filter(|from| from.address == media) {
            (from.node, from.name) = (node, name.clone());
        }
        for to in row.downstreams.iter_mut().filter(|to| to.address == media) {
            (to.node, to.name) = (node, name.clone());
        }
    }
}

pub(crate) fn lookup(found: &LookupResult, elapsed: Duration) -> control::Lookup {
    control::Lookup {
        schema: SCHEMA,
        coverage: coverage(found.coverage).to_owned(),
        candidates: found.candidates.iter().map(Into::into).collect(),
        elapsed_ms: millis(elapsed),
    }
}

const fn coverage(coverage: Coverage) -> &'static str {
    match coverage {
        Coverage::Complete => "complete",
        Coverage::FirstMatch => "first_match",
        Coverage::HubStarting => "hub_starting",
        Coverage::Partial => "partial",
        Coverage::UnreachableAbove => "unreachable_above",
    }
}

pub(crate) fn watch_event(change: &WatchChange) -> WatchEvent {
    WatchEvent {
        schema: SCHEMA,
        number: change.sequence,
        present: change.updated.iter().map(Into::into).collect(),
        gone: change.removed.clone(),
        gone_names: BTreeMap::new(),
    }
}

pub(crate) fn roster(members: &[RoomMember]) -> Roster {
    let row = |member: &RoomMember| control::Member {
        node: member.node,
        cell: member.cell,
        services: member.services.iter().collect(),
        name: None,
    };
    Roster { schema: SCHEMA, members: members.iter().map(row).collect() }
}

pub(crate) fn accepted(ticket: Ticket, accepted: &Accepted) -> control::Accepted {
    let mut row = control::Accepted {
        request: Some(ticket.0),
        provider: accepted.provider,
        provider_name: None,
        cell: accepted.cell,
        place: None,
        transport: accepted.scheme,
        relayed: accepted.relayed,
        reflected: accepted.reflected,
        format: String::new(),
        bytes: None,
        sha256: None,
        offset: None,
        duration_ms: None,
        bits_per_second: None,
    };
    match &accepted.flow {
        FlowDescription::Stream { duration_ms, bits_per_second, format } => {
            row.format.clone_from(format);
            // A stream without an end has the greatest number.
            row.duration_ms = Some(*duration_ms).filter(|millis| *millis < u32::MAX);
            row.bits_per_second = Some(*bits_per_second);
        }
        FlowDescription::Object { bytes, digest, format, offset, .. } => {
            row.format.clone_from(format);
            row.bytes = Some(*bytes);
            row.sha256 = Some(digest_text(digest));
            row.offset = *offset;
        }
    }
    row
}

/// The error of a request that failed.
pub(crate) fn failure(failure: Failure) -> Error {
    let Failure { reason, detail, retry_after, sentence } = failure;
    let retry_after_ms = retry_after.and_then(|after| u32::try_from(after.as_millis()).ok());
    let provider_reason = sentence.map(|sentence| sentence.to_string());
    Error { retry_after_ms, provider_reason, ..Error::new(reason.into(), detail) }
}

pub(crate) fn summary(summary: &RequestSummary, unread: u64) -> control::TransferSummary {
    control::TransferSummary {
        provider: summary.provider,
        provider_name: None,
        cell: summary.cell,
        place: None,
        transport: summary.scheme,
        relayed: summary.relayed,
        reflected: summary.reflected,
        bytes: summary.bytes,
        packets: summary.packets,
        lost: summary.lost,
        late: summary.late,
        reordered: summary.reordered,
        duplicates: summary.duplicates,
        unread,
        jitter_ms: millis(summary.jitter),
        first_byte_ms: (summary.bytes > 0).then(|| millis(summary.first_byte)),
        elapsed_ms: millis(summary.elapsed),
        interruptions: summary.interruptions,
        interrupted_ms: millis(summary.interrupted),
        digest_ok: summary.digest_ok,
        complete: summary.complete,
    }
}

/// The fault of a transfer that has ended, if there is one.
pub(crate) fn damage(summary: &RequestSummary) -> Option<Error> {
    if summary.digest_ok == Some(false) {
        return Some(Error::new(Code::Incomplete, "what came is damaged: its digest is not the provider's"));
    }
    if summary.complete {
        return None;
    }
    if summary.reason == Some(Reason::SourceFailed) && summary.bytes == 0 {
        let nothing = "nothing came: the provider's source gives nothing, or its file changed meanwhile";
        return Some(Error::new(Code::Refused, nothing));
    }
    let why = match summary.reason {
        Some(Reason::Leaving) => "the provider left",
        Some(Reason::SourceFailed) => "the provider's source gave out, or its file changed meanwhile",
        Some(Reason::Cancelled) => "it was cancelled, or nobody read it for as long as its patience",
        Some(Reason::TimedOut) if summary.stalled => "the provider brought next to nothing for as long as its patience",
        Some(Reason::Unreachable | Reason::TimedOut) | None => "the provider fell silent and nobody went on with it",
        Some(Reason::Reflected) => "the provider reflects it from now on, which this node cannot take",
        Some(_) => "the other end broke it off",
    };
    let why = match &summary.broken {
        Some(broken) => format!("the connection with the provider has ended: {broken}"),
        None => why.to_owned(),
    };
    let message = format!("the transfer is incomplete after {} bytes: {why}", summary.bytes);
    Some(Error::new(Code::Incomplete, message))
}

/// The way of a request: the hubs' reports in the order of their arrival, then the provider's.
pub(crate) fn trace(trace: &Trace) -> control::Trace {
    let mut hops: Vec<&TracedHop> = trace.hops.iter().collect();
    hops.sort_by_key(|TracedHop { hop, heard, .. }| (hop.step.is_of_provider(), *heard));
    let micros = |micros: u32| millis(Duration::from_micros(micros.into()));
    // The host that handed the request on told the receiver's name.
    let named = |node| hops.iter().find(|hop| hop.hop.other == Some(node)).and_then(|hop| hop.hop.name.clone());
    let row = |TracedHop { hop, name, heard }: &TracedHop| control::TraceHop {
        number: hop.index,
        node: hop.node,
        name: name.clone().or_else(|| named(hop.node)),
        tier: hop.tier,
        step: hop.step.name().to_owned(),
        reason: hop.reason.map(|reason| reason_name(reason).to_owned()),
        other: hop.other,
        other_name: hop.name.clone(),
        held_ms: micros(hop.elapsed_us),
        reached_ms: hop.connected_us.map(micros),
        round_trip_ms: hop.round_trip_us.map(micros),
        heard_ms: millis(*heard),
    };
    control::Trace {
        sent: trace.sent,
        accepted_ms: trace.accepted.map(millis),
        hops: hops.iter().map(|hop| row(hop)).collect(),
    }
}
