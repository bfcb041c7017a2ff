//! The objects of the description in JSON.

use std::net::Ipv4Addr;

use serde::Serialize;
use serde_json::Number;

/// A topology as `emulate check --json` prints it.
#[derive(Debug, Serialize)]
pub struct Description {
    pub(super) schema: u32,
    pub(super) source: String,
    pub(super) name: String,
    pub(super) nodes: Vec<NodeRow>,
    pub(super) lans: Vec<NetRow>,
    pub(super) counts: TopologyCounts,
    pub(super) events: Vec<EventRow>,
    pub(super) programs: Vec<ProgramRow>,
    pub(super) trafgens: Vec<TrafficRow>,
    pub(super) ignored: Vec<NoteRow>,
    pub(super) warnings: Vec<NoteRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) hardware: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) os: Option<String>,
    pub(super) routing: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cell: Option<(i32, i32)>,
}

#[derive(Debug, Serialize)]
pub(super) struct NetRow {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) members: Vec<MemberRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) one_way: Vec<OneWayRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct MemberRow {
    pub(super) node: String,
    pub(super) port: usize,
    pub(super) ip: Option<Ipv4Addr>,
    pub(super) ip_is_auto: bool,
    pub(super) prefix: u8,
    pub(super) to_net: LegRow,
    pub(super) from_net: LegRow,
    /// The host's own queue if it is not Emulab's default, as Emulab's listings show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<OwnQueueRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct LegRow {
    pub(super) bw_kbps: Number,
    pub(super) delay_ms: Number,
    pub(super) loss: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jitter_ms: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) burst: Option<BurstRow>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) reorder: bool,
    pub(super) queue: QueueRow,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<TraceRow>,
}

/// A trace, and the way of playing it.
#[derive(Debug, Serialize)]
pub(super) struct TraceRow {
    pub(super) file: String,
    pub(super) sha256: String,
    pub(super) gives: String,
    pub(super) length_s: Number,
    pub(super) start_s: Number,
    pub(super) once: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct BurstRow {
    pub(super) enter: f64,
    pub(super) leave: f64,
    pub(super) loss: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct QueueRow {
    pub(super) limit: u32,
    #[serde(rename = "in")]
    pub(super) unit: &'static str,
    #[serde(flatten)]
    pub(super) discipline: DisciplineRow,
}

#[derive(Debug, Serialize)]
pub(super) struct OwnQueueRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u32>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<&'static str>,
    #[serde(flatten)]
    pub(super) discipline: Option<DisciplineRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct DisciplineRow {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) red: Option<RedRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct RedRow {
    pub(super) minthresh: u32,
    pub(super) maxthresh: u32,
    pub(super) linterm: u32,
    pub(super) weight: Number,
}

#[derive(Debug, Serialize)]
pub(super) struct OneWayRow {
    pub(super) frm: String,
    pub(super) to: String,
    pub(super) bw_kbps: Number,
    pub(super) delay_ms: Number,
    pub(super) loss: Number,
}

#[derive(Debug, Serialize)]
pub(super) struct TopologyCounts {
    pub(super) nodes: usize,
    pub(super) links: usize,
    pub(super) lans: usize,
    pub(super) interfaces: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_events: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) programs: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct EventRow {
    pub(super) t: Number,
    pub(super) object: String,
    pub(super) node: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) event: String,
    pub(super) args: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ProgramRow {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected_exit_code: Option<i32>,
}

#[derive(Debug, Serialize)]
pub(super) struct TrafficRow {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) role: &'static str,
    pub(super) proto: &'static str,
    pub(super) port: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct NoteRow {
    pub(super) line: u32,
    pub(super) text: String,
}
