//! Parsing of a line in `emulate shell`.

use std::time::Duration;

use roost_topology::Topology;
use roost_topology::model::{HostIndex, NetIndex, Queue, TopologyChange};
use roost_topology::units::{Rate, parse_duration};

/// The built-in commands, which precede hosts of the same name.
pub(super) const COMMANDS: [&str; 11] =
    ["nodes", "links", "link", "lateness", "events", "linktest", "capture", "wait", "on", "help", "exit"];
pub(super) const CHANGES: [&str; 7] = ["down", "up", "delay", "rate", "loss", "jitter", "queue"];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ShellCommand {
    /// An empty line, or a comment.
    Empty,
    Help,
    /// `exit [CODE]`
    Exit(Option<u8>),
    Nodes,
    /// `links [NAME]`
    Links(Option<NetIndex>),
    /// `link …`
    Change(NetChange),
    Lateness,
    Events,
    /// `linktest …`, with its flags
    Linktest(Vec<String>),
    /// `capture NAME…`, or without names to end it.
    Capture(Vec<String>),
    /// `wait TIME`
    Wait(Duration),
    /// `HOST COMMAND…`
    Run(HostIndex, String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct NetChange {
    pub(super) net: NetIndex,
    /// Only the direction that leaves this host on a link, or its legs of a LAN.
    pub(super) from: Option<HostIndex>,
    /// In this order.
    pub(super) changes: Vec<TopologyChange>,
}

/// Parses a line; an error describes the mistake in one sentence.
pub(super) fn parse(line: &str, topology: &Topology) -> Result<ShellCommand, String> {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let alone = |line: ShellCommand| match words.as_slice() {
        [] => Ok(line),
        _ => Err(format!("`{first}` stands alone")),
    };
    match first {
        "" => Ok(ShellCommand::Empty),
        _ if first.starts_with('#') => Ok(ShellCommand::Empty),
        "help" | "?" => Ok(ShellCommand::Help),
        "exit" | "quit" => exit(&words),
        "nodes" | "hosts" => alone(ShellCommand::Nodes),
        "lateness" => alone(ShellCommand::Lateness),
        "events" => alone(ShellCommand::Events),
        "links" | "nets" => links(&words, topology),
        "link" | "net" => Ok(ShellCommand::Change(change(&words, topology)?)),
        "linktest" => Ok(ShellCommand::Linktest(words.into_iter().map(str::to_owned).collect())),
        "capture" => match words.as_slice() {
            [] => Err("capture what? Write `capture NAME`, `capture all`, or `capture off`".to_owned()),
            ["off"] => Ok(ShellCommand::Capture(Vec::new())),
            names => Ok(ShellCommand::Capture(names.iter().map(|name| (*name).to_owned()).collect())),
        },
        "wait" => match words.as_slice() {
            [time] => Ok(ShellCommand::Wait(parse_duration(time).map_err(|error| error.to_string())?)),
            _ => Err("wait for how long? Write `wait 2s`".to_owned()),
        },
        "on" => {
            let (host, command) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            run(host, command, topology)
        }
        host => run(host, rest, topology),
    }
}

fn exit(words: &[&str]) -> Result<ShellCommand, String> {
    match words {
        [] => Ok(ShellCommand::Exit(None)),
        [code] => {
            code.parse().map(|code| ShellCommand::Exit(Some(code))).map_err(|_| format!("`{code}` is no exit code"))
        }
        _ => Err("`exit` takes one exit code".to_owned()),
    }
}

fn run(host: &str, command: &str, topology: &Topology) -> Result<ShellCommand, String> {
    let Some(index) = find_host(topology, host) else {
        return Err(format!("`{host}` is neither a host nor a command: `nodes` lists the hosts, `help` the commands"));
    };
    match command.trim() {
        "" => Err(format!("run what on {host}? Write `{host} COMMAND`; `{host} bash` is a shell there")),
        command => Ok(ShellCommand::Run(index, command.to_owned())),
    }
}

fn links(words: &[&str], topology: &Topology) -> Result<ShellCommand, String> {
    match words {
        [] => Ok(ShellCommand::Links(None)),
        [name] => find_net(topology, name).map(|net| ShellCommand::Links(Some(net))).ok_or_else(|| no_such_net(name)),
        _ => Err("`links` takes the name of one link or LAN".to_owned()),
    }
}

/// `NET CHANGE…`, `NET [from] HOST CHANGE…`, `A B CHANGE…`, `A > B CHANGE…`.
fn change(words: &[&str], topology: &Topology) -> Result<NetChange, String> {
    const HOW: &str = "write `link A B down`, or `link NAME delay 30ms`; `help` has more";
    let host = |name: &str| find_host(topology, name).ok_or_else(|| format!("there is no host `{name}`"));
    let (net, from, rest) = match words {
        [name, "from", from, rest @ ..] => {
            let net = find_net(topology, name).ok_or_else(|| no_such_net(name))?;
            (net, Some(host(from)?), rest)
        }
        [name, from, rest @ ..] if find_net(topology, name).is_some() && !CHANGES.contains(from) => {
            (find_net(topology, name).unwrap_or_default(), Some(host(from)?), rest)
        }
        [name, rest @ ..] if find_net(topology, name).is_some() => {
            (find_net(topology, name).unwrap_or_default(), None, rest)
        }
        [a, ">" | "->" | "→", b, rest @ ..] => (between(topology, host(a)?, host(b)?)?, Some(host(a)?), rest),
        [a, b, rest @ ..] if find_host(topology, a).is_some() => (between(topology, host(a)?, host(b)?)?, None, rest),
        [name, ..] => return Err(no_such_net(name)),
        [] => return Err(format!("which link? {HOW}")),
    };
    if topology.radio(net).is_some() {
        return Err(roost_topology::model::no_change_of_radio(&topology.nets[net].name));
    }
    let is_member = |host: HostIndex| topology.nets[net].members.iter().any(|member| member.host == host);
    if let Some(host) = from.filter(|host| !is_member(*host)) {
        return Err(format!("{} is not on {}", topology.hosts[host].name, topology.nets[net].name));
    }
    let changes = changes(rest)?;
    if changes.is_empty() {
        return Err(format!("what is to become of {}? {HOW}", topology.nets[net].name));
    }
    Ok(NetChange { net, from, changes })
}

fn between(topology: &Topology, a: HostIndex, b: HostIndex) -> Result<NetIndex, String> {
    use roost_topology::model::NetKind;
    let [name_a, name_b] = [a, b].map(|host| topology.hosts[host].name.as_str());
    let joins =
        |net: &NetIndex| [a, b].iter().all(|host| topology.nets[*net].members.iter().any(|it| it.host == *host));
    let nets: Vec<NetIndex> = (0..topology.nets.len()).filter(joins).collect();
    let name = |net: &NetIndex| topology.nets[*net].name.as_str();
    match nets.as_slice() {
        _ if a == b => Err(format!("{name_a} has no link to itself")),
        [] => Err(format!("there is no link between {name_a} and {name_b}: `links` lists all")),
        [net] if topology.nets[*net].kind == NetKind::Lan => {
            let lan = name(net);
            Err(format!(
                "{name_a} and {name_b} are on LAN {lan}: write `link {lan} …`, or `link {lan} {name_a} …` for {name_a}'s legs of it"
            ))
        }
        [net] => Ok(*net),
        _ => Err(format!(
            "{name_a} and {name_b} are joined by {}: name one of them",
            nets.iter().map(name).collect::<Vec<_>>().join(" and ")
        )),
    }
}

fn changes(words: &[&str]) -> Result<Vec<TopologyChange>, String> {
    let mut changes = Vec::new();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        if let "up" | "down" = word {
            changes.push(if word == "up" { TopologyChange::Up } else { TopologyChange::Down });
            continue;
        }
        if !CHANGES.contains(&word) {
            return Err(format!("`{word}` is nothing that a link can become: write {}", CHANGES.join(", ")));
        }
        let value = words.next().ok_or_else(|| format!("`{word}` needs a value: {}", example(word)))?;
        changes.push(one(word, value)?);
    }
    Ok(changes)
}

fn one(word: &str, value: &str) -> Result<TopologyChange, String> {
    let duration = || parse_duration(value).map_err(|error| error.to_string());
    Ok(match word {
        "delay" => TopologyChange::Delay(duration()?),
        "jitter" => TopologyChange::Jitter(duration()?),
        "rate" => TopologyChange::Rate(value.parse::<Rate>().map_err(|error| error.to_string())?),
        "loss" => TopologyChange::Loss(loss(value)?),
        _ => TopologyChange::Queue(queue(value)?),
    })
}

fn example(word: &str) -> &'static str {
    match word {
        "delay" | "jitter" => "30ms",
        "rate" => "5Mbit",
        "loss" => "0.05 or 5%",
        _ => "50, or 64000bytes",
    }
}

