//! Links and LANs, and their sides.

use std::time::Duration;

use roost_topology::model::{MAX_MEMBERS, MAX_NETS};

use super::methods::arity;
use super::state::{NsLeg, NsMember, NsNet, NsObjectId, NsObjectKind, NsQueue};
use super::tcl::completion::{TclCompletion, TclResult, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::short;
use super::tcl::value::TclValue;
use super::units::{self, Bandwidth};

struct NetSpec {
    lan: bool,
    nodes: Vec<NsObjectId>,
    bandwidth: Bandwidth,
    shape: NsLeg,
    red: bool,
    gentle: bool,
}

impl TclInterpreter {
    pub(crate) fn duplex_link(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 5, usize::MAX, "$ns duplex-link node1 node2 bandwidth delay queue")?;
        self.extra(arguments, 5, "duplex-link");
        let nodes = vec![self.end_named(&arguments[0])?, self.end_named(&arguments[1])?];
        if nodes[0] == nodes[1] {
            self.warn(format!("both ends of this link are \"{}\"", arguments[0].as_str()));
        }
        let (red, gentle) = match arguments[4].as_str() {
            "DropTail" | "" => (false, false),
            "RED" => (true, false),
            "GRED" => (true, true),
            other => {
                self.warn(format!(
                    "\"{}\" is no queue that Emulab has (DropTail, RED, GRED): DropTail is used",
                    short(other)
                ));
                (false, false)
            }
        };
        let (bandwidth, shape) = self.read_shape(&arguments[2], &arguments[3])?;
        let id = self.make_net(NetSpec { lan: false, nodes: nodes.clone(), bandwidth, shape, red, gentle })?;
        self.world.links.insert((nodes[0], nodes[1]), id);
        self.world.links.insert((nodes[1], nodes[0]), id);
        Ok(TclValue::from(self.world.name(id)))
    }

    pub(crate) fn make_lan(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 3, usize::MAX, "$ns make-lan nodes bandwidth delay")?;
        self.extra(arguments, 3, "make-lan");
        let mut nodes = Vec::new();
        for word in self.list(&arguments[0])?.iter() {
            nodes.push(self.end_named(word)?);
        }
        let (bandwidth, shape) = self.read_shape(&arguments[1], &arguments[2])?;
        if nodes.is_empty() {
            self.warn("this LAN has no members");
        }
        let id = self.make_net(NetSpec { lan: true, nodes, bandwidth, shape, red: false, gentle: false })?;
        Ok(TclValue::from(self.world.name(id)))
    }

    /// A node, or the host of a blockstore.
    fn end_named(&mut self, word: &TclValue) -> Result<NsObjectId, TclCompletion> {
        let id = self.object_named(word)?;
        match self.world.object(id).kind {
            NsObjectKind::Blockstore(_) => self.host_of_blockstore(id),
            _ => self.node_named(word),
        }
    }

    fn make_net(&mut self, plan: NetSpec) -> Result<NsObjectId, TclCompletion> {
        let what = if plan.lan { "tblan-lan" } else { "tblink-l" };
        let name = format!("{what}{}", self.world.next_made());
        if plan.shape.kbps > units::FASTEST {
            return Err(TclCompletion::refuse(format!(
                "the rate is above {} Gbit/s, the fastest that a link may be",
                units::FASTEST / 1_000_000
            )));
        }
        self.world.nets += 1;
        self.world.members += plan.nodes.len();
        if self.world.nets > MAX_NETS || self.world.members > MAX_MEMBERS {
            return Err(TclCompletion::refuse(format!(
                "there are more than {MAX_NETS} links and LANs, or more than {MAX_MEMBERS} interfaces"
            )));
        }
        self.spend(plan.nodes.len())?;
        let best_effort = plan.bandwidth == Bandwidth::BestEffort;
        let net = NsNet { lan: plan.lan, members: Vec::new(), cost: 1.0, prefix: 24, best_effort, cloud: false };
        let id = self.world.add(name, self.line, NsObjectKind::Net(net))?;
        let members = self.make_members(id, &plan)?;
        for (at, member) in members.iter().enumerate() {
            if let Some(node) = self.world.node_mut(member.node) {
                node.ports.push((id, at));
            }
        }
        if let Some(net) = self.world.net_mut(id) {
            net.members = members;
        }
        self.world.expect_name(id);
        Ok(id)
    }

    /// Emulab numbers a queue for every member; a link gets two more, which are the ones in use.
    fn make_members(&mut self, net: NsObjectId, plan: &NetSpec) -> Result<Vec<NsMember>, TclCompletion> {
        let mut members = Vec::new();
        let last = plan.nodes.len();
        // Fits u32: there are no more members than interfaces.
        let pair = if plan.lan { 0 } else { self.world.next_numbered(last as u32) };
        for (at, &node) in plan.nodes.iter().enumerate() {
            let name = match (plan.lan, at) {
                (true, _) => format!("lqq{}", self.world.next_numbered(0)),
                (false, 0) => format!("toq{pair}"),
                (false, _) => format!("fromq{pair}"),
            };
            let queue = NsQueue { net, node, red: plan.red, gentle: plan.gentle };
            let queue = self.world.add(name, self.line, NsObjectKind::Queue(queue))?;
            members.push(NsMember { node, address: None, to_net: plan.shape, from_net: plan.shape, queue });
        }
        Ok(members)
    }

    /// `$ns link a b`: the side of `a`.
    pub(crate) fn link_side(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 2, 2, "$ns link node1 node2")?;
        let (source, target) = (self.node_named(&arguments[0])?, self.node_named(&arguments[1])?);
        let net = self.link_between(source, target)?;
        let members = self.world.net(net).map_or(&[][..], |net| &net.members);
        let Some(member) = members.iter().find(|member| member.node == source) else {
            return fail("the link has no such end");
        };
        let queue = member.queue;
        self.add_side(net, queue, "sl")
    }

    /// `$ns lanlink lan node`: the side of `node`.
    pub(crate) fn lan_side(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 2, 2, "$ns lanlink lan node")?;
        let (lan, node) = (self.lan_named(&arguments[0])?, self.node_named(&arguments[1])?);
        let at = self.member(lan, node)?;
        let queue = self.world.net(lan).map(|net| net.members[at].queue);
        match queue {
            Some(queue) => self.add_side(lan, queue, "ll"),
            None => Ok(TclValue::default()),
        }
    }

    fn add_side(&mut self, net: NsObjectId, queue: NsObjectId, prefix: &str) -> TclResult {
        let name = format!("{prefix}{}", self.world.next_numbered(0));
        self.world.add(name.clone(), self.line, NsObjectKind::Side { net, queue })?;
        Ok(TclValue::from(name))
    }

    /// The latest link between two nodes.
    pub(crate) fn link_between(&self, a: NsObjectId, b: NsObjectId) -> Result<NsObjectId, TclCompletion> {
        match self.world.links.get(&(a, b)) {
            Some(link) => Ok(*link),
            None => Err(TclCompletion::refuse(format!(
                "there is no link between \"{}\" and \"{}\"",
                self.world.name(a),
                self.world.name(b)
            ))),
        }
    }

    /// The first index of `node` among the members of `net`.
    pub(crate) fn member(&self, net: NsObjectId, node: NsObjectId) -> Result<usize, TclCompletion> {
        let members = self.world.net(net).map_or(&[][..], |net| &net.members);
        members.iter().position(|member| member.node == node).ok_or_else(|| {
            TclCompletion::refuse(format!("\"{}\" is not in \"{}\"", self.world.name(node), self.world.name(net)))
        })
    }

    /// `$ns cost a b c`: Emulab has a cost for each interface; here the link has one.
    pub(crate) fn side_cost(&mut self, arguments: &[TclValue]) -> TclResult {
        arity(arguments, 3, 3, "$ns cost node1 node2 cost")?;
        let (a, b) = (self.node_named(&arguments[0])?, self.node_named(&arguments[1])?);
        let link = self.link_between(a, b)?;
        self.warn("the cost is of the link in both directions here");
        self.set_cost(link, &arguments[2])
    }

    fn set_cost(&mut self, net: NsObjectId, cost: &TclValue) -> TclResult {
        match cost.as_str().trim().parse::<f64>() {
            Ok(number) if number > 0.0 && number <= 1e9 => {
                if let Some(net) = self.world.net_mut(net) {
                    net.cost = number;
                }
                Ok(TclValue::default())
            }
            _ => Err(TclCompletion::refuse(format!("\"{}\" is no cost: write a number above 0", short(cost.as_str())))),
        }
    }

    pub(crate) fn net_method(&mut self, id: NsObjectId, method: &str, arguments: &[TclValue]) -> TclResult {
        match method {
            "cost" => {
                arity(arguments, 1, 1, "$link cost number")?;
                self.assigned(&["cost"]);
                self.set_cost(id, &arguments[0])
            }
            "Queue" => {
                arity(arguments, 1, 1, "$link Queue node")?;
                let node = self.node_named(&arguments[0])?;
                let at = self.member(id, node)?;
                let queue = self.world.net(id).map(|net| net.members[at].queue);
                Ok(queue.map_or_else(TclValue::default, |queue| TclValue::from(self.world.name(queue))))
            }
            "get_port" => {
                arity(arguments, 1, 1, "$link get_port node")?;
                let node = self.node_named(&arguments[0])?;
                let ports = self.world.node(node).map_or(&[][..], |node| &node.ports);
                Ok(ports.iter().position(|(net, _)| *net == id).map_or_else(TclValue::default, TclValue::from))
            }
            "mustdelay" | "trace" | "trace_snaplen" | "trace_mysql" | "trace_endnode" | "set_setting"
            | "implemented_by" | "set_member_setting" | "enable_openflow" | "set_fixed_iface" | "set_accesspoint"
            | "SetTraceParams" => {
                self.ignored(format!("\"{method}\" of a link or LAN has no effect here"));
                Ok(TclValue::default())
            }
            other => Ok(self.unknown_method(id, other)),
        }
    }
}

