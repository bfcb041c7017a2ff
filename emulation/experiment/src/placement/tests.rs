use roost_topology::generate::Forest;

use super::*;

const TREE: &str = r#"
name = "tree"
routing = "static"
[defaults]
rate = "10Mbit"
[[host]]
name = "low[1-2]"
class = "low"
[[host]]
name = "mid[1-2]"
class = "tactical"
[[host]]
name = "high"
class = "x45"
cell = [1, 0]
[[host]]
name = "server"
[[lan]]
name = "edge"
members = ["mid1", "low[1-2]"]
[[lan]]
name = "middle"
members = ["high", "mid[1-2]"]
[[link]]
between = ["high", "server"]
"#;

const PLAN: &str = "topology = 't.toml'\narchitecture = 'super-node'\nduration = '1s'\n";

fn placed(plan: &str, topology: &str) -> Result<Placement, PlanError> {
    let topology = roost_ns::load_text(Path::new("t.toml"), topology).unwrap();
    let file = Path::new("p.toml");
    place(&Plan::parse(plan, file).unwrap(), &topology, file)
}

fn wrong(plan: &str, topology: &str) -> String {
    placed(plan, topology).unwrap_err().to_string()
}

fn names(placement: &Placement, of: &str) -> Vec<String> {
    let node = placement.nodes.iter().find(|node| node.name == of).unwrap();
    node.targets.iter().map(|target| placement.nodes[target].name.clone()).collect()
}

#[test]
fn class_sets_mix_and_targets() {
    let placement = placed(PLAN, TREE).unwrap();
    let mixes: Vec<Mix> = placement.nodes.iter().map(|node| node.mix).collect();
    assert_eq!(mixes, [Mix::LOW, Mix::LOW, Mix::TACTICAL, Mix::TACTICAL, Mix::X45]);
    assert_eq!(names(&placement, "low1"), ["low2", "mid1"]);
    assert_eq!(names(&placement, "mid2"), ["low1", "low2", "mid1", "high"]);
    let anywhere = placed(&format!("{PLAN}[classes.low]\nlocality = 'anywhere'\n"), TREE).unwrap();
    assert_eq!(names(&anywhere, "low1").len(), 4);
}

#[test]
fn every_node_stands_somewhere_else() {
    let placement = placed(PLAN, TREE).unwrap();
    let cells: BTreeSet<Cell> = placement.nodes.iter().map(|node| node.cell).collect();
    assert_eq!(cells.len(), 5);
    assert_eq!(placement.nodes[4].cell, Cell::new(1, 0));
}

#[test]
fn hubs_are_highest_or_as_planned() {
    let hosts =
        |plan: &str| -> Vec<String> { placed(plan, TREE).unwrap().hubs.into_iter().map(|hub| hub.name).collect() };
    assert_eq!(hosts(PLAN), ["high-hub"]);
    assert_eq!(hosts(&format!("super_nodes = 3\n{PLAN}")), ["high-hub", "mid1-hub", "mid2-hub"]);
    assert_eq!(hosts(&format!("super_nodes = ['low2', 'mid1']\n{PLAN}")), ["low2-hub", "mid1-hub"]);
    assert_eq!(hosts(&PLAN.replace("super-node", "client-server")), ["server-hub"]);
    assert_eq!(hosts(&format!("server = 'mid2'\n{}", PLAN.replace("super-node", "client-server"))), ["mid2-hub"]);
    let caching = PLAN.replace("super-node", "client-server-caching");
    assert_eq!(hosts(&caching), ["server-hub", "high-hub"]);
    assert_eq!(hosts(&format!("caches = ['mid2', 'mid1']\n{caching}")), ["server-hub", "mid2-hub", "mid1-hub"]);
    assert!(wrong(&format!("caches = ['server']\n{caching}"), TREE).contains("host server has two servers"));
    assert!(wrong(&format!("caches = 6\n{caching}"), TREE).contains("6 caches do not fit on 5 nodes"));
}

