//! The output of a program, line by line: measurements, and all else, which is its log.
//!
//! A line with a JSON object that has the key `measure` is a measurement. A program's output is never trusted:
//! lines, records and the log have limits, and what goes beyond them is counted.

use std::collections::{BTreeMap, BTreeSet};

use roost_results::record::{Better, MeasurementKind, MeasurementRecord};
use serde::Deserialize;

/// The longest line that may be a measurement, bytes.
const MAX_LINE: usize = 4096;
/// The longest name of a measurement, of a unit, and of a label and its value, characters.
const MAX_NAME: usize = 64;
const MAX_UNIT: usize = 16;
const MAX_LABELS: usize = 8;
const MAX_NAMES: usize = 64;
/// The most measurements of a program: a thousand a second for some minutes.
const MAX_MEASUREMENTS: u64 = 250_000;
/// The most measurements in a second, beyond a first [`BURST`].
const RATE: f64 = 1000.0;
const BURST: f64 = 10_000.0;
const MAX_LOG: u64 = 64 << 20;
/// The longest time that a program may give, seconds.
const MAX_TIME: f64 = 1e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasurementFile {
    measure: String,
    value: Option<f64>,
    ok: Option<bool>,
    count: Option<u64>,
    unit: Option<String>,
    better: Option<Better>,
    t: Option<f64>,
    #[serde(default)]
    labels: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, PartialEq)]
enum OutputLine {
    Log,
    Measurement(Box<MeasurementRecord>),
    Wrong(String),
}

/// Splits a program's output into measurements and its log.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    program: String,
    host: String,
    has_measurements: bool,
    line: Vec<u8>,
    /// True while a line is longer than a measurement can be.
    is_long: bool,
    number: u64,
    names: BTreeSet<String>,
    /// Measurements that may come now, and the time at which that was true.
    allowance: f64,
    allowed_at: f64,
    logged: u64,
    pub(super) losses: OutputLosses,
    found: u64,
}

/// The parts of an output that are not in the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputLosses {
    pub(super) measurements: u64,
    pub(super) log_bytes: u64,
    /// Lines that were to be measurements, and the first mistake.
    pub(super) wrong: u64,
    pub(super) mistake: Option<String>,
}

/// The news in a part of an output.
#[derive(Debug, Default)]
pub(super) struct OutputNews {
    pub(super) measurements: Vec<MeasurementRecord>,
    pub(super) log: Vec<u8>,
}

impl ProgramOutput {
    pub(super) fn new(program: &str, host: &str) -> Self {
        Self {
            program: program.to_owned(),
            host: host.to_owned(),
            has_measurements: true,
            line: Vec::new(),
            is_long: false,
            number: 0,
            names: BTreeSet::new(),
            allowance: BURST,
            allowed_at: 0.0,
            logged: 0,
            losses: OutputLosses::default(),
            found: 0,
        }
    }

    /// An output that is nothing but a log.
    pub(super) fn without_measurements(self) -> Self {
        Self { has_measurements: false, ..self }
    }

    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// Reads a part of the output, which came `t` seconds after the beginning.
    pub(super) fn add_bytes(&mut self, t: f64, bytes: &[u8]) -> OutputNews {
        let mut news = OutputNews::default();
        if !self.has_measurements {
            self.log(bytes, &mut news);
            return news;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_long || self.line.len() + part.len() > MAX_LINE {
                let begun = std::mem::take(&mut self.line);
                self.log(&begun, &mut news);
                self.log(part, &mut news);
                self.is_long = true;
            } else {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.end_line(t, &mut news);
            }
        }
        news
    }

    /// Reads the last line, which may have no end.
    pub(super) fn end(&mut self, t: f64) -> OutputNews {
        let mut news = OutputNews::default();
        self.end_line(t, &mut news);
        news
    }

    fn end_line(&mut self, t: f64, news: &mut OutputNews) {
        self.number += 1;
        self.is_long = false;
        let line = std::mem::take(&mut self.line);
        match self.read_line(t, &line) {
            OutputLine::Log => self.log(&line, news),
            OutputLine::Measurement(record) if self.has_room(t, &record.measure) => news.measurements.push(*record),
            OutputLine::Measurement(_) => self.losses.measurements += 1,
            OutputLine::Wrong(why) => {
                self.losses.wrong += 1;
                let number = self.number;
                self.losses.mistake.get_or_insert_with(|| format!("line {number}: {why}"));
                self.log(&line, news);
            }
        }
    }

