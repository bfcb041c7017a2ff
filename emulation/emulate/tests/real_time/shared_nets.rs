//! A hub with a wire and a radio, and nodes that share its radio alone.

use roost_results::record::RequestOutcome;

use crate::common::{Folder, said};

const NETWORK: &str = "
name = 'strait'

[[host]]
name = ['west', 'east']
class = 'ground'

[[host]]
name = ['uav1', 'ship[1-2]']
class = 'uav'

[[link]]
name = 'backhaul'
between = ['west', 'east']
rate = '10Mbit'
delay = '20ms'

[motion]

[[motion.host]]
name = 'west'
position = [0, 0, 20]

[[motion.host]]
name = ['east', 'uav1', 'ship[1-2]']
position = [3000, 0, 20]

[[radio]]
name = 'mesh'
members = ['west', 'east', 'uav1', 'ship[1-2]']
frequency = '2.4GHz'
bandwidth = '20MHz'
power = '20dBm'
rate = '10Mbit'
range = '2600m'
";

const PLAN: &str = "
topology = 'net.toml'
architecture = 'super-node'
super_nodes = ['west', 'east']
duration = '5s'
stream = '1s'
timeout = '10s'
reflect = true
linktest = false

[classes.ground]
mix = 'none'

[classes.uav]
mix = { video = 30, track = 30, sensor = 40 }
";

#[test]
fn hub_is_reached_over_shared_radio() {
    for transport in ["udp", "tcp", "quic"] {
        let folder = Folder::with("net.toml", NETWORK);
        folder.write("plan.toml", &format!("transport = '{transport}'\n{PLAN}"));
        let turn = crate::beside();
        let output = folder.emulate(&["run", "plan.toml", "-o", "out"]);
        drop(turn);
        assert!(matches!(output.status.code(), Some(0 | 4)), "{transport}: {}", said(&output));
        let results = roost_results::read(&folder.path().join("out")).unwrap();
        let completed = results.requests.iter().filter(|one| one.outcome == RequestOutcome::Completed).count();
        assert!(completed > 0 && completed == results.requests.len(), "{transport}: {:#?}", results.requests);
        // The hub is on the second net, and the nodes hear it there.
        let log = std::fs::read_to_string(folder.path().join("out/logs/uav1.log")).unwrap();
        assert!(log.contains(&format!("{transport}://10.1.2.3")), "{transport}: {log}");
    }
}
