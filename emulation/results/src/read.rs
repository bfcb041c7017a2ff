//! Reads the folder of a run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::record::{
    LinkLoad, LinkRecord, LinkStateRecord, MeasurementRecord, MotionRecord, NodeRecord, PositionRecord, ProgramRecord,
    Record, RequestOutcome, RequestRecord, RoomStreamRecord, RunRecord, SCHEMA, SampleRecord, TrafficRecord,
};

/// The events, one JSON object for each line.
pub const EVENTS_FILE: &str = "events.jsonl";
pub const RUN_FILE: &str = "run.json";
/// The plan with its defaults filled in; shown and compared if it exists.
pub const PLAN_FILE: &str = "plan.toml";

/// The network of the run; compared if it exists.
pub const TOPOLOGY_FILE: &str = "topology.toml";

/// The longest line of events that is read, bytes.
const MAX_LINE: u64 = 1 << 20;
/// The most records of a run that are kept.
const MAX_RECORDS: u64 = 10_000_000;
/// The largest plan or topology that is read, bytes.
const MAX_TEXT: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    pub folder: PathBuf,
    pub run: RunRecord,
    pub plan: Option<String>,
    pub topology: Option<String>,
    /// The requests, in the order in which they ended.
    pub requests: Vec<RequestRecord>,
    /// Events of the schedule, and failures.
    pub incidents: Vec<Incident>,
    /// Samples of the run, second by second.
    pub samples: Vec<SampleRecord>,
    pub nodes: BTreeMap<String, NodeSpan>,
    /// The counters of each direction of each link.
    pub links: Vec<LinkRecord>,
    /// The rates of directions that play traces, and their use, second by second.
    pub trace_loads: Vec<TraceLoad>,
    /// The programs that have ended, in that order.
    pub programs: Vec<ProgramRecord>,
    pub traffic: Vec<TrafficRecord>,
    /// The cells of nodes, and their moves; empty for a plan without movement.
    pub positions: Vec<PositionRecord>,
    pub motions: Vec<MotionRecord>,
    /// By time; a run records some of them a second late.
    pub link_states: Vec<LinkStateRecord>,
    /// The streams of rooms, those of one member together.
    pub room_streams: Vec<RoomStreamRecord>,
    /// The measurements of all programs, in the order of arrival.
    pub measurements: Vec<MeasurementRecord>,
    /// Irregularities of the files, one sentence each.
    pub remarks: Vec<String>,
}

/// The rate of a trace in a second, and its use.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceLoad {
    pub t: f64,
    pub rate_bps: u64,
    pub link: LinkLoad,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// In seconds.
    pub t: f64,
    /// The host, link or program.
    pub object: String,
    /// A sentence.
    pub what: String,
}

/// A daemon's counters at the start of the workload, and at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpan {
    pub first: NodeRecord,
    /// The last record; equal to the first if there is only one.
    pub last: NodeRecord,
}

/// The folder of a run cannot be read. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The folder or one of its files cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Not the folder of a run.
    #[error("{} has no {RUN_FILE}: name the folder that `emulate run` wrote", folder.display())]
    NotARun { folder: PathBuf },
    #[error("{}, line {line}: {problem}", path.display())]
    Malformed {
        path: PathBuf,
        /// From 1.
        line: u64,
        problem: String,
    },
    #[error("{} has schema {found}, and this version reads up to {SCHEMA}: use a newer `emulate`", path.display())]
    Newer { path: PathBuf, found: u32 },
}

/// Reads the run in `folder`: `run.json`, `events.jsonl` and, if it exists, `plan.toml`.
///
/// The events are read line by line. A last line that was cut off, as a crash leaves it, is left out with a
/// remark; records of kinds that this version does not know are skipped with a remark.
///
/// # Errors
/// Fails when a file is missing or malformed; the error names the file and the line.
pub fn read(folder: &Path) -> Result<Results, ReadError> {
    let path = folder.join(RUN_FILE);
    if !path.is_file() {
        return Err(ReadError::NotARun { folder: folder.to_owned() });
    }
    let run = read_run(&path)?;
    let mut results = Results::new(folder, run, read_text(&folder.join(PLAN_FILE))?);
    results.topology = read_text(&folder.join(TOPOLOGY_FILE))?;
    let path = folder.join(EVENTS_FILE);
    let file = File::open(&path).map_err(|source| ReadError::Io { path: path.clone(), source })?;
    results.read_events(&path, BufReader::new(file))?;
    results.restore_run_length();
    results.link_states.sort_by(|one, other| one.t.total_cmp(&other.t));
    Ok(results)
}

