//! The settings as text: the commented default file, the reference page, and the values in force.

use std::fmt::Write as _;

use super::{Kind, Setting, Settings};

/// The default file: every setting with its meaning and default, commented out.
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
    let example = setting.kind.example().filter(|_| setting.default.is_empty());
    let (lead, value) = match example {
        Some(example) => ("# Not set unless you do, for example:\n", setting.kind.split(example)),
        None => ("", setting.default_texts()),
    };
    let value = literal(setting.kind, &value);
    // Writing to a string cannot fail; so for the whole file.
    let _ = write!(text, "\n# {}{reload}\n# {}\n{lead}# {key} = {value}\n", setting.doc, setting.choose);
}

/// Values of a kind as TOML; no value is an empty list or text.
fn literal(kind: Kind, values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    match values {
        _ if kind.is_list() => format!("[{}]", quoted.join(", ")),
        [number] if matches!(kind, Kind::Count(_)) => number.clone(),
        [_, ..] => quoted.concat(),
        [] => "\"\"".to_owned(),
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
        let default = literal(setting.kind, &setting.default_texts());
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

/// Every setting with its value and its origin, as TOML with comments.
pub fn show(settings: &Settings) -> String {
    let mut text = String::new();
    for row in &settings.rows {
        let _ = writeln!(text, "{} = {}  # {}", row.setting.key, literal(row.setting.kind, &row.values), row.origin);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Layers, NamedText, common_settings};

    #[test]
    fn uncommented_default_file_is_valid() {
        let table = common_settings("overlay-node", 0);
        let text = default_toml("overlay-node", &table);
        let settings: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|l| l.contains(" = "))
            .collect::<Vec<_>>()
            .join("\n");
        let values: toml::Table = settings.parse().unwrap();
        assert_eq!(values.len(), table.len(), "{text}");
    }

    #[test]
    fn setting_without_default_has_example() {
        let table = common_settings("overlay-node", 0);
        for setting in table.iter().filter(|setting| setting.default.is_empty()) {
            let example = setting.kind.example().unwrap();
            assert!(setting.kind.split(example).iter().all(|value| setting.kind.check(value).is_ok()), "{example}");
        }
        assert_eq!(Kind::Hubs.check(Kind::Hubs.example().unwrap()), Ok(()));
        let text = default_toml("overlay-node", &table);
        assert!(text.contains("for example:\n# metrics = \"127.0.0.1:9107\"\n"), "{text}");
        assert!(text.contains("# advertise = [\"udp://node1.example:7700\"]\n"), "{text}");
    }

    #[test]
    fn shown_settings_name_their_origin() {
        let flags = vec![NamedText { name: "drain".to_owned(), text: "1s".to_owned() }];
        let settings = Layers { flags, ..Layers::default() }.read(common_settings("overlay-node", 0)).unwrap();
        let text = show(&settings);
        assert!(text.contains("drain = \"1s\"  # --drain\n"), "{text}");
        assert!(text.contains("log_level = \"info\"  # default\n"), "{text}");
    }

    #[test]
    fn reference_lists_all_setting_forms() {
        let text = reference("overlay-node", &common_settings("overlay-node", 0));
        for part in ["## `log_format`", "`--log-format`", "`ROOST_LOG_FORMAT`", "text\\|json"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
