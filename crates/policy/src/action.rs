//! The actions that rules allow or deny.

use std::fmt;
use std::str::FromStr;

/// Something that a member may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Action {
    /// To register a service, and so be found.
    Offer,
    /// To get a flow of one's own from a provider.
    Request,
    /// To get a reflected stream.
    Subscribe,
    /// To send on the streams of others: an action of hubs.
    Reflect,
    /// To send a file to a node.
    Send,
    /// To ask a provider's program with a body.
    Call,
    /// To enter a room.
    Room,
    /// To be told who offers a service.
    Lookup,
    /// To be told of changes of who offers a service.
    Watch,
}

/// The text names no action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no action: expected one of offer, request, subscribe, reflect, send, call, room, lookup, watch")]
pub struct UnknownAction(pub String);

impl Action {
    pub const ALL: [Self; 9] = [
        Self::Offer,
        Self::Request,
        Self::Subscribe,
        Self::Reflect,
        Self::Send,
        Self::Call,
        Self::Room,
        Self::Lookup,
        Self::Watch,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Offer => "offer",
            Self::Request => "request",
            Self::Subscribe => "subscribe",
            Self::Reflect => "reflect",
            Self::Send => "send",
            Self::Call => "call",
            Self::Room => "room",
            Self::Lookup => "lookup",
            Self::Watch => "watch",
        }
    }

    /// The words that stand before the service in a sentence.
    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe to",
            Self::Send => "send files",
            Self::Room => "enter rooms",
            Self::Lookup => "look up",
            Self::Offer | Self::Request | Self::Reflect | Self::Call | Self::Watch => self.name(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|action| action.name() == text);
        named.ok_or_else(|| UnknownAction(text.to_owned()))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionSet(u16);

impl ActionSet {
    pub const ALL: Self = Self((1 << Action::ALL.len()) - 1);

    pub const fn contains(self, action: Action) -> bool {
        self.0 & 1 << action as u16 != 0
    }
}

impl FromIterator<Action> for ActionSet {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        Self(actions.into_iter().fold(0, |set, action| set | 1 << action as u16))
    }
}
