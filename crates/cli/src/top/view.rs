//! How `top` looks: a header, the table, the selected flow at large, the keys. Draws a `Model`; changes nothing.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table, TableState};

use super::model::{self, Column, Model, Past};
use crate::human;
use crate::status_socket::Direction;

/// Columns of a small graph in the table.
const GRAPH: usize = 8;

/// A graph's top is never below these: noise on an idle line shall not look like a mountain.
const LEAST_RATE_BPS: u64 = 10_000;
const LEAST_DELAY_US: u64 = 1_000;

pub fn draw(frame: &mut Frame, model: &Model) {
    let rows = model.rows();
    let selected = model.selected(&rows);
    let detail = if selected.is_some() && frame.area().height >= 18 { 9 } else { 0 };
    let [header, table, below, keys] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(detail), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(head(model).bold(), header);
    match selected {
        Some(place) => {
            draw_table(frame, table, model, &rows, place);
            draw_detail(frame, below, &rows[place], model.past(&rows[place]));
        }
        None => frame.render_widget(Paragraph::new(nothing(model)).centered(), table),
    }
    frame.render_widget(Line::from("q quit   ↑↓ select   ←→ sort by another column   r reverse").dim(), keys);
}

fn head(model: &Model) -> Line<'static> {
    let rate = model.groups.iter().map(|g| g.rate_bps + g.sending.rate_bps).sum();
    let flows: usize = model.groups.iter().map(|g| g.flows.len()).sum();
    let yielded: f64 = model.groups.iter().map(|g| g.yielded_s + g.sending.yielded_s).sum();
    Line::from(format!(
        "lowtide: {} group(s), {flows} connection(s), {}, yielded {}",
        model.groups.len(),
        human::rate(rate),
        human::span(yielded)
    ))
}

fn nothing(model: &Model) -> String {
    match model.groups.as_slice() {
        [] => "\nlowtide manages nothing now; start something with: lowtide run -- CMD".to_owned(),
        groups => groups.iter().map(|g| format!("\n{} (pid {}): no connection", g.name, g.pid)).collect(),
    }
}

fn draw_table(frame: &mut Frame, area: Rect, model: &Model, rows: &[model::Row], place: usize) {
    let widths = [8, 0, 6, GRAPH as u16, 6, GRAPH as u16, 6, 7, 5].map(|w| match w {
        0 => Constraint::Min(17),
        w => Constraint::Length(w),
    });
    let title = |column: Column| {
        let arrow = match (column == model.sorted_by, model.reversed) {
            (false, _) => "",
            (true, false) => "▾",
            (true, true) => "▴",
        };
        let text = Line::from(format!("{}{arrow}", column.title()));
        let aligned = if matches!(column, Column::Group | Column::From) { text } else { text.right_aligned() };
        Cell::from(aligned).style(if arrow.is_empty() { Style::new() } else { Style::new().bold() })
    };
    let [group, from, rate, delay, base, window, retr] = Column::ALL.map(title);
    let header = Row::new([group, from, rate, Cell::from(""), delay, Cell::from("ms"), base, window, retr]).underlined();
    let width = usize::from(area.width.saturating_sub(8 + 6 + 6 + 6 + 7 + 5 + 2 * GRAPH as u16 + 8)).max(17);
    let body = rows.iter().map(|row| Row::new(cells(row, model.past(row), width)));
    let table = Table::new(body, widths).header(header).row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(Some(place)));
}

fn cells<'a>(row: &model::Row, past: Option<&Past>, width: usize) -> [Line<'a>; 9] {
    let flow = row.flow;
    let right = |text: String| Line::from(text).right_aligned();
    let graph = |values: Option<&VecDeque<u64>>, least| values.map(|v| small_graph(v, least)).unwrap_or_default();
    [
        Line::from(human::head(&row.group.name, 8)),
        Line::from(match flow.direction {
            Direction::Up => format!("→ {}", human::tail(&flow.remote, width.saturating_sub(2))),
            Direction::Down => human::tail(&flow.remote, width),
        }),
        right(human::short(flow.rate_bps)),
        Line::from(graph(past.map(|p| &p.rate_bps), LEAST_RATE_BPS)).fg(Color::Cyan),
        right(human::ms(flow.queueing_delay_ms)),
        Line::from(graph(past.map(|p| &p.delay_us), LEAST_DELAY_US)).fg(Color::Yellow),
        right(human::ms(flow.base_rtt_ms)),
        right(human::short(flow.window_bytes)),
        right(human::short(flow.retransmissions)),
    ]
}

/// The newest values, the last at the right, scaled to the largest of them.
fn small_graph(values: &VecDeque<u64>, least: u64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let newest: Vec<u64> = values.iter().skip(values.len().saturating_sub(GRAPH)).copied().collect();
    let top = newest.iter().copied().max().unwrap_or(0).max(least);
    let bars: String = newest.iter().map(|v| BARS[(v * 7 / top) as usize]).collect();
    format!("{bars:>GRAPH$}")
}

