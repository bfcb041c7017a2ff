//! Changes of a radio, as a plan names them: `topology.radio.NAME.KEY`.
//!
//! The radio is written as its table, the changed keys are laid over, and the table is read again: so a change is
//! checked as the file was.

use ::toml::{Spanned, Table, Value};

use super::TopologyReader;
use super::fields::SourceText;
use super::radio::{RadioFile, leg_of};
use super::radio_text::radio_stanza;
use crate::model::{Motion, NetKind, Note, Radio, Topology};
use crate::suggest::did_you_mean;

/// Keys of which a radio has one or the other.
const EITHER: [[&str; 2]; 3] = [["rate", "rates"], ["efficiency", "rates"], ["loss", "losses"]];
/// Keys that belong to one value of another key.
const BELONGING: [(&str, &str, &[&str]); 3] = [
    ("links", "access", &["access", "hysteresis", "handover"]),
    ("links", "shared", &["contention"]),
    ("model", "log-distance", &["exponent", "reference", "shadowing"]),
];
/// Keys that a plan cannot change: they make the network.
pub(super) const FIXED_KEYS: [&str; 4] = ["name", "members", "prefix", "addresses"];
/// Keys whose tables are changed value by value.
const TABLES: [&str; 2] = ["contention", "station"];

/// Applies the keys of one radio; reports what is wrong at the radio's name.
pub(super) fn change_radio(
    source: &SourceText<'_>,
    topology: &mut Topology,
    name: &Spanned<String>,
    change: &RadioFile,
    given: &Table,
) {
    let at = name.span().start;
    let Some(place) = find(source, topology, name) else { return };
    if let Some(key) = FIXED_KEYS.into_iter().find(|key| given.contains_key(*key)) {
        let message = format!("`{key}` of a radio stays as its topology has it: change its other keys");
        return source.refuse(at, message);
    }
    let net = topology.radios[place].net;
    match read_again(topology, &topology.radios[place], given) {
        Ok(radio) => {
            let leg = leg_of(&radio);
            for member in &mut topology.nets[net].members {
                (member.to_net, member.from_net) = (leg.clone(), leg.clone());
            }
            topology.nets[net].cost = change.cost.unwrap_or(topology.nets[net].cost);
            topology.radios[place] = radio;
        }
        Err(notes) => notes.into_iter().for_each(|note| source.refuse(at, note.text)),
    }
}

fn find(source: &SourceText<'_>, topology: &Topology, name: &Spanned<String>) -> Option<usize> {
    let text = name.get_ref();
    let names: Vec<&str> = topology.radios.iter().map(|radio| topology.nets[radio.net].name.as_str()).collect();
    let found = names.iter().position(|known| known == text);
    if found.is_none() {
        let other = topology.net_index(text).map(|net| topology.nets[net].kind);
        let message = match other {
            Some(NetKind::Link) => format!("`{text}` is no radio: write topology.link.{text}"),
            Some(NetKind::Lan) => format!("`{text}` is no radio: write topology.lan.{text}"),
            None if names.is_empty() => format!("the topology has no radio `{text}`, nor any other"),
            None => match did_you_mean(text, names.iter().copied()) {
                near if near.is_empty() => format!("the topology has no radio `{text}`: choose {}", names.join(", ")),
                near => format!("the topology has no radio `{text}`{near}"),
            },
        };
        source.refuse(name.span().start, message);
    }
    found
}

/// The radio with the given keys in place of its own.
fn read_again(topology: &Topology, radio: &Radio, given: &Table) -> Result<Radio, Vec<Note>> {
    let wrong = |text: &dyn std::fmt::Display| vec![Note { line: 0, text: text.to_string() }];
    let net = &topology.nets[radio.net];
    let stanza = radio_stanza(topology, net, radio).keys_alone();
    let mut table: Table = stanza.parse().map_err(|error: ::toml::de::Error| wrong(&error))?;
    lay_over(&mut table, given);
    let text = ::toml::to_string(&table).map_err(|error| wrong(&error))?;
    let source = SourceText::new(&text);
    let Some(file) = source.read::<RadioFile>("a radio") else { return Err(source.problems()) };
    let mut reader = TopologyReader::new(&source);
    reader.topology.hosts.clone_from(&topology.hosts);
    reader.topology.motion = Motion { hosts: Vec::new(), ..topology.motion.clone() };
    reader.hosts = topology.hosts.iter().enumerate().map(|(index, host)| (host.name.clone(), index)).collect();
    let members: Vec<usize> = net.members.iter().map(|member| member.host).collect();
    let read = reader.radio(0, &file, &members);
    let problems = source.problems();
    match read {
        Some(read) if problems.is_empty() => Ok(Radio { net: radio.net, ..read }),
        _ => Err(problems),
    }
}

