//! The settings as text: the commented default file, the reference page, and
//! what holds at the moment.

use std::fmt::Write as _;

use super::{Setting, Settings};

/// The commented default file: every setting with its meaning and default,
/// commented out.
pub fn default_toml(daemon: &str, table: &[Setting]) -> String {
    let mut text = format!("# Settings of {daemon}. Flags and ROOST_* variables win over this file.\n");
    // A table's keys follow its header, so plain keys come first.
    let (plain, nested): (Vec<_>, Vec<_>) = table.iter().partition(|setting| !setting.key.contains('.'));
    for setting in plain {
        push_setting(&mut text, setting, setting.key);
    }
    let mut header = "";
    for setting in nested {
        let (section, key) = setting.key.split_once('.').unwrap_or(("", setting.key));
        if section != header {
            let _ = write!(text, "\n[{section}]\n");
            header = section;
        }
        push_setting(&mut text, setting, key);
    }
    text
}

fn push_setting(text: &mut String, setting: &Setting, key: &str) {
    let reload = if setting.reload { " Reloadable." } else { "" };
    // Writing to a string cannot fail; so for the whole file.
    let _ = write!(text, "\n# {}{reload}\n# {}\n# {key} = {}\n", setting.doc, setting.choose, literal(setting));
}

/// A setting's default, or an empty value of its kind, as TOML.
fn literal(setting: &Setting) -> String {
    let texts = setting.default_texts();
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    match texts.first() {
        _ if setting.kind.is_list() => format!("[{}]", quoted.join(", ")),
        Some(text) if matches!(setting.kind, super::Kind::Count(_)) => text.clone(),
        Some(text) => format!("{text:?}"),
        None => "\"\"".to_owned(),
    }
}

/// The reference page of a daemon's settings, in Markdown.
pub fn reference(daemon: &str, table: &[Setting]) -> String {
    let mut text = format!("# Settings of `{daemon}`\n\n");
    text.push_str("A flag wins over the environment, the environment over the file, the file over the default.\n");
    text.push_str(
        "A list is a TOML array, a flag given several times, or a variable with spaces between the values.\n",
    );
    for setting in table {
        let default = literal(setting);
        let _ = write!(
            text,
            "\n## `{}`\n\n{} {}\n\n| kind | default | flag | variable | SIGHUP |\n|---|---|---|---|---|\n\
             | {} | `{default}` | `--{}` | `{}` | {} |\n",
            setting.key,
            setting.doc,
            setting.choose,
            setting.kind.name().replace('|', "\\|"),
            setting.flag(),
            setting.variable(),
            if setting.reload { "takes it over" } else { "needs a restart" },
        );
    }
    text
}

/// Every setting with its value and where that came from, as TOML with comments.
pub fn show(settings: &Settings) -> String {
    let mut text = String::new();
    for row in &settings.rows {
        let quoted: Vec<String> = row.values.iter().map(|value| format!("{value:?}")).collect();
        let value = if row.setting.kind.is_list() { format!("[{}]", quoted.join(", ")) } else { quoted.concat() };
        let value = if value.is_empty() { "\"\"".to_owned() } else { value };
        let _ = writeln!(text, "{} = {value}  # {}", row.setting.key, row.origin);
    }
    text
}
