//! The agent: it makes this machine's share of a lab, and does what the command on another machine says.
//!
//! It ends when the conversation does, or no message comes for a while. It runs inside a sandbox, so that with it end its
//! hosts, their programs, and its files, which are in memory.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use roost_topology::Topology;
use roost_topology::shares::Shares;
use roost_topology::units::format_duration;
use roost_wire::Time;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};

use super::listen::{complain, listen, message_queue};
use super::process;
use super::protocol::{
    AgentCall, Answer, Hello, Message, Observation, PROTOCOL, Packet, ProbeCall, SpawnCall, StartCall, stays_inside,
};
use super::queue::{ByteQueue, byte_queue};
use crate::kernel;
use crate::linktest::{self, RemoteProbes};
use crate::{Lab, LabError, LabOptions, LabShare, TcpCongestion, Usage};

/// The time without any message after which the command counts as gone.
const SILENCE: Duration = Duration::from_secs(30);
/// The longest time for a killed program to end.
const KILLED: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(1);
/// The mount point of the agent's files; only the sandbox sees them.
const FOLDER: &str = "/mnt";
/// Bytes of a connection or of messages in one message.
const CHUNK: usize = 64 * 1024;

/// Reads a topology from a file's text, whose traces are relative to the folder.
pub type TopologyReader = fn(&Path, &str) -> Result<Topology, String>;

/// The parts of an agent that its program gives it.
#[derive(Debug)]
pub struct AgentSetting {
    /// The descriptor of the trunk, a UDP socket made outside of the sandbox.
    pub trunk: i32,
    pub version: String,
    pub programs: PathBuf,
    pub read: TopologyReader,
}