fn lay_over(radio: &mut Table, given: &Table) {
    for [one, other] in EITHER {
        for (new, old) in [(one, other), (other, one)] {
            if given.contains_key(new) {
                radio.remove(old);
            }
        }
    }
    for (key, value, belonging) in BELONGING {
        if given.get(key).is_some_and(|new| new.as_str() != Some(value)) {
            belonging.iter().for_each(|key| drop(radio.remove(*key)));
        }
    }
    if given.get("station").is_some_and(Value::is_table) {
        name_stations(radio);
    }
    for (key, value) in given {
        match (radio.get_mut(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) if is_partial(key, new) => merge(old, new),
            _ => drop(radio.insert(key.clone(), value.clone())),
        }
    }
}

/// True if the rest of the table stays. A queue keeps the rest if its limit alone changes, as on a link.
fn is_partial(key: &str, new: &Table) -> bool {
    TABLES.contains(&key) || (key == "queue" && new.len() == 1 && new.contains_key("limit"))
}

/// Makes the list of stations a table by the names of their hosts.
fn name_stations(radio: &mut Table) {
    let Some(Value::Array(stations)) = radio.remove("station") else { return };
    let named = stations.into_iter().filter_map(|station| {
        let Value::Table(mut station) = station else { return None };
        let Some(Value::String(host)) = station.remove("host") else { return None };
        Some((host, Value::Table(station)))
    });
    radio.insert("station".to_owned(), Value::Table(named.collect()));
}

