//! Writing of `[[radio]]`, so that it reads back as it was.

use super::names;
use super::stanza::{Stanza, list, queue_value, quote, table};
use super::write::words_value;
use crate::model::{Contention, Net, PathLoss, Queue, Radio, RadioLinks, RadioLoss, RadioRate, Station, Topology};
use crate::units::{Rate, format_duration};

pub(super) fn radios(topology: &Topology) -> Vec<Stanza> {
    let stanza = |radio: &Radio| Some(radio_stanza(topology, topology.nets.get(radio.net)?, radio));
    topology.radios.iter().filter_map(stanza).collect()
}

pub(super) fn radio_stanza(topology: &Topology, net: &Net, radio: &Radio) -> Stanza {
    let mut stanza = Stanza::new("[[radio]]");
    stanza.text("name", &net.name);
    let words = names::compress(net.members.iter().map(|member| topology.hosts[member.host].name.as_str()));
    stanza.raw("members", list(words.iter().map(|word| quote(word))));
    links(topology, radio, &mut stanza);
    budget(radio, &mut stanza);
    rate(&radio.rate, &mut stanza);
    loss(&radio.loss, &mut stanza);
    if !radio.delay.is_zero() {
        stanza.text("delay", &format_duration(radio.delay));
    }
    if radio.queue != Queue::DEFAULT {
        stanza.raw("queue", queue_value(&radio.queue));
    }
    if net.cost.to_bits() != 1.0_f64.to_bits() {
        stanza.raw("cost", format!("{:?}", net.cost));
    }
    if let Some(member) = net.members.first().filter(|member| member.prefix != 24) {
        stanza.raw("prefix", member.prefix.to_string());
    }
    let addresses: Option<Vec<String>> = net.members.iter().map(|it| Some(quote(&it.address?.to_string()))).collect();
    if let Some(addresses) = addresses.filter(|addresses| !addresses.is_empty()) {
        stanza.raw("addresses", list(addresses.into_iter()));
    }
    if !radio.stations.is_empty() {
        stanza.raw("station", list(radio.stations.iter().map(|station| station_text(topology, station))));
    }
    stanza
}

fn links(topology: &Topology, radio: &Radio, stanza: &mut Stanza) {
    match &radio.links {
        RadioLinks::Pairs => {}
        RadioLinks::Shared(contention) => {
            stanza.text("links", "shared");
            if *contention != Contention::OFDM {
                stanza.raw("contention", contention_text(contention));
            }
        }
        RadioLinks::Access(access) => {
            stanza.text("links", "access");
            let names = access.points.iter().map(|host| topology.hosts[*host].name.as_str());
            stanza.raw("access", words_value(&names::compress(names)));
            stanza.text("hysteresis", &format!("{}dB", access.hysteresis_db));
            stanza.text("handover", &format_duration(access.interruption));
        }
    }
}

fn budget(radio: &Radio, stanza: &mut Stanza) {
    match radio.path_loss {
        PathLoss::FreeSpace => {}
        PathLoss::TwoRay => stanza.text("model", "two-ray"),
        PathLoss::LogDistance { exponent, reference_m, shadowing_db } => {
            stanza.text("model", "log-distance");
            stanza.raw("exponent", format!("{exponent:?}"));
            stanza.text("reference", &format!("{reference_m}m"));
            stanza.text("shadowing", &format!("{shadowing_db}dB"));
        }
    }
    stanza.text("power", &format!("{}dBm", radio.power_dbm));
    stanza.text("gain", &format!("{}dBi", radio.gain_dbi));
    stanza.text("height", &format!("{}m", radio.height_m));
    stanza.text("frequency", &format!("{}Hz", radio.frequency_hz));
    stanza.text("bandwidth", &format!("{}Hz", radio.bandwidth_hz));
    stanza.text("noise_figure", &format!("{}dB", radio.noise_figure_db));
    stanza.optional("sensitivity", radio.sensitivity_dbm.map(|power| format!("{power}dBm")).as_deref());
    stanza.optional("range", radio.range_m.map(|range| format!("{range}m")).as_deref());
    stanza.raw("horizon", radio.horizon.map_or_else(|| "false".to_owned(), |factor| format!("{factor:?}")));
}

fn rate(rate: &RadioRate, stanza: &mut Stanza) {
    let rows = |key: &str, unit: &str, rows: &[(f64, Rate)]| {
        list(rows.iter().map(|(at, rate)| format!("{{ {key} = \"{at}{unit}\", rate = \"{rate}\" }}")))
    };
    match rate {
        RadioRate::Fixed(rate) => stanza.text("rate", &rate.to_string()),
        RadioRate::Snr(table) => stanza.raw("rates", rows("snr", "dB", table)),
        RadioRate::Distance(table) => stanza.raw("rates", rows("distance", "m", table)),
        RadioRate::Shannon { efficiency, most } => {
            stanza.raw("efficiency", format!("{efficiency:?}"));
            stanza.text("rate", &most.to_string());
        }
    }
}

fn loss(loss: &RadioLoss, stanza: &mut Stanza) {
    let rows = |key: &str, unit: &str, rows: &[(f64, f64)]| {
        list(rows.iter().map(|(at, loss)| format!("{{ {key} = \"{at}{unit}\", loss = {loss:?} }}")))
    };
    match loss {
        RadioLoss::Fixed(0.0) => {}
        RadioLoss::Fixed(loss) => stanza.raw("loss", format!("{loss:?}")),
        RadioLoss::Snr(table) => stanza.raw("losses", rows("snr", "dB", table)),
        RadioLoss::Distance(table) => stanza.raw("losses", rows("distance", "m", table)),
    }
}

fn station_text(topology: &Topology, station: &Station) -> String {
    let mut inner = Stanza::new("");
    inner.text("host", &topology.hosts[station.host].name);
    inner.optional("power", station.power_dbm.map(|power| format!("{power}dBm")).as_deref());
    inner.optional("gain", station.gain_dbi.map(|gain| format!("{gain}dBi")).as_deref());
    inner.optional("height", station.height_m.map(|height| format!("{height}m")).as_deref());
    table(&inner)
}

fn contention_text(contention: &Contention) -> String {
    let mut inner = Stanza::new("");
    inner.text("slot", &format_duration(contention.slot));
    inner.text("sifs", &format_duration(contention.sifs));
    inner.text("difs", &format_duration(contention.difs));
    inner.raw("window", contention.window.to_string());
    inner.raw("window_most", contention.window_most.to_string());
    inner.raw("retries", contention.retries.to_string());
    inner.text("preamble", &format_duration(contention.preamble));
    inner.raw("header", contention.header_bytes.to_string());
    inner.raw("ack", contention.ack_bytes.to_string());
    inner.text("basic_rate", &contention.basic_rate.to_string());
    inner.optional("sense", contention.sense_dbm.map(|power| format!("{power}dBm")).as_deref());
    table(&inner)
}
