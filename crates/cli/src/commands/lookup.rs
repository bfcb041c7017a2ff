//! `roost lookup`: the providers of a service.

use std::path::Path;

use roost_api::{Code, LookupQuery};
use roost_wire::Offer;

use super::{candidates, connect, geojson, where_flags};
use roost_terminal::Output;

use crate::args::{LookupArgs, LookupFormat, merged};
use crate::failure::{Failure, Outcome};

/// Prints the providers of the service, the best first.
pub(crate) async fn run(args: &LookupArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    let chosen = args.area.choice()?;
    let query = LookupQuery {
        count: args.count.unwrap_or(0),
        timeout: args.timeout,
        names: true,
        filter: merged(&args.filter),
        place: chosen.place.clone(),
        ..LookupQuery::new(args.service, chosen.area)
    };
    let found = client.lookup(&query).await?;
    let is_table = !output.is_json() && args.format == LookupFormat::Table;
    if args.format == LookupFormat::Geojson {
        // A collection may be empty, and the exit code says so, too.
        output.data(&format!("{}\n", geojson::collection(&found)?))?;
    } else if output.is_json() {
        // The object tells the coverage also of an empty answer.
        output.json(&found)?;
    }
    if found.candidates.is_empty() {
        let (code, but) = explain_not_found(&found.coverage);
        return Err(Failure::of_kind(code, format!("nobody offers {} {}{but}", args.service, chosen.words())));
    }
    if !is_table {
        return Ok(());
    }
    output.table(&candidates(&found.candidates, chosen.area))?;
    if let Some(why) = explain_partial(&found.coverage) {
        output.say(format!("There may be more: {why}."));
    }
    output.detail(format!("Answered in {:.2} ms.", found.elapsed_ms));
    let is_call = |offer: &Offer| offer.service.is_call() && offer.service.satisfies(&args.service);
    let verb = if found.candidates[0].offers.iter().any(is_call) { "call" } else { "request" };
    output.say(format!("Get it with: roost {verb} {} {}{}", args.service, chosen.flags, where_flags(&query.filter)));
    Ok(())
}

/// The code and the meaning of an empty answer: only a complete one shows that there is no provider.
fn explain_not_found(coverage: &str) -> (Code, &'static str) {
    match coverage {
        "complete" => (Code::NotFound, ""),
        "own" => (Code::NotFound, " in this hub's own directory; a node's socket asks the other hubs too"),
        "hub_starting" => (Code::NotYetKnown, " as far as is known; a hub has just started, so try again in a minute"),
        "unreachable_above" => {
            (Code::UnreachableAbove, " on this side of a cut: the super nodes above cannot be reached")
        }
        _ => (Code::TimedOut, " as far as is known; not everybody answered in time, so try again"),
    }
}

/// The reason that an answer is not complete.
fn explain_partial(coverage: &str) -> Option<&'static str> {
    match coverage {
        "complete" => None,
        "first_match" => {
            Some("the search ended at the first matches; give --near, --within or --rect for a full search")
        }
        "own" => Some("this is the hub's own directory; a node's socket asks the other hubs too"),
        "hub_starting" => Some("a hub has just started and has not heard of everyone yet"),
        "unreachable_above" => Some("the super nodes above cannot be reached"),
        _ => Some("not everybody answered in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_found_requires_whole_coverage() {
        for (coverage, kind, exit) in [
            ("complete", Code::NotFound, 4),
            ("own", Code::NotFound, 4),
            ("hub_starting", Code::NotYetKnown, 4),
            ("unreachable_above", Code::UnreachableAbove, 6),
            ("partial", Code::TimedOut, 6),
            ("of a later version", Code::TimedOut, 6),
        ] {
            let (code, but) = explain_not_found(coverage);
            assert_eq!((code, code.exit_code()), (kind, exit), "{coverage}");
            assert_eq!(but.is_empty(), coverage == "complete", "{coverage}");
            assert_eq!(explain_partial(coverage).is_none(), coverage == "complete", "{coverage}");
        }
    }

    #[test]
    fn first_coverage_suggests_area() {
        assert!(explain_partial("first_match").unwrap().contains("--within"));
    }
}
