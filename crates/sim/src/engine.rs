//! The event queue: what happens next, in the order of (time, insertion). Knows nothing of packets or protocols.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;

use lowtide_units::Time;

/// What an event is, in as many bits as a pending event has room for.
pub trait Code: Copy {
    /// This event in 32 bits.
    fn encode(self) -> u32;
    /// The event that was encoded so.
    fn decode(code: u32) -> Self;
}

/// Events of type `E`, handed out in the order of their time; equal times in the order they were scheduled, so that a
/// run never depends on the heap's inner order.
///
/// A pending event is one number, for the heap moves many of them: time, insertion number, event, from the top down. One
/// comparison orders all, and never gets as far as the event.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<u128>>,
    /// The event handed out last still lies on top of the heap. Most events schedule another one, which takes its place: one walk
    /// through the heap instead of two.
    top_is_past: bool,
    now: Time,
    scheduled: u64,
    handled: u64,
    of: PhantomData<E>,
}

const EVENT_BITS: u32 = 32;
/// 10¹² events.
const NUMBER_BITS: u32 = 40;
/// 833 days; what is scheduled for later never happens (a scenario lasts 115 at most).
const LATEST: u64 = (1 << (128 - EVENT_BITS - NUMBER_BITS)) - 1;

impl<E: Code> Default for Events<E> {
    fn default() -> Events<E> {
        Events::new()
    }
}

impl<E: Code> Events<E> {
    /// An empty queue at time zero.
    pub fn new() -> Events<E> {
        Events { heap: BinaryHeap::with_capacity(1024), top_is_past: false, now: Time::ZERO, scheduled: 0, handled: 0, of: PhantomData }
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
    #[inline]
    pub fn schedule(&mut self, at: Time, event: E) {
        self.scheduled += 1;
        debug_assert!(self.scheduled < 1 << NUMBER_BITS, "more events than can be numbered");
        let at = at.max(self.now).nanos().min(LATEST);
        let number = u128::from(self.scheduled) << EVENT_BITS | u128::from(event.encode());
        let pending = Reverse(u128::from(at) << (EVENT_BITS + NUMBER_BITS) | number);
        if self.top_is_past
            && let Some(mut top) = self.heap.peek_mut()
        {
            self.top_is_past = false;
            *top = pending;
        } else {
            self.heap.push(pending);
        }
    }

    /// The next event up to and including `end`; time advances to it.
    #[inline]
    pub fn next(&mut self, end: Time) -> Option<E> {
        if std::mem::take(&mut self.top_is_past) {
            self.heap.pop();
        }
        let first = self.heap.peek()?.0;
        let at = Time::from_nanos((first >> (EVENT_BITS + NUMBER_BITS)) as u64);
        if at > end {
            return None;
        }
        self.top_is_past = true;
        self.now = at;
        self.handled += 1;
        Some(E::decode(first as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Code for char {
        fn encode(self) -> u32 {
            self.into()
        }

        fn decode(code: u32) -> char {
            char::from_u32(code).expect("one that was encoded")
        }
    }

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
        events.schedule(Time::from_millis(10), 'a');
        assert_eq!(events.next(Time::from_millis(9)), None);
        assert_eq!(events.next(Time::from_millis(10)), Some('a'));
        events.schedule(Time::from_millis(2), 'b');
        assert_eq!(events.next(Time::from_millis(10)), Some('b'));
        assert_eq!(events.now(), Time::from_millis(10));
    }

    #[test]
    fn what_is_scheduled_for_the_end_of_time_stays_behind() {
        let mut events = Events::new();
        events.schedule(Time::MAX, 'z');
        events.schedule(Time::from_millis(1), 'a');
        assert_eq!(events.next(Time::from_secs_f64(1e7)), Some('a'));
        assert_eq!(events.next(Time::from_secs_f64(1e7)), None);
    }
}
