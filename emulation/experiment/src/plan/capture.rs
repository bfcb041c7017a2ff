//! The key `capture` of a plan.

use std::path::Path;

use roost_lab::{CaptureLimits, MAX_CAPTURED, parse_size};
use roost_topology::Topology;
use roost_topology::model::NetIndex;
use roost_topology::suggest::did_you_mean;
use serde::Deserialize;
use toml::Spanned;

use super::file::PlanLines;
use super::{PlanError, PlanErrors};

/// The word for all links and LANs, unless one of them has this name.
const ALL: &str = "all";

/// The least bytes of a packet that are kept: its Ethernet header.
const LEAST_SNAP: u32 = 14;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturePlan {
    /// Names of links and LANs, or `all` alone.
    pub links: Vec<String>,
    pub limits: CaptureLimits,
    /// The line of the key; 0 if it came from elsewhere.
    pub line: usize,
}

#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a link, a list of links, or `all`")]
pub(super) enum Names {
    One(String),
    Many(Vec<String>),
}

#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "a link, a list of links or `all`, or { links = …, snap = 128, size = \"100MB\", ring = true }"
)]
pub(super) enum CaptureFile {
    Names(Names),
    Table(CaptureTable),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaptureTable {
    links: Names,
    snap: Option<u32>,
    size: Option<String>,
    #[serde(default)]
    ring: bool,
}

impl CaptureFile {
    pub(super) fn read(file: &Spanned<Self>, lines: &PlanLines<'_>) -> Result<CapturePlan, PlanError> {
        let line = lines.line_of(file.span());
        let table = match file.get_ref().clone() {
            Self::Names(links) => CaptureTable { links, snap: None, size: None, ring: false },
            Self::Table(table) => table,
        };
        let links = match table.links {
            Names::One(name) => vec![name],
            Names::Many(names) => names,
        };
        let limits = CaptureLimits::default();
        let snap = table.snap.unwrap_or(limits.snap);
        if snap < LEAST_SNAP {
            return Err(lines.error(line, format!("`snap` is at least {LEAST_SNAP} bytes, not {snap}")));
        }
        let bytes = table.size.map_or(Ok(limits.bytes), |size| parse_size(&size));
        let bytes = bytes.map_err(|problem| lines.error(line, problem))?;
        Ok(CapturePlan { links, limits: CaptureLimits { snap, bytes, is_ring: table.ring }, line })
    }
}

impl CapturePlan {
    /// The links and LANs of a network that it names.
    ///
    /// # Errors
    /// Fails when one of them does not exist or is a radio, or there are too many.
    pub fn nets(&self, topology: &Topology, file: &Path) -> Result<Vec<NetIndex>, PlanError> {
        let (mut nets, mut wrong) = (Vec::new(), PlanErrors::default());
        if self.links.iter().any(|name| name == ALL) && topology.net_index(ALL).is_none() {
            nets.extend(0..topology.nets.len());
        } else {
            for name in &self.links {
                let near = || did_you_mean(name, topology.nets.iter().map(|net| net.name.as_str()));
                let missing = || format!("the topology has no link or LAN `{name}`{}", near());
                let net = topology.net_index(name).ok_or_else(|| PlanError::new(file, self.line, missing()));
                nets.extend(wrong.value_or(net.map(Some), None));
            }
            nets.sort_unstable();
            nets.dedup();
        }
        for net in nets.iter().filter(|net| topology.radio(**net).is_some()) {
            let name = &topology.nets[*net].name;
            let message = format!("`{name}` is a radio, and captures show links and LANs: name those to capture");
            wrong.record_error(Err(PlanError::new(file, self.line, message)));
        }
        if nets.len() > MAX_CAPTURED {
            let message = format!("at most {MAX_CAPTURED} links are captured at a time, not {}: name some", nets.len());
            wrong.record_error(Err(PlanError::new(file, self.line, message)));
        }
        wrong.into_result().map(|()| nets)
    }
}

impl CapturePlan {
    /// The value of the key that means the same.
    pub fn to_toml(&self) -> toml::Value {
        let CaptureLimits { snap, bytes, is_ring } = self.limits;
        let links = self.links.iter().cloned().map(toml::Value::String).collect();
        let table: toml::Table = [
            ("links".to_owned(), toml::Value::Array(links)),
            ("snap".to_owned(), i64::from(snap).into()),
            ("size".to_owned(), format!("{bytes}B").into()),
            ("ring".to_owned(), is_ring.into()),
        ]
        .into_iter()
        .collect();
        table.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prepared;

    fn prepared(capture: &str) -> Result<Prepared, String> {
        let text = format!(
            "topology = {{ star = {{ nodes = 4 }} }}\narchitecture = 'super-node'\nduration = '60s'\ncapture = {capture}\n"
        );
        Prepared::from_text(&text, Path::new("p.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn all_forms_are_read() {
        for (text, bytes, is_ring) in [
            ("'net'", 1_000_000_000, false),
            ("['net']", 1_000_000_000, false),
            ("'all'", 1_000_000_000, false),
            ("{ links = 'net', snap = 1522, size = '5MB', ring = true }", 5_000_000, true),
        ] {
            let prepared = prepared(text).unwrap();
            let capture = prepared.plan.capture.as_ref().unwrap();
            assert_eq!(capture.limits, CaptureLimits { snap: 1522, bytes, is_ring }, "{text}");
            assert_eq!(capture.nets(&prepared.network, Path::new("p.toml")).unwrap(), [0]);
            // The plan in the results repeats it.
            let again = Prepared::from_text(&prepared.effective(), Path::new("q.toml")).unwrap();
            assert_eq!(again.plan.capture.unwrap().limits, capture.limits);
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        let told = |text: &str| prepared(text).unwrap_err();
        assert_eq!(told("['nut', 'x']").lines().count(), 2);
        assert_eq!(told("'nut'"), "p.toml:4: the topology has no link or LAN `nut`; did you mean `net`?");
        assert_eq!(told("{ links = 'net', snap = 3 }"), "p.toml:4: `snap` is at least 14 bytes, not 3");
        assert!(told("{ links = 'net', size = '3 apples' }").contains("is no size"));
        assert!(told("7").starts_with("p.toml:4: "), "{}", told("7"));
    }
}
