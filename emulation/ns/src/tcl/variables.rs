//! Variables: scalars, arrays, and links to variables of other frames.

use super::completion::TclError;
use super::expr::short;
use super::interp::TclInterpreter;
use super::table::Table;
use super::value::TclValue;

/// The longest chain of links.
const MAX_LINKS: usize = 64;

/// The variables of one call of a procedure; the first frame is global.
#[derive(Debug, Default)]
pub(crate) struct CallFrame {
    variables: Table<Slot>,
    pub caller: usize,
    /// The depth of the call; 0 is global.
    pub level: usize,
    pub call: Vec<TclValue>,
}

#[derive(Debug)]
enum Slot {
    Scalar(TclValue),
    Array(Table<TclValue>),
    Link(VariableRef),
}

/// A variable's position after following links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariableRef {
    frame: usize,
    name: String,
    index: Option<String>,
}

pub(crate) fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(')').and_then(|name| name.split_once('(')) {
        Some((name, index)) => (name, Some(index)),
        None => (name, None),
    }
}

impl CallFrame {
    pub(crate) fn new(caller: usize, level: usize, call: Vec<TclValue>) -> Self {
        Self { variables: Table::default(), caller, level, call }
    }
}

impl TclInterpreter {
    pub(crate) fn get(&self, name: &str) -> Result<TclValue, TclError> {
        let (base, index) = split_name(name);
        self.get_part(base, index)
    }

