//! `[[radio]]`: hosts whose links follow from their distances.

use std::time::Duration;

use ::toml::Spanned;
use serde::Deserialize;

use super::TopologyReader;
use super::nets::{NetValues, Prefix};
use super::quantity::{Frequency, Gain, Height, Meters, Power, Spread};
use super::radio_stations::StationsFile;
use super::shape::{self, QueueFile};
use super::values::{self, Whole, Words};
use crate::model::{
    Access, Contention, Discipline, HostIndex, Leg, MAX_RADIO_MEMBERS, NetKind, PathLoss, Queue, Radio, RadioLinks,
    RadioLoss, RadioRate,
};
use crate::units::Rate;

const MAX_ROWS: usize = 1000;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RadioFile {
    name: Option<Spanned<String>>,
    members: Option<Words>,
    links: LinksFile,
    access: Option<Words>,
    hysteresis: Option<Spread>,
    #[serde(deserialize_with = "values::delay")]
    handover: Option<Duration>,
    contention: Option<Spanned<ContentionFile>>,
    model: ModelFile,
    #[serde(deserialize_with = "exponent")]
    exponent: Option<f64>,
    reference: Option<Meters>,
    shadowing: Option<Spread>,
    power: Option<Power>,
    gain: Option<Gain>,
    height: Option<Height>,
    frequency: Option<Frequency>,
    bandwidth: Option<Frequency>,
    noise_figure: Option<Gain>,
    sensitivity: Option<Power>,
    range: Option<Meters>,
    horizon: Option<HorizonFile>,
    rate: Option<Rate>,
    rates: Option<Spanned<Vec<Spanned<RateRow>>>>,
    #[serde(deserialize_with = "values::positive_probability")]
    efficiency: Option<f64>,
    #[serde(deserialize_with = "values::probability")]
    loss: Option<f64>,
    losses: Option<Spanned<Vec<Spanned<LossRow>>>>,
    #[serde(deserialize_with = "values::delay")]
    delay: Option<Duration>,
    queue: Option<Spanned<QueueFile>>,
    station: StationsFile,
    #[serde(deserialize_with = "values::cost")]
    pub(super) cost: Option<f64>,
    prefix: Option<Prefix>,
    addresses: Option<Words>,
}

#[derive(Default, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LinksFile {
    #[default]
    Pairs,
    Shared,
    Access,
}

#[derive(Default, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelFile {
    #[default]
    FreeSpace,
    LogDistance,
    TwoRay,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "false, or the factor of the Earth's radius: 1.333")]
