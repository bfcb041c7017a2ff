//! `roost index`: the content of a hub's directory.

use std::path::Path;

use roost_api::{Candidate, ClientError, Code, Index};
use roost_terminal::{Output, Table};
use roost_wire::format_node;

use super::{connect, names, place, seconds, uplink};
use crate::args::IndexArgs;
use crate::failure::{Failure, Outcome};

/// Prints the directory of the hub at `socket`.
pub(crate) async fn run(args: &IndexArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let index = client.index(args.limit, args.after).await.map_err(on_hubs_only)?;
    if output.is_json() {
        return Ok(output.json(&index)?);
    }
    output.table(&table(&index.nodes))?;
    output.say(totals(&index, args.limit));
    Ok(())
}

fn table(nodes: &[Candidate]) -> Table {
    let columns = [
        "NAME",
        "NODE",
        "HOME",
        "CELL",
        "SERVICES",
        ">STREAMS LEFT",
        ">UPLINK LEFT",
        ">EXPIRES IN",
        "HELD BACK",
        "ADDRESSES",
    ];
    let mut table = Table::new(&columns);
    for node in nodes {
        let home = node.home.map(|home| format_node(home, node.home_name.as_deref()));
        table.row([
            node.name.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{:?}", node.node),
            home.unwrap_or_else(|| "here".to_owned()),
            place(node.cell, node.place.as_ref()),
            names(&node.services),
            node.streams_left.to_string(),
            uplink(node.uplink_left_kbps),
            node.expires_in_s.map_or_else(|| "-".to_owned(), seconds),
            if node.suspended == Some(true) { "yes" } else { "no" }.to_owned(),
            node.addresses.join(" "),
        ]);
    }
    table
}

/// The counts of nodes whose home the hub is, of nodes whose standby it is, and of nodes that were not shown.
fn totals(index: &Index, limit: u32) -> String {
    let (totals, shown) = (index.totals, index.nodes.len() as u64);
    let all = totals.nodes + totals.replicas;
    let standing_by = match totals.replicas {
        0 => String::new(),
        replicas => format!(" at home here, {replicas} more as a standby"),
    };
    let next = index.nodes.last().map(|last| format!("; for the next ones --after {}", last.node));
    let next = next.filter(|_| shown >= u64::from(limit)).unwrap_or_default();
    let rest = if shown < all { format!(", {shown} of {all} shown{next}") } else { String::new() };
    let young = if totals.warming_up { "; the hub is young and may not have heard of everyone" } else { "" };
    format!("{} nodes{standing_by}, {} entries{rest}{young}.", totals.nodes, totals.entries)
}

fn on_hubs_only(error: ClientError) -> Failure {
    match &error {
        ClientError::Api(api) if api.code == Code::NoSuchEndpoint => {
            Failure::usage("this daemon is no hub and has no index: give the --socket of a supernode or cs-server")
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index(own: u64, mirrored: u64, shown: u64) -> Index {
        let row = |number: u64| {
            let home = (number >= own).then(|| "ee".repeat(16));
            json!({
                "node": format!("{number:032x}"), "cell": "1,2", "services": ["track"], "streams_left": 8,
                "uplink_left_kbps": null, "addresses": [], "record": "1.1", "expires_in_s": 40.0,
                "suspended": false, "home": home
            })
        };
        let totals = json!({
            "nodes": own, "replicas": mirrored, "entries": own + mirrored, "pending_requests": 0, "relays": 0,
            "watches": 0, "hubs": 1, "warming_up": false
        });
        let rows: Vec<_> = (0..shown).map(row).collect();
        serde_json::from_value(json!({ "schema": 2, "totals": totals, "nodes": rows })).unwrap()
    }

    #[test]
    fn totals_count_hidden_and_replica_rows() {
        let half = totals(&index(100, 100, 100), 100);
        assert!(
            half.starts_with("100 nodes at home here, 100 more as a standby, 200 entries, 100 of 200 shown"),
            "{half}"
        );
        assert!(half.contains(&format!("--after {:032x}", 99)), "{half}");
        assert_eq!(totals(&index(60, 40, 100), 100), "60 nodes at home here, 40 more as a standby, 100 entries.");
        assert_eq!(totals(&index(2, 0, 2), 100), "2 nodes, 2 entries.");
    }

    #[test]
    fn row_shows_home_and_lease() {
        let mut index = index(1, 1, 2);
        index.nodes[1].home_name = Some("home2".to_owned());
        let text = table(&index.nodes).render(str::to_owned);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[0].contains("HOME") && rows[0].contains("HELD BACK"), "{text}");
        assert!(
            rows[1].contains(" here ") && rows[2].contains(" home2 (eeeeeeee) ") && rows[2].contains("40 s"),
            "{text}"
        );
    }
}
