//! The real daemons on an emulated network, for the super node's processor, which virtual time lacks, and for
//! the agreement of emulation and simulation.

use super::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use super::estimate::Estimator;
use super::study::{Paper, RunMethod, Study, StudyPoint, StudyScale, StudyUnit, plot};

const EMULATED: &str = "emulated";
const SIMULATED: &str = "simulated";
/// The tolerance for completions and medians of latencies.
const COMPLETIONS: f64 = 0.05;
const LATENCIES: f64 = 0.1;

/// The tree of 92 with one super node, emulated and simulated.
pub(super) fn study(scale: StudyScale) -> Study {
    let (nodes, duration) = if scale.is_quick { (11, "30s") } else { (92, "2m") };
    let x = f64::from(nodes);
    let plan = format!(
        "name = \"sproull-daemons\"\ntopology = {{ tree = {{ nodes = {nodes} }} }}\narchitecture = \"super-node\"\n\
         duration = \"{duration}\"\nsuper_nodes = 1\nlinktest = false\n"
    );
    let simulated = StudyPoint::virtual_run(SIMULATED, x, plan.clone(), scale);
    // In real time: a quick study has one run.
    let seeds = if scale.is_quick { 1 } else { scale.seeds };
    let emulated =
        StudyPoint { series: EMULATED.to_owned(), make: RunMethod::Emulated { plan }, seeds, ..simulated.clone() };
    Study {
        id: "sproull-daemons",
        paper: Paper::Sproull,
        title: "The real daemons, and the same run in virtual time",
        about: "The tree with one super node, as real programs over an emulated network on this machine, and the same \
                plan with the same seeds in virtual time. Runs are short, for many programs share few processors.",
        inferred: vec![
            "The super node's processor is one of this machine, not a Pentium III of 850 MHz.",
            "Medians, for a processor that is late makes a few requests very late. They agree if completions differ by \
             5 % at most and medians by 10 %.",
        ],
        axis: "nodes",
        has_kinds: true,
        points: vec![emulated, simulated],
        plots: vec![
            plot("processor", "Processor time of the super node, of one processor", "hub.cpu", StudyUnit::Part),
            plot("both ways", "Services completed", "completed", StudyUnit::Count),
            plot("both ways", "Video: to the first byte, median", "video.p50", StudyUnit::Ms),
            plot("both ways", "Track: to the first byte, median", "track.p50", StudyUnit::Ms),
            plot("both ways", "Image: to the last byte, median", "image.p50", StudyUnit::Ms),
            plot("both ways", "Sensor: to the last byte, median", "sensor.p50", StudyUnit::Ms),
        ],
        // The paper's figure is for 92 nodes.
        claims: [(!scale.is_quick).then(|| processor(x)).into_iter().collect(), agreements(x)].concat(),
    }
}

fn agreements(x: f64) -> Vec<Claim> {
    vec![
        agree("agree-completed", "Emulation and simulation complete as many services.", "completed", COMPLETIONS, x),
        agree("agree-video", "A video begins after as long.", "video.p50", LATENCIES, x),
        agree("agree-track", "A track begins after as long.", "track.p50", LATENCIES, x),
        agree("agree-image", "An image takes as long.", "image.p50", LATENCIES, x),
        agree("agree-sensor", "A sensor's answer takes as long.", "sensor.p50", LATENCIES, x),
    ]
}

fn processor(x: f64) -> Claim {
    Claim {
        id: "sproull-cpu".to_owned(),
        figure: "processor",
        sentence: "A super node that serves 91 nodes saturates one processor, at 99 %.".to_owned(),
        says: PaperStatement::exactly("99 %", 0.99),
        ours: Estimator::Mean(MeasureKey::new(EMULATED, x, "hub.cpu")),
        unit: StudyUnit::Part,
        holds: Band::Above(0.9),
        better: PreferredAmount::Less,
        why: "A request is a few packets of a compiled program here, and XML in Java there; and the processor is one \
              of twenty years later. The super node is not what ends growth at this size.",
    }
}

/// A claim of our own: results in virtual time match those in real time.
fn agree(id: &str, sentence: &str, measure: &str, band: f64, x: f64) -> Claim {
    Claim {
        id: format!("sproull-{id}"),
        figure: "both ways",
        sentence: sentence.to_owned(),
        says: PaperStatement::Nothing("1 ×"),
        ours: Estimator::ratio(measure, EMULATED, SIMULATED, x),
        unit: StudyUnit::Times,
        holds: Band::Between(1.0 - band, 1.0 + band),
        better: PreferredAmount::Neither,
        why: "Processors take time in emulation and none in simulation.",
    }
}
