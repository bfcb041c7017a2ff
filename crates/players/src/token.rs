//! The secret of those who may see a page or play video.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::random;

/// The least length of a token, characters.
const LEAST: usize = 16;

/// Random bytes of a token that is made here.
const RANDOM_BYTES: usize = 16;

/// The secret of those who may see the page.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read the token in {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write a token to {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the token in {} has less than {LEAST} characters, or others than letters, digits, - and _: remove the \
             file, and a new one is made", .0.display())]
    Weak(PathBuf),
    #[error("other users may read the token in {}: forbid it with chmod 600", .0.display())]
    Open(PathBuf),
    #[error("the system gives no random numbers: {0}")]
    Random(io::Error),
}

impl Token {
    /// A token that nobody else knows.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn random() -> Result<Self, TokenError> {
        let bytes: [u8; RANDOM_BYTES] = random::bytes().map_err(TokenError::Random)?;
        Ok(Self(data_encoding::HEXLOWER.encode(&bytes).into()))
    }

    /// The token of a file, which only its user may read; it is made if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written, or what is in it is easy to guess.
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        match std::fs::read_to_string(path) {
            Ok(_) if is_open(path) => Err(TokenError::Open(path.to_owned())),
            Ok(text) => Self::parse(text.trim()).ok_or_else(|| TokenError::Weak(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path),
            Err(source) => Err(TokenError::Read { path: path.to_owned(), source }),
        }
    }

    /// A token of letters, digits, `-` and `_`, which is not short.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (is_plain && text.len() >= LEAST).then(|| Self(text.into()))
    }

    fn make(path: &Path) -> Result<Self, TokenError> {
        let token = Self::random()?;
        let mut options = std::fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
        let written = options.open(path).and_then(|mut file| writeln!(file, "{}", token.0));
        written.map_err(|source| TokenError::Write { path: path.to_owned(), source })?;
        Ok(token)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not tell where they differ.
    pub fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        own.len() == given.len() && own.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

/// True if others than its user may read or write the file.
fn is_open(path: &Path) -> bool {
    let mode = std::fs::metadata(path).map(|metadata| std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()));
    mode.is_ok_and(|mode| mode & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_keeps_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::of_file(&path).unwrap();
        assert_eq!(Token::of_file(&path).unwrap().as_str(), made.as_str());
        let set_mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        set_mode(0o640);
        assert!(matches!(Token::of_file(&path), Err(TokenError::Open(_))));
        set_mode(0o600);
        std::fs::write(&path, "short\n").unwrap();
        assert!(matches!(Token::of_file(&path), Err(TokenError::Weak(_))));
    }
}
