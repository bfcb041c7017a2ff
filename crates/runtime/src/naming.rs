//! Finds the node that a person means, and remembers the names of nodes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use roost_api::Code;
use roost_api::server::ApiError;
use roost_wire::{NodeId, NodeSelector, format_node, printable};

use crate::shared::DaemonContext;

/// The most names that are remembered; the one that was heard longest ago makes room.
const MAX_NAMES: usize = 4_096;

/// The most ids that an error names.
const MAX_NAMED: usize = 8;

/// Names of nodes, from their certificates or from hubs.
#[derive(Debug, Default)]
pub struct NodeNames(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// With the value of `heard` when the name was last told.
    names: BTreeMap<NodeId, (u64, String)>,
    heard: u64,
}

impl NodeNames {
    pub fn record_name(&self, node: NodeId, name: &str) {
        let mut known = self.lock();
        known.heard += 1;
        let heard = known.heard;
        match known.names.get_mut(&node) {
            Some(held) if held.1 == name => held.0 = heard,
            _ => drop(known.names.insert(node, (heard, name.to_owned()))),
        }
        if known.names.len() > MAX_NAMES
            && let Some(oldest) = known.names.iter().min_by_key(|(_, (heard, _))| *heard).map(|(node, _)| *node)
        {
            known.names.remove(&oldest);
        }
    }

    /// A node as people read it.
    pub fn who(&self, shared: &DaemonContext, node: NodeId) -> String {
        format_node(node, self.get(shared, node).as_deref())
    }

    /// The name of a node: from its certificate if it is connected, else as last told.
    pub fn get(&self, shared: &DaemonContext, node: NodeId) -> Option<String> {
        if let Some(name) = certified(shared, node) {
            self.record_name(node, &name);
            return Some(name);
        }
        self.lock().names.get(&node).map(|(_, name)| name.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name in the certificate of a connected node, or of this daemon.
pub fn certified(shared: &DaemonContext, node: NodeId) -> Option<String> {
    if node == shared.node() {
        return Some(shared.name().to_owned());
    }
    shared
        .transport
        .connections()
        .into_iter()
        .find(|connection| connection.remote.node == node)
        .map(|connection| connection.remote.name)
}

/// The connected nodes and their names.
pub fn connected(shared: &DaemonContext) -> BTreeMap<NodeId, Option<String>> {
    shared
        .transport
        .connections()
        .into_iter()
        .map(|connection| (connection.remote.node, Some(connection.remote.name)))
        .collect()
}

/// Finds the node of `known` by its name, else by the beginning of its id.
///
/// # Errors
/// Fails with `nobody` if there is none, and with their ids if there are several.
pub fn resolve_node(
    selector: &NodeSelector,
    known: &BTreeMap<NodeId, Option<String>>,
    nobody: impl FnOnce() -> ApiError,
) -> Result<NodeId, ApiError> {
    if let Ok(node) = selector.as_str().parse() {
        return Ok(node);
    }
    let has_name = |(_, name): &(&NodeId, &Option<String>)| name.as_deref() == Some(selector.as_str());
    let mut meant: Vec<_> = known.iter().filter(has_name).collect();
    if meant.is_empty() {
        meant = known.iter().filter(|(node, _)| selector.matches(**node, None)).collect();
    }
    match meant[..] {
        [] => Err(nobody()),
        [(node, _)] => Ok(*node),
        ref several => {
            let count = several.len();
            let one = |(node, name): &(&NodeId, &Option<String>)| match name {
                Some(name) => format!("{node} ({})", printable(name)),
                None => node.to_string(),
            };
            let ids: Vec<String> = several.iter().take(MAX_NAMED).map(one).collect();
            let more = if count > MAX_NAMED { format!(" and {} more", count - MAX_NAMED) } else { String::new() };
            let ids = ids.join(", ");
            let message =
                format!("{selector} may mean {count} nodes, {ids}{more}: give as much of the id as tells them apart");
            Err(ApiError::new(Code::Usage, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(nodes: &[(&str, Option<&str>)]) -> BTreeMap<NodeId, Option<String>> {
        let id = |digits: &str| format!("{digits:0<32}").parse().unwrap();
        nodes.iter().map(|(digits, name)| (id(digits), name.map(str::to_owned))).collect()
    }

    fn nobody() -> ApiError {
        ApiError::new(Code::NotFound, "nobody")
    }

    #[test]
    fn name_goes_before_beginning_of_id() {
        let known = known(&[("ab1", Some("uav1")), ("ab2", Some("uav12")), ("c", Some("ab1")), ("d", None)]);
        for (called, node) in [("uav1", "ab1"), ("uav12", "ab2"), ("ab1", "c"), ("ab2", "ab2"), ("D", "d")] {
            let picked = resolve_node(&called.parse().unwrap(), &known, nobody).unwrap();
            assert_eq!(picked.to_string(), format!("{node:0<32}"), "{called}");
        }
        for (called, code) in [("ab", Code::Usage), ("uav", Code::NotFound), ("e", Code::NotFound)] {
            let refusal = resolve_node(&called.parse().unwrap(), &known, nobody).unwrap_err();
            assert_eq!(refusal.0.code, code, "{called}");
        }
    }

    #[test]
    fn ambiguous_name_lists_nodes() {
        let known = known(&[("a", Some("uav")), ("b", Some("uav")), ("c", Some("uav7"))]);
        let refusal = resolve_node(&"uav".parse().unwrap(), &known, nobody).unwrap_err();
        let message = refusal.0.message;
        assert!(message.contains(&format!("{:0<32} (uav), {:0<32} (uav)", "a", "b")), "{message}");
        assert!(!message.contains("uav7"), "{message}");
    }

    #[test]
    fn oldest_name_makes_room() {
        let names = NodeNames::default();
        for number in 0..=MAX_NAMES as u128 {
            names.record_name(NodeId::from_bytes(number.to_be_bytes()), "n");
        }
        let known = names.lock();
        assert_eq!(known.names.len(), MAX_NAMES);
        assert!(!known.names.contains_key(&NodeId::from_bytes([0; 16])));
    }
}