/// Serves the command on standard input and output until it ends.
///
/// # Errors
/// Fails when the conversation cannot begin.
pub fn serve(setting: AgentSetting) -> Result<(), LabError> {
    let failed = |what: &'static str| move |error: io::Error| LabError::kernel(what, error);
    if setting.programs.starts_with(FOLDER) {
        let why = format!("the agent's files hide {FOLDER}, where it is installed: install Roost in another folder");
        return Err(LabError::System(why));
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", FOLDER, "tmpfs", flags, Some(c"mode=0700")).map_err(|error| failed("mount memory")(error.into()))?;
    std::env::set_current_dir(FOLDER).map_err(failed("enter its folder"))?;
    let socket = UdpSocket::from(kernel::inherit_datagram(setting.trunk).map_err(failed("use its trunk"))?);
    let port = socket.local_addr().map_err(failed("find its port"))?.port();
    let address = std::env::var("SSH_CONNECTION").ok().and_then(|text| text.split(' ').nth(2)?.parse().ok());
    let speech = Arc::new(AgentSpeech(Mutex::new(())));
    let hello = Hello { protocol: PROTOCOL, version: setting.version.clone(), port, address };
    speech.say(&Message::Hello(hello), &[]).map_err(failed("say hello"))?;
    let (queue, packets) = message_queue();
    thread::spawn(move || {
        let heard = listen(&mut io::stdin().lock(), &queue);
        // A call, such as one that makes a large share, may go on for minutes. With this process ends all it made.
        std::process::exit(heard.map_or_else(|why| complain(&why), |()| 0));
    });
    let (probes, ending, parts) = (Arc::default(), Arc::default(), Arc::default());
    let mut agent = Agent { setting, socket, speech, lab: None, probes, ending, parts, overflows: 0 };
    loop {
        match packets.next_within(SILENCE) {
            Ok(packet) => agent.receive(packet),
            // Nothing came for a while, or the listener ends this process.
            Err(_) => return Ok(()),
        }
    }
}

/// Standard output, for a message at a time.
struct AgentSpeech(Mutex<()>);

impl AgentSpeech {
    fn say(&self, message: &Message, body: &[u8]) -> io::Result<()> {
        let _one = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Packet::write(message, body, &mut io::stdout().lock())
    }

    fn answer(&self, id: u64, answer: Result<Answer, String>) {
        // If this fails, the command is gone, and so will be the input.
        let _ = self.say(&Message::Answer { id, answer }, &[]);
    }
}

#[derive(Default)]
struct AgentParts {
    processes: BTreeMap<u64, Pid>,
    connections: BTreeMap<u64, ByteQueue>,
}

struct Agent {
    setting: AgentSetting,
    socket: UdpSocket,
    speech: Arc<AgentSpeech>,
    lab: Option<Lab>,
    probes: Arc<Mutex<Option<RemoteProbes>>>,
    /// True to end a test of links.
    ending: Arc<AtomicBool>,
    parts: Arc<Mutex<AgentParts>>,
    /// Connections that were ended because a queue was full.
    overflows: u64,
}

impl Agent {
    fn receive(&mut self, packet: Packet) {
        match packet.message {
            Message::Call { id, call } => {
                if let Some(answer) = self.perform(id, call, &packet.body) {
                    self.speech.answer(id, answer);
                }
            }
            Message::Data { id } => {
                let connections = &mut lock(&self.parts).connections;
                if connections.get(&id).is_some_and(|connection| connection.push(packet.body).is_err()) {
                    // A gap in its bytes makes the rest useless.
                    connections.remove(&id);
                    self.overflows += 1;
                }
            }
            Message::End { id } => drop(lock(&self.parts).connections.remove(&id)),
            Message::Hello(_) | Message::Answer { .. } | Message::Exited { .. } | Message::Beat => {}
        }
    }

    /// Does what a call says; `None` if the answer comes later.
    fn perform(&mut self, id: u64, call: AgentCall, body: &[u8]) -> Option<Result<Answer, String>> {
        let answer = match call {
            AgentCall::Start(start) => self.start(*start),
            AgentCall::Begin { at } => self.with_lab(|lab| begin(lab, Time::from_nanos(at))),
            AgentCall::Counters => self.with_lab(|lab| Ok(Answer::Links(lab.counters()?))),
            AgentCall::Observe => {
                let (usages, overflows) = (self.usages(), self.overflows);
                self.with_lab(|lab| {
                    let observation = Observation { usages, overflows, ..observe(lab)? };
                    Ok(Answer::Observed(Box::new(observation)))
                })
            }
            AgentCall::Put { path } => put(&path, body),
            AgentCall::Spawn(spawn) => self.spawn(id, &spawn),
            AgentCall::Signal { process, signal } => self.signal(process, signal),
            AgentCall::Connect { path } => self.connect(id, &path),
            AgentCall::OpenProbes => self.open_probes(),
            AgentCall::Probe(probe) => {
                self.probe(id, probe);
                return None;
            }
            AgentCall::EndProbes => {
                self.ending.store(true, Relaxed);
                Ok(Answer::Done)
            }
            AgentCall::Stop { drain } => {
                self.end_programs();
                self.lab
                    .take()
                    .map_or(Ok(()), |lab| lab.stop(drain))
                    .map(|()| Answer::Done)
                    .map_err(|error| error.to_string())
            }
        };
        Some(answer)
    }

    fn with_lab(&self, call: impl FnOnce(&Lab) -> Result<Answer, LabError>) -> Result<Answer, String> {
        let lab = self.lab.as_ref().ok_or("no lab has been started")?;
        call(lab).map_err(|error| error.to_string())
    }

    /// Ends everything that runs in the hosts.
    fn end_programs(&self) {
        self.ending.store(true, Relaxed);
        for pid in lock(&self.parts).processes.values() {
            // A process that has ended already need not be killed.
            let _ = kill_process(*pid, Signal::KILL);
        }
        *lock(&self.probes) = None;
    }

    fn start(&mut self, start: StartCall) -> Result<Answer, String> {
        self.end_programs();
        self.lab = None;
        let topology = (self.setting.read)(Path::new("topology.toml"), &start.topology)?;
        let fits = start.hosts.len() == topology.hosts.len() && start.carriers.len() == topology.nets.len();
        if !fits {
            return Err("its shares are of another topology".to_owned());
        }
        let socket = self.socket.try_clone().map_err(|error| error.to_string())?;
        let shares = Shares { hosts: start.hosts, carriers: start.carriers };
        let options = LabOptions {
            seed: start.seed,
            backend: start.backend.parse()?,
            realtime: start.realtime,
            tcp: start.tcp.map_or(TcpCongestion::System, TcpCongestion::Named),
            machines: None,
            interrupt: None,
        };
        let share = LabShare { socket, settings: start.trunk, shares };
        let lab = Lab::start_share(&topology, &options, Some(share)).map_err(|error| error.to_string())?;
        let (interfaces, facts) = (lab.interfaces().to_vec(), lab.facts().clone());
        let warnings = lab.warnings().to_vec();
        self.lab = Some(lab);
        Ok(Answer::Started { interfaces, facts, warnings })
    }

    fn spawn(&self, id: u64, spawn: &SpawnCall) -> Result<Answer, String> {
        let lab = self.lab.as_ref().ok_or("no lab has been started")?;
        let name = Path::new(&spawn.program).file_name().ok_or("the program has no name")?;
        let program = self.setting.programs.join(name);
        let args: Vec<_> = spawn.args.iter().map(Into::into).collect();
        let begin = || process::start(&program, &args, &spawn.socket, Stdio::piped());
        let child = lab.run_in(spawn.host, begin).map_err(|error| error.to_string())?;
        let mut child = child.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        lock(&self.parts).processes.insert(id, Pid::from_child(&child));
        let (speech, parts, messages) = (Arc::clone(&self.speech), Arc::clone(&self.parts), child.stderr.take());
        thread::spawn(move || {
            if let Some(messages) = messages {
                pass_on(&speech, id, messages);
            }
            let status = child.wait().map_or(libc::SIGKILL, ExitStatusExt::into_raw);
            lock(&parts).processes.remove(&id);
            let _ = speech.say(&Message::Exited { id, status }, &[]);
            let _ = speech.say(&Message::End { id }, &[]);
        });
        Ok(Answer::Done)
    }

    fn signal(&self, process: u64, signal: i32) -> Result<Answer, String> {
        let signal = Signal::from_named_raw(signal).ok_or("there is no such signal")?;
        if let Some(pid) = lock(&self.parts).processes.get(&process) {
            // A process that has ended already needs no signal.
            let _ = kill_process(*pid, signal);
        }
        // The next call may start it again, and would find its ports in use.
        let began = Instant::now();
        let is_left = || lock(&self.parts).processes.contains_key(&process);
        while signal == Signal::KILL && is_left() && began.elapsed() < KILLED {
            thread::sleep(LOOK);
        }
        Ok(Answer::Done)
    }

    fn usages(&self) -> BTreeMap<u64, Usage> {
        let processes = lock(&self.parts).processes.clone();
        let usage = |pid: Pid| Usage::read_process(pid.as_raw_nonzero().get().unsigned_abs()).ok();
        processes.into_iter().filter_map(|(id, pid)| Some((id, usage(pid)?))).collect()
    }

    fn connect(&self, id: u64, path: &Path) -> Result<Answer, String> {
        let stream = UnixStream::connect(path).map_err(|error| error.to_string())?;
        let reader = stream.try_clone().map_err(|error| error.to_string())?;
        let (queue, queued) = byte_queue();
        lock(&self.parts).connections.insert(id, queue);
        let mut writer = stream;
        thread::spawn(move || {
            for bytes in queued {
                if writer.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = writer.shutdown(std::net::Shutdown::Both);
        });
        let (speech, parts) = (Arc::clone(&self.speech), Arc::clone(&self.parts));
        thread::spawn(move || {
            pass_on(&speech, id, reader);
            lock(&parts).connections.remove(&id);
            let _ = speech.say(&Message::End { id }, &[]);
        });
        Ok(Answer::Done)
    }

    /// Sends and awaits probes on a thread of its own, and answers then.
    fn probe(&self, id: u64, probe: ProbeCall) {
        let (probes, ending, speech) = (Arc::clone(&self.probes), Arc::clone(&self.ending), Arc::clone(&self.speech));
        ending.store(false, Relaxed);
        let priority = self.lab.as_ref().map(linktest::ProbePriority::for_lab);
        thread::spawn(move || {
            priority.iter().for_each(linktest::ProbePriority::apply);
            let traces = match &mut *lock(&probes) {
                Some(probes) => probes.carry(&probe, &ending).map_err(|error| error.to_string()),
                None => Err("no probes are open".to_owned()),
            };
            speech.answer(id, traces.map(Answer::Traces));
        });
    }

    fn open_probes(&self) -> Result<Answer, String> {
        let lab = self.lab.as_ref().ok_or("no lab has been started")?;
        let probes = RemoteProbes::open(lab).map_err(|error| error.to_string())?;
        let ports = probes.ports();
        *lock(&self.probes) = Some(probes);
        Ok(Answer::Ports(ports))
    }
}

fn put(path: &Path, body: &[u8]) -> Result<Answer, String> {
    if !stays_inside(path) {
        return Err(format!("{} is outside of the agent's folder", path.display()));
    }
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    // Keys are for their owner only.
    let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(body)).map_err(failed)?;
    Ok(Answer::Done)
}

/// Passes everything that can be read on to the command.
fn pass_on(speech: &AgentSpeech, id: u64, mut from: impl Read) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length) = from.read(&mut buffer) {
        if length == 0 || speech.say(&Message::Data { id }, &buffer[..length]).is_err() {
            return;
        }
    }
}

/// Begins the schedule at a time of the lab's carrier.
fn begin(lab: &Lab, at: Time) -> Result<Answer, LabError> {
    let now = lab.carrier.now();
    if now > at {
        let late = format_duration(now.since(at));
        return Err(LabError::NoSuch(format!("the call to begin came {late} after the beginning")));
    }
    thread::sleep(at.since(now));
    Ok(Answer::Links(lab.begin()?.links))
}

/// The state of a lab's own carrier.
fn observe(lab: &Lab) -> Result<Observation, LabError> {
    Ok(Observation {
        lateness: lab.carrier.lateness(),
        unread: lab.carrier.unread(),
        overruns: lab.own_overruns()?,
        wires: lab.carrier.wires(),
        lines: lab.carrier.lines()?,
        ..Observation::default()
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
