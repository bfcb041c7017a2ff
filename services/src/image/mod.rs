//! Image: a picture.
//!
//! | source | what it does |
//! |---|---|
//! | `file:PATH` | the file, of any size and format, as it is at the time of the request |
//! | `dir:FOLDER` | the newest JPEG in the folder; `?pick=next` gives them one after the other, by name, over and over |
//! | `command:COMMAND` | what the command (run by `sh -c`) writes to its standard output, a JPEG or a PNG: `command:fswebcam -q -` |
//!
//! A picture that is still being written (it has no end, or has just changed) is passed over. A picture larger
//! than a megabyte stays on disk and is read chunk by chunk while it is sent.

pub mod jpeg;

mod folder;

use std::path::PathBuf;

use bytes::Bytes;

use crate::options::Options;
use crate::stored::{self, Digests};
use crate::{MAX_HELD_BYTES, OpenedSource, SourceError, StoredFile, command, files, format};
use folder::{Cursor, Pick};

pub(crate) const SYNTAX: &str = "synthetic, file:PATH, dir:FOLDER, dir:FOLDER?pick=newest|next or command:COMMAND";

/// A larger picture is not held in memory while it is sent, bytes.
const MAX_WHOLE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) enum ImageSource {
    File { path: PathBuf, digests: Digests },
    Folder { path: PathBuf, pick: Pick, cursor: Cursor, digests: Digests },
    Command(String),
}

impl ImageSource {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(command) = text.strip_prefix("command:") {
            let command = command.trim();
            return if command.is_empty() {
                Err("it names no command".to_owned())
            } else {
                Ok(Self::Command(command.to_owned()))
            };
        }
        if let Some(path) = text.strip_prefix("file:") {
            let path = PathBuf::from(path.trim());
            let named = !path.as_os_str().is_empty();
            return named
                .then(|| Self::File { path, digests: Digests::default() })
                .ok_or("it names no file".to_owned());
        }
        let mut options = Options::split(text);
        let pick = match options.take_value("pick") {
            None | Some("newest") => Pick::Newest,
            Some("next") => Pick::Next,
            Some(_) => return Err("its pick is neither newest nor next".to_owned()),
        };
        match options.finish()?.strip_prefix("dir:") {
            None => Err("it is unknown".to_owned()),
            Some("") => Err("it names no folder".to_owned()),
            Some(path) => Ok(Self::Folder {
                path: PathBuf::from(path),
                pick,
                cursor: Cursor::default(),
                digests: Digests::default(),
            }),
        }
    }

    pub(crate) async fn open(&self) -> Result<OpenedSource, SourceError> {
        match self {
            Self::File { path, digests } => {
                let stored = StoredFile::open(path, digests).await?;
                let format = format_of(&stored.read(0, 4).await?);
                give(stored, format).await
            }
            Self::Folder { path, pick, cursor, digests } => folder::open(path, *pick, cursor, digests).await,
            Self::Command(command) => {
                let bytes = command::run(command, MAX_HELD_BYTES).await?;
                let format = media_type(&bytes).ok_or_else(|| SourceError::Malformed {
                    from: format!("the command {command:?}"),
                    expected: "complete JPEG or PNG",
                    reason: "its output does not begin and end like one".to_owned(),
                })?;
                Ok(OpenedSource::Object { bytes: Bytes::from(bytes), format: format.to_owned() })
            }
        }
    }

    /// Computes ahead of time the digest of a large file.
    pub(crate) async fn prepare(&self) {
        if let Self::File { path, digests } = self {
            // An error here comes again when somebody requests the file.
            let _ = StoredFile::open(path, digests).await;
        }
    }

    /// Checks that the file or folder can be read; a folder may still be empty.
    pub(crate) async fn check(&self) -> Result<(), SourceError> {
        match self {
            Self::File { path, .. } => files::blocking(path, |path| stored::opened(path).map(drop)).await,
            Self::Folder { path, .. } => {
                let folder = tokio::fs::read_dir(path).await;
                folder.map(drop).map_err(|error| SourceError::unreadable(path, &error))
            }
            Self::Command(_) => Ok(()),
        }
    }
}

/// Returns a small file as bytes and a large one as a [`StoredFile`].
async fn give(file: StoredFile, format: &str) -> Result<OpenedSource, SourceError> {
    let format = format.to_owned();
    if file.length() > MAX_WHOLE_BYTES {
        return Ok(OpenedSource::Stored { file, format });
    }
    Ok(OpenedSource::Object { bytes: file.read(0, file.length()).await?, format })
}

/// Tells the media type from the first bytes of a file.
fn format_of(head: &[u8]) -> &'static str {
    match head {
        [0xff, 0xd8, 0xff, ..] => format::JPEG,
        b"\x89PNG" => format::PNG,
        b"II*\0" | b"MM\0*" | b"II+\0" | b"MM\0+" => format::TIFF,
        _ => format::BYTES,
    }
}

/// Tells the media type of a complete picture.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
    if jpeg::is_complete(bytes) {
        return Some(format::JPEG);
    }
    (bytes.starts_with(PNG) && bytes.ends_with(b"IEND\xae\x42\x60\x82")).then_some(format::PNG)
}

#[cfg(test)]
mod tests;