enum HorizonFile {
    Flag(bool),
    Factor(f64),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RateRow {
    snr: Option<Gain>,
    distance: Option<Meters>,
    rate: Option<Rate>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LossRow {
    snr: Option<Gain>,
    distance: Option<Meters>,
    #[serde(deserialize_with = "values::probability")]
    loss: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ContentionFile {
    #[serde(deserialize_with = "values::delay")]
    slot: Option<Duration>,
    #[serde(deserialize_with = "values::delay")]
    sifs: Option<Duration>,
    #[serde(deserialize_with = "values::delay")]
    difs: Option<Duration>,
    window: Option<Whole<u32, 1, 32_768>>,
    window_most: Option<Whole<u32, 1, 32_768>>,
    retries: Option<Whole<u32, 0, 1_000_000>>,
    #[serde(deserialize_with = "values::delay")]
    preamble: Option<Duration>,
    header: Option<Whole<u32, 0, 1000>>,
    ack: Option<Whole<u32, 0, 1000>>,
    basic_rate: Option<Rate>,
    sense: Option<Power>,
}

fn exponent<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let exponent = f64::deserialize(from)?;
    let within = (0.5..=10.0).contains(&exponent).then_some(Some(exponent));
    within.ok_or_else(|| serde::de::Error::custom("is a number from 0.5 to 10: free space has 2"))
}

/// Both legs of a member of the radio.
pub(super) fn leg_of(radio: &Radio) -> Leg {
    match radio.links {
        RadioLinks::Access(_) => Leg { queue: radio.queue, ..Leg::default() },
        RadioLinks::Pairs | RadioLinks::Shared(_) => Leg::default(),
    }
}

impl TopologyReader<'_> {
    pub(super) fn read_radios(&mut self, files: Vec<Spanned<RadioFile>>) {
        files.into_iter().for_each(|file| self.read_radio(file));
    }

    fn read_radio(&mut self, file: Spanned<RadioFile>) {
        let at = file.span().start;
        let mut file = file.into_inner();
        let name = self.source.required(at, "a radio", "name", file.name.take(), "\"mesh\"");
        let members = self.source.required(at, "a radio", "members", file.members.take(), "[\"a\", \"uav[1-8]\"]");
        let members = members.and_then(|words| self.host_list(&words.0));
        let (Some(name), Some(members)) = (name, members) else { return };
        if members.len() > MAX_RADIO_MEMBERS {
            let message = format!("a radio has at most {MAX_RADIO_MEMBERS} members, not {}", members.len());
            return self.source.refuse(at, message);
        }
        for member in &members {
            if !self.moving.contains_key(member.get_ref()) {
                let host = &self.topology.hosts[*member.get_ref()].name;
                let message =
                    format!("`{host}` has no place: give it one in [[motion.host]], with `position` or `path`");
                self.source.refuse(member.span().start, message);
            }
        }
        let hosts: Vec<HostIndex> = members.iter().map(|member| *member.get_ref()).collect();
        let Some(radio) = self.radio(at, &file, &hosts) else { return };
        let leg = leg_of(&radio);
        let (cost, prefix, addresses) = (file.cost, file.prefix, file.addresses);
        let values = NetValues { at, kind: NetKind::Lan, cost, prefix, addresses, legs: Vec::new() };
        let legs = hosts.into_iter().map(|host| (host, leg.clone(), leg.clone())).collect();
        let before = self.topology.nets.len();
        self.add_net(&values, name, legs);
        if self.topology.nets.len() > before {
            self.topology.radios.push(radio);
        }
    }

    pub(super) fn radio(&self, at: usize, file: &RadioFile, members: &[HostIndex]) -> Option<Radio> {
        let links = self.radio_links(at, file, members);
        let (rate, loss) = (self.radio_rate(at, file), self.radio_loss(at, file));
        let stations = file.station.0.iter().flat_map(|station| self.stations(station, members)).collect();
        let queue = file.queue.as_ref().map_or(Some(Queue::DEFAULT), |queue| shape::queue(self.source, queue));
        if file.links == LinksFile::Shared && queue.is_some_and(|queue| queue.discipline != Discipline::DropTail) {
            self.source.refuse(at, "a radio with links = \"shared\" has no RED: give its queue a limit alone");
        }
        let frequency = self.source.required(at, "a radio", "frequency", file.frequency, "\"2.4GHz\"");
        let power = self.source.required(at, "a radio", "power", file.power, "\"20dBm\"");
        let bandwidth = self.source.required(at, "a radio", "bandwidth", file.bandwidth, "\"20MHz\"");
        let on_earth = self.topology.motion.is_on_earth();
        let horizon = match file.horizon {
            None => on_earth.then_some(4.0 / 3.0),
            Some(HorizonFile::Flag(false)) => None,
            Some(HorizonFile::Flag(true)) => Some(4.0 / 3.0),
            Some(HorizonFile::Factor(factor)) if (0.1..=100.0).contains(&factor) => Some(factor),
            Some(HorizonFile::Factor(factor)) => {
                let message = format!("`horizon` is the factor of the Earth's radius, such as 1.333, not {factor}");
                self.source.refuse(at, message);
                return None;
            }
        };
        Some(Radio {
            // The net follows.
            net: self.topology.nets.len(),
            links: links?,
            path_loss: self.path_loss(at, file)?,
            power_dbm: power?.0,
            gain_dbi: file.gain.map_or(0.0, |gain| gain.0),
            height_m: file.height.map_or(1.5, |height| height.0),
            frequency_hz: frequency?.0,
            bandwidth_hz: bandwidth?.0,
            noise_figure_db: file.noise_figure.map_or(0.0, |figure| figure.0),
            sensitivity_dbm: file.sensitivity.map(|power| power.0),
            range_m: file.range.map(|range| range.0),
            horizon,
            rate: rate?,
            loss: loss?,
            delay: file.delay.unwrap_or_default(),
            queue: queue?,
            stations,
        })
    }

    fn radio_links(&self, at: usize, file: &RadioFile, members: &[HostIndex]) -> Option<RadioLinks> {
        let misplaced = |key: &str, links: &str| {
            self.source.refuse(at, format!("`{key}` belongs to a radio with links = \"{links}\""));
        };
        if file.links != LinksFile::Access {
            let given = [("access", file.access.is_some()), ("hysteresis", file.hysteresis.is_some())];
            let given = given.into_iter().chain([("handover", file.handover.is_some())]);
            given.filter(|(_, given)| *given).for_each(|(key, _)| misplaced(key, "access"));
        }
        if file.contention.is_some() && file.links != LinksFile::Shared {
            misplaced("contention", "shared");
        }
        match file.links {
            LinksFile::Pairs => Some(RadioLinks::Pairs),
            LinksFile::Shared => Some(RadioLinks::Shared(contention(self, file.contention.as_ref())?)),
            LinksFile::Access => {
                let access = file.access.as_ref();
                let words =
                    self.source.required(at, "a radio with links = \"access\"", "access", access, "[\"mast1\"]");
                let points = self.host_list(&words?.0)?;
                for point in points.iter().filter(|point| !members.contains(point.get_ref())) {
                    let name = &self.topology.hosts[*point.get_ref()].name;
                    self.source.refuse(point.span().start, format!("`{name}` is not among the radio's members"));
                }
                let points = points.into_iter().map(Spanned::into_inner).collect();
                let hysteresis_db = file.hysteresis.map_or(3.0, |spread| spread.0);
                let interruption = file.handover.unwrap_or_default();
                Some(RadioLinks::Access(Access { points, hysteresis_db, interruption }))
            }
        }
    }

    fn path_loss(&self, at: usize, file: &RadioFile) -> Option<PathLoss> {
        let of_log = [("exponent", file.exponent.is_some()), ("reference", file.reference.is_some())];
        let of_log = of_log.into_iter().chain([("shadowing", file.shadowing.is_some())]);
        for (key, given) in of_log {
            if given && file.model != ModelFile::LogDistance {
                self.source.refuse(at, format!("`{key}` belongs to model = \"log-distance\""));
            }
        }
        Some(match file.model {
            ModelFile::FreeSpace => PathLoss::FreeSpace,
            ModelFile::TwoRay => PathLoss::TwoRay,
            ModelFile::LogDistance => PathLoss::LogDistance {
                exponent: self.source.required(at, "the log-distance model", "exponent", file.exponent, "2.7")?,
                reference_m: file.reference.map_or(1.0, |reference| reference.0),
                shadowing_db: file.shadowing.map_or(0.0, |spread| spread.0),
            },
        })
    }

    fn radio_rate(&self, at: usize, file: &RadioFile) -> Option<RadioRate> {
        match (&file.rates, file.efficiency, file.rate) {
            (None, None, Some(rate)) => Some(RadioRate::Fixed(rate)),
            (None, Some(efficiency), most) => {
                Some(RadioRate::Shannon { efficiency, most: most.unwrap_or(Rate::UNLIMITED) })
            }
            (Some(rows), None, None) => {
                let row = |row: &RateRow| (row.snr, row.distance, row.rate);
                match self.rows(rows, row, "rate", "\"6Mbit\"")? {
                    Rows::Snr(rows) => Some(RadioRate::Snr(rows)),
                    Rows::Distance(rows) => Some(RadioRate::Distance(rows)),
                }
            }
            _ => {
                let message = "a radio has `rate`, or a table of `rates`, or an `efficiency` with `rate` as its most: \
                     write rate = \"6Mbit\"";
                self.source.miss(at, "rate", message);
                None
            }
        }
    }

    fn radio_loss(&self, at: usize, file: &RadioFile) -> Option<RadioLoss> {
        match (&file.losses, file.loss) {
            (None, loss) => Some(RadioLoss::Fixed(loss.unwrap_or(0.0))),
            (Some(_), Some(_)) => {
                self.source.refuse(at, "a radio has `loss` or a table of `losses`, not both");
                None
            }
            (Some(rows), None) => {
                let rows = self.rows(rows, |row: &LossRow| (row.snr, row.distance, row.loss), "loss", "0.1")?;
                Some(match rows {
                    Rows::Snr(rows) => RadioLoss::Snr(rows),
                    Rows::Distance(rows) => RadioLoss::Distance(rows),
                })
            }
        }
    }

    /// Reads a table whose rows all have an SNR or all a distance, rising.
    fn rows<R, V: Copy>(
        &self,
        table: &Spanned<Vec<Spanned<R>>>,
        read: impl Fn(&R) -> (Option<Gain>, Option<Meters>, Option<V>),
        key: &str,
        example: &str,
    ) -> Option<Rows<V>> {
        let mut by_snr = Vec::new();
        let mut by_distance = Vec::new();
        if table.get_ref().len() > MAX_ROWS {
            self.source.refuse(table.span().start, format!("a table has at most {MAX_ROWS} rows"));
            return None;
        }
        for row in table.get_ref() {
            let at = row.span().start;
            let (snr, distance, value) = read(row.get_ref());
            let value = self.source.required(at, "a row", key, value, example)?;
            match (snr, distance) {
                (Some(snr), None) => by_snr.push((at, snr.0, value)),
                (None, Some(distance)) => by_distance.push((at, distance.0, value)),
                _ => {
                    self.source.miss(at, "snr", "a row has `snr` or `distance`: write snr = \"10dB\"");
                    return None;
                }
            }
        }
        let (rows, is_snr) = match (by_snr.is_empty(), by_distance.is_empty()) {
            (false, true) => (by_snr, true),
            (true, false) => (by_distance, false),
            _ => {
                self.source.refuse(table.span().start, "the rows of a table all have `snr`, or all have `distance`");
                return None;
            }
        };
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].1 >= pair[1].1) {
            self.source.refuse(pair[1].0, "the rows of a table rise from row to row");
            return None;
        }
        let rows = rows.into_iter().map(|(_, at, value)| (at, value)).collect();
        Some(if is_snr { Rows::Snr(rows) } else { Rows::Distance(rows) })
    }
}

