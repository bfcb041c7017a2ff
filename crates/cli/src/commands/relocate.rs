//! `roost move`: the node goes to another place.

use std::path::Path;

use super::connect;
use crate::args::MoveArgs;
use crate::failure::Outcome;
use crate::output::Output;

/// Moves the node; its old place is void at once.
pub(crate) async fn run(args: &MoveArgs, socket: &Path, output: Output) -> Outcome {
    let moved = connect(socket).await?.move_to(args.at).await?;
    if output.is_json() {
        return output.json(&moved);
    }
    output.data(&format!("moved from {} to {}\n", moved.from, moved.to))
}
