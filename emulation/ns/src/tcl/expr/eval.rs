//! Evaluation of expressions.

use super::operators::{Binary, Unary};
use std::rc::Rc;

use super::{Expr, ExprKind, ExprNode, functions, truth};
use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::interp::TclInterpreter;
use crate::tcl::number::{self, Number};
use crate::tcl::value::TclValue;

/// The weight of a step into an expression, of the allowed depth.
const NODE: u32 = 3;

/// A value, and its number if that is known.
enum ExprValue {
    Number(Number),
    Literal(Number, TclValue),
    Value(TclValue),
}

impl ExprValue {
    fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) | Self::Literal(number, _) => Some(*number),
            Self::Value(value) => number::read(value.as_str()),
        }
    }

    /// The length of the text in bytes, if it is known.
    fn len(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Literal(_, value) | Self::Value(value) => value.len(),
        }
    }

    fn value(self) -> TclValue {
        match self {
            Self::Number(number) => TclValue::from(number.text()),
            Self::Literal(_, value) | Self::Value(value) => value,
        }
    }

    fn truth(self) -> Result<bool, TclCompletion> {
        if let Some(number) = self.number() {
            return Ok(number.is_true());
        }
        let value = self.value();
        match truth(value.as_str()) {
            Some(truth) => Ok(truth),
            None => fail(format!("expected boolean value but got \"{}\"", super::short(value.as_str()))),
        }
    }

    fn operand(&self, operator: &str) -> Result<Number, TclCompletion> {
        match self.number() {
            Some(number) => Ok(number),
            None => fail(format!("can't use non-numeric string as operand of \"{operator}\"")),
        }
    }
}

impl From<bool> for ExprValue {
    fn from(truth: bool) -> Self {
        Self::Number(Number::Integer(truth.into()))
    }
}

impl TclInterpreter {
    pub(crate) fn expr(&mut self, text: &TclValue) -> TclResult {
        let expr = self.read_expr(text)?;
        let item = self.node(&expr.root)?;
        // As in Tcl, a text that reads as a number becomes one.
        match item.number() {
            Some(number) => Ok(TclValue::from(number.text())),
            None => Ok(item.value()),
        }
    }

    pub(crate) fn condition(&mut self, text: &TclValue) -> Result<bool, TclCompletion> {
        let expr = self.read_expr(text)?;
        self.node(&expr.root)?.truth()
    }

    fn read_expr(&mut self, text: &TclValue) -> Result<Rc<Expr>, TclCompletion> {
        if !text.has_expr() {
            self.spend(text.len() / 64)?;
        }
        Ok(text.expr()?)
    }

    fn node(&mut self, node: &ExprNode) -> Result<ExprValue, TclCompletion> {
        self.enter(NODE)?;
        let item = self.kind(&node.kind);
        self.leave(NODE);
        item
    }

    fn kind(&mut self, kind: &ExprKind) -> Result<ExprValue, TclCompletion> {
        Ok(match kind {
            ExprKind::Number(number, text) => ExprValue::Literal(*number, text.clone()),
            ExprKind::Text(value) => ExprValue::Value(value.clone()),
            ExprKind::Quoted(tokens) => ExprValue::Value(self.substitute(tokens)?),
            ExprKind::Variable(variable) => ExprValue::Value(self.read_variable(variable)?),
            ExprKind::Script(script) => ExprValue::Value(self.run(script)?),
            ExprKind::Unary(operator, inner) => {
                let item = self.node(inner)?;
                unary(*operator, item)?
            }
            ExprKind::Logic(and, left, right) => {
                let first = self.node(left)?.truth()?;
                ExprValue::from(if first == *and { self.node(right)?.truth()? } else { first })
            }
            ExprKind::Choice(condition, yes, no) => match self.node(condition)?.truth()? {
                true => self.node(yes)?,
                false => self.node(no)?,
            },
            ExprKind::Binary(operator, left, right) => {
                let left = self.node(left)?;
                let right = self.node(right)?;
                self.spend((left.len() + right.len()) / 1024)?;
                binary(*operator, left, right)?
            }
            ExprKind::Call(name, arguments) => self.call_function(name, arguments)?,
        })
    }

    fn call_function(&mut self, name: &str, arguments: &[ExprNode]) -> Result<ExprValue, TclCompletion> {
        let mut numbers = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let item = self.node(argument)?;
            match item.number() {
                Some(number) => numbers.push(number),
                None if name == "bool" => return item.truth().map(ExprValue::from),
                None => {
                    let value = item.value();
                    return fail(format!("expected a number but got \"{}\"", super::short(value.as_str())));
                }
            }
        }
        if name == "rand" {
            self.warn("rand() gives the same numbers at every reading here, so that the file always describes the same network");
        }
        Ok(ExprValue::Number(functions::call(name, &numbers, &mut self.random)?))
    }
}

fn unary(operator: Unary, item: ExprValue) -> Result<ExprValue, TclCompletion> {
    let number = match operator {
        Unary::Not if item.number().is_none() => {
            let value = item.value();
            return match truth(value.as_str()) {
                Some(truth) => Ok(ExprValue::from(!truth)),
                None => fail("can't use non-numeric string as operand of \"!\""),
            };
        }
        Unary::Not => return Ok(ExprValue::from(!item.truth()?)),
        Unary::Minus => match item.operand("-")? {
            Number::Integer(integer) => integer.checked_neg().map(Number::Integer),
            Number::Double(double) => Some(Number::Double(-double)),
        },
        Unary::Plus => Some(item.operand("+")?),
        Unary::Invert => match item.operand("~")? {
            Number::Integer(integer) => Some(Number::Integer(!integer)),
            Number::Double(_) => return fail("can't use floating-point value as operand of \"~\""),
        },
    };
    match number {
        Some(number) => Ok(ExprValue::Number(number)),
        None => fail("integer value too large to represent"),
    }
}

fn binary(operator: Binary, left: ExprValue, right: ExprValue) -> Result<ExprValue, TclCompletion> {
    match operator {
        Binary::SameText => return Ok(ExprValue::from(left.value().as_str() == right.value().as_str())),
        Binary::OtherText => return Ok(ExprValue::from(left.value().as_str() != right.value().as_str())),
        Binary::In | Binary::NotIn => {
            let (needle, list) = (left.value(), right.value().list()?);
            let found = list.iter().any(|item| item.as_str() == needle.as_str());
            return Ok(ExprValue::from(found == (operator == Binary::In)));
        }
        _ => {}
    }
    let numbers = left.number().zip(right.number());
    if operator.holds(None).is_some() {
        let order = match numbers {
            Some((a, b)) => a.compare(b),
            None => Some(left.value().as_str().cmp(right.value().as_str())),
        };
        return Ok(ExprValue::from(operator.holds(order).unwrap_or(false)));
    }
    match numbers {
        Some((a, b)) => Ok(ExprValue::Number(operator.compute(a, b)?)),
        None => fail(format!("can't use non-numeric string as operand of \"{}\"", operator.text())),
    }
}
