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

const HOSTS: usize = 600;

/// The most open files of a process or a descendant: an agent has three for each of its hosts.
fn open_files(pid: &str) -> usize {
    let own = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<String> =
        children.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    children.iter().map(|child| open_files(child)).max().unwrap_or(0).max(own)
}

#[test]
fn agent_ends_while_it_makes_hosts() {
    let _turn = crate::beside();
    let folder = Folder::with("agent.sh", &format!("echo $$ > agent; exec {} \"$@\"\n", TestTerminal::program()));
    let names: Vec<String> = (1..=HOSTS).map(|number| format!("'h{number}'")).collect();
    let names = names.join(", ");
    let defaults = "[defaults]\nrate = '10Mbit'\ndelay = '40ms'\n";
    let lan = format!("{defaults}[[host]]\nname = [{names}]\n[[lan]]\nname = 'lan'\nmembers = [{names}]\n");
    folder.write("lan.toml", &lan);
    let run = ["run", "lan.toml", "--for", "60s", "--no-linktest", "-o", "out"];
    let machines = ["--machines", "m2=127.0.0.1", "--via", "sh agent.sh", "--hold", "15ms"];
    let mut child = start(&folder, &[run.as_slice(), &machines].concat());
    let agent = || fs::read_to_string(folder.path().join("agent")).ok().filter(|pid| pid.ends_with('\n'));
    let agent = wait_until(PATIENCE, agent).expect("no agent begins");
    let agent = agent.trim();
    wait_until(PATIENCE * 2, || (open_files(agent) > 100).then_some(())).expect("it makes no hosts");
    assert_eq!(interrupt(&mut child).code(), Some(130));
    let mut most = 0;
    let is_gone = || {
        most = most.max(open_files(agent));
        (!std::path::Path::new("/proc").join(agent).exists()).then_some(())
    };
    wait_until(PATIENCE, is_gone).expect("the agent goes on");
    assert!(most < HOSTS, "it has made most of its half of the hosts: {most} files are open");
}

#[test]
fn agent_says_what_broke_off() {
    let _turn = crate::beside();
    let folder = Folder::with("empty", "");
    let output = folder.emulate_with(&["agent"], &"x".repeat(64));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the conversation broke off: the other side does not speak our protocol"), "{text}");
    assert_eq!(folder.emulate_with(&["agent"], "").status.code(), Some(0));
}
