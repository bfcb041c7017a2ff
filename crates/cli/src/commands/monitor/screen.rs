//! The screen of `roost top`: the operator's choices, and the drawing of a [`View`].

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use roost_wire::printable;

use super::super::{bytes, seconds};
use super::view::{FlowRow, RemoteRow, View};

/// Lines besides the rows of both tables: two of the head, a heading for each table, an empty one, and the keys.
const FIXED_LINES: usize = 6;

/// Columns of the remotes by which they can be sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Sent,
    Received,
    Messages,
    Rtt,
    Name,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Sent, Self::Received, Self::Messages, Self::Rtt, Self::Name];

    fn next(self) -> Self {
        let here = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(here + 1) % Self::ALL.len()]
    }

    const fn column(self) -> &'static str {
        match self {
            Self::Sent => "SENT/S",
            Self::Received => "RECEIVED/S",
            Self::Messages => "MESSAGES/S",
            Self::Rtt => "RTT",
            Self::Name => "NAME",
        }
    }

    fn order(self, rows: &mut [&RemoteRow]) {
        let greatest = |read: fn(&RemoteRow) -> f64| move |a: &&RemoteRow, b: &&RemoteRow| read(b).total_cmp(&read(a));
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        match self {
            Self::Sent => rows.sort_by(greatest(|row| row.sent_per_second)),
            Self::Received => rows.sort_by(greatest(|row| row.received_per_second)),
            Self::Messages => rows.sort_by(greatest(|row| row.messages_per_second)),
            Self::Rtt => rows.sort_by(greatest(|row| row.rtt_ms)),
            Self::Name => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Leave,
}

#[derive(Debug, Default)]
pub(super) struct Screen {
    sort: Sort,
    filter: String,
    /// True while keys go into the filter.
    is_typing: bool,
    selected: TableState,
    has_no_keys: bool,
}

/// The lines that the whole view takes.
pub(super) fn height(view: &View) -> usize {
    FIXED_LINES + view.remotes.len() + view.streams.len()
}

impl Screen {
    /// A screen without keys, for a pipe.
    pub(super) fn plain() -> Self {
        Self { has_no_keys: true, ..Self::default() }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Leave;
        }
        match (key.code, self.is_typing) {
            (KeyCode::Esc, _) => (self.is_typing, self.filter) = (false, String::new()),
            (KeyCode::Enter, true) => self.is_typing = false,
            (KeyCode::Backspace, true) => drop(self.filter.pop()),
            (KeyCode::Char(letter), true) => self.filter.push(letter),
            (KeyCode::Char('q'), false) => return Next::Leave,
            (KeyCode::Char('s'), false) => self.sort = self.sort.next(),
            (KeyCode::Char('/'), false) => self.is_typing = true,
            (KeyCode::Down, _) => self.selected.select_next(),
            (KeyCode::Up, _) => self.selected.select_previous(),
            (KeyCode::PageDown, _) => self.selected.scroll_down_by(10),
            (KeyCode::PageUp, _) => self.selected.scroll_up_by(10),
            _ => {}
        }
        Next::Stay
    }

    pub(super) fn draw(&mut self, view: &View, frame: &mut Frame<'_>) {
        let remotes = self.chosen(&view.remotes, |row| [&row.name, &row.role, &row.transport]);
        let streams = self.chosen(&view.streams, |row| [&row.service, &row.remote, &row.service]);
        // The streams have at most half of the screen.
        let lines = (streams.len() as u16).min(frame.area().height.saturating_sub(FIXED_LINES as u16) / 2);
        let lines = if self.has_no_keys { streams.len() as u16 } else { lines };
        let parts = Layout::vertical([
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(1),
            Constraint::Length(lines + 1),
            Constraint::Length(1),
        ]);
        let [head, middle, _, below, foot] = parts.areas(frame.area());
        frame.render_widget(head_lines(view), head);
        self.draw_remotes(remotes, middle, frame);
        draw_streams(&streams, below, frame);
        frame.render_widget(self.foot(), foot);
    }

    /// The rows that contain the filter in one of their words.
    fn chosen<'a, T>(&self, rows: &'a [T], words: fn(&T) -> [&String; 3]) -> Vec<&'a T> {
        rows.iter().filter(|row| words(row).iter().any(|word| word.contains(&self.filter))).collect()
    }

    fn draw_remotes(&mut self, mut rows: Vec<&RemoteRow>, area: Rect, frame: &mut Frame<'_>) {
        self.sort.order(&mut rows);
        let names = ["NAME", "ROLE", "OVER", "RTT", "SENT/S", "RECEIVED/S", "MESSAGES/S", "UP"];
        let widths = [24, 10, 6, 10, 12, 12, 12, 12].map(Constraint::Length);
        let heading = names.map(|name| {
            let is_sorted = name == self.sort.column() && !self.has_no_keys;
            title(name, if is_sorted { Modifier::BOLD | Modifier::UNDERLINED } else { Modifier::BOLD })
        });
        let lines = rows.iter().map(|row| {
            Row::new([
                left(&row.name),
                left(&row.role),
                left(&row.transport),
                right(format!("{:.2} ms", row.rtt_ms)),
                right(bytes(row.sent_per_second as u64)),
                right(bytes(row.received_per_second as u64)),
                right(format!("{:.1}", row.messages_per_second)),
                right(seconds(row.up_s)),
            ])
        });
        let table = Table::new(lines, widths).header(Row::new(heading));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.selected);
    }

    fn foot(&self) -> Paragraph<'static> {
        if self.has_no_keys {
            return Paragraph::default();
        }
        let filter = match (self.is_typing, self.filter.as_str()) {
            (false, "") => "/ filter".to_owned(),
            (false, filter) => format!("filter: {filter} (Esc shows all)"),
            (true, filter) => format!("filter: {filter}_"),
        };
        Paragraph::new(format!("q quit   s sort ({})   ↑↓ scroll   {filter}", self.sort.column().to_lowercase()))
    }
}

