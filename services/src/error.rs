//! Errors of sources and sinks. Each message says in one sentence what is wrong and what to do.

use roost_wire::Service;
use roost_wire::messages::Sentence;

/// A text that describes no source or sink. The writer of the text is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: {reason}; expected {expected}")]
pub struct SpecError {
    pub(crate) text: String,
    pub(crate) what: String,
    pub(crate) reason: String,
    pub(crate) expected: &'static str,
}

impl SpecError {
    pub(crate) fn source(service: Service, text: &str, reason: impl Into<String>, expected: &'static str) -> Self {
        Self { text: text.to_owned(), what: format!("{service} source"), reason: reason.into(), expected }
    }
}

/// A source that gives nothing, or nothing more. Nothing has changed on disk or in the spec; opening it again
/// is safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {reason}; check that it exists and that this user may read it")]
    Unreadable { path: String, reason: String },
    /// The data has another format than the spec says.
    #[error("{from} gave no {expected}: {reason}")]
    Malformed {
        /// File, command or address.
        from: String,
        /// The format that the source must have.
        expected: &'static str,
        reason: String,
    },
    /// The data is larger than the service allows.
    #[error("{from} gave more than {limit_bytes} bytes; make it smaller")]
    TooLarge { from: String, limit_bytes: usize },
    /// A file has changed since it was opened.
    #[error("{path} changed while it was being read; it can be asked for again")]
    Changed { path: String },
    #[error("{path} holds no complete JPEG; put a finished .jpg into it")]
    NoPicture { path: String },
    /// A local port cannot be listened on.
    #[error("cannot listen on {address}: {reason}; choose a local address and a free port")]
    CannotListen { address: String, reason: String },
    /// A server cannot be reached or has hung up.
    #[error("lost {address}: {reason}; check that the program there is running")]
    Unreachable { address: String, reason: String },
    #[error(
        "nothing usable came from {address} for {} s{}", .waited.as_secs(),
        if *malformed == 0 { "; check that its sender is running".to_owned() }
        else { format!(", only malformed data ({malformed} times); check what its sender sends") }
    )]
    Silent {
        address: String,
        /// The time without usable data.
        waited: std::time::Duration,
        /// Malformed datagrams since the source was opened.
        malformed: u64,
    },
    /// A program that offers the service gives nothing, or nothing more.
    #[error("the program that offers it {reason}")]
    Program { reason: String },
    /// The program does not serve this request; its words are for the requester.
    #[error("the program that offers it declined: {}", .sentence.as_ref().map_or("it does not say why", Sentence::as_str))]
    Declined { sentence: Option<Sentence> },
    #[error("the service is no longer offered")]
    Withdrawn,
    #[error("the command {command:?} {reason}")]
    Command {
        command: String,
        /// The failure, with the end of what the command wrote to its standard error.
        reason: String,
    },
}

impl SourceError {
    pub(crate) fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Unreadable { path: path.display().to_string(), reason: plain(error) }
    }
}

/// A sink that does not take the data. A file under its final name is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The output cannot be created or written.
    #[error("cannot write {path}: {reason}; check that the folder exists and has room")]
    Unwritable {
        /// File, `standard output` or address.
        path: String,
        reason: String,
    },
    /// A folder, where the path of a file is needed.
    #[error("{path} is a folder; name a file in it")]
    Folder { path: String },
    /// This sink cannot take this service or format.
    #[error("{what} cannot go to {to}; {instead}")]
    Unsuitable {
        what: String,
        to: String,
        /// A sink or form to use in its place.
        instead: &'static str,
    },
    /// A part file and the data added to it give an object with another digest.
    #[error("what is in {path} is not what the provider has (its SHA-256 differs), so it was removed; ask again")]
    Damaged { path: String },
    #[error("cannot write {path}: there is no room left on its disk; make some and ask again")]
    Full { path: String },
    /// Two transfers write to the same file.
    #[error("another transfer is writing {path}; wait for its end or name another file")]
    InUse { path: String },
    /// The sender sent more bytes than it had announced.
    #[error("more came for {path} than the {length} bytes that were announced; ask another provider")]
    Overlong { path: String, length: u64 },
    /// The sender sent more bytes than an object may have.
    #[error("the object is larger than {limit_bytes} bytes; write it to a file")]
    TooLarge { limit_bytes: usize },
}

impl SinkError {
    pub fn failed(path: impl Into<String>, error: &std::io::Error) -> Self {
        Self::unwritable(path, error)
    }

    pub(crate) fn unwritable(path: impl Into<String>, error: &std::io::Error) -> Self {
        if matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) {
            return Self::Full { path: path.into() };
        }
        Self::Unwritable { path: path.into(), reason: plain(error) }
    }
}

/// An I/O error for people: without "(os error 2)".
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
