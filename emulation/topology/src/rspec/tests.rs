use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event as Read;

use super::*;
use crate::file;
use crate::generate::Star;
use crate::testing;

/// An element: its path, and its attributes.
type Element = (String, BTreeMap<String, String>);

fn elements(text: &str) -> Vec<Element> {
    let mut reader = Reader::from_str(text);
    let (mut path, mut seen) = (Vec::new(), Vec::new());
    loop {
        let event = reader.read_event().unwrap();
        let (Read::Start(start) | Read::Empty(start)) = &event else {
            match event {
                Read::End(_) => drop(path.pop()),
                Read::Eof => return seen,
                _ => {}
            }
            continue;
        };
        path.push(start.name().as_ref().to_owned());
        let value = |attribute: quick_xml::events::attributes::Attribute<'_>| {
            let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap().into_owned();
            (attribute.key.as_ref().to_owned(), value)
        };
        seen.push((path.join("/"), start.attributes().map(|it| value(it.unwrap())).collect()));
        if matches!(event, Read::Empty(_)) {
            path.pop();
        }
    }
}

/// Checks the elements against the schema of requests: their positions, required attributes and values.
fn check(text: &str) {
    let required: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("rspec", ["xmlns", "type"].as_slice()),
        ("rspec/node", &["client_id", "exclusive"]),
        ("rspec/node/sliver_type", &["name"]),
        ("rspec/node/sliver_type/disk_image", &["name"]),
        ("rspec/node/hardware_type", &["name"]),
        ("rspec/node/services", &[]),
        ("rspec/node/services/execute", &["shell", "command"]),
        ("rspec/node/interface", &["client_id"]),
        ("rspec/node/interface/ip", &["address", "netmask", "type"]),
        ("rspec/link", &["client_id"]),
        ("rspec/link/interface_ref", &["client_id"]),
        ("rspec/link/property", &["source_id", "dest_id"]),
        ("rspec/link/link_type", &["name"]),
    ]);
    let elements = elements(text);
    let of = |path: &'static str, key: &'static str| {
        elements.iter().filter(move |(at, _)| at == path).filter_map(move |(_, attributes)| attributes.get(key))
    };
    for (path, attributes) in &elements {
        let needed = required.get(path.as_str()).unwrap_or_else(|| panic!("{path} is not in the schema"));
        assert!(needed.iter().all(|key| attributes.contains_key(*key)), "{path} {attributes:?}");
        for (key, least, most) in [("capacity", 1.0, 1e9), ("latency", 0.0, 1e8), ("packet_loss", 0.0, 1.0)] {
            let value = attributes.get(key).map(|value| value.parse::<f64>().unwrap());
            assert!(value.is_none_or(|value| (least..=most).contains(&value)), "{path} {attributes:?}");
        }
    }
    let root = &elements[0].1;
    assert_eq!((root["type"].as_str(), root["xmlns"].as_str()), ("request", NAMESPACE));
    let interfaces: Vec<&String> = of("rspec/node/interface", "client_id").collect();
    let unique: BTreeSet<&String> = interfaces.iter().copied().collect();
    assert_eq!(unique.len(), interfaces.len(), "interfaces have names of their own");
    let used: Vec<&String> = of("rspec/link/interface_ref", "client_id").collect();
    assert_eq!((used.len(), used.iter().copied().collect::<BTreeSet<_>>()), (interfaces.len(), unique.clone()));
    let links: BTreeSet<&String> = of("rspec/link", "client_id").collect();
    for end in of("rspec/link/property", "source_id").chain(of("rspec/link/property", "dest_id")) {
        assert!(unique.contains(end) || links.contains(end), "{end}");
    }
}

#[test]
fn star_is_lan_with_leg_properties() {
    let request = write(&Star::published(3).topology().unwrap()).unwrap();
    check(&request.text);
    assert!(request.lost.is_empty(), "{:?}", request.lost);
    let expected = "  <link client_id=\"net\">
    <interface_ref client_id=\"node1:if0\"/>
    <interface_ref client_id=\"node2:if0\"/>
    <interface_ref client_id=\"server:if0\"/>
    <property source_id=\"node1:if0\" dest_id=\"net\" capacity=\"100000\" latency=\"50\"/>
    <property source_id=\"node2:if0\" dest_id=\"net\" capacity=\"100000\" latency=\"50\"/>
    <property source_id=\"server:if0\" dest_id=\"net\" capacity=\"100000\" latency=\"125\"/>
    <link_type name=\"lan\"/>
  </link>
";
    assert!(request.text.contains(expected), "{}", request.text);
}

#[test]
fn request_has_links_programs_and_images() {
    let text = "[[host]]\nname = [\"a\", \"b\"]\nos = \"UBUNTU22-64-STD\"\nhardware = \"d430\"\n\
                [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1.5Mbit\"\ndelay = \"12.5ms\"\nloss = 0.01\ndown = { jitter = \"1ms\" }\n\
                [[program]]\nname = \"p\"\nhost = \"a\"\ncommand = \"ping -c 3 b > 'x' && echo <ok>\"\nfolder = \"/tmp\"\nstart = \"0s\"\n\
                [[event]]\nat = \"5s\"\nnet = \"a-b\"\ndo = \"down\"\n";
    let request = write(&file::parse("two", text).unwrap()).unwrap();
    check(&request.text);
    assert_eq!(request.lost, ["jitter", "1 scheduled events"]);
    for part in [
        "<property source_id=\"a:if0\" dest_id=\"b:if0\" capacity=\"1500\" latency=\"12.5\" packet_loss=\"0.01\"/>",
        "<disk_image name=\"urn:publicid:IDN+emulab.net+image+emulab-ops//UBUNTU22-64-STD\"/>",
        "<hardware_type name=\"d430\"/>",
        "<ip address=\"10.1.1.2\" netmask=\"255.255.255.0\" type=\"ipv4\"/>",
        "<!-- Not in this request: jitter -->",
    ] {
        assert!(request.text.contains(part), "{part}\n{}", request.text);
    }
    let commands: Vec<String> =
        elements(&request.text).into_iter().filter_map(|(_, mut it)| it.remove("command")).collect();
    assert_eq!(commands, ["cd '/tmp' && ping -c 3 b > 'x' && echo <ok>"]);
}

#[test]
fn routes_spare_testbed_subnets() {
    let text = "[[host]]\nname = [\"a\", \"b\", \"c\", \"d\"]\n[defaults]\nrate = \"1Mbit\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
                [[link]]\nbetween = [\"b\", \"c\"]\n[[link]]\nbetween = [\"c\", \"d\"]\n";
    let request = write(&file::parse("chain", text).unwrap()).unwrap();
    check(&request.text);
    let commands: Vec<String> =
        elements(&request.text).into_iter().filter_map(|(_, mut it)| it.remove("command")).collect();
    assert_eq!(commands[0], "sudo ip route replace 10.0.0.0/8 via 10.1.1.3");
    let forward = "sudo sysctl -qw net.ipv4.ip_forward=1 && sudo ip route replace 10.1.2.0/23 via 10.1.2.3";
    assert_eq!(commands[1], forward);
}

proptest! {
    #[test]
    fn any_topology_fits_rspec_schema(topology in testing::any_topology()) {
        check(&write(&topology).unwrap().text);
    }
}
