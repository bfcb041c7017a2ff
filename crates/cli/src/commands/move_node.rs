//! `roost move`: moves the node to another cell.

use std::path::Path;

use super::connect;
use roost_terminal::Output;

use crate::args::MoveArgs;
use crate::failure::Outcome;

pub(crate) async fn run(args: &MoveArgs, socket: &Path, output: Output) -> Outcome {
    let moved = connect(socket).await?.move_to(args.at).await?;
    if output.is_json() {
        return Ok(output.json(&moved)?);
    }
    Ok(output.data(&format!("moved from {} to {}\n", moved.from, moved.to))?)
}
