//! Traces of a topology: read once, and copied beside the results of a run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::read::{MAX_TRACE_BYTES, read_trace};
use super::{Playback, Trace, TraceSummary};
use crate::model::{Leg, Net, NetMember, Note, Topology};
use crate::units::Rate;

/// The folder of traces within that of a run's results.
pub const TRACE_FOLDER: &str = "traces";
/// The most mistakes that one error lists.
const MAX_LISTED: usize = 10;

#[derive(Debug, Clone, thiserror::Error)]
pub enum TraceLoadError {
    #[error("the trace {} cannot be read: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: String },
    #[error("the trace {} is wrong: {}", path.display(), listed(problems))]
    Wrong { path: PathBuf, problems: Vec<Note> },
}

fn listed(problems: &[Note]) -> String {
    let one = |problem: &Note| match problem.line {
        0 => problem.text.clone(),
        line => format!("line {line}: {}", problem.text),
    };
    let mut texts: Vec<String> = problems.iter().take(MAX_LISTED).map(one).collect();
    if problems.len() > MAX_LISTED {
        texts.push(format!("… and {} more", problems.len() - MAX_LISTED));
    }
    texts.join("; ")
}

/// Reads traces relative to a folder, each file once.
#[derive(Debug, Default)]
pub struct TraceStore {
    folder: PathBuf,
    known: RefCell<BTreeMap<PathBuf, Result<Arc<Trace>, TraceLoadError>>>,
}

impl TraceStore {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), known: RefCell::default() }
    }

    /// The trace in a file.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or is no trace.
    pub fn load(&self, file: &str) -> Result<Arc<Trace>, TraceLoadError> {
        let path = self.folder.join(file);
        self.known.borrow_mut().entry(path.clone()).or_insert_with(|| load(&path).map(Arc::new)).clone()
    }
}

fn load(path: &Path) -> Result<Trace, TraceLoadError> {
    let unreadable = |cause: String| TraceLoadError::Unreadable { path: path.to_owned(), cause };
    let facts = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !facts.is_file() {
        return Err(unreadable("it is no file".to_owned()));
    }
    if facts.len() > MAX_TRACE_BYTES {
        return Err(unreadable(format!("it is larger than {} MiB", MAX_TRACE_BYTES >> 20)));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let sha256 = digest(&bytes);
    let text = std::str::from_utf8(&bytes).map_err(|_| unreadable("it is no text".to_owned()))?;
    let content = read_trace(text).map_err(|problems| TraceLoadError::Wrong { path: path.to_owned(), problems })?;
    Ok(Trace { path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()), sha256, content })
}

/// Names the traces of a topology for a folder of results, so that the topology's text needs no other file and tells
/// traces apart.
pub fn gather(topology: &mut Topology) {
    for leg in topology.nets.iter_mut().flat_map(|net| &mut net.members).flat_map(legs_of) {
        let Some(playback) = &leg.trace else { continue };
        let file = name_in_results(&playback.trace);
        if playback.file != file {
            leg.trace = Some(Arc::new(Playback { file, ..Playback::clone(playback) }));
        }
    }
}

/// Names the traces of a topology by their absolute paths, for a text in another folder.
pub fn name_absolutely(topology: &mut Topology) {
    for leg in topology.nets.iter_mut().flat_map(|net| &mut net.members).flat_map(legs_of) {
        let Some(playback) = &leg.trace else { continue };
        let file = playback.trace.path.to_string_lossy().into_owned();
        leg.trace = Some(Arc::new(Playback { file, ..Playback::clone(playback) }));
    }
}

/// Replaces the traces of a topology by their means over time, for predictions.
pub fn use_means(topology: &mut Topology) {
    for leg in topology.nets.iter_mut().flat_map(|net| &mut net.members).flat_map(legs_of) {
        let Some(playback) = leg.trace.take() else { continue };
        let means = TraceSummary::new(&playback.trace.content);
        // A mean rate is positive.
        leg.rate = means.mean_rate.map_or(leg.rate, |rate| Rate::from_bps((rate as u64).max(1)));
        leg.delay = means.mean_delay.unwrap_or(leg.delay);
        leg.loss = means.loss.unwrap_or(leg.loss);
    }
}

fn legs_of(member: &mut NetMember) -> [&mut Leg; 2] {
    [&mut member.to_net, &mut member.from_net]
}

/// The path of a trace in the results: the beginning of its digest, and its name.
fn name_in_results(trace: &Trace) -> String {
    let name = trace.path.file_name().map_or_else(|| "trace".to_owned(), |name| name.to_string_lossy().into_owned());
    let short = trace.sha256.get(..8).unwrap_or_default();
    let plain = name.strip_prefix(&format!("{short}-")).unwrap_or(&name).replace(|c: char| c.is_control(), "_");
    format!("{TRACE_FOLDER}/{short}-{plain}")
}

/// The traces of a topology by their files.
fn by_file(topology: &Topology) -> BTreeMap<&str, &Trace> {
    let members = topology.nets.iter().flat_map(|net| &net.members);
    let playbacks = members.flat_map(|member| [&member.to_net.trace, &member.from_net.trace]).flatten();
    playbacks.map(|playback| (playback.file.as_str(), &*playback.trace)).collect()
}

