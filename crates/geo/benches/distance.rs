//! The cost of ranking records by distance, and of reading a place.
//!
//! Run with `cargo bench -p roost-geo --bench distance`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use roost_geo::{Datum, LatLon, Place, Region, distance_m};

const RECORDS: usize = 1000;

/// Points around Zurich, as far as 500 km.
fn points() -> Vec<LatLon> {
    let at = |i: usize| LatLon::new(43.0 + (i * 7 % 97) as f64 / 11.0, 3.0 + (i * 13 % 89) as f64 / 8.0);
    (0..RECORDS).filter_map(|i| at(i).ok()).collect()
}

fn rank(c: &mut Criterion, name: &str, distance: fn(LatLon, LatLon) -> f64) {
    let points = points();
    let requester = points[500];
    c.bench_function(&format!("{name}/1"), |b| b.iter(|| distance(black_box(requester), black_box(points[3]))));
    c.bench_function(&format!("{name}/rank {RECORDS}"), |b| {
        b.iter(|| {
            let mut ranked: Vec<(f64, usize)> =
                points.iter().enumerate().map(|(i, point)| (distance(requester, *point), i)).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            black_box(ranked)
        });
    });
}

fn benchmarks(c: &mut Criterion) {
    rank(c, "geodesic", distance_m);
    rank(c, "quick", LatLon::quick_distance_m);
    let datum =
        "47.0,8.0".parse().ok().zip("1km".parse().ok()).and_then(|(origin, cell)| Datum::new(origin, cell).ok());
    let Some(datum) = datum else { return };
    for text in ["47.3769,8.5417", "32TMT6547"] {
        c.bench_function(&format!("read {text}"), |b| b.iter(|| Place::parse(black_box(text), Some(&datum))));
    }
    let ring: Vec<String> = (0..=200)
        .map(|i| {
            let (sin, cos) = (f64::from(i % 200) / 200.0 * std::f64::consts::TAU).sin_cos();
            format!("[{},{}]", 8.5 + sin, 47.3 + cos)
        })
        .collect();
    let polygon = format!(r#"{{"type":"Polygon","coordinates":[[{}]]}}"#, ring.join(","));
    c.bench_function("read polygon of 200 points", |b| b.iter(|| Region::from_geojson(black_box(&polygon), &datum)));
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
