use proptest::prelude::*;

use super::*;
use crate::model::{Notes, Topology};
use crate::testing;

/// The topology without the lines of its parts.
fn placeless(mut topology: Topology) -> Topology {
    topology.notes = Notes::default();
    topology.events.iter_mut().for_each(|event| event.line = 0);
    topology
}

proptest! {
    #[test]
    fn written_topology_reads_back(topology in testing::any_topology()) {
        let text = write(&topology, "A comment\n\nof three lines");
        let back = parse("other", &text).map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
        prop_assert_eq!(placeless(back), topology, "{}", text);
    }
}

const STAR: &str = r#"
name = "star"

[[host]]
name = "node[1-10]"
class = "star"
cell = [0, 4]
step = [1, 0]

[[host]]
name = "server"

[[lan]]
name = "net"
members = ["node[1-10]", "server"]
rate = "100Mbit"
delay = "100ms"
leg = [{ host = "server", delay = "125ms" }]
"#;

fn read(text: &str) -> Topology {
    parse("test", text).unwrap()
}

/// The mistakes in a text, as users see them.
fn told(text: &str) -> Vec<String> {
    parse("test", text).unwrap_err().into_iter().map(|note| format!("{}: {}", note.line, note.text)).collect()
}

/// The star with one of its lines replaced.
fn star_with(line: &str, by: &str) -> String {
    assert!(STAR.contains(line), "{line}");
    STAR.replace(line, by)
}

#[test]
fn star_of_eleven_is_three_stanzas() {
    let star = read(STAR);
    assert_eq!((star.hosts.len(), star.nets.len(), star.nets[0].members.len()), (11, 1, 11));
    assert_eq!((star.hosts[9].name.as_str(), star.hosts[9].cell), ("node10", Some((9, 4))));
    let (node, server) = (&star.nets[0].members[0], &star.nets[0].members[10]);
    assert_eq!((node.to_net.delay.as_millis(), node.from_net.delay.as_millis()), (50, 50));
    assert_eq!((server.to_net.delay.as_millis(), server.from_net.delay.as_millis()), (125, 125));
    assert_eq!(write(&star, "").lines().filter(|line| line.starts_with("[[")).count(), 3);
}

#[test]
fn link_values_are_end_to_end() {
    let text = r#"
[defaults]
rate = "10Mbit"
queue = { limit = 20, in = "packets", red = { max = 12 } }

[[host]]
name = ["a", "b", "c"]

[[link]]
between = ["a", "b"]
delay = "10ms"
loss = 0.19
down = { rate = "1Mbit", delay = "30ms", jitter = "2ms" }
addresses = ["10.7.0.1", "10.7.0.2"]
prefix = 30

[[lan]]
name = "lan"
members = ["b", "c"]
burst = { enter = 0.01, leave = 0.5 }
leg = [{ host = "c", delay = "7ms", burst = false, up = { rate = "unlimited" } }]
"#;
    let topology = read(text);
    let [link, lan] = topology.nets.as_slice() else { panic!("{topology:?}") };
    assert_eq!(link.name, "a-b");
    let [a, b] = link.members.as_slice() else { panic!("{link:?}") };
    assert_eq!((a.to_net.rate.bps(), a.from_net.rate.bps(), b.to_net.rate.bps()), (10_000_000, 1_000_000, 1_000_000));
    assert_eq!((a.to_net.delay.as_millis(), b.to_net.delay.as_millis(), a.from_net.delay.as_millis()), (5, 15, 15));
    assert!((a.to_net.loss - 0.1).abs() < 1e-12 && (b.from_net.loss - 0.1).abs() < 1e-12);
    assert_eq!((b.to_net.jitter.as_millis(), a.from_net.jitter.as_millis(), a.to_net.jitter.as_millis()), (2, 0, 0));
    assert_eq!((b.address.unwrap().to_string().as_str(), b.prefix, b.to_net.queue.limit), ("10.7.0.2", 30, 20));
    let c = &lan.members[1];
    assert!(lan.members[0].to_net.burst.is_some_and(|burst| burst.loss >= 1.0) && c.to_net.burst.is_none());
    assert_eq!((c.to_net.delay.as_millis(), c.from_net.delay.as_millis()), (7, 7));
    assert!(c.to_net.rate.is_unlimited() && !c.from_net.rate.is_unlimited());
    assert_eq!(placeless(read(&write(&topology, ""))).nets, topology.nets);
}

