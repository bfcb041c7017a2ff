//! `roost trace`: the way of a request, hub by hub.

use std::path::Path;
use std::time::Duration;

use roost_api::{Error, PlacedRequest, Trace, TraceHop, TraceOutcome, TransferSummary};
use roost_terminal::{Output, SCHEMA, Table};
use roost_wire::format_node;
use serde::Serialize;

use super::connect;
use crate::args::TraceArgs;
use crate::failure::{Failure, Outcome};

/// The meaning of the times, and their limits.
const CLOCKS: &str = "Clocks differ from host to host, so only times of one host are told: AT IT is from the coming of \
the request to this, ROUND TRIP is measured by the one before it on the way, HEARD AFTER by this node.";

/// The duration of a stream of which only the beginning matters.
const STREAM: Duration = Duration::from_secs(1);

/// Requests a service, and prints the steps of each hub on the way and of the provider.
pub(crate) async fn run(args: &TraceArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let chosen = args.area.choice()?;
    let request = args.service_request(chosen.area, STREAM);
    let traced = client.request_at(&PlacedRequest { request, place: chosen.place }).await?.trace().await?;
    if output.is_json() {
        output.json(&report(args, &traced))?;
    } else {
        output.table(&table(&traced.trace))?;
        output.data(&totals(&traced))?;
        output.say(CLOCKS);
    }
    match traced.error {
        Some(error) => Err(Failure::api(&error)),
        None => Ok(()),
    }
}

#[derive(Serialize)]
struct TraceReport<'a> {
    schema: u32,
    service: String,
    trace: &'a Trace,
    summary: Option<&'a TransferSummary>,
    error: Option<&'a Error>,
}

fn report<'a>(args: &TraceArgs, traced: &'a TraceOutcome) -> TraceReport<'a> {
    TraceReport {
        schema: SCHEMA,
        service: args.service.to_string(),
        trace: &traced.trace,
        summary: traced.summary.as_ref(),
        error: traced.error.as_ref(),
    }
}

fn table(trace: &Trace) -> Table {
    let mut table = Table::new(&["WHO", "TIER", "DID", ">AT IT", ">ROUND TRIP", ">HEARD AFTER"]);
    for hop in &trace.hops {
        let who = format_node(hop.node, hop.name.as_deref());
        let tier = hop.tier.map_or_else(|| "-".to_owned(), |tier| tier.to_string());
        let round_trip = hop.round_trip_ms.map_or_else(|| "-".to_owned(), millis);
        table.row([who, tier, did(hop), millis(hop.held_ms), round_trip, millis(hop.heard_ms)]);
    }
    table
}

/// The step of a hub or of the provider, in words.
fn did(hop: &TraceHop) -> String {
    let other = hop.other.map(|node| format_node(node, hop.other_name.as_deref()));
    let other = other.or_else(|| hop.other_name.clone()).unwrap_or_default();
    let reason = hop.reason.as_deref().unwrap_or_default().replace('_', " ");
    match hop.step.as_str() {
        "handed" => format!("handed it to {other}"),
        "relayed" => format!("handed it to {other}, to relay the answer"),
        "passed" => format!("passed it on to {other}"),
        "looked-up" => "asked other hubs what they have".to_owned(),
        "declined" => format!("heard from {other}: {reason}"),
        "silent" => format!("heard nothing from {other}"),
        "refused" if reason == "too many" => "declined it: too many".to_owned(),
        "refused" => format!("had nobody left to try: {reason}"),
        "reused" => "answered over a connection that was up".to_owned(),
        "dialed" => {
            let handshake = hop.reached_ms.map(|after| format!(" ({})", millis(after))).unwrap_or_default();
            format!("answered over a new connection{handshake}")
        }
        other => other.to_owned(),
    }
}

fn totals(traced: &TraceOutcome) -> String {
    let mut lines = Vec::new();
    lines.extend(traced.trace.accepted_ms.map(|after| format!("accepted    after {}", millis(after))));
    if let Some((summary, first)) = traced.summary.as_ref().and_then(|summary| Some((summary, summary.first_byte_ms?)))
    {
        let path = if summary.relayed { "through the hub" } else { "directly" };
        lines.push(format!("first byte  after {}, {path} over {}", millis(first), summary.transport));
    }
    if traced.trace.sent > 1 {
        lines.push(format!("sent        {} times", traced.trace.sent));
    }
    if traced.trace.hops.is_empty() {
        lines.push("way         nobody on it told anything".to_owned());
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn millis(millis: f64) -> String {
    format!("{millis:.2} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(step: &str) -> TraceHop {
        TraceHop {
            number: 1,
            node: roost_wire::NodeId::from_bytes([7; 16]),
            name: Some("sn1".to_owned()),
            tier: Some(0),
            step: step.to_owned(),
            reason: Some("source_failed".to_owned()),
            other: None,
            other_name: Some("n7".to_owned()),
            held_ms: 0.05,
            reached_ms: Some(21.4),
            round_trip_ms: None,
            heard_ms: 20.0,
        }
    }

    #[test]
    fn each_step_is_said_in_words() {
        for step in ["handed", "relayed", "passed", "declined", "silent"] {
            assert!(did(&hop(step)).contains("n7"), "{step}");
        }
        assert_eq!(did(&hop("declined")), "heard from n7: source failed");
        let declined = TraceHop { reason: Some("too_many".to_owned()), ..hop("refused") };
        assert_eq!(did(&declined), "declined it: too many");
        assert_eq!(did(&hop("dialed")), "answered over a new connection (21.40 ms)");
        assert_eq!(did(&hop("later")), "later", "a step of a later version is shown as it is");
    }

    #[test]
    fn trace_table_counts_sends() {
        let trace = Trace { sent: 2, accepted_ms: Some(40.0), hops: vec![hop("handed")] };
        let text = table(&trace).render(str::to_owned);
        assert!(text.contains("sn1") && text.contains("handed it to n7") && text.contains("0.05 ms"), "{text}");
        let totals = totals(&TraceOutcome { trace, summary: None, error: None });
        assert!(totals.contains("after 40.00 ms") && totals.contains("2 times"), "{totals}");
    }
}
