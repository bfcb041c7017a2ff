//! `roost ping`: the round trip to the hub or to a node.

use std::path::Path;

use serde_json::json;

use super::connect;
use crate::args::PingArgs;
use crate::failure::Outcome;
use crate::output::{Output, SCHEMA};

/// Pings and prints each round trip, then their spread.
pub(crate) async fn run(args: &PingArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let mut trips = Vec::new();
    for number in 1..=args.count {
        let pong = client.ping(args.node).await?;
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

fn summarize(trips: &[f64], output: Output) -> Outcome {
    let least = trips.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = trips.iter().copied().fold(0.0, f64::max);
    let mean = trips.iter().sum::<f64>() / trips.len() as f64;
    if output.is_json() {
        let spread = json!({"min_ms": least, "mean_ms": mean, "max_ms": greatest});
        return output.json(&json!({"schema": SCHEMA, "count": trips.len(), "rtt": spread}));
    }
    output.say(format!("round trip min {least:.3}, mean {mean:.3}, max {greatest:.3} ms"));
    Ok(())
}
