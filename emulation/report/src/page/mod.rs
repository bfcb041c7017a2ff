//! HTML pages: one file each, without external resources.

mod compare;
mod programs;
mod rooms;
mod run;
mod sweep;
mod tables;

use std::fmt::{Display, Write};

pub(super) use self::compare::{figure as figure_of_comparison, of_comparison};
pub(super) use self::run::of_run;
pub(super) use self::sweep::of_sweep;
use super::figure::{Figure, dark_rules};
use super::text_format::{escape, tied};

/// The explanation of brackets around a value.
const FEW: &str = "A quantile in brackets is a guess, and has no interval: fewer than ten requests lie beyond it. \
                   A median takes 20 requests, a 95th percentile 200, a 99th 1000.";
const STYLE: &str = include_str!("style.css");

/// A page that is being written. Text is escaped; only this module's own strings are markup.
#[derive(Default)]
pub struct Page(String);

impl Page {
    pub fn markup(&mut self, markup: impl Display) {
        // Writing into a string cannot fail.
        writeln!(self.0, "{markup}").ok();
    }

    /// Adds an element with text in it; `class` may be empty.
    pub fn element(&mut self, name: &str, class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.markup(format_args!("<{name}{class}>{}</{name}>", escape(text)));
    }

    /// Adds a notice: a sentence in bold, then further text and reasons.
    pub fn notice(&mut self, class: &str, bold: &str, rest: &str, reasons: &[String]) {
        self.markup(format_args!("<div class=\"say {class}\"><p><b>{}</b> {}</p>", escape(bold), escape(rest)));
        if !reasons.is_empty() {
            self.markup("<ul>");
            for reason in reasons {
                self.element("li", "", reason);
            }
            self.markup("</ul>");
        }
        self.markup("</div>");
    }

    pub fn number(&mut self, name: &str, value: &str, note: &str) {
        // The unit is set smaller than its number.
        let (number, unit) = value.rsplit_once(' ').unwrap_or((value, ""));
        self.markup(format_args!(
            "<div><dt>{}</dt><dd class=\"big\">{} <small>{}</small></dd><dd class=\"note\">{}</dd></div>",
            escape(name),
            escape(number),
            escape(unit),
            escape(note)
        ));
    }

    /// Adds figures, side by side where there is room.
    pub fn figures(&mut self, figures: &[Figure]) {
        self.markup("<div class=\"figures\">");
        for figure in figures {
            self.markup("<figure>");
            // A non-breaking hyphen keeps `super-node` on one line.
            self.element("h3", "", &tied(&figure.title).replace('-', "\u{2011}"));
            self.markup(figure.sheet.inline(&figure.title));
            self.element("figcaption", "", &figure.caption);
            self.markup("</figure>");
        }
        self.markup("</div>");
    }

    /// Adds a list of names and values.
    pub(super) fn facts(&mut self, facts: impl IntoIterator<Item = (String, String)>) {
        self.markup("<dl class=\"facts\">");
        for (name, value) in facts {
            self.markup(format_args!("<dt>{}</dt><dd>{}</dd>", escape(&name), escape(&value)));
        }
        self.markup("</dl>");
    }

    pub fn document(self, title: &str, body_class: &str) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">\n\
             <title>{}</title>\n<style>\n{}</style>\n</head>\n<body class=\"{body_class}\">\n{}</body>\n</html>\n",
            escape(title),
            STYLE.replace("/*DARK*/", &dark_rules()),
            self.0
        )
    }
}

/// Tables with more columns are set smaller, to fit the page.
const WIDE: usize = 12;

pub struct Rows(String);

impl Rows {
    /// A table with these headings; a heading that starts with `<` is for a column of words.
    pub fn new(headings: &[&str]) -> Self {
        let class = if headings.len() > WIDE { " wide" } else { "" };
        let mut markup = format!("<div class=\"card scroll{class}\"><table><thead><tr>");
        for heading in headings {
            match heading.strip_prefix('<') {
                Some(words) => markup.push_str(&format!("<th scope=\"col\" class=\"words\">{}</th>", escape(words))),
                None => markup.push_str(&format!("<th scope=\"col\">{}</th>", escape(heading))),
            }
        }
        markup.push_str("</tr></thead><tbody>");
        Self(markup)
    }

    /// Adds a row: its name, then its cells; `class` may be empty. A cell that starts with `<` holds words, `+`
    /// good news, `!` bad news.
    pub fn row<'a>(&mut self, class: &str, name: &str, cells: impl IntoIterator<Item = &'a str>) {
        self.0.push_str(&format!("<tr class=\"{class}\"><th scope=\"row\">{}</th>", escape(name)));
        for cell in cells {
            let (class, text) = match cell.split_at_checked(1) {
                Some(("<", rest)) => ("words", rest),
                Some(("+", rest)) => ("good", rest),
                Some(("!", rest)) => ("bad", rest),
                _ => ("", cell),
            };
            self.0.push_str(&format!("<td class=\"{class}\">{}</td>", escape(text)));
        }
        self.0.push_str("</tr>");
    }

    pub fn end(self) -> String {
        self.0 + "</tbody></table></div>"
    }
}
