//! `roost services`: the services that the daemon offers or knows.

use std::path::Path;

use super::connect;
use roost_terminal::{Output, Table};

use crate::failure::Outcome;

/// Prints a node's own services, or the number of providers of each that a hub knows.
pub(crate) async fn run(socket: &Path, output: Output) -> Outcome {
    let answer = connect(socket).await?.services().await?;
    if output.is_json() {
        return Ok(output.json(&answer)?);
    }
    let is_hub = answer.services.iter().any(|row| row.providers.is_some());
    let mut table =
        Table::new(if is_hub { &["SERVICE", ">PROVIDERS"] } else { &["SERVICE", "SOURCE", ">ACTIVE", ">SERVED"] });
    let number = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
    for row in &answer.services {
        let name = row.service.to_string();
        if is_hub {
            table.row([name, number(row.providers)]);
        } else {
            table.row([name, row.source.clone().unwrap_or_default(), number(row.active), number(row.served)]);
        }
    }
    output.table(&table)?;
    if answer.services.is_empty() {
        output.say("This node offers nothing: set `services` in its configuration.");
    }
    Ok(())
}
