use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::file;
use crate::testing;

fn shown(text: &str) -> Value {
    let topology = file::parse("two", text).unwrap();
    serde_json::to_value(describe(&topology, "two.toml").unwrap()).unwrap()
}

#[test]
fn link_lists_legs_and_directions() {
    let shown = shown(
        "[[host]]\nname = [\"a\", \"b\"]\nos = \"FBSD\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1.5Mbit\"\n\
         delay = \"15ms\"\nloss = 0.01\naddresses = [\"10.9.0.1\", \"10.9.0.2\"]\ndown = { queue = { limit = 40 }, jitter = \"2ms\" }\n",
    );
    let leg = json!({"bw_kbps": 1500, "delay_ms": 7.5, "loss": 0.005012563, "queue": {"limit": 50, "in": "packets", "type": "DropTail"}});
    assert_eq!(shown["nodes"][0], json!({"name": "a", "hardware": "pc", "os": "FBSD", "routing": "static"}));
    let member = &shown["lans"][0]["members"][0];
    assert_eq!((&member["to_net"], &member["ip"], &member["ip_is_auto"]), (&leg, &json!("10.9.0.1"), &json!(false)));
    let other = &shown["lans"][0]["members"][1];
    assert_eq!((&other["queue"], &other["to_net"]["jitter_ms"]), (&json!({"limit": 40}), &json!(2)));
    let one_way = json!({"frm": "b", "to": "a", "bw_kbps": 1500, "delay_ms": 15, "loss": 0.01});
    assert_eq!(shown["lans"][0]["one_way"][1], one_way);
    assert_eq!(shown["counts"], json!({"nodes": 2, "links": 1, "lans": 0, "interfaces": 2}));
    assert_eq!((&shown["warnings"], &shown["ignored"]), (&json!([]), &json!([])));
}

#[test]
fn red_queues_use_emulab_names() {
    let queue = |queue: &str| {
        let net = format!("[[lan]]\nname = \"n\"\nmembers = \"a\"\nrate = \"unlimited\"\nqueue = {queue}\n");
        shown(&format!("[[host]]\nname = \"a\"\n{net}"))["lans"][0]["members"][0]["queue"].clone()
    };
    let red = json!({"type": "RED", "minthresh": 5, "maxthresh": 15, "linterm": 10, "weight": 0.002});
    assert_eq!(queue("{ red = true }"), red);
    let gentle = queue("{ limit = 9000, in = \"bytes\", red = { min = 6, gentle = true } }");
    let expected = json!({"limit": 9000, "in": "bytes", "type": "GRED", "minthresh": 6, "maxthresh": 15, "linterm": 10, "weight": 0.002});
    assert_eq!((gentle, queue("{ limit = 50 }")), (expected, Value::Null));
}

proptest! {
    #[test]
    fn any_topology_can_be_shown(topology in testing::any_topology()) {
        let shown = serde_json::to_value(describe(&topology, "x").unwrap()).unwrap();
        prop_assert_eq!(shown["nodes"].as_array().unwrap().len(), topology.hosts.len());
        prop_assert_eq!(shown["lans"].as_array().unwrap().len(), topology.nets.len());
    }
}
