//! The parsed form of a script.

use super::value::TclValue;

#[derive(Debug, Default)]
pub(crate) struct TclScript {
    pub commands: Vec<TclCommand>,
}

/// A command before substitution.
#[derive(Debug)]
pub(crate) struct TclCommand {
    /// The line of its first word; 0 if it is unknown.
    pub line: u32,
    pub words: Vec<Word>,
}

#[derive(Debug)]
pub(crate) enum Word {
    Literal(TclValue),
    /// Tokens whose values are joined.
    Tokens(Vec<Token>),
    /// `{*}`: its value is a list of words.
    Expanded(Box<Self>),
}

#[derive(Debug)]
pub(crate) enum Token {
    Text(String),
    Variable(Variable),
    Script(TclScript),
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub index: Option<Vec<Token>>,
}