    fn log(&mut self, bytes: &[u8], news: &mut OutputNews) {
        let room = usize::try_from(MAX_LOG - self.logged).unwrap_or(usize::MAX).min(bytes.len());
        news.log.extend_from_slice(&bytes[..room]);
        self.logged += room as u64;
        self.losses.log_bytes += (bytes.len() - room) as u64;
    }

    /// True if the limits allow another measurement.
    fn has_room(&mut self, t: f64, name: &str) -> bool {
        self.allowance = (self.allowance + (t - self.allowed_at).max(0.0) * RATE).min(BURST);
        self.allowed_at = t;
        let is_known = self.names.contains(name);
        if self.allowance < 1.0 || self.found == MAX_MEASUREMENTS || !is_known && self.names.len() == MAX_NAMES {
            return false;
        }
        if !is_known {
            self.names.insert(name.to_owned());
        }
        self.allowance -= 1.0;
        self.found += 1;
        true
    }

    fn read_line(&self, t: f64, line: &[u8]) -> OutputLine {
        if !line.trim_ascii_start().starts_with(b"{") {
            return OutputLine::Log;
        }
        let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        let Some(value) = value.filter(|value| value.get("measure").is_some()) else { return OutputLine::Log };
        match serde_json::from_value::<MeasurementFile>(value) {
            Ok(file) => match self.record(t, file) {
                Ok(record) => OutputLine::Measurement(Box::new(record)),
                Err(why) => OutputLine::Wrong(why),
            },
            Err(error) => OutputLine::Wrong(error.to_string()),
        }
    }

    fn record(&self, t: f64, file: MeasurementFile) -> Result<MeasurementRecord, String> {
        let (kind, value) = match (file.value, file.ok, file.count) {
            (Some(value), None, None) if value.is_finite() => (MeasurementKind::Value, value),
            (None, Some(ok), None) => (MeasurementKind::Ok, f64::from(u8::from(ok))),
            (None, None, Some(count)) => (MeasurementKind::Count, count as f64),
            (Some(value), None, None) => return Err(format!("the value {value} is not finite")),
            _ => return Err("a measurement has one of `value`, `ok` and `count`".to_owned()),
        };
        check_text("the name of a measurement", &file.measure, MAX_NAME)?;
        let unit = file.unit.unwrap_or_default();
        if !unit.is_empty() {
            check_text("a unit", &unit, MAX_UNIT)?;
        }
        if file.labels.len() > MAX_LABELS {
            return Err(format!("a measurement has at most {MAX_LABELS} labels"));
        }
        let t = match file.t {
            Some(given) if given.abs() <= MAX_TIME => given,
            Some(given) => return Err(format!("{given} is no time of the run in seconds")),
            None => t,
        };
        let (program, host, better) = (self.program.clone(), self.host.clone(), file.better);
        let labels = file.labels.into_iter().map(|(name, value)| label(name, value)).collect::<Result<_, _>>()?;
        Ok(MeasurementRecord { t, program, host, measure: file.measure, kind, value, unit, better, labels })
    }
}

fn label(name: String, value: serde_json::Value) -> Result<(String, String), String> {
    let value = match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Number(number) => number.to_string(),
        serde_json::Value::Bool(truth) => truth.to_string(),
        _ => return Err("the value of a label is a text, a number, or true or false".to_owned()),
    };
    check_text("a label", &name, MAX_NAME)?;
    if !value.is_empty() {
        check_text("the value of a label", &value, MAX_NAME)?;
    }
    Ok((name, value))
}

