//! `roost index`: what a hub's directory holds.

use std::path::Path;

use roost_control::{ClientError, Code};

use super::{candidates, connect};
use roost_terminal::Output;

use crate::args::IndexArgs;
use crate::failure::{Failure, Outcome};

/// Prints the directory of the hub whose socket it is.
pub(crate) async fn run(args: &IndexArgs, socket: &Path, output: Output) -> Outcome {
    let index = connect(socket).await?.index(args.limit).await.map_err(on_hubs_only)?;
    if output.is_json() {
        return Ok(output.json(&index)?);
    }
    output.table(&candidates(&index.nodes, None))?;
    let (totals, shown) = (index.totals, index.nodes.len() as u64);
    let rest = if shown < totals.nodes { format!(", {shown} of them shown (see --limit)") } else { String::new() };
    let young = if totals.young { "; the hub is young and may not have heard of everyone" } else { "" };
    output.say(format!("{} nodes with {} entries{rest}{young}.", totals.nodes, totals.entries));
    Ok(())
}

fn on_hubs_only(error: ClientError) -> Failure {
    match &error {
        ClientError::Api(api) if api.code == Code::NoSuchEndpoint => {
            Failure::usage("this daemon is no hub and has no index: give the --socket of a supernode or cs-server")
        }
        _ => error.into(),
    }
}
