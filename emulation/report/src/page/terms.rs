//! The words of pages and their meanings: each page explains those that occur in it.

use maud::{Markup, html};

/// A term of pages, with the signs of its occurrence.
struct Term {
    name: &'static str,
    meaning: &'static str,
    /// The texts in small letters by which a page has it; the file of means tells the pages of sweeps.
    signs: &'static [&'static str],
}

const TERMS: [Term; 15] = [
    Term {
        name: "Cell",
        meaning: "Runs that differ only in their seed. Means are over the runs of a cell.",
        signs: &["cells.csv"],
    },
    Term { name: "Factor", meaning: "A setting that the sweep varied.", signs: &["effects.csv"] },
    Term {
        name: "Completed",
        meaning: "A service that was found, granted, and delivered whole; a stream to its end. The drain counts.",
        signs: &["completed"],
    },
    Term {
        name: "Success",
        meaning: "Completed services, of the requests that could end: what the end of the run cut off does not count.",
        signs: &["success"],
    },
    Term {
        name: "Latency",
        meaning: "From the request to the first byte of a stream (video, track), or the last of an object (image, sensor). \
                  Of completed services only: what failed or timed out has none.",
        signs: &["latency"],
    },
    Term {
        name: "First contact",
        meaning: "Requester and provider had not spoken over this transport before: the handshake is in the latency. \
                  Warm: their connection was up.",
        signs: &["first contacts"],
    },
    Term {
        name: "Not-yet-known",
        meaning: "No provider was known to a hub that had just started, and may not have heard of everyone yet.",
        signs: &["not-yet-known"],
    },
    Term {
        name: "Offered by hosts",
        meaning: "Bytes of frames that hosts handed to their links, once for each hop: routers hand on, too.",
        signs: &["offered", "traffic per service"],
    },
    Term {
        name: "Over all ports",
        meaning: "As a switch counts: a frame where it comes in, and again at each port that it goes out of.",
        signs: &["over all ports"],
    },
    Term {
        name: "Per service",
        meaning: "All bytes of the run, divided by the number of completed services.",
        signs: &["per service", "per completed service"],
    },
    Term {
        name: "Overhead",
        meaning: "Bytes offered without the payload that was delivered.",
        signs: &["overhead", "all but payload"],
    },
    Term {
        name: "Data beyond delivery",
        meaning: "Data relayed again, sent again or lost, and the headers of the messages that carried it.",
        signs: &["data beyond delivery"],
    },
    Term {
        name: "Forwarded by routers",
        meaning: "What hosts on several nets offered beyond what their own sockets sent. An estimate: their headers are taken \
                  to be as large a part as those of hosts on one net.",
        signs: &["forwarded by routers"],
    },
    Term {
        name: "Lateness",
        meaning: "When the emulator delivered a packet, against when the link model says it was due: its own error.",
        signs: &["lateness", "of their time"],
    },
    Term {
        name: "Core",
        meaning: "The part of the emulator that carries the packets of all links.",
        signs: &["of the core"],
    },
];

/// Explains the terms that occur in these parts of a page.
pub(super) fn occurring(parts: &[&Markup]) -> Markup {
    let texts: Vec<String> = parts.iter().map(|part| part.0.to_lowercase()).collect();
    let occurs = |sign: &&str| texts.iter().any(|text| text.contains(sign));
    let terms: Vec<&Term> = TERMS.iter().filter(|term| term.signs.iter().any(occurs)).collect();
    html! {
        @if !terms.is_empty() {
            h2 { "What the words mean" }
            div.terms {
                @for term in terms { p { b { (term.name) "." } " " (term.meaning) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_occurring_terms_explained() {
        let part = html! { p { "Overhead per service, over all ports" } };
        let text = occurring(&[&part]).0;
        for name in ["Overhead.", "Per service.", "Over all ports."] {
            assert!(text.contains(name), "{text}");
        }
        assert!(!text.contains("Cell.") && !text.contains("Lateness.") && !text.contains("Latency."), "{text}");
        assert_eq!(occurring(&[&Markup::default()]).0, "");
    }
}
