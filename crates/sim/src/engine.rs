//! The event queue: what happens next, in the order of (time, insertion). Knows nothing of packets or protocols.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lowtide_units::Time;

/// Events of type `E`, handed out in the order of their time; equal times in the order they were scheduled, so that a
/// run never depends on the heap's inner order.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    now: Time,
    scheduled: u64,
    handled: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    /// Time in the upper half, insertion number in the lower: one comparison orders both.
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Entry<E>) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Events<E> {
        Events::new()
    }
}

impl<E: Copy> Events<E> {
    /// An empty queue at time zero.
    pub fn new() -> Events<E> {
        Events { heap: BinaryHeap::with_capacity(1024), now: Time::ZERO, scheduled: 0, handled: 0 }
    }

    /// The time of the event handed out last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events handed out so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Schedules `event` at `at`, or at once if that is past.
    pub fn schedule(&mut self, at: Time, event: E) {
        self.scheduled += 1;
        let key = u128::from(at.max(self.now).nanos()) << 64 | u128::from(self.scheduled);
        self.heap.push(Reverse(Entry { key, event }));
    }

    /// The next event up to and including `end`; time advances to it.
    pub fn next(&mut self, end: Time) -> Option<E> {
        let at = Time::from_nanos((self.heap.peek()?.0.key >> 64) as u64);
        if at > end {
            return None;
        }
        self.now = at;
        self.handled += 1;
        self.heap.pop().map(|entry| entry.0.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_ties_in_the_order_they_were_scheduled() {
        let mut events = Events::new();
        for (at, name) in [(5, 'd'), (1, 'a'), (5, 'e'), (3, 'b'), (3, 'c')] {
            events.schedule(Time::from_millis(at), name);
        }
        let order: String = std::iter::from_fn(|| events.next(Time::from_millis(5))).collect();
        assert_eq!(order, "abcde");
        assert_eq!(events.now(), Time::from_millis(5));
    }

    #[test]
    fn the_past_is_now_and_the_end_is_respected() {
        let mut events = Events::new();
        events.schedule(Time::from_millis(10), 1);
        assert_eq!(events.next(Time::from_millis(9)), None);
        assert_eq!(events.next(Time::from_millis(10)), Some(1));
        events.schedule(Time::from_millis(2), 2);
        assert_eq!(events.next(Time::from_millis(10)), Some(2));
        assert_eq!(events.now(), Time::from_millis(10));
    }
}
