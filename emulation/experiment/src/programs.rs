//! The programs of a topology: commands run by `sh` in the hosts.
//!
//! Each runs in its own process group, without input; its output goes to `programs/NAME.out` and
//! `programs/NAME.err` in the results, its measurements to the records, and its own files to `programs/NAME`. The
//! system's name is that of its host.

mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use roost_lab::{Lab, Usage};
use roost_results::record::{self, MeasurementRecord, ProgramEnd};
use roost_topology::model::{HostProgram, ProgramAction};
use rustix::process::{Pid, Signal, kill_process_group};

use super::error::RunError;
use super::job::RunSpec;
use super::plan_programs::ProgramSettings;
use super::program_environment::{ProgramFacts, StartClock};
use super::program_reader::ProgramReaders;

/// The folder of outputs in the results.
const FOLDER: &str = "programs";
/// The time for a program to end after it was asked to.
const GRACE: Duration = Duration::from_secs(1);

/// The programs of a topology, running or not.
#[derive(Debug)]
pub(super) struct Programs {
    all: Vec<HostProgram>,
    hosts: Vec<String>,
    /// The start of relative folders: the folder of the topology's file.
    base: PathBuf,
    running: Vec<Option<RunningProgram>>,
    /// By program; a topology's own programs have none but defaults.
    settings: Vec<ProgramSettings>,
    facts: ProgramFacts,
    start: Option<StartClock>,
    /// The hosts on which a node's daemon runs.
    nodes: BTreeSet<usize>,
    /// The names of the hubs' daemons, by host.
    hubs: BTreeMap<usize, String>,
    results: PathBuf,
    readers: ProgramReaders,
    /// Process groups, in which a program may have left processes.
    groups: Vec<Pid>,
}

#[derive(Debug)]
struct RunningProgram {
    child: Child,
    /// The item of the schedule that started it.
    item: usize,
    began: Duration,
    command: String,
    /// The time of its time-out; after that, the time at which it is killed.
    deadline: Option<Duration>,
    /// The reason why it was asked to end.
    asked: Option<ProgramEnd>,
    /// The usage of its group; the memory is the most that was seen.
    usage: Option<Usage>,
}

/// The time for which a running program has waited for a processor since it began, seconds.
#[derive(Clone, Debug)]
pub(super) struct ProgramWait {
    pub(super) program: String,
    pub(super) began: f64,
    pub(super) waited: f64,
}

struct EndingProgram<'a> {
    program: &'a HostProgram,
    host: &'a str,
    is_of_plan: bool,
}

#[derive(Clone, Debug)]
pub(super) struct EndedProgram {
    /// The item of the schedule that started it.
    pub(super) item: usize,
    pub(super) record: record::ProgramRecord,
}

impl Programs {
    /// The programs of the lab's topology; none is running yet.
    pub(super) fn from_topology(lab: &Lab, job: &RunSpec<'_>) -> Result<Self, RunError> {
        let topology = lab.topology();
        let all = topology.programs.clone();
        let results = std::env::current_dir().map_err(|error| RunError::file("find", Path::new("."), &error))?;
        let plan = job.plan.map(|prepared| &prepared.plan);
        let mut settings = job.plan.map(|prepared| prepared.program_settings.clone()).unwrap_or_default();
        settings.resize_with(all.len(), ProgramSettings::default);
        let placement = || job.plan.iter().map(|prepared| &prepared.placement);
        let nodes = placement().flat_map(|placed| &placed.nodes).map(|node| node.host).collect();
        let hubs = placement().flat_map(|placed| &placed.hubs).map(|hub| (hub.host, hub.name.clone())).collect();
        if !all.is_empty() {
            std::fs::create_dir_all(FOLDER).map_err(|error| RunError::file("make", Path::new(FOLDER), &error))?;
        }
        let hosts = topology.hosts.iter().map(|host| host.name.clone()).collect();
        let running = all.iter().map(|_| None).collect();
        Ok(Self {
            all,
            hosts,
            base: job.base.clone(),
            running,
            settings,
            facts: ProgramFacts::new(job.seed, job.length, plan, lab),
            start: None,
            nodes,
            hubs,
            results,
            readers: Self::readers()?,
            groups: Vec::new(),
        })
    }

    fn readers() -> Result<ProgramReaders, RunError> {
        ProgramReaders::new().map_err(|error| RunError::Failed(format!("cannot make a pipe for programs: {error}")))
    }

    /// Begins the run. Later calls change nothing.
    pub(super) fn begin(&mut self, origin: Instant) {
        self.start.get_or_insert_with(|| StartClock::at(origin));
    }

