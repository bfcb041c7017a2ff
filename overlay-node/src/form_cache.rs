//! The forms of own services that lookups have told: a request that does not say one costs no lookup for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use roost_wire::{Area, Form, Metadata, NodeSelector, Service};

use crate::provider_cache::KEPT;

/// The most forms that are remembered; the one told longest ago makes room.
const MAX_FORMS: usize = 256;

/// All that a lookup for a form depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FormQuestion {
    pub(crate) service: Service,
    pub(crate) area: Area,
    pub(crate) filter: Metadata,
    pub(crate) provider: Option<NodeSelector>,
}

#[derive(Debug, Default)]
pub(crate) struct FormCache(Mutex<BTreeMap<FormQuestion, (Instant, Form)>>);

impl FormCache {
    pub(crate) fn record(&self, now: Instant, question: FormQuestion, form: Form) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| now.duration_since(*at) < KEPT);
        known.insert(question, (now, form));
        if known.len() > MAX_FORMS
            && let Some(oldest) = known.iter().min_by_key(|(_, (at, _))| *at).map(|(question, _)| question.clone())
        {
            known.remove(&oldest);
        }
    }

    pub(crate) fn find(&self, now: Instant, question: &FormQuestion) -> Option<Form> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(question).filter(|(at, _)| now.duration_since(*at) < KEPT).map(|(_, form)| *form)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn question(service: &str) -> FormQuestion {
        let service = service.parse().unwrap();
        FormQuestion { service, area: Area::Anywhere, filter: Metadata::EMPTY, provider: None }
    }

    #[test]
    fn form_is_known_for_one_lease() {
        let (forms, now) = (FormCache::default(), Instant::now());
        forms.record(now, question("acme/map"), Form::Object);
        assert_eq!(forms.find(now, &question("acme/map")), Some(Form::Object));
        assert_eq!(forms.find(now, &question("acme/lidar")), None);
        let with_metadata = FormQuestion { filter: "layer=roads".parse().unwrap(), ..question("acme/map") };
        assert_eq!(forms.find(now, &with_metadata), None, "another offer may be of another form");
        assert_eq!(forms.find(now + KEPT, &question("acme/map")), None);
    }

    #[test]
    fn forms_have_a_limit() {
        let (forms, began) = (FormCache::default(), Instant::now());
        let at = |number: u64| began + Duration::from_millis(number);
        for number in 0..1_000 {
            forms.record(at(number), question(&format!("acme/s{number}")), Form::Stream);
        }
        assert_eq!(forms.0.lock().unwrap().len(), MAX_FORMS);
        assert!(forms.find(at(999), &question("acme/s0")).is_none());
        assert_eq!(forms.find(at(999), &question("acme/s999")), Some(Form::Stream));
    }
}
