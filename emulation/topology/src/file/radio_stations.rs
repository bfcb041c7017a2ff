//! `station` of a `[[radio]]`: hosts whose power, gain or height is their own.

use std::collections::BTreeMap;
use std::fmt;

use ::toml::Spanned;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::TopologyReader;
use super::quantity::{Gain, Height, Power};
use super::values::Words;
use crate::model::{HostIndex, Station};

/// A list of tables with `host`, or a table by the names of hosts.
#[derive(Default)]
pub(super) struct StationsFile(pub(super) Vec<Spanned<StationFile>>);

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StationFile {
    host: Option<Words>,
    power: Option<Power>,
    gain: Option<Gain>,
    height: Option<Height>,
}

impl<'de> Deserialize<'de> for StationsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StationsVisitor)
    }
}

struct StationsVisitor;

impl<'de> Visitor<'de> for StationsVisitor {
    type Value = StationsFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tables or a table of hosts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<StationsFile, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(StationsFile)
    }

    fn visit_map<A: MapAccess<'de>>(self, hosts: A) -> Result<StationsFile, A::Error> {
        let hosts = BTreeMap::<Spanned<String>, Spanned<StationFile>>::deserialize(MapAccessDeserializer::new(hosts))?;
        let station = |(host, station): (Spanned<String>, Spanned<StationFile>)| {
            let (at, own) = (station.span(), station.into_inner());
            Spanned::new(at, StationFile { host: Some(own.host.unwrap_or(Words(vec![host]))), ..own })
        };
        Ok(StationsFile(hosts.into_iter().map(station).collect()))
    }
}

impl TopologyReader<'_> {
    pub(super) fn stations(&self, file: &Spanned<StationFile>, members: &[HostIndex]) -> Vec<Station> {
        let at = file.span().start;
        let StationFile { host, power, gain, height } = file.get_ref();
        let words = self.source.required(at, "a station", "host", host.as_ref(), "\"ground\"");
        let hosts = words.and_then(|words| self.host_list(&words.0)).unwrap_or_default();
        for host in hosts.iter().filter(|host| !members.contains(host.get_ref())) {
            let name = &self.topology.hosts[*host.get_ref()].name;
            self.source.refuse(host.span().start, format!("`{name}` is not among the radio's members"));
        }
        let (power_dbm, gain_dbi) = (power.map(|power| power.0), gain.map(|gain| gain.0));
        let height_m = height.map(|height| height.0);
        let station = |host: Spanned<HostIndex>| Station { host: host.into_inner(), power_dbm, gain_dbi, height_m };
        hosts.into_iter().map(station).collect()
    }
}
