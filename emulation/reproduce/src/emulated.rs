//! Runs of `emulate run`: the real daemons on an emulated network, whose records become figures.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use roost_experiment::Prepared;
use roost_results::record::RunVerdict;

use super::measures::{self, Measures};
use super::process;

/// Runs a plan with a seed; the records go to `folder`, which must not exist.
///
/// # Errors
/// A sentence, if it recorded nothing; `None` if `interrupt` was set.
pub(super) fn run(
    prepared: &Prepared,
    plan: &Path,
    seed: u64,
    folder: &Path,
    interrupt: &AtomicBool,
) -> Result<Option<(Measures, RunVerdict)>, String> {
    let seed = seed.to_string();
    let words =
        ["run".as_ref(), plan.as_os_str(), "-o".as_ref(), folder.as_os_str(), "--seed".as_ref(), OsStr::new(&seed)];
    let ended = process::run(&words, interrupt).map_err(|error| format!("cannot run emulate run: {error}"))?;
    let Some(ended) = ended else { return Ok(None) };
    let results = roost_results::read(folder).map_err(|error| {
        format!("emulate run {} left no records: {} ({error})", plan.display(), ended.stderr.trim())
    })?;
    Ok(Some((measures::compute_measures(prepared, &results, None), results.run.verdict)))
}
