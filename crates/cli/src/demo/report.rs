//! The demo's result, for people and for scripts.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::failover::Failover;
use super::row::DemoRow;
use roost_terminal::{Output, SCHEMA, Table};

use crate::failure::Outcome;

const NOTES: &str = "\
Each row is a first contact over its transport: overhead and first byte include finding the
provider and the handshakes that this takes. Overhead is every byte that all sockets of all
processes of that row's mode sent meanwhile, less the payload once; headers of IP, UDP and TCP
are not counted. In cs the data crosses two connections (provider to server, server to
requester): the second copy is overhead.
";

pub(super) struct DemoReport<'a> {
    rows: &'a [DemoRow],
    warm: &'a DemoRow,
    scenes: &'a Scenes,
}

/// Results of the demo's first part, before the rows.
pub(super) struct Scenes {
    /// The file of the picture, which stays after the demo.
    pub(super) picture: PathBuf,
    pub(super) failover: Failover,
}

#[derive(Serialize)]
struct Object {
    schema: u32,
    rows: Vec<RowObject>,
    picture: String,
    failover: FailoverObject,
}

#[derive(Serialize)]
struct FailoverObject {
    killed: String,
    next: String,
    answered_ms: f64,
    moved_ms: f64,
}

#[derive(Serialize)]
struct RowObject {
    mode: &'static str,
    service: String,
    transport: &'static str,
    ok: bool,
    first_byte_ms: Option<f64>,
    total_ms: Option<f64>,
    payload_bytes: u64,
    overhead_bytes: u64,
    lost: u64,
    digest_ok: Option<bool>,
}

impl<'a> DemoReport<'a> {
    /// Makes the report of `rows`, and of a row that was requested again.
    pub(super) const fn new(rows: &'a [DemoRow], warm: &'a DemoRow, scenes: &'a Scenes) -> Self {
        Self { rows, warm, scenes }
    }

    pub(super) fn print(&self, output: Output) -> Outcome {
        if output.is_json() {
            return Ok(output.json(&self.object())?);
        }
        output.table(&self.table())?;
        output.data("\n")?;
        output.data(NOTES)?;
        Ok(output.painted(&format!("\n{}{}\n", self.again(), self.summary(output)))?)
    }

    fn object(&self) -> Object {
        let Failover { killed, next, answered, moved } = &self.scenes.failover;
        let millis = |duration: &Duration| duration.as_secs_f64() * 1e3;
        Object {
            schema: SCHEMA,
            rows: self.rows.iter().map(object).collect(),
            picture: self.scenes.picture.display().to_string(),
            failover: FailoverObject {
                killed: killed.clone(),
                next: next.clone(),
                answered_ms: millis(answered),
                moved_ms: millis(moved),
            },
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "MODE",
            "SERVICE",
            "TRANSPORT",
            "OK",
            ">FIRST BYTE ms",
            ">TOTAL ms",
            ">PAYLOAD B",
            ">OVERHEAD B",
            ">LOST",
            "DIGEST",
        ]);
        for row in self.rows {
            table.row([
                row.mode.name().to_owned(),
                row.service.to_string(),
                row.transport.to_string(),
                if row.ok { "yes" } else { "NO" }.to_owned(),
                row.first_byte_ms.map(|ms| format!("{ms:.2}")).unwrap_or_default(),
                row.total_ms.map(|ms| format!("{ms:.1}")).unwrap_or_default(),
                row.payload_bytes.to_string(),
                row.overhead_bytes.to_string(),
                row.lost.to_string(),
                digest(row.digest_ok).to_owned(),
            ]);
        }
        table
    }

    /// The sentence about a request between nodes that know one another.
    fn again(&self) -> String {
        let DemoRow { service, transport, payload_bytes, overhead_bytes, .. } = self.warm;
        let Some(first) = self.warm.first_byte_ms.filter(|_| self.warm.ok) else { return String::new() };
        format!(
            "Asked for again by {} over {transport}, {service} had its first byte after {first:.2} ms, and {overhead_bytes} \
             bytes of overhead for {payload_bytes} of payload.\n",
            self.warm.mode.name()
        )
    }

    fn summary(&self, output: Output) -> String {
        let ok = self.rows.iter().filter(|row| row.ok).count();
        let payload: u64 = self.rows.iter().map(|row| row.payload_bytes).sum();
        let all = ok == self.rows.len();
        let word = if all { output.good("All is well:") } else { output.bad("Not all is well:") };
        let payload = payload as f64 / 1e6;
        format!("{word} {ok} of {} requests brought what was sent, {payload:.1} MB in all.", self.rows.len())
    }
}

fn object(row: &DemoRow) -> RowObject {
    RowObject {
        mode: row.mode.name(),
        service: row.service.name().to_owned(),
        transport: row.transport.name(),
        ok: row.ok,
        first_byte_ms: row.first_byte_ms,
        total_ms: row.total_ms,
        payload_bytes: row.payload_bytes,
        overhead_bytes: row.overhead_bytes,
        lost: row.lost,
        digest_ok: row.digest_ok,
    }
}

const fn digest(ok: Option<bool>) -> &'static str {
    match ok {
        Some(true) => "ok",
        Some(false) => "WRONG",
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::{Scheme, Service};

    use super::super::world::Architecture;
    use super::*;

    #[test]
    fn row_has_documented_fields() {
        let row = DemoRow {
            mode: Architecture::ClientServer,
            service: Service::Track,
            transport: Scheme::Quic,
            ok: true,
            first_byte_ms: Some(1.5),
            total_ms: Some(2000.25),
            payload_bytes: 10_000,
            overhead_bytes: 14_321,
            lost: 0,
            digest_ok: None,
            problem: None,
            code: None,
        };
        let expected = "{\"mode\":\"cs\",\"service\":\"track\",\"transport\":\"quic\",\"ok\":true,\
            \"first_byte_ms\":1.5,\"total_ms\":2000.25,\"payload_bytes\":10000,\"overhead_bytes\":14321,\
            \"lost\":0,\"digest_ok\":null}";
        assert_eq!(serde_json::to_string(&object(&row)).unwrap(), expected);
    }
}
