//! Intervals for one run on each side.

use std::collections::BTreeSet;

use roost_results::Results;
use roost_results::metrics::{MeasurementSummary, Metrics};
use roost_results::record::{MeasurementKind, RequestOutcome, RequestRecord};
use roost_statistics::{RatioInterval, blocks, latencies};

use super::ComparisonRow;
use crate::measure::{MeasureKind, MeasuredFigure, QUANTILES};

/// A fixed seed, so that the draws are the same each time.
const SEED: u64 = 1;
/// The columns before those of the services: offered bytes, payload bytes, requests completed, and those that
/// could be.
const COLUMNS: usize = 4;
/// The most seconds of a run that are used.
const MAX_SECONDS: usize = 1_000_000;

type SingleRun = (Results, Metrics);

/// Sets the intervals of the rows that can have one: latencies from their requests, counts and traffic from
/// blocks of time. Bytes over ports, parts of the overhead and the load of hubs are counted once for a run, and
/// have none.
pub(super) fn intervals(a: &SingleRun, b: &SingleRun, rows: &mut [ComparisonRow]) {
    latency_intervals(&a.1, &b.1, rows);
    measurement_intervals(&a.1, &b.1, rows);
    block_intervals(&a.0, &b.0, rows);
}

fn latency_intervals(a: &Metrics, b: &Metrics, rows: &mut [ComparisonRow]) {
    let quantiles = QUANTILES.map(|thousandths| f64::from(thousandths) / 1000.0);
    for (index, service) in a.services.iter().enumerate() {
        let Some(other) = b.service(&service.service) else { continue };
        let seed = SEED + index as u64;
        let found = latencies(&service.latency.sorted, &other.latency.sorted, &quantiles, seed);
        let name = &service.service;
        let kinds = QUANTILES.map(|thousandths| MeasureKind::Latency(name.clone(), thousandths));
        for (kind, interval) in kinds.into_iter().chain([MeasureKind::MeanLatency(name.clone())]).zip(found) {
            put(rows, &kind, interval);
        }
    }
}

/// Intervals of measurements from the values themselves; a ratio needs positive ones.
fn measurement_intervals(a: &Metrics, b: &Metrics, rows: &mut [ComparisonRow]) {
    let quantiles = QUANTILES.map(|thousandths| f64::from(thousandths) / 1000.0);
    for (index, summary) in a.measurements.iter().enumerate() {
        let is_it = |one: &&MeasurementSummary| (&one.name, one.kind) == (&summary.name, summary.kind);
        let Some(other) = b.measurements.iter().find(is_it) else { continue };
        let is_positive = |one: &MeasurementSummary| one.values.min.is_some_and(|least| least > 0.0);
        if summary.kind != MeasurementKind::Value || !is_positive(summary) || !is_positive(other) {
            continue;
        }
        let seed = SEED + index as u64;
        let found = latencies(&summary.values.sorted, &other.values.sorted, &quantiles, seed);
        let figures = QUANTILES.map(MeasuredFigure::Quantile).into_iter().chain([MeasuredFigure::Mean]);
        for (figure, interval) in figures.zip(found) {
            put(rows, &MeasureKind::Measured(summary.name.clone(), figure), interval);
        }
    }
}

fn block_intervals(a: &Results, b: &Results, rows: &mut [ComparisonRow]) {
    let services: BTreeSet<&str> = a.requests.iter().chain(&b.requests).map(|one| one.service.as_str()).collect();
    let services: Vec<&str> = services.into_iter().collect();
    let figures = |sums: &[f64]| {
        let [offered, payload, completed, ended] = [0, 1, 2, 3].map(|column| sums.get(column).copied().unwrap_or(0.0));
        let mut figures =
            vec![completed, completed / ended, offered, offered / completed, (offered - payload).max(0.0) / completed];
        figures.extend(sums.iter().skip(COLUMNS));
        figures
    };
    let found = blocks(&seconds(a, &services), &seconds(b, &services), figures, SEED);
    let kinds = [
        MeasureKind::Completed,
        MeasureKind::Success,
        MeasureKind::Offered,
        MeasureKind::OfferedEach,
        MeasureKind::Overhead,
    ];
    let of_services = services.iter().map(|service| MeasureKind::CompletedOf((*service).to_owned()));
    for (kind, interval) in kinds.into_iter().chain(of_services).zip(found) {
        put(rows, &kind, interval);
    }
}

/// The counters of each second. Requests count where they ended; those that ended in the drain count in the
/// last second.
fn seconds(results: &Results, services: &[&str]) -> Vec<Vec<f64>> {
    let length = results.samples.len().min(MAX_SECONDS);
    let mut rows = vec![vec![0.0; COLUMNS + services.len()]; length];
    let mut before = 0;
    for (row, sample) in rows.iter_mut().zip(&results.samples) {
        row[0] = sample.offered_bytes.saturating_sub(before) as f64;
        before = before.max(sample.offered_bytes);
    }
    for request in &results.requests {
        let end = request.t + request.elapsed_ms / 1e3;
        // As in samples: one that ends at 2.5 s counts in the sample at 3 s.
        let second = results.samples.partition_point(|sample| sample.t < end).min(length.saturating_sub(1));
        if let Some(row) = rows.get_mut(second) {
            count(row, request, services);
        }
    }
    rows
}

fn count(row: &mut [f64], request: &RequestRecord, services: &[&str]) {
    row[1] += request.bytes as f64;
    row[3] += f64::from(u8::from(request.outcome != RequestOutcome::Cut));
    if request.outcome == RequestOutcome::Completed {
        row[2] += 1.0;
        let service = services.iter().position(|service| *service == request.service);
        if let Some(column) = service.and_then(|service| row.get_mut(COLUMNS + service)) {
            *column += 1.0;
        }
    }
}

/// Sets the interval of the row of its kind, scaled to the row's own ratio: the total of the run may differ a
/// little from the sum of its seconds.
fn put(rows: &mut [ComparisonRow], kind: &MeasureKind, interval: Option<RatioInterval>) {
    let Some(row) = rows.iter_mut().find(|row| row.measure.kind == *kind) else { return };
    row.interval = interval.zip(row.ratio).map(|(interval, ratio)| {
        let scale = ratio / interval.ratio;
        RatioInterval { ratio, low: interval.low * scale, high: interval.high * scale, ..interval }
    });
}
