//! The drawing of a network: hosts in the inks of their classes, LANs as boxes, and the paths of nodes that moved.

mod key;
mod kinds;
mod labels;
mod paths;

use maud::{Markup, html};
use roost_drawing::{LanLabel, Lines, Spot, by_place, layout, lines, neighbors};
use roost_topology::Topology;
use roost_topology::model::NetKind;

use self::key::{HUB, KeyRows, KeySign, LAN, draw_box, draw_ring};
use self::kinds::{Kinds, short};
use self::labels::{Area, CrossedSquares, Label, TakenAreas, around_dot};
pub(super) use self::paths::paths;
use super::canvas::Sheet;
use super::ink::Ink;
use crate::text_format::counted;

/// Pixels for a unit of the layout, in which no two hosts are nearer than two: of few hosts, and of many.
const UNITS: [f64; 2] = [40.0, 27.0];
const FEW: usize = 60;
/// The room around the drawing, for labels at its rim.
const RIM: f64 = 70.0;
/// The least width: the key and its sentences need it.
const LEAST_WIDTH: f64 = 560.0;
const HOST: f64 = 6.0;
/// The most lines that labels avoid.
const MAX_AVOIDED: usize = 3000;
const SIZE: f64 = 10.0;

#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkMarks<'a> {
    pub hubs: &'a [String],
}

pub fn network(topology: &Topology, marks: NetworkMarks<'_>) -> Sheet {
    let places = by_place(topology);
    let is_by_place = places.is_some();
    let vertices = places.unwrap_or_else(|| layout(&neighbors(topology)));
    let (spots, width, height) = on_sheet(&used(topology, &vertices), UNITS[usize::from(topology.hosts.len() > FEW)]);
    let (kinds, lines) = (Kinds::new(topology), lines(topology));
    let drawing = NetworkDrawing { topology, marks, kinds, lines, spots, width, is_by_place };
    let (labels, left_out) = drawing.labels();
    let (key, key_height) = drawing.key(width, left_out);
    let body = html! {
        g transform="scale(10)" {
            (key)
            g transform={ "translate(0 " (short(key_height)) ")" } {
                (drawing.draw_lines())
                (drawing.draw_vertices())
                @for (label, ink) in &labels { (draw_label(label, *ink)) }
            }
        }
    };
    Sheet::of_markup(width, key_height + height, body)
}

/// The spots without those of links, which are no vertices.
fn used(topology: &Topology, spots: &[Spot]) -> Vec<Option<Spot>> {
    let is_lan = topology.nets.iter().map(|net| net.kind == NetKind::Lan || net.members.len() != 2);
    let all = std::iter::repeat_n(true, topology.hosts.len()).chain(is_lan);
    spots.iter().zip(all).map(|(spot, is_used)| is_used.then_some(*spot)).collect()
}

/// The places of spots in pixels, with the width and height that they need.
fn on_sheet(spots: &[Option<Spot>], unit: f64) -> (Vec<Spot>, f64, f64) {
    let extent = |of: fn(&Spot) -> f64| {
        let values = || spots.iter().flatten().map(of);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left, right), (upper, lower)) = (extent(|spot| spot.x), extent(|spot| spot.y));
    if left > right {
        return (vec![Spot::default(); spots.len()], LEAST_WIDTH, 0.0);
    }
    let width = ((right - left) * unit + 2.0 * RIM).max(LEAST_WIDTH);
    let shift = (width - (right - left) * unit) / 2.0;
    let place = |spot: Spot| Spot { x: (spot.x - left) * unit + shift, y: (spot.y - upper) * unit + RIM / 2.0 };
    let places = spots.iter().map(|spot| spot.map_or_else(Spot::default, place)).collect();
    (places, width, (lower - upper) * unit + RIM)
}

fn lan_text(lan: &LanLabel) -> String {
    format!("{}: {}", lan.name, lan.values)
}

