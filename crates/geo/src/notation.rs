//! Notations of latitude and longitude: decimal degrees, `geo:` URIs, and degrees with minutes and seconds.

use crate::error::PlaceError;

/// A latitude and a longitude as they were written, before anybody asks if they are on the Earth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Written {
    pub lat: f64,
    pub lon: f64,
    pub altitude_m: Option<f64>,
    pub accuracy_m: Option<f64>,
}

/// Reads `47.3769,8.5417`, in which spaces may stand around the numbers.
pub(crate) fn decimal(text: &str) -> Option<Written> {
    let (lat, lon) = text.split_once(',')?;
    Some(Written { lat: number(lat)?, lon: number(lon)?, ..Written::default() })
}

/// Reads what follows `geo:` in a URI of RFC 5870: `47.3769,8.5417,408;crs=wgs84;u=20`. Parameters that the RFC does
/// not name are skipped, as it demands.
pub(crate) fn geo_uri(text: &str) -> Result<Written, PlaceError> {
    let wrong = || PlaceError::Form(format!("geo:{text}"));
    let mut parts = text.split(';');
    let coordinates: Option<Vec<f64>> = parts.next().unwrap_or_default().split(',').map(number).collect();
    let mut written = match coordinates.as_deref() {
        Some([lat, lon]) => Written { lat: *lat, lon: *lon, ..Written::default() },
        Some([lat, lon, meters]) => Written { lat: *lat, lon: *lon, altitude_m: Some(*meters), accuracy_m: None },
        _ => return Err(wrong()),
    };
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name.to_ascii_lowercase().as_str() {
            "crs" if !value.eq_ignore_ascii_case("wgs84") => {
                return Err(PlaceError::ReferenceSystem(value.to_owned()));
            }
            "u" => written.accuracy_m = Some(number(value).filter(|meters| *meters >= 0.0).ok_or_else(wrong)?),
            _ => {}
        }
    }
    Ok(written)
}

/// Reads `47°22'36.8"N 8°32'30"E`, also with spaces or colons between the parts, and `47.3769N 8.5417E`.
pub(crate) fn degrees_with_letters(text: &str) -> Option<Written> {
    let text = text.to_uppercase();
    let end = text.find(['N', 'S'])?;
    let (north, rest) = text.split_at(end);
    let east = rest.get(1..)?.trim().trim_start_matches(',').trim();
    let lat = sexagesimal(north)?;
    let lon = sexagesimal(east.strip_suffix(['E', 'W'])?)?;
    let lat = if rest.starts_with('S') { -lat } else { lat };
    let lon = if east.ends_with('W') { -lon } else { lon };
    Some(Written { lat, lon, ..Written::default() })
}

/// Degrees, minutes and seconds without a sign, of which the last two may be missing.
fn sexagesimal(text: &str) -> Option<f64> {
    let is_between = |letter: char| letter.is_whitespace() || "°º'’′\"”″:".contains(letter);
    let parts: Option<Vec<f64>> = text.split(is_between).filter(|part| !part.is_empty()).map(number).collect();
    let parts = parts.filter(|parts| parts.iter().all(|part| *part >= 0.0))?;
    let is_sixtieth = |part: f64| part < 60.0;
    match *parts {
        [degrees] => Some(degrees),
        [degrees, minutes] if is_sixtieth(minutes) => Some(degrees + minutes / 60.0),
        [degrees, minutes, seconds] if is_sixtieth(minutes) && is_sixtieth(seconds) => {
            Some(degrees + minutes / 60.0 + seconds / 3600.0)
        }
        _ => None,
    }
}

/// A number of digits, sign and point; Rust also reads `inf` and `1e5`, which nobody means as degrees.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
    text.parse().ok().filter(|_| is_plain)
}
