//! Summaries as tables for people. Knows no files.

use std::fmt::Write;

use lowtide_scenario::Summary;

use crate::human;

/// One run in full.
pub fn one(summary: &Summary) -> String {
    let mut text = String::new();
    for b in &summary.bottlenecks {
        let d = &b.queue_delay_ms;
        line_of(
            &mut text,
            format_args!(
                "{}: {} used {:.1} %, queue {} ms (p95 {}, max {}), {} drops, {} marks",
                b.name,
                human::rate(b.capacity_bps as u64),
                b.utilisation * 100.0,
                human::ms(Some(d.mean)),
                human::ms(Some(d.p95)),
                human::ms(Some(d.max)),
                b.drops,
                b.marks
            ),
        );
    }
    let width = summary.flows.iter().map(|f| f.name.len()).max().unwrap_or(4).max(4);
    line_of(
        &mut text,
        format_args!(
            "\n{:width$}  {:18} {:>12} {:>7} {:>8} {:>8} {:>8} {:>9}",
            "flow", "cc", "goodput", "share", "RTT", "p95", "resent", "done in"
        ),
    );
    for f in &summary.flows {
        let share = if summary.bottlenecks.is_empty() { "–".to_owned() } else { format!("{:.1} %", f.share * 100.0) };
        let done = f.completion_s.map_or_else(|| "–".to_owned(), human::span);
        let left =
            f.transfers.filter(|t| t.unfinished > 0).map(|t| format!("  {} of {} not done", t.unfinished, t.finished + t.unfinished));
        line_of(
            &mut text,
            format_args!(
                "{:width$}  {:18} {:>12} {:>7} {:>8} {:>8} {:>8} {:>9}{}",
                f.name,
                f.cc,
                human::rate(f.goodput_bps as u64),
                share,
                human::ms(Some(f.rtt_ms.mean)),
                human::ms(Some(f.rtt_ms.p95)),
                f.retransmits,
                done,
                left.unwrap_or_default()
            ),
        );
    }
    line_of(
        &mut text,
        format_args!("\nfairness (Jain) {:.3}, over one-second windows {:.3}; {} events", summary.jain, summary.jain_short, summary.events),
    );
    text
}

/// One run of many: what distinguishes it, the bottleneck, each group's share.
pub fn line(name: &str, summary: &Summary) -> String {
    let mut text = String::new();
    let used = summary.bottlenecks.first().map_or((0.0, 0.0), |b| (b.utilisation * 100.0, b.queue_delay_ms.mean));
    let mut groups: Vec<(&str, f64)> = Vec::new();
    for flow in &summary.flows {
        match groups.iter_mut().find(|group| group.0 == flow.group) {
            Some(group) => group.1 += flow.share,
            None => groups.push((&flow.group, flow.share)),
        }
    }
    let shares: Vec<String> = groups.iter().map(|(group, share)| format!("{group} {:.1} %", share * 100.0)).collect();
    line_of(
        &mut text,
        format_args!("{name}: used {:.1} %, queue {:.1} ms, Jain {:.3}; {}", used.0, used.1, summary.jain, shares.join(", ")),
    );
    text
}

/// What scenarios may name.
pub fn list() -> String {
    let mut text = String::from("Congestion controls (flows: cc = …)\n");
    for a in lowtide_cc::registry::ALGORITHMS {
        line_of(&mut text, format_args!("  {:22} {} [{}]", a.name, a.summary, a.source));
    }
    for a in lowtide_replicas::ALGORITHMS {
        line_of(&mut text, format_args!("  {:22} {} [{}]", a.name, a.summary, a.source));
    }
    text.push_str("\nQueue disciplines (queue = { kind = … })\n");
    for d in lowtide_net::DISCIPLINES {
        line_of(&mut text, format_args!("  {:22} {}", d.name, d.summary));
    }
    text.push_str("\nTopologies (topology: kind = …)\n");
    for (name, summary) in lowtide_sim::topology::TOPOLOGIES {
        line_of(&mut text, format_args!("  {name:22} {summary}"));
    }
    text
}

fn line_of(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}
