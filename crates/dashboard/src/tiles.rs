//! The tiles of a map, in a PMTiles file, which the page reads in parts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The beginning of a file of version 3, the only one that the page reads.
const MAGIC: &[u8; 8] = b"PMTiles\x03";

/// The longest part of the file in one answer.
const MAX_PART_BYTES: u64 = 4 * 1024 * 1024;

/// An open PMTiles file, of which a page asks for parts.
#[derive(Clone, Debug)]
pub struct Tiles {
    file: Arc<File>,
    length: u64,
}

/// A file has no tiles that the page can show.
#[derive(Debug, thiserror::Error)]
pub enum TilesError {
    /// The file that cannot be read, and the reason.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, io::Error),
    /// The file that is of another kind, or of another version.
    #[error("{0} is no PMTiles file of version 3: make one with `pmtiles convert` or `pmtiles extract`")]
    Kind(PathBuf),
}

impl Tiles {
    /// Opens a file and looks at its beginning.
    ///
    /// # Errors
    /// Fails for a file that cannot be read, and for one of another kind.
    pub fn open(path: &Path) -> Result<Self, TilesError> {
        let failed = |error| TilesError::Read(path.to_owned(), error);
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut magic = [0; MAGIC.len()];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) if magic == *MAGIC => Ok(Self { file: Arc::new(file), length }),
            Ok(()) => Err(TilesError::Kind(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(TilesError::Kind(path.to_owned())),
            Err(error) => Err(failed(error)),
        }
    }

    /// Answers with the part of the file that a request names.
    pub(crate) async fn part(self, headers: &HeaderMap) -> Response {
        let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
        let Some((start, bytes)) = range.and_then(|range| span(range, self.length)) else {
            let whole = [(header::CONTENT_RANGE, format!("bytes */{}", self.length))];
            return (StatusCode::RANGE_NOT_SATISFIABLE, whole, "name a range of bytes in the file\n").into_response();
        };
        let range = format!("bytes {start}-{}/{}", start + bytes - 1, self.length);
        let read = tokio::task::spawn_blocking(move || {
            let mut part = vec![0; bytes as usize];
            self.file.read_exact_at(&mut part, start).map(|()| part)
        });
        match read.await {
            Ok(Ok(part)) => {
                let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
                (StatusCode::PARTIAL_CONTENT, [kind, (header::CONTENT_RANGE, range)], part).into_response()
            }
            // Somebody has made the file shorter.
            _ => (StatusCode::BAD_GATEWAY, "the file of tiles cannot be read any more\n").into_response(),
        }
    }
}

/// The start and the length of a range such as `bytes=0-16383` in a file of this length.
fn span(range: &str, length: u64) -> Option<(u64, u64)> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let start: u64 = start.parse().ok().filter(|start| *start < length)?;
    let last = length - 1;
    let end = if end.is_empty() { last } else { end.parse::<u64>().ok()?.min(last) };
    let bytes = end.checked_sub(start)? + 1;
    Some((start, bytes.min(MAX_PART_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_in_the_file() {
        for (range, expected) in [
            ("bytes=0-99", Some((0, 100))),
            ("bytes=900-5000", Some((900, 100))),
            ("bytes=5-", Some((5, 995))),
            ("bytes=999-999", Some((999, 1))),
            ("bytes=1000-1001", None),
            ("bytes=9-3", None),
            ("bytes=-5", None),
            ("bytes=0-1,5-6", None),
            ("bytes=a-b", None),
            ("bytes=18446744073709551615-", None),
            ("items=0-1", None),
        ] {
            assert_eq!(span(range, 1000), expected, "{range}");
        }
        assert_eq!(span("bytes=0-", u64::MAX), Some((0, MAX_PART_BYTES)));
        assert_eq!(span("bytes=0-", 0), None);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(Tiles::open(Path::new("/dev/null")), Err(TilesError::Kind(_))));
        assert!(matches!(Tiles::open(Path::new("/nowhere")), Err(TilesError::Read(..))));
        assert!(matches!(Tiles::open(Path::new("Cargo.toml")), Err(TilesError::Kind(_))));
    }
}
