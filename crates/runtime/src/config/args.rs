//! The command line of a daemon, made from its table of settings.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgAction, Command};

use super::{Layers, NamedText, Setting, default_file};

#[derive(Clone, Debug)]
pub struct Invocation {
    pub action: Action,
    pub layers: Layers,
}

/// The action of a daemon's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve.
    Run,
    Check,
    /// Print the commented default file.
    PrintConfig,
    /// Print the reference of the settings.
    PrintReference,
    /// Print the settings that hold and where they came from.
    ShowConfig,
}

impl Invocation {
    /// Reads the command line and collects the layers of settings.
    ///
    /// # Errors
    /// Fails as clap does, also for `--help` and `--version`.
    pub fn parse(
        daemon: &'static str,
        about: &'static str,
        table: &[Setting],
        args: impl IntoIterator<Item = std::ffi::OsString>,
    ) -> Result<Self, clap::Error> {
        let matches = command(daemon, about, table).try_get_matches_from(args)?;
        let action = match () {
            () if matches.get_flag("check") => Action::Check,
            () if matches.get_flag("print-config") && matches.get_flag("origin") => Action::ShowConfig,
            () if matches.get_flag("print-config") => Action::PrintConfig,
            () if matches.get_flag("print-reference") => Action::PrintReference,
            () => Action::Run,
        };
        let file = matches.get_one::<PathBuf>("config").cloned().or_else(|| default_file(daemon));
        let mut flags = Vec::new();
        for setting in table {
            for text in matches.get_many::<String>(setting.key).into_iter().flatten() {
                flags.push(NamedText { name: setting.key.to_owned(), text: text.clone() });
            }
        }
        let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some(NamedText { name: name.into_string().ok()?, text: value.into_string().ok()? })
        };
        let environment = std::env::vars_os().filter_map(readable).collect();
        Ok(Self { action, layers: Layers { file, environment, flags } })
    }
}

/// The fault of a command line, on one line.
pub fn usage(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let ends = ["\n\nUsage:", "\n\nFor more information"];
    let said = ends.iter().fold(rendered.as_str(), |text, end| text.split(end).next().unwrap_or_default());
    let words: Vec<&str> = said.trim_start_matches("error: ").split_whitespace().collect();
    format!("{}; `--help` has more", words.join(" ").replace(" tip: ", "; "))
}

fn command(daemon: &'static str, about: &'static str, table: &[Setting]) -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).action(ArgAction::SetTrue).help_heading("Instead of serving")
    };
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .env("ROOST_CONFIG")
        .value_parser(clap::value_parser!(PathBuf))
        .help("The file with the settings [default: the one in ~/.config/roost or /etc/roost]");
    Command::new(daemon)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .arg(config)
        .args(table.iter().map(argument))
        .arg(switch("check", "Check settings, identity, sources and ports, and end"))
        .arg(switch("print-config", "Print the commented default file"))
        .arg(
            switch("origin", "With --print-config: the settings that hold, and where each came from")
                .requires("print-config"),
        )
        .arg(switch("print-reference", "Print the reference of the settings in Markdown"))
}

fn argument(setting: &Setting) -> Arg {
    let default = setting.default_texts().join(" ");
    let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
    Arg::new(setting.key)
        .long(setting.flag())
        .value_name(setting.kind.name())
        .value_parser(NonEmptyStringValueParser::new())
        .action(ArgAction::Append)
        .allow_hyphen_values(true)
        .help(format!("{}{default}", setting.doc))
        .help_heading("Settings")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::common_settings;

    fn parse(args: &[&str]) -> Result<Invocation, clap::Error> {
        let args = std::iter::once("overlay-node").chain(args.iter().copied()).map(Into::into);
        Invocation::parse("overlay-node", "about", &common_settings("overlay-node", 0), args)
    }

    #[test]
    fn the_command_is_consistent() {
        command("overlay-node", "about", &common_settings("overlay-node", 0)).debug_assert();
    }

    #[test]
    fn flags_become_settings() {
        let args = ["--listen", "udp://a:1", "--listen", "tcp://a:1", "--log-level", "debug", "--check"];
        let invocation = parse(&args).unwrap();
        assert_eq!(invocation.action, Action::Check);
        let settings = invocation.layers.read(common_settings("overlay-node", 0)).unwrap();
        assert_eq!(settings.texts("listen"), ["udp://a:1", "tcp://a:1"]);
        assert_eq!(settings.text("log_level"), Some("debug"));
    }

    #[test]
    fn unknown_flag_is_rejected_with_hint() {
        let error = usage(&parse(&["--lisen", "x"]).unwrap_err());
        assert!(error.starts_with("unexpected argument '--lisen'") && error.contains("'--listen'"), "{error}");
        assert!(!error.contains('\n') && !error.contains("Usage"), "{error}");
    }
}
