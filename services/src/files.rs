//! Reads of local files, off the runtime's threads and up to a limit.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

use crate::SourceError;

/// Runs blocking work on `path` on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let owned = path.to_owned();
    tokio::task::spawn_blocking(move || work(&owned))
        .await
        .unwrap_or_else(|error| Err(SourceError::unreadable(path, &Error::other(error))))
}

/// Opens a regular file only: a pipe would block the thread, and a device may have no end.
pub(crate) fn open(path: &Path) -> Result<File, SourceError> {
    let unreadable = |error: Error| SourceError::unreadable(path, &error);
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(Error::new(ErrorKind::InvalidInput, "it is no regular file")));
    }
    File::open(path).map_err(unreadable)
}

/// Reads a whole regular file of at most `limit_bytes`.
pub(crate) fn read(path: &Path, limit_bytes: usize) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(limit_bytes as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| SourceError::unreadable(path, &error))?;
    if bytes.len() > limit_bytes {
        return Err(SourceError::TooLarge { from: path.display().to_string(), limit_bytes });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_up_to_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(read(&path, 4), Ok(b"1234".to_vec()));
        assert!(matches!(read(&path, 3), Err(SourceError::TooLarge { limit_bytes: 3, .. })));
        assert!(matches!(read(&folder.path().join("none"), 3), Err(SourceError::Unreadable { .. })));
    }

    #[tokio::test]
    async fn endless_file_is_rejected() {
        for (service, text) in [("video", "file:/dev/zero"), ("track", "file:/dev/zero"), ("sensor", "file:/dev/zero")]
        {
            let spec = crate::SourceSpec::parse(service.parse().unwrap(), text).unwrap();
            let error = spec.check().await.unwrap_err().to_string();
            assert!(error.starts_with("cannot read /dev/zero: it is no regular file"), "{error}");
        }
    }
}
