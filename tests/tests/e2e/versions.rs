//! Daemons of this build beside members of the next minor version.

use std::fs;
use std::net::SocketAddr;

use roost_tests::later_version::{LaterHub, LaterNode};
use roost_tests::network::{Client, Daemon, Network, text};
use roost_wire::messages::ServiceRequest;
use roost_wire::{Area, Cell, Scheme, Service};

const SCHEMES: [Scheme; 3] = [Scheme::Udp, Scheme::Tcp, Scheme::Quic];

fn address(endpoint: &str) -> SocketAddr {
    endpoint.split_once("://").unwrap().1.parse().unwrap()
}

/// An endpoint of a daemon, as an address.
fn listens(hub: &Daemon, scheme: Scheme) -> SocketAddr {
    address(&hub.endpoint(&scheme.to_string()))
}

/// Messages that a daemon did not know, and skipped.
fn skipped_messages(daemon: &Client, program: &str) -> f64 {
    daemon.metric(&format!("roost_{program}_unknown_messages_total"), "")
}

/// Requests each service of `offered` from the cell, and looks it up.
fn assert_served(requester: &Daemon, cell: &str, offered: &[&str]) {
    for service in offered {
        let found = requester.json(&["lookup", service, "--at", cell]);
        assert!(found["candidates"].as_array().is_some_and(|found| !found.is_empty()), "{service}: {found}");
        let mut request = vec!["request", service, "--at", cell, "-o", "/dev/null"];
        if ["video", "track"].contains(service) {
            request.extend(["--for", "1s"]);
        }
        let output = requester.roost(&request);
        assert!(output.status.success(), "{service}: {output:?}");
    }
}

/// A hub of the next minor version serves nodes of this one.
#[test]
fn nodes_work_at_later_hub() {
    for scheme in SCHEMES {
        let network = Network::new();
        let hub = LaterHub::start(&network.identity("later", "supernode"), scheme, &[]);
        let provider = network.node("p", "5,5", &["--super", &hub.endpoint, "--services", "video,track,image,sensor"]);
        let requester = network.node("r", "1,1", &["--super", &hub.endpoint]);
        assert_served(&requester, "5,5", &["video", "track", "image", "sensor"]);
        for daemon in [&provider, &requester] {
            assert!(skipped_messages(daemon, "node") >= 1.0, "{scheme}: {}", daemon.log());
            assert!(!daemon.log().contains("malformed"), "{scheme}: {}", daemon.log());
        }
    }
}

/// A hub of this build serves nodes of the next minor version, and they serve nodes of this build.
#[test]
fn later_nodes_work_at_hub() {
    for scheme in SCHEMES {
        let network = Network::new();
        let hub = network.supernode("sn1", &[]);
        let later =
            LaterNode::start(&network.identity("later", "node"), Cell::new(5, 5), listens(&hub, scheme), scheme);
        let node = network.node("n", "9,9", &["--super", &hub.endpoint("udp"), "--services", "sensor"]);
        let file = network.path("image");
        let output = node.roost(&["request", "image", "--at", "5,5", "-o", &text(&file)]);
        assert!(output.status.success(), "{scheme}: {output:?}");
        assert_eq!(fs::read(&file).unwrap(), LaterNode::IMAGE);
        let reading = later.request(ServiceRequest::new(Service::Sensor, Area::Exact(Cell::new(9, 9))));
        assert!(!reading.is_empty(), "{scheme}");
        assert!(skipped_messages(&hub, "hub") >= 1.0, "{scheme}: {}", hub.log());
    }
}

/// Hubs of this build and of the next minor version find providers for each other's nodes.
#[test]
fn later_hub_works_beside_hub() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let own = roost_wire::Address::single(Scheme::Udp, listens(&hub, Scheme::Udp));
    let later = LaterHub::start(&network.identity("later", "supernode"), Scheme::Udp, &[own]);
    hub.wait_for("the hubs have not met", |status| (status["index"]["hubs"] == 1).then_some(()));
    let all = "video,track,image,sensor";
    let here = network.node("here", "5,5", &["--super", &hub.endpoint("udp"), "--services", all]);
    let there = network.node("there", "7,7", &["--super", &later.endpoint, "--services", all]);
    assert_served(&there, "5,5", &["video", "image"]);
    let output = here.roost(&["request", "sensor", "--at", "7,7"]);
    assert!(output.status.success(), "{output:?}");
}
