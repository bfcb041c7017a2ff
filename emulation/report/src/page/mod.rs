//! HTML pages: one file each, without external resources.

mod compare;
mod measurements;
mod programs;
mod rooms;
mod run;
mod sweep;
mod tables;
mod terms;

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

pub(super) use self::compare::{figure as figure_of_comparison, of_comparison};
pub(super) use self::run::of_run;
pub(super) use self::sweep::of_sweep;
use super::figure::{Figure, dark_rules};
use super::text_format::{printable, tied};

/// The explanation of brackets around a value.
const FEW: &str = "A quantile in brackets is a guess, and has no interval: fewer than ten requests lie beyond it. \
                   A median takes 20 requests, a 95th percentile 200, a 99th 1000.";
const STYLE: &str = include_str!("style.css");
/// Tables with more columns are set smaller, to fit the page.
const WIDE: usize = 12;

/// The parts of a page.
pub struct Page<'a> {
    pub title: &'a str,
    pub is_untrusted: bool,
    pub header: Markup,
    pub main: Markup,
    pub footer: Markup,
}

impl Page<'_> {
    pub fn document(self) -> String {
        let style = STYLE.replace("/*DARK*/", &dark_rules());
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width,initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content="default-src 'none';style-src 'unsafe-inline'";
                    title { (self.title) }
                    style { (PreEscaped(style)) }
                }
                body.untrusted[self.is_untrusted] {
                    header { (self.header) }
                    main { (self.main) }
                    footer { (self.footer) }
                }
            }
        };
        printable(&page.into_string())
    }
}

/// A sentence in bold, then further text and reasons; `class` may be empty.
pub fn notice(class: &str, bold: &str, rest: &str, reasons: &[String]) -> Markup {
    html! {
        div class={ "say " (class) } {
            p { b { (bold) } " " (rest) }
            @if !reasons.is_empty() { ul { @for reason in reasons { li { (with_code(reason)) } } } }
        }
    }
}

/// A text whose parts between backquotes are code.
fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (number, part) in parts.iter().enumerate() {
            @if number.is_multiple_of(2) { (part) } @else { code { (part) } }
        }
    }
}

/// A caption in which the file of a figure is a link.
fn with_links(text: &str) -> Markup {
    let from = text.find("figures/");
    let to = from.and_then(|from| Some(from + text[from..].find(".svg")? + ".svg".len()));
    let Some((from, to)) = from.zip(to) else { return html! { (text) } };
    let file = &text[from..to];
    html! { (text[..from]) a href=(file) { (file) } (text[to..]) }
}

pub fn number(name: &str, value: &str, note: &str) -> Markup {
    // The unit is set smaller than its number.
    let (number, unit) = value.rsplit_once(' ').unwrap_or((value, ""));
    html! { div { dt { (name) } dd.big { (number) " " small { (unit) } } dd.note { (note) } } }
}

/// Figures, side by side where there is room.
pub fn gallery(figures: &[Figure]) -> Markup {
    html! {
        div.figures {
            @for figure in figures {
                figure {
                    // A non-breaking hyphen keeps `super-node` on one line.
                    h3 { (tied(&figure.title).replace('-', "\u{2011}")) }
                    (figure.sheet.inline(&figure.title))
                    figcaption { (with_links(&figure.caption)) }
                }
            }
        }
    }
}

/// Drawings below each other, each as wide as the page allows.
fn drawings(figures: &[Figure]) -> Markup {
    html! {
        @if !figures.is_empty() { h2 { "The network" } }
        @for figure in figures {
            figure.wide {
                h3 { (tied(&figure.title).replace('-', "\u{2011}")) }
                (figure.sheet.inline(&figure.title))
                figcaption { (with_links(&figure.caption)) }
            }
        }
    }
}

/// A table with these headings; a heading that starts with `<` is for a column of words.
pub fn table<T: AsRef<str>>(headings: &[T], rows: &Markup) -> Markup {
    html! {
        div.broad { div.card.scroll.wide[headings.len() > WIDE] tabindex="0" {
            table {
                thead {
                    tr {
                        @for heading in headings {
                            @match heading.as_ref().strip_prefix('<') {
                                Some(words) => { th.words scope="col" { (words) } }
                                None => { th scope="col" { (heading.as_ref()) } }
                            }
                        }
                    }
                }
                tbody { (rows) }
            }
        } }
    }
}

/// A row of a table: its name, then its cells; `class` may be empty.
pub fn row(class: &str, name: &str, cells: impl IntoIterator<Item = impl Render>) -> Markup {
    html! { tr class=(class) { th scope="row" { (name) } @for cell in cells { td { (cell) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_tables_scroll_in_their_box() {
        let table = table(&["a", "b"], &row("", "x", ["1"])).0;
        assert!(table.contains("class=\"card scroll\"") && table.contains("tabindex=\"0\""), "{table}");
        for rule in [
            ".scroll{overflow-x:auto",
            ".scroll::-webkit-scrollbar{",
            ".scroll tr>:first-child{padding-left:20px;position:sticky",
        ] {
            assert!(STYLE.contains(rule), "{rule}");
        }
    }

    #[test]
    fn file_of_figure_is_link() {
        let link = "in <a href=\"figures/network-1.svg\">figures/network-1.svg</a>.";
        assert_eq!(with_links("in figures/network-1.svg.").0, link);
        assert_eq!(with_links("figures/ < none").0, "figures/ &lt; none");
    }

    #[test]
    fn backquotes_become_code() {
        let said = notice("doubt", "Unknown:", "", &["`emulate <x>` measures it".to_owned(), "a ` b".to_owned()]).0;
        assert!(
            said.contains("<li><code>emulate &lt;x&gt;</code> measures it</li>") && said.contains("a ` b"),
            "{said}"
        );
    }
}
