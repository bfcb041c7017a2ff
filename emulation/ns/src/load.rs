//! Reading of topology files in both formats.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use roost_topology::file::{self, extras};
use roost_topology::model::{Note, Topology};

use super::{NsLimits, parse};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// The largest file of positions, in bytes.
const MAX_MOTION_FILE: u64 = 64 << 20;
/// The most mistakes that one error lists.
const MAX_TOLD: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// Neither the name of the file nor its content tells its format.
    #[error(
        "{} is neither our own format nor an NS file: the name of a topology ends in .toml, .ns or .tcl",
        path.display()
    )]
    UnknownFormat { path: PathBuf },
    #[error("{}", format_problems(path, problems))]
    Wrong { path: PathBuf, problems: Vec<Note> },
}

/// Reads the topology in a file: `.toml` is our own format, `.ns` and `.tcl` Emulab's; with any other name the
/// content decides.
///
/// Names, members, addresses and reachability have been [checked](roost_topology::validate); doubtful parts are in the
/// topology's notes. Addresses that the file does not give are left open, for [`roost_topology::addresses::assign`].
///
/// # Errors
/// Fails when the file cannot be read, or is wrong: each mistake with its line.
pub fn load(path: &Path) -> Result<Topology, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    let facts = std::fs::metadata(path).map_err(unreadable)?;
    if !facts.is_file() {
        // A pipe would wait for ever.
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")));
    }
    if facts.len() > MAX_FILE {
        let message = format!("it is larger than {} MiB", MAX_FILE >> 20);
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, message)));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    load_text(path, &decoded(path, bytes).map_err(unreadable)?)
}

/// The text of a file of positions.
fn read_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    if !std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.is_file() {
        return Err("is no file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let read = file.take(MAX_MOTION_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_MOTION_FILE {
        return Err(format!("is larger than {} MiB", MAX_MOTION_FILE >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "is no text in UTF-8; unpack a compressed file first".to_owned())
}

/// Decodes the text of a file. NS files may be older than UTF-8; one that is not UTF-8 is read as Latin-1.
fn decoded(path: &Path, bytes: Vec<u8>) -> io::Result<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) if path.extension().is_some_and(|extension| extension != "toml") => {
            Ok(error.as_bytes().iter().copied().map(char::from).collect())
        }
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

#[derive(Clone, Copy)]
enum TopologyFormat {
    Toml,
    Ns,
}

impl TopologyFormat {
    /// Goes by the name, or else by syntax that only one of the formats has.
    fn detect_format(path: &Path, text: &str) -> Option<Self> {
        let starts =
            |words: [&str; 2]| text.lines().any(|line| words.iter().any(|word| line.trim_start().starts_with(word)));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Some(Self::Toml),
            Some("ns" | "tcl") => Some(Self::Ns),
            _ if text.contains("[new Simulator]") => Some(Self::Ns),
            _ if starts(["[[host]]", "[[link]]"]) => Some(Self::Toml),
            _ => None,
        }
    }
}

/// Reads a topology from the text of a file, as [`load`] does; `path` tells its format and names it in
/// messages.
///
/// # Errors
/// Fails when the text is wrong: each mistake with its line.
pub fn load_text(path: &Path, text: &str) -> Result<Topology, LoadError> {
    let wrong = |problems| LoadError::Wrong { path: path.to_owned(), problems };
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let folder = path.parent().unwrap_or(Path::new(""));
    match TopologyFormat::detect_format(path, text) {
        Some(TopologyFormat::Toml) => {
            let mut topology = file::parse_in(folder, &name, text).map_err(wrong)?;
            roost_motion::resolve(&mut topology, |file| read_text(&folder.join(file))).map_err(wrong)?;
            Ok(topology)
        }
        Some(TopologyFormat::Ns) => {
            let read = parse(&path.to_string_lossy(), text, &NsLimits::default());
            let read = read.map_err(|error| wrong(vec![Note { line: error.line, text: error.sentence() }]))?;
            extras::apply(folder, read, text).map_err(wrong)
        }
        None => Err(LoadError::UnknownFormat { path: path.to_owned() }),
    }
}

/// Formats each problem on a line of its own, as compilers do.
fn format_problems(path: &Path, problems: &[Note]) -> String {
    let mut text = String::new();
    for (index, problem) in problems.iter().take(MAX_TOLD).enumerate() {
        let start = if index == 0 { "" } else { "\n" };
        let line = if problem.line == 0 { String::new() } else { format!(":{}", problem.line) };
        // Writing to a string cannot fail.
        let _ = write!(text, "{start}{}{line}: {}", path.display(), problem.text);
    }
    if problems.len() > MAX_TOLD {
        let _ = write!(text, "\n… and {} more", problems.len() - MAX_TOLD);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_no_topology() {
        let told = load(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(told.contains("it is no file"), "{told}");
        assert!(read_text(Path::new("/dev/zero")).unwrap_err().contains("is no file"));
    }
}