/// Reads `run.json`, of a run that goes on, too.
///
/// # Errors
/// Fails when it cannot be read, or is malformed or newer.
pub fn read_run(path: &Path) -> Result<RunRecord, ReadError> {
    let text = fs::read_to_string(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    let malformed = |error: serde_json::Error| ReadError::Malformed {
        path: path.to_owned(),
        line: error.line() as u64,
        problem: error.to_string(),
    };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
    let found = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if found > u64::from(SCHEMA) {
        return Err(ReadError::Newer { path: path.to_owned(), found: u32::try_from(found).unwrap_or(u32::MAX) });
    }
    serde_json::from_str(&text).map_err(malformed)
}

fn read_text(path: &Path) -> Result<Option<String>, ReadError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReadError::Io { path: path.to_owned(), source }),
    };
    let mut bytes = Vec::new();
    file.take(MAX_TEXT).read_to_end(&mut bytes).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

impl Results {
    pub fn new(folder: &Path, run: RunRecord, plan: Option<String>) -> Self {
        Self {
            folder: folder.to_owned(),
            run,
            plan,
            topology: None,
            requests: Vec::new(),
            incidents: Vec::new(),
            samples: Vec::new(),
            nodes: BTreeMap::new(),
            links: Vec::new(),
            trace_loads: Vec::new(),
            programs: Vec::new(),
            traffic: Vec::new(),
            positions: Vec::new(),
            motions: Vec::new(),
            link_states: Vec::new(),
            room_streams: Vec::new(),
            measurements: Vec::new(),
            remarks: Vec::new(),
        }
    }

    fn read_events(&mut self, path: &Path, mut input: impl BufRead) -> Result<(), ReadError> {
        let mut line = Vec::new();
        let mut unknown = 0_u64;
        for number in 1.. {
            line.clear();
            let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            if read.map_err(|source| ReadError::Io { path: path.to_owned(), source })? == 0 {
                break;
            }
            let malformed = |problem| ReadError::Malformed { path: path.to_owned(), line: number, problem };
            if number > MAX_RECORDS {
                return Err(malformed(format!("more than {MAX_RECORDS} records")));
            }
            let ended = line.last() == Some(&b'\n');
            if !ended && line.len() as u64 == MAX_LINE {
                return Err(malformed(format!("longer than {MAX_LINE} bytes")));
            }
            match serde_json::from_slice(&line) {
                Ok(record) => self.add_record(record),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(_) if !ended => self.remarks.push(format!(
                    "The last line of {EVENTS_FILE} (line {number}) is cut off and was left out: \
                     the run did not end by itself."
                )),
                Err(_) if is_unknown(&line) => unknown += 1,
                Err(error) => return Err(malformed(error.to_string())),
            }
        }
        if unknown > 0 {
            let remark = format!("{unknown} records are of kinds that this version does not know and were left out.");
            self.remarks.push(remark);
        }
        Ok(())
    }

    /// Sets the length of a run that broke off, from its last sample.
    fn restore_run_length(&mut self) {
        if self.run.ran_s <= 0.0 {
            self.run.ran_s = self.samples.last().map_or(0.0, |sample| sample.t);
        }
    }

    pub fn add_record(&mut self, record: Record) {
        match record {
            Record::Request(request) => self.requests.push(request),
            Record::Incident { t, object, what } => self.incidents.push(Incident { t, object, what }),
            Record::Sample(sample) => self.samples.push(sample),
            // The live page alone shows those without a trace.
            Record::Load(load) => self.trace_loads.extend(
                load.links.into_iter().filter_map(|link| Some(TraceLoad { t: load.t, rate_bps: link.rate_bps?, link })),
            ),
            Record::Node(node) => match self.nodes.get_mut(&node.node) {
                Some(span) => span.last = node,
                None => {
                    self.nodes.insert(node.node.clone(), NodeSpan { first: node.clone(), last: node });
                }
            },
            Record::Link(link) => self.links.push(link),
            Record::Program(program) => self.programs.push(program),
            Record::Traffic(traffic) => self.traffic.push(traffic),
            Record::Position(position) => self.positions.push(position),
            Record::Motion(motion) => self.motions.push(motion),
            Record::LinkState(state) => self.link_states.push(state),
            Record::RoomStream(stream) => self.room_streams.push(stream),
            Record::Measurement(measurement) => self.measurements.push(measurement),
        }
    }