fn head_lines(view: &View) -> Paragraph<'static> {
    let nodes = view.nodes.map(|nodes| format!("{nodes} nodes, ")).unwrap_or_default();
    let relays = if view.nodes.is_some() { format!("{} relayed flows, ", view.relays) } else { String::new() };
    let counts = format!("{nodes}{} requests, {relays}{} streams", view.requests, view.streams.len());
    let (sent, received) = (bytes(view.sent_per_second as u64), bytes(view.received_per_second as u64));
    let rates = format!("{sent}/s sent, {received}/s received");
    Paragraph::new(vec![Line::from(printable(&view.who).into_owned()), Line::from(format!("{counts}; {rates}"))])
}

fn draw_streams(rows: &[&FlowRow], area: Rect, frame: &mut Frame<'_>) {
    let names = ["SERVICE", "REMOTE", "IS", "RECEIVERS", "BYTES/S", "LOST"];
    let widths = [12, 34, 12, 10, 12, 10].map(Constraint::Length);
    let lines = rows.iter().map(|row| {
        Row::new([
            left(&row.service),
            left(&row.remote),
            left(row.kind),
            right(row.receivers.to_string()),
            right(bytes(row.bytes_per_second as u64)),
            right(row.lost.to_string()),
        ])
    });
    let heading = Row::new(names.map(|name| title(name, Modifier::BOLD)));
    frame.render_widget(Table::new(lines, widths).header(heading), area);
}

/// A column's name, on the side of its values.
fn title(name: &'static str, marks: Modifier) -> Cell<'static> {
    let is_text = ["NAME", "ROLE", "OVER", "SERVICE", "REMOTE", "IS"].contains(&name);
    let text = if is_text { Text::from(name) } else { Text::from(name).right_aligned() };
    Cell::new(text).style(Style::new().add_modifier(marks))
}

/// A name from the network, made safe to show.
fn left(text: &str) -> Cell<'static> {
    Cell::new(printable(text).into_owned())
}

