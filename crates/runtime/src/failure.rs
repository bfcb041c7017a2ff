//! How a daemon ends when it does not end well: one sentence and a code.

use crate::config::ConfigError;

/// A sentence for the operator and the code to exit with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: u8,
    /// The sentence; one per line if there are several.
    pub message: String,
}

impl Failure {
    /// The command line is wrong.
    pub const USAGE: u8 = 64;
    /// The configuration or the identity is wrong: starting again does not help.
    pub const CONFIG: u8 = 78;
    /// Something else is wrong: starting again may help.
    pub const FAILED: u8 = 1;

    /// The configuration or the identity is wrong.
    pub fn config(error: impl ToString) -> Self {
        Self { code: Self::CONFIG, message: error.to_string() }
    }

    /// Something else is wrong.
    pub fn failed(error: impl ToString) -> Self {
        Self { code: Self::FAILED, message: error.to_string() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let code = if error.is_usage() { Self::USAGE } else { Self::CONFIG };
        Self { code, message: error.to_string() }
    }
}

impl From<Vec<ConfigError>> for Failure {
    fn from(errors: Vec<ConfigError>) -> Self {
        let only_usage = !errors.is_empty() && errors.iter().all(ConfigError::is_usage);
        let code = if only_usage { Self::USAGE } else { Self::CONFIG };
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Self { code, message: lines.join("\n") }
    }
}
