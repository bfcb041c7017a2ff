//! `roost watch`: changes in an area as they happen.

use std::path::Path;

use roost_control::{WatchEvent, WatchQuery};
use roost_proto::{Service, ServiceSet};

use super::{area, connect, names};
use crate::args::WatchArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::output::Output;

/// Prints changes until it is interrupted or the daemon ends it.
pub(crate) async fn run(args: &WatchArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let area = area(args.area.wanted(), &client).await?;
    let mut changes = client.watch(&WatchQuery { services: services(&args.services), area }).await?;
    output.say(format!("Watching {area}; Ctrl-C ends it."));
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            change = changes.next() => match change? {
                Some(change) => print(&change, output)?,
                None => return Err(Failure::new(Code::Unreachable, "the daemon has ended the watch: it is leaving")),
            },
            _ = &mut interrupted => return Ok(()),
        }
    }
}

fn services(named: &[Service]) -> ServiceSet {
    if named.is_empty() { ServiceSet::ALL } else { named.iter().copied().collect() }
}

fn print(change: &WatchEvent, output: Output) -> Outcome {
    if output.is_json() {
        return output.json(change);
    }
    for candidate in &change.present {
        let services = names(&candidate.services);
        output.data(&format!("+ {}  {:>9}  {services}\n", candidate.node, candidate.cell.to_string()))?;
    }
    for node in &change.gone {
        output.data(&format!("- {node}\n"))?;
    }
    Ok(())
}
