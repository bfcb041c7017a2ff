//! The addresses of streams: `/video/27,92`, `/video/from/uav1`, `/acme/cam:stream/any`.

use roost_wire::{NodeSelector, Service};

use crate::Selection;

#[derive(Debug, thiserror::Error)]
pub(super) enum AddressError {
    #[error("an address is rtsp://HOST:PORT/SERVICE/PLACE, /SERVICE/from/NODE or /SERVICE/any, as in /video/27,92")]
    Form,
    #[error("it names no service: {0}")]
    Service(String),
    #[error("it names no node: {0}")]
    Node(String),
}

pub(super) fn parse(path: &str) -> Result<Selection, AddressError> {
    let path = decoded(path.trim_matches('/')).ok_or(AddressError::Form)?;
    let (front, last) = path.rsplit_once('/').ok_or(AddressError::Form)?;
    if last.is_empty() || front.is_empty() {
        return Err(AddressError::Form);
    }
    let service = |text: &str| text.parse::<Service>().map_err(|error| AddressError::Service(error.to_string()));
    if let Some(text) = front.strip_suffix("/from") {
        let provider: NodeSelector = last.parse().map_err(|error| AddressError::Node(format!("{error}")))?;
        return Ok(Selection { service: service(text)?, provider: Some(provider), near: None });
    }
    let near = (last != "any").then(|| last.to_owned());
    Ok(Selection { service: service(front)?, provider: None, near })
}

/// The text of a path with `%20` and the like.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = path.bytes();
    let mut out = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).ok().filter(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_name_service_and_place() {
        for (path, expected) in [
            ("/video/27,92", Some(("video", None, Some("27,92")))),
            ("/video/from/uav1", Some(("video", Some("uav1"), None))),
            ("/video/any", Some(("video", None, None))),
            ("/video/any/", Some(("video", None, None))),
            ("/video%23bow/47.1%208.2", Some(("video#bow", None, Some("47.1 8.2")))),
            ("/acme/cam:stream/from/uav1", Some(("acme/cam:stream", Some("uav1"), None))),
            ("/video", None),
            ("/", None),
            ("/nonsense/any", None),
            ("/video/%2", None),
            ("/video/%0a", None),
        ] {
            let read = parse(path).ok();
            let expected = expected.map(|(service, provider, near)| Selection {
                service: service.parse().unwrap(),
                provider: provider.map(|name| name.parse().unwrap()),
                near: near.map(str::to_owned),
            });
            assert_eq!(read, expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn addresses_never_panic(path in ".{0,60}") {
            let _ = parse(&path);
        }
    }
}
