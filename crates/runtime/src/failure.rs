//! The end of a daemon that fails: a sentence and an exit code.

use crate::config::ConfigError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u8,
    /// The sentence for the operator, or several, one a line.
    pub message: String,
}

impl Failure {
    pub const USAGE: u8 = 64;
    /// The configuration or the identity is wrong: another start does not help.
    pub const CONFIG: u8 = 78;
    /// Something else is wrong: another start may help.
    pub const FAILED: u8 = 1;

    pub fn config(error: impl ToString) -> Self {
        Self { code: Self::CONFIG, message: error.to_string() }
    }

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
