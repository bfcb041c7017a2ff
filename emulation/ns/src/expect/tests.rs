//! Tests of differences between listings.

use roost_topology::model::Note;
use serde_json::json;

use super::*;

fn listing() -> Value {
    let leg = json!({"bw_kbps": 1000, "delay_ms": 0.5, "loss": 0.005012563});
    let member = |node: &str, ip: &str, auto: bool| json!({"node": node, "port": 0, "ip": ip, "ip_is_auto": auto, "to_net": leg, "from_net": leg});
    json!({
        "nodes": [{"name": "a", "hardware": "pc", "routing": "none"}, {"name": "b", "hardware": "pc", "routing": "none"}],
        "lans": [{"name": "l", "kind": "link", "members": [member("a", "10.1.1.1", false), member("b", "10.1.1.2", true)],
            "one_way": [{"frm": "a", "to": "b", "bw_kbps": 1000, "delay_ms": 1, "loss": 0.01}]}],
        "counts": {"nodes": 2, "links": 1},
        "events": [{"t": 1.0, "object": "l", "node": "", "type": "LINK", "event": "DOWN", "args": ""},
            {"t": 1.0, "object": "l", "node": "*", "type": "LINK", "event": "UP", "args": ""}],
        "programs": [{"name": "p", "node": "a", "command": "date"}]
    })
}

fn after(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut ours = listing();
    ours["lans"][0]["one_way"][0]["delay_ms"] = json!(1);
    change(&mut ours);
    differences(&ours, &listing())
}

#[test]
fn what_is_left_open_may_differ() {
    assert_eq!(after(|_| {}), [""; 0]);
    assert_eq!(after(|ours| ours["lans"][0]["members"][1]["ip"] = json!("10.1.1.77")), [""; 0]);
    assert_eq!(after(|ours| ours["events"].as_array_mut().unwrap().reverse()), [""; 0]);
    assert_eq!(after(|ours| ours["nodes"].as_array_mut().unwrap().reverse()), [""; 0]);
    assert_eq!(after(|ours| ours["lans"][0]["members"][0]["to_net"]["delay_ms"] = json!(0.7)), [""; 0]);
    assert_eq!(
        after(|ours| ours["lans"][0]["members"][0]["queue"] = json!({"limit": 50, "type": "DropTail"})),
        [""; 0]
    );
}

#[test]
fn everything_else_is_told() {
    type JsonEdit = fn(&mut Value);
    let changes: [(&str, JsonEdit); 10] = [
        ("lans.l.members[0].ip is 10.1.1.9", |ours| ours["lans"][0]["members"][0]["ip"] = json!("10.1.1.9")),
        ("lans.l has addresses of 2 subnets", |ours| ours["lans"][0]["members"][1]["ip"] = json!("10.1.2.2")),
        ("10.1.1.1, which was chosen", |ours| ours["lans"][0]["members"][1]["ip"] = json!("10.1.1.1")),
        ("lans.l.members[0].node is b", |ours| ours["lans"][0]["members"].as_array_mut().unwrap().reverse()),
        ("lans.l.members[1].to_net.bw_kbps is 1001", |ours| {
            ours["lans"][0]["members"][1]["to_net"]["bw_kbps"] = json!(1001);
        }),
        ("lans.l.members[0].from_net.loss", |ours| ours["lans"][0]["members"][0]["from_net"]["loss"] = json!(0.01)),
        ("lans.l.members[0].queue.limit is 40, not 50", |ours| {
            ours["lans"][0]["members"][0]["queue"] = json!({"limit": 40})
        }),
        ("nodes.c is not expected", |ours| ours["nodes"].as_array_mut().unwrap().push(json!({"name": "c"}))),
        ("nodes.a.os is FBSD", |ours| ours["nodes"][0]["os"] = json!("FBSD")),
        ("events lacks: at 1 l LINK DOWN", |ours| ours["events"][0]["t"] = json!(2)),
    ];
    for (told, change) in changes {
        let lines = after(change);
        assert!(lines.iter().any(|line| line.starts_with(told)), "{told}: {lines:?}");
    }
}

#[test]
fn expected_refusal_is_difference() {
    let expected = json!({"emulab_parser": "rejects", "emulab_error": "no such variable"});
    assert_eq!(differences(&listing(), &expected), ["it should be refused: no such variable"]);
}

#[test]
fn only_whole_milliseconds_may_be_lost() {
    for (ours, expected, same) in
        [(0.75, 0.5, true), (0.15, 0.0, true), (0.9, 0.0, false), (1.2, 1.0, false), (25.5, 25.0, false)]
    {
        assert_eq!(same_half(ours, expected), same, "half: {ours} {expected}");
    }
    for (ours, expected, same) in
        [(1.5, 1.0, true), (1.5, 0.0, false), (1.5, 0.75, false), (0.3, 0.0, true), (2.5, 2.0, false)]
    {
        assert_eq!(same_whole(ours, expected), same, "whole: {ours} {expected}");
    }
}

#[test]
fn braces_hold_only_folder() {
    let program = |dir: &str, command: &str| json!({"programs": [{"name": "p", "dir": dir, "command": command}]});
    assert_eq!(differences(&program("/tmp", "date"), &program("{/tmp}", "date")), [""; 0]);
    assert_eq!(
        differences(&program("/tmp", "date"), &program("/tmp", "{date}")),
        ["programs.p.command is date, not {date}"]
    );
}

#[test]
fn a_refusal_names_the_line() {
    let refused = |line| LoadError::Wrong { path: "x.ns".into(), problems: vec![Note { line, text: "no".to_owned() }] };
    assert_eq!(refusal_differences(&refused(3)), [""; 0]);
    assert_eq!(refusal_differences(&refused(0)), ["it is refused without a line: no"]);
}