fn loss(value: &str) -> Result<f64, String> {
    let wrong = || format!("`{value}` is no loss: write 0.05 or 5%");
    let loss: f64 = match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => value.parse().map_err(|_| wrong())?,
    };
    if (0.0..=1.0).contains(&loss) { Ok(loss) } else { Err(wrong()) }
}

fn queue(value: &str) -> Result<Queue, String> {
    let (number, in_bytes) = value.strip_suffix("bytes").map_or((value, false), |number| (number, true));
    match number.parse() {
        Ok(limit) if limit > 0 => Ok(Queue { limit, in_bytes, ..Queue::DEFAULT }),
        _ => Err(format!("`{value}` is no queue: write how many packets it holds, or 64000bytes")),
    }
}

fn find_host(topology: &Topology, name: &str) -> Option<HostIndex> {
    topology.hosts.iter().position(|host| host.name == name)
}

fn find_net(topology: &Topology, name: &str) -> Option<NetIndex> {
    topology.nets.iter().position(|net| net.name == name)
}

fn no_such_net(name: &str) -> String {
    format!("there is no link or LAN `{name}`: `links` lists all")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TEXT: &str = r#"
[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "links"
[[link]]
name = "ab"
between = ["a", "b"]
rate = "10Mbit"
delay = "5ms"
[[lan]]
name = "lan"
members = ["b", "links"]
rate = "10Mbit"
delay = "5ms"
"#;

    fn topology() -> Topology {
        roost_ns::load_text(Path::new("x.toml"), TEXT).unwrap()
    }

    fn read(line: &str) -> ShellCommand {
        parse(line, &topology()).unwrap()
    }

    fn wrong(line: &str) -> String {
        parse(line, &topology()).unwrap_err()
    }

    #[test]
    fn host_name_runs_command() {
        assert_eq!(
            read("  a   ping -c 1 'b  c' | tee x "),
            ShellCommand::Run(0, "ping -c 1 'b  c' | tee x".to_owned())
        );
        assert_eq!(read("on links date"), ShellCommand::Run(2, "date".to_owned()));
        assert_eq!(read("links"), ShellCommand::Links(None));
        assert!(wrong("a").contains("run what on a?"));
        assert!(wrong("c date").contains("`c` is neither a host nor a command"));
        assert!(wrong("on").contains("neither"));
    }

    #[test]
    fn link_named_directly_or_by_ends() {
        let down = |from| ShellCommand::Change(NetChange { net: 0, from, changes: vec![TopologyChange::Down] });
        assert_eq!(read("link a b down"), down(None));
        assert_eq!(read("link b a down"), down(None));
        assert_eq!(read("link ab down"), down(None));
        assert_eq!(read("link b > a down"), down(Some(1)));
        assert_eq!(read("link a -> b down"), down(Some(0)));
        assert_eq!(read("link ab from b down"), down(Some(1)));
        assert_eq!(read("link ab b down"), down(Some(1)));
        assert!(wrong("link ab off").contains("there is no host `off`"));
        assert!(wrong("link a links down").contains("no link between a and links"));
        assert!(wrong("link b links down").contains("link lan b"));
        assert!(wrong("link ab from links down").contains("links is not on ab"));
        assert!(wrong("link x down").contains("no link or LAN `x`"));
        assert!(wrong("link a a down").contains("itself"));
        assert!(wrong("link a").contains("no link or LAN `a`"));
    }

    #[test]
    fn several_changes_stand_in_one_line() {
        let ShellCommand::Change(NetChange { changes, .. }) =
            read("link ab delay 30ms loss 5% rate 5Mbit queue 9000bytes")
        else {
            panic!("a change")
        };
        let queue = Queue { limit: 9000, in_bytes: true, ..Queue::DEFAULT };
        let rate = Rate::from_bps(5_000_000);
        assert_eq!(
            changes,
            [
                TopologyChange::Delay(Duration::from_millis(30)),
                TopologyChange::Loss(0.05),
                TopologyChange::Rate(rate),
                TopologyChange::Queue(queue)
            ]
        );
    }

    #[test]
    fn bad_change_explains_error() {
        for (line, part) in [
            ("link", "which link?"),
            ("link ab", "what is to become of ab?"),
            ("link ab delay", "`delay` needs a value: 30ms"),
            ("link ab delay 30", "is no duration"),
            ("link ab loss 5", "is no loss"),
            ("link ab loss -1%", "is no loss"),
            ("link ab rate 5Mb", "is no rate"),
            ("link ab queue 0", "is no queue"),
            ("link ab up off", "write down, up, delay"),
            ("capture", "capture what?"),
            ("wait", "for how long?"),
            ("wait 2", "is no duration"),
            ("exit now", "no exit code"),
            ("nodes a", "stands alone"),
            ("links x", "no link or LAN `x`"),
        ] {
            assert!(wrong(line).contains(part), "{line}: {}", wrong(line));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_understood_or_refused(words in proptest::collection::vec("[a-z>#-]{0,8}|link|ab|a|from|delay|loss|9e9ms|-1%|µs", 0..6)) {
            let _ = parse(&words.join(" "), &topology());
        }
    }

    #[test]
    fn remarks_and_empty_lines_do_nothing() {
        assert_eq!(
            (read(""), read("   "), read("# a ping")),
            (ShellCommand::Empty, ShellCommand::Empty, ShellCommand::Empty)
        );
        assert_eq!((read("exit"), read("quit 3")), (ShellCommand::Exit(None), ShellCommand::Exit(Some(3))));
        assert_eq!(read("capture off"), ShellCommand::Capture(Vec::new()));
        assert_eq!(read("capture ab lan"), ShellCommand::Capture(vec!["ab".to_owned(), "lan".to_owned()]));
        assert_eq!(read("wait 1.5s"), ShellCommand::Wait(Duration::from_millis(1500)));
    }
}
