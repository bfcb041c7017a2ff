//! `iperf3` between two hosts, with its results in JSON.

use std::time::Duration;

use roost_lab::Lab;
use roost_topology::model::HostIndex;
use serde_json::Value;

use super::BenchContext;
use super::program::{IPERF3, ToolError, ToolProcess, listens};

pub(super) const PORT: u16 = 5201;
/// The extra time that it may take: its control connection crosses the same link, behind the queue.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IperfResult {
    /// In order of time.
    pub(super) intervals: Vec<IperfInterval>,
    /// UDP packets that were lost, out of all `packets`; zero for TCP.
    pub(super) lost: u64,
    pub(super) packets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IperfInterval {
    /// Seconds since the start of the test.
    pub(super) start: f64,
    pub(super) seconds: f64,
    /// Of payload.
    pub(super) bytes: f64,
}

/// Runs a test of `length` from one host to another, with further arguments.
pub(super) fn run(
    bench: &BenchContext<'_>,
    lab: &Lab,
    (from, to): (HostIndex, HostIndex),
    length: Duration,
    arguments: &[&str],
) -> Result<IperfResult, ToolError> {
    let mut server = ToolProcess::start(lab, to, IPERF3, &["-4", "-s", "-1", "-J"])?;
    server.wait_for(|| listens(lab, to, PORT))?;
    let address = lab.address(to).map(|address| address.to_string()).unwrap_or_default();
    let seconds = format!("{}", length.as_secs().max(1));
    let usual = ["-c", &address, "-t", &seconds, "-J", "--get-server-output"];
    let client = ToolProcess::start(lab, from, IPERF3, &[&usual, arguments].concat())?;
    let text = client.finish(length + PATIENCE, bench.stop)?.text(IPERF3)?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| ToolError::NotMeasured(format!("iperf3's answer: {error}")))?;
    received(&value).ok_or_else(|| {
        let said = value["error"].as_str().unwrap_or("its answer lacks what the server saw");
        ToolError::NotMeasured(format!("iperf3: {said}"))
    })
}

/// Reads the server's results from the client's output.
fn received(client: &Value) -> Option<IperfResult> {
    let server = client.get("server_output_json")?;
    let intervals = server["intervals"].as_array()?.iter().map(|interval| {
        let sum = &interval["sum"];
        Some(IperfInterval {
            start: sum["start"].as_f64()?,
            seconds: sum["seconds"].as_f64()?,
            bytes: sum["bytes"].as_f64()?,
        })
    });
    let intervals = intervals.collect::<Option<Vec<_>>>()?;
    let sum = &client["end"]["sum"];
    let count = |name: &str| sum[name].as_u64().unwrap_or(0);
    Some(IperfResult { intervals, lost: count("lost_packets"), packets: count("packets") })
}

impl IperfResult {
    /// Payload bits per second of whole intervals, without the first `skip` seconds, and without a shorter
    /// interval at the end.
    pub(super) fn rate(&self, skip: f64) -> Option<f64> {
        let longest = self.intervals.iter().map(|interval| interval.seconds).fold(0.0, f64::max);
        let whole = self.intervals.iter().filter(|one| one.start >= skip - 0.1 && one.seconds > longest * 0.9);
        let (bytes, seconds) = whole.fold((0.0, 0.0), |sum, one| (sum.0 + one.bytes, sum.1 + one.seconds));
        (seconds > 0.0).then(|| bytes * 8.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interval(start: f64, seconds: f64, bytes: u64) -> Value {
        json!({"sum": {"start": start, "seconds": seconds, "bytes": bytes}})
    }

    #[test]
    fn rate_uses_whole_server_intervals() {
        let intervals =
            json!([interval(0.0, 1.0, 9), interval(1.0, 1.0, 1000), interval(2.0, 1.0, 2000), interval(3.0, 0.1, 7)]);
        let answer = json!({
            "server_output_json": {"intervals": intervals},
            "end": {"sum": {"lost_packets": 3, "packets": 100}},
        });
        let received = received(&answer).unwrap();
        assert_eq!((received.lost, received.packets), (3, 100));
        assert_eq!(received.rate(1.0), Some(12_000.0));
        assert_eq!(received.rate(5.0), None);
    }

    #[test]
    fn missing_server_output_gives_none() {
        assert_eq!(received(&json!({"error": "unable to connect"})), None);
        assert_eq!(received(&json!({"server_output_json": {"intervals": [{}]}})), None);
    }
}
