//! Events of links, LANs and their queues.

use roost_topology::model::TopologyChange;
use roost_topology::units::Rate;

use super::{Effect, NsEvent, NsEventDraft, QueueParameter, TclCompletion, TclInterpreter};
use crate::state::{NsObjectId, NsObjectKind};
use crate::tcl::number::{self, Number};
use crate::tcl::short;
use crate::units;

/// The name of a LAN that no variable has named.
const UNNAMED_LAN: &str = "tblan-lan";
const VERBS: &str = "go \"up\" or \"down\", or change its \"bandwidth 5Mb duplex\", \"delay 30ms\" or \"plr 0.05\"";

impl TclInterpreter {
    pub(super) fn net_event(&mut self, wanted: &NsEventDraft<'_>) -> Result<NsEvent, TclCompletion> {
        if wanted.is_group {
            return Err(TclCompletion::refuse(format!(
                "\"{}\" is a group of links, and Emulab's parser takes no events of those: say it of each link",
                wanted.object
            )));
        }
        let net = |event: &str, args: String, change: TopologyChange| {
            wanted.each(wanted.row("LINK", event, args), |net| Effect::Net { net, change })
        };
        Ok(match wanted.verb {
            "up" => net("UP", String::new(), TopologyChange::Up),
            "down" => net("DOWN", String::new(), TopologyChange::Down),
            "bandwidth" => {
                wanted.need(2, "bandwidth 5Mb duplex")?;
                let kbps = self.read_rate(wanted.argument(0))?;
                net("MODIFY", format!("BANDWIDTH={kbps}"), TopologyChange::Rate(Rate::from_bps(kbps * 1000)))
            }
            "delay" => {
                wanted.need(1, "delay 30ms")?;
                let text = wanted.argument(0);
                let delay = units::event_delay(text).map_err(TclCompletion::refuse)?;
                net("MODIFY", format!("DELAY={text}"), TopologyChange::Delay(delay))
            }
            "plr" => {
                wanted.need(1, "plr 0.05")?;
                let loss = loss(wanted.argument(0))?;
                net("MODIFY", format!("PLR={}", Number::Double(loss).text()), TopologyChange::Loss(loss))
            }
            "modify" => self.modify(wanted)?,
            "create" | "clear" | "reset" => {
                NsEventDraft::without_effect(wanted.row("LINK", &wanted.verb.to_uppercase(), ""))
            }
            "trace" => trace(wanted, wanted.object)?,
            _ => return wanted.unknown_verb("a link or LAN", VERBS),
        })
    }

    /// `modify DELAY=50ms BANDWIDTH=5000 PLR=0.1`, as `tevc` accepts it. Emulab's parser does not.
    fn modify(&mut self, wanted: &NsEventDraft<'_>) -> Result<NsEvent, TclCompletion> {
        wanted.need(1, "modify DELAY=50ms BANDWIDTH=5000 PLR=0.1")?;
        self.warn("Emulab's parser knows \"modify\" only in tevc; here it may stand in a schedule too");
        let mut args = Vec::new();
        let mut effects = Vec::new();
        for argument in wanted.arguments {
            let Some((key, text)) = argument.as_str().split_once('=') else {
                return Err(TclCompletion::refuse(format!(
                    "\"{}\" is no change: write NAME=value",
                    short(argument.as_str())
                )));
            };
            let key = key.to_uppercase();
            args.push(format!("{key}={text}"));
            let change = match key.as_str() {
                "DELAY" => TopologyChange::Delay(units::event_delay(text).map_err(TclCompletion::refuse)?),
                "BANDWIDTH" => TopologyChange::Rate(Rate::from_bps(1000 * tevc_kbps(text)?)),
                "PLR" => TopologyChange::Loss(loss(text)?),
                _ => {
                    let set = queue_set(&key, text)?;
                    effects.extend(wanted.targets.iter().map(|net| Effect::Queue { net: *net, node: None, set }));
                    continue;
                }
            };
            effects.extend(wanted.targets.iter().map(|net| Effect::Net { net: *net, change }));
        }
        Ok(NsEvent { row: wanted.row("LINK", "MODIFY", args.join(" ")), effects })
    }

