//! Lays the file, the environment and the flags over the defaults.

use std::path::{Path, PathBuf};

use super::{ConfigError, ResolvedSetting, Setting, SettingOrigin, Settings};

/// The least likeness (Jaro–Winkler) of two keys for which one is offered for the other.
const NEAR: f64 = 0.75;

/// As [`NEAR`] for variables, which all begin alike.
const NEAR_VARIABLE: f64 = 0.9;

/// The variables of all programs. Each program reads its own and ignores those of the others. The test of the reference
/// pages compares this list with the programs.
pub const ROOST_VARIABLES: [&str; 56] = [
    "ROOST_ADVERTISE",
    "ROOST_AT",
    "ROOST_CACHE_OF",
    "ROOST_CONFIG",
    "ROOST_DELIVERY_IMAGE",
    "ROOST_DELIVERY_SENSOR",
    "ROOST_DELIVERY_TRACK",
    "ROOST_DELIVERY_VIDEO",
    "ROOST_DISCOVERY",
    "ROOST_DRAIN",
    "ROOST_HTTP",
    "ROOST_HTTP_TOKEN",
    "ROOST_IDENTITY",
    "ROOST_INBOX",
    "ROOST_INBOX_LIMIT",
    "ROOST_JOINS_PER_SECOND",
    "ROOST_KEY_EXCHANGE",
    "ROOST_LEASE",
    "ROOST_LISTEN",
    "ROOST_LOG",
    "ROOST_LOG_FORMAT",
    "ROOST_LOG_LEVEL",
    "ROOST_MAX_CONNECTIONS",
    "ROOST_MAX_NODES",
    "ROOST_MAX_RELAYS",
    "ROOST_MAX_REQUESTS_PER_NODE",
    "ROOST_MAX_STANDBYS",
    "ROOST_LOOKUPS_PER_SECOND",
    "ROOST_MAX_STREAMS",
    "ROOST_MAX_WATCHES",
    "ROOST_MEDIA",
    "ROOST_MEDIA_LAYERS",
    "ROOST_MEDIA_SUBSCRIBERS",
    "ROOST_MEDIA_UPLINK",
    "ROOST_METRICS",
    "ROOST_MULTICAST",
    "ROOST_MULTICAST_INTERFACES",
    "ROOST_OUTBOX",
    "ROOST_OUTBOX_LIMIT",
    "ROOST_PARENT",
    "ROOST_SIBLING",
    "ROOST_REVOCATIONS",
    "ROOST_RTSP",
    "ROOST_RTSP_TOKEN",
    "ROOST_SERVER",
    "ROOST_SERVICES",
    "ROOST_SOCKET",
    "ROOST_SOURCES_IMAGE",
    "ROOST_SOURCES_SENSOR",
    "ROOST_SOURCES_TRACK",
    "ROOST_SOURCES_VIDEO",
    "ROOST_STREAM_DURATION",
    "ROOST_SUMMARY_RATE",
    "ROOST_SUPER",
    "ROOST_TIER",
    "ROOST_UPLINK",
];

/// The sources of settings above the defaults.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    pub file: Option<PathBuf>,
    pub environment: Vec<NamedText>,
    /// Named by the keys of settings, in order.
    pub flags: Vec<NamedText>,
}

/// A value as text, and the name under which it was given.
#[derive(Clone, Debug)]
pub struct NamedText {
    pub name: String,
    pub text: String,
}

impl Layers {
    /// Applies the layers to the defaults of `table`.
    ///
    /// # Errors
    /// Returns all errors of all layers.
    pub fn read(&self, table: Vec<Setting>) -> Result<Settings, Vec<ConfigError>> {
        let mut builder =
            Builder { rows: table.into_iter().map(ResolvedSetting::with_default).collect(), errors: Vec::new() };
        if let Some(path) = &self.file {
            builder.lay_file(path);
        }
        builder.lay_environment(&self.environment);
        builder.lay_flags(&self.flags);
        if builder.errors.is_empty() { Ok(Settings { rows: builder.rows }) } else { Err(builder.errors) }
    }
}

/// The file that is read when none is named: the user's, else the system's.
pub fn default_file(daemon: &str) -> Option<PathBuf> {
    let home = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")));
    let candidates = [home, Some(PathBuf::from("/etc"))];
    candidates.into_iter().flatten().map(|base| base.join(format!("roost/{daemon}.toml"))).find(|path| path.is_file())
}

impl ResolvedSetting {
    fn with_default(setting: Setting) -> Self {
        Self { values: setting.default_texts(), setting, origin: SettingOrigin::Default }
    }
}

struct Builder {
    rows: Vec<ResolvedSetting>,
    errors: Vec<ConfigError>,
}

