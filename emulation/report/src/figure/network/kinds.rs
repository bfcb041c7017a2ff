//! The classes of hosts, each with its ink and form.

use std::collections::BTreeMap;

use maud::{Markup, html};
use roost_drawing::Spot;
use roost_topology::Topology;

use crate::figure::canvas::Mark;
use crate::figure::ink::Ink;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) ink: Ink,
    pub(super) mark: Mark,
}

impl Kind {
    fn corners(self, spot: Spot, radius: f64) -> impl Iterator<Item = Spot> {
        self.mark.corners((spot.x, spot.y), radius).into_iter().map(|(x, y)| Spot { x, y })
    }

    pub(super) const NONE: Self = Self { ink: Ink::Gray, mark: Mark::Dot };

    /// A host of this kind, with a rim of paper.
    pub(super) fn draw(self, spot: Spot, radius: f64) -> Markup {
        let (fill, rim) = (self.ink.hex(), Ink::Paper.hex());
        html! {
            @if self.mark == Mark::Dot {
                circle cx=(short(spot.x)) cy=(short(spot.y)) r=(short(radius)) fill=(fill) stroke=(rim) stroke-width="1.2" {}
            } @else {
                polygon points=(points(self.corners(spot, radius))) fill=(fill) stroke=(rim)
                    stroke-width="1.2" {}
            }
        }
    }
}

/// The kind of each class, in the order in which the network names them.
#[derive(Clone, Debug)]
pub(super) struct Kinds<'a> {
    by_class: BTreeMap<&'a str, Kind>,
    order: Vec<&'a str>,
    has_none: bool,
}

impl<'a> Kinds<'a> {
    pub(super) fn new(topology: &'a Topology) -> Self {
        let (mut by_class, mut order) = (BTreeMap::new(), Vec::new());
        for class in topology.hosts.iter().filter_map(|host| host.class.as_deref()) {
            let number = by_class.len();
            by_class.entry(class).or_insert_with(|| {
                order.push(class);
                Kind { ink: Ink::kind(number), mark: Mark::kind(number) }
            });
        }
        Self { by_class, order, has_none: topology.hosts.iter().any(|host| host.class.is_none()) }
    }

    pub(super) fn kind(&self, class: Option<&str>) -> Kind {
        class.and_then(|class| self.by_class.get(class)).copied().unwrap_or(Kind::NONE)
    }

    pub(super) fn key(&self) -> impl Iterator<Item = (&'a str, Kind)> {
        let none = (self.has_none).then_some(("no class", Kind::NONE));
        self.order.iter().map(|class| (*class, self.by_class[class])).chain(none)
    }
}

pub(super) fn short(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // No minus before zero.
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

pub(super) fn points(corners: impl IntoIterator<Item = Spot>) -> String {
    corners.into_iter().map(|spot| format!("{},{}", short(spot.x), short(spot.y))).collect::<Vec<_>>().join(" ")
}