enum Rows<V> {
    Snr(Vec<(f64, V)>),
    Distance(Vec<(f64, V)>),
}

fn contention(reader: &TopologyReader<'_>, file: Option<&Spanned<ContentionFile>>) -> Option<Contention> {
    let Some(file) = file else { return Some(Contention::OFDM) };
    let given = file.get_ref();
    let default = Contention::OFDM;
    let slot = given.slot.unwrap_or(default.slot);
    let sifs = given.sifs.unwrap_or(default.sifs);
    let window = given.window.map_or(default.window, |window| window.0);
    let contention = Contention {
        slot,
        sifs,
        difs: given.difs.unwrap_or(sifs + 2 * slot),
        window,
        window_most: given.window_most.map_or(default.window_most.max(window), |window| window.0),
        retries: given.retries.map_or(default.retries, |retries| retries.0),
        preamble: given.preamble.unwrap_or(default.preamble),
        header_bytes: given.header.map_or(default.header_bytes, |bytes| bytes.0),
        ack_bytes: given.ack.map_or(default.ack_bytes, |bytes| bytes.0),
        basic_rate: given.basic_rate.unwrap_or(default.basic_rate),
        sense_dbm: given.sense.map(|power| power.0),
    };
    if contention.slot.is_zero() || contention.window_most < contention.window {
        let message = "`slot` of contention is longer than nothing, and `window_most` not below `window`";
        reader.source.refuse(file.span().start, message);
        return None;
    }
    Some(contention)
}
