//! Values of flags that have no type of their own in the core.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_wire::NodeSelector;
use roost_wire::messages::MAX_PARAMS_BYTES;

/// The longest time that a flag takes.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads a time with its unit: `30s`, `250ms`, `1m 30s`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|_| format!("{text:?} is not a time: expected a number and its unit, such as 30s or 250ms"))?;
    if time.is_zero() || time > MAX_TIME {
        return Err(format!("{text:?} is out of range: expected more than nothing and at most 24h"));
    }
    Ok(time)
}

/// Reads the parameters of a request: a text, or `@FILE` with it.
pub(super) fn params(text: &str) -> Result<String, String> {
    let params = match text.strip_prefix('@') {
        Some(file) => read_params(file).map_err(|error| format!("cannot read {file}: {error}"))?,
        None => text.to_owned(),
    };
    if params.len() > MAX_PARAMS_BYTES {
        return Err(format!("parameters have at most {MAX_PARAMS_BYTES} bytes, and these have more: use a call"));
    }
    Ok(params)
}

fn read_params(file: &str) -> io::Result<String> {
    let mut params = String::new();
    File::open(file)?.take(MAX_PARAMS_BYTES as u64 + 1).read_to_string(&mut params)?;
    Ok(params)
}

/// Reads the end of a delivery, a time from now or a date, as Unix seconds. The daemon says what is too late or too far.
pub(super) fn end(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time to come: expected such as 24h, 7d or 2030-01-31T12:00:00Z");
    let now = SystemTime::now();
    let end = match humantime::parse_duration(text) {
        Ok(time) => now.checked_add(time).ok_or_else(wrong)?,
        Err(_) => humantime::parse_rfc3339_weak(text).map_err(|_| wrong())?,
    };
    Ok(end.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// Reads the name, the id or the beginning of the id of a node.
pub(super) fn parse_selector(text: &str) -> Result<NodeSelector, String> {
    match text.parse::<NodeSelector>() {
        Ok(selector) if !selector.is_everybody() => Ok(selector),
        Ok(_) => Err("it is empty: expected a node's name, its id, or the beginning of its id".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The longest validity of a certificate.
const MAX_VALIDITY: Duration = Duration::from_secs(50 * 366 * 24 * 60 * 60);

/// Reads the validity of a certificate: `30d`, `1y`.
pub(super) fn validity(text: &str) -> Result<Duration, String> {
    let validity = humantime::parse_duration(text)
        .map_err(|_| format!("{text:?} is not a time: expected a number and its unit, such as 30d or 1y"))?;
    if validity.is_zero() || validity > MAX_VALIDITY {
        return Err(format!("{text:?} is out of range: expected more than nothing and at most 50y"));
    }
    Ok(validity)
}

/// Reads the address of the authority's service: `tls://0.0.0.0:7703`.
pub(super) fn tls_endpoint(text: &str) -> Result<SocketAddr, String> {
    let address = text.strip_prefix("tls://").and_then(|address| address.parse().ok());
    address.ok_or_else(|| format!("{text:?} is not an address to listen on: expected tls://ADDRESS:PORT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_duration_or_date() {
        assert_eq!(end("2030-01-31T12:00:00Z"), Ok(1_896_091_200));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(end("24h").is_ok_and(|end| (86_400..86_460).contains(&(end - now))));
        assert!(end("tomorrow").unwrap_err().contains("expected such as 24h"));
    }

    #[test]
    fn time_requires_unit_and_bound() {
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        for wrong in ["", "30", "soon", "0s", "25h"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
