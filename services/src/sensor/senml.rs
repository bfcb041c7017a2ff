//! A checker for SenML packs in JSON (RFC 8428).

use serde::Deserialize;

pub const MAX_RECORDS: usize = 100_000;

/// The version of SenML that this understands (section 4.4).
const VERSION: u64 = 10;

/// Fields of a record, section 4. Unknown fields of extensions are accepted.
#[derive(Deserialize)]
struct SenmlRecord {
    bn: Option<String>,
    bt: Option<f64>,
    bv: Option<f64>,
    bs: Option<f64>,
    bver: Option<u64>,
    n: Option<String>,
    v: Option<f64>,
    vs: Option<String>,
    vb: Option<bool>,
    vd: Option<String>,
    s: Option<f64>,
    t: Option<f64>,
    u: Option<String>,
    bu: Option<String>,
    ut: Option<f64>,
    #[serde(flatten)]
    other: serde_json::Map<String, serde_json::Value>,
}

/// Checks a pack and returns its number of records.
///
/// # Errors
/// The pack is not valid; the message names the record if there is one.
pub fn check(pack: impl AsRef<[u8]>) -> Result<usize, String> {
    let records: Vec<SenmlRecord> = serde_json::from_slice(pack.as_ref())
        .map_err(|error| format!("it is not a JSON array of records ({error})"))?;
    if records.is_empty() || records.len() > MAX_RECORDS {
        return Err(format!("it has {} records, and a pack has 1 to {MAX_RECORDS}", records.len()));
    }
    let mut base = String::new();
    for (index, record) in records.iter().enumerate() {
        if let Some(name) = &record.bn {
            base.clone_from(name);
        }
        check_record(record, &base).map_err(|reason| format!("record {}: {reason}", index + 1))?;
    }
    if !records.iter().any(SenmlRecord::has_value) {
        return Err("no record has a value".to_owned());
    }
    Ok(records.len())
}

fn check_record(record: &SenmlRecord, base: &str) -> Result<(), String> {
    if record.bver.is_some_and(|version| version > VERSION) {
        return Err(format!("its version is above {VERSION}"));
    }
    // Section 4.4: a label that ends in "_" must be understood or the pack refused.
    if let Some(label) = record.other.keys().find(|label| label.ends_with('_')) {
        return Err(format!("it requires the unknown field {label:?}"));
    }
    let values = [record.v.is_some(), record.vs.is_some(), record.vb.is_some(), record.vd.is_some()];
    let count = values.into_iter().filter(|present| *present).count();
    if count > 1 {
        return Err("it has more than one value".to_owned());
    }
    if count == 0 && !record.has_value() {
        return if record.is_base_only() { Ok(()) } else { Err("it has no value".to_owned()) };
    }
    check_name(base, record.n.as_deref().unwrap_or_default())
}

/// Section 4.5.1: the name is the base name followed by the record's name.
fn check_name(base: &str, name: &str) -> Result<(), String> {
    let mut letters = base.bytes().chain(name.bytes());
    let Some(first) = letters.next() else {
        return Err("it has no name".to_owned());
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-:./_".contains(&byte);
    if !first.is_ascii_alphanumeric() || !letters.all(allowed) {
        return Err(format!("its name \"{base}{name}\" has other characters than A-Z a-z 0-9 - : . / _"));
    }
    Ok(())
}

impl SenmlRecord {
    /// True if the record has a value or a sum, or a base value in place of one.
    const fn has_value(&self) -> bool {
        self.v.is_some()
            || self.vs.is_some()
            || self.vb.is_some()
            || self.vd.is_some()
            || self.s.is_some()
            || self.bv.is_some()
            || self.bs.is_some()
    }

    /// True if the record only sets base fields for later records.
    const fn is_base_only(&self) -> bool {
        let base = self.bn.is_some() || self.bt.is_some() || self.bu.is_some() || self.bver.is_some();
        base && self.n.is_none() && self.t.is_none() && self.u.is_none() && self.ut.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_standard_pass() {
        for (pack, records) in [
            (r#"[{"n":"urn:dev:ow:10e2073a01080063","u":"Cel","v":23.1}]"#, 1),
            (
                r#"[{"bn":"urn:dev:ow:10e2073a01080063:","n":"voltage","u":"V","v":120.1},{"n":"current","u":"A","v":1.2}]"#,
                2,
            ),
            (
                r#"[{"bn":"urn:dev:ow:10e2073a0108006:","bt":1.276020076001e+09,"bu":"A","bver":5,"n":"voltage","u":"V","v":120.1},{"n":"current","t":-5,"v":1.2}]"#,
                2,
            ),
            (
                r#"[{"bn":"urn:dev:ow:10e2073a01080063:"},{"n":"temp","u":"Cel","v":23.1},{"n":"label","vs":"Machine Room"},{"n":"open","vb":false},{"n":"nfc","vd":"aGkgCg"}]"#,
                5,
            ),
        ] {
            assert_eq!(check(pack), Ok(records));
        }
    }

    #[test]
    fn invalid_pack_gives_reason() {
        for (pack, reason) in [
            ("", "not a JSON array"),
            ("{}", "not a JSON array"),
            ("[]", "0 records"),
            (r#"[{"v":1}]"#, "no name"),
            (r#"[{"n":"a"}]"#, "no value"),
            (r#"[{"bn":"a"}]"#, "no record has a value"),
            (r#"[{"n":"a","v":1,"vs":"x"}]"#, "more than one value"),
            (r#"[{"n":"a b","v":1}]"#, "other characters"),
            (r#"[{"n":"_a","v":1}]"#, "other characters"),
            (r#"[{"n":"a","v":1,"bver":11}]"#, "version"),
            (r#"[{"n":"a","v":1,"must_":1}]"#, "must_"),
            (r#"[{"n":"a","v":"1"}]"#, "not a JSON array of records"),
            (r#"[{"n":"a","v":1},{"v":1,"n":"","bn":""}]"#, "record 2"),
        ] {
            let error = check(pack).unwrap_err();
            assert!(error.contains(reason), "{pack}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(bytes);
        }

        #[test]
        fn never_panics_on_json(text in r#"\[(\{"(n|bn|v|vs|s|x_)":("a"|1|null|\[\[)\},?){0,3}\]?"#) {
            let _ = check(text);
        }
    }
}
