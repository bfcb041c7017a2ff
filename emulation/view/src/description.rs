//! The network and the plan of a run, from its folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use roost_experiment::{Plan, Prepared};
use roost_results::{PLAN_FILE, ReadError, TOPOLOGY_FILE};
use roost_topology::Topology;
use roost_topology::file::parse_in;

/// The most hosts of a network on the page, as of nodes on the page of `roost dashboard`.
const MAX_SHOWN: usize = 20_000;

/// A run cannot be shown. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error(
        "{} is no folder of a run: name one that `emulate run` or `emulate simulate -o` wrote{}",
        folder.display(),
        remedy(folder, inside.as_deref())
    )]
    NotARun { folder: PathBuf, inside: Option<PathBuf> },
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}, line {line}: {problem}", path.display())]
    Topology { path: PathBuf, line: u32, problem: String },
    #[error("the network has {0} hosts, and the page shows at most {MAX_SHOWN}: use `emulate report`")]
    TooLarge(usize),
    #[error(transparent)]
    Run(#[from] ReadError),
    #[error("cannot serve the page: {0}")]
    Serve(io::Error),
}

/// The network and the plan of a run.
#[derive(Debug)]
pub struct Description {
    /// The network, with the plan's faults among its events.
    pub topology: Topology,
    /// The plan; absent for a network that ran by itself.
    pub prepared: Option<Prepared>,
    /// The reason why a plan could not be read.
    pub remark: Option<String>,
}

impl Description {
    /// Reads the plan and the network in the folder of a run, which may have just begun.
    ///
    /// # Errors
    /// Fails when it is no folder of a run, or the network cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ViewError> {
        let path = folder.join(TOPOLOGY_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(ViewError::NotARun { folder: folder.to_owned(), inside: run_inside(folder) });
            }
            Err(source) => return Err(ViewError::Io { path, source }),
        };
        let plan = folder.join(PLAN_FILE);
        let (prepared, remark) = match plan.is_file().then(|| read_plan(&plan)) {
            Some(Ok(prepared)) => (Some(prepared), None),
            Some(Err(why)) => (None, Some(format!("the plan cannot be read, so nodes and hubs are missing: {why}"))),
            None => (None, None),
        };
        let topology = match &prepared {
            Some(prepared) => prepared.topology.clone(),
            None => parse_in(folder, "network", &text).map_err(|problems| {
                let (line, problem) =
                    problems.into_iter().next().map(|note| (note.line, note.text)).unwrap_or_default();
                ViewError::Topology { path, line, problem }
            })?,
        };
        if topology.hosts.len() > MAX_SHOWN {
            return Err(ViewError::TooLarge(topology.hosts.len()));
        }
        Ok(Self { topology, prepared, remark })
    }
}

fn read_plan(path: &Path) -> Result<Prepared, String> {
    let text = Plan::text(path).map_err(|error| error.to_string())?;
    Prepared::from_text(&text, path).map_err(|error| error.to_string())
}

/// The way on from a folder of no run: to a run inside, or to a plan that makes one, as of `emulate reproduce`.
fn remedy(folder: &Path, inside: Option<&Path>) -> String {
    let plan = folder.join(PLAN_FILE);
    match inside {
        Some(run) => format!(", such as {}", run.display()),
        None if plan.is_file() => format!(", or make one: emulate simulate {} -o RESULTS", plan.display()),
        None => String::new(),
    }
}

/// The first run in a folder of several.
fn run_inside(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.join(TOPOLOGY_FILE).is_file()).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::folder_of_run;

    #[test]
    fn folder_without_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let told = |path: &Path| Description::read(path).unwrap_err().to_string();
        assert!(told(folder.path()).ends_with("that `emulate run` or `emulate simulate -o` wrote"));
        assert!(told(Path::new("/dev/null")).contains("/dev/null is no folder of a run"));
        fs::write(folder.path().join(PLAN_FILE), "").unwrap();
        assert!(told(folder.path()).ends_with("plan.toml -o RESULTS"), "{}", told(folder.path()));
        let inside = folder.path().join("seed-1");
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join(TOPOLOGY_FILE), "").unwrap();
        assert!(told(folder.path()).ends_with("seed-1"), "{}", told(folder.path()));
        assert!(told(&inside).contains("topology.toml, line "));
    }

    #[test]
    fn vast_network_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = MAX_SHOWN + 1;
        let text = format!(
            "[[host]]\nname = \"n[1-{hosts}]\"\n[[lan]]\nname = \"a\"\nmembers = \"n[1-{hosts}]\"\nrate = \"1Mbit\"\n"
        );
        fs::write(folder.path().join(TOPOLOGY_FILE), text).unwrap();
        assert!(matches!(Description::read(folder.path()), Err(ViewError::TooLarge(20_001))));
    }

    #[test]
    fn unreadable_plan_leaves_the_network() {
        let folder = folder_of_run("");
        assert!(Description::read(folder.path()).unwrap().prepared.is_some());
        fs::write(folder.path().join(PLAN_FILE), "name = 3").unwrap();
        let description = Description::read(folder.path()).unwrap();
        assert_eq!((description.prepared.is_some(), description.topology.hosts.len()), (false, 5));
        assert!(description.remark.unwrap().starts_with("the plan cannot be read"));
    }
}
