//! `roost lookup`: who offers a service.

use std::path::Path;

use roost_control::LookupQuery;

use super::{area, area_flags, candidates, connect};
use roost_terminal::Output;

use crate::args::LookupArgs;
use crate::failure::{Code, Failure, Outcome};

/// Asks the hub and prints who offers the service, the best first.
pub(crate) async fn run(args: &LookupArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let area = area(args.area.wanted(), &client).await?;
    let query =
        LookupQuery { count: args.count.unwrap_or(0), timeout: args.timeout, ..LookupQuery::new(args.service, area) };
    let found = client.lookup(&query).await?;
    if found.candidates.is_empty() {
        let but = match found.coverage.as_str() {
            "young" => "; the hub has just started, so try again in a minute",
            "unreachable_above" => " on this side of a cut: the super nodes above cannot be reached",
            _ => "",
        };
        return Err(Failure::new(Code::NotFound, format!("nobody offers {} {area}{but}", args.service)));
    }
    if output.is_json() {
        return Ok(output.json(&found)?);
    }
    output.table(&candidates(&found.candidates, Some(area)))?;
    if found.coverage != "whole" {
        output.say(match found.coverage.as_str() {
            "young" => "There may be more: a hub has just started and has not heard of everyone yet.",
            "unreachable_above" => "There may be more: the super nodes above cannot be reached.",
            _ => "There may be more: not everybody answered in time.",
        });
    }
    output.detail(format!("Answered in {:.2} ms.", found.elapsed_ms));
    output.say(format!("Get it with: roost request {} {}", args.service, area_flags(area)));
    Ok(())
}
