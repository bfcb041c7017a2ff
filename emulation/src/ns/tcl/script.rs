//! What a script is before it runs.

use super::value::TclValue;

/// A sequence of commands.
#[derive(Debug, Default)]
pub(crate) struct TclScript {
    pub commands: Vec<TclCommand>,
}

/// A command, before anything in it is replaced.
#[derive(Debug)]
pub(crate) struct TclCommand {
    /// Where it begins; 0 where that is not known.
    pub line: u32,
    pub words: Vec<Word>,
}

/// A word of a command.
#[derive(Debug)]
pub(crate) enum Word {
    /// As it stands.
    Literal(TclValue),
    /// What these give, joined.
    Tokens(Vec<Token>),
    /// `{*}`: what it gives is a list of words.
    Expanded(Box<Self>),
}

/// A part of a word.
#[derive(Debug)]
pub(crate) enum Token {
    /// As it stands.
    Text(String),
    /// `$name`, or `$name(index)`.
    Variable(Variable),
    /// `[script]`.
    Script(TclScript),
}

/// A variable that is read.
#[derive(Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub index: Option<Vec<Token>>,
}