impl Builder {
    fn lay_file(&mut self, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let reason = error.to_string();
                return self.errors.push(ConfigError::Unreadable { path: path.to_owned(), reason });
            }
        };
        match text.parse::<toml::Table>() {
            Ok(table) => self.lay_table(&SettingOrigin::File(path.to_owned()), "", &table),
            Err(error) => {
                let (line, column) = position(&text, error.span().map_or(0, |span| span.start));
                let reason = error.message().trim_end().replace('\n', ", ");
                self.errors.push(ConfigError::Syntax { path: path.to_owned(), line, column, reason });
            }
        }
    }

    fn lay_table(&mut self, origin: &SettingOrigin, prefix: &str, table: &toml::Table) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            let known = self.rows.iter().any(|row| row.setting.key == key);
            let inner = format!("{key}.");
            match value {
                toml::Value::Table(table) if self.rows.iter().any(|row| row.setting.key.starts_with(&inner)) => {
                    self.lay_table(origin, &inner, table);
                }
                value if known => match texts_of(value) {
                    Some(texts) => self.set(&key, texts, origin.clone()),
                    None => {
                        self.refuse(&key, &value.to_string(), origin, "expected a text, a number or a list of texts")
                    }
                },
                _ => self.unknown(key, origin.clone()),
            }
        }
    }

    fn lay_environment(&mut self, environment: &[NamedText]) {
        for NamedText { name, text } in environment {
            let matching = self.rows.iter().find(|row| row.setting.variable() == *name);
            let origin = SettingOrigin::Environment(name.clone());
            if let Some((key, texts)) = matching.map(|row| (row.setting.key, row.setting.kind.split(text))) {
                self.set(key, texts, origin);
            } else if name.starts_with("ROOST_") && !ROOST_VARIABLES.contains(&name.as_str()) {
                let nearest = self.near_variable(name);
                self.errors.push(ConfigError::Unknown { key: name.clone(), origin, nearest });
            }
        }
    }

    fn lay_flags(&mut self, flags: &[NamedText]) {
        for row in 0..self.rows.len() {
            let setting = &self.rows[row].setting;
            let (key, kind, flag) = (setting.key, setting.kind, setting.flag());
            let given = flags.iter().filter(|flag| flag.name == key);
            let texts: Vec<String> = given.flat_map(|flag| kind.split(&flag.text)).collect();
            if flags.iter().any(|flag| flag.name == key) {
                self.set(key, texts, SettingOrigin::Flag(flag));
            }
        }
    }

    /// Replaces a setting's values. Values of another kind are refused.
    fn set(&mut self, key: &str, values: Vec<String>, origin: SettingOrigin) {
        let Some(row) = self.rows.iter_mut().find(|row| row.setting.key == key) else { return };
        if values.len() > 1 && !row.setting.kind.is_list() {
            return self.refuse(key, &values.join(" "), &origin, "expected a single value");
        }
        let kind = row.setting.kind;
        let wrong: Vec<(String, String)> =
            values.iter().filter_map(|text| kind.check(text).err().map(|reason| (text.clone(), reason))).collect();
        row.values = values;
        row.origin = origin.clone();
        for (text, reason) in wrong {
            self.refuse(key, &text, &origin, &reason);
        }
    }

    fn refuse(&mut self, key: &str, value: &str, origin: &SettingOrigin, reason: &str) {
        let (key, value, origin) = (key.to_owned(), value.to_owned(), origin.clone());
        self.errors.push(ConfigError::Value { key, value, origin, reason: reason.to_owned() });
    }

    fn unknown(&mut self, key: String, origin: SettingOrigin) {
        let likeness = |row: &ResolvedSetting| strsim::jaro_winkler(&key.replace('-', "_"), row.setting.key);
        let best = self.rows.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let nearest = best.filter(|row| likeness(row) >= NEAR).map(|row| row.setting.key.to_owned());
        self.errors.push(ConfigError::Unknown { key, origin, nearest });
    }

    fn near_variable(&self, name: &str) -> Option<String> {
        let likeness = |variable: &String| strsim::jaro_winkler(variable, name);
        let best =
            self.rows.iter().map(|row| row.setting.variable()).max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        best.filter(|variable| likeness(variable) >= NEAR_VARIABLE)
    }
}

/// The line and the column of a byte of `text`, both from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = before.split(|byte| *byte == b'\n').count();
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}