    pub(super) fn queue_event(
        &mut self,
        first: NsObjectId,
        wanted: &NsEventDraft<'_>,
    ) -> Result<NsEvent, TclCompletion> {
        let NsObjectKind::Queue(queue) = &self.world.object(first).kind else {
            return wanted.unknown_verb("a queue", "\"set limit_ 50\"");
        };
        let (net, node) = (self.world.name(queue.net), self.world.name(queue.node));
        let object = format!("{net}-{node}");
        if wanted.is_group {
            return Err(TclCompletion::refuse(format!(
                "\"{}\" is a group of queues, and Emulab's parser takes no events of those: say it of each queue",
                wanted.object
            )));
        }
        if self.world.net(queue.net).is_some_and(|of| of.lan && !net.starts_with(UNNAMED_LAN)) {
            return Err(TclCompletion::refuse(format!(
                "Emulab's parser does not find the LAN of a queue again once the LAN is called \"{net}\": say \"${net} modify LIMIT=…\", which happens to all its queues"
            )));
        }
        match wanted.verb {
            "set" => {
                wanted.need(2, "set limit_ 50")?;
                let text = wanted.argument(1);
                let key = match wanted.argument(0) {
                    "limit_" => "LIMIT",
                    "queue-in-bytes_" => "QUEUE-IN-BYTES",
                    "thresh_" => "THRESH",
                    "maxthresh_" => "MAXTHRESH",
                    "linterm_" => "LINTERM",
                    "q_weight_" => "Q_WEIGHT",
                    other => {
                        self.warn(format!("events do not change \"{}\" of a queue", short(other)));
                        return Ok(NsEventDraft::without_effect(roost_topology::emulab::EmulabEvent {
                            object,
                            ..wanted.row("LINK", "MODIFY", "")
                        }));
                    }
                };
                self.remark_queue_value(wanted.argument(0), text);
                let set = queue_set(key, text)?;
                let shown = match set {
                    QueueParameter::Weight(weight) => {
                        Number::Double(number::prefix(text).map_or(weight, |(weight, _)| weight)).text()
                    }
                    _ => text.to_owned(),
                };
                let mut made = wanted.each(wanted.row("LINK", "MODIFY", format!("{key}={shown}")), |_| Effect::Other);
                made.effects = wanted.targets.iter().map(|id| self.queue_effect(*id, set)).collect();
                made.row.object = object;
                Ok(made)
            }
            "trace" => trace(wanted, &object),
            _ => wanted.unknown_verb("a queue", "\"set limit_ 50\", and the other parameters alike"),
        }
    }

    fn queue_effect(&self, id: NsObjectId, set: QueueParameter) -> Effect {
        match &self.world.object(id).kind {
            NsObjectKind::Queue(queue) => Effect::Queue { net: queue.net, node: Some(queue.node), set },
            _ => Effect::Other,
        }
    }
}

fn trace(wanted: &NsEventDraft<'_>, object: &str) -> Result<NsEvent, TclCompletion> {
    wanted.need(1, "trace start")?;
    let event = match wanted.argument(0) {
        "start" => "START",
        "stop" => "STOP",
        "kill" => "KILL",
        "snapshot" => "SNAPSHOT",
        other => {
            return Err(TclCompletion::refuse(format!(
                "\"trace {}\" is not start, stop, kill or snapshot",
                short(other)
            )));
        }
    };
    let mut row = wanted.row("LINKTRACE", event, "");
    row.object = format!("{object}-tracemon");
    Ok(NsEventDraft::without_effect(row))
}

fn loss(text: &str) -> Result<f64, TclCompletion> {
    match number::prefix(text) {
        Some((loss, _)) if (0.0..=1.0).contains(&loss) => Ok(loss),
        _ => Err(TclCompletion::refuse(format!("\"{}\" is no loss: write a part from 0 to 1", short(text)))),
    }
}

fn tevc_kbps(text: &str) -> Result<u64, TclCompletion> {
    let fits = |kbps: &u64| *kbps == 0 || (10..=units::FASTEST).contains(kbps);
    text.parse().ok().filter(fits).ok_or_else(|| {
        TclCompletion::refuse(format!(
            "\"BANDWIDTH={}\" is no rate: write kbit/s, from 10 to {}",
            short(text),
            units::FASTEST
        ))
    })
}

/// Reads a queue parameter of an event.
fn queue_set(key: &str, text: &str) -> Result<QueueParameter, TclCompletion> {
    let wrong = || TclCompletion::refuse(format!("\"{}\" is no value for {key} of a queue", short(text)));
    // Fits u32: the number is at most 1e9.
    let whole = |name| units::queue_value(name, text).map(|number| number as u32).ok_or_else(wrong);
    Ok(match key {
        "LIMIT" => QueueParameter::Limit(whole("limit_")?),
        "QUEUE-IN-BYTES" => QueueParameter::InBytes(match text {
            "1" | "true" => true,
            "0" | "false" => false,
            _ => return Err(wrong()),
        }),
        "THRESH" => QueueParameter::MinThreshold(whole("thresh_")?),
        "MAXTHRESH" => QueueParameter::MaxThreshold(whole("maxthresh_")?),
        "LINTERM" => QueueParameter::Linterm(whole("linterm_")?),
        "Q_WEIGHT" => QueueParameter::Weight(units::queue_value("q_weight_", text).ok_or_else(wrong)?),
        _ => return Err(TclCompletion::refuse(format!("\"{}\" is nothing that can be changed of a link", short(key)))),
    })
}
