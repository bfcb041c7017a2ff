//! `roost index`: what a hub's directory holds.

use std::path::Path;

use super::{candidates, connect};
use crate::args::IndexArgs;
use crate::failure::Outcome;
use crate::output::Output;

/// Prints the directory of the hub whose socket it is.
pub(crate) async fn run(args: &IndexArgs, socket: &Path, output: Output) -> Outcome {
    let index = connect(socket).await?.index(args.limit).await?;
    if output.is_json() {
        return output.json(&index);
    }
    output.table(&candidates(&index.nodes, None))?;
    let (totals, shown) = (index.totals, index.nodes.len() as u64);
    let rest = if shown < totals.nodes { format!(", {shown} of them shown (see --limit)") } else { String::new() };
    let young = if totals.young { "; the hub is young and may not have heard of everyone" } else { "" };
    output.say(format!("{} nodes with {} entries{rest}{young}.", totals.nodes, totals.entries));
    Ok(())
}