    pub(super) fn is_any_running(&self) -> bool {
        self.running.iter().any(Option::is_some)
    }

    pub(super) fn running(&self) -> usize {
        self.running.iter().flatten().count()
    }

    /// Runs an action of the schedule, `now` after the beginning. If that is impossible it returns the reason,
    /// and the program of the item counts as ended.
    pub(super) fn perform(
        &mut self,
        lab: &Lab,
        (item, program): (usize, usize),
        what: &ProgramAction,
        now: Duration,
    ) -> Result<Option<EndedProgram>, String> {
        let name = self.all.get(program).map(|program| program.name.clone()).unwrap_or_default();
        match what {
            ProgramAction::Start(command) | ProgramAction::Run(command) => {
                if let Some(command) = command {
                    self.all[program].command.clone_from(command);
                }
                Ok(self.start(lab, item, program, now))
            }
            ProgramAction::Set(command) => {
                self.all[program].command.clone_from(command);
                Ok(None)
            }
            ProgramAction::Stop => {
                let running = self.running.get_mut(program).and_then(Option::as_mut);
                running.ok_or_else(|| format!("{name} does not run"))?.ask(ProgramEnd::Stopped, now);
                Ok(None)
            }
            ProgramAction::Kill(signal) => {
                let signal = signal_named(signal).ok_or_else(|| format!("{signal} is no signal"))?;
                let running = self.running.get(program).and_then(Option::as_ref);
                running.ok_or_else(|| format!("{name} does not run"))?.signal(signal);
                Ok(None)
            }
        }
    }

    /// Returns programs that have ended by `now`. Those whose time is up are asked to end, and killed if they
    /// do not.
    pub(super) fn collect_ended(&mut self, now: Duration) -> Vec<EndedProgram> {
        let mut ended = Vec::new();
        for (index, place) in self.running.iter_mut().enumerate() {
            let Some(running) = place else { continue };
            let program = &self.all[index];
            match running.child.try_wait() {
                Ok(Some(status)) => {
                    let (host, is_of_plan) = (&self.hosts[program.host], self.settings[index].is_of_plan);
                    ended.push(running.ended(&EndingProgram { program, host, is_of_plan }, status, now));
                    *place = None;
                }
                _ => running.force_end(now),
            }
        }
        ended
    }

