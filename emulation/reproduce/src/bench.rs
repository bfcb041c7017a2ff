//! Runs of `emulate bench`: another process of this program, whose rows become figures.

use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};

use super::measures::Measures;
use super::process::{self, EmulateOutput};

/// The exit code if this machine could measure only a part: the rest counts.
const PARTLY: i32 = 3;
/// The exit code if the figures cannot be trusted.
const INVALID: i32 = 4;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct StudyBenchResult {
    pub(super) measures: Measures,
    /// The reasons to distrust its figures; empty if there are none.
    pub(super) reasons: Vec<String>,
    /// Gaps of the measurement.
    pub(super) lacks: Vec<String>,
}

/// True if the bench runs the daemons, which are other programs than this.
pub(super) fn runs_daemons(args: &[String]) -> bool {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    has("subscription") || has("--capacity")
}

/// Runs `emulate bench ARGS --json` with a seed. The values of the fields `by` of a row form the names of its
/// figures: `quic.loss.late_pct`.
///
/// # Errors
/// A sentence, if it could not be run or printed nothing; `None` if `interrupt` was set.
pub(super) fn run(
    args: &[String],
    by: &[&str],
    seed: u64,
    interrupt: &AtomicBool,
) -> Result<Option<StudyBenchResult>, String> {
    let seed = seed.to_string();
    // Reflection without losses draws nothing, so it has no seed.
    let seeded: &[&str] = if args.first().is_some_and(|what| what == "reflect") { &[] } else { &["--seed", &seed] };
    let words: Vec<&str> = ["bench"]
        .into_iter()
        .chain(args.iter().map(String::as_str))
        .chain(["--json"])
        .chain(seeded.iter().copied())
        .collect();
    let ended = process::run(&words, interrupt).map_err(|error| format!("cannot run emulate bench: {error}"))?;
    let Some(EmulateOutput { status, stdout: printed, stderr: said }) = ended else { return Ok(None) };
    // A line of figures, and perhaps one of an error.
    let value: Option<Value> = printed.lines().next().and_then(|line| serde_json::from_str(line).ok());
    let list = |name: &str| value.as_ref().and_then(|value| value[name].as_array()).cloned().unwrap_or_default();
    let rows = list("rows");
    if rows.is_empty() {
        return Err(format!("emulate bench {} has measured nothing: {}", args.join(" "), said.trim()));
    }
    let (mut reasons, mut lacks) = (Vec::new(), Vec::new());
    match status.code() {
        Some(0) => {}
        Some(PARTLY) => {
            lacks.extend(list("notes").iter().filter_map(Value::as_str).map(str::to_owned));
            lacks.extend(lacks.is_empty().then(|| "something could not be measured".to_owned()));
        }
        Some(INVALID) => reasons.push("it says itself that its figures cannot be trusted".to_owned()),
        _ => reasons.push(format!("it ended with {status}")),
    }
    Ok(Some(StudyBenchResult { measures: measures(&rows, by), reasons, lacks }))
}

/// The figures of rows, named by the values of these fields and the figure.
fn measures(rows: &[Value], by: &[&str]) -> Measures {
    let mut all = Measures::new();
    for row in rows.iter().filter_map(Value::as_object) {
        let name: Vec<String> = by.iter().map(|field| text(row, field)).collect();
        for (field, value) in row.iter().filter(|(field, _)| !by.contains(&field.as_str())) {
            let mut name = name.clone();
            name.push(field.clone());
            match value {
                // A nested object, such as a capture's analysis.
                Value::Object(parts) => all.extend(
                    parts
                        .iter()
                        .filter_map(|(part, value)| Some((format!("{}.{part}", name.join(".")), value.as_f64()?))),
                ),
                value => all.extend(value.as_f64().map(|value| (name.join("."), value))),
            }
        }
    }
    all
}

fn text(row: &Map<String, Value>, field: &str) -> String {
    match row.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_figures_by_name() {
        let rows = [
            json!({"path": "thin", "sender": "rate", "targets": 10, "goodput_ratio": 0.9, "jain": null}),
            json!({"path": "thin", "sender": "tcp", "targets": 5, "goodput_ratio": 0.2, "runs": 3}),
        ];
        let measures = measures(&rows, &["path", "sender", "targets"]);
        let names: Vec<&str> = measures.keys().map(String::as_str).collect();
        assert_eq!(names, ["thin.rate.10.goodput_ratio", "thin.tcp.5.goodput_ratio", "thin.tcp.5.runs"]);
        assert_eq!(measures["thin.rate.10.goodput_ratio"], 0.9);
    }

    #[test]
    fn daemon_benches_depend_on_daemons() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let seen =
            ["subscription --case uplink-4", "reflect --capacity --mesh 4", "reflect --targets 10", "bulk --path thin"]
                .map(|text| runs_daemons(&words(text)));
        assert_eq!(seen, [true, true, false, false]);
    }

    #[test]
    fn row_and_nested_measures_are_named() {
        let rows = [json!({"what": "count", "counted": 7, "most": {"count": 7, "lost": 0.0, "why": "none"}})];
        let measures = measures(&rows, &[]);
        let names: Vec<&str> = measures.keys().map(String::as_str).collect();
        assert_eq!(names, ["counted", "most.count", "most.lost"]);
    }
}
