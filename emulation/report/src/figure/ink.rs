//! The colours of figures, by meaning.
//!
//! The hues are those of Okabe and Ito's "Color Universal Design" (2008), which people with any colour vision
//! can tell apart, darkened until text in them is legible on white, and lightened for a dark page. Each has a
//! unique value, so that a style sheet can find and change it.

use std::fmt::Write;

use plotters::style::RGBColor;

/// The inks, by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// The main text.
    Text,
    /// Text of axes.
    Muted,
    /// Axes and grid.
    Rule,
    /// The background of bars, for the possible amount.
    Trough,
    /// The page's own colour, for outlines.
    Paper,
    /// Successes, or the only series.
    Blue,
    /// Failures.
    Vermilion,
    /// Doubtful values.
    Amber,
    /// A third kind; the following inks serve further kinds.
    Green,
    Purple,
    Sky,
    Brown,
    /// Neutral values.
    Gray,
}

impl Ink {
    const ALL: [Self; 13] = [
        Self::Text,
        Self::Muted,
        Self::Rule,
        Self::Trough,
        Self::Paper,
        Self::Blue,
        Self::Vermilion,
        Self::Amber,
        Self::Green,
        Self::Purple,
        Self::Sky,
        Self::Brown,
        Self::Gray,
    ];

    /// The inks for kinds that colour tells apart, in this order.
    pub const KINDS: [Self; 7] =
        [Self::Blue, Self::Vermilion, Self::Green, Self::Purple, Self::Amber, Self::Sky, Self::Brown];

    pub fn kind(n: usize) -> Self {
        Self::KINDS[n % Self::KINDS.len()]
    }

    /// The ink of a service, the same in all figures.
    pub fn service(name: &str) -> Self {
        match name {
            "video" => Self::Blue,
            "track" => Self::Vermilion,
            "image" => Self::Green,
            "sensor" => Self::Purple,
            _ => Self::Gray,
        }
    }

    /// On white, and on a dark page.
    const fn values(self) -> [u32; 2] {
        match self {
            Self::Text => [0x1b2430, 0xe8ecf2],
            Self::Muted => [0x5a6675, 0x9aa7b8],
            Self::Rule => [0xd5dbe3, 0x364150],
            Self::Trough => [0xeef1f5, 0x232c38],
            Self::Paper => [0xffffff, 0x171e27],
            Self::Blue => [0x0067a5, 0x58b4e8],
            Self::Vermilion => [0xc24a06, 0xf28c50],
            Self::Amber => [0x9a6a00, 0xe9b949],
            Self::Green => [0x00785a, 0x35c79d],
            Self::Purple => [0x96478a, 0xdc95c8],
            Self::Sky => [0x3f8fbf, 0x9ad4f5],
            Self::Brown => [0x6b4c2a, 0xc9a57c],
            Self::Gray => [0x77828f, 0x8b97a6],
        }
    }

    /// The colour on white, as figures are drawn.
    pub(super) const fn color(self) -> RGBColor {
        let [value, _] = self.values();
        // Each is truncated to its byte.
        RGBColor((value >> 16) as u8, (value >> 8) as u8, value as u8)
    }

    /// As in a style sheet.
    pub fn hex(self) -> String {
        format!("#{:06X}", self.values()[0])
    }
}

/// The rules that adapt figures, drawn for white, to a dark page.
pub fn dark_rules() -> String {
    let mut rules = String::new();
    for ink in Ink::ALL {
        let [light, dark] = ink.values();
        for property in ["fill", "stroke"] {
            // Writing into a string cannot fail.
            write!(rules, "svg [{property}=\"#{light:06X}\"]{{{property}:#{dark:06x}}}").ok();
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Relative luminance of WCAG 2.
    fn luminance(value: u32) -> f64 {
        let linear = |shift: u32| {
            let part = f64::from((value >> shift) & 0xff) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_contrast_on_both_themes() {
        let [white, dark] = Ink::Paper.values();
        let words = [Ink::Text, Ink::Muted, Ink::Blue, Ink::Vermilion, Ink::Amber, Ink::Green, Ink::Purple, Ink::Brown];
        for ink in words {
            let [on_white, on_dark] = ink.values();
            assert!(contrast(white, on_white) >= 4.5, "{ink:?} on white");
            assert!(contrast(dark, on_dark) >= 4.5, "{ink:?} on dark");
        }
    }

    #[test]
    fn all_inks_have_distinct_values() {
        let values: BTreeSet<u32> = Ink::ALL.iter().map(|ink| ink.values()[0]).collect();
        assert_eq!(values.len(), Ink::ALL.len());
    }
}
