//! `lowtide status`: every run and its connections, once. Knows only what the runs tell (`share`).

use std::process::ExitCode;

use crate::human;
use crate::status_socket::{self, Direction, Flow, Group, Sending};
use crate::stdout;

/// What lowtide manages now: groups, connections, delay and window
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON: a list of groups, each with its flows
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let groups = status_socket::read()?;
    match args.json {
        true => stdout::line(serde_json::to_string_pretty(&groups)?)?,
        false => stdout::print(table(&groups))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(groups: &[Group]) -> String {
    if groups.is_empty() {
        return "lowtide manages nothing now; start something with: lowtide run -- CMD\n".to_owned();
    }
    groups.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(group: &Group) -> String {
    let mut text = format!(
        "{} (pid {}, {}): {}\n{} in {}, now {}, yielded {}, added delay {} ms\n",
        human::line(&group.name),
        group.pid,
        group.controls(),
        human::head(&human::line(&group.what), 200),
        human::bytes(group.bytes),
        human::span(group.running_s),
        human::rate(group.rate_bps),
        human::span(group.yielded_s),
        human::ms(group.added_delay_ms),
    );
    if group.sending.bytes > 0 {
        text += &sent(&group.sending);
    }
    for (what, why) in [("receives", &group.not_held_back), ("sends", &group.sending.not_held_back)] {
        if let Some(why) = why {
            text += &format!("  what it {what} is NOT held back: {}\n", human::line(why));
        }
    }
    text += &match group.flows.as_slice() {
        [] => "  no connection\n".to_owned(),
        _ => line(["from/to", "bit/s", "base ms", "queue ms", "window", "retr", "phase", "mode"].map(str::to_owned)),
    };
    group.flows.iter().for_each(|f| text += &line(cells(f)));
    group.lacking.iter().for_each(|what| text += &format!("  {}\n", human::line(what)));
    for (verb, why) in [("receive", &group.open_before_not_held_back), ("send", &group.sending.open_before_not_held_back)] {
        if let Some(why) = why {
            text += &format!("  what connections {verb} that were open before does NOT yield: {}\n", human::line(why));
        }
    }
    if group.connections_left_alone > 0 {
        text += &format!("  {} connection(s) did NOT yield: {}\n", group.connections_left_alone, group.left_alone);
    }
    text
}

fn sent(sending: &Sending) -> String {
    format!(
        "sent {}, now {}, yielded {}, added delay {} ms\n",
        human::bytes(sending.bytes),
        human::rate(sending.rate_bps),
        human::span(sending.yielded_s),
        human::ms(sending.added_delay_ms),
    )
}

fn cells(flow: &Flow) -> [String; 8] {
    [
        format!("{}{}", arrow(flow.direction), human::tail(&flow.remote, 26)),
        human::short(flow.rate_bps),
        human::ms(flow.base_rtt_ms),
        human::ms(flow.queueing_delay_ms),
        human::short(flow.window_bytes),
        human::short(flow.retransmissions),
        flow.state().to_owned(),
        flow.mode.clone(),
    ]
}

/// Nothing for what is received, as most is.
fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "",
        Direction::Up => "→ ",
    }
}

fn line([from, rate, base, queue, window, retr, phase, mode]: [String; 8]) -> String {
    let line = format!("  {from:28} {rate:>6} {base:>8} {queue:>8} {window:>6} {retr:>5}  {phase:14} {mode}");
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_kernel::LeftAlone;

    #[test]
    fn a_group_is_shown_with_each_of_its_flows_and_what_is_not_known_is_a_dash() {
        let known = Flow {
            remote: "[2001:db8::1]:443".into(),
            rate_bps: 19_300_000,
            base_rtt_ms: Some(20.04),
            queueing_delay_ms: Some(3.0),
            window_bytes: 64_000,
            retransmissions: 12,
            phase: "avoidance".into(),
            mode: "timestamps".into(),
            ..Flow::default()
        };
        let group = Group { name: "backup".into(), flows: vec![known, Flow::default()], ..Group::default() };
        let text = table(&[group]);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[3], ["[2001:db8::1]:443", "19.3M", "20.0", "3.0", "64.0k", "12", "avoidance", "timestamps"]);
        assert_eq!(lines[4], ["0", "–", "–", "0", "0"]);
        assert!(text.lines().all(|l| l.chars().count() <= 110), "{text}");
    }

    #[test]
    fn what_is_left_alone_is_told_without_any_other_connection_and_a_script_takes_one_line() {
        let what = "sh -c echo a\necho \x1b[31mb".to_owned();
        let left_alone = LeftAlone { window_scale_unknown: 2, ..LeftAlone::default() };
        let text = table(&[Group { name: "a\nb".into(), what, connections_left_alone: 2, left_alone, ..Group::default() }]);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            !text.contains('\x1b') && text.contains("2 connection(s) did NOT yield: 2 open before") && text.contains("no connection"),
            "{text}"
        );
    }

    #[test]
    fn a_flow_whose_acknowledgements_are_not_lowered_is_shown_as_one_that_does_not_yield() {
        let flow = Flow { phase: "avoidance".into(), unseen: true, ..Flow::default() };
        let text = table(&[Group { flows: vec![flow], ..Group::default() }]);
        assert!(text.contains("NOT YIELDING") && !text.contains("avoidance"), "{text}");
    }

    #[test]
    fn nothing_to_show_says_how_to_begin() {
        assert!(table(&[]).contains("lowtide run -- CMD"));
    }
}
