//! The commands, one module each.

pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod connections;
pub(crate) mod dashboard;
pub(crate) mod doctor;
pub(crate) mod generate;
mod geojson;
pub(crate) mod group;
pub(crate) mod identity;
pub(crate) mod index;
pub(crate) mod join;
pub(crate) mod lookup;
pub(crate) mod monitor;
pub(crate) mod move_node;
pub(crate) mod offer;
pub(crate) mod outbox;
mod output_writer;
pub(crate) mod ping;
pub(crate) mod policy;
pub(crate) mod publish;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod room;
pub(crate) mod send;
pub(crate) mod services;
pub(crate) mod status;
pub(crate) mod streams;
pub(crate) mod subscribe;
mod summary;
pub(crate) mod tak;
pub(crate) mod trace;
pub(crate) mod watch;

use std::path::Path;
use std::time::SystemTime;

use roost_api::{Candidate, Client, EarthPlace, HubConnection};
use roost_geo::Way;
use roost_terminal::Table;
use roost_wire::{Area, Cell, Metadata, Offer, Service, format_node};

use crate::failure::Outcome;

async fn connect(socket: &Path) -> Outcome<Client> {
    Ok(Client::connect(socket).await?)
}

/// Providers as a table; with distances if there is a place to measure from. In a group with a datum these are on the
/// Earth, else in cells from the middle of the area.
fn candidates(candidates: &[Candidate], area: Area) -> Table {
    let center = area.center();
    let is_on_earth = candidates.iter().any(|candidate| candidate.place.is_some());
    let has_distance = match is_on_earth {
        true => candidates.iter().any(|candidate| way(candidate).is_some()),
        false => center.is_some(),
    };
    let mut columns = vec!["NAME", "NODE", if is_on_earth { "PLACE" } else { "CELL" }];
    columns.extend(has_distance.then_some(">DISTANCE"));
    columns.extend(["SERVICES", ">STREAMS LEFT", ">UPLINK LEFT", "ADDRESSES"]);
    let mut table = Table::new(&columns);
    for candidate in candidates {
        let cells = |center: Cell| format!("{:.1}", (center.distance_squared(candidate.cell) as f64).sqrt());
        let distance = match is_on_earth {
            true => Some(way(candidate).map_or_else(|| "-".to_owned(), |way| way.to_string())),
            false => center.map(cells),
        };
        let name = candidate.name.clone().unwrap_or_else(|| "-".to_owned());
        let mut row = vec![name, format!("{:?}", candidate.node), place(candidate.cell, candidate.place.as_ref())];
        row.extend(distance.filter(|_| has_distance));
        row.extend([
            offered(candidate),
            candidate.streams_left.to_string(),
            uplink(candidate.uplink_left_kbps),
            candidate.addresses.join(" "),
        ]);
        table.row(row);
    }
    table
}

fn way(candidate: &Candidate) -> Option<Way> {
    let EarthPlace { distance_m, bearing_deg, .. } = candidate.place?;
    Some(Way { distance_m: distance_m?, bearing_deg: bearing_deg? })
}

/// `lat 47.3769, lon 8.5417 (cell 40, 42)`, or the cell alone in a group without a datum. Five decimals are a meter.
fn place(cell: Cell, earth: Option<&EarthPlace>) -> String {
    let rounded = |degrees: f64| (degrees * 1e5).round() / 1e5;
    earth.map_or_else(
        || cell.to_string(),
        |earth| format!("lat {}, lon {} (cell {}, {})", rounded(earth.lat), rounded(earth.lon), cell.x, cell.y),
    )
}

fn uplink(kbps: Option<u32>) -> String {
    kbps.map_or_else(|| "unlimited".to_owned(), |kbps| format!("{kbps} kbit/s"))
}

/// The services of a node with what their offers tell, as in `image, acme/lidar:stream 2000 kbit/s sensor=ir`.
fn offered(candidate: &Candidate) -> String {
    // The names of the list have no form, those of the offers have theirs.
    let plain = candidate
        .services
        .iter()
        .filter(|service| candidate.offers.iter().all(|offer| offer.service.name() != service.name()));
    let texts: Vec<String> =
        plain.map(|service| service.name().to_owned()).chain(candidate.offers.iter().map(offer_text)).collect();
    texts.join(", ")
}

fn offer_text(offer: &Offer) -> String {
    let rate = offer.kbps.map(|kbps| format!(" {kbps} kbit/s"));
    let size = offer.max_bytes.map(|limit| format!(" up to {}", bytes(limit.into())));
    let metadata = Some(format!(" {}", offer.metadata)).filter(|_| !offer.metadata.is_empty());
    [Some(offer.service.full_text()), rate, size, metadata].into_iter().flatten().collect()
}

/// The flags that ask for offers with this metadata.
fn where_flags(filter: &Metadata) -> String {
    filter.iter().map(|(key, value)| format!(" --where {key}={}", for_shell(value))).collect()
}

