//! The event that pends for an end's deadline. Deadlines move with almost every packet: a later one leaves the event where it is, and the end
//! is asked again when it comes. Knows no end.

use lowtide_units::Time;

/// The time of that event; [`Time::MAX`]: none pends.
#[derive(Clone, Copy, Debug)]
pub struct Timer(Time);

impl Default for Timer {
    fn default() -> Timer {
        Timer(Time::MAX)
    }
}

impl Timer {
    /// The end's deadline is `due`: when to schedule an event, unless an earlier one pends.
    #[inline]
    pub fn set(&mut self, due: Option<Time>) -> Option<Time> {
        let due = due.filter(|due| *due < self.0)?;
        self.0 = due;
        Some(due)
    }

    /// Whether the event that pends is one of `now`.
    pub fn is_at(&self, now: Time) -> bool {
        self.0 == now
    }

    /// An event of `now` comes: whether it is the one that pends, which it then is no more. Those that an earlier one replaced are not.
    pub fn take(&mut self, now: Time) -> bool {
        let is_mine = self.is_at(now);
        if is_mine {
            self.0 = Time::MAX;
        }
        is_mine
    }
}
