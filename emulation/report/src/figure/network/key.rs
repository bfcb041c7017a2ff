//! The key of a drawing: the signs of its vertices, and sentences about it.

use maud::{Markup, html};
use roost_drawing::Spot;

use super::HOST;
use super::kinds::{Kind, short};
use crate::figure::canvas::{FONTS, width_of};
use crate::figure::ink::Ink;

const KEY_ROW: f64 = 20.0;
const KEY_SIZE: f64 = 12.0;
/// The radius of the ring of a hub.
pub(super) const HUB: f64 = HOST + 3.5;
/// Half the width and height of the box of a LAN or radio.
pub(super) const LAN: (f64, f64) = (8.0, 5.0);

/// The box of a LAN, or with a broken rim of a radio.
pub(super) fn draw_box(Spot { x, y }: Spot, title: &str, is_radio: bool) -> Markup {
    html! {
        rect x=(short(x - LAN.0)) y=(short(y - LAN.1)) width=(short(2.0 * LAN.0)) height=(short(2.0 * LAN.1)) rx="2"
            fill=(Ink::Trough.hex()) stroke=(Ink::Muted.hex()) stroke-width="1.2"
            stroke-dasharray=[is_radio.then_some("3 2")] { title { (title) } }
    }
}

pub(super) fn draw_ring(Spot { x, y }: Spot) -> Markup {
    html! {
        circle cx=(short(x)) cy=(short(y)) r=(short(HUB)) fill="none" stroke=(Ink::Text.hex())
            stroke-width="1.8" {}
    }
}

/// The sign of a kind of vertex beside its name.
pub(super) enum KeySign {
    Host(Kind),
    Hub,
    Box { is_radio: bool },
}

/// The rows of a key, broken where the width ends.
pub(super) struct KeyRows {
    width: f64,
    at: Spot,
    drawn: Vec<Markup>,
}

impl KeyRows {
    const START: f64 = 8.0;

    pub(super) fn new(width: f64) -> Self {
        Self { width, at: Spot { x: Self::START, y: KEY_ROW / 2.0 }, drawn: Vec::new() }
    }

    fn next_row(&mut self) {
        if self.at.x > Self::START {
            self.at = Spot { x: Self::START, y: self.at.y + KEY_ROW };
        }
    }

    pub(super) fn add(&mut self, name: &str, sign: KeySign) {
        let length = width_of(name, KEY_SIZE) + 40.0;
        if self.at.x + length > self.width {
            self.next_row();
        }
        let spot = Spot { x: self.at.x + 8.0, y: self.at.y };
        self.drawn.push(match sign {
            KeySign::Host(kind) => kind.draw(spot, HOST),
            KeySign::Hub => draw_ring(spot),
            KeySign::Box { is_radio } => draw_box(spot, name, is_radio),
        });
        self.put(name, spot.x + 15.0);
        self.at.x += length;
    }

    pub(super) fn say(&mut self, sentence: &str) {
        self.next_row();
        self.put(sentence, Self::START);
        self.at = Spot { x: Self::START, y: self.at.y + KEY_ROW };
    }

    fn put(&mut self, text: &str, x: f64) {
        let y = self.at.y + KEY_SIZE * 0.35;
        self.drawn.push(html! {
            text x=(short(x)) y=(short(y)) font-size=(KEY_SIZE) fill=(Ink::Text.hex())
                font-family=(FONTS) { (text) }
        });
    }

    pub(super) fn finish(mut self) -> (Markup, f64) {
        self.next_row();
        (html! { @for part in &self.drawn { (part) } }, self.at.y - KEY_ROW / 2.0 + 6.0)
    }
}