/// A word as a shell reads it.
fn for_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/=,:@".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The names of services, as in `video,track`.
fn names(services: &[Service]) -> String {
    services.iter().map(|service| service.name()).collect::<Vec<_>>().join(",")
}

/// Another super node with its state: `area2 (6f0c2f1a) (up 3 h 2 min, 80.00 ms)`.
fn hub_connection(hub: &HubConnection) -> String {
    let known = hub.node.map(|node| format_node(node, hub.name.as_deref())).or_else(|| hub.name.clone());
    let name = known.unwrap_or_else(|| hub.endpoints.join(","));
    let (rtt, reason) = (hub.rtt_ms, hub.reason.as_deref().unwrap_or("it does not answer"));
    match (hub.up_s, hub.down_s) {
        (Some(up), _) => {
            let rtt = rtt.map(|rtt| format!(", {rtt:.2} ms")).unwrap_or_default();
            format!("{name} (up {}{rtt})", seconds(up))
        }
        (None, Some(down)) => format!("{name} (down {}: {reason})", seconds(down)),
        (None, None) => format!("{name} (not reached yet)"),
    }
}

fn bytes(count: u64) -> String {
    let scaled = |unit: f64, name: &str| format!("{:.1} {name}", count as f64 / unit);
    match count {
        0..10_000 => format!("{count} B"),
        10_000..1_000_000 => scaled(1e3, "kB"),
        1_000_000..1_000_000_000 => scaled(1e6, "MB"),
        _ => scaled(1e9, "GB"),
    }
}

fn duration(millis: f64) -> String {
    if millis < 1e3 { format!("{millis:.1} ms") } else { format!("{:.2} s", millis / 1e3) }
}

fn seconds(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{minutes} min {} s", whole % 60),
        3_600..86_400 => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A point in time as people write it: `2027-01-31 12:00 UTC`.
fn date(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.get(..16).unwrap_or(&text).replace('T', " ") + " UTC"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_can_be_pasted_into_a_shell() {
        let filter = Metadata::parse_all(["place=on the mast", "sensor=ir", "note=it's"]).unwrap();
        assert_eq!(where_flags(&filter), r" --where note='it'\''s' --where place='on the mast' --where sensor=ir");
        assert_eq!((for_shell(""), for_shell("$HOME")), ("''".to_owned(), "'$HOME'".to_owned()));
    }

    #[test]
    fn hub_down_shows_time_and_reason() {
        let hub = |extra: serde_json::Value| -> HubConnection {
            let mut hub = serde_json::json!({ "relation": "parent", "endpoints": ["udp://area3:7700"] });
            hub.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            serde_json::from_value(hub).unwrap()
        };
        let up = hub(serde_json::json!({ "name": "area2", "up_s": 61.0, "rtt_ms": 80.0 }));
        assert_eq!(hub_connection(&up), "area2 (up 1 min 1 s, 80.00 ms)");
        let down = hub(serde_json::json!({ "down_s": 259_200.0, "reason": "refused" }));
        assert_eq!(hub_connection(&down), "udp://area3:7700 (down 3 d 0 h: refused)");
        assert_eq!(hub_connection(&hub(serde_json::json!({}))), "udp://area3:7700 (not reached yet)");
    }

    fn candidate(place: serde_json::Value) -> Candidate {
        let mut row = serde_json::json!({
            "node": "a".repeat(32), "cell": "40,42", "services": ["image"], "streams_left": 1,
            "uplink_left_kbps": null, "addresses": [], "record": "1.1"
        });
        row["place"] = place;
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn places_are_labeled_with_a_datum() {
        let earth = serde_json::json!({ "lat": 47.3769, "lon": 8.5417, "distance_m": 12_345.0, "bearing_deg": 44.7 });
        let text = |found: Candidate| candidates(&[found], Area::Nearest(Cell::new(40, 41))).render(str::to_owned);
        let labeled = text(candidate(earth));
        assert!(labeled.contains("lat 47.3769, lon 8.5417 (cell 40, 42)"), "{labeled}");
        assert!(labeled.contains("12.3 km, bearing 045°") && labeled.contains("PLACE"), "{labeled}");
        let plain = text(candidate(serde_json::Value::Null));
        assert!(plain.contains("CELL") && plain.contains("40,42") && plain.contains("1.0"), "{plain}");
        let unmeasured = text(candidate(serde_json::json!({ "lat": 47.3769, "lon": 8.5417 })));
        assert!(!unmeasured.contains("DISTANCE"), "{unmeasured}");
    }

    #[test]
    fn quantities_are_human_readable() {
        assert_eq!(bytes(9_999), "9999 B");
        assert_eq!(bytes(875_000), "875.0 kB");
        assert_eq!(seconds(59.9), "59 s");
        assert_eq!(seconds(3_723.0), "1 h 2 min");
    }
}
