//! A sensor's report of 10 000 bytes: a SenML pack (RFC 8428).

use std::fmt::Write as _;

use bytes::Bytes;

const BYTES: usize = 10_000;

const MEASUREMENTS: u32 = 160;

/// Temperature and humidity over some minutes, and a note that fills the pack up.
pub(super) fn senml() -> Bytes {
    let mut pack = String::with_capacity(BYTES);
    pack.push_str(r#"[{"bn":"urn:dev:ops:roost-synthetic:","bt":1.7e9,"n":"battery","u":"%EL","v":87}"#);
    for index in 0..MEASUREMENTS {
        let (name, unit, value) = match index % 2 {
            0 => ("temperature", "Cel", 20.0 + f64::from(index % 30) / 10.0),
            _ => ("humidity", "%RH", 40.0 + f64::from(index % 50) / 5.0),
        };
        // Writing to a string cannot fail.
        let _ = write!(pack, r#",{{"n":"{name}","u":"{unit}","t":{index},"v":{value:.1}}}"#);
    }
    pack.push_str(r#",{"n":"note","vs":""#);
    let end = "\"}]";
    let padding = BYTES.saturating_sub(pack.len() + end.len());
    pack.extend(std::iter::repeat_n('.', padding));
    pack.push_str(end);
    Bytes::from(pack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_senml_of_exact_size() {
        let pack = senml();
        assert_eq!(pack.len(), BYTES);
        assert_eq!(crate::sensor::senml::check(&pack), Ok(usize::try_from(MEASUREMENTS).unwrap() + 2));
    }
}
