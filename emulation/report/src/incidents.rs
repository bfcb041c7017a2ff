//! The incidents that a page tells.

use std::collections::BTreeSet;

use roost_results::{Incident, Results};

/// All but the first start of each program, which is part of the plan and has its time in the table of programs.
pub(super) fn incidents(results: &Results) -> Vec<&Incident> {
    let mut started = BTreeSet::new();
    let mut all = Vec::new();
    for incident in &results.incidents {
        let is_start = incident.what.strip_suffix(" is started") == Some(&incident.object);
        if !(is_start && started.insert(&incident.object)) {
            all.push(incident);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use roost_results::testing;

    use super::*;

    #[test]
    fn first_starts_are_no_incidents() {
        let incident = |t, object: &str, what: &str| Incident { t, object: object.into(), what: what.into() };
        let mut results = testing::by_hand();
        results.incidents = vec![
            incident(0.0, "echo", "echo is started"),
            incident(1.0, "net", "net is down"),
            incident(2.0, "echo", "echo is started"),
            incident(3.0, "node1", "the node on node1 is started again"),
        ];
        let times: Vec<f64> = incidents(&results).iter().map(|incident| incident.t).collect();
        assert_eq!(times, [1.0, 2.0, 3.0]);
    }
}
