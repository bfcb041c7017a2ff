//! `roost top`: the daemon's remotes and streams with their rates, live.
//!
//! `view` makes a [`View`] from two samples, `screen` holds the operator's choices and draws; only this file does I/O.

mod screen;
mod view;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::{DefaultTerminal, Terminal, backend::TestBackend};
use roost_api::Client;
use roost_terminal::Output;

use super::connect;
use crate::args::MonitorArgs;
use crate::failure::{Failure, Outcome};
use screen::{Next, Screen};
use view::{Sample, View};

/// Width of a frame that no terminal shows, columns.
const PRINTED_WIDTH: u16 = 120;

pub(crate) async fn run(args: &MonitorArgs, socket: &Path, output: Output) -> Outcome {
    let client = connect(socket).await?;
    if args.once || output.is_json() || !std::io::stdout().is_terminal() {
        let before = sample(&client).await?;
        tokio::time::sleep(args.interval).await;
        let view = View::new(Some(&before), &sample(&client).await?);
        return if output.is_json() { Ok(output.json(&view)?) } else { Ok(output.data(&printed(&view)?)?) };
    }
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let outcome = live(&mut terminal, &client, args.interval).await;
    ratatui::restore();
    outcome
}

async fn live(terminal: &mut DefaultTerminal, client: &Client, interval: Duration) -> Outcome {
    let mut screen = Screen::default();
    let mut before: Option<Sample> = None;
    loop {
        let now = sample(client).await?;
        let view = View::new(before.as_ref(), &now);
        before = Some(now);
        let until = Instant::now() + interval;
        while {
            terminal.draw(|frame| screen.draw(&view, frame)).map_err(failed)?;
            event::poll(until.saturating_duration_since(Instant::now())).map_err(failed)?
        } {
            let Event::Key(key) = event::read().map_err(failed)? else { continue };
            if key.kind == KeyEventKind::Press && screen.press(key) == Next::Leave {
                return Ok(());
            }
        }
    }
}

async fn sample(client: &Client) -> Outcome<Sample> {
    let (status, connections, streams) = tokio::join!(client.status(), client.connections(), client.streams());
    Ok(Sample { at: Instant::now(), status: status?, connections: connections?.connections, streams: streams?.streams })
}

/// The whole view as text, however many rows it has.
fn printed(view: &View) -> Outcome<String> {
    let height = u16::try_from(screen::height(view)).unwrap_or(u16::MAX);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(PRINTED_WIDTH, height));
    let Ok(_) = terminal.draw(|frame| Screen::plain().draw(view, frame));
    let cells = terminal.backend().buffer().content();
    let lines = cells.chunks(PRINTED_WIDTH.into()).map(|line| {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    Ok(lines.collect())
}

fn failed(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}