fn right(text: String) -> Cell<'static> {
    Cell::new(Text::from(text).right_aligned())
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn view() -> View {
        let remote = |name: &str, sent: f64, rtt_ms: f64| RemoteRow {
            name: name.to_owned(),
            role: "node".to_owned(),
            transport: "udp".to_owned(),
            rtt_ms,
            sent_per_second: sent,
            received_per_second: 0.0,
            messages_per_second: 2.0,
            up_s: 61.0,
        };
        let stream = FlowRow {
            service: "video".to_owned(),
            remote: "uav7".to_owned(),
            kind: "reflected",
            receivers: 3,
            bytes_per_second: 87_500.0,
            lost: 1,
        };
        let remotes = vec![remote("uav7", 10.0, 9.0), remote("ship", 500.0, 1.0), remote("ground\u{1b}", 20.0, 5.0)];
        let who = "sn1 (supernode) of group grove".to_owned();
        View { who, nodes: Some(3), requests: 2, remotes, streams: vec![stream], ..View::default() }
    }

    fn press(screen: &mut Screen, keys: &str) {
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            assert_eq!(screen.press(code.into()), Next::Stay);
        }
    }

    fn lines(screen: &mut Screen, view: &View, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(110, height)).unwrap();
        terminal.draw(|frame| screen.draw(view, frame)).unwrap();
        let cells = terminal.backend().buffer().content().to_vec();
        let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
        cells.chunks(110).map(|cells| line(cells).trim_end().to_owned()).collect()
    }

    fn names(lines: &[String]) -> Vec<&str> {
        lines[3..].iter().map_while(|line| line.split_whitespace().next()).collect()
    }

    #[test]
    fn frame_shows_all_figures() {
        let (view, mut screen) = (view(), Screen::default());
        let lines = lines(&mut screen, &view, 12);
        assert_eq!(lines[0], "sn1 (supernode) of group grove");
        assert!(lines[1].starts_with("3 nodes, 2 requests, 0 relayed flows, 1 streams; 0 B/s sent"), "{}", lines[1]);
        assert!(lines.iter().any(|line| line.contains("video") && line.contains("87.5 kB")), "{lines:?}");
        assert!(lines.last().unwrap().starts_with("q quit   s sort (sent/s)"), "{lines:?}");
        assert!(!lines.concat().contains('\u{1b}'), "a name's control characters are not shown");
    }

    #[test]
    fn s_changes_order() {
        let (view, mut screen) = (view(), Screen::default());
        assert_eq!(names(&lines(&mut screen, &view, 12))[0], "ship");
        press(&mut screen, "sss");
        assert_eq!(names(&lines(&mut screen, &view, 12))[0], "uav7");
        press(&mut screen, "ss");
        assert_eq!(names(&lines(&mut screen, &view, 12))[0], "ship");
    }

    #[test]
    fn filter_keeps_matching_rows() {
        let (view, mut screen) = (view(), Screen::default());
        press(&mut screen, "/uav\n");
        assert_eq!(names(&lines(&mut screen, &view, 12)), ["uav7"]);
        assert_eq!(screen.press(KeyCode::Esc.into()), Next::Stay);
        assert_eq!(names(&lines(&mut screen, &view, 12)).len(), 3);
        // In the filter, q is a letter.
        press(&mut screen, "/q");
        assert_eq!(screen.press(KeyCode::Enter.into()), Next::Stay);
        assert_eq!(screen.press(KeyCode::Char('q').into()), Next::Leave);
    }

    #[test]
    fn arrows_scroll_beyond_screen() {
        let (mut view, mut screen) = (view(), Screen::default());
        view.streams.clear();
        for _ in 0..3 {
            assert_eq!(screen.press(KeyCode::Down.into()), Next::Stay);
        }
        // One row of three fits.
        assert_eq!(names(&lines(&mut screen, &view, 7)), ["uav7"]);
    }

    #[test]
    fn small_terminal_is_no_fault() {
        for height in 0..10 {
            lines(&mut Screen::default(), &view(), height);
        }
    }
}
