//! `roost streams`: the streams of the daemon's relay.

use std::path::Path;

use roost_api::{StreamRow, Streams};
use roost_terminal::{Output, Table};
use roost_wire::{NodeId, format_node};

use super::connect;
use crate::failure::Outcome;

/// Prints one row for each stream, or for each receiver of one.
pub(crate) async fn run(socket: &Path, to: bool, output: Output) -> Outcome {
    let answer = connect(socket).await?.streams().await?;
    if output.is_json() {
        return Ok(output.json(&answer)?);
    }
    if to {
        return Ok(output.table(&receivers(&answer.streams))?);
    }
    output.table(&streams(&answer.streams))?;
    output.say(summary(&answer));
    Ok(())
}

fn streams(rows: &[StreamRow]) -> Table {
    let columns =
        ["STREAM", "SERVICE", "AT", "PROVIDER", "HERE", "FROM", ">TO", ">RATE", ">PACKETS", ">LOST", ">TWICE"];
    let mut table = Table::new(&columns);
    for row in rows {
        table.row([
            row.stream.clone(),
            or_dash(row.service),
            or_dash(row.cell),
            or_dash(row.provider.map(|node| format_node(node, row.provider_name.as_deref()))),
            here(row).to_owned(),
            or_dash(row.upstreams.last().map(|from| at(from.node, from.name.as_deref(), &from.address))),
            row.downstreams.iter().filter(|downstream| downstream.answered).count().to_string(),
            rate(row.bits_per_second),
            row.packets.to_string(),
            row.lost.to_string(),
            row.duplicates.to_string(),
        ]);
    }
    table
}

fn receivers(rows: &[StreamRow]) -> Table {
    let columns =
        ["STREAM", "TO", "WHAT", ">RATE", ">SENT", ">SKIPPED", ">NACKED", ">REPAIRED", ">ARRIVED", ">LOST", ">JITTER"];
    let mut table = Table::new(&columns);
    for (stream, row) in rows.iter().flat_map(|row| row.downstreams.iter().map(move |to| (&row.stream, to))) {
        table.row([
            stream.clone(),
            at(row.node, row.name.as_deref(), &row.address),
            if row.answered { row.kind.clone() } else { format!("{}, silent", row.kind) },
            rate(row.bits_per_second),
            row.packets.to_string(),
            row.dropped.to_string(),
            row.nacked.to_string(),
            row.repaired.to_string(),
            row.received.to_string(),
            row.lost.to_string(),
            format!("{:.2} ms", row.jitter_ms),
        ]);
    }
    table
}

/// A remote, if it is known, and its address.
fn at(node: Option<NodeId>, name: Option<&str>, address: &str) -> String {
    node.map_or_else(|| address.to_owned(), |node| format!("{} at {address}", format_node(node, name)))
}

/// The place of this host in the stream.
fn here(row: &StreamRow) -> &'static str {
    match (row.published, row.watched) {
        (true, _) => "published",
        (false, true) => "watched",
        (false, false) => "sent on",
    }
}

fn summary(answer: &Streams) -> String {
    match (&answer.media, answer.residual_bps) {
        (None, _) => "This daemon has no relay (its setting media is off).".to_owned(),
        (Some(media), None) => format!("The relay is at {media}."),
        (Some(media), Some(left)) => format!("The relay is at {media}, with {} left for further copies.", rate(left)),
    }
}

fn rate(bits_per_second: u64) -> String {
    format!("{:.1} kbit/s", bits_per_second as f64 / 1e3)
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
