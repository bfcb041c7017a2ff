//! The objects of an NS file and their names.
//!
//! Every object is also a command of its name. It is made under an internal name (`tbnode-n3`), and the first
//! global variable that it is stored in right after becomes its name: `set n(3) [$ns node]` makes `n-3`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

use roost_topology::model::{Note, Notes, Topology};
use roost_topology::validate::TopologyLines;

use super::events::NsEvent;
use super::tcl::completion::{TclCompletion, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::table::Table;
use super::tcl::value::TclValue;

const MAX_NOTES: usize = 1000;
const MAX_OBJECTS: usize = 400_000;

/// The index of an object in the [`NsState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NsObjectId(usize);

#[derive(Default)]
pub(crate) struct NsState {
    pub file: String,
    objects: Vec<NsObject>,
    names: HashMap<String, NsObjectId>,
    /// The object that the next global variable names.
    pub pending: Option<NsObjectId>,
    /// The count of objects made by `$ns`, as in Emulab.
    made: u32,
    /// The count of objects made by `new` and of queues, as in Emulab.
    numbered: u32,
    /// The latest link between two nodes.
    pub links: HashMap<(NsObjectId, NsObjectId), NsObjectId>,
    /// `static`, `ospf`…; nothing is `none`.
    pub routing: Option<String>,
    pub routing_line: u32,
    pub sync_server: Option<NsObjectId>,
    pub schedule: Vec<(Duration, NsEvent)>,
    pub security_level: bool,
    pub simulated: bool,
    /// The group of all programs, once there is one.
    pub program_group: Option<NsObjectId>,
    /// The topography of new nodes, from `$ns node-config -topography`.
    pub topography: Option<TclValue>,
    /// The numbers of nodes, nets, interfaces and programs.
    pub nodes: usize,
    pub nets: usize,
    pub members: usize,
    pub programs: usize,
    /// The blockstores, in the order in which Emulab finishes them.
    pub blockstores: Table<NsObjectId>,
    /// The topology of `$ns run`, with the lines of its parts.
    pub finished: Option<(Topology, TopologyLines)>,
    notes: Notes,
    noted: BTreeSet<(NoteKind, u32, String)>,
    left_out: usize,
}

pub(crate) struct NsObject {
    pub name: String,
    /// Line of the command that made it.
    pub line: u32,
    pub variables: BTreeMap<String, TclValue>,
    pub kind: NsObjectKind,
}

pub(crate) enum NsObjectKind {
    Simulator,
    Node(NsNode),
    Net(NsNet),
    Queue(NsQueue),
    /// The result of `$ns link` and `$ns lanlink`, which leads to a queue.
    Side {
        net: NsObjectId,
        queue: NsObjectId,
    },
    Program,
    Group(Vec<NsObjectId>),
    Sequence(Vec<NsEvent>),
    Timeline(Vec<(Duration, NsEvent)>),
    Agent(NsAgent),
    Application(Application),
    Blockstore(Blockstore),
    Firewall(Firewall),
    /// An area in which robots move; true once it has a size.
    Topography {
        loaded: bool,
    },
    /// The name of an Emulab class without effect here.
    Ineffective(&'static str),
    /// The name of a class that Emulab does not know.
    Null(String),
}

#[derive(Default)]
pub(crate) struct NsNode {
    /// True for `$ns bridge`, which only joins links.
    pub bridge: bool,
    /// The nets of its ports, with its index among their members.
    pub ports: Vec<(NsObjectId, usize)>,
    /// Agents, whose ports count up from 5001.
    pub agents: Vec<NsObjectId>,
    /// Routes of `add-route`: the destination and the gateway.
    pub routes: Vec<(NsObjectId, NsObjectId)>,
    /// True once it stands on a topography.
    pub placed: bool,
}

pub(crate) struct NsNet {
    pub lan: bool,
    pub members: Vec<NsMember>,
    pub cost: f64,
    pub prefix: u8,
    /// Of rate `~`.
    pub best_effort: bool,
    /// True for `make-cloud`: events clear and make it.
    pub cloud: bool,
}

#[derive(Clone)]
pub(crate) struct NsMember {
    pub node: NsObjectId,
    pub address: Option<Ipv4Addr>,
    pub to_net: NsLeg,
    pub from_net: NsLeg,
    pub queue: NsObjectId,
}

#[derive(Clone, Copy)]
pub(crate) struct NsLeg {
    pub kbps: u64,
    pub delay: Duration,
    pub loss: f64,
}

/// A queue of a LAN's member, or of one direction of a link.
pub(crate) struct NsQueue {
    pub net: NsObjectId,
    pub node: NsObjectId,
    pub red: bool,
    pub gentle: bool,
}

/// A source or sink of traffic on a node.
#[derive(Default)]
pub(crate) struct NsAgent {
    pub class: String,
    pub node: Option<NsObjectId>,
    pub port: u16,
    pub application: Option<NsObjectId>,
    pub destination: Option<NsObjectId>,
    pub source: Option<bool>,
    pub proto: &'static str,
}

/// Storage. Only the host that Emulab makes for it matters here.
#[derive(Default)]
pub(crate) struct Blockstore {
    /// The host that uses it, or the host made for it.
    pub node: Option<NsObjectId>,
    /// True if `node` was made for it.
    pub hosted: bool,
    /// `SAN` or `local`.
    pub class: Option<String>,
    pub sized: bool,
    pub leased: bool,
}

/// A firewall, which is a plain host of some system here.
pub(crate) struct Firewall {
    pub os: &'static str,
    pub rules: BTreeSet<u32>,
    pub is_child: bool,
}

/// The source of an agent's traffic.
pub(crate) struct Application {
    pub class: String,
    pub agent: Option<NsObjectId>,
}

impl NsState {
    pub(crate) fn find(&self, name: &str) -> Option<NsObjectId> {
        self.names.get(name).copied()
    }

    pub(crate) fn object(&self, id: NsObjectId) -> &NsObject {
        &self.objects[id.0]
    }

    pub(crate) fn object_mut(&mut self, id: NsObjectId) -> &mut NsObject {
        &mut self.objects[id.0]
    }

    pub(crate) fn name(&self, id: NsObjectId) -> &str {
        &self.objects[id.0].name
    }

    /// Every object, in the order in which they were made.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (NsObjectId, &NsObject)> {
        self.objects.iter().enumerate().map(|(at, object)| (NsObjectId(at), object))
    }

    /// The names of all objects, in the order in which they were made.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().map(|object| object.name.as_str())
    }

    pub(crate) fn node(&self, id: NsObjectId) -> Option<&NsNode> {
        match &self.object(id).kind {
            NsObjectKind::Node(node) => Some(node),
            _ => None,
        }
    }

    pub(crate) fn node_mut(&mut self, id: NsObjectId) -> Option<&mut NsNode> {
        match &mut self.object_mut(id).kind {
            NsObjectKind::Node(node) => Some(node),
            _ => None,
        }
    }

    pub(crate) fn net(&self, id: NsObjectId) -> Option<&NsNet> {
        match &self.object(id).kind {
            NsObjectKind::Net(net) => Some(net),
            _ => None,
        }
    }

    pub(crate) fn net_mut(&mut self, id: NsObjectId) -> Option<&mut NsNet> {
        match &mut self.object_mut(id).kind {
            NsObjectKind::Net(net) => Some(net),
            _ => None,
        }
    }

    /// The next number of an object made by `$ns`.
    pub(crate) fn next_made(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// The next number of an object made by `new`, after `more` invisible ones.
    pub(crate) fn next_numbered(&mut self, more: u32) -> u32 {
        self.numbered += more + 1;
        self.numbered
    }

    /// Adds an object under an internal name.
    pub(crate) fn add(&mut self, name: String, line: u32, kind: NsObjectKind) -> Result<NsObjectId, TclCompletion> {
        if self.objects.len() >= MAX_OBJECTS {
            return Err(TclCompletion::refuse(format!("the file makes more than {MAX_OBJECTS} objects")));
        }
        if self.names.contains_key(&name) {
            return fail(format!("there is an object \"{name}\" already"));
        }
        let id = NsObjectId(self.objects.len());
        self.names.insert(name.clone(), id);
        self.objects.push(NsObject { name, line, variables: BTreeMap::new(), kind });
        Ok(id)
    }

    /// Renames an object; the name must be free.
    pub(crate) fn rename(&mut self, id: NsObjectId, name: &str) {
        let old = std::mem::replace(&mut self.object_mut(id).name, name.to_owned());
        self.names.remove(&old);
        self.names.insert(name.to_owned(), id);
        if let Some(id) = self.blockstores.remove(&old) {
            self.blockstores.insert(name, id);
        }
    }

    /// Makes the next global variable name `id`.
    pub(crate) fn expect_name(&mut self, id: NsObjectId) {
        self.pending = Some(id);
    }

    /// Removes and returns all remarks, in the order of lines.
    pub(crate) fn take_notes(&mut self) -> Notes {
        let mut notes = std::mem::take(&mut self.notes);
        if self.left_out > 0 {
            let text = format!("there are {} more remarks than the {MAX_NOTES} that are kept", self.left_out);
            notes.warnings.push(Note { line: 0, text });
        }
        notes.ignored.sort();
        notes.warnings.sort();
        notes
    }

    fn add_note(&mut self, kind: NoteKind, line: u32, text: String) {
        let noted = (kind, line, text);
        if self.noted.contains(&noted) {
            return;
        }
        if self.noted.len() >= MAX_NOTES {
            self.left_out += 1;
            return;
        }
        let text = noted.2.clone();
        self.noted.insert(noted);
        let list = match kind {
            NoteKind::Ignored => &mut self.notes.ignored,
            NoteKind::Warning => &mut self.notes.warnings,
        };
        list.push(Note { line, text });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NoteKind {
    Ignored,
    Warning,
}

impl TclInterpreter {
    /// Notes a part that was understood and has no effect.
    pub(crate) fn ignored(&mut self, text: impl Into<String>) {
        self.world.add_note(NoteKind::Ignored, self.line, text.into());
    }

    /// Notes a part that is probably a mistake.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.world.add_note(NoteKind::Warning, self.line, text.into());
    }
}