    /// Reads an element, or a scalar if there is no index.
    pub(crate) fn get_part(&self, name: &str, index: Option<&str>) -> Result<TclValue, TclError> {
        let cannot = |why: &str| {
            let shown = index.map_or(name.to_owned(), |index| format!("{name}({index})"));
            TclError::new(format!("can't read \"{}\": {why}", short(&shown)))
        };
        let place = self.resolve(self.current, name, index);
        let slot = self.frames[place.frame].variables.get(&place.name);
        match (slot, &place.index) {
            (Some(Slot::Scalar(value)), None) => Ok(value.clone()),
            (Some(Slot::Array(table)), Some(index)) => {
                table.get(index).cloned().ok_or_else(|| cannot("no such element in array"))
            }
            (Some(Slot::Array(_)), None) => Err(cannot("variable is array")),
            (Some(Slot::Scalar(_)), Some(_)) => Err(cannot("variable isn't array")),
            _ => Err(cannot("no such variable")),
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: TclValue) -> Result<(), TclError> {
        let (base, index) = split_name(name);
        let place = self.resolve(self.current, base, index);
        self.set_at(&place, value).map_err(|why| TclError::new(format!("can't set \"{}\": {why}", short(name))))
    }

    /// Changes the value of `name` in place; a new variable starts empty.
    pub(crate) fn update(&mut self, name: &str, change: impl FnOnce(&mut TclValue)) -> Result<TclValue, TclError> {
        let (base, index) = split_name(name);
        let place = self.resolve(self.current, base, index);
        let slot = self.frames[place.frame].variables.get_mut(&place.name);
        let value = match (slot, &place.index) {
            (Some(Slot::Scalar(value)), None) => Some(value),
            (Some(Slot::Array(table)), Some(index)) => table.get_mut(index),
            _ => None,
        };
        if let Some(value) = value {
            change(value);
            return Ok(value.clone());
        }
        let mut value = TclValue::default();
        change(&mut value);
        self.set_at(&place, value.clone())
            .map_err(|why| TclError::new(format!("can't set \"{}\": {why}", short(name))))?;
        Ok(value)
    }

    fn set_at(&mut self, place: &VariableRef, value: TclValue) -> Result<(), String> {
        let variables = &mut self.frames[place.frame].variables;
        let is_new = match (variables.get_mut(&place.name), &place.index) {
            (Some(Slot::Scalar(old)), None) => {
                *old = value;
                false
            }
            (Some(Slot::Array(table)), Some(index)) => table.insert(index, value),
            (Some(Slot::Array(_)), None) => return Err("variable is array".to_owned()),
            (Some(Slot::Scalar(_)), Some(_)) => return Err("variable isn't array".to_owned()),
            (_, None) => variables.insert(&place.name, Slot::Scalar(value)),
            (_, Some(index)) => {
                let mut table = Table::default();
                table.insert(index, value);
                variables.insert(&place.name, Slot::Array(table))
            }
        };
        self.stored += usize::from(is_new);
        match self.stored > self.limits.variables {
            true => Err(format!("there are more than {} variables", self.limits.variables)),
            false => Ok(()),
        }
    }

    /// True if `name` or `name(index)` has a value.
    pub(crate) fn exists(&self, name: &str) -> bool {
        let (base, index) = split_name(name);
        let place = self.resolve(self.current, base, index);
        match (self.frames[place.frame].variables.get(&place.name), &place.index) {
            (Some(Slot::Scalar(_) | Slot::Array(_)), None) => true,
            (Some(Slot::Array(table)), Some(index)) => table.get(index).is_some(),
            _ => false,
        }
    }

    /// Removes `name` or `name(index)`; true if it existed.
    pub(crate) fn unset(&mut self, name: &str) -> bool {
        let (base, index) = split_name(name);
        let place = self.resolve(self.current, base, index);
        let variables = &mut self.frames[place.frame].variables;
        let removed = match (variables.get_mut(&place.name), &place.index) {
            (Some(Slot::Array(table)), Some(index)) => usize::from(table.remove(index).is_some()),
            (Some(Slot::Scalar(_) | Slot::Array(_)), None) => {
                variables.remove(&place.name).map_or(0, |slot| slot.size())
            }
            _ => 0,
        };
        self.stored = self.stored.saturating_sub(removed);
        removed > 0
    }

    pub(crate) fn array(&self, name: &str) -> Option<&Table<TclValue>> {
        let place = self.resolve(self.current, name, None);
        match self.frames[place.frame].variables.get(&place.name) {
            Some(Slot::Array(table)) => Some(table),
            _ => None,
        }
    }

    /// Makes `name` an array if it does not exist yet.
    pub(crate) fn make_array(&mut self, name: &str) -> Result<(), TclError> {
        let place = self.resolve(self.current, name, None);
        let variables = &mut self.frames[place.frame].variables;
        match variables.get(&place.name) {
            Some(Slot::Array(_)) => Ok(()),
            Some(Slot::Scalar(_)) => {
                Err(TclError::new(format!("can't array set \"{}\": variable isn't array", short(name))))
            }
            _ => {
                variables.insert(&place.name, Slot::Array(Table::default()));
                self.stored += 1;
                Ok(())
            }
        }
    }

    /// Makes `local` of this frame a link to `name`, perhaps an element, of `frame`.
    pub(crate) fn link(&mut self, local: &str, frame: usize, name: &str) -> Result<(), TclError> {
        let (base, index) = split_name(name);
        let target = self.resolve(frame, base, index);
        if target.frame == self.current && target.name == local && target.index.is_none() {
            // A global that links to itself.
            return if frame == 0 && self.current == 0 {
                Ok(())
            } else {
                Err(TclError::new("can't upvar from variable to itself"))
            };
        }
        let variables = &mut self.frames[self.current].variables;
        if matches!(variables.get(local), Some(Slot::Scalar(_) | Slot::Array(_))) {
            return Err(TclError::new(format!("variable \"{}\" already exists", short(local))));
        }
        self.stored += usize::from(variables.insert(local, Slot::Link(target)));
        Ok(())
    }

    /// True if there is a global variable `name`, whatever this frame has.
    pub(crate) fn is_global(&self, name: &str) -> bool {
        let name = name.trim_start_matches("::");
        matches!(self.frames[0].variables.get(name), Some(Slot::Scalar(_) | Slot::Array(_)))
    }

    /// The names of the variables of `frame`, links included.
    pub(crate) fn variable_names(&self, frame: usize) -> Vec<String> {
        self.frames[frame].variables.keys().map(str::to_owned).collect()
    }

    /// The names of the variables that `frame` holds itself.
    pub(crate) fn own_variable_names(&self, frame: usize) -> Vec<String> {
        let variables = &self.frames[frame].variables;
        let is_own = |name: &&str| !matches!(variables.get(name), Some(Slot::Link(_)));
        variables.keys().filter(is_own).map(str::to_owned).collect()
    }

    /// Subtracts the values of a frame that ends from the count.
    pub(crate) fn forget(&mut self, frame: &CallFrame) {
        let held: usize = frame.variables.keys().filter_map(|name| frame.variables.get(name)).map(Slot::size).sum();
        self.stored = self.stored.saturating_sub(held);
    }

    fn resolve(&self, frame: usize, name: &str, index: Option<&str>) -> VariableRef {
        let frame = if name.starts_with("::") { 0 } else { frame };
        let name = name.trim_start_matches("::").to_owned();
        let mut place = VariableRef { frame, name, index: index.map(str::to_owned) };
        for _ in 0..MAX_LINKS {
            match self.frames[place.frame].variables.get(&place.name) {
                Some(Slot::Link(target)) => {
                    let index = target.index.clone().or(place.index);
                    place = VariableRef { index, ..target.clone() };
                }
                _ => break,
            }
        }
        place
    }
}

impl Slot {
    fn size(&self) -> usize {
        match self {
            Self::Array(table) => table.len() + 1,
            Self::Scalar(_) | Self::Link(_) => 1,
        }
    }
}
