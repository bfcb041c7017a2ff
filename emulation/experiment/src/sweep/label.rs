//! Values of a sweep as people read them, in names of folders and on pages.

use std::path::Path;

use toml::{Table, Value};

const VERBS: [&str; 8] = ["kill", "stop", "start", "freeze", "thaw", "down", "up", "change"];

/// The text of a value: `star-11` for `{ star = { nodes = 11 } }`, a file without its folder and extension, a fault as
/// `kill hub at 50%`.
pub(super) fn label(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let stem = Path::new(text).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            stem.filter(|_| [".toml", ".ns", ".tcl"].iter().any(|end| text.ends_with(end)))
                .unwrap_or_else(|| text.clone())
        }
        Value::Table(table) => fault(table).unwrap_or_else(|| {
            let parts = table.iter().map(|(key, value)| match value {
                Value::Table(_) => format!("{key}-{}", label(value)),
                _ => label(value),
            });
            parts.collect::<Vec<_>>().join("-")
        }),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => {
            let are_faults = values.iter().all(|value| value.as_table().and_then(fault).is_some());
            values.iter().map(label).collect::<Vec<_>>().join(if are_faults { ", " } else { "+" })
        }
        other => other.to_string(),
    }
}

/// A fault in words; `None` if the table is none.
fn fault(table: &Table) -> Option<String> {
    let at = table.get("at")?.as_str()?;
    let (verb, object) = VERBS.iter().find_map(|verb| Some((verb, table.get(*verb)?.as_str()?)))?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_told = |key: &str| key != "at" && key != *verb;
    let more = table.iter().filter(|(key, _)| is_told(key)).map(|(key, value)| format!(" {key} {}", text(value)));
    Some(format!("{verb} {object}{} at {at}", more.collect::<String>()))
}

/// The words as part of a folder's name.
pub(super) fn plain(words: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+' | '_');
    words.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

/// The endings of files that the page of a sweep puts beside the folders of its runs.
const FILES_OF_PAGE: [&str; 3] = [".csv", ".html", ".part"];
const FIGURES: &str = "figures";

/// A name that no path takes for the folder itself or the one above, and that no file of the sweep's page has.
pub(super) fn folder_name(name: &str) -> String {
    let small = name.to_ascii_lowercase();
    match name {
        "" => "empty".to_owned(),
        dots if dots.bytes().all(|byte| byte == b'.') => format!("dots-{}", dots.len()),
        _ if small == FIGURES || FILES_OF_PAGE.iter().any(|end| small.ends_with(end)) => format!("{name}-run"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_short_texts() {
        let told = |text: &str| label(&toml::from_str::<Table>(&format!("v = {text}")).unwrap()["v"]);
        assert_eq!(told("[]"), "none");
        assert_eq!(told("[{ at = '50%', kill = 'hub' }]"), "kill hub at 50%");
        assert_eq!(
            told("[{ at = '1s', change = 'net', rate = '1Mbit' }, { at = '2s', up = 'net' }]"),
            "change net rate 1Mbit at 1s, up net at 2s"
        );
        assert_eq!(told("['n1', 'n2']"), "n1+n2");
        assert_eq!(told("{ star = { nodes = 11 } }"), "star-11");
        assert_eq!(told("'nets/far.tcl'"), "far");
        assert_eq!(plain("kill hub at 50%"), "kill-hub-at-50-");
    }
}
