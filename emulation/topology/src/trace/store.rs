//! Traces of a topology: read once, and copied beside the results of a run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::read::{MAX_TRACE_BYTES, read_trace};
use super::{Playback, Trace};
use crate::model::{Leg, Note, Topology};

/// The folder of traces within that of a run's results.
pub const TRACE_FOLDER: &str = "traces";
/// The most mistakes that one error lists.
const MAX_LISTED: usize = 10;

/// A trace that cannot be played.
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
    let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let text = std::str::from_utf8(&bytes).map_err(|_| unreadable("it is no text".to_owned()))?;
    let content = read_trace(text).map_err(|problems| TraceLoadError::Wrong { path: path.to_owned(), problems })?;
    Ok(Trace { path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()), sha256, content })
}

/// Names the traces of a topology for a folder of results, so that the topology's text needs no other file, and returns
/// them by their new names. Different traces get different names.
pub fn gather(topology: &mut Topology) -> BTreeMap<String, Arc<Trace>> {
    let mut gathered: BTreeMap<String, Arc<Trace>> = BTreeMap::new();
    let members = topology.nets.iter_mut().flat_map(|net| &mut net.members);
    for leg in members.flat_map(|member| [&mut member.to_net, &mut member.from_net]) {
        let Some(playback) = &leg.trace else { continue };
        let name = free_name(&gathered, &playback.trace);
        gathered.insert(name.clone(), Arc::clone(&playback.trace));
        if playback.file != name {
            leg.trace = Some(Arc::new(Playback { file: name, ..Playback::clone(playback) }));
        }
    }
    gathered
}

/// The path of a trace in the results, which no other trace has.
fn free_name(taken: &BTreeMap<String, Arc<Trace>>, trace: &Trace) -> String {
    let last = trace.path.components().next_back();
    let plain = match last {
        Some(Component::Normal(name)) => name.to_string_lossy().replace(|c: char| c.is_control(), "_"),
        _ => "trace".to_owned(),
    };
    let short = format!("{TRACE_FOLDER}/{plain}");
    match taken.get(&short) {
        Some(other) if other.sha256 != trace.sha256 => {
            format!("{TRACE_FOLDER}/{}-{plain}", trace.sha256.get(..8).unwrap_or_default())
        }
        _ => short,
    }
}

impl Leg {
    /// The playback, if it gives the rate.
    pub fn rate_trace(&self) -> Option<&Playback> {
        self.trace.as_deref().filter(|playback| playback.trace.content.has_rate())
    }
}
