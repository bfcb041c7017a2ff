//! Tables 2 and 3: the cost of discovery.

use super::{ONE, plan};
use crate::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Study, StudyPoint, StudyScale, StudyUnit, plot};

/// Each service, and the paper's figure in kilobytes of a thousand bytes.
const SERVICES: [(&str, &str, f64); 4] =
    [("video", "48 kB", 48e3), ("track", "48 kB", 48e3), ("image", "41 kB", 41e3), ("sensor", "40 kB", 40e3)];
/// Bytes: our own limit.
const OURS: f64 = 1500.0;

/// Tables 2 and 3.
pub(super) fn study(scale: StudyScale) -> Study {
    let point = |(at, (service, ..)): (usize, (&str, &str, f64))| {
        let more = format!("super_nodes = [\"node3\"]\n\n[classes.star]\nmix = {{ {service} = 50, idle = 50 }}\n");
        let network = "{ star = { nodes = 4, delay = \"1ms\" } }";
        let text = plan("sproull-table3", network, "super-node", scale.duration(), &more);
        StudyPoint { name: service.to_owned(), ..StudyPoint::virtual_run(ONE, (at + 1) as f64, text, scale) }
    };
    let claim = |(at, (service, printed, bytes)): (usize, (&str, &'static str, f64))| Claim {
        id: format!("sproull-table3-{service}"),
        figure: "Table 3",
        sentence: format!("It takes {printed} of overhead to find a service and to set it up: {service}."),
        says: PaperStatement::exactly(printed, bytes),
        ours: Estimator::Mean(MeasureKey::new(ONE, (at + 1) as f64, "overhead.each")),
        unit: StudyUnit::Bytes,
        holds: Band::Below(bytes),
        better: PreferredAmount::Less,
        why: "A request, its way over the super node and its acceptance are three short binary messages here, and XML \
              documents over pipes of JXTA there.",
    };
    Study {
        id: "sproull-overhead",
        paper: Paper::Sproull,
        title: "What it costs to find a service",
        about: "Three nodes, one of them beside the super node, ask one another for one kind of service only, one at \
                a time. Overhead is all that is no data: what goes to or from the super node (attaching, publishing, \
                leases, gossip, requests) but the data that it relays, handshakes between nodes, and what nodes say to one another beside data, \
                each such message counted with the headers of a packet of its own and of one that acknowledges it. \
                All from the start of the programs on, with the headers of frames.",
        inferred: vec![
            "Nodes pause as often as they ask, for 1 s.",
            "The seed told overhead by its port; here it is told by the association: those with the super node, and \
             of those between nodes what is no data.",
            "Table 2's rows for image (96.3 % service) and sensor (71.7 %) do not fit 100 KB and 10 KB with Table \
             3's 41 and 40 KB: these would be 71 and 20 %. They fit payloads ten times as large. Video and track fit \
             streams of 10 s.",
        ],
        axis: "service",
        has_kinds: true,
        points: SERVICES.into_iter().enumerate().map(point).collect(),
        plots: vec![
            plot("Table 2", "The part of all bytes that is overhead", "overhead.part", StudyUnit::Part),
            plot(
                "Table 3",
                "Overhead, control traffic alone, for each completed service",
                "overhead.each",
                StudyUnit::Bytes,
            ),
        ],
        claims: SERVICES.into_iter().enumerate().map(claim).collect(),
    }
}

/// The cost over all services in a network of this size, in which most requests are first contacts.
pub(super) fn overhead(series: &str, x: f64, id: &str) -> Claim {
    Claim {
        id: id.to_owned(),
        figure: "Table 3",
        sentence: format!(
            "In this workload of {x:.0} too, with handshakes at first contacts, a service takes 1.5 kB of overhead at \
             most."
        ),
        says: PaperStatement::Nothing("1.5 kB at most"),
        ours: Estimator::Mean(MeasureKey::new(series, x, "overhead.each")),
        unit: StudyUnit::Bytes,
        holds: Band::Below(OURS),
        better: PreferredAmount::Less,
        why: "Handshakes are most of it: two nodes that meet for the first time show one another their certificates, \
              over UDP and over TCP once each, and many do within such a run.",
    }
}
