//! The services of people's own that a node watches: those of which it has heard.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use roost_wire::{Form, Offer, Service, ServiceSet};
use tokio::sync::Notify;

/// The most services that are watched beside the four that every node knows.
const MAX_SERVICES: usize = 24;

/// Names of services, in whatever form. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnServices(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    names: Mutex<BTreeSet<Service>>,
    more: Notify,
}

impl OwnServices {
    /// Adds those that are new, as far as a watch has room for them.
    pub(crate) fn add(&self, services: impl IntoIterator<Item = Service>) {
        let own = services.into_iter().map(|service| service.base().with_form(Form::Any));
        let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        let before = names.len();
        for service in own.filter(|service| matches!(service, Service::Named(_))) {
            if names.len() < MAX_SERVICES && names.insert(service) && watched(&names).is_none() {
                names.remove(&service);
            }
        }
        if names.len() > before {
            self.0.more.notify_waiters();
        }
    }

    pub(crate) fn watched(&self) -> ServiceSet {
        watched(&self.0.names.lock().unwrap_or_else(PoisonError::into_inner)).unwrap_or(ServiceSet::ALL)
    }

    /// Waits until there are more than in `set`.
    pub(crate) async fn more_than(&self, set: &ServiceSet) {
        loop {
            let more = self.0.more.notified();
            if self.watched().iter().count() > set.iter().count() {
                return;
            }
            more.await;
        }
    }
}

/// The services of a watch; `None` if they are too many for one.
fn watched(names: &BTreeSet<Service>) -> Option<ServiceSet> {
    let all = ServiceSet::ALL.iter().chain(names.iter().copied());
    ServiceSet::from_offers(all.map(Offer::new)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(text: &str) -> Service {
        text.parse().unwrap()
    }

    #[test]
    fn forms_and_instances_are_one_service() {
        let own = OwnServices::default();
        own.add(["acme/lidar:stream", "acme/lidar#bow:object", "video#mast", "video"].map(service));
        assert_eq!(own.watched().iter().count(), 5);
        assert!(own.watched().contains(service("acme/lidar")) && own.watched().contains(Service::Video));
    }

    #[test]
    fn services_of_a_watch_are_limited() {
        let own = OwnServices::default();
        own.add((0..1_000).map(|number| service(&format!("acme/a-service-with-a-long-name-{number}"))));
        let count = own.watched().iter().count();
        assert!(count > 10 && count <= 4 + MAX_SERVICES, "{count}");
        assert!(ServiceSet::from_offers(own.watched().iter().map(Offer::new)).is_ok());
    }

    #[tokio::test]
    async fn new_service_wakes_the_watch() {
        let own = OwnServices::default();
        let before = own.watched();
        let waiting = tokio::spawn({
            let (own, before) = (own.clone(), before.clone());
            async move { own.more_than(&before).await }
        });
        own.add([service("acme/lidar")]);
        waiting.await.unwrap();
        own.add([service("acme/lidar:call")]);
        assert_eq!(own.watched().iter().count(), before.iter().count() + 1);
    }
}
