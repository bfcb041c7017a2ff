//! Radios and the places of hosts, as rows of tables.

use crate::file::compress;
use crate::model::{HostCourse, PathLoss, Radio, RadioLinks, RadioRate, Topology};
use crate::units::format_duration;

pub(super) fn radio_rows(topology: &Topology) -> Vec<Vec<String>> {
    let row = |radio: &Radio| {
        let net = &topology.nets[radio.net];
        let names = net.members.iter().map(|member| topology.hosts[member.host].name.as_str());
        let megahertz = |hertz: f64| format!("{} MHz", hertz / 1e6);
        vec![
            net.name.clone(),
            links(topology, radio),
            compress(names).join(" "),
            model(radio),
            format!("{} dBm + {} dBi", radio.power_dbm, radio.gain_dbi),
            format!("{} in {}", megahertz(radio.bandwidth_hz), megahertz(radio.frequency_hz)),
            rate(&radio.rate),
        ]
    };
    topology.radios.iter().map(row).collect()
}

pub(super) fn motion_rows(topology: &Topology) -> Vec<Vec<String>> {
    let row = |motion: &crate::model::HostMotion| {
        let (course, until) = match &motion.course {
            HostCourse::Path(path) if path.len() == 1 => ("stands".to_owned(), None),
            HostCourse::Path(path) => (format!("{} waypoints", path.len()), path.last().map(|last| last.at)),
            HostCourse::Tour { speed_mps, points } => (format!("{} points at {speed_mps} m/s", points.len()), None),
            HostCourse::Orbit(_) => ("orbit".to_owned(), None),
        };
        let until = until.map_or_else(|| "-".to_owned(), format_duration);
        vec![topology.hosts[motion.host].name.clone(), course, until]
    };
    topology.motion.hosts.iter().map(row).collect()
}

fn links(topology: &Topology, radio: &Radio) -> String {
    match &radio.links {
        RadioLinks::Pairs => "pairs".to_owned(),
        RadioLinks::Shared(_) => "shared channel".to_owned(),
        RadioLinks::Access(access) => {
            let names = access.points.iter().map(|host| topology.hosts[*host].name.as_str());
            format!("access at {}", compress(names).join(" "))
        }
    }
}

fn model(radio: &Radio) -> String {
    match radio.path_loss {
        PathLoss::FreeSpace => "free space".to_owned(),
        PathLoss::TwoRay => "two-ray".to_owned(),
        PathLoss::LogDistance { exponent, .. } => format!("log-distance {exponent}"),
    }
}

fn rate(rate: &RadioRate) -> String {
    match rate {
        RadioRate::Fixed(rate) => rate.to_string(),
        RadioRate::Snr(rows) | RadioRate::Distance(rows) => {
            let (least, most) = (rows.iter().map(|row| row.1).min(), rows.iter().map(|row| row.1).max());
            format!("{} to {}", least.unwrap_or_default(), most.unwrap_or_default())
        }
        RadioRate::Shannon { efficiency, most } => format!("{} % of the bound, at most {most}", efficiency * 100.0),
    }
}
