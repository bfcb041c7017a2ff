//! The places of other hubs in the tree.

/// The place of another hub in relation to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// This hub has enrolled there. The first one configured is the primary.
    Parent,
    /// The hub has enrolled here, and is of this tier.
    Child(u8),
    /// Neither: another root, or a sibling.
    Sibling,
    /// None of these: one stands by for nodes of the other, and nothing else
    /// is between them.
    StandbyOnly,
}