/// The middles along a line at which its label may stand: on it, then beside it.
fn along_line([one, other]: [Spot; 2]) -> Vec<Spot> {
    let along = other.minus(one);
    let length = along.length().max(1.0);
    let across = Spot { x: -along.y / length, y: along.x / length };
    let at = |part: f64, shift: f64| Spot {
        x: one.x + along.x * part + across.x * shift,
        y: one.y + along.y * part + across.y * shift,
    };
    let shifts = [0.0, 12.0, -12.0, 24.0, -24.0];
    shifts.into_iter().flat_map(|shift| [0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78].map(|part| at(part, shift))).collect()
}

struct NetworkDrawing<'a> {
    topology: &'a Topology,
    marks: NetworkMarks<'a>,
    kinds: Kinds<'a>,
    lines: Lines,
    spots: Vec<Spot>,
    width: f64,
    /// True if hosts stand where they are.
    is_by_place: bool,
}

impl NetworkDrawing<'_> {
    fn is_hub(&self, host: usize) -> bool {
        self.marks.hubs.contains(&self.topology.hosts[host].name)
    }

    fn is_radio(&self, lan: &LanLabel) -> bool {
        // The vertices of nets follow those of hosts.
        self.topology.radios.iter().any(|radio| radio.net + self.topology.hosts.len() == lan.vertex)
    }

    /// The ways of all lines; none of so many that no label could avoid them.
    fn crossed(&self) -> CrossedSquares {
        let mut crossed = CrossedSquares::default();
        if self.lines.lines.len() <= MAX_AVOIDED {
            self.lines.lines.iter().for_each(|line| crossed.add(line.ends.map(|end| self.spots[end])));
        }
        crossed
    }

    /// The labels of LANs, hosts and lines, as far as there is room, and the number of those left out.
    fn labels(&self) -> (Vec<(Label, Ink)>, usize) {
        let mut taken = TakenAreas::default();
        let hosts = || self.topology.hosts.iter().zip(&self.spots);
        hosts().for_each(|(_, spot)| taken.add(Area::around(*spot, HOST + 1.0, HOST + 1.0)));
        for lan in &self.lines.lans {
            taken.add(Area::around(self.spots[lan.vertex], LAN.0, LAN.1));
        }
        let crossed = self.crossed();
        // Of the places of a name, those on the sheet come first, and of these those through which no line goes.
        let clear_first = |middles: &mut [Spot], text: &str| {
            let area = |middle: &Spot| Label { text: text.to_owned(), middle: *middle, size: SIZE }.area();
            let is_on_sheet = |area: &Area| area.left >= 0.0 && area.right <= self.width;
            middles.sort_by_key(|middle| (!is_on_sheet(&area(middle)), !crossed.spare(&area(middle), None)));
        };
        let mut labels = Vec::new();
        for (index, (host, spot)) in hosts().enumerate() {
            let radius = if self.is_hub(index) { HUB } else { HOST };
            let mut middles = around_dot(*spot, radius, &host.name, SIZE);
            clear_first(&mut middles, &host.name);
            labels.push(taken.put(&host.name, SIZE, &middles).map(|label| (label, Ink::Text)));
        }
        for lan in &self.lines.lans {
            let (text, spot) = (lan_text(lan), self.spots[lan.vertex]);
            let near = around_dot(spot, LAN.0, &text, SIZE);
            let far = [16.0, 26.0, 36.0].into_iter().flat_map(|more| around_dot(spot, LAN.0 + more, &text, SIZE));
            let mut middles: Vec<_> = near.into_iter().chain(far).collect();
            clear_first(&mut middles, &text);
            labels.push(taken.put(&text, SIZE, &middles).map(|label| (label, Ink::Muted)));
        }
        for (number, line) in self.lines.lines.iter().enumerate() {
            let Some(text) = &line.label else { continue };
            let mut middles = along_line(line.ends.map(|end| self.spots[end]));
            // On another line it would seem to be that one's.
            let label = |middle: &Spot| Label { text: text.clone(), middle: *middle, size: SIZE - 1.0 };
            middles.retain(|middle| crossed.spare(&label(middle).area(), Some(number)));
            labels.push(taken.put(text, SIZE - 1.0, &middles).map(|label| (label, Ink::Muted)));
        }
        let left_out = labels.iter().filter(|label| label.is_none()).count();
        (labels.into_iter().flatten().collect(), left_out)
    }

    fn draw_lines(&self) -> Markup {
        html! {
            @for line in &self.lines.lines {
                @let [one, other] = line.ends.map(|end| self.spots[end]);
                line x1=(short(one.x)) y1=(short(one.y)) x2=(short(other.x)) y2=(short(other.y))
                    stroke=(Ink::Gray.hex()) stroke-width="1" { title { (line.title) } }
            }
        }
    }

    fn draw_vertices(&self) -> Markup {
        html! {
            @for lan in &self.lines.lans { (draw_box(self.spots[lan.vertex], &lan_text(lan), self.is_radio(lan))) }
            @for (index, host) in self.topology.hosts.iter().enumerate() {
                @let class = host.class.as_deref();
                g {
                    title { (host.name) @if let Some(class) = class { ", " (class) } @if self.is_hub(index) { ", hub" } }
                    @if self.is_hub(index) { (draw_ring(self.spots[index])) }
                    (self.kinds.kind(class).draw(self.spots[index], HOST))
                }
            }
        }
    }

    /// The key and its sentences, with their height.
    fn key(&self, width: f64, left_out: usize) -> (Markup, f64) {
        let mut key = KeyRows::new(width);
        for (class, kind) in self.kinds.key() {
            key.add(class, KeySign::Host(kind));
        }
        if self.topology.hosts.iter().enumerate().any(|(index, _)| self.is_hub(index)) {
            key.add("hub", KeySign::Hub);
        }
        for (name, is_radio) in [("LAN", false), ("radio", true)] {
            if self.lines.lans.iter().any(|lan| self.is_radio(lan) == is_radio) {
                key.add(name, KeySign::Box { is_radio });
            }
        }
        let room = (left_out > 0).then(|| {
            let labels = counted(left_out as u64, "label");
            format!("Without room here: {labels}. The values of a line or host show when you point at it.")
        });
        let place = self.is_by_place.then(|| "Hosts stand where they begin, north above.".to_owned());
        self.lines.sentences.iter().chain(&place).chain(&room).for_each(|sentence| key.say(sentence));
        key.finish()
    }
}

