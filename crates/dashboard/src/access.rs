//! Admission to the page: everybody on this machine, or whoever has the token, may see it.
//!
//! A person with the token opens the page as `/?token=…` once. The browser keeps it as a cookie of this host, which it
//! sends with requests of this host's pages only. Programs send `Authorization: Bearer …`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use roost_players::Token;
use rustls::ServerConfig;

use crate::guard;

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
        // Browsers accept this name over TLS alone, and from this very host.
        let prefix = if self.tls.is_some() { "__Host-" } else { "" };
        let name = format!("{prefix}roost-{}=", bound.port());
        if uri.path() == "/"
            && let Some(given) = uri.query().and_then(|query| query.strip_prefix("token="))
        {
            let secure = if self.tls.is_some() { "; Secure" } else { "" };
            let cookie = format!("{name}{given}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}");
            return if token.is(given.as_bytes()) { Entry::Keep(cookie) } else { Entry::Missing };
        }
        let host = text(header::HOST).unwrap_or_default();
        let own = format!("{}://{host}", self.scheme());
        let is_strange = headers.contains_key(header::ORIGIN) && text(header::ORIGIN) != Some(&own);
        if is_strange || guard::is_from_elsewhere(headers) && uri.path() != "/" {
            return Entry::Stranger;
        }
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let mut cookies = text(header::COOKIE).unwrap_or_default().split("; ");
        let cookie = cookies.find_map(|cookie| cookie.strip_prefix(name.as_str()));
        if bearer.or(cookie).is_some_and(|given| token.is(given.as_bytes())) { Entry::Admitted } else { Entry::Missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn entry(uri: &str, headers: &[(&'static str, &str)]) -> Entry {
        let token = Token::parse(TOKEN).unwrap();
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
            ("/", &[("cookie", &cookie), ("sec-fetch-site", "cross-site")], Entry::Admitted),
            ("/api/object", &[("cookie", &cookie), ("sec-fetch-site", "same-site")], Entry::Stranger),
            ("/api/object", &[("cookie", &cookie), ("sec-fetch-site", "same-origin")], Entry::Admitted),
        ] {
            assert_eq!(entry(uri, headers), expected, "{uri} {headers:?}");
        }
        let Entry::Keep(cookie) = entry("/?token=0123456789abcdef", &[]) else { panic!("it is right") };
        assert!(cookie.contains("HttpOnly; SameSite=Strict") && !cookie.contains("Secure"), "{cookie}");
    }
}
