//! The page answers this machine's browsers, under its own name, and no page of somebody else's.
//!
//! A web page of a stranger can make a browser on this machine send requests to loopback addresses, also under a name of
//! its own that resolves there. Its requests then carry that name as their host, or its origin, and are refused.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderValue, header};

/// The policy of the page's content: everything comes from here, and nothing is sent elsewhere. Map tiles are drawn by a
/// worker of the page's own, on images that it makes itself.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' \
                              data: blob:; connect-src 'self'; worker-src 'self'; font-src 'self'; base-uri 'none'; \
                              form-action 'none'; frame-ancestors 'none'";

/// A request that no page of this server's sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stranger {
    #[error("this page answers to localhost only: open the address that was printed")]
    Host,
    #[error("this page answers to no link or script of another page: type its address into the browser yourself")]
    Origin,
}

/// Checks the host and the origin of a request to a server at `bound`.
///
/// # Errors
/// Says which of them is not this server's.
pub(crate) fn check(headers: &HeaderMap, bound: SocketAddr) -> Result<(), Stranger> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let (address, port) = (bound.to_string(), format!(":{}", bound.port()));
    let names = [address.as_str(), &format!("localhost{port}")];
    // Browsers leave out the usual port of HTTP.
    let is_short = |name: &str, host: &str| bound.port() == 80 && name.strip_suffix(&port) == Some(host);
    let is_own = |host: &str| names.iter().any(|name| *name == host || is_short(name, host));
    if !text(header::HOST).is_some_and(is_own) {
        return Err(Stranger::Host);
    }
    let is_strange = |origin: &str| !origin.strip_prefix("http://").is_some_and(is_own);
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let from_elsewhere = site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"));
    if from_elsewhere || text(header::ORIGIN).is_some_and(is_strange) {
        return Err(Stranger::Origin);
    }
    Ok(())
}

pub(crate) fn headers() -> [(header::HeaderName, HeaderValue); 5] {
    let name = header::HeaderName::from_static;
    [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (name("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (name("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked_at(bound: &str, headers: &[(&'static str, &str)]) -> Result<(), Stranger> {
        let headers = headers
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        check(&headers.collect(), bound.parse().unwrap())
    }

    fn checked(headers: &[(&'static str, &str)]) -> Result<(), Stranger> {
        checked_at("127.0.0.1:7790", headers)
    }

    #[test]
    fn usual_port_and_ipv6_are_known() {
        for (bound, host, is_own) in [
            ("127.0.0.1:80", "127.0.0.1", true),
            ("127.0.0.1:80", "localhost", true),
            ("[::1]:80", "[::1]", true),
            ("[::1]:7790", "[::1]:7790", true),
            ("[::1]:7790", "localhost:7790", true),
            ("127.0.0.1:80", "evil.example", false),
            ("127.0.0.1:80", "", false),
            ("127.0.0.1:8080", "localhost", false),
        ] {
            assert_eq!(checked_at(bound, &[("host", host)]).is_ok(), is_own, "{host} at {bound}");
        }
    }

    #[test]
    fn strangers_are_refused() {
        for (headers, expected) in [
            (&[("host", "127.0.0.1:7790")][..], Ok(())),
            (&[("host", "localhost:7790")], Ok(())),
            (&[("host", "localhost:7790"), ("origin", "http://localhost:7790")], Ok(())),
            (&[("host", "localhost:7790"), ("sec-fetch-site", "none")], Ok(())),
            (&[], Err(Stranger::Host)),
            (&[("host", "localhost")], Err(Stranger::Host)),
            (&[("host", "evil.example:7790")], Err(Stranger::Host)),
            (&[("host", "127.0.0.1:7790.evil.example")], Err(Stranger::Host)),
            (&[("host", "localhost:7790"), ("origin", "http://evil.example")], Err(Stranger::Origin)),
            (&[("host", "localhost:7790"), ("origin", "null")], Err(Stranger::Origin)),
            (&[("host", "localhost:7790"), ("origin", "https://localhost:7790")], Err(Stranger::Origin)),
            (&[("host", "localhost:7790"), ("sec-fetch-site", "cross-site")], Err(Stranger::Origin)),
            (&[("host", "localhost:7790"), ("sec-fetch-site", "same-site")], Err(Stranger::Origin)),
        ] {
            assert_eq!(checked(headers), expected, "{headers:?}");
        }
    }
}