/// A text with a rim of paper, so that lines under it do not disturb.
fn draw_label(label: &Label, ink: Ink) -> Markup {
    let Label { text, middle: Spot { x, y }, size } = label;
    html! {
        text x=(short(*x)) y=(short(y + size * 0.35)) font-size=(size) text-anchor="middle" fill=(ink.hex())
            stroke=(Ink::Paper.hex()) stroke-width="2.5" stroke-linejoin="round" paint-order="stroke"
            font-family=(super::canvas::FONTS) { (text) }
    }
}

#[cfg(test)]
mod tests {
    use roost_topology::generate::{Tree, TreeShape};

    use super::*;

    #[test]
    fn hosts_lans_and_hubs_are_drawn() {
        let topology = Tree::published(TreeShape::inferred(31)).topology().unwrap();
        let hubs = [topology.hosts[0].name.clone()];
        let svg = network(&topology, NetworkMarks { hubs: &hubs }).standing("tree-31");
        let lans = topology.nets.len();
        assert_eq!(svg.matches("<rect").count(), lans + 2, "a box for each LAN, one in the key, and the paper");
        assert_eq!(svg.matches("r=\"9.5\"").count(), 2, "a ring in the drawing and one in the key");
        for host in &topology.hosts {
            assert!(svg.contains(&format!(">{}</text>", host.name)), "{} has no label", host.name);
        }
        assert!(!svg.contains("Without room here"), "{svg}");
    }

    #[test]
    fn radios_and_lans_differ() {
        let text = "[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = ['a', 'b']\nposition = [0, 0]\n\
            [[lan]]\nname = 'l'\nmembers = ['a', 'b']\nrate = '1Mbit'\n[[radio]]\nname = 'r'\nmembers = ['a', 'b']\n\
            frequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\nrate = '6Mbit'\nrange = '500m'\n";
        let topology = roost_topology::file::parse("both", text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let svg = network(&topology, NetworkMarks::default()).standing("both");
        assert!(svg.contains(">LAN</text>") && svg.contains(">radio</text>"), "{svg}");
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "the radio, and its sign in the key");
    }

