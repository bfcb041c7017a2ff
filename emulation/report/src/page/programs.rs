//! Tables of the topology's own programs and traffic agents.

use maud::{Markup, html};
use roost_results::Results;
use roost_results::record::{ProgramRecord, TrafficRecord};

use super::table;
use crate::text_format::{bytes, count, moment, or_dash, rate, seconds};

/// The most rows of a table; the records have all of them.
const MOST: usize = 200;

pub(super) fn all(results: &Results) -> Markup {
    html! {
        @if !results.programs.is_empty() {
            h2 { "Programs" }
            (programs(&results.programs))
        }
        @if !results.traffic.is_empty() {
            h2 { "Traffic agents" }
            (agents(&results.traffic, results.run.ran_s))
        }
    }
}

/// The number of programs that ended as expected, and of all.
pub(super) fn as_expected(programs: &[ProgramRecord]) -> (usize, usize) {
    (programs.iter().filter(|program| program.as_expected).count(), programs.len())
}

fn programs(programs: &[ProgramRecord]) -> Markup {
    let rows = html! {
        @for program in programs.iter().take(MOST) {
            tr {
                th scope="row" { (program.program) }
                td.words { (program.host) }
                td.words { (program.command) }
                td { (moment(program.t)) }
                td { (seconds(program.elapsed_s)) }
                td class=(if program.as_expected { "words" } else { "bad" }) {
                    (program.error.as_deref().unwrap_or(program.end.name()))
                }
                td { @if let Some(code) = program.code { (code) } @else { "–" } }
                td { (or_dash(program.cpu_s, seconds)) }
                td { (or_dash(program.memory_bytes.map(|memory| memory as f64), bytes)) }
            }
        }
    };
    let (good, all) = as_expected(programs);
    html! {
        (table(&["program", "<host", "<command", "started", "ran", "<end", "code", "processor", "memory"], &rows))
        p.lead { (good) " of " (all) " ended as they should. What they printed is in " a href="programs/" { "programs/" } "." }
    }
}

fn agents(agents: &[TrafficRecord], ran_s: f64) -> Markup {
    let mean = |agent: &TrafficRecord| (ran_s > 0.0).then(|| agent.bytes as f64 * 8e-6 / ran_s);
    let rows = html! {
        @for agent in agents.iter().take(MOST) {
            tr {
                th scope="row" { (agent.agent) }
                @for words in [&agent.host, &agent.role, &agent.protocol] { td.words { (words) } }
                td { (count(agent.packets)) }
                td { (count(agent.skipped + agent.failed)) }
                td { (bytes(agent.bytes as f64)) }
                td { (or_dash(mean(agent), rate)) }
            }
        }
    };
    table(&["agent", "<host", "<role", "<over", "packets", "not sent", "payload", "mean rate"], &rows)
}
