//! Mistakes in the runs of a sweep, told by the lines of its plan.

use super::SweepRun;
use super::lines::{KeyLine, key_lines, line_of};
use crate::error::RunError;
use crate::plan::PlanError;

const MAX_TOLD: usize = 20;

/// The mistakes of all runs of a sweep; one that many runs have is told once.
#[derive(Debug)]
pub struct SweepMistakes {
    lines: Vec<KeyLine>,
    runs: usize,
    found: Vec<SweepMistake>,
}

#[derive(Debug)]
struct SweepMistake {
    line: usize,
    text: String,
    /// The first run that has it.
    first: String,
    runs: usize,
}

impl SweepMistakes {
    /// Collects mistakes in this many runs of a plan's text.
    pub fn new(plan: &str, runs: usize) -> Self {
        Self { lines: key_lines(plan), runs, found: Vec::new() }
    }

    pub const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn add(&mut self, run: &SweepRun, error: &RunError) {
        let RunError::Plan(plan) = error else { return self.record(run, 0, error.to_string()) };
        let of_run = key_lines(&run.text);
        for one in std::iter::once(plan).chain(&plan.others) {
            let PlanError { line, message, .. } = one;
            let way = of_run.iter().rev().find(|(_, begin)| begin <= line && *line > 0).map(|(way, _)| way.as_slice());
            let (line, key) = self.place(run, way.unwrap_or_default());
            let key = key.map_or_else(String::new, |key| format!("`{key}`: "));
            self.record(run, line, format!("{key}{message}"));
        }
    }

    /// The line in the plan of a key in a run's text, and the varied key, if it is one.
    fn place(&self, run: &SweepRun, way: &[String]) -> (usize, Option<String>) {
        let is_around = |key: &[String]| way.starts_with(key) || (key.starts_with(way) && !way.is_empty());
        let varied = run.keys.iter().filter(|(key, _)| is_around(&key.0)).max_by_key(|(key, _)| key.0.len());
        match varied {
            Some((key, line)) => (*line, Some(key.to_string())),
            None => (line_of(&self.lines, way).unwrap_or(0), None),
        }
    }

    fn record(&mut self, run: &SweepRun, line: usize, text: String) {
        match self.found.iter_mut().find(|known| known.line == line && known.text == text) {
            Some(known) => known.runs += 1,
            None => self.found.push(SweepMistake { line, text, first: run.name.clone(), runs: 1 }),
        }
    }

    /// All as lines, in the order of the plan's; `file` is the plan.
    pub fn told(&self, file: &std::path::Path) -> String {
        let mut found: Vec<&SweepMistake> = self.found.iter().collect();
        found.sort_by_key(|one| one.line);
        let mut lines: Vec<String> = found.iter().take(MAX_TOLD).map(|one| self.line(one, file)).collect();
        if found.len() > MAX_TOLD {
            lines.push(format!("… and {} more", found.len() - MAX_TOLD));
        }
        lines.join("\n")
    }

    fn line(&self, mistake: &SweepMistake, file: &std::path::Path) -> String {
        let SweepMistake { line, text, first, runs } = mistake;
        let place = if *line == 0 { String::new() } else { format!("{}:{line}: ", file.display()) };
        match *runs {
            all if all == self.runs => format!("{place}{text}"),
            1 => format!("{place}{text} (in the run {first})"),
            some => format!("{place}{text} (in {some} of {} runs, the first {first})", self.runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Prepared;
    use crate::sweep::{SweepExtras, read_sweep};

    #[test]
    fn mistakes_have_lines_of_the_plan() {
        let file = Path::new("p.toml");
        let text = "topology = { star = { nodes = 4 } }\narchitecture = 'super-node'\nduration = '60s'\ntimeout = '0s'\n\
                    [sweep]\nlinks.net.delya = ['1ms']\narchitecture = ['super-node', 'clientserver']\n\
                    [[sweep.cases]]\nfaults = [{ at = '70s', kill = 'hub' }]\n[[sweep.cases]]\nidle = '2s'\n";
        let sweep = read_sweep(text, file, &SweepExtras::default()).unwrap();
        let mut mistakes = SweepMistakes::new(text, sweep.runs.len());
        for run in &sweep.runs {
            mistakes.add(run, &Prepared::from_text(&run.text, file).unwrap_err());
        }
        let told = mistakes.told(file);
        let lines: Vec<&str> = told.lines().collect();
        let begins = [
            "p.toml:4: it must be longer than nothing",
            "p.toml:6: `links.net.delya`: `delya` is no key of a link; did you mean `delay`?",
            "p.toml:7: `architecture`: `architecture` of a plan: there is no architecture `clientserver`",
            "p.toml:9: `faults`: at 70s nodes ask no more",
        ];
        assert_eq!(lines.len(), 4, "{told}");
        assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{told}");
        assert!(lines[2].contains("(in 2 of 4 runs, the first "), "{told}");
    }

    #[test]
    fn values_of_radios_are_varied() {
        let folder = tempfile::tempdir().unwrap();
        let topology = "lenient = true\n[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = ['a', 'b']\n\
            position = [0, 0]\n[[radio]]\nname = 'mesh'\nmembers = ['a', 'b']\nfrequency = '2.4GHz'\n\
            power = '20dBm'\nbandwidth = '20MHz'\nrate = '8Mbit'\n";
        std::fs::write(folder.path().join("n.toml"), topology).unwrap();
        let file = folder.path().join("p.toml");
        let prepared = |values: &str| {
            let text = format!(
                "topology = 'n.toml'\narchitecture = 'multicast'\nduration = '60s'\n[sweep]\ntopology.radio.{values}\n"
            );
            let sweep = read_sweep(&text, &file, &SweepExtras::default()).unwrap();
            let mut mistakes = SweepMistakes::new(&text, sweep.runs.len());
            let mut ranges = Vec::new();
            for run in &sweep.runs {
                match Prepared::from_text(&run.text, &file) {
                    Ok(prepared) => ranges.extend(prepared.network.radios[0].range_m),
                    Err(error) => mistakes.add(run, &error),
                }
            }
            (ranges, mistakes.told(Path::new("p.toml")))
        };
        assert_eq!(prepared("mesh.range = ['500m', '2km']"), (vec![500.0, 2000.0], String::new()));
        let told = prepared("mesh.exponent = [2.0, 3.0]").1;
        assert_eq!(told, "p.toml:5: `topology.radio.mesh.exponent`: `exponent` belongs to model = \"log-distance\"");
        let told = prepared("tele.range = ['500m', '2km']").1;
        assert_eq!(told, "p.toml:5: `topology.radio.tele.range`: the topology has no radio `tele`: choose mesh");
    }
}
