//! Requests that a plan gives one by one: a CSV file with the time, the node, the service and the target of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roost_topology::suggest::did_you_mean;
use roost_wire::{Scheme, Service};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::placement::PlacedNode;
use super::plan::{Named, Plan, PlanError, PlanErrors};

const MAX_BYTES: u64 = 64 << 20;
/// The most requests: days of a busy network.
const MAX_REQUESTS: usize = 1_000_000;
const MAX_TOLD: usize = 20;

/// The requests of a replay, by node and in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    text: Arc<str>,
    requests: Vec<Vec<ReplayedRequest>>,
}

/// The requests before anything counts, and those that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadPhase {
    WarmUp,
    Measured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplayedRequest {
    pub phase: WorkloadPhase,
    pub at: Duration,
    pub service: Service,
    pub target: usize,
    /// The length of a stream, if it is not that of the plan.
    pub stream: Option<Duration>,
    /// The transport, if it is not that of the plan.
    pub transport: Option<Scheme>,
    /// The time-out beyond the length of a stream, if it is not that of the plan.
    pub timeout: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayRow {
    time_s: f64,
    node: String,
    service: String,
    target: String,
    #[serde(default)]
    stream_s: Option<f64>,
    #[serde(default)]
    transport: Option<String>,
    #[serde(default)]
    timeout_s: Option<f64>,
    /// The end that a recording tells of, for comparisons.
    #[serde(default, rename = "recorded")]
    _recorded: Option<String>,
    #[serde(default, rename = "latency_ms")]
    _latency_ms: Option<f64>,
    #[serde(default, rename = "bytes")]
    _bytes: Option<u64>,
}

impl Replay {
    /// Reads the file that the plan in `file` names.
    ///
    /// # Errors
    /// All mistakes, each with its line.
    pub(super) fn load(named: &Named, plan: &Plan, nodes: &[PlacedNode], file: &Path) -> Result<Self, PlanError> {
        let path = file.parent().unwrap_or(Path::new("")).join(&named.name);
        let cannot = |why: String| PlanError::new(file, named.line, format!("its replay {}: {why}", named.name));
        let length = std::fs::metadata(&path).map_err(|error| cannot(format!("cannot be read: {error}")))?.len();
        if length > MAX_BYTES {
            return Err(cannot(format!("has {length} bytes, and at most {MAX_BYTES} are possible")));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| cannot(format!("cannot be read: {error}")))?;
        ReplayReader { plan, nodes, path }.read(&text)
    }

    /// The name of its file in results. It tells the content, since the plan there tells runs apart.
    pub fn file_name(&self) -> String {
        let digest = Sha256::digest(self.text.as_bytes());
        let begin: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("replay-{begin}.csv")
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The requests of a node in lanes: no request of a lane can begin before the one before it has ended, so that each
    /// begins at its time.
    pub fn lanes(&self, plan: &Plan, node: usize, phase: WorkloadPhase) -> Vec<Vec<ReplayedRequest>> {
        let mut lanes: Vec<(Duration, Vec<ReplayedRequest>)> = Vec::new();
        for request in self.requests[node].iter().filter(|request| request.phase == phase) {
            let stream =
                if request.service.is_stream() { request.stream.unwrap_or(plan.stream) } else { Duration::ZERO };
            let over = request.at + request.timeout.unwrap_or(plan.timeout) + stream;
            match lanes.iter_mut().find(|(free, _)| *free < request.at) {
                Some((free, lane)) => {
                    *free = over;
                    lane.push(*request);
                }
                None => lanes.push((over, vec![*request])),
            }
        }
        lanes.into_iter().map(|(_, lane)| lane).collect()
    }
}

struct ReplayReader<'a> {
    plan: &'a Plan,
    nodes: &'a [PlacedNode],
    path: PathBuf,
}

impl ReplayReader<'_> {
    fn read(&self, text: &str) -> Result<Replay, PlanError> {
        let places: BTreeMap<&str, usize> = self.nodes.iter().map(|node| node.name.as_str()).zip(0..).collect();
        let mut reader =
            csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
        let mut wrong = PlanErrors::default();
        let mut requests = vec![Vec::new(); self.nodes.len()];
        let (mut count, mut told) = (0, 0);
        let headers = reader.headers().cloned().map_err(|error| self.error(1, error.to_string()))?;
        let mut record = csv::StringRecord::new();
        loop {
            let line = reader.position().line();
            let row = match reader.read_record(&mut record) {
                Ok(false) => break,
                Ok(true) => record.deserialize::<ReplayRow>(Some(&headers)).map_err(|error| csv_mistake(&error)),
                Err(error) => Err(csv_mistake(&error)),
            };
            let line = record.position().map_or(line, csv::Position::line);
            count += 1;
            let read = match row {
                _ if count > MAX_REQUESTS => Err(format!("a replay has at most {MAX_REQUESTS} requests")),
                Ok(row) => self.request(&row, &places),
                Err(why) => Err(why),
            };
            match read {
                Ok((node, request)) => requests[node].push(request),
                Err(why) => {
                    wrong.record_error(Err(self.error(line, why)));
                    told += 1;
                }
            }
            if told == MAX_TOLD || count > MAX_REQUESTS {
                break;
            }
        }
        wrong.into_result()?;
        requests.iter_mut().for_each(|requests| requests.sort());
        Ok(Replay { text: text.into(), requests })
    }

    fn error(&self, line: u64, why: impl Into<String>) -> PlanError {
        PlanError::new(&self.path, usize::try_from(line).unwrap_or(0), why)
    }

    fn request(&self, row: &ReplayRow, places: &BTreeMap<&str, usize>) -> Result<(usize, ReplayedRequest), String> {
        let place = |name: &str| {
            let known = || places.keys().copied().collect::<BTreeSet<_>>();
            places.get(name).copied().ok_or_else(|| format!("no node `{name}` runs{}", did_you_mean(name, known())))
        };
        let service = Service::ALL.into_iter().find(|service| service.name() == row.service);
        let service = service.ok_or_else(|| {
            let names = Service::ALL.iter().map(Service::name).collect::<Vec<_>>().join(", ");
            format!("`{}` is no service that every node offers: use one of {names}", row.service)
        })?;
        let (phase, at) = self.time(row.time_s)?;
        let stream = row.stream_s.map(|seconds| match seconds {
            0.001..=86_400.0 => Ok(Duration::from_secs_f64(seconds)),
            _ => Err(format!("a stream lasts from 0.001 to 86400 s, not {seconds}")),
        });
        let transport = row.transport.as_ref().filter(|name| !name.is_empty()).map(|name| name.parse::<Scheme>());
        let transport = transport.transpose().map_err(|_| "a transport is udp, tcp or quic".to_owned())?;
        let timeout = row.timeout_s.map(|seconds| match seconds {
            0.001..=86_400.0 => Ok(Duration::from_secs_f64(seconds)),
            _ => Err(format!("a time-out is 0.001 to 86400 s, not {seconds}")),
        });
        let (target, stream, timeout) = (place(&row.target)?, stream.transpose()?, timeout.transpose()?);
        let request = ReplayedRequest { phase, at, service, target, stream, transport, timeout };
        Ok((place(&row.node)?, request))
    }

    /// A time of the workload, or a negative one in the warm-up, which ends at 0.
    fn time(&self, seconds: f64) -> Result<(WorkloadPhase, Duration), String> {
        let Plan { warm_up, duration, .. } = self.plan;
        let (phase, at, length) = match seconds < 0.0 {
            true => (WorkloadPhase::WarmUp, warm_up.as_secs_f64() + seconds, warm_up),
            false => (WorkloadPhase::Measured, seconds, duration),
        };
        if (0.0..length.as_secs_f64()).contains(&at) {
            return Ok((phase, Duration::from_secs_f64(at)));
        }
        Err(format!(
            "at {seconds} s nodes send no requests: the warm-up takes {} s and the duration is {} s",
            warm_up.as_secs_f64(),
            duration.as_secs_f64()
        ))
    }
}

