//! Paths over `udp://` that carry little, and addresses that change: real daemons in namespaces, which this
//! machine must allow; `emulate doctor` says what is missing.

use roost_tests::lab::Lab;
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::wait_until;

const QUICK: &str = "delay = \"2ms\"";
const HUB: [&str; 2] = ["--super", "udp://sn1:7700"];
const LISTEN: [&str; 2] = ["--listen", "udp://0.0.0.0:7711"];

/// Lets packets of at most 1280 bytes pass between `near` and `far`, which say
/// nothing of it.
fn narrow(lab: &mut Lab<'_>) {
    for (host, beyond) in [("near", "provider"), ("far", "requester")] {
        let to = lab.address_of(beyond);
        let route = lab.run(&format!("{host} ip -o route get {to}"));
        let device = route.split_whitespace().skip_while(|word| *word != "dev").nth(1).expect("a way there");
        lab.run(&format!("{host} ip link set dev {device} mtu 1280"));
    }
    // With the headers of IP and ICMP.
    let passes = |lab: &mut Lab<'_>, bytes: u32| {
        lab.run(&format!("requester ping -q -M do -s {} -c 3 -i 0.2 -W 2 provider", bytes - 28))
            .contains(" 0% packet loss")
    };
    assert!(passes(lab, 1280) && !passes(lab, 1281), "the path is not narrow");
    for host in ["near", "far"] {
        lab.run(&format!("{host} ip rule add ipproto icmp blackhole"));
    }
    assert!(!passes(lab, 1280), "the path is not silent");
}

#[track_caller]
fn comes(network: &Network, requester: &Client, service: &str, bytes: u64) {
    let file = text(&network.path(service));
    let got = requester.json(&["request", service, "--at", "5,5", "--for", "2s", "--timeout", "30s", "-o", &file]);
    let summary = &got["summary"];
    assert_eq!((&summary["complete"], &summary["transport"]), (&true.into(), &"udp".into()), "{got}");
    assert_eq!(
        (&summary["lost"], &summary["digest_ok"], &summary["relayed"]),
        (&0.into(), &true.into(), &false.into())
    );
    assert_eq!(summary["bytes"], bytes, "{got}");
}

#[test]
fn silent_1280_byte_path_carries_everything() {
    let network = Network::new();
    let connections = [("sn1", "near"), ("requester", "near"), ("near", "far"), ("far", "provider")];
    let mut lab = Lab::new(&network, &connections.map(|(a, b)| (a, b, QUICK)));
    narrow(&mut lab);
    lab.supernode("sn1", &["--listen", "udp://0.0.0.0:7700"]);
    let _provider = lab.node("provider", "5,5", &[&HUB[..], &LISTEN, &["--services", "video,image"]].concat());
    let requester = lab.node("requester", "1,1", &[HUB, LISTEN].concat());
    comes(&network, &requester, "image", 100_000);
    comes(&network, &requester, "video", 2 * 700_000 / 8);
}

#[test]
fn address_change_keeps_connection() {
    let network = Network::new();
    let mut lab = Lab::new(&network, &[("sn1", "uav", QUICK), ("sn1", "uav", QUICK)]);
    let hub = lab.supernode("sn1", &["--listen", "udp://0.0.0.0:7700"]);
    let way = ["--super", "udp://10.1.1.2:7700"];
    let node = lab.node("uav", "5,5", &[&way[..], &LISTEN, &["--services", "image"]].concat());
    let handshakes = || [&hub, &node].map(|daemon| daemon.metric("roost_transport_handshakes_total", "udp"));
    let says = |words: &[&str], address: &str| hub.json(words).to_string().contains(&format!("udp://{address}:7711"));
    let before = handshakes();
    assert!(says(&["connections"], "10.1.1.3"), "{}", hub.json(&["connections"]));
    let listed = lab.run("uav ip -o -4 address show to 10.1.1.3");
    let device = listed.split_whitespace().nth(1).expect("the address is there");
    // The node comes into the reach of the other connection, where it has another address.
    lab.run(&format!("uav ip address del 10.1.1.3/24 dev {device}"));
    lab.run("uav ip route add 10.1.1.2 via 10.1.2.2");
    for words in [&["connections"][..], &["lookup", "image", "--at", "5,5"]] {
        let new = wait_until(PATIENCE, || (says(words, "10.1.2.3") && !says(words, "10.1.1.3")).then_some(()));
        assert!(new.is_some(), "{}\n{}", hub.json(words), node.log());
    }
    assert_eq!(handshakes(), before);
}
