//! `roost ping`: the round trip to the hub or to a node.

use std::path::Path;

use roost_wire::format_node;
use serde_json::json;

use super::connect;
use roost_terminal::{Output, SCHEMA};

use crate::args::PingArgs;
use crate::failure::{Code, Failure, Outcome};

/// Prints each round trip, then their spread.
pub(crate) async fn run(args: &PingArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let mut trips = Vec::new();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    for number in 1..=args.count {
        let pong = tokio::select! {
            pong = client.ping(args.node) => pong?,
            _ = &mut interrupted => break,
        };
        trips.push(pong.rtt_ms);
        if output.is_json() {
            output.json(&pong)?;
        } else {
            let other = pong.node.map(|node| format_node(node, pong.name.as_deref()) + " at ").unwrap_or_default();
            output.data(&format!("{other}{}: {:.3} ms\n", pong.address, pong.rtt_ms))?;
        }
        if number < args.count {
            tokio::select! {
                () = tokio::time::sleep(args.interval) => {}
                _ = &mut interrupted => break,
            }
        }
    }
    if trips.is_empty() {
        return Err(Failure::new(Code::Interrupted, "interrupted before there was an answer"));
    }
    summarize(&trips, output)
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
