//! `roost ping`: the round trip to the hub or to a node.

use std::collections::BTreeSet;
use std::path::Path;

use roost_control::{Client, PeerRow};
use roost_proto::NodeId;
use serde_json::json;

use super::connect;
use roost_terminal::{Output, SCHEMA};

use crate::args::PingArgs;
use crate::failure::{Code, Failure, Outcome};

/// Pings and prints each round trip, then their spread.
pub(crate) async fn run(args: &PingArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let node = match &args.node {
        Some(named) => Some(meant(named, &client).await?),
        None => None,
    };
    let mut trips = Vec::new();
    for number in 1..=args.count {
        let pong = client.ping(node).await?;
        trips.push(pong.rtt_ms);
        if output.is_json() {
            output.json(&pong)?;
        } else {
            let who = pong.node.map(|node| format!("{node} at ")).unwrap_or_default();
            output.data(&format!("{who}{}: {:.3} ms\n", pong.address, pong.rtt_ms))?;
        }
        if number < args.count {
            tokio::time::sleep(args.interval).await;
        }
    }
    summarize(&trips, output)
}

/// The node that is meant: by its id, else among those with an association.
pub(super) async fn meant(named: &str, client: &Client) -> Outcome<NodeId> {
    match named.parse() {
        Ok(node) => Ok(node),
        Err(_) => pick(named, &client.peers().await?.peers),
    }
}

/// The one with this name; else the only one whose name or id begins so.
fn pick(named: &str, peers: &[PeerRow]) -> Outcome<NodeId> {
    let nodes = |fits: &dyn Fn(&PeerRow) -> bool| -> BTreeSet<NodeId> {
        peers.iter().filter(|peer| fits(peer)).map(|peer| peer.node).collect()
    };
    let called = nodes(&|peer| peer.name == named);
    let begins = || nodes(&|peer| peer.name.starts_with(named) || peer.node.to_string().starts_with(named));
    let found = if called.is_empty() { begins() } else { called };
    match (found.first(), found.len()) {
        (Some(node), 1) => Ok(*node),
        (Some(_), count) => {
            Err(Failure::usage(format!("{named} may mean {count} nodes of roost peers: say more of it")))
        }
        (None, _) => {
            let message = format!("no node in roost peers is called {named}: give its id of 32 hexadecimal digits");
            Err(Failure::new(Code::NotFound, message))
        }
    }
}

fn summarize(trips: &[f64], output: Output) -> Outcome {
    let least = trips.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = trips.iter().copied().fold(0.0, f64::max);
    let mean = trips.iter().sum::<f64>() / trips.len() as f64;
    if output.is_json() {
        let spread = json!({"min_ms": least, "mean_ms": mean, "max_ms": greatest});
        return Ok(output.json(&json!({"schema": SCHEMA, "count": trips.len(), "rtt": spread}))?);
    }
    output.say(format!("round trip min {least:.3}, mean {mean:.3}, max {greatest:.3} ms"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, digit: char) -> PeerRow {
        let node = digit.to_string().repeat(32);
        let row = json!({
            "node": node, "name": name, "role": "node", "transport": "udp", "address": "udp://10.0.0.1:1",
            "dialled": true, "rtt_ms": 1.0, "sent_bytes": 0, "received_bytes": 0, "sent_messages": 0,
            "received_messages": 0, "retransmissions": 0, "since_s": 1.0
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_node_is_meant_by_its_name_or_a_beginning_that_is_no_others() {
        let peers = [peer("uav1", 'a'), peer("uav12", 'b'), peer("uav12", 'b'), peer("sn1", 'c')];
        for (named, node) in [("uav1", Some(0)), ("uav12", Some(1)), ("sn", Some(3)), ("bb", Some(1)), ("uav", None)] {
            assert_eq!(pick(named, &peers).ok(), node.map(|index: usize| peers[index].node), "{named}");
        }
        assert_eq!(pick("uav", &peers).unwrap_err().exit_code(), 2);
        assert_eq!(pick("x", &peers).unwrap_err().exit_code(), 4);
    }
}
