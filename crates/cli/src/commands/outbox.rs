//! `roost outbox`: the files that wait for their receivers.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_api::OutboxRow;
use roost_terminal::{Output, Table};
use roost_wire::printable;

use super::{bytes, connect};
use crate::args::{OutboxArgs, OutboxCommand};
use crate::failure::Outcome;

pub(crate) async fn run(args: &OutboxArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    if let Some(OutboxCommand::Cancel { id }) = args.command {
        client.cancel_outbox(id).await?;
        output.say(format!("{id} is cancelled"));
        return Ok(());
    }
    let outbox = client.outbox().await?;
    if output.is_json() {
        return Ok(output.json(&outbox)?);
    }
    let mut table = Table::new(&["id", "to", "name", "size", "state", "since", "until", "tries", "obstacle"]);
    outbox.files.iter().for_each(|file| table.row(row(file)));
    Ok(output.table(&table)?)
}

fn row(file: &OutboxRow) -> [String; 9] {
    [
        file.id.clone(),
        printable(&file.to).to_string(),
        printable(&file.name).to_string(),
        bytes(file.bytes),
        state(file),
        date(file.since_unix_s),
        date(file.until_unix_s),
        file.tries.to_string(),
        file.obstacle.as_deref().map(|why| printable(why).to_string()).unwrap_or_default(),
    ]
}

fn state(file: &OutboxRow) -> String {
    let name = file.state.name();
    file.left_at.as_deref().map_or_else(|| name.to_owned(), |hub| format!("{name}, also at {}", printable(hub)))
}

/// A time on the wall clock, in UTC.
pub(super) fn date(unix_s: u64) -> String {
    // A year that has five digits has no short form.
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(unix_s)).unwrap_or(SystemTime::UNIX_EPOCH);
    let year_9999 = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_seconds(at.min(year_9999)).to_string()
}