fn draw_detail(frame: &mut Frame, area: Rect, row: &model::Row, past: Option<&Past>) {
    let flow = row.flow;
    let block = Block::new().borders(Borders::TOP).title(format!(
        " {} {} {} ",
        flow.local,
        if flow.direction == Direction::Up { "→" } else { "←" },
        flow.remote
    ));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [text, graphs] = Layout::vertical([Constraint::Length(3), Constraint::Min(0)]).areas(inner);
    frame.render_widget(Paragraph::new(words(row)), text);
    let Some(past) = past else { return };
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(graphs);
    large_graph(frame, left, &past.rate_bps, LEAST_RATE_BPS, Color::Cyan, |top| format!("rate, up to {}", human::rate(top)));
    large_graph(frame, right, &past.delay_us, LEAST_DELAY_US, Color::Yellow, |top| {
        format!("queueing delay, up to {} ms", human::ms(Some(top as f64 / 1000.0)))
    });
}

fn words(row: &model::Row) -> Vec<Line<'static>> {
    let flow = row.flow;
    let shared = match flow.path_flows {
        0 | 1 => String::new(),
        n => format!(" of {} that {n} connections share", human::short(flow.path_window_bytes)),
    };
    vec![
        Line::from(format!("group {}: {}", row.group.name, row.group.what)),
        Line::from(format!(
            "{}; {}; RTT {} ms by {}; {} slowdown(s)",
            flow.state(),
            row.group.controls(),
            human::ms(flow.rtt_ms),
            flow.mode,
            flow.slowdowns,
        )),
        Line::from(format!(
            "window {}{shared}; {} in {}",
            human::short(flow.window_bytes),
            human::bytes(flow.bytes),
            human::span(flow.age_s)
        )),
    ]
}

fn large_graph(frame: &mut Frame, area: Rect, values: &VecDeque<u64>, least: u64, colour: Color, title: impl Fn(u64) -> String) {
    let newest: Vec<u64> = values.iter().skip(values.len().saturating_sub(usize::from(area.width))).copied().collect();
    let top = newest.iter().copied().max().unwrap_or(0).max(least);
    let [name, graph] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::from(title(top)).dim(), name);
    frame.render_widget(Sparkline::default().data(newest).max(top).fg(colour), graph);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_socket::{Flow, Group};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(model: &Model, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(|frame| draw(frame, model)).expect("it draws");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn busy(flows: u64) -> Model {
        let flow = |id, tick: u64| Flow {
            id,
            local: "[2001:db8:1:2::9]:51234".into(),
            remote: format!("[2001:db8:aaaa:bbbb::{id:x}]:443"),
            rate_bps: id * 100_000 + tick * 100_000,
            base_rtt_ms: Some(120.04),
            queueing_delay_ms: Some(tick as f64),
            window_bytes: 123_456,
            retransmissions: 1234,
            phase: "slow start after timeout".into(),
            mode: "timestamps".into(),
            ..Flow::default()
        };
        let mut model = Model::default();
        for tick in 0..20 {
            let flows = (1..=flows).map(|id| flow(id, tick)).collect();
            model.update(vec![Group { name: "nightly-backup".into(), pid: 1, flows, ..Group::default() }]);
        }
        model
    }

    #[test]
    fn on_80_by_24_every_column_is_whole_and_the_selected_flow_is_explained() {
        let screen = screen(&busy(9), 80, 24);
        let all = screen.join("\n");
        assert!(screen[0].contains("9 connection(s)"), "{all}");
        for title in ["GROUP", "FROM", "BIT/S▾", "QUEUE", "BASE", "WINDOW", "RETR"] {
            assert!(screen[1].contains(title), "{title} is missing:\n{all}");
        }
        let first: Vec<&str> = screen[2].split_whitespace().collect();
        let (names, numbers) = (first[..2].join(" "), [first[2], first[4], first[6], first[7], first[8]]);
        assert_eq!(names, "nightly… …aaaa:bbbb::9]:443", "{all}");
        assert_eq!(numbers, ["2.80M", "19.0", "120.0", "123k", "1.23k"], "{all}");
        assert!([first[3], first[5]].iter().all(|graph| graph.chars().count() == GRAPH && graph.ends_with('█')), "{all}");
        assert!(all.contains("slow start after timeout") && all.contains("by timestamps"), "{all}");
        assert!(screen[23].starts_with("q quit"), "{all}");
    }

    #[test]
    fn more_flows_than_rows_scroll_with_the_selection() {
        let mut model = busy(100);
        assert!(!screen(&model, 80, 24).join("\n").contains("bbbb::1]:443"));
        model.select(99);
        assert!(screen(&model, 80, 24).join("\n").contains("bbbb::1]:443"));
    }

    #[test]
    fn no_size_of_terminal_makes_it_fail() {
        let model = busy(3);
        for (width, height) in [(1, 1), (20, 5), (79, 23), (80, 17), (300, 100)] {
            screen(&model, width, height);
            screen(&Model::default(), width, height);
        }
    }

    #[test]
    fn a_graph_is_scaled_to_its_largest_and_noise_stays_flat() {
        assert_eq!(small_graph(&VecDeque::from([0, 4_000, 7_000]), 1_000), "     ▁▅█");
        assert_eq!(small_graph(&VecDeque::from([3, 1, 2]), 1_000), "     ▁▁▁");
    }
}