impl TclInterpreter {
    fn read_shape(&mut self, bandwidth: &TclValue, delay: &TclValue) -> Result<(Bandwidth, NsLeg), TclCompletion> {
        let bandwidth = units::bandwidth(bandwidth.as_str()).map_err(TclCompletion::refuse)?;
        let delay = self.read_delay(delay.as_str())?;
        Ok((bandwidth, NsLeg { kbps: bandwidth.of_net(), delay: delay / 2, loss: 0.0 }))
    }

    /// Reads a rate, in kbit/s, that is not the rate of a new link or LAN.
    pub(crate) fn read_rate(&mut self, text: &str) -> Result<u64, TclCompletion> {
        let rate = units::bandwidth(text).map_err(TclCompletion::refuse)?;
        if !matches!(rate, Bandwidth::Any | Bandwidth::BestEffort) {
            self.assigned(if units::has_unit(text) { &["val"] } else { &["unit", "val"] });
        }
        Ok(rate.kbps())
    }

    /// Reads a delay, and notes a value that Emulab would change.
    pub(crate) fn read_delay(&mut self, text: &str) -> Result<Duration, TclCompletion> {
        let delay = units::delay(text).map_err(TclCompletion::refuse)?;
        self.assigned(if units::has_unit(text) { &["val"] } else { &["unit", "val"] });
        if let Some(remark) = units::delay_remark(text, delay) {
            self.warn(remark);
        }
        Ok(delay)
    }
}