#[test]
fn nodes_prefer_nearest_hub() {
    let placement = placed(&format!("super_nodes = ['high', 'low2']\n{PLAN}"), TREE).unwrap();
    assert_eq!(placement.nodes.iter().map(|node| node.hubs[0]).collect::<Vec<_>>(), [1, 1, 0, 0, 0]);
    assert!(placement.nodes.iter().all(|node| node.hubs.len() == 2));
}

#[test]
fn star_nodes_spread_over_super_nodes() {
    let star = "[defaults]\nrate = '1Mbit'\ndelay = '10ms'\n[[host]]\nname = 'node[1-11]'\n[[lan]]\nname = 'net'\nmembers = ['node[1-11]']\n";
    for (super_nodes, expected) in [("2", vec![6, 5]), ("3", vec![4, 4, 3]), ("['node9', 'node4']", vec![6, 5])] {
        let placement = placed(&format!("super_nodes = {super_nodes}\n{PLAN}"), star).unwrap();
        let mut attached = vec![0; placement.hubs.len()];
        placement.nodes.iter().for_each(|node| attached[node.hubs[0]] += 1);
        assert_eq!(attached, expected, "{super_nodes}");
        let own = placement
            .hubs
            .iter()
            .enumerate()
            .all(|(place, hub)| placement.nodes.iter().any(|node| node.host == hub.host && node.hubs[0] == place));
        assert!(own, "who shares its host with a super node turns to that one");
    }
}

#[test]
fn tiers_come_from_classes_or_hosts() {
    let by_class = placed(&format!("tiers = 2\n{PLAN}"), TREE).unwrap();
    let named = placed(&format!("tiers = [['mid1', 'mid2'], ['high']]\n{PLAN}"), TREE).unwrap();
    for placement in [by_class, named] {
        let hubs: Vec<(&str, u8, &[usize])> =
            placement.hubs.iter().map(|hub| (hub.name.as_str(), hub.tier, &hub.parents[..])).collect();
        assert_eq!(hubs, [("high-hub", 1, &[][..]), ("mid1-hub", 0, &[0]), ("mid2-hub", 0, &[0])]);
        assert_eq!(
            (placement.earlier_siblings(0).collect(), placement.earlier_siblings(2).collect()),
            (vec![], vec![1])
        );
        // The low ones, mid1, mid2 and high: no node uses the upper tier.
        let firsts: Vec<usize> = placement.nodes.iter().map(|node| node.hubs[0]).collect();
        assert_eq!(firsts, [1, 1, 1, 2, 2]);
    }
    assert!(wrong(&format!("tiers = 3\n{PLAN}"), TREE).contains("hosts of 2 classes that tiers are made of"));
}

#[test]
fn hub_has_up_to_two_parents() {
    let plan = PLAN.replace("'t.toml'", "{ forest = { nodes = 1000, per_home = 50 } }");
    let forest = Forest { per_home: 50, ..Forest::for_nodes(1_000) };
    let file = Path::new("p.toml");
    let placement = place(&Plan::parse(&plan, file).unwrap(), &forest.topology().unwrap(), file).unwrap();
    assert_eq!((placement.tiers(), placement.nodes.len()), (3, 1_000));
    for hub in &placement.hubs {
        assert_eq!(hub.parents.len(), if hub.tier == 2 { 0 } else { 2 }, "{hub:?}");
        assert!(hub.parents.iter().all(|parent| placement.hubs[*parent].tier == hub.tier + 1));
    }
    // `home1` serves the first fifty.
    let homes: Vec<&str> = placement.nodes.iter().map(|node| placement.hubs[node.hubs[0]].name.as_str()).collect();
    assert_eq!((homes[0], homes[49], homes[50]), ("home1-hub", "home1-hub", "home2-hub"));
}

