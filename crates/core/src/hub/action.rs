//! The actions of the group's policy that requests are.

use roost_policy::Action;
use roost_wire::messages::{Request, RequestMode};
use roost_wire::{Form, Service};

/// The service that an action is about: files that are sent are of none.
pub(super) fn subject_of(action: Action, service: Service) -> Option<Service> {
    (action != Action::Send).then_some(service)
}

/// The action that a node's request is.
pub(super) fn action_of(request: &Request) -> Action {
    match request.spec.mode {
        RequestMode::Lookup => Action::Lookup,
        _ if request.connect_to.is_some() => Action::Send,
        _ if request.copy_target.is_some() => Action::Subscribe,
        RequestMode::Forward | RequestMode::Relay if request.spec.service.form() == Form::Call => Action::Call,
        RequestMode::Forward | RequestMode::Relay => Action::Request,
    }
}
