//! What can go wrong with sources and sinks: one sentence each, that says
//! what is wrong and what to do.

use roost_proto::Service;

/// Why a text describes no source or sink. The writer of the text is at fault.
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

/// Why a source gives nothing, or nothing more. Nothing has changed on disk
/// or in the spec; opening it again is safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {reason}; check that it exists and that this user may read it")]
    Unreadable {
        /// Which.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// What was read is of another format.
    #[error("{from} gave no {expected}: {reason}")]
    Malformed {
        /// File, command or address.
        from: String,
        /// What it should be.
        expected: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// What was read is larger than it may be.
    #[error("{from} gave more than {limit_bytes} bytes; make it smaller")]
    TooLarge {
        /// File or command.
        from: String,
        /// The limit.
        limit_bytes: usize,
    },
    /// A file is not what it was when it was opened.
    #[error("{path} changed while it was being read; it can be asked for again")]
    Changed {
        /// Which.
        path: String,
    },
    /// A folder has no complete picture.
    #[error("{path} holds no complete JPEG; put a finished .jpg into it")]
    NoPicture {
        /// The folder.
        path: String,
    },
    /// A local port cannot be listened on.
    #[error("cannot listen on {address}: {reason}; choose a local address and a free port")]
    CannotListen {
        /// As written in the spec.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// A server cannot be reached or has hung up.
    #[error("lost {address}: {reason}; check that the program there is running")]
    Unreachable {
        /// As written in the spec.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// A live source is silent.
    #[error(
        "nothing usable came from {address} for {} s{}", .waited.as_secs(),
        if *malformed == 0 { "; check that its sender is running".to_owned() }
        else { format!(", only malformed data ({malformed} times); check what its sender sends") }
    )]
    Silent {
        /// As written in the spec.
        address: String,
        /// For how long it was waited.
        waited: std::time::Duration,
        /// How often something malformed came, since the source was opened.
        malformed: u64,
    },
    /// A command has failed.
    #[error("the command {command:?} {reason}")]
    Command {
        /// As written in the spec.
        command: String,
        /// How, with the end of what it wrote to its standard error.
        reason: String,
    },
}

impl SourceError {
    pub(crate) fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Unreadable { path: path.display().to_string(), reason: plain(error) }
    }
}

/// Why a sink does not take what arrives. A file under its final name is
/// untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The output cannot be created or written.
    #[error("cannot write {path}: {reason}; check that the folder exists and has room")]
    Unwritable {
        /// File, `standard output` or address.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// A folder where a file's name is wanted.
    #[error("{path} is a folder; name a file in it")]
    Folder {
        /// Which.
        path: String,
    },
    /// This sink cannot take this service or format.
    #[error("{what} cannot go to {to}; {instead}")]
    Unsuitable {
        /// Service or format.
        what: String,
        /// The sink.
        to: String,
        /// What to do.
        instead: &'static str,
    },
    /// What is there of an object, with what came of it, is another one.
    #[error("what is in {path} is not what the provider has (its SHA-256 differs), so it was removed; ask again")]
    Damaged {
        /// The part.
        path: String,
    },
    /// The disk is full.
    #[error("cannot write {path}: there is no room left on its disk; make some and ask again")]
    Full {
        /// The file.
        path: String,
    },
    /// Two transfers into one file.
    #[error("another transfer is writing {path}; wait for its end or name another file")]
    InUse {
        /// The part.
        path: String,
    },
    /// More came than was announced.
    #[error("more came for {path} than the {length} bytes that were announced; ask another provider")]
    Overlong {
        /// The part.
        path: String,
        /// What was announced, bytes.
        length: u64,
    },
    /// More came than an object may have.
    #[error("the object is larger than {limit_bytes} bytes; write it to a file")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
}

impl SinkError {
    /// What the system said on writing.
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

/// An I/O error without "(os error 2)", for people.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