/// The SHA-256 of each trace of a topology, by its file.
pub fn digests(topology: &Topology) -> BTreeMap<String, String> {
    by_file(topology).into_iter().map(|(file, trace)| (file.to_owned(), trace.sha256.clone())).collect()
}

/// Copies the traces of a topology, [gathered](gather) before, into a folder of results.
///
/// # Errors
/// Fails when a trace cannot be copied, or has changed since it was read.
pub fn keep(topology: &Topology, folder: &Path) -> io::Result<()> {
    for (file, trace) in by_file(topology) {
        let bytes = std::fs::read(&trace.path)?;
        if digest(&bytes) != trace.sha256 {
            let message = format!("{} has changed since it was read: run it again", trace.path.display());
            return Err(io::Error::other(message));
        }
        std::fs::create_dir_all(folder.join(TRACE_FOLDER))?;
        std::fs::write(folder.join(file), bytes)?;
    }
    Ok(())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The directions of a link or LAN on which a trace plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSide {
    All,
    /// Of a link: from its first host to its second.
    Up,
    /// Of a link: from its second host to its first.
    Down,
}

/// Plays a trace on a net, in place of others there; `None` ends those. Of a LAN only all of it can play.
pub fn play(net: &mut Net, side: TraceSide, playback: Option<&Arc<Playback>>) {
    for place in 0..net.members.len() {
        let plays = match side {
            TraceSide::All => true,
            TraceSide::Up => place == 0,
            TraceSide::Down => place > 0,
        };
        if !plays {
            continue;
        }
        net.members[place].to_net.trace = playback.cloned();
        // On a link the other end's leg belongs to the same direction.
        let others = net.members.iter_mut().enumerate().filter(|(other, _)| *other != place);
        others.for_each(|(_, other)| other.from_net.trace = None);
    }
}

impl Leg {
    /// The playback, if it gives the rate.
    pub fn rate_trace(&self) -> Option<&Playback> {
        self.trace.as_deref().filter(|playback| playback.trace.content.has_rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{parse_in, write};

    const LINKS: &str = "[[host]]\nname = ['a', 'b', 'c']\n\
        [[link]]\nname = 'x'\nbetween = ['a', 'b']\nup = { trace = 'one/t' }\n\
        down = { trace = { file = 'two/t', start = '3s', once = true } }\n\
        [[lan]]\nname = 'y'\nmembers = ['b', 'c']\nrate = '1Mbit'\ntrace = 'two/t'\n";

    /// A folder with two traces of the same name.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("one", "1\n2\n"), ("two", "time_s,rate_mbps\n0,1\n1,2\n")] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("t"), text).unwrap();
        }
        folder
    }

    #[test]
    fn results_need_no_other_file() {
        let folder = folder();
        let mut topology = parse_in(folder.path(), "n", LINKS).unwrap();
        gather(&mut topology);
        let results = tempfile::tempdir().unwrap();
        keep(&topology, results.path()).unwrap();
        let text = write(&topology, "");
        let again = parse_in(results.path(), "n", &text).unwrap();
        assert_eq!(digests(&again), digests(&topology));
        assert_eq!(digests(&again).len(), 2);
        let mut gathered = again.clone();
        gather(&mut gathered);
        assert_eq!((write(&gathered, ""), write(&again, "")), (text.clone(), text.clone()));
        let playback = again.nets[0].members[1].to_net.trace.as_ref().unwrap();
        assert_eq!((playback.start.as_secs(), playback.once), (3, true));
        std::fs::write(folder.path().join("one/t"), "9\n").unwrap();
        assert!(keep(&topology, results.path()).unwrap_err().to_string().contains("has changed"));
    }

    #[test]
    fn wrong_traces_are_told_with_line() {
        let folder = folder();
        std::fs::write(folder.path().join("bad"), "3\nx\n").unwrap();
        let told = |text: &str| {
            let notes = parse_in(folder.path(), "n", text).unwrap_err();
            notes.into_iter().map(|note| format!("{}: {}", note.line, note.text)).collect::<Vec<_>>().join("\n")
        };
        assert!(
            told(&LINKS.replace("one/t", "bad")).starts_with("6: the trace"),
            "{}",
            told(&LINKS.replace("one/t", "bad"))
        );
        assert!(told(&LINKS.replace("one/t", "bad")).contains("line 2: `x` is no whole number"));
        assert!(told(&LINKS.replace("one/t", "none")).contains("cannot be read"));
        let twice = LINKS.replace("up = {", "leg = [{ host = 'b', down = { trace = 'one/t' } }]\nup = {");
        assert!(told(&twice).contains("two traces play"), "{}", told(&twice));
        let event = format!("{LINKS}[[event]]\nat = '1s'\nnet = 'x'\ntrace = 'one/t'\n");
        assert!(told(&event).contains("an event cannot begin a trace"));
    }

    #[test]
    fn trace_plays_on_one_side() {
        let folder = folder();
        let mut topology = parse_in(folder.path(), "n", LINKS).unwrap();
        let playback = topology.nets[0].members[1].to_net.trace.clone().unwrap();
        play(&mut topology.nets[0], TraceSide::Up, Some(&playback));
        play(&mut topology.nets[0], TraceSide::Down, None);
        let members = &topology.nets[0].members;
        assert_eq!((&members[0].to_net.trace, &members[1].to_net.trace), (&Some(playback), &None));
    }
}
