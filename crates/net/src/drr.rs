//! Deficit round robin with new and old queues (RFC 8290 §4), shared by FQ-CoDel and FQ-PIE. Knows no controller.

use std::collections::{BTreeMap, VecDeque};

use crate::random::{Seed, mix};

/// What schedules many flow queues by bytes: sparse flows first.
#[derive(Debug)]
pub struct Drr {
    deficits: Vec<i64>,
    listed: Vec<bool>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    quantum: i64,
}

/// The list a queue is served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// It became active since its last turn.
    New,
    /// It has had a turn.
    Old,
}

impl Drr {
    /// `queues` idle queues, each served `quantum` bytes a turn.
    pub fn new(queues: usize, quantum: u32) -> Drr {
        Drr {
            deficits: vec![0; queues],
            listed: vec![false; queues],
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: i64::from(quantum),
        }
    }

    /// A packet entered `queue`; true if the queue becomes active with it.
    pub fn activate(&mut self, queue: u32) -> bool {
        let i = queue as usize;
        if self.listed[i] {
            return false;
        }
        self.listed[i] = true;
        self.deficits[i] = self.quantum;
        self.new.push_back(queue);
        true
    }

    /// The queue whose turn it is: those with an exhausted deficit (Linux: ≤ 0) wait behind the old ones.
    pub fn turn(&mut self) -> Option<(u32, List)> {
        loop {
            let (list, queue) = match (self.new.front(), self.old.front()) {
                (Some(&queue), _) => (List::New, queue),
                (None, Some(&queue)) => (List::Old, queue),
                (None, None) => return None,
            };
            if self.deficits[queue as usize] > 0 {
                return Some((queue, list));
            }
            self.deficits[queue as usize] += self.quantum;
            self.unlist_front(list);
            self.old.push_back(queue);
        }
    }

    /// The queue whose turn it was sent `bytes`.
    pub fn served(&mut self, queue: u32, bytes: u32) {
        self.deficits[queue as usize] -= i64::from(bytes);
    }

    /// The queue whose turn it was had nothing: from new it goes behind the old ones (RFC 8290 §4.2), from old it leaves.
    /// True if it left.
    pub fn empty(&mut self, queue: u32, list: List) -> bool {
        self.unlist_front(list);
        if list == List::New {
            self.old.push_back(queue);
            return false;
        }
        self.listed[queue as usize] = false;
        true
    }

    fn unlist_front(&mut self, list: List) {
        match list {
            List::New => self.new.pop_front(),
            List::Old => self.old.pop_front(),
        };
    }
}

/// The flow queue of a flow: a hash with a perturbation, or in turn where each flow shall have its own.
#[derive(Debug)]
pub struct Classifier {
    queues: u64,
    perturbation: u64,
    /// Each flow's number in order of appearance, where hashing is perfect.
    seen: Option<BTreeMap<u64, u64>>,
}

impl Classifier {
    /// Hashes into `queues`; `perfect` gives each flow a queue of its own as long as there are any.
    pub fn new(queues: usize, perfect: bool, seed: Seed) -> Classifier {
        Classifier { queues: queues as u64, perturbation: seed.of("hash").number(), seen: perfect.then(BTreeMap::new) }
    }

    /// The queue of `flow`.
    pub fn queue(&mut self, flow: u64) -> u32 {
        let Some(seen) = &mut self.seen else {
            return (mix(flow ^ self.perturbation) % self.queues) as u32;
        };
        let next = seen.len() as u64;
        (*seen.entry(flow).or_insert(next) % self.queues) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 flows in 1024 queues: a given one is alone with probability 0.9078.
    #[test]
    fn collisions_come_as_chance_has_it() {
        let mut alone = 0;
        for seed in 0..2000 {
            let mut classifier = Classifier::new(1024, false, Seed::new(seed));
            let first = classifier.queue(1);
            alone += u32::from((2..=100).all(|flow| classifier.queue(flow) != first));
        }
        assert!((f64::from(alone) / 2000.0 - 0.9078).abs() < 0.02, "{alone}");
    }
}
