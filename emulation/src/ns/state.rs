//! The objects that an NS file makes, and how they get their names.
//!
//! Every object is also a command of its name. It is made under a name of its
//! own (`tbnode-n3`), and the first global variable that it is stored in right
//! after becomes its name: `set n(3) [$ns node]` makes `n-3`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

use super::events::NsEvent;
use super::tcl::completion::{TclCompletion, fail};
use super::tcl::interp::TclInterpreter;
use super::tcl::table::Table;
use super::tcl::value::TclValue;
use crate::topology::model::{Note, Notes, Topology};
use crate::topology::validate::TopologyLines;

/// The most remarks that are kept.
const MAX_NOTES: usize = 1000;
/// The most objects of all kinds.
const MAX_OBJECTS: usize = 400_000;

/// Where an object is in the [`NsState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NsObjectId(usize);

/// Everything that a file has made.
#[derive(Default)]
pub(crate) struct NsState {
    /// The file's name.
    pub file: String,
    objects: Vec<NsObject>,
    names: HashMap<String, NsObjectId>,
    /// The object that the next global variable names.
    pub pending: Option<NsObjectId>,
    /// Emulab counts what `$ns` makes…
    made: u32,
    /// …and what `new` makes, and the queues.
    numbered: u32,
    /// The link made last between two nodes.
    pub links: HashMap<(NsObjectId, NsObjectId), NsObjectId>,
    /// `static`, `ospf`…; nothing is `none`.
    pub routing: Option<String>,
    pub routing_line: u32,
    pub sync_server: Option<NsObjectId>,
    /// What `$ns at` schedules.
    pub schedule: Vec<(Duration, NsEvent)>,
    /// Whether `tb-set-security-level` asks for a firewall.
    pub security_level: bool,
    /// Whether a `$ns make-simulated` runs.
    pub simulated: bool,
    /// The group of all programs, once there is one.
    pub program_group: Option<NsObjectId>,
    /// What `$ns node-config -topography` names, where new nodes are.
    pub topography: Option<TclValue>,
    /// How many nodes, nets, interfaces and programs there are.
    pub nodes: usize,
    pub nets: usize,
    pub members: usize,
    pub programs: usize,
    /// The blockstores, in the order in which Emulab finishes them.
    pub blockstores: Table<NsObjectId>,
    /// What `$ns run` found, and the lines it is from.
    pub finished: Option<(Topology, TopologyLines)>,
    notes: Notes,
    noted: BTreeSet<(bool, u32, String)>,
    /// How many remarks were not kept.
    left_out: usize,
}

/// One object.
pub(crate) struct NsObject {
    pub name: String,
    /// The line that made it.
    pub line: u32,
    /// What `$object set` wrote.
    pub variables: BTreeMap<String, TclValue>,
    pub kind: NsObjectKind,
}

/// What an object is.
pub(crate) enum NsObjectKind {
    Simulator,
    Node(NsNode),
    Net(NsNet),
    Queue(NsQueue),
    /// What `$ns link` and `$ns lanlink` give: a way to a queue.
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
    /// Where robots move; whether it has an extent.
    Topography {
        loaded: bool,
    },
    /// Known to Emulab, with no effect here: the name of its class.
    Ineffective(&'static str),
    /// Of this class, which Emulab does not know.
    Null(String),
}

/// A node's part of an object.
#[derive(Default)]
pub(crate) struct NsNode {
    /// Whether it only joins links (`$ns bridge`).
    pub bridge: bool,
    /// The nets of its ports, and its place among their members.
    pub ports: Vec<(NsObjectId, usize)>,
    /// Agents: their ports count up from 5001.
    pub agents: Vec<NsObjectId>,
    /// What `add-route` says: where to, by whom.
    pub routes: Vec<(NsObjectId, NsObjectId)>,
    /// Whether it stands on a topography.
    pub placed: bool,
}

/// A link or LAN.
pub(crate) struct NsNet {
    pub lan: bool,
    pub members: Vec<NsMember>,
    pub cost: f64,
    pub prefix: u8,
    /// Of rate `~`.
    pub best_effort: bool,
    /// `make-cloud`: cleared and made by events.
    pub cloud: bool,
}

/// A node's place in a net.
#[derive(Clone)]
pub(crate) struct NsMember {
    pub node: NsObjectId,
    pub address: Option<Ipv4Addr>,
    pub to_net: NsLeg,
    pub from_net: NsLeg,
    pub queue: NsObjectId,
}

/// What a leg does to packets.
#[derive(Clone, Copy)]
pub(crate) struct NsLeg {
    pub kbps: u64,
    pub delay: Duration,
    pub loss: f64,
}

/// A queue: of a member of a LAN, or of both directions' senders of a link.
pub(crate) struct NsQueue {
    pub net: NsObjectId,
    pub node: NsObjectId,
    pub red: bool,
    pub gentle: bool,
}

/// What sends or takes traffic on a node.
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

/// Storage: the host that Emulab makes for it is all that matters here.
#[derive(Default)]
pub(crate) struct Blockstore {
    /// Where it is used, or the host made for it.
    pub node: Option<NsObjectId>,
    /// Whether `node` was made for it.
    pub hosted: bool,
    /// `SAN` or `local`.
    pub class: Option<String>,
    pub sized: bool,
    pub leased: bool,
}

/// A firewall: no more than a host of some system here.
pub(crate) struct Firewall {
    pub os: &'static str,
    /// The rules' numbers.
    pub rules: BTreeSet<u32>,
    pub is_child: bool,
}

/// What an agent sends.
pub(crate) struct Application {
    pub class: String,
    pub agent: Option<NsObjectId>,
}

impl NsState {
    /// The object of this name.
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

    /// The next number of what `$ns` makes.
    pub(crate) fn next_made(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// The next number of what `new` makes, after `more` that nobody sees.
    pub(crate) fn next_numbered(&mut self, more: u32) -> u32 {
        self.numbered += more + 1;
        self.numbered
    }

    /// Adds an object under a name of its own.
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

    /// Gives an object another name, which must be free.
    pub(crate) fn rename(&mut self, id: NsObjectId, name: &str) {
        let old = std::mem::replace(&mut self.object_mut(id).name, name.to_owned());
        self.names.remove(&old);
        self.names.insert(name.to_owned(), id);
        if let Some(id) = self.blockstores.remove(&old) {
            self.blockstores.insert(name, id);
        }
    }

    /// Lets the next global variable name `id`.
    pub(crate) fn expect_name(&mut self, id: NsObjectId) {
        self.pending = Some(id);
    }

    /// Every remark, in the order of lines.
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

    fn add_note(&mut self, warning: bool, line: u32, text: String) {
        let noted = (warning, line, text);
        if self.noted.contains(&noted) {
            return;
        }
        if self.noted.len() >= MAX_NOTES {
            self.left_out += 1;
            return;
        }
        let text = noted.2.clone();
        self.noted.insert(noted);
        let list = if warning { &mut self.notes.warnings } else { &mut self.notes.ignored };
        list.push(Note { line, text });
    }
}

impl TclInterpreter {
    /// Remarks that something was understood and has no effect.
    pub(crate) fn ignored(&mut self, text: impl Into<String>) {
        self.world.add_note(false, self.line, text.into());
    }

    /// Remarks that something is probably not what was meant.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.world.add_note(true, self.line, text.into());
    }
}
