//! Paths between nodes behind translators of addresses of every two kinds. Real daemons in namespaces, which this
//! machine must allow; `emulate doctor` says what is missing.

use std::net::SocketAddr;
use std::thread;

use roost_tests::hosts::{Gate, Star};
use roost_tests::network::{Client, Network, text};
use serde_json::Value;

/// The kinds, each with the names of its provider and its requester.
const KINDS: [(Gate, &str, &str); 4] = [
    (Gate::FullCone, "pf", "rf"),
    (Gate::AddressFilter, "pa", "ra"),
    (Gate::Translator, "pt", "rt"),
    (Gate::Symmetric, "ps", "rs"),
];

/// True if no node of the two can call the other at a port that lets it in: both kinds know ports, and one gives
/// another port to each remote.
fn is_relayed(provider: Gate, requester: Gate) -> bool {
    let is_strict = |gate| matches!(gate, Gate::Translator | Gate::Symmetric);
    is_strict(provider) && is_strict(requester) && [provider, requester].contains(&Gate::Symmetric)
}

fn node(hosts: &mut Star<'_>, scheme: &str, name: &str, more: &[&str]) -> Client {
    let hub = format!("{scheme}://{}", SocketAddr::new(hosts.hub_for(name, false, false), 7700));
    let listen = format!("{scheme}://0.0.0.0:7710");
    hosts.start("overlay-node", name, "node", &[&["--super", &hub, "--listen", &listen], more].concat())
}

/// The way of an image from the provider at a cell: `direct`, `relayed`, or an error.
fn path(network: &Network, hosts: &Star<'_>, (name, requester): (&str, &Client), cell: &str) -> String {
    let file = text(&network.path(&format!("{name}-{cell}.jpg")));
    let arguments = ["request", "image", "--at", cell, "--json", "-o", &file];
    let output = hosts.roost(name, requester, &arguments);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match report["summary"]["relayed"].as_bool() {
        Some(true) => "relayed".to_owned(),
        Some(false) => "direct".to_owned(),
        None => format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}

/// The outcomes that differ from those that the kinds of translators allow.
fn wrong_paths(scheme: &str) -> Vec<String> {
    let network = Network::new();
    let all = KINDS.iter().flat_map(|(gate, provider, requester)| [(*provider, *gate), (*requester, *gate)]);
    let mut hosts = Star::behind(&network, &all.collect::<Vec<_>>());
    let _hub = hosts.start("supernode", "sn", "supernode", &["--listen", &format!("{scheme}://0.0.0.0:7700")]);
    let cells: Vec<String> = (1..=KINDS.len()).map(|number| format!("{number},5")).collect();
    for ((_, provider, _), cell) in KINDS.iter().zip(&cells) {
        node(&mut hosts, scheme, provider, &["--at", cell, "--services", "image"]);
    }
    let requesters = KINDS.map(|(_, _, requester)| node(&mut hosts, scheme, requester, &["--at", "9,9"]));
    let (hosts, network) = (&hosts, &network);
    thread::scope(|scope| {
        let rows = KINDS.iter().zip(&requesters).map(|((gate, _, name), requester)| {
            let cells = &cells;
            scope.spawn(move || {
                let row = KINDS.iter().zip(cells).map(|((of_provider, ..), cell)| {
                    let path = path(network, hosts, (name, requester), cell);
                    println!("{scheme}: {of_provider:?} to {gate:?}: {path}");
                    let wanted = if is_relayed(*of_provider, *gate) { "relayed" } else { "direct" };
                    (path != wanted).then(|| format!("{scheme}: {of_provider:?} to {gate:?}: {path}"))
                });
                row.collect::<Vec<_>>()
            })
        });
        let rows: Vec<_> = rows.collect();
        rows.into_iter().flat_map(|row| row.join().unwrap()).flatten().collect()
    })
}

#[test]
fn translators_that_allow_it_are_passed() {
    let wrong = ["udp", "quic"].map(wrong_paths).concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
