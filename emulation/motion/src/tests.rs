mod formats;
mod links;
mod places;
mod radio;

use std::time::Duration;

use roost_topology::Topology;

const RADIO: &str = "links = 'pairs'\nfrequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\n";

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A topology of hosts `a`, `b` and `c` with these lines.
fn topology(lines: &str) -> Topology {
    let text = format!("lenient = true\n[[host]]\nname = ['a', 'b', 'c']\n{lines}");
    let mut topology = roost_topology::file::parse("t", &text).unwrap();
    super::resolve(&mut topology, |path| Err(format!("no file {path}"))).unwrap();
    topology
}

fn mistakes(lines: &str, file: &str) -> Vec<String> {
    let text = format!("lenient = true\n[[host]]\nname = ['a', 'b', 'c']\n{lines}");
    let mut topology = roost_topology::file::parse("t", &text).unwrap();
    let wrong = super::resolve(&mut topology, |_| Ok(file.to_owned())).unwrap_err();
    wrong.into_iter().map(|note| format!("{}: {}", note.line, note.text)).collect()
}
