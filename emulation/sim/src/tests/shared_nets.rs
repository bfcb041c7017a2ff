//! Hosts on several nets, of which others share one; there no way leads to the rest.

use super::*;

const TRANSPORTS: [&str; 4] = ["paper", "udp", "tcp", "quic"];

const HOSTS: &str = "
[[host]]
name = 'west'
class = 'ground'
[[host]]
name = ['east', 'uav[1-2]', 'ship1']
class = 'low'
[motion]
[[motion.host]]
name = 'west'
position = [0, 0, 20]
[[motion.host]]
name = ['east', 'uav[1-2]', 'ship1']
position = [3000, 0, 20]
";

const LINK: &str = "[[link]]\nname = 'backhaul'\nbetween = ['west', 'east']\nrate = '10Mbit'\ndelay = '20ms'\n";
const LAN: &str = "[[lan]]\nname = 'yard'\nmembers = ['west', 'east']\nrate = '10Mbit'\ndelay = '10ms'\n";
const SHARED_LAN: &str = "[[lan]]\nname = 'mesh'\nmembers = ['west', 'east', 'uav[1-2]', 'ship1']\nrate = '10Mbit'\n\
                          leg = [{ host = 'west', loss = 1 }]\n";
const RADIO: &str = "[[radio]]\nname = 'mesh'\nmembers = ['west', 'east', 'uav[1-2]', 'ship1']\n\
                     frequency = '2.4GHz'\nbandwidth = '20MHz'\npower = '20dBm'\nrate = '10Mbit'\nrange = '1km'\n";

const PLAN: &str = "
topology = 'net.toml'
architecture = 'super-node'
super_nodes = ['west', 'east']
duration = '10s'
stream = '2s'
timeout = '10s'
[classes.ground]
mix = 'none'
[classes.low]
mix = { video = 25, track = 25, image = 25, sensor = 25, idle = 0 }
locality = 'anywhere'
";

fn plan_on(nets: &[&str], plan: &str) -> Result<SimOutcome, SimulateError> {
    plan_over(&format!("name = 'strait'\n{HOSTS}{}", nets.concat()), plan)
}

fn plan_over(network: &str, plan: &str) -> Result<SimOutcome, SimulateError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.toml"), network).unwrap();
    let file = folder.path().join("plan.toml");
    let prepared = Prepared::from_text(plan, &file).unwrap_or_else(|error| panic!("{error}"));
    simulate(&prepared, Detail::Packet)
}

/// Nodes have no way to the hub's first address, and no cycle leads through it either.
#[test]
fn hub_is_reached_without_routes() {
    let mesh = "[[lan]]\nname = 'mesh'\nmembers = ['east', 'uav[1-2]', 'ship1']\nrate = '10Mbit'\n";
    for order in orders(&[LAN, mesh]) {
        for transport in TRANSPORTS {
            let plan = format!("transport = '{transport}'\n{}", PLAN.replace("['west', 'east']", "['east']"));
            let network = format!("name = 'strait'\nrouting = 'none'\nlenient = true\n{HOSTS}{}", order.concat());
            let outcome = plan_over(&network, &plan).unwrap_or_else(|error| panic!("{error}: {transport} {order:#?}"));
            assert!(outcome.completed > 0, "{transport} {order:#?}");
        }
    }
}

fn orders<'a>(nets: &[&'a str]) -> Vec<Vec<&'a str>> {
    if nets.is_empty() {
        return vec![Vec::new()];
    }
    let begin = |first: usize| {
        let mut rest = nets.to_vec();
        let net = rest.remove(first);
        orders(&rest).into_iter().map(move |order| [vec![net], order].concat())
    };
    (0..nets.len()).flat_map(begin).collect()
}

fn all_attach_and_complete(nets: &[&str]) {
    for order in orders(nets) {
        for transport in TRANSPORTS {
            let plan = format!("transport = '{transport}'\n{PLAN}");
            let case = format!("{transport} on {order:#?}");
            let outcome = plan_on(&order, &plan).unwrap_or_else(|error| panic!("{error}: {case}"));
            assert_eq!((&outcome.violations[..], outcome.overflows), (&[][..], 0), "{case}");
            assert!(outcome.requested > 0 && outcome.completed == outcome.requested, "{outcome:?}: {case}");
        }
    }
}

#[test]
fn nodes_attach_over_radio_beside_link() {
    all_attach_and_complete(&[LINK, RADIO]);
}

#[test]
fn nodes_attach_over_lan_beside_link() {
    all_attach_and_complete(&[LINK, SHARED_LAN]);
}

#[test]
fn nodes_attach_over_second_lan() {
    all_attach_and_complete(&[LAN, SHARED_LAN]);
}

#[test]
fn nodes_attach_over_third_net() {
    all_attach_and_complete(&[LINK, LAN, RADIO]);
}

#[test]
fn streams_are_reflected_over_shared_net() {
    for order in orders(&[LINK, RADIO]) {
        let mix = "video = 25, track = 25, image = 25, sensor = 25, idle = 0";
        let plan = format!("reflect = true\ntransport = 'udp'\n{PLAN}").replace(mix, "video = 50, idle = 50");
        let outcome = plan_on(&order, &plan);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&outcome.violations[..], &[][..], "{order:#?}");
        assert!(outcome.requested > 0 && outcome.completed == outcome.requested, "{outcome:?}: {order:#?}");
    }
}

#[test]
fn node_without_home_names_dialed_addresses() {
    let plan = PLAN.replace("['west', 'east']", "['west']");
    let told = plan_on(&[LINK, RADIO], &plan).unwrap_err().to_string();
    let dialed = "udp://10.1.2.2:7700, udp://10.1.1.2:7700, tcp://10.1.2.2:7700, tcp://10.1.1.2:7700";
    assert!(told.starts_with("uav1 has found no home") && told.contains(dialed), "{told}");
}
