//! The page answers this machine's browsers, under its own name, and no page of somebody else's.
//!
//! A web page of a stranger can make a browser on this machine send requests to loopback addresses, also under a name of
//! its own that resolves there. Its requests then carry that name as their host, or its origin, and are refused.

use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};

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
    #[error(
        "this page answers to no script of another page, and to links only to its beginning: open its address without what comes after the port"
    )]
    Origin,
}

/// Checks the host and the origin of a request to a server at `bound`. A link of another page may open the page, which
/// has nothing in it yet and loads the rest by itself; the other page sees nothing of it.
///
/// # Errors
/// Says which of them is not this server's.
pub(crate) fn check_request(request: &Request, bound: SocketAddr) -> Result<(), Stranger> {
    let is_opening = request.method() == Method::GET && request.uri() == "/" && is_navigation(request.headers());
    match check(request.headers(), bound) {
        Err(Stranger::Origin) if is_opening => Ok(()),
        verdict => verdict,
    }
}

/// True if the browser opens a page in a window of its own, for a link: such a request has no origin.
fn is_navigation(headers: &HeaderMap) -> bool {
    let has = |name: &str, expected: &str| headers.get(name).is_some_and(|value| value == expected);
    has("sec-fetch-mode", "navigate") && has("sec-fetch-dest", "document") && !headers.contains_key(header::ORIGIN)
}

fn check(headers: &HeaderMap, bound: SocketAddr) -> Result<(), Stranger> {
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
    if is_from_elsewhere(headers) || text(header::ORIGIN).is_some_and(is_strange) {
        return Err(Stranger::Origin);
    }
    Ok(())
}

/// True if the browser says that a page of another server made the request.
pub(crate) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"))
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
    fn link_opens_the_page_alone() {
        let link = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("sec-fetch-site", "cross-site")];
        let opened = |method: Method, target: &str, more: &[(&str, &str)]| {
            let request = Request::builder().method(method).uri(target).header("host", "127.0.0.1:7790");
            let all = link.iter().filter(|(name, _)| !more.iter().any(|(other, _)| other == name)).chain(more);
            let request = all.fold(request, |request, (name, value)| request.header(*name, *value));
            check_request(&request.body(axum::body::Body::empty()).unwrap(), "127.0.0.1:7790".parse().unwrap())
        };
        assert_eq!(opened(Method::GET, "/", &[]), Ok(()));
        assert_eq!(opened(Method::GET, "/", &[("sec-fetch-site", "same-site")]), Ok(()));
        for (method, target, more) in [
            (Method::POST, "/", &[][..]),
            (Method::HEAD, "/", &[]),
            (Method::GET, "/?a=b", &[]),
            (Method::GET, "/index.html", &[]),
            (Method::GET, "/api/history", &[]),
            (Method::GET, "/", &[("sec-fetch-dest", "iframe")]),
            (Method::GET, "/", &[("sec-fetch-dest", "image")]),
            (Method::GET, "/", &[("sec-fetch-mode", "no-cors")]),
            (Method::GET, "/", &[("origin", "http://evil.example")]),
        ] {
            assert_eq!(opened(method.clone(), target, more), Err(Stranger::Origin), "{method} {target} {more:?}");
        }
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