#[test]
fn range_at_far_end_makes_links() {
    let text = "[[host]]\nname = [\"hub\", \"leaf[1-12]\"]\n\n\
                [[link]]\nbetween = [\"hub\", \"leaf[1-12]\"]\nrate = \"1Mbit\"\ndelay = \"5ms\"\n";
    let topology = read(text);
    assert_eq!((topology.nets.len(), topology.nets[11].name.as_str()), (12, "hub-leaf12"));
    let written = write(&topology, "");
    assert!(written.contains("between = [\"hub\", \"leaf[1-12]\"]"), "{written}");
    assert_eq!(read(&written).nets, topology.nets);
}

#[test]
fn program_on_many_hosts_is_copied() {
    let text = format!(
        "{STAR}\n[[program]]\nname = \"ping\"\nhost = \"node[1-2]\"\ncommand = \"ping server\"\nstart = \"3s\"\n"
    );
    let star = read(&text);
    assert_eq!(star.programs.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["ping-node1", "ping-node2"]);
    assert_eq!((star.events.len(), star.events[0].at.as_secs(), star.events[0].line), (2, 3, 20));
}

#[test]
fn events_are_sorted_by_time() {
    let text = format!(
        "{STAR}\n[[event]]\nat = \"9s\"\nnet = \"net\"\nfrom = \"server\"\ndelay = \"300ms\"\ndo = \"down\"\n\n\
         [[event]]\nat = \"1s\"\ndo = \"halt\"\n"
    );
    let events = read(&text).events;
    assert_eq!(
        events.iter().map(|event| event.object.as_str()).collect::<Vec<_>>(),
        ["ns", "net-server", "net-server"]
    );
    assert_eq!(events.iter().map(|event| event.line).collect::<Vec<_>>(), [27, 20, 20]);
}

#[test]
fn mistake_names_line_and_suggestion() {
    let cases = [
        ("delay = \"100ms\"", "dealy = \"100ms\"", "17: `dealy` is no key of a LAN; did you mean `delay`?"),
        ("[[lan]]", "[[lann]]", "13: `lann` is no key of a topology; did you mean `lan`?"),
        (
            "rate = \"100Mbit\"",
            "rate = \"100MB\"",
            "16: `rate` of a LAN: `100MB` is no rate: write 56kbit, 100Mbit, 1.5Gbit or unlimited",
        ),
        (
            "rate = \"100Mbit\"",
            "rate = \"0kbit\"",
            "16: `rate` of a LAN: `0kbit` is out of range: rates go from 1bit to 1000Gbit",
        ),
        ("rate = \"100Mbit\"", "rate = 5", "16: `rate` of a LAN: `5` has no unit: write \"5Mbit\""),
        ("class = \"star\"", "class = 5", "6: `class` of a host is a text in quotes, not a whole number"),
        ("rate = \"100Mbit\"", "", "13: no rate is given: write rate = \"100Mbit\", or \"unlimited\" if that is meant"),
        (
            "delay = \"100ms\"",
            "delay = \"100\"",
            "17: `delay` of a LAN: `100` is no duration: write 50ms, 1.5s, 200us or 1m30s",
        ),
        ("cell = [0, 4]", "cell = 5", "7: `cell` of a host is two whole numbers: write [27, 92]"),
        ("cell = [0, 4]", "cell = [0, \"4\"]", "7: `cell` of a host is two whole numbers: write [27, 92]"),
        ("name = \"star\"", "routing = 5", "2: `routing` of a topology is a text in quotes"),
        ("delay = \"100ms\"", "burst = 5", "17: a burst is a table with keys, not a whole number"),
        ("delay = \"100ms\"", "prefix = 99999999999999999999", "17: `prefix` of a LAN is out of range"),
        ("delay = \"100ms\"", "loss = 5", "17: `loss` of a LAN is a probability from 0 to 1: 1 % is 0.01"),
        ("delay = \"100ms\"", "queue = { limit = 0 }", "17: `limit` of a queue is a whole number from 1 to 1073741824"),
        ("host = \"server\"", "host = \"sever\"", "18: there is no host `sever`; did you mean `server`?"),
        ("\"node[1-10]\", \"server\"", "\"node[1-11]\"", "15: there is no host `node11`; did you mean `node1`?"),
        ("name = \"server\"", "name = [\"server\", \"node3\"]", "11: `node3` is already the name of a host in line 5"),
        ("name = \"server\"", "name = \"net\"", "15: there is no host `server`"),
        ("[\"node[1-10]\", \"server\"]", "[\"server\", \"server\"]", "14: `server` is on `net` twice"),
        (
            "name = \"node[1-10]\"",
            "name = \"node[10-1]\"",
            "5: `node[10-1]` has no range between its brackets: write low[1-8]",
        ),
        ("name = \"star\"", "name = \"star", "2: invalid basic string, expected `\"`"),
    ];
    for (line, by, expected) in cases {
        let seen = told(&star_with(line, by));
        assert!(seen.iter().any(|told| told == expected), "{by}: {seen:#?}");
    }
}

