//! Blockstores. Like Emulab, this makes a host and a link for remote ones; there is no storage behind them.

use super::methods::arity;
use super::state::{Blockstore, NsNode, NsObjectId, NsObjectKind};
use super::tcl::completion::{TclCompletion, TclResult};
use super::tcl::interp::TclInterpreter;
use super::tcl::value::TclValue;

impl TclInterpreter {
    pub(crate) fn make_blockstore(&mut self) -> TclResult {
        self.warn("there is no storage here: a blockstore is only a host and a link");
        let name = format!("tbblk-n{}", self.world.next_made());
        let id = self.world.add(name.clone(), self.line, NsObjectKind::Blockstore(Blockstore::default()))?;
        self.world.blockstores.insert(&name, id);
        self.world.expect_name(id);
        Ok(TclValue::from(name))
    }

    pub(crate) fn blockstore_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        let fixed = match method {
            "set-node" | "set_fixed" => {
                arity(arguments, 1, 1, "$blockstore set-node node")?;
                Some(self.node_named(&arguments[0])?)
            }
            "set-class" | "set-size" | "set-lease" | "set-type" | "set-protocol" | "set-placement"
            | "set-mount-point" => {
                arity(arguments, 1, 1, "$blockstore set-… value")?;
                None
            }
            other => return Ok(self.unknown_method(id, other)),
        };
        let NsObjectKind::Blockstore(store) = &mut self.world.object_mut(id).kind else {
            return Ok(TclValue::default());
        };
        match method {
            "set-class" => store.class = Some(arguments[0].as_str().to_owned()),
            "set-size" => store.sized = true,
            "set-lease" => store.leased = true,
            _ if fixed.is_some() => (store.node, store.hosted) = (fixed, false),
            _ => {}
        }
        Ok(TclValue::default())
    }

    /// The host of a blockstore, made at the first call.
    pub(crate) fn host_of_blockstore(&mut self, id: NsObjectId) -> Result<NsObjectId, TclCompletion> {
        let NsObjectKind::Blockstore(store) = &self.world.object(id).kind else { return Ok(id) };
        if let Some(node) = store.node {
            return Ok(node);
        }
        let host = self.make_storage_host(id)?;
        if let NsObjectKind::Blockstore(store) = &mut self.world.object_mut(id).kind {
            (store.node, store.hosted) = (Some(host), true);
        }
        Ok(host)
    }

    fn make_storage_host(&mut self, id: NsObjectId) -> Result<NsObjectId, TclCompletion> {
        let name = format!("blockhost-{}", self.world.name(id));
        let node = self.make_node(NsNode::default())?;
        let host = self.object_named(&node)?;
        let here = std::mem::replace(&mut self.current, 0);
        let named = self.name_object(&name, &node);
        self.current = here;
        named?;
        self.world.object_mut(host).variables.insert("type".to_owned(), TclValue::from("blockstore"));
        Ok(host)
    }

    /// Finishes every blockstore at `$ns run`, as Emulab does.
    pub(crate) fn finish_blockstores(&mut self) -> Result<(), TclCompletion> {
        let stores: Vec<NsObjectId> = self.world.blockstores.keys().filter_map(|name| self.world.find(name)).collect();
        for id in stores {
            self.finish_blockstore(id)?;
        }
        Ok(())
    }

    fn finish_blockstore(&mut self, id: NsObjectId) -> Result<(), TclCompletion> {
        let name = self.world.name(id).to_owned();
        let NsObjectKind::Blockstore(store) = &self.world.object(id).kind else { return Ok(()) };
        let refuse = |why: &str| Err(TclCompletion::refuse(format!("the blockstore \"{name}\" {why}")));
        let Some(node) = store.node else { return refuse("is not attached to anything: use set-node, or a link") };
        let class = match (store.leased, store.class.as_deref()) {
            (true, Some(_)) => return refuse("has a lease, which says its class: leave out set-class"),
            (true, None) => "SAN",
            (false, Some(class)) => class,
            (false, None) => return refuse("has no class: use set-class"),
        };
        if class != "SAN" {
            return Ok(());
        }
        if !store.sized && !store.leased {
            return refuse("has no size: use set-size");
        }
        if store.hosted {
            let ports = self.world.node(node).map_or(0, |node| node.ports.len());
            return if ports == 1 { Ok(()) } else { refuse("must be on one link or LAN") };
        }
        let host = self.make_storage_host(id)?;
        let ends = [node, host].map(|end| TclValue::from(self.world.name(end)));
        let [node, host] = ends;
        let link =
            self.duplex_link(&[node, host, TclValue::from("~"), TclValue::from("0ms"), TclValue::from("DropTail")])?;
        let here = std::mem::replace(&mut self.current, 0);
        let named = self.name_object(&format!("{name}-link"), &link);
        self.current = here;
        named.map(|_| ())
    }
}
