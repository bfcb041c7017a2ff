//! The canvas of figures: lines, areas and text on a sheet of SVG.

use maud::{Markup, PreEscaped, html};
use plotters::prelude::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, FontTransform, IntoFont, ShapeStyle, TextStyle};
use roost_drawing::Spot;

use super::ink::{Ink, dark_rules};
use crate::text_format::{printable, tied};

/// The width of every figure, in pixels of a screen that shows it in a column of the page.
pub(super) const WIDTH: f64 = 480.0;
/// The backend draws at whole numbers; this many of them make one unit.
const GRAIN: f64 = 10.0;
/// The factor by which plotters enlarges font sizes in SVG.
const FONT_SCALE: f64 = 1.24;
/// The height of a line of a title.
const TITLE_LINE: f64 = 20.0;
const TITLE_SIZE: f64 = 15.0;
/// The fonts for text: the system's own.
pub(super) const FONTS: &str = "system-ui, Helvetica, Arial, sans-serif";
pub(super) const WORDS: f64 = 12.5;

/// The side of its point on which a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextAnchor {
    Right,
    Middle,
    Left,
}

/// The form of a point, which tells lines of one ink apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    Dot,
    Square,
    Triangle,
}

impl Mark {
    /// The mark of the `n`th kind: a new form once all inks are used.
    pub(super) fn kind(n: usize) -> Self {
        match n / Ink::KINDS.len() % 3 {
            0 => Self::Dot,
            1 => Self::Square,
            _ => Self::Triangle,
        }
    }

    /// The corners around a center; empty for a dot.
    pub(super) fn corners(self, (x, y): (f64, f64), radius: f64) -> Vec<(f64, f64)> {
        let of = |corners: &[(f64, f64)]| corners.iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect();
        match self {
            Self::Dot => Vec::new(),
            Self::Square => of(&[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]),
            Self::Triangle => of(&[(0.0, -1.3), (1.2, 0.9), (-1.2, 0.9)]),
        }
    }
}

/// The number of a line among those on the same way, and of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineShare {
    pub(super) number: usize,
    pub(super) of: usize,
}

/// The length of a dash of lines on the same way.
const DASH: f64 = 9.0;

/// A sheet that is being drawn on.
pub(super) struct Canvas<'a> {
    backend: SVGBackend<'a>,
}

#[derive(Clone, Debug)]
pub struct Sheet {
    width: f64,
    height: f64,
    body: String,
}

// The target is a string, so drawing cannot fail; the results of the backend, which can also write files, are
// ignored.
impl Canvas<'_> {
    /// Makes a sheet of this height with the drawing of `draw`.
    pub(super) fn sheet(height: f64, draw: impl FnOnce(&mut Canvas<'_>)) -> Sheet {
        let mut svg = String::new();
        let mut canvas = Canvas { backend: SVGBackend::with_string(&mut svg, (units(WIDTH), units(height))) };
        draw(&mut canvas);
        canvas.backend.present().ok();
        drop(canvas);
        let inside = svg.split_once('>').map_or("", |(_, rest)| rest);
        let body = inside.trim().trim_end_matches("</svg>").trim().to_owned();
        Sheet { width: WIDTH, height, body }
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let style = ShapeStyle { color: ink.color().to_rgba(), filled: false, stroke_width: units(width) };
        self.backend.draw_path(points.iter().map(|point| place(*point)), &style).ok();
    }

    /// Every `of`th dash of a line, so that the others are free for lines on the same way.
    pub(super) fn share(&mut self, ends: [Spot; 2], ink: Ink, share: LineShare) {
        let [from, to] = ends;
        if share.of == 1 {
            return self.line(&[(from.x, from.y), (to.x, to.y)], ink, 2.0);
        }
        let way = to.minus(from);
        let length = way.length().max(f64::MIN_POSITIVE);
        let at = |along: f64| {
            let part = (along / length).min(1.0);
            (from.x + way.x * part, from.y + way.y * part)
        };
        let mut along = share.number as f64 * DASH;
        while along < length {
            self.line(&[at(along), at(along + DASH)], ink, 2.0);
            along += share.of as f64 * DASH;
        }
    }

    pub(super) fn dashes(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |along: f64| {
            let part = (along / length).min(1.0);
            (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part)
        };
        let mut along = 0.0;
        while along < length {
            self.line(&[at(along), at(along + 3.0)], ink, 1.0);
            along += 6.0;
        }
    }

    /// A filled shape; `strength` is its opacity, 0 to 1.
    pub(super) fn shape(&mut self, points: &[(f64, f64)], ink: Ink, strength: f64) {
        let style = ShapeStyle { color: ink.color().mix(strength), filled: true, stroke_width: 0 };
        self.backend.fill_polygon(points.iter().map(|point| place(*point)), &style).ok();
    }

    pub(super) fn rectangle(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        let style = ShapeStyle { color: ink.color().to_rgba(), filled: true, stroke_width: 0 };
        let upper_left = (from.0.min(to.0), from.1.min(to.1));
        let lower_right = (from.0.max(to.0), from.1.max(to.1));
        self.backend.draw_rect(place(upper_left), place(lower_right), &style, true).ok();
    }

    /// A dot with a thin rim of paper, so that it stands out on lines and other dots.
    pub(super) fn dot(&mut self, center: (f64, f64), radius: f64, ink: Ink) {
        for (radius, ink) in [(radius + 1.2, Ink::Paper), (radius, ink)] {
            let style = ShapeStyle { color: ink.color().to_rgba(), filled: true, stroke_width: 0 };
            self.backend.draw_circle(place(center), units(radius), &style, true).ok();
        }
    }

    /// A point of this form, with a thin rim of paper.
    pub(super) fn mark(&mut self, center: (f64, f64), radius: f64, ink: Ink, mark: Mark) {
        if mark == Mark::Dot {
            return self.dot(center, radius, ink);
        }
        for (radius, ink) in [(radius + 1.2, Ink::Paper), (radius, ink)] {
            self.shape(&mark.corners(center, radius), ink, 1.0);
        }
    }

    pub(super) fn words(&mut self, text: &str, point: (f64, f64), side: TextAnchor, ink: Ink) {
        self.put(text, point, side, ink, WORDS, FontStyle::Normal);
    }

    pub(super) fn bold(&mut self, text: &str, point: (f64, f64), side: TextAnchor, ink: Ink) {
        self.put(text, point, side, ink, WORDS, FontStyle::Bold);
    }

    fn put(&mut self, text: &str, point: (f64, f64), side: TextAnchor, ink: Ink, size: f64, style: FontStyle) {
        let h_pos = match side {
            TextAnchor::Right => HPos::Left,
            TextAnchor::Middle => HPos::Center,
            TextAnchor::Left => HPos::Right,
        };
        let font = (FONTS, size * GRAIN * FONT_SCALE).into_font().style(style).transform(FontTransform::None);
        let colour = ink.color();
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(h_pos, VPos::Center));
        self.backend.draw_text(&printable(text), &style, place(point)).ok();
    }
}

