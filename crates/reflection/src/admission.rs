//! The limits of a host's relay, and why it admits no more.

pub(crate) const MAX_STREAMS: usize = 256;

/// The most targets of a stream. Their state is some hundred bytes each; packets are there once.
pub const MAX_TARGETS: usize = 1024;

/// The most tags that are waited for.
pub(crate) const MAX_TAGS: usize = 4096;

/// The most streams that one address is offered without having answered: whoever lives there may not have asked.
pub(crate) const MAX_UNANSWERED: usize = 16;

/// Why a stream or a target is not added. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    #[error("no such stream is reflected here: ask for it again")]
    NoStream,
    /// There are as many streams as there may be.
    #[error("{MAX_STREAMS} streams are reflected here, which is the limit: use another super node")]
    TooManyStreams,
    /// The stream goes to as many as there may be.
    #[error("the stream has {MAX_TARGETS} targets, which is the limit: subscribe at another super node")]
    TooManyTargets,
    /// As many streams are waited for as there may be.
    #[error("{MAX_TAGS} streams are waited for, which is the limit: ask again in ten seconds")]
    TooManyTags,
    /// The address has answered none of many offers.
    #[error(
        "the address has left {MAX_UNANSWERED} offers unanswered: see that its firewall lets datagrams in, then ask again in ten seconds"
    )]
    Unanswered,
    #[error(
        "the uplink has no room for another copy: subscribe at another super node, or raise media_uplink if there is more"
    )]
    UplinkFull,
    #[error("this host is about to stop: ask another super node")]
    Leaving,
}