    #[test]
    fn hosts_with_places_stand_there() {
        let place = |cells: &str| {
            let text = format!(
                "[[host]]\nname = 'south'\ncell = [0, 0]\n[[host]]\nname = 'north'\n{cells}\
                 [[link]]\nbetween = ['south', 'north']\nrate = '1Mbit'\n"
            );
            let topology = roost_topology::file::parse("two", &text).unwrap_or_else(|problems| panic!("{problems:?}"));
            network(&topology, NetworkMarks::default()).standing("two").contains("north above")
        };
        assert!(place("cell = [0, 9]\n"));
        assert!(!place(""));
    }

    #[test]
    fn labels_stay_on_the_sheet() {
        let (name, ends) =
            ("a-host-with-a-long-name-at-the-rim", [(0, 8), (1, 8), (9, 4), (9, 5), (9, 3), (1, 0), (0, 0)]);
        let end = |(number, (x, y))| {
            format!(
                "[[host]]\nname = 'n{number}'\ncell = [{x}, {y}]\n[[link]]\nbetween = ['{name}', 'n{number}']\n\
                 rate = '1Mbit'\n"
            )
        };
        let text = format!("[[host]]\nname = '{name}'\ncell = [0, 4]\n")
            + &ends.into_iter().enumerate().map(end).collect::<String>();
        let topology = roost_topology::file::parse("rim", &text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let (spots, width, _) = on_sheet(&used(&topology, &by_place(&topology).unwrap()), UNITS[0]);
        let marks = NetworkMarks::default();
        let (kinds, lines) = (Kinds::new(&topology), lines(&topology));
        let drawing = NetworkDrawing { topology: &topology, marks, kinds, lines, spots, width, is_by_place: true };
        let (labels, left_out) = drawing.labels();
        let is_on_sheet = |(label, _): &(Label, Ink)| label.area().left >= 0.0 && label.area().right <= width;
        assert!(left_out == 0 && labels.iter().all(is_on_sheet), "{width}: {labels:?}");
    }

    #[test]
    fn labels_lie_on_no_other_line() {
        let ends = |n: usize| (0..n).flat_map(move |one| (one + 1..n).map(move |other| (one, other)));
        let link = |(one, other)| {
            format!(
                "[[link]]\nbetween = ['n{one}', 'n{other}']\ndelay = '{}us'\nrate = '1Mbit'\n",
                10 * one + other + 400
            )
        };
        let text = "[[host]]\nname = 'n[0-6]'\n".to_owned() + &ends(7).map(link).collect::<String>();
        let topology = roost_topology::file::parse("full", &text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let graph = neighbors(&topology);
        let (spots, width, _) = on_sheet(&used(&topology, &layout(&graph)), UNITS[0]);
        let marks = NetworkMarks::default();
        let drawing = NetworkDrawing {
            topology: &topology,
            marks,
            kinds: Kinds::new(&topology),
            lines: lines(&topology),
            spots,
            width,
            is_by_place: false,
        };
        let (labels, left_out) = drawing.labels();
        assert_eq!(labels.len() + left_out, 7 + 21);
        let crossed = drawing.crossed();
        for (label, _) in labels.iter().filter(|(label, _)| label.text.ends_with("us")) {
            let own = drawing.lines.lines.iter().position(|line| line.label.as_deref() == Some(&label.text));
            assert!(crossed.spare(&label.area(), own), "{label:?}");
        }
    }

    #[test]
    fn hostile_and_empty_networks_are_drawn() {
        let mut topology = Topology::default();
        assert!(network(&topology, NetworkMarks::default()).standing("empty").contains("<svg"));
        topology.hosts = vec![roost_topology::model::Host { name: "<script>".to_owned(), ..Default::default() }];
        assert!(!network(&topology, NetworkMarks::default()).standing("one").contains("<script>"));
    }
}