fn check_text(what: &str, text: &str, most: usize) -> Result<(), String> {
    let length = text.chars().count();
    if (1..=most).contains(&length) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(format!("{what} has 1 to {most} characters, and none that cannot be printed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> ProgramOutput {
        ProgramOutput::new("p", "a")
    }

    fn only(line: &str) -> MeasurementRecord {
        let news = output().add_bytes(2.5, format!("{line}\n").as_bytes());
        assert_eq!((news.measurements.len(), news.log.len()), (1, 0), "{line}");
        news.measurements[0].clone()
    }

    fn mistake(line: &str) -> String {
        let mut output = output();
        let news = output.add_bytes(0.0, format!("hello\n{line}\n").as_bytes());
        assert!(news.measurements.is_empty() && news.log.len() == line.len() + 7, "{line}");
        output.losses.mistake.unwrap()
    }

    #[test]
    fn measurements_have_three_kinds() {
        let latency =
            only(r#"{"measure":"latency","value":12.5,"unit":"ms","better":"lower","labels":{"n":3,"x":"y"}}"#);
        assert_eq!((latency.t, latency.value, latency.unit.as_str()), (2.5, 12.5, "ms"));
        assert_eq!((latency.better, latency.kind), (Some(Better::Lower), MeasurementKind::Value));
        assert_eq!(latency.labels["n"], "3");
        let ok = only(r#"{"measure":"found","ok":false,"t":1.25}"#);
        assert_eq!((ok.t, ok.value, ok.kind), (1.25, 0.0, MeasurementKind::Ok));
        let count = only(r#"  {"measure":"retries","count":7}"#);
        assert_eq!((count.value, count.kind), (7.0, MeasurementKind::Count));
    }

    #[test]
    fn all_else_is_log() {
        let mut output = output();
        let text = "hello\n{\"level\":\"info\"}\n{broken\n[1]\n\u{0}\n{\"measure\":";
        let mut log = output.add_bytes(0.0, text.as_bytes()).log;
        log.extend(output.end(0.0).log);
        assert_eq!((log.as_slice(), output.losses), (text.as_bytes(), OutputLosses::default()));
    }

    #[test]
    fn mistakes_are_named_and_logged() {
        assert!(mistake(r#"{"measure":"x"}"#).starts_with("line 2: a measurement has one of"));
        assert!(mistake(r#"{"measure":"x","value":1,"ok":true}"#).contains("one of `value`"));
        assert!(mistake(r#"{"measure":"x","value":"fast"}"#).contains("fast"));
        assert!(mistake(r#"{"measure":"x","value":1,"uint":"ms"}"#).contains("`uint`"));
        assert!(mistake(r#"{"measure":"","value":1}"#).contains("1 to 64 characters"));
        assert!(mistake(r#"{"measure":"x","value":1,"t":1e300}"#).contains("no time of the run"));
        assert!(mistake(r#"{"measure":"x","value":1,"labels":{"a":[]}}"#).contains("a label"));
        assert!(mistake("{\"measure\":\"a\\u0007\",\"value\":1}").contains("printed"));
    }

    #[test]
    fn lines_may_come_in_parts() {
        let mut output = output();
        let line = b"{\"measure\":\"x\",\"value\":1}\n";
        let found: usize = line.iter().map(|byte| output.add_bytes(0.0, &[*byte]).measurements.len()).sum();
        assert_eq!((found, output.line.len()), (1, 0));
    }

    #[test]
    fn endless_line_needs_no_memory() {
        let mut output = output();
        let part = [b'x'; 1 << 16];
        let logged: usize = (0..1100).map(|_| output.add_bytes(0.0, &part).log.len()).sum();
        assert_eq!((logged as u64, output.line.capacity() <= MAX_LINE), (MAX_LOG, true));
        assert_eq!(output.losses.log_bytes, 1100 * (1 << 16) - MAX_LOG);
        let news = output.add_bytes(0.0, b"\n{\"measure\":\"x\",\"value\":1}\n");
        assert_eq!(news.measurements.len(), 1);
    }

    #[test]
    fn mere_log_is_cut_too() {
        let mut output = output().without_measurements();
        let line = "{\"measure\":\"x\",\"value\":1}\n";
        let news = output.add_bytes(0.0, line.as_bytes());
        assert_eq!((news.measurements.len(), news.log.as_slice()), (0, line.as_bytes()));
        let logged: usize = (0..1100).map(|_| output.add_bytes(0.0, &[b'x'; 1 << 16]).log.len()).sum();
        assert_eq!((logged + line.len()) as u64, MAX_LOG);
    }

    #[test]
    fn flood_of_measurements_is_cut() {
        let mut output = output();
        let line = "{\"measure\":\"x\",\"value\":1}\n".repeat(1000);
        let found: usize = (0..100).map(|_| output.add_bytes(0.0, line.as_bytes()).measurements.len()).sum();
        assert_eq!((found, output.losses.measurements), (10_000, 90_000));
        assert_eq!(output.add_bytes(1.0, line.as_bytes()).measurements.len(), 1000);
        let many: u64 =
            (0..1000).map(|t| output.add_bytes(f64::from(t), line.as_bytes()).measurements.len() as u64).sum();
        assert_eq!(many + 11_000, MAX_MEASUREMENTS);
    }

    #[test]
    fn names_of_measurements_are_limited() {
        let mut output = output();
        let lines: String = (0..100).map(|n| format!("{{\"measure\":\"m{n}\",\"value\":1}}\n")).collect();
        assert_eq!(output.add_bytes(0.0, lines.as_bytes()).measurements.len(), MAX_NAMES);
        assert_eq!(output.add_bytes(0.0, lines.as_bytes()).measurements.len(), MAX_NAMES);
    }
}
