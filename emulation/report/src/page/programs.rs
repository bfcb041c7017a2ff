//! Tables of the topology's own programs and traffic agents.

use roost_results::Results;
use roost_results::record::{ProgramRecord, TrafficRecord};

use super::{Page, Rows};
use crate::text_format::{bytes, count, moment, or_dash, rate, seconds};

/// The most rows of a table; the records have all of them.
const MOST: usize = 200;

pub(super) fn all(page: &mut Page, results: &Results) {
    if !results.programs.is_empty() {
        page.element("h2", "", "Programs");
        programs(page, &results.programs);
    }
    if !results.traffic.is_empty() {
        page.element("h2", "", "Traffic agents");
        agents(page, &results.traffic, results.run.ran_s);
    }
}

/// The number of programs that ended as expected, and of all.
pub(super) fn as_expected(programs: &[ProgramRecord]) -> (usize, usize) {
    (programs.iter().filter(|program| program.as_expected).count(), programs.len())
}

fn programs(page: &mut Page, programs: &[ProgramRecord]) {
    let mut rows = Rows::new(&["program", "<host", "<command", "started", "ran", "<end", "code"]);
    for program in programs.iter().take(MOST) {
        let mark = if program.as_expected { "<" } else { "!" };
        let end = program.error.as_ref().map_or_else(|| program.end.name().to_owned(), |error| error.clone());
        let cells = [
            format!("<{}", program.host),
            format!("<{}", program.command),
            moment(program.t),
            seconds(program.elapsed_s),
            format!("{mark}{end}"),
            program.code.map_or_else(|| "–".to_owned(), |code| code.to_string()),
        ];
        rows.row("", &program.program, cells.iter().map(String::as_str));
    }
    page.markup(rows.end());
    let (good, all) = as_expected(programs);
    let told = format!("{good} of {all} ended as they should. What they printed is in programs/.");
    page.element("p", "lead", &told);
}

fn agents(page: &mut Page, agents: &[TrafficRecord], ran_s: f64) {
    let mut rows = Rows::new(&["agent", "<host", "<role", "<over", "packets", "not sent", "payload", "mean rate"]);
    for agent in agents.iter().take(MOST) {
        let mean = (ran_s > 0.0).then(|| agent.bytes as f64 * 8e-6 / ran_s);
        let cells = [
            format!("<{}", agent.host),
            format!("<{}", agent.role),
            format!("<{}", agent.protocol),
            count(agent.packets),
            count(agent.skipped + agent.failed),
            bytes(agent.bytes as f64),
            or_dash(mean, rate),
        ];
        rows.row("", &agent.agent, cells.iter().map(String::as_str));
    }
    page.markup(rows.end());
}
