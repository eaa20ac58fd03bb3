//! `lowtide top`: what `status` shows, live. Keys and the clock are here; what is kept in `top/model`, how it looks in `top/view`.

mod model;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::model::Model;
use crate::lab::interrupt;
use crate::status_socket;

/// How soon a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(200);

/// What `status` shows, live: sortable, with the recent rate and queueing delay of each connection
#[derive(clap::Args)]
pub struct Args {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(s) if (0.25..=3600.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("a number of seconds from 0.25 to 3600 is wanted".to_owned()),
    }
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if !io::stdout().is_terminal() {
        bail!("top draws on a terminal, and this output is none; for a pipe or a file: lowtide status [--json]");
    }
    let mut model = Model::default();
    look(&mut model)?; // before the screen is taken: what fails at once is said on it
    let stop = interrupt::flag()?; // a signal leaves the screen as `q` does
    let mut terminal = ratatui::init();
    let result = live(&mut terminal, &mut model, args.interval, &stop);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

fn look(model: &mut Model) -> anyhow::Result<()> {
    model.update(status_socket::read()?);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the screen follows the machine's own clock")]
fn live(terminal: &mut DefaultTerminal, model: &mut Model, interval: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut due = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view::draw(frame, model))?;
        if event::poll(due.saturating_duration_since(Instant::now()).min(PATIENCE))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press && !press(key, model) => return Ok(()),
                _ => continue,
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if Instant::now() >= due {
            look(model)?;
            due = Instant::now() + interval;
        }
    }
}

/// False ends it.
fn press(key: KeyEvent, model: &mut Model) -> bool {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Down | KeyCode::Char('j') => model.select(1),
        KeyCode::Up | KeyCode::Char('k') => model.select(-1),
        KeyCode::Right | KeyCode::Char('s') => model.sort_by_next(1),
        KeyCode::Left | KeyCode::Char('S') => model.sort_by_next(-1),
        KeyCode::Char('r') => model.reverse(),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_control_c_end_it_and_other_keys_do_not() {
        let mut model = Model::default();
        let mut goes_on = |code, modifiers| press(KeyEvent::new(code, modifiers), &mut model);
        assert!(!goes_on(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(!goes_on(KeyCode::Esc, KeyModifiers::NONE));
        assert!(!goes_on(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(goes_on(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(goes_on(KeyCode::Down, KeyModifiers::NONE)); // with nothing to select
    }

    #[test]
    fn an_interval_that_would_flood_the_runs_is_refused() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(["0", "-1", "NaN", "soon", "1e9"].iter().all(|s| seconds(s).is_err()));
    }
}