/// The texts of a value of the file; `None` if no setting takes such a value.
fn texts_of(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(text) => Some(vec![text.clone()]),
        toml::Value::Integer(number) => Some(vec![number.to_string()]),
        toml::Value::Array(values) => {
            let single = |value: &toml::Value| texts_of(value).filter(|texts| texts.len() == 1);
            values.iter().map(single).collect::<Option<Vec<_>>>().map(|texts| texts.concat())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::config::Kind;

    fn table() -> Vec<Setting> {
        let setting = |key, kind, default: &str| Setting {
            key,
            kind,
            default: default.to_owned(),
            doc: "d",
            choose: "c",
            reload: false,
        };
        vec![
            setting("drain", Kind::Duration, "10s"),
            setting("listen", Kind::Endpoints, "udp://0.0.0.0:1"),
            setting("max_streams", Kind::Count(100), "8"),
            setting("sources.video", Kind::Path, ""),
        ]
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn pair(name: &str, text: &str) -> NamedText {
        NamedText { name: name.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn flags_override_environment_file_and_defaults() {
        let file = file("drain = '1s'\nmax_streams = 1\nlisten = ['udp://a:1', 'tcp://a:1']\nsources.video = 'file'");
        let layers = Layers {
            file: Some(file.path().to_owned()),
            environment: vec![pair("ROOST_DRAIN", "2s"), pair("ROOST_MAX_STREAMS", "2"), pair("HOME", "/")],
            flags: vec![pair("drain", "3s")],
        };
        let settings = layers.read(table()).unwrap();
        assert_eq!(settings.text("drain"), Some("3s"));
        assert_eq!(settings.origin("drain"), SettingOrigin::Flag("drain".to_owned()));
        assert_eq!(settings.text("max_streams"), Some("2"));
        assert_eq!(settings.origin("max_streams"), SettingOrigin::Environment("ROOST_MAX_STREAMS".to_owned()));
        assert_eq!(settings.texts("listen"), ["udp://a:1", "tcp://a:1"]);
        assert_eq!(settings.text("sources.video"), Some("file"));
        let defaults = Layers::default().read(table()).unwrap();
        assert_eq!(defaults.text("max_streams"), Some("8"));
        assert_eq!(defaults.text("sources.video"), None);
        assert_eq!(settings.changed(&defaults).count(), 4);
    }

    #[test]
    fn unknown_key_suggests_nearest() {
        let file = file("max-stream = 3\n[sources]\nvidoe = 'x'\n[colour]\nred = 1");
        let layers = Layers { file: Some(file.path().to_owned()), ..Layers::default() };
        let errors: Vec<String> = layers.read(table()).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 3, "{errors:?}");
        for hint in ["did you mean \"max_streams\"?", "did you mean \"sources.video\"?"] {
            assert!(errors.iter().any(|error| error.contains(hint)), "{hint}: {errors:?}");
        }
        assert!(errors.iter().any(|error| error.starts_with("unknown setting \"colour\" in") && !error.contains('?')));
    }

    #[test]
    fn unknown_roost_variable_is_rejected() {
        let read = |name| Layers { environment: vec![pair(name, "1")], ..Layers::default() }.read(table());
        let said = |name| read(name).unwrap_err()[0].to_string();
        assert_eq!(said("ROOST_BOGUS"), "unknown variable \"ROOST_BOGUS\"");
        assert!(said("ROOST_MAX_STREAM").ends_with("did you mean \"ROOST_MAX_STREAMS\"?"));
        for name in
            ROOST_VARIABLES.iter().filter(|name| !["ROOST_DRAIN", "ROOST_LISTEN", "ROOST_MAX_STREAMS"].contains(name))
        {
            assert!(read(name).is_ok(), "{name}");
        }
        assert!(read("ROOSTER").is_ok());
    }

    #[test]
    fn invalid_toml_is_rejected() {
        let file = file("drain = '1s'\nlisten = [ 'a' \"b\" ]\n");
        let layers = Layers { file: Some(file.path().to_owned()), ..Layers::default() };
        let error = layers.read(table()).unwrap_err()[0].to_string();
        assert!(error.contains("is not valid TOML at line 2, column 1"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn wrong_value_names_setting_and_origin() {
        let file = file("drain = 10\nlisten = 'sctp://a:1'\nmax_streams = [1, 2]");
        let layers = Layers { file: Some(file.path().to_owned()), ..Layers::default() };
        let errors: Vec<String> = layers.read(table()).unwrap_err().iter().map(ToString::to_string).collect();
        for part in ["setting drain = \"10\"", "scheme is unknown", "expected a single value"] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:?}");
        }
        let flags = Layers { flags: vec![pair("drain", "soon")], ..Layers::default() };
        assert!(flags.read(table()).unwrap_err()[0].is_usage());
    }

    #[test]
    fn flag_lists_are_split_and_merged() {
        let flags = vec![pair("listen", "udp://a:1,tcp://a:1"), pair("listen", "quic://a+b:1")];
        let settings = Layers { flags, ..Layers::default() }.read(table()).unwrap();
        assert_eq!(settings.texts("listen"), ["udp://a:1", "tcp://a:1", "quic://a+b:1"]);
    }
}