#[test]
fn impossible_network_names_line() {
    let chain = |routing: &str, second: &str| {
        let hosts = "[[host]]\nname = [\"a\", \"b\", \"c\"]\n[defaults]\nrate = \"1Mbit\"\n";
        format!("{routing}\n{hosts}[[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\nbetween = [{second}]\n")
    };
    let far = told(&chain("routing = \"none\"", "\"b\", \"c\""));
    assert!(far[0].starts_with("1: with routing none, `a` has no way to `c`"), "{far:?}");
    let lenient = read(&chain("routing = \"none\"\nlenient = true", "\"b\", \"c\""));
    assert_eq!(lenient.notes.warnings.len(), 1);
    assert_eq!(read(&write(&lenient, "")).nets, lenient.nets, "what was let pass once is written so that it is again");
    assert_eq!(told(&chain("", "\"c\", \"c\"")), ["8: `c-c` links `c` with itself"]);
    assert_eq!(told(&chain("", "\"a\", \"b\"")), ["8: `a-b` is already the name of a net in line 6"]);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = star_with("class = \"star\"", "clas = \"star\"").replace("rate = ", "rte = ");
    assert_eq!(told(&text).len(), 2, "{:?}", told(&text));
}

const REFERENCE: &str = include_str!("../../../../docs/src/reference/topology.md");

#[test]
fn reference_examples_read_without_warning() {
    let examples: Vec<&str> =
        REFERENCE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 3);
    for example in examples {
        let topology = parse("example", example).unwrap_or_else(|problems| panic!("{problems:?}\n{example}"));
        assert_eq!(topology.notes, Notes::default(), "{example}");
    }
}

#[test]
fn reference_page_lists_every_key() {
    let keys: Vec<String> =
        ["", "[[host]]", "[[link]]", "[[lan]]", "[[route]]", "[[program]]", "[[traffic]]", "[[event]]", "[motion]"]
            .iter()
            .chain(&["[[motion.host]]", "[[radio]]"])
            .map(|heading| {
                toml::from_str::<TopologyFile>(&format!("{heading}\nz = 1")).err().unwrap().message().to_owned()
            })
            .flat_map(|message| message.split('`').skip(3).step_by(2).map(str::to_owned).collect::<Vec<_>>())
            .collect();
    for key in keys.iter().filter(|key| {
        !["defaults", "host", "link", "lan", "radio", "motion", "program", "traffic", "event", "route"]
            .contains(&key.as_str())
    }) {
        let shown = [format!("`{key}`"), format!("`{key} = "), format!(" {key} = ")];
        assert!(shown.iter().any(|shown| REFERENCE.contains(shown)), "{key} is not on the page");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(at in 0..STAR.len(), cut in 0..40_usize, by in "[ -~\n]{0,12}") {
        let end = (at + cut).min(STAR.len());
        let text = format!("{}{by}{}", &STAR[..at], &STAR[end..]);
        if let Ok(topology) = parse("x", &text) {
            prop_assert_eq!(placeless(read(&write(&topology, ""))), placeless(topology));
        }
    }
}
