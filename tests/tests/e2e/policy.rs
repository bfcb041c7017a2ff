//! A policy is handed to one daemon, and all of them do what it says.

use roost_api::Client as ApiClient;
use roost_identity::SignedDocument;
use roost_identity::group::Group;
use roost_tests::network::{Daemon, Network};
use roost_wire::messages::DocumentKind;
use tokio::runtime::Runtime;

const NODES: &str = "[[rule]]\nallow = [\"all\"]\nwho = { role = \"node\" }\n";
const HUBS: &str = "[[rule]]\nallow = [\"all\"]\nwho = { role = \"supernode\" }\n";
const NO_GUESTS: &str = "[[rule]]\ntitle = \"guests see no video\"\ndeny = [\"request\"]\nservices = [\"video\"]\nwho = { name = \"guest*\" }\n";

const RELAYED: [&str; 2] = ["--mode", "relay"];

/// Signs a policy and hands it to a daemon, as `roost policy publish` does.
fn publish(network: &Network, daemon: &Daemon, number: u64, text: &str) {
    let kind = DocumentKind::POLICY;
    let document = SignedDocument { kind: kind.0, number, content: text.as_bytes().to_vec() };
    let bytes = Group::open(&network.path("grove")).unwrap().sign_document(&document).unwrap();
    let taken = Runtime::new().unwrap().block_on(async {
        let client = ApiClient::connect(&daemon.socket).await.unwrap();
        client.put_document(kind.name().unwrap(), bytes.into()).await.unwrap()
    });
    assert!(taken.is_new);
}

fn wait_for_policy(daemons: &[&Daemon], number: u64) {
    for daemon in daemons {
        daemon.wait_for("it does not have the policy", |status| (status["policy"]["number"] == number).then_some(()));
    }
}

fn video<'a>(scheme: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["request", "video", "--at", "5,5", "--for", "1s", "--transport", scheme], more].concat()
}

#[test]
fn video_is_for_those_whom_the_policy_allows() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let at = hub.endpoint("udp");
    let node = |name: &str, at_cell: &str, more: &[&str]| {
        network.node(name, at_cell, &[&["--super", at.as_str()], more].concat())
    };
    let camera = node("camera", "5,5", &["--services", "video,image"]);
    let (member, mut guest) = (node("uav7", "1,1", &[]), node("guest1", "2,2", &[]));
    let everybody = [&hub, &camera, &member, &guest];
    publish(&network, &hub, 1, &format!("{NO_GUESTS}{NODES}"));
    wait_for_policy(&everybody, 1);
    let refusal = "the group's policy does not let guest1 request video at (5,5): rule 1, \"guests see no video\"";
    for scheme in ["udp", "tcp"] {
        let said = guest.fails(5, &video(scheme, &[]));
        assert!(said.contains(refusal), "{said}");
        member.json(&video(scheme, &[]));
        // The hub that relays reads along, and is not allowed to.
        let said = member.fails(5, &video(scheme, &RELAYED));
        assert!(said.contains("policy"), "{said}");
    }
    guest.json(&["request", "image", "--at", "5,5", "-o", "/dev/null"]);
    publish(&network, &camera, 2, &format!("{NO_GUESTS}{NODES}{HUBS}"));
    wait_for_policy(&everybody, 2);
    for scheme in ["udp", "tcp"] {
        member.json(&video(scheme, &RELAYED));
        guest.fails(5, &video(scheme, &RELAYED));
    }
    guest.process.kill();
    let away = ["--at", "2,2", "--super", "udp://127.0.0.1:9"];
    let again = network.start("overlay-node", "guest1-again", &network.path("id-guest1"), &away);
    wait_for_policy(&[&again], 2);
    let shown = String::from_utf8(again.roost(&["status"]).stdout).unwrap();
    assert!(shown.contains("policy      number 2, 3 rules"), "{shown}");
}
