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
/// run never depends on the inner order of what waits.
///
/// A pending event is one number, for many of them are moved: time, insertion number, event, from the top down. One
/// comparison orders all, and never gets as far as the event.
#[derive(Debug)]
pub struct Events<E> {
    /// The next ones, the first of them last. Most events are scheduled for soon: a few steps from the end of a short list find their
    /// place sooner than a walk through a heap does.
    soon: Vec<u128>,
    /// All others, none of which comes before one of `soon`.
    later: BinaryHeap<Reverse<u128>>,
    /// The one handed out last, and its time.
    current: u128,
    now: Time,
    scheduled: u64,
    handled: u64,
    of: PhantomData<E>,
}

/// An event's place in the order, kept for one that may never be needed: see [`Events::reserve`].
#[derive(Clone, Copy, Debug)]
pub struct Turn(u128);

impl Turn {
    /// When the event would come.
    pub fn at(self) -> Time {
        time_of(self.0)
    }
}

/// The most events in `soon`: those of a run with a few flows.
const SOON: usize = 32;
/// As many are fetched from `later` when `soon` is empty.
const FETCHED: usize = 8;

const EVENT_BITS: u32 = 32;
/// 10¹² events.
const NUMBER_BITS: u32 = 40;
/// 833 days; what is scheduled for later never happens (a scenario lasts 115 at most).
const LATEST: u64 = (1 << (128 - EVENT_BITS - NUMBER_BITS)) - 1;

fn time_of(pending: u128) -> Time {
    Time::from_nanos((pending >> (EVENT_BITS + NUMBER_BITS)) as u64)
}

impl<E: Code> Default for Events<E> {
    fn default() -> Events<E> {
        Events::new()
    }
}

impl<E: Code> Events<E> {
    /// An empty queue at time zero.
    pub fn new() -> Events<E> {
        let (soon, later) = (Vec::with_capacity(SOON), BinaryHeap::with_capacity(1024));
        Events { soon, later, current: 0, now: Time::ZERO, scheduled: 0, handled: 0, of: PhantomData }
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
        let turn = self.reserve(at, event);
        self.schedule_reserved(turn);
    }

    /// The place in the order that `event` would have if it was scheduled now. Nothing comes unless it is
    /// [scheduled](Self::schedule_reserved) before its [time has passed](Self::has_passed); then all is as if it had been scheduled now.
    #[inline]
    pub fn reserve(&mut self, at: Time, event: E) -> Turn {
        self.scheduled += 1;
        debug_assert!(self.scheduled < 1 << NUMBER_BITS, "more events than can be numbered");
        let at = at.max(self.now).nanos().min(LATEST);
        let number = u128::from(self.scheduled) << EVENT_BITS | u128::from(event.encode());
        Turn(u128::from(at) << (EVENT_BITS + NUMBER_BITS) | number)
    }

    /// Whether the event of `turn` would have come before what happens now.
    #[inline]
    pub fn has_passed(&self, turn: Turn) -> bool {
        turn.0 < self.current
    }

    /// Counts the event of `turn` as handed out: it would have come and changed nothing.
    #[inline]
    pub fn count(&mut self, _turn: Turn) {
        self.handled += 1;
    }

    /// Schedules the event of `turn`, whose time has not passed.
    #[inline]
    pub fn schedule_reserved(&mut self, Turn(pending): Turn) {
        debug_assert!(self.current < pending, "its time has passed");
        let is_later = self.later.peek().is_some_and(|first| first.0 < pending);
        if is_later || (self.soon.len() == SOON && self.soon[0] < pending) {
            self.later.push(Reverse(pending));
        } else {
            self.insert(pending);
        }
    }

    /// Puts `pending` in its place among those that come soon; the last of them gives way if there is no room.
    #[inline]
    fn insert(&mut self, pending: u128) {
        if self.soon.len() == SOON {
            self.later.push(Reverse(self.soon.remove(0)));
        }
        let mut place = self.soon.len();
        self.soon.push(pending);
        while place > 0 && self.soon[place - 1] < pending {
            self.soon[place] = self.soon[place - 1];
            place -= 1;
        }
        self.soon[place] = pending;
    }

    /// The next event up to and including `end`; time advances to it.
    #[inline]
    pub fn next(&mut self, end: Time) -> Option<E> {
        if self.soon.is_empty() {
            self.fetch();
        }
        let first = *self.soon.last()?;
        let at = time_of(first);
        if at > end {
            return None;
        }
        self.soon.pop();
        (self.current, self.now) = (first, at);
        self.handled += 1;
        Some(E::decode(first as u32))
    }

    #[cold]
    fn fetch(&mut self) {
        self.soon.extend(std::iter::from_fn(|| self.later.pop()).take(FETCHED).map(|Reverse(pending)| pending));
        self.soon.reverse();
    }
}

#[cfg(test)]
mod tests {
    use lowtide_units::Span;
    use proptest::prelude::*;

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

    /// 'b' is scheduled when 'a' comes, after 'c' and 'd' which are of the same time: it comes before 'd', as it would have.
    #[test]
    fn a_reserved_turn_is_kept_until_it_has_passed() {
        let mut events = Events::new();
        let at = Time::from_millis;
        events.schedule(at(1), 'a');
        events.schedule(at(5), 'c');
        let (unneeded, turn) = (events.reserve(at(1), 'x'), events.reserve(at(5), 'b'));
        events.schedule(at(5), 'd');
        assert_eq!(events.next(at(9)), Some('a'));
        assert!(!events.has_passed(unneeded), "'x' would come after 'a'");
        assert_eq!((events.has_passed(turn), turn.at()), (false, at(5)));
        events.schedule_reserved(turn);
        assert_eq!(events.next(at(9)), Some('c'));
        assert!(events.has_passed(unneeded));
        let rest: String = std::iter::from_fn(|| events.next(at(9))).collect();
        assert_eq!(rest, "bd");
    }

    proptest! {
        /// However many wait, and whatever is scheduled between two of them: each comes in its order.
        #[test]
        fn they_come_as_a_sorted_list_has_them(first in prop::collection::vec(0u64..500, 1..200), then in prop::collection::vec(0u64..90, 1..300)) {
            let (mut events, mut list, mut number) = (Events::new(), Vec::new(), 0u32);
            let mut schedule = |events: &mut Events<char>, list: &mut Vec<(Time, char)>, at: Time| {
                number += 1;
                let name = char::from_u32(number).expect("a small number");
                events.schedule(at, name);
                list.push((at, name));
            };
            first.into_iter().for_each(|ms| schedule(&mut events, &mut list, Time::from_millis(ms)));
            let mut then = then.into_iter();
            while let Some(name) = events.next(Time::MAX) {
                let next = *list.iter().min().expect("as many in the list");
                prop_assert_eq!((events.now(), name), next);
                list.retain(|event| *event != next);
                // None, one or two more.
                let now = events.now();
                for ms in then.by_ref().take(name as usize % 3) {
                    schedule(&mut events, &mut list, now + Span::from_millis(ms));
                }
            }
            prop_assert!(list.is_empty());
        }
    }
}
