//! Púdelka and Rebok 2009: reflectors.

use super::{LINE, PLACE, by_size, empty_study, study};
use crate::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Plot, PlotLimit, Study, StudyScale, StudyUnit, plot};

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
    // Each number of reflectors takes a minute.
    let capacity = (!scale.is_quick).then(|| capacity(scale));
    [throughput(scale)].into_iter().chain(capacity).chain([migration(scale)]).collect()
}

fn throughput(scale: StudyScale) -> Study {
    const LARGEST: f64 = 1440.0;
    let args =
        |line: &str, bytes: u32| format!("reflect --implementation {line} --targets 10 --bytes {bytes} --trial 400");
    let sizes = scale.places(&[100, 400, 800, 1440], &[200, 1440]);
    let delivered = |line| MeasureKey::new(line, LARGEST, "delivered_pps");
    Study {
        title: "Packets that a reflector sends to ten, by their size",
        about: "One copy of a stream in, copies to ten receivers out, on one machine over loopback: a super node's \
                data path, and a page of C that does the same.",
        inferred: vec![
            "The paper's reflector sent 905 Mbit/s, 78 600 packets a second, over Ethernet of 1 Gbit/s and from a \
             processor of 2009; here nothing but a processor of today is in the way, so that the two are held against \
             one another in no claim. What both can have is a version in C beside it.",
        ],
        axis: "bytes of a packet",
        has_kinds: false,
        plots: vec![
            plot("throughput", "Packets a second at all receivers", "delivered_pps", StudyUnit::Count),
            plot("throughput", "Payload at all receivers", "delivered_mbps", StudyUnit::MbitS),
        ],
        claims: vec![Claim {
            id: "erum-c".to_owned(),
            figure: "throughput",
            sentence: "A version in C is about 10 % faster than that in Java: here Rust beside C with segmentation \
                           offload."
                .to_owned(),
            says: PaperStatement::between("0.91 × (10 %)", 0.88, 0.94),
            ours: Estimator::Ratio(delivered("ours"), delivered("c-gso")),
            unit: StudyUnit::Times,
            holds: Band::Above(0.5),
            better: PreferredAmount::More,
            why: "The page of C keeps no packets for who joins later and reads no headers.",
        }],
        ..empty_study("erum-throughput", Paper::Erum, by_size(&["ours", "c-gso"], &sizes, args, &[], scale))
    }
}

/// Tables 2 and 3, row by row: reflectors, and the clients that are printed and that equation (4) gives.
const ROWS: [(f64, PaperStatement); 4] = [
    (1.0, PaperStatement::between("5, or 6 by equation (4)", 5.0, 6.0)),
    (2.0, PaperStatement::exactly("7", 7.0)),
    (4.0, PaperStatement::exactly("8", 8.0)),
    (8.0, PaperStatement::exactly("9", 9.0)),
];

const CLOSE: &str = "With one client more the fullest link would be full to a hundredth, so that what control takes of \
                     it, or a stall of this machine, decides.";
const SHARED: &str = "Clients go where uplinks have room, which the paper's did not.";
/// The number of clients by which ours may fall short of the paper's figure.
const FEWER: f64 = 1.5;

fn capacity(scale: StudyScale) -> Study {
    let hubs = ROWS.map(|row| row.0 as u32);
    let args = |what: &str, hubs: u32| format!("reflect --capacity --mode {what} --mesh {hubs}");
    let most = |what: &str, hubs| Estimator::Mean(MeasureKey::new(what, hubs, "most.count"));
    let serve = |hubs| if hubs > 1.0 { format!("{hubs} reflectors serve") } else { "One reflector serves".to_owned() };
    // Counted, not timed: one seed suffices.
    let once = StudyScale { seeds: 1, ..scale };
    let row = |(hubs, says): (f64, PaperStatement), (what, suffix, how, why): (&str, &str, &str, &'static str)| Claim {
        id: format!("erum-table3-{hubs}{suffix}"),
        figure: "Table 3",
        sentence: format!("{} {} clients who all send{how}.", serve(hubs), says.text()),
        says,
        ours: most(what, hubs),
        unit: StudyUnit::Count,
        holds: Band::Above(says.least() - FEWER),
        better: PreferredAmount::More,
        why,
    };
    let printed = ROWS.map(|of| row(of, ("count", "", ", each by its own reflector: here a super node", CLOSE)));
    let placed = ("residual", "-residual", "; here super nodes place them by what uplinks have left", SHARED);
    let shared = ROWS.map(|of| row(of, placed));
    Study {
        title: "How many clients a mesh of reflectors serves",
        about: "Real daemons in a room where everyone sends and everyone receives; each super node's link carries 30.17 \
                streams, as 905 Mbit/s carry those of 30. The most for whom nobody loses a hundredth: each client by its \
                own super node (count), and placed by what uplinks have left (residual).",
        inferred: vec![
            "Streams are smaller than 30 Mbit/s, and links in proportion: what counts is how many there are.",
            "Equation (4) gives one more than is printed for 1, 3 and 5 reflectors; both count as met. Table 2 has one \
             client more, who only receives.",
            "The limit is that of copies that all super nodes share evenly.",
        ],
        axis: "super nodes",
        has_kinds: false,
        plots: vec![Plot {
            limit: Some(PlotLimit { series: "residual", measure: "balanced" }),
            ..plot("Table 3", "Clients who all send and all receive", "most.count", StudyUnit::Count)
        }],
        claims: [printed, shared].concat(),
        ..empty_study("erum-capacity", Paper::Erum, by_size(&["count", "residual"], &hubs, args, &[], once))
    }
}

fn migration(scale: StudyScale) -> Study {
    let gap = |case: &str| MeasureKey::new(LINE, PLACE, &format!("{case}.gap_ms"));
    let said = |id: &str, sentence: &str, case: &str| Claim {
        id: id.to_owned(),
        figure: "migration",
        sentence: sentence.to_owned(),
        says: PaperStatement::between("25 to 85 ms", 25.0, 85.0),
        ours: Estimator::Mean(gap(case)),
        unit: StudyUnit::Ms,
        holds: Band::Below(100.0),
        better: PreferredAmount::Less,
        why: "A super node tells its clients where to go before it leaves, and nothing has to be noticed first.",
    };
    let all = [
        (
            "leave-subscribers",
            said(
                "erum-migration",
                "A client moves within 25 to 85 ms: a receiver of ours, from super node to super node.",
                "leave-subscribers",
            ),
        ),
        ("leave-providers", said("erum-migration-provider", "The same of a client that provides.", "leave-providers")),
    ];
    let (cases, claims): (Vec<&str>, Vec<Claim>) = scale.places(&all, &all[..1]).into_iter().unzip();
    Study {
        title: "A client moves to another reflector",
        about: "Two super nodes, a provider at the one and receivers at the other, 20 ms from one another, with the \
                real daemons; a super node leaves, and its clients go to the other.",
        inferred: vec![
            "The paper's clients move when their reflector ends or hands them over; what is measured is the \
                        longest time without a datagram, which is 8 ms anyhow.",
        ],
        plots: vec![
            plot("migration", "receivers' hub leaves", "leave-subscribers.gap_ms", StudyUnit::Ms),
            plot("migration", "provider's hub leaves", "leave-providers.gap_ms", StudyUnit::Ms),
        ],
        claims,
        ..study("erum-migration", Paper::Erum, &format!("subscription --case {}", cases.join(",")), &["case"], scale)
    }
}
