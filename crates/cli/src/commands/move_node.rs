//! `roost move`: moves the node to another place.

use std::path::Path;

use super::{connect, place};
use roost_terminal::Output;

use crate::args::MoveArgs;
use crate::failure::Outcome;

pub(crate) async fn run(args: &MoveArgs, socket: &Path, output: Output) -> Outcome {
    let moved = connect(socket).await?.move_to_place(&args.at).await?;
    if output.is_json() {
        return Ok(output.json(&moved)?);
    }
    let to = place(moved.to, moved.place.as_ref());
    Ok(output.data(&format!("moved from {} to {to}\n", moved.from))?)
}