impl Sheet {
    /// A sheet of this size with a drawing in tenths of a pixel.
    pub(super) fn of_markup(width: f64, height: f64, body: Markup) -> Self {
        Self { width, height, body: body.into_string() }
    }

    /// The sheet for a page that has its own title.
    pub fn inline(&self, title: &str) -> Markup {
        let view = format!("0 0 {} {}", units(self.width), units(self.height));
        html! { svg viewBox=(view) role="img" aria-label=(title) { (PreEscaped(&self.body)) } }
    }

    /// A file with a title that turns dark if the viewer asks for it.
    pub fn standing(&self, title: &str) -> String {
        let lines = wrapped(&tied(title), TITLE_SIZE, self.width);
        let top = lines.len() as f64 * TITLE_LINE + 8.0;
        let heading = Canvas::sheet(top, |canvas| {
            for (index, line) in lines.iter().enumerate() {
                let middle = (index as f64 + 0.5) * TITLE_LINE;
                canvas.put(line, (0.0, middle), TextAnchor::Right, Ink::Text, TITLE_SIZE, FontStyle::Bold);
            }
        });
        let [margin, width, height] =
            [-MARGIN, self.width + 2.0 * MARGIN, top + self.height + 2.0 * MARGIN].map(|length| length * GRAIN);
        let dark = format!("@media screen and (prefers-color-scheme:dark){{{}}}", dark_rules());
        let svg = html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(self.width) height=(top + self.height)
                viewBox={ (margin) " " (margin) " " (width) " " (height) } {
                title { (printable(title)) }
                style { (PreEscaped(dark)) }
                rect x=(margin) y=(margin) width=(width) height=(height) fill=(Ink::Paper.hex()) {}
                (PreEscaped(heading.body))
                g transform={ "translate(0 " (units(top)) ")" } { (PreEscaped(&self.body)) }
            }
        };
        svg.into_string() + "\n"
    }
}

/// The margin around a figure in a file of its own.
const MARGIN: f64 = 12.0;

/// The greatest width of a text: the real font is unknown until it is shown. It uses the widths, in four
/// groups, of DejaVu Sans, the widest of the usual fonts.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    let width = |letter: char| match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.33,
        'f' | 't' | 'r' | ' ' | '-' | '(' | ')' | '/' | '\u{202f}' | '\u{a0}' | '·' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '→' => 0.97,
        'A'..='Z' => 0.72,
        _ => 0.62,
    };
    text.chars().map(width).sum::<f64>() * size
}

/// Cuts the text off with an ellipsis if it is wider than `room`.
pub(super) fn cut_to(text: &str, size: f64, room: f64) -> String {
    if width_of(text, size) <= room {
        return text.to_owned();
    }
    let mut cut = String::new();
    for letter in text.chars() {
        if width_of(&cut, size) + width_of("m…", size) > room {
            break;
        }
        cut.push(letter);
    }
    cut.push('…');
    cut
}

/// Breaks the text into lines no wider than `room`, unless a single word is wider.
pub(super) fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            // Bold letters are a tenth wider.
            Some(line) if width_of(&format!("{line} {word}"), size * 1.1) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn place((x, y): (f64, f64)) -> (i32, i32) {
    let grains = |value: f64| (value * GRAIN).round().clamp(-1e6, 1e6) as i32;
    (grains(x), grains(y))
}

fn units(value: f64) -> u32 {
    (value * GRAIN).round().clamp(0.0, 1e6) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_words_stay_words() {
        let sheet = Canvas::sheet(20.0, |canvas| {
            canvas.words("</text><script>\u{0}alert(\"1\")&", (0.0, 10.0), TextAnchor::Right, Ink::Text);
        });
        for svg in [sheet.inline("\"><script>").0, sheet.standing("a<b & \"c\"")] {
            assert!(!svg.contains("<script>") && !svg.contains('\u{0}'), "{svg}");
            assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        }
    }

    #[test]
    fn long_words_cut_long_titles_wrapped() {
        let long = "a-name-that-goes-on-and-on-and-on".repeat(3);
        assert!(width_of(&cut_to(&long, 12.0, 80.0), 12.0) <= 80.0);
        assert_eq!(cut_to("short", 12.0, 80.0), "short");
        assert!(
            wrapped("Half of the tracks began within 310 ms and 95 % of them within 640 ms", 15.0, 300.0).len() > 1
        );
    }
}
