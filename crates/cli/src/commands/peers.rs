//! `roost peers`: the associations that are up.

use std::path::Path;

use super::{bytes, connect, seconds};
use roost_terminal::{Output, Table};

use crate::failure::Outcome;

/// Prints one row for each association.
pub(crate) async fn run(socket: &Path, output: Output) -> Outcome {
    let answer = connect(socket).await?.peers().await?;
    if output.is_json() {
        return Ok(output.json(&answer)?);
    }
    let columns = ["NAME", "ROLE", "NODE", "ADDRESS", "DIALLED BY", ">RTT", ">SENT", ">RECEIVED", ">RESENT", ">UP"];
    let mut table = Table::new(&columns);
    for peer in &answer.peers {
        table.row([
            peer.name.clone(),
            peer.role.to_string(),
            peer.node.to_string(),
            peer.address.clone(),
            if peer.dialled { "us" } else { "them" }.to_owned(),
            format!("{:.2} ms", peer.rtt_ms),
            bytes(peer.sent_bytes),
            bytes(peer.received_bytes),
            peer.retransmissions.to_string(),
            seconds(peer.since_s),
        ]);
    }
    Ok(output.table(&table)?)
}
