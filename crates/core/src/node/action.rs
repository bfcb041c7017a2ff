//! The actions of the group's policy that a node's own requests are.

use roost_policy::Action;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, Form, Scope};

pub(super) fn action_of(request: &ServiceRequest) -> Action {
    match request.service.form() {
        Form::Call => Action::Call,
        _ if request.reflect == ReflectionPolicy::Always => Action::Subscribe,
        _ => Action::Request,
    }
}

/// The place of the provider, if a request leaves but one.
pub(super) fn place_of(scope: Scope, area: Area, here: Cell) -> Option<Cell> {
    match area {
        Area::Exact(cell) => Some(cell),
        area if scope == Scope::Cell => Some(area.center().unwrap_or(here)),
        _ => None,
    }
}
