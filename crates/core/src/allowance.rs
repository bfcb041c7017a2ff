//! The actions that the group's policy allows a member.

use std::sync::Arc;

use roost_policy::{Action, Attempt, Member, Permissions, Policy, Verdict};
use roost_wire::{Area, Cell, NodeId, RemoteIdentity, Service, ServiceSet};

/// An attempt of a remote that the group's policy does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub node: NodeId,
    pub name: String,
    pub action: Action,
    /// `None` if the action concerns no service in particular.
    pub service: Option<Service>,
    /// The place of the provider, or the area of the search; `None` if it is not known.
    pub area: Option<Area>,
    /// Number and title of the rule that decides, for people.
    pub rule: String,
}

/// Permissions of a member; everything, while the group has no policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance(Option<Permissions>);

impl Allowance {
    pub(crate) fn new(policy: Option<&Arc<Policy>>, member: &RemoteIdentity) -> Self {
        let RemoteIdentity { role, name, labels, .. } = member;
        Self(policy.map(|policy| policy.permissions(Member { role: *role, name, labels })))
    }

    /// True if the member may do so with a service of a provider at `place`.
    pub(crate) fn permits(&self, action: Action, service: Option<Service>, place: Option<Cell>) -> bool {
        let attempt = Attempt { action, service: service.as_ref().map(Service::base_name), place };
        self.0.as_ref().is_none_or(|permissions| permissions.judge(&attempt).is_allowed())
    }

    /// True if there may be a place at which the member may do so.
    pub(crate) fn may_permit(&self, action: Action, service: Option<Service>) -> bool {
        self.at_best(action, service).is_allowed()
    }

    /// The services of a provider at `place` with which the member may do so.
    pub(crate) fn permitted(&self, action: Action, services: &ServiceSet, place: Cell) -> ServiceSet {
        if self.0.is_none() {
            return services.clone();
        }
        services.filtered(|service| self.permits(action, Some(service), Some(place)))
    }

    /// The refusal of what the member may not do, in one sentence. A place that is not known is the best for it.
    pub(crate) fn refusal(
        &self,
        name: &str,
        action: Action,
        service: Option<Service>,
        place: Option<Cell>,
    ) -> Option<String> {
        let attempt = Attempt { action, service: service.as_ref().map(Service::base_name), place };
        let permissions = self.0.as_ref()?;
        let verdict = if place.is_some() { permissions.judge(&attempt) } else { self.at_best(action, service) };
        (!verdict.is_allowed()).then(|| permissions.policy().refusal(name, &attempt, verdict))
    }

    /// The rule that denies an action in an area, for people; `None` if the member has it there or somewhere in it.
    pub(crate) fn rule_against(&self, action: Action, service: Option<Service>, area: Option<Area>) -> Option<String> {
        let permissions = self.0.as_ref()?;
        let judge =
            |place| permissions.judge(&Attempt { action, service: service.as_ref().map(Service::base_name), place });
        let verdict = match area {
            Some(Area::Exact(cell)) => judge(Some(cell)),
            Some(_) => self.at_best(action, service),
            None => judge(None),
        };
        (!verdict.is_allowed()).then(|| permissions.policy().decisive(verdict))
    }

    fn at_best(&self, action: Action, service: Option<Service>) -> Verdict {
        let judge =
            |permissions: &Permissions| permissions.judge_at_best(action, service.as_ref().map(Service::base_name));
        self.0.as_ref().map_or(Verdict::Allowed(0), judge)
    }
}
