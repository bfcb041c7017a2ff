//! Threads that read what programs print, so that a program never waits for the run.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use roost_results::record::MeasurementRecord;
use rustix::event::{PollFd, PollFlags, poll};

use super::program_output::{OutputLosses, OutputNews, ProgramOutput};

/// The most measurements that wait until the run records them.
const MAX_WAITING: usize = 65_536;
/// The most measurements of all programs of a run.
const MAX_OF_RUN: u64 = 2_000_000;
/// Bytes that a reader takes at once: every program has a reader.
const PART: usize = 16 << 10;
/// The most parts that a reader takes after the end of the run: more than a pipe holds.
const LAST_PARTS: usize = 16;

/// The readers of all programs, and the measurements that they found.
#[derive(Debug)]
pub(super) struct ProgramReaders {
    sender: SyncSender<MeasurementRecord>,
    found: Receiver<MeasurementRecord>,
    /// A pipe whose one end is closed when the run is over, which wakes all readers at the other.
    run: Option<PipeWriter>,
    over: Arc<PipeReader>,
    threads: Vec<(String, JoinHandle<OutputLosses>)>,
    count: u64,
    /// Measurements beyond the limit of the run.
    beyond: u64,
}

impl ProgramReaders {
    pub(super) fn new() -> std::io::Result<Self> {
        let (sender, found) = sync_channel(MAX_WAITING);
        let (over, run) = std::io::pipe()?;
        Ok(Self { sender, found, run: Some(run), over: Arc::new(over), threads: Vec::new(), count: 0, beyond: 0 })
    }

    /// Reads the output of a program until its end; times count from `origin`.
    pub(super) fn spawn(
        &mut self,
        output: ProgramOutput,
        from: PipeReader,
        log: File,
        origin: Instant,
    ) -> std::io::Result<()> {
        let reader = OutputReader { output, from, log, origin, sender: self.sender.clone(), lost: 0 };
        let (name, over) = (reader.output.program().to_owned(), Arc::clone(&self.over));
        let thread = thread::Builder::new().name("program-output".to_owned()).spawn(move || reader.run(&over))?;
        self.threads.push((name, thread));
        Ok(())
    }

    /// The measurements since the last call, within the limit of the run.
    pub(super) fn measurements(&mut self) -> Vec<MeasurementRecord> {
        let mut all: Vec<MeasurementRecord> = self.found.try_iter().collect();
        let room = usize::try_from(MAX_OF_RUN - self.count).unwrap_or(usize::MAX).min(all.len());
        self.beyond += (all.len() - room) as u64;
        all.truncate(room);
        self.count += room as u64;
        all
    }

    /// Waits for the readers of programs that have ended; the rest of a process that left its group is not read.
    /// Returns the last measurements, and a sentence for each program whose output is incomplete.
    pub(super) fn end(&mut self) -> (Vec<MeasurementRecord>, Vec<String>) {
        self.run = None;
        let (mut last, mut losses) = (Vec::new(), Vec::new());
        for (name, thread) in std::mem::take(&mut self.threads) {
            while !thread.is_finished() {
                last.extend(self.measurements());
                thread::sleep(Duration::from_millis(5));
            }
            let lost = thread.join().unwrap_or_default();
            losses.extend(describe(&name, &lost));
        }
        last.extend(self.measurements());
        if self.beyond > 0 {
            losses.push(format!("the programs measured {} times more than the {MAX_OF_RUN} of a run", self.beyond));
        }
        (last, losses)
    }
}

fn describe(name: &str, losses: &OutputLosses) -> Option<String> {
    if let Some(mistake) = &losses.mistake {
        let lines = losses.wrong;
        return Some(format!("{name} printed {lines} lines that are no measurements; the first is {mistake}"));
    }
    let measurements = losses.measurements;
    let told = || format!("{name} measured too often or too much: {measurements} of its measurements are missing");
    (measurements > 0).then(told)
}

struct OutputReader {
    output: ProgramOutput,
    from: PipeReader,
    log: File,
    origin: Instant,
    sender: SyncSender<MeasurementRecord>,
    lost: u64,
}

impl OutputReader {
    fn run(mut self, over: &PipeReader) -> OutputLosses {
        let (mut part, mut rest) = (vec![0; PART], LAST_PARTS);
        while rest > 0 {
            let mut ready = [PollFd::new(&self.from, PollFlags::IN), PollFd::new(over, PollFlags::IN)];
            if poll(&mut ready, None).is_err() {
                continue;
            }
            let [has_output, is_over] = ready.map(|one| !one.revents().is_empty());
            if !has_output {
                break;
            }
            // A process that left its group may print for ever.
            rest -= usize::from(is_over);
            let length = self.from.read(&mut part).unwrap_or(0);
            if length == 0 {
                break;
            }
            let news = self.output.add_bytes(self.origin.elapsed().as_secs_f64(), &part[..length]);
            self.pass_on(news);
        }
        let news = self.output.end(self.origin.elapsed().as_secs_f64());
        self.pass_on(news);
        let measurements = self.output.losses.measurements + self.lost;
        OutputLosses { measurements, ..self.output.losses }
    }

    fn pass_on(&mut self, news: OutputNews) {
        for measurement in news.measurements {
            match self.sender.try_send(measurement) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.lost += 1,
            }
        }
        // A log that cannot be written is missing, and measurements still count.
        let _ = self.log.write_all(&news.log);
    }
}
