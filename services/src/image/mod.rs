//! Image: a picture.
//!
//! | source | what it does |
//! |---|---|
//! | `dir:FOLDER` | the newest JPEG in the folder; `?pick=next` gives them one after the other, by name, over and over |
//! | `command:COMMAND` | what the command (run by `sh -c`) writes to its standard output, a JPEG or a PNG: `command:fswebcam -q -` |
//!
//! A file still being written (it has no end, or has just changed) is passed over.

pub mod jpeg;

mod folder;

use std::path::PathBuf;

use bytes::Bytes;

use crate::options::Options;
use crate::{MAX_OBJECT_BYTES, Opened, SourceError, command, format};
use folder::{Cursor, Pick};

pub(crate) const FORMS: &str = "synthetic, dir:FOLDER, dir:FOLDER?pick=newest|next or command:COMMAND";

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Folder { path: PathBuf, pick: Pick, cursor: Cursor },
    Command(String),
}

impl Source {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(command) = text.strip_prefix("command:") {
            let command = command.trim();
            return if command.is_empty() {
                Err("it names no command".to_owned())
            } else {
                Ok(Self::Command(command.to_owned()))
            };
        }
        let mut options = Options::split(text);
        let pick = match options.take("pick") {
            None | Some("newest") => Pick::Newest,
            Some("next") => Pick::Next,
            Some(_) => return Err("its pick is neither newest nor next".to_owned()),
        };
        match options.finish()?.strip_prefix("dir:") {
            None => Err("it is unknown".to_owned()),
            Some("") => Err("it names no folder".to_owned()),
            Some(path) => Ok(Self::Folder { path: PathBuf::from(path), pick, cursor: Cursor::default() }),
        }
    }

    pub(crate) async fn open(&self) -> Result<Opened, SourceError> {
        match self {
            Self::Folder { path, pick, cursor } => {
                let bytes = Bytes::from(folder::open(path, *pick, cursor).await?);
                Ok(Opened::Object { bytes, format: format::JPEG.to_owned() })
            }
            Self::Command(command) => {
                let bytes = command::run(command, MAX_OBJECT_BYTES).await?;
                let format = media_type(&bytes).ok_or_else(|| SourceError::Malformed {
                    from: format!("the command {command:?}"),
                    expected: "complete JPEG or PNG",
                    reason: "its output does not begin and end like one".to_owned(),
                })?;
                Ok(Opened::Object { bytes: Bytes::from(bytes), format: format.to_owned() })
            }
        }
    }

    /// The folder can be read; it may still be empty.
    pub(crate) async fn check(&self) -> Result<(), SourceError> {
        match self {
            Self::Folder { path, .. } => {
                let folder = tokio::fs::read_dir(path).await;
                folder.map(drop).map_err(|error| SourceError::unreadable(path, &error))
            }
            Self::Command(_) => Ok(()),
        }
    }
}

/// The media type of a complete picture.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
    if jpeg::is_complete(bytes) {
        return Some(format::JPEG);
    }
    (bytes.starts_with(PNG) && bytes.ends_with(b"IEND\xae\x42\x60\x82")).then_some(format::PNG)
}

#[cfg(test)]
mod tests;