    /// The time of the next check, even if no program ends.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.running.iter().flatten().filter_map(|running| running.deadline).min()
    }

    /// Ends all running programs, and the processes that they left behind.
    pub(super) fn end(&mut self, now: Duration) -> Vec<EndedProgram> {
        for running in self.running.iter_mut().flatten() {
            running.ask(ProgramEnd::Cut, now);
        }
        let began = Instant::now();
        let mut ended = self.collect_ended(now + began.elapsed());
        while self.is_any_running() {
            std::thread::sleep(Duration::from_millis(10));
            ended.extend(self.collect_ended(now + began.elapsed()));
        }
        ended
    }

    fn start(&mut self, lab: &Lab, item: usize, index: usize, now: Duration) -> Option<EndedProgram> {
        let program = &self.all[index];
        let host = &self.hosts[program.host];
        if self.running[index].is_some() {
            return Some(not_started(program, host, item, now, "it runs already"));
        }
        let (timeout, command) = (program.timeout, program.command.clone());
        match self.spawn(lab, index) {
            Ok(child) => {
                self.groups.push(Pid::from_child(&child));
                let deadline = timeout.map(|timeout| now + timeout);
                let running = RunningProgram { child, item, began: now, command, deadline, asked: None, usage: None };
                self.running[index] = Some(running);
                None
            }
            Err(error) => {
                let program = &self.all[index];
                Some(not_started(program, &self.hosts[program.host], item, now, &error))
            }
        }
    }

    pub(super) fn measurements(&mut self) -> Vec<MeasurementRecord> {
        self.readers.measurements()
    }

    /// The last measurements, and a sentence for each program whose output is incomplete. Call it when all programs
    /// have ended.
    pub(super) fn end_readers(&mut self) -> (Vec<MeasurementRecord>, Vec<String>) {
        self.kill_groups();
        self.readers.end()
    }

    /// Looks at the usage of running programs, if the system tells it.
    pub(super) fn look_at_usage(&mut self) -> Vec<ProgramWait> {
        let groups: BTreeSet<u32> = self.running.iter().flatten().map(|running| running.child.id()).collect();
        let usages = if groups.is_empty() { BTreeMap::new() } else { Usage::read_groups(&groups).unwrap_or_default() };
        let mut waits = Vec::new();
        for (program, running) in self.all.iter().zip(&mut self.running) {
            let Some(running) = running else { continue };
            let Some(now) = usages.get(&running.child.id()) else { continue };
            let before = running.usage.unwrap_or_default();
            running.usage = Some(Usage {
                cpu: now.cpu.max(before.cpu),
                waited: now.waited.max(before.waited),
                peak_memory_bytes: now.peak_memory_bytes.max(before.peak_memory_bytes),
            });
            waits.push(ProgramWait {
                program: program.name.clone(),
                began: running.began.as_secs_f64(),
                waited: now.waited.as_secs_f64(),
            });
        }
        waits
    }

    fn kill_groups(&mut self) {
        for group in self.groups.drain(..) {
            // Most groups are empty by now.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Programs {
    /// A run that breaks off leaves no process behind.
    fn drop(&mut self) {
        self.kill_groups();
    }
}

fn not_started(program: &HostProgram, host: &str, item: usize, now: Duration, why: &str) -> EndedProgram {
    let record = record::ProgramRecord {
        t: now.as_secs_f64(),
        program: program.name.clone(),
        host: host.to_owned(),
        command: program.command.clone(),
        elapsed_s: 0.0,
        code: None,
        end: ProgramEnd::NotStarted,
        error: Some(why.to_owned()),
        as_expected: false,
        cpu_s: None,
        memory_bytes: None,
    };
    EndedProgram { item, record }
}

impl RunningProgram {
    fn signal(&self, signal: Signal) {
        // A process that is gone needs no signal.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    fn ask(&mut self, why: ProgramEnd, now: Duration) {
        self.asked.get_or_insert(why);
        self.signal(Signal::TERM);
        self.deadline = Some(now + GRACE);
    }

    fn force_end(&mut self, now: Duration) {
        match self.deadline {
            Some(deadline) if deadline <= now && self.asked.is_none() => self.ask(ProgramEnd::TimedOut, now),
            Some(deadline) if deadline <= now => {
                self.signal(Signal::KILL);
                self.deadline = Some(now + GRACE);
            }
            _ => {}
        }
    }

    fn ended(&self, program: &EndingProgram<'_>, status: ExitStatus, now: Duration) -> EndedProgram {
        let EndingProgram { program, host, is_of_plan } = *program;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        let end = self.asked.unwrap_or(ProgramEnd::Exited);
        let as_expected = match end {
            ProgramEnd::Exited => code == Some(program.expected_exit.unwrap_or(0)),
            // A time-out is a normal end, unless an exit code is expected.
            ProgramEnd::TimedOut => program.expected_exit.is_none(),
            _ => !is_of_plan || program.expected_exit.is_none_or(|expected| code == Some(expected)),
        };
        let record = record::ProgramRecord {
            t: self.began.as_secs_f64(),
            program: program.name.clone(),
            host: host.to_owned(),
            command: self.command.clone(),
            elapsed_s: now.saturating_sub(self.began).as_secs_f64(),
            code,
            end,
            error: None,
            as_expected,
            cpu_s: self.usage.map(|usage| usage.cpu.as_secs_f64()),
            memory_bytes: self.usage.map(|usage| usage.peak_memory_bytes),
        };
        EndedProgram { item: self.item, record }
    }
}

/// The signal of a name such as `HUP`, `SIGHUP` or `1`.
fn signal_named(name: &str) -> Option<Signal> {
    let upper = name.to_ascii_uppercase();
    Some(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "HUP" | "1" => Signal::HUP,
        "INT" | "2" => Signal::INT,
        "QUIT" | "3" => Signal::QUIT,
        "ABRT" | "6" => Signal::ABORT,
        "KILL" | "9" => Signal::KILL,
        "USR1" | "10" => Signal::USR1,
        "USR2" | "12" => Signal::USR2,
        "PIPE" | "13" => Signal::PIPE,
        "ALRM" | "14" => Signal::ALARM,
        "TERM" | "15" => Signal::TERM,
        "CONT" | "18" => Signal::CONT,
        "STOP" | "19" => Signal::STOP,
        "TSTP" | "20" => Signal::TSTP,
        "WINCH" | "28" => Signal::WINCH,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_by_name_and_number() {
        assert_eq!(
            [signal_named("HUP"), signal_named("sigterm"), signal_named("9")].map(Option::unwrap),
            [Signal::HUP, Signal::TERM, Signal::KILL]
        );
        assert!(signal_named("SIGNAL").is_none());
    }
}
