//! The interpreter of scripts.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::commands;
use super::completion::{TclCompletion, TclError, TclResult, fail};
use super::expr::Random;
use super::parse::{Parser, TclCommand, TclScript, Token, Variable, Word};
use super::value::TclValue;
use super::variables::CallFrame;
use crate::NsLimits;
use crate::state::NsState;

/// The deepest nesting of scripts and expressions: a script counts [`SCRIPT`], a step into an expression less.
/// The limit protects the machine's stack: without optimisation this depth needs about a megabyte of it.
const MAX_DEPTH: u32 = 1000;
const SCRIPT: u32 = 10;
/// This many bytes of new strings count as one step.
const BYTES_PER_STEP: usize = 256;
/// This many comparisons of bytes in a search count as one step.
const BYTES_PER_SEARCH: usize = 1024;

/// Commands whose result shares an existing value.
const SHARING: [&str; 6] = ["set", "append", "lappend", "lindex", "incr", "return"];

/// The state of one NS file's run.
pub(crate) struct TclInterpreter {
    pub world: NsState,
    pub limits: NsLimits,
    pub line: u32,
    pub random: Random,
    pub procedures: BTreeMap<String, Rc<Procedure>>,
    pub frames: Vec<CallFrame>,
    /// Index of the frame whose variables are visible.
    pub current: usize,
    /// The number of variables and array elements.
    pub stored: usize,
    pub exit_line: u32,
    depth: u32,
    steps: u64,
}

pub(crate) struct Procedure {
    pub parameters: Vec<(String, Option<TclValue>)>,
    pub body: TclValue,
}

impl TclInterpreter {
    pub(crate) fn new(limits: NsLimits) -> Self {
        Self {
            world: NsState::default(),
            limits,
            line: 0,
            random: Random::default(),
            procedures: BTreeMap::new(),
            frames: vec![CallFrame::default()],
            current: 0,
            stored: 0,
            exit_line: 0,
            depth: 0,
            steps: 0,
        }
    }

    /// Runs a whole file, command by command.
    pub(crate) fn run_file(&mut self, source: &str) -> Result<(), TclCompletion> {
        let mut parser = Parser::new(source, 1, 0);
        while let Some(command) = parser.next_command()? {
            match self.run_command(&command) {
                Ok(_) => {}
                // At the top level, `return` ends the file.
                Err(TclCompletion::Return(_)) => return Ok(()),
                Err(other) => return Err(self.outside_of_loops(other)),
            }
        }
        Ok(())
    }

    pub(crate) fn eval(&mut self, text: &TclValue) -> TclResult {
        if !text.has_script() {
            self.spend(text.len() / BYTES_PER_STEP)?;
        }
        let script = text.script()?;
        self.run(&script)
    }

    /// Runs a script; returns the result of its last command.
    pub(crate) fn run(&mut self, script: &TclScript) -> TclResult {
        let depth = self.depth;
        self.enter(SCRIPT)?;
        let mut result = Ok(TclValue::default());
        for command in &script.commands {
            result = self.run_command(command);
            if result.is_err() {
                break;
            }
        }
        self.depth = depth;
        result
    }

    fn run_command(&mut self, command: &TclCommand) -> TclResult {
        let outer = self.line;
        if command.line > 0 {
            self.line = command.line;
        }
        let outcome = self.words(&command.words).and_then(|words| self.invoke(&words)).map_err(|mut flow| {
            if let Some(fault) = flow.error_mut().filter(|fault| fault.line == 0) {
                fault.line = self.line;
            }
            flow
        });
        self.line = outer;
        outcome
    }

    /// Runs the command that these words form.
    pub(crate) fn invoke(&mut self, words: &[TclValue]) -> TclResult {
        let Some(name) = words.first() else { return Ok(TclValue::default()) };
        self.spend(1)?;
        let name = name.as_str().strip_prefix("::").unwrap_or(name.as_str());
        if let Some(procedure) = self.procedures.get(name) {
            let procedure = procedure.clone();
            return self.call(name, &procedure, words);
        }
        if let Some(object) = self.world.find(name) {
            return self.call_object(object, words);
        }
        match commands::find(name).or_else(|| crate::tb::find(name)) {
            Some(command) => {
                self.assigns(name);
                let result = command(self, words)?;
                self.check_size(result.len())?;
                if !SHARING.contains(&name) {
                    self.spend(result.len() / BYTES_PER_STEP)?;
                }
                Ok(result)
            }
            None => {
                // A search for similar names is slow.
                self.spend(100)?;
                fail(commands::unknown(name))
            }
        }
    }

    fn call(&mut self, name: &str, procedure: &Procedure, words: &[TclValue]) -> TclResult {
        let line = self.line;
        let level = self.frames[self.current].level + 1;
        self.frames.push(CallFrame::new(self.current, level, words.to_vec()));
        let caller = std::mem::replace(&mut self.current, self.frames.len() - 1);
        let outcome = self.bind(name, procedure, &words[1..]).and_then(|()| self.eval(&procedure.body));
        self.current = caller;
        if let Some(frame) = self.frames.pop() {
            self.forget(&frame);
        }
        match outcome {
            Err(TclCompletion::Return(value)) => Ok(value),
            Err(other) => {
                let mut other = self.outside_of_loops(other);
                if let Some(fault) = other.error_mut() {
                    fault.within.get_or_insert_with(|| (name.to_owned(), line));
                }
                Err(other)
            }
            Ok(value) => Ok(value),
        }
    }

