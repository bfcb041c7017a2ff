//! Runs of `emulate bench`: another process of this program, whose rows become figures.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value};

use super::measures::Measures;

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(100);
/// The most that it may print, bytes.
const MAX_OUTPUT: u64 = 16 << 20;
/// Some of it could not be measured on this machine: all else counts.
const PARTLY: i32 = 3;
/// It was measured, and is not to be trusted.
const INVALID: i32 = 4;

/// What has come of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bench {
    pub(super) measures: Measures,
    /// Why its figures cannot be trusted; empty if they can.
    pub(super) reasons: Vec<String>,
}

/// Runs `emulate bench ARGS --json` with a seed. `by` are the fields of a row
/// whose values make the names of its figures: `quic.loss.late_pct`.
///
/// # Errors
/// A sentence, if it could not be run or printed nothing; `None` if `interrupt` was set.
pub(super) fn run(args: &[String], by: &[&str], seed: u64, interrupt: &AtomicBool) -> Result<Option<Bench>, String> {
    let failed = |error: io::Error| format!("cannot run emulate bench: {error}");
    let (mut printed, mut said) = (file().map_err(failed)?, file().map_err(failed)?);
    let own = std::env::current_exe().map_err(failed)?;
    let seed = seed.to_string();
    // Nothing is drawn where nothing is lost.
    let seeded: &[&str] = if args.first().is_some_and(|what| what == "reflect") { &[] } else { &["--seed", &seed] };
    let mut child = Command::new(own)
        .arg("bench")
        .args(args)
        .arg("--json")
        .args(seeded)
        .stdin(Stdio::null())
        .stdout(printed.try_clone().map_err(failed)?)
        .stderr(said.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let Some(status) = wait(&mut child, interrupt).map_err(failed)? else { return Ok(None) };
    let text = read(&mut printed).map_err(failed)?;
    let value: Option<Value> = serde_json::from_str(&text).ok();
    let rows = value.as_ref().and_then(|value| value["rows"].as_array()).filter(|rows| !rows.is_empty());
    let Some(rows) = rows else {
        let said = read(&mut said).map_err(failed)?;
        return Err(format!("emulate bench {} has measured nothing: {}", args.join(" "), said.trim()));
    };
    let reasons = match status.code() {
        Some(0 | PARTLY) => Vec::new(),
        Some(INVALID) => vec!["it says itself that its figures cannot be trusted".to_owned()],
        _ => vec![format!("it ended with {status}")],
    };
    Ok(Some(Bench { measures: measures(rows, by), reasons }))
}

/// Its end; `None` if somebody interrupted, and then it has ended as well.
fn wait(child: &mut Child, interrupt: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!interrupt.load(Ordering::Relaxed)).then_some(status));
        }
        if interrupt.load(Ordering::Relaxed) {
            // From a terminal it has had the signal as well; it takes its lab down then.
            let child_id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(id) = child_id {
                // One that is gone needs no signal.
                let _ = kill_process(id, Signal::INT);
            }
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// A file that is gone with this process: a pipe would hold up who prints much.
fn file() -> io::Result<File> {
    tempfile::tempfile()
}

fn read(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The figures of rows, by the values of these fields and the name of the figure.
fn measures(rows: &[Value], by: &[&str]) -> Measures {
    let mut all = Measures::new();
    for row in rows.iter().filter_map(Value::as_object) {
        let name: Vec<String> = by.iter().map(|field| text(row, field)).collect();
        for (field, value) in row.iter().filter(|(field, _)| !by.contains(&field.as_str())) {
            let mut name = name.clone();
            name.push(field.clone());
            match value {
                // Of a look at something, and the like.
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
    fn a_row_by_itself_and_what_is_inside_it_have_their_own_names() {
        let rows = [json!({"what": "count", "counted": 7, "most": {"count": 7, "lost": 0.0, "why": "none"}})];
        let measures = measures(&rows, &[]);
        let names: Vec<&str> = measures.keys().map(String::as_str).collect();
        assert_eq!(names, ["counted", "most.count", "most.lost"]);
    }
}
