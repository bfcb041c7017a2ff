//! Ctrl-C while a network is made: it ends at once, here and on other machines.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use roost_wait::wait_until;

use crate::common::{Folder, TestTerminal};

/// Far less than the time that machines have to make their hosts.
const PATIENCE: Duration = Duration::from_secs(30);

const PLAN: &str = "
topology = { star = { nodes = 3, delay = '40ms', server_delay = '40ms' } }
architecture = 'super-node'
duration = '5s'
linktest = false
";

/// An agent that says hello, and then only listens.
const DEAF: &str = "cat hello; cat > heard; touch ended\n";

fn hello() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let head = format!(r#"{{"hello":{{"protocol":1,"version":"{version}","port":7,"address":null}}}}"#);
    let lengths = [head.len() as u32, 0].map(u32::to_be_bytes).concat();
    [lengths, head.into_bytes()].concat()
}

fn start(folder: &Folder, args: &[&str]) -> Child {
    let mut command = Command::new(TestTerminal::program());
    command.current_dir(folder.path()).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn interrupt(child: &mut Child) -> ExitStatus {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    wait_until(PATIENCE, || child.try_wait().unwrap()).expect("it goes on after Ctrl-C")
}

#[test]
fn interrupt_ends_wait_for_machines() {
    let _turn = crate::beside();
    let folder = Folder::with("plan.toml", PLAN);
    folder.write("agent.sh", DEAF);
    fs::write(folder.path().join("hello"), hello()).unwrap();
    let machines = ["--machines", "m2=127.0.0.1", "--via", "sh agent.sh", "--place", "node1=here,node2=m2"];
    let mut child = start(&folder, &[&["run", "plan.toml", "-o", "out"], machines.as_slice()].concat());
    let is_called = || {
        let heard = fs::read(folder.path().join("heard")).unwrap_or_default();
        String::from_utf8_lossy(&heard).contains("\"start\"").then_some(())
    };
    wait_until(PATIENCE, is_called).expect("the agent is not called");
    assert_eq!(interrupt(&mut child).code(), Some(130));
    let has_ended = || folder.path().join("ended").exists().then_some(());
    wait_until(PATIENCE, has_ended).expect("the agent's conversation goes on");
    assert!(fs::read_dir(folder.path().join("out")).unwrap().next().is_none(), "nothing of the run is left");
}

#[test]
fn agent_ends_while_it_makes_hosts() {
    let _turn = crate::beside();
    let topology = "[defaults]\nrate = '10Mbit'\ndelay = '20ms'\n[[host]]\nname = 'h[1-600]'\n";
    let folder = Folder::with("agent.sh", &format!("echo $$ > agent; exec {} \"$@\"\n", TestTerminal::program()));
    let names: Vec<String> = (1..=600).map(|number| format!("'h{number}'")).collect();
    let topology = topology.replace("'h[1-600]'", &format!("[{}]", names.join(", ")));
    folder.write("lan.toml", &format!("{topology}[[lan]]\nname = 'lan'\nmembers = [{}]\n", names.join(", ")));
    let run = ["run", "lan.toml", "--for", "60s", "--no-linktest", "-o", "out"];
    let machines = ["--machines", "m2=127.0.0.1", "--via", "sh agent.sh", "--hold", "15ms"];
    let mut child = start(&folder, &[run.as_slice(), &machines].concat());
    wait_until(PATIENCE, || folder.path().join("out/topology.toml").exists().then_some(())).expect("no run begins");
    assert_eq!(interrupt(&mut child).code(), Some(130));
    let agent = fs::read_to_string(folder.path().join("agent")).unwrap();
    let is_gone = || (!std::path::Path::new("/proc").join(agent.trim()).exists()).then_some(());
    wait_until(PATIENCE, is_gone).expect("the agent goes on");
}