fn csv_mistake(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::Prepared;

    use super::*;

    const PLAN: &str = "topology = { star = { nodes = 4 } }\narchitecture = 'super-node'\nduration = '60s'\n\
                        warm_up = '5s'\ntimeout = '10s'\nstream = '2s'\nreplay = 'r.csv'\n";

    fn prepared(csv: &str) -> Result<Prepared, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("r.csv"), csv).unwrap();
        let file = folder.path().join("p.toml");
        Prepared::from_text(PLAN, &file)
            .map_err(|error| error.to_string().replace(&folder.path().display().to_string(), ""))
    }

    #[test]
    fn every_request_begins_at_its_time() {
        let csv = "time_s,node,service,target,stream_s,transport,timeout_s\n3,node1,video,node2,,,\n\
                   0,node1,image,node3,,tcp,\n14.5,node1,video,node2,5.5,quic,2\n-2,node1,sensor,node2,,,\n\
                   4,node1,track,node2,,,\n";
        let prepared = prepared(csv).unwrap();
        let replay = prepared.replay.as_ref().unwrap();
        let at = |lane: &Vec<ReplayedRequest>| lane.iter().map(|request| request.at.as_millis()).collect::<Vec<_>>();
        let lanes = replay.lanes(&prepared.plan, 0, WorkloadPhase::Measured);
        assert_eq!(lanes.iter().map(at).collect::<Vec<_>>(), [vec![0, 14_500], vec![3_000], vec![4_000]]);
        assert_eq!(
            (lanes[0][1].stream, lanes[0][1].transport, lanes[0][1].timeout),
            (Some(Duration::from_millis(5_500)), Some(Scheme::Quic), Some(Duration::from_secs(2)))
        );
        assert_eq!(at(&replay.lanes(&prepared.plan, 0, WorkloadPhase::WarmUp)[0]), [3_000]);
        assert!(replay.lanes(&prepared.plan, 1, WorkloadPhase::Measured).is_empty());
    }

    #[test]
    fn effective_plan_keeps_replay() {
        let first = prepared("time_s,node,service,target\n3,node1,video,node2\n").unwrap();
        let results = tempfile::tempdir().unwrap();
        first.keep_replay(results.path()).unwrap();
        let again = Prepared::from_text(&first.effective(), &results.path().join("plan.toml")).unwrap();
        assert_eq!((again.effective(), again.replay), (first.effective(), first.replay));
    }

    #[test]
    fn all_mistakes_have_their_lines() {
        let wrong = "time_s,node,service,target\n1,node1,video,node2\n61,node1,video,node2\n-6,node1,video,node2\n\
                     2,node9,video,node2\nx,node1,video,node2\n2,node1,radio,node2\n2,node1\n";
        let told = prepared(wrong).unwrap_err();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 6, "{told}");
        for (line, number) in lines.iter().zip([3, 4, 5, 6, 7, 8]) {
            assert!(line.starts_with(&format!("/r.csv:{number}: ")), "{line}");
        }
        assert!(prepared("time_s,node,who\n1,node1,x\n").unwrap_err().contains("who"));
        let missing = Prepared::from_text(PLAN, Path::new("p.toml")).unwrap_err().to_string();
        assert!(missing.starts_with("p.toml:7: its replay r.csv: cannot be read"), "{missing}");
    }
}