fn merge(old: &mut Table, new: &Table) {
    for (key, value) in new {
        match (old.get_mut(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            _ => drop(old.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use crate::file::changes::apply;
    use crate::file::parse;
    use crate::model::{PathLoss, RadioLinks, RadioLoss, RadioRate, Topology};

    const TOPOLOGY: &str = "lenient = true\n[[host]]\nname = ['a', 'b', 'c']\n[[motion.host]]\nname = ['a', 'b', 'c']\n\
        position = [0, 0]\n[[lan]]\nname = 'net'\nmembers = ['a', 'b']\nrate = '1Mbit'\n\
        [[radio]]\nname = 'mesh'\nmembers = ['a', 'b', 'c']\nfrequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\n\
        rates = [{ snr = '5dB', rate = '6Mbit' }]\nmodel = 'log-distance'\nexponent = 2.7\nlinks = 'shared'\n\
        contention = { window = 32, slot = '20us', sifs = '10us' }\nqueue = { limit = 9000, in = 'bytes' }\n\
        station = [{ host = ['a', 'b'], gain = '12dBi' }]\n\
        [[radio]]\nname = 'tele'\nmembers = ['a', 'b']\nfrequency = '900MHz'\npower = '0dBm'\nbandwidth = '1MHz'\n\
        efficiency = 0.5\n";

    fn changed(text: &str) -> Result<Topology, String> {
        let mut topology = parse("t", TOPOLOGY).unwrap();
        let plan = format!("[topology]\n{text}");
        let told = apply(&mut topology, Path::new(""), &plan);
        let told = told.map_err(|notes| notes.iter().map(|note| format!("{}: {}\n", note.line, note.text)).collect());
        told.map(|_| topology)
    }

    #[test]
    fn every_number_of_a_radio_changes() {
        let text = "radio.mesh = { range = '1.2km', power = '33dBm', gain = '3dBi', height = '9m', frequency = '5GHz', \
             bandwidth = '40MHz', noise_figure = '7dB', sensitivity = '-92dBm', horizon = 1.5, rate = '11Mbit', loss = 0.25, \
             delay = '3ms', cost = 4, exponent = 3.5, reference = '2m', shadowing = '6dB' }\nradio.tele.efficiency = 0.25\n";
        let topology = changed(text).unwrap();
        let [mesh, tele] = topology.radios.as_slice() else { panic!() };
        let budget = [mesh.power_dbm, mesh.gain_dbi, mesh.height_m, mesh.frequency_hz, mesh.bandwidth_hz];
        assert_eq!(budget, [33.0, 3.0, 9.0, 5e9, 40e6]);
        let receiver = (mesh.noise_figure_db, mesh.sensitivity_dbm, mesh.range_m, mesh.horizon);
        assert_eq!(receiver, (7.0, Some(-92.0), Some(1200.0), Some(1.5)));
        assert_eq!((&mesh.rate, &mesh.loss), (&RadioRate::Fixed("11Mbit".parse().unwrap()), &RadioLoss::Fixed(0.25)));
        assert_eq!((mesh.delay, topology.nets[mesh.net].cost), (Duration::from_millis(3), 4.0));
        assert_eq!(mesh.path_loss, PathLoss::LogDistance { exponent: 3.5, reference_m: 2.0, shadowing_db: 6.0 });
        assert!(matches!(tele.rate, RadioRate::Shannon { efficiency: 0.25, most } if most.is_unlimited()));
    }

    #[test]
    fn tables_of_radios_keep_the_rest() {
        let text = "radio.mesh.contention.window = 64\nradio.mesh.queue.limit = 5000\n\
                    radio.mesh.station.b.power = '30dBm'\nradio.mesh.station.c.gain = '1dBi'\n";
        let topology = changed(text).unwrap();
        let mesh = &topology.radios[0];
        assert!(matches!(&mesh.links, RadioLinks::Shared(rules) if rules.window == 64 && rules.slot.as_micros() == 20));
        assert_eq!((mesh.queue.limit, mesh.queue.in_bytes), (5000, true));
        let stations: Vec<_> = mesh.stations.iter().map(|one| (one.host, one.gain_dbi, one.power_dbm)).collect();
        assert_eq!(stations, [(0, Some(12.0), None), (1, Some(12.0), Some(30.0)), (2, Some(1.0), None)]);
    }

    #[test]
    fn words_of_radios_change_too() {
        let mesh = |text: &str| changed(text).unwrap().radios.swap_remove(0);
        assert_eq!(mesh("radio.mesh.links = 'pairs'\n").links, RadioLinks::Pairs);
        assert_eq!(mesh("radio.mesh.model = 'two-ray'\n").path_loss, PathLoss::TwoRay);
        let access = changed("radio.mesh = { links = 'access', access = 'c' }\n").unwrap();
        assert!(matches!(&access.radios[0].links, RadioLinks::Access(access) if access.points == [2]));
        assert_eq!(access.nets[access.radios[0].net].members[0].to_net.queue.limit, 9000);
    }

    #[test]
    fn mistakes_name_what_can_change() {
        let told = |text: &str| changed(text).unwrap_err();
        assert_eq!(told("radio.mash.range = '1m'\n"), "2: the topology has no radio `mash`; did you mean `mesh`?\n");
        assert_eq!(told("radio.xyz.range = '1m'\n"), "2: the topology has no radio `xyz`: choose mesh, tele\n");
        assert_eq!(told("radio.net.range = '1m'\n"), "2: `net` is no radio: write topology.lan.net\n");
        assert_eq!(told("lan.mesh.delay = '1ms'\n"), "2: `mesh` is a radio: write topology.radio.mesh\n");
        assert_eq!(
            told("radio.mesh.range_m = 3\n"),
            "2: `range_m` is no key of a radio of the topology; did you mean `range`?\n"
        );
        let all = told("radio.mesh.xyz = 3\n");
        assert!(all.starts_with("2: `xyz` is no key of a radio of the topology: choose links, access, "), "{all}");
        assert_eq!(
            told("radio.mesh.power = 3\n"),
            "2: `power` of a radio of the topology: `3` has no unit: write \"3dBm\"\n"
        );
        assert_eq!(told("radio.tele.exponent = 3.0\n"), "2: `exponent` belongs to model = \"log-distance\"\n");
        let fixed = told("radio.mesh.members = ['a']\n");
        assert_eq!(fixed, "2: `members` of a radio stays as its topology has it: change its other keys\n");
    }
}