#[test]
fn nearest_hub_is_by_delay() {
    let line = "routing = 'static'\n[defaults]\nrate = '1Mbit'\n[[host]]\nname = ['a', 'b', 'c', 'd']\n\
        [[link]]\nbetween = ['a', 'b']\ndelay = '100ms'\n[[link]]\nbetween = ['a', 'c']\ndelay = '10ms'\n\
        [[link]]\nbetween = ['c', 'd']\ndelay = '10ms'\n";
    let placement = placed(&format!("super_nodes = ['b', 'd']\n{PLAN}"), line).unwrap();
    let firsts: Vec<usize> = placement.nodes.iter().map(|node| node.hubs[0]).collect();
    assert_eq!(firsts, [1, 0, 1, 1], "a is one hop from b and two from d, and d is nearer");
}

#[test]
fn mismatched_plan_is_refused() {
    let low = "[classes.low]\nmix = 'none'\n";
    let tactical = "[classes.tactical]\nmix = 'none'\n";
    assert!(wrong(&format!("{PLAN}{low}{tactical}"), TREE).contains("has 1 hosts that take part"));
    assert_eq!(
        wrong(&format!("{PLAN}[classes.lwo]\nmix = 'low'\n"), TREE),
        "p.toml:4: no host is of class `lwo`; this topology has low, server, tactical, x45"
    );
    let strange = TREE.replace("\"x45\"", "\"blimp\"");
    assert!(wrong(PLAN, &strange).contains("host high is of class `blimp`, and nothing says what it asks for"));
    let strangest = strange.replace("\"tactical\"", "\"kite\"");
    let told = wrong(&format!("{PLAN}[classes.lwo]\nmix = 'low'\n[classes.bimp]\nmix = 'low'\n"), &strangest);
    assert_eq!(told.lines().count(), 4, "of all classes at once, and once of each: {told}");
    assert!(wrong(&format!("{PLAN}[classes.blim]\nmix = 'low'\n"), &strange).contains("did you mean `blimp`?"));
    assert_eq!(
        wrong(&format!("super_nodes = ['hgih']\n{PLAN}"), TREE),
        "p.toml:1: the topology has no host `hgih`; did you mean `high`?"
    );
    assert!(wrong(&format!("super_nodes = 6\n{PLAN}"), TREE).contains("6 super nodes do not fit on 5 nodes"));
    assert!(wrong(&format!("super_nodes = ['high', 'high']\n{PLAN}"), TREE).contains("high has two super nodes"));
    let no_server = PLAN.replace("super-node", "client-server");
    assert!(wrong(&no_server, &TREE.replace("\"server\"", "\"far\"")).contains("no host of its topology is of class"));
    let alone = format!("{PLAN}[classes.x45]\nlocality = 'link'\n[classes.tactical]\nmix = 'none'\n");
    assert!(wrong(&alone, TREE).starts_with("p.toml:4: host high may ask only those one hop away"));
    let same = TREE.replace("class = \"tactical\"", "class = \"tactical\"\ncell = [0, 0]\nstep = [1, 0]");
    assert!(wrong(PLAN, &same).contains("hosts mid2 and high both stand at 1,0"));
}

#[test]
fn missing_routes_are_refused_early() {
    let bare = TREE.replace("routing = \"static\"\n", "lenient = true\nrouting = \"none\"\n");
    let error = wrong(PLAN, &bare);
    assert!(error.contains("cannot reach") && error.contains("the topology sets no routes"), "{error}");
}

#[test]
fn home_comes_first() {
    let two = format!("{PLAN}super_nodes = ['mid1', 'mid2']\n");
    let homes = |plan: &str| {
        let placement = placed(plan, TREE).unwrap();
        let node = placement.nodes.iter().find(|node| node.name == "low1").unwrap();
        node.hubs.iter().map(|hub| placement.hubs[*hub].name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(homes(&two)[0], "mid1-hub");
    assert_eq!(homes(&format!("{two}[homes]\nlow1 = 'mid2'\n")), ["mid2-hub", "mid1-hub"]);
    let told = wrong(&format!("{two}[homes]\nlow1 = 'high'\n"), TREE);
    assert_eq!(told, "p.toml:6: host high runs no hub that low1 could use: choose another one");
    assert!(wrong(&format!("{two}[homes]\nserver = 'mid1'\n"), TREE).contains("no node runs on host server"));
}
