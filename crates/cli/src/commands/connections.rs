//! `roost connections`: the connections that are up.

use std::path::Path;

use super::{bytes, connect, seconds};
use roost_api::{ConnectionRow, HubConnection};
use roost_terminal::{Output, Table};

use crate::failure::Outcome;

/// Prints one row for each connection, or for each of their paths.
pub(crate) async fn run(socket: &Path, paths: bool, output: Output) -> Outcome {
    let answer = connect(socket).await?.connections().await?;
    if output.is_json() {
        return Ok(output.json(&answer)?);
    }
    if paths {
        return show_paths(&answer.connections, output);
    }
    let columns = [
        "NAME",
        "ROLE",
        "LABELS",
        "STANDS",
        "NODE",
        "ADDRESS",
        "DIALLED BY",
        ">RTT",
        ">SENT",
        ">RECEIVED",
        ">RESENT",
        ">UP",
    ];
    let mut table = Table::new(&columns);
    answer.connections.iter().for_each(|connection| table.row(row(connection)));
    output.table(&table)?;
    answer.down.iter().for_each(|hub| output.say(down(hub)));
    Ok(())
}

fn row(connection: &ConnectionRow) -> [String; 12] {
    [
        connection.name.clone(),
        connection.role.to_string(),
        if connection.labels.is_empty() { "-".to_owned() } else { connection.labels.to_string() },
        stands(connection),
        format!("{:?}", connection.node),
        connection.address.clone(),
        if connection.dialed { "us" } else { "them" }.to_owned(),
        format!("{:.2} ms", connection.rtt_ms),
        bytes(connection.sent_bytes),
        bytes(connection.received_bytes),
        connection.retransmissions.to_string(),
        seconds(connection.since_s),
    ]
}

fn show_paths(connections: &[ConnectionRow], output: Output) -> Outcome {
    let columns = [
        "NAME",
        "NODE",
        "FROM",
        "TO",
        "ANSWERS",
        ">RTT",
        ">RATE",
        ">SENT",
        ">RECEIVED",
        ">RESENT",
        ">REPEATED",
        ">LOST",
    ];
    let mut table = Table::new(&columns);
    for (connection, path) in connections.iter().flat_map(|row| row.paths.iter().map(move |path| (row, path))) {
        table.row([
            connection.name.clone(),
            format!("{:?}", connection.node),
            path.local.clone().unwrap_or_else(|| "-".to_owned()),
            path.remote.clone(),
            if path.answers { "yes" } else { "no" }.to_owned(),
            format!("{:.2} ms", path.rtt_ms),
            path.rate_bps.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} Mbit/s", rate as f64 / 1e6)),
            bytes(path.sent_bytes),
            bytes(path.received_bytes),
            path.retransmissions.to_string(),
            path.repeated.to_string(),
            path.losses.to_string(),
        ]);
    }
    Ok(output.table(&table)?)
}

/// The relation of a super node to this one.
fn stands(connection: &ConnectionRow) -> String {
    match (connection.relation, connection.tier) {
        (Some(relation), Some(tier)) => format!("{} of tier {tier}", relation.name()),
        (Some(relation), None) => relation.name().to_owned(),
        (None, _) => "-".to_owned(),
    }
}

/// A configured super node that is not connected.
fn down(hub: &HubConnection) -> String {
    format!("Not connected: the {} {}.", hub.relation.name(), super::hub_connection(hub))
}
