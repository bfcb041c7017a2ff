//! Admission to the page: everybody on this machine, or whoever has the token, may see it.
//!
//! A person with the token opens the page as `/?token=…` once; the browser keeps it as a cookie of this address, which it sends along
//! for no other page. Programs send `Authorization: Bearer …`.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use rustls::ServerConfig;

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
    #[error("the system gives no random numbers: {0}")]
    Random(io::Error),
}

impl Token {
    /// A token that nobody else knows.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = [0; RANDOM_BYTES];
        let filled =
            std::fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
        filled.map_err(TokenError::Random)?;
        Ok(Self(data_encoding::HEXLOWER.encode(&bytes).into()))
    }

    /// The token of a file, which only its user may read; it is made if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written, or what is in it is easy to guess.
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::of_text(text.trim()).ok_or_else(|| TokenError::Weak(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path),
            Err(source) => Err(TokenError::Read { path: path.to_owned(), source }),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
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
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        own.len() == given.len() && own.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

/// The way to a page: its secret and its certificate, if it has some.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub token: Option<Token>,
    pub tls: Option<Arc<ServerConfig>>,
}

/// The outcome for a request to a page with a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Admitted,
    /// The token was right: the browser keeps this cookie and opens the page.
    Keep(String),
    Missing,
    Stranger,
}

impl Access {
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Checks a request to a page with this token, which listens at `bound`.
    pub(crate) fn check(&self, token: &Token, headers: &HeaderMap, uri: &Uri, bound: SocketAddr) -> Entry {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let name = format!("roost-{}=", bound.port());
        if uri.path() == "/"
            && let Some(given) = uri.query().and_then(|query| query.strip_prefix("token="))
        {
            let secure = if self.tls.is_some() { "; Secure" } else { "" };
            let cookie = format!("{name}{given}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}");
            return if token.is(given) { Entry::Keep(cookie) } else { Entry::Missing };
        }
        let host = text(header::HOST).unwrap_or_default();
        let own = format!("{}://{host}", self.scheme());
        if headers.contains_key(header::ORIGIN) && text(header::ORIGIN) != Some(&own) {
            return Entry::Stranger;
        }
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let mut cookies = text(header::COOKIE).unwrap_or_default().split("; ");
        let cookie = cookies.find_map(|cookie| cookie.strip_prefix(name.as_str()));
        if bearer.or(cookie).is_some_and(|given| token.is(given)) { Entry::Admitted } else { Entry::Missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn entry(uri: &str, headers: &[(&'static str, &str)]) -> Entry {
        let token = Token::of_text(TOKEN).unwrap();
        let headers = headers
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        Access::default().check(&token, &headers, &uri.parse().unwrap(), "0.0.0.0:7790".parse().unwrap())
    }

    #[test]
    fn the_token_opens_the_page() {
        let cookie = format!("other=1; roost-7790={TOKEN}");
        for (uri, headers, expected) in [
            ("/", &[][..], Entry::Missing),
            ("/?token=", &[], Entry::Missing),
            ("/?token=0123456789abcdeX", &[], Entry::Missing),
            ("/api/events?token=0123456789abcdef", &[], Entry::Missing),
            ("/", &[("cookie", &cookie[..])], Entry::Admitted),
            ("/", &[("cookie", "roost-7791=0123456789abcdef")], Entry::Missing),
            ("/api/events", &[("authorization", "Bearer 0123456789abcdef")], Entry::Admitted),
            ("/api/events", &[("authorization", "Basic 0123456789abcdef")], Entry::Missing),
            ("/", &[("cookie", &cookie), ("host", "uav1:7790"), ("origin", "http://uav1:7790")], Entry::Admitted),
            ("/", &[("cookie", &cookie), ("host", "uav1:7790"), ("origin", "http://evil.example")], Entry::Stranger),
            ("/", &[("cookie", &cookie), ("host", "uav1:7790"), ("origin", "null")], Entry::Stranger),
        ] {
            assert_eq!(entry(uri, headers), expected, "{uri} {headers:?}");
        }
        let Entry::Keep(cookie) = entry("/?token=0123456789abcdef", &[]) else { panic!("it is right") };
        assert!(cookie.contains("HttpOnly; SameSite=Strict") && !cookie.contains("Secure"), "{cookie}");
    }

    #[test]
    fn a_file_keeps_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::of_file(&path).unwrap();
        assert_eq!(Token::of_file(&path).unwrap().as_str(), made.as_str());
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "short\n").unwrap();
        assert!(matches!(Token::of_file(&path), Err(TokenError::Weak(_))));
    }
}