    fn bind(&mut self, name: &str, procedure: &Procedure, arguments: &[TclValue]) -> Result<(), TclCompletion> {
        let mut rest = arguments.iter();
        let last = procedure.parameters.len().saturating_sub(1);
        for (i, (parameter, default)) in procedure.parameters.iter().enumerate() {
            let value = if i == last && parameter == "args" {
                TclValue::from_list(rest.by_ref().cloned().collect())
            } else {
                match rest.next().or(default.as_ref()) {
                    Some(value) => value.clone(),
                    None => return fail(usage_of(name, procedure)),
                }
            };
            self.set(parameter, value)?;
        }
        if rest.next().is_some() { fail(usage_of(name, procedure)) } else { Ok(()) }
    }

    fn outside_of_loops(&self, flow: TclCompletion) -> TclCompletion {
        let word = match flow {
            TclCompletion::Break => "break",
            TclCompletion::Continue => "continue",
            other => return other,
        };
        TclError::at(self.line, format!("\"{word}\" outside of a loop")).into()
    }

    fn words(&mut self, words: &[Word]) -> Result<Vec<TclValue>, TclCompletion> {
        let mut values = Vec::with_capacity(words.len());
        for word in words {
            match word {
                Word::Expanded(inner) => {
                    let list = self.word(inner)?;
                    let list = self.list(&list)?;
                    self.spend(list.len() / 8)?;
                    values.extend(list.iter().cloned());
                }
                word => values.push(self.word(word)?),
            }
        }
        Ok(values)
    }

    fn word(&mut self, word: &Word) -> TclResult {
        match word {
            Word::Literal(value) => Ok(value.clone()),
            Word::Tokens(tokens) => self.substitute(tokens),
            // `{*}{*}` would be a list of lists, which no file needs.
            Word::Expanded(_) => fail("\"{*}\" cannot be doubled"),
        }
    }

    /// The tokens' values, joined.
    pub(crate) fn substitute(&mut self, tokens: &[Token]) -> TclResult {
        if let [token] = tokens {
            return self.token(token);
        }
        let mut text = String::new();
        for token in tokens {
            match token {
                Token::Text(part) => text.push_str(part),
                token => text.push_str(self.token(token)?.as_str()),
            }
            self.check_size(text.len())?;
        }
        self.spend(text.len() / BYTES_PER_STEP)?;
        Ok(TclValue::from(text))
    }

    fn token(&mut self, token: &Token) -> TclResult {
        match token {
            Token::Text(text) => Ok(TclValue::from(text.as_str())),
            Token::Variable(variable) => self.read_variable(variable),
            Token::Script(script) => self.run(script),
        }
    }

    pub(crate) fn read_variable(&mut self, variable: &Variable) -> TclResult {
        let index = match &variable.index {
            Some(tokens) => Some(self.substitute(tokens)?),
            None => None,
        };
        match index {
            Some(index) => Ok(self.get_part(&variable.name, Some(index.as_str()))?),
            None => Ok(self.get(&variable.name)?),
        }
    }

    pub(crate) fn list(&mut self, value: &TclValue) -> Result<Rc<Vec<TclValue>>, TclCompletion> {
        let known = value.has_list();
        let list = value.list()?;
        if !known {
            self.spend(list.len() + value.len() / 64)?;
        }
        Ok(list)
    }

    /// Takes steps from the file's limit.
    ///
    /// # Errors
    /// Fails when the limit is reached; `catch` does not catch this.
    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), TclCompletion> {
        self.steps = self.steps.saturating_add(steps as u64);
        match self.steps > self.limits.steps {
            true => Err(TclCompletion::refuse(format!(
                "the file is still not read after {} steps: a loop without end?",
                self.limits.steps
            ))),
            false => Ok(()),
        }
    }

    /// Takes the steps of a search that may compare every byte of one text with every byte of another.
    pub(crate) fn spend_search(&mut self, pattern: usize, text: usize) -> Result<(), TclCompletion> {
        self.spend(pattern.saturating_mul(text) / BYTES_PER_SEARCH)
    }

    /// Refuses a value that is too long, and counts a long one.
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), TclCompletion> {
        match bytes > self.limits.value_bytes {
            true => Err(TclCompletion::refuse(format!("a value is longer than {} bytes", self.limits.value_bytes))),
            false => Ok(()),
        }
    }

    /// Enters a level of nesting, until [`TclInterpreter::leave`] or an error.
    pub(crate) fn enter(&mut self, weight: u32) -> Result<(), TclCompletion> {
        self.depth += weight;
        match self.depth > MAX_DEPTH {
            true => {
                Err(TclCompletion::refuse("commands are nested too deeply: a procedure that calls itself without end?"))
            }
            false => Ok(()),
        }
    }

    pub(crate) fn leave(&mut self, weight: u32) {
        self.depth = self.depth.saturating_sub(weight);
    }
}

fn usage_of(name: &str, procedure: &Procedure) -> String {
    let mut usage = format!("wrong # args: should be \"{name}");
    for (parameter, default) in &procedure.parameters {
        match default {
            Some(_) => usage.extend([" ?", parameter, "?"]),
            None if parameter == "args" => usage += " ...",
            None => usage.extend([" ", parameter]),
        }
    }
    usage + "\""
}
