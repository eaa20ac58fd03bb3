//! What `top` knows: the last look, each flow's recent past, the order and the selection. Knows no terminal.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

use crate::human;
use crate::status_socket::{Flow, Group};

/// Looks kept a flow: more than a wide terminal has columns for.
const KEPT: usize = 240;

/// A flow's name across looks: its run's pid and its own id.
pub type Key = (u32, u64);

/// What the table can be sorted by, in the order of its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    Group,
    From,
    #[default]
    Rate,
    Delay,
    Base,
    Window,
    Retransmissions,
}

impl Column {
    pub const ALL: [Column; 7] =
        [Column::Group, Column::From, Column::Rate, Column::Delay, Column::Base, Column::Window, Column::Retransmissions];

    pub fn title(self) -> &'static str {
        match self {
            Column::Group => "GROUP",
            Column::From => "FROM",
            Column::Rate => "BIT/S",
            Column::Delay => "QUEUE",
            Column::Base => "BASE",
            Column::Window => "WINDOW",
            Column::Retransmissions => "RETR",
        }
    }

    /// Names run up from A, numbers down from the largest.
    fn falls(self) -> bool {
        !matches!(self, Column::Group | Column::From)
    }
}

/// Oldest first.
#[derive(Debug, Default)]
pub struct Past {
    pub rate_bps: VecDeque<u64>,
    pub delay_us: VecDeque<u64>,
}

/// One row of the table.
pub struct Row<'a> {
    pub group: &'a Group,
    pub flow: &'a Flow,
}

impl Row<'_> {
    fn key(&self) -> Key {
        (self.group.pid, self.flow.id)
    }
}

#[derive(Debug, Default)]
pub struct Model {
    pub groups: Vec<Group>,
    past: HashMap<Key, Past>,
    pub sorted_by: Column,
    pub reversed: bool,
    selected: Option<Key>,
}

impl Model {
    /// Takes a new look. The past of flows that are gone goes too.
    pub fn update(&mut self, mut groups: Vec<Group>) {
        for group in &mut groups {
            (group.name, group.what) = (human::line(&group.name), human::line(&group.what));
        }
        let mut past = HashMap::new();
        for (group, flow) in groups.iter().flat_map(|g| g.flows.iter().map(move |f| (g, f))) {
            let key = (group.pid, flow.id);
            let mut kept = self.past.remove(&key).unwrap_or_default();
            push(&mut kept.rate_bps, flow.rate_bps);
            push(&mut kept.delay_us, (flow.queueing_delay_ms.unwrap_or(0.0) * 1000.0) as u64);
            past.insert(key, kept);
        }
        self.selected = self.selected.filter(|key| past.contains_key(key));
        (self.groups, self.past) = (groups, past);
    }

    /// The flows in the order asked for; equal ones keep theirs from look to look.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row> = self.groups.iter().flat_map(|group| group.flows.iter().map(move |flow| Row { group, flow })).collect();
        rows.sort_by(|a, b| {
            let order = compare(self.sorted_by, a, b);
            let order = if self.sorted_by.falls() != self.reversed { order.reverse() } else { order };
            order.then_with(|| a.key().cmp(&b.key()))
        });
        rows
    }

    pub fn past(&self, row: &Row) -> Option<&Past> {
        self.past.get(&row.key())
    }

    /// The place of the selected flow among `rows`, the first if none was selected.
    pub fn selected(&self, rows: &[Row]) -> Option<usize> {
        let found = rows.iter().position(|r| Some(r.key()) == self.selected);
        found.or(if rows.is_empty() { None } else { Some(0) })
    }

    /// Selects `by` rows further down, as far as there are any.
    pub fn select(&mut self, by: isize) {
        let rows = self.rows();
        let Some(now) = self.selected(&rows) else { return };
        let key = rows[now.saturating_add_signed(by).min(rows.len() - 1)].key();
        self.selected = Some(key);
    }

    /// Sorts by the column `by` further right, round and round.
    pub fn sort_by_next(&mut self, by: isize) {
        let all = Column::ALL;
        let now = all.iter().position(|c| *c == self.sorted_by).unwrap_or(0);
        self.sorted_by = all[(now + all.len()).saturating_add_signed(by) % all.len()];
    }

    pub fn reverse(&mut self) {
        self.reversed = !self.reversed;
    }
}

fn push(past: &mut VecDeque<u64>, value: u64) {
    if past.len() == KEPT {
        past.pop_front();
    }
    past.push_back(value);
}

fn compare(column: Column, a: &Row, b: &Row) -> Ordering {
    let delay = |x: Option<f64>, y: Option<f64>| x.unwrap_or(-1.0).total_cmp(&y.unwrap_or(-1.0));
    match column {
        Column::Group => a.group.name.cmp(&b.group.name),
        Column::From => a.flow.remote.cmp(&b.flow.remote),
        Column::Rate => a.flow.rate_bps.cmp(&b.flow.rate_bps),
        Column::Delay => delay(a.flow.queueing_delay_ms, b.flow.queueing_delay_ms),
        Column::Base => delay(a.flow.base_rtt_ms, b.flow.base_rtt_ms),
        Column::Window => a.flow.window_bytes.cmp(&b.flow.window_bytes),
        Column::Retransmissions => a.flow.retransmissions.cmp(&b.flow.retransmissions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(rates: &[(u64, u64)]) -> Vec<Group> {
        let flows = rates.iter().map(|&(id, rate_bps)| Flow { id, rate_bps, remote: format!("s{id}"), ..Flow::default() }).collect();
        vec![Group { pid: 7, flows, ..Group::default() }]
    }

    fn ids(model: &Model) -> Vec<u64> {
        model.rows().iter().map(|r| r.flow.id).collect()
    }

    #[test]
    fn the_fastest_is_first_and_order_and_column_can_be_changed() {
        let mut model = Model::default();
        model.update(look(&[(1, 10), (2, 30), (3, 20)]));
        assert_eq!(ids(&model), [2, 3, 1]);
        model.reverse();
        assert_eq!(ids(&model), [1, 3, 2]);
        model.reverse();
        model.sort_by_next(-1);
        assert_eq!((model.sorted_by, ids(&model)), (Column::From, vec![1, 2, 3]));
        Column::ALL.iter().for_each(|_| model.sort_by_next(1));
        assert_eq!(model.sorted_by, Column::From);
    }

    #[test]
    fn the_selection_follows_its_flow_and_falls_to_the_first_when_that_ends() {
        let mut model = Model::default();
        model.update(look(&[(1, 10), (2, 30), (3, 20)]));
        model.select(1);
        assert_eq!(model.selected(&model.rows()), Some(1)); // flow 3
        model.update(look(&[(1, 10), (2, 30), (3, 90)]));
        assert_eq!(model.selected(&model.rows()), Some(0)); // still flow 3
        model.select(100);
        assert_eq!(model.selected(&model.rows()), Some(2));
        model.update(look(&[(2, 30)]));
        assert_eq!(model.selected(&model.rows()), Some(0));
        model.update(vec![]);
        model.select(1);
        assert_eq!(model.selected(&model.rows()), None);
    }

    #[test]
    fn the_past_is_bounded_and_ends_with_the_flow() {
        let mut model = Model::default();
        (0..500).for_each(|rate| model.update(look(&[(1, rate)])));
        let past = model.past(&model.rows()[0]).expect("it has one");
        assert_eq!((past.rate_bps.len(), past.rate_bps.back()), (KEPT, Some(&499)));
        model.update(look(&[(2, 0)]));
        assert_eq!(model.past.len(), 1);
    }
}