    pub fn completed(&self) -> impl Iterator<Item = &RequestRecord> {
        self.requests.iter().filter(|request| request.outcome == RequestOutcome::Completed)
    }
}

/// True if the line is a record of a kind that a later version may have added.
fn is_unknown(line: &[u8]) -> bool {
    const KNOWN: [&str; 13] = [
        "request",
        "incident",
        "sample",
        "load",
        "node",
        "link",
        "program",
        "traffic",
        "position",
        "motion",
        "link-state",
        "room-stream",
        "measurement",
    ];
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    let kind = value.as_ref().and_then(|value| value.get("record")).and_then(serde_json::Value::as_str);
    kind.is_some_and(|kind| !KNOWN.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Reads a run of 20 requests with these lines added to its events.
    fn read_with(lines: &str) -> Result<Results, ReadError> {
        let folder = tempfile::tempdir().unwrap();
        testing::small().write(folder.path());
        let path = folder.path().join(EVENTS_FILE);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str(lines);
        fs::write(&path, text).unwrap();
        read(folder.path())
    }

    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let written = testing::small();
        written.write(folder.path());
        let read = read(folder.path()).unwrap();
        assert_eq!(read.requests, written.results.requests);
        assert_eq!(read.links, written.results.links);
        assert_eq!(read.nodes, written.results.nodes);
        assert_eq!(read.run, written.results.run);
        assert!(read.remarks.is_empty());
    }

    #[test]
    fn truncated_last_line_is_skipped() {
        let whole = read_with("").unwrap();
        let cut = read_with("{\"record\":\"sample\",\"t\":61.0,\"offe").unwrap();
        assert_eq!(cut.samples.len(), whole.samples.len());
        assert_eq!(cut.remarks.len(), 1);
        assert!(cut.remarks[0].contains("cut off"), "{}", cut.remarks[0]);
    }

    #[test]
    fn aborted_run_ends_at_last_sample() {
        let folder = tempfile::tempdir().unwrap();
        let mut broken = testing::small();
        broken.results.run.ran_s = 0.0;
        broken.write(folder.path());
        assert_eq!(read(folder.path()).unwrap().run.ran_s, 60.0);
    }

    #[test]
    fn malformed_line_error_names_line() {
        let lines = read_with("").unwrap();
        let count = fs_lines(&lines);
        let error = read_with("{\"record\":\"sample\",\"t\":\"soon\"}\n").unwrap_err().to_string();
        assert!(error.contains(&format!("line {}", count + 1)), "{error}");
    }

    fn fs_lines(results: &Results) -> usize {
        results.requests.len()
            + results.incidents.len()
            + results.samples.len()
            + 2 * results.nodes.len()
            + results.links.len()
    }

    #[test]
    fn late_link_states_are_sorted() {
        let state = |t, rate| {
            let (t, up) = (f64::from(t), "\"link\":\"r\",\"from\":\"a\",\"to\":\"b\",\"up\":true");
            format!("{{\"record\":\"link-state\",\"t\":{t},{up},\"rate_bps\":{rate}}}\n")
        };
        let read = read_with(&[state(2, 5), state(1, 6), state(1, 7)].concat()).unwrap();
        let rates: Vec<_> = read.link_states.iter().map(|state| state.rate_bps).collect();
        assert_eq!(rates, [Some(6), Some(7), Some(5)]);
    }

    #[test]
    fn unknown_records_skipped_with_remark() {
        let read = read_with("{\"record\":\"weather\",\"wind\":3}\n{\"record\":\"weather\"}\n\n").unwrap();
        assert_eq!(read.remarks, ["2 records are of kinds that this version does not know and were left out."]);
    }

    #[test]
    fn later_schema_and_empty_folder_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path()), Err(ReadError::NotARun { .. })));
        fs::write(folder.path().join(RUN_FILE), "{\"schema\": 99}").unwrap();
        assert!(matches!(read(folder.path()), Err(ReadError::Newer { found: 99, .. })));
    }
}
