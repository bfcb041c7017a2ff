//! Search for the folders of runs.

use std::fs;
use std::path::{Path, PathBuf};

use roost_results::RUN_FILE;

use crate::natural_order::NaturalName;
use crate::write::WriteError;

/// The deepest level below a folder that is searched.
const MAX_DEPTH: usize = 5;
/// The most runs that are read together.
const MAX_RUNS: usize = 10_000;

/// The runs under `folder`, or `folder` itself if it is one, in the order of their paths. Symbolic links to
/// folders are not followed.
///
/// A sweep puts its runs side by side: if there is no such folder, its name is taken for a pattern, in which
/// `*` stands for anything, or for the beginning of names. `out/client-server` is then all of
/// `out/client-server_*`, `out/client-server-1` and so on, but not `out/client-servers`.
///
/// # Errors
/// Fails when there is none, or a folder cannot be read.
pub fn runs(folder: &Path) -> Result<Vec<PathBuf>, WriteError> {
    let mut found = Vec::new();
    match folder.try_exists() {
        Ok(false) => {
            for path in matching(folder)? {
                collect(&path, 0, &mut found)?;
            }
        }
        _ => collect(folder, 0, &mut found)?,
    }
    if found.is_empty() {
        return Err(WriteError::NoRun { folder: folder.to_owned() });
    }
    Ok(found)
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), WriteError> {
    if folder.join(RUN_FILE).is_file() {
        found.push(folder.to_owned());
        return Ok(());
    }
    for path in folders_in(folder)? {
        if depth < MAX_DEPTH && found.len() < MAX_RUNS {
            collect(&path, depth + 1, found)?;
        }
    }
    Ok(())
}

/// The folders in a folder, in the natural order of their names.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, WriteError> {
    let failed = |source| WriteError::Folder { path: folder.to_owned(), source };
    let mut inside = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            inside.push(entry.path());
        }
    }
    inside.sort_by_cached_key(|path| NaturalName::new(&path.to_string_lossy()));
    Ok(inside)
}

/// The folders next to `path`, which does not exist, whose names match it as a pattern.
fn matching(path: &Path) -> Result<Vec<PathBuf>, WriteError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(WriteError::NoRun { folder: path.to_owned() });
    }
    let mut folders = folders_in(parent)?;
    let is_meant = |found: &str| match name.contains('*') {
        true => matches(found, &name),
        // The name must continue with a new word: `cs` is not the beginning of `csx`.
        false => found.strip_prefix(&*name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())),
    };
    folders.retain(|folder| folder.file_name().is_some_and(|name| is_meant(&name.to_string_lossy())));
    Ok(folders)
}

/// True if a name matches a pattern in which `*` stands for anything.
fn matches(name: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use roost_results::testing::small;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        runs(folder).unwrap().iter().map(name).collect()
    }

    #[test]
    fn runs_found_by_folder_or_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["cs_seed-1_star", "cs_seed-2_star", "cs_seed-1_tree", "csx_seed-1", "p2p_seed-1_star"] {
            small().write(&at(name));
        }
        assert_eq!(names(folder.path()).len(), 5);
        assert_eq!(names(&at("csx_seed-1")), ["csx_seed-1"]);
        assert_eq!(names(&at("cs")), ["cs_seed-1_star", "cs_seed-1_tree", "cs_seed-2_star"]);
        assert_eq!(names(&at("cs_*_star")), ["cs_seed-1_star", "cs_seed-2_star"]);
        for name in ["q_limit-200", "q_limit-20", "q_limit-5"] {
            small().write(&at(name));
        }
        assert_eq!(names(&at("q")), ["q_limit-5", "q_limit-20", "q_limit-200"]);
        assert_eq!(names(&at("*seed-1*")).len(), 4);
        for nothing in ["none", "cs_*_moon", "no/where"] {
            assert!(matches!(runs(&at(nothing)), Err(WriteError::NoRun { .. })), "{nothing}");
        }
    }

    #[test]
    fn beginnings_end_where_a_word_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["cs80-1", "cs80-2", "cs80.b", "cs801", "p2p80-1"] {
            small().write(&at(name));
        }
        assert_eq!(names(&at("cs80")), ["cs80-1", "cs80-2", "cs80.b"]);
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (name, pattern) in
            [("abc", "abc"), ("abc", "a*"), ("abc", "*c"), ("abc", "*b*"), ("abcabc", "a*c"), ("a", "**a")]
        {
            assert!(matches(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in [("abc", "ab"), ("abc", "b*"), ("abc", "*b"), ("ab", "ab*b"), ("", "*a")] {
            assert!(!matches(name, pattern), "{name} {pattern}");
        }
    }
}
