//! What has arrived: the contiguous part, the ranges beyond it and how old the holes between them are. Knows no time-outs and
//! no windows; positions are unwrapped sequence numbers.

use lowtide_units::Time;

/// Received data of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    /// Everything below has arrived.
    next: u64,
    /// Ranges beyond, ascending and apart.
    beyond: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// When the hole below it was first seen.
    since: Time,
}

impl Received {
    pub(super) fn starting_at(next: u64) -> Received {
        Received { next, beyond: Vec::new() }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn something_missing(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// The end of the highest byte received.
    pub(super) fn highest(&self) -> u64 {
        self.beyond.last().map_or(self.next, |r| r.end)
    }

    /// When the hole that `position` lies in was first seen, and the bytes received above it.
    pub(super) fn hole_at(&self, position: u64) -> Option<(Time, u64)> {
        let above = self.beyond.iter().position(|r| r.start > position)?;
        let since = self.beyond[above].since;
        Some((since, self.beyond[above..].iter().map(|r| r.end - r.start).sum()))
    }

    /// The host has acknowledged up to `position`: whatever was missing below it has arrived unseen.
    pub(super) fn acknowledged(&mut self, position: u64) {
        self.next = self.next.max(position);
        self.close_up();
    }

    /// Takes a segment and returns how many of its bytes are new.
    pub(super) fn take(&mut self, now: Time, start: u64, end: u64) -> u64 {
        let start = start.max(self.next);
        if end <= start {
            return 0;
        }
        let before: u64 = self.held();
        let mut merged = Range { start, end, since: now };
        self.beyond.retain(|r| {
            let apart = r.end < merged.start || r.start > merged.end;
            if !apart {
                // The lower range keeps its hole; a range that only bridges upwards makes a new one.
                merged.since = if r.start <= merged.start { r.since } else { merged.since.min(r.since) };
                (merged.start, merged.end) = (merged.start.min(r.start), merged.end.max(r.end));
            }
            apart
        });
        let at = self.beyond.iter().position(|r| r.start > merged.start).unwrap_or(self.beyond.len());
        self.beyond.insert(at, merged);
        let held = self.held();
        self.close_up();
        held - before
    }

    fn held(&self) -> u64 {
        self.beyond.iter().map(|r| r.end - r.start).sum()
    }

    fn close_up(&mut self) {
        while let Some(first) = self.beyond.first()
            && first.start <= self.next
        {
            self.next = self.next.max(first.end);
            self.beyond.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn holes_have_an_age_and_close() {
        let mut got = Received::starting_at(1000);
        assert_eq!(got.take(Time::from_millis(1), 1000, 2000), 1000);
        assert_eq!(got.take(Time::from_millis(2), 3000, 4000), 1000);
        assert_eq!(got.take(Time::from_millis(3), 5000, 6000), 1000);
        assert_eq!((got.next(), got.highest(), got.something_missing()), (2000, 6000, true));
        assert_eq!(got.hole_at(2000), Some((Time::from_millis(2), 2000)));
        assert_eq!(got.hole_at(4500), Some((Time::from_millis(3), 1000)));
        assert_eq!(got.take(Time::from_millis(4), 2000, 5500), 2000);
        assert_eq!((got.next(), got.something_missing()), (6000, false));
        assert_eq!(got.take(Time::from_millis(5), 0, 6000), 0);
    }

    proptest! {
        /// Against a bitmap: the new bytes and the contiguous end are exact whatever the order.
        #[test]
        fn agrees_with_a_bitmap(segments in prop::collection::vec((0u64..60, 1u64..12), 1..80)) {
            let mut got = Received::default();
            let mut bitmap = [false; 80];
            for (start, length) in segments {
                let range = start as usize..(start + length) as usize;
                let fresh = bitmap[range.clone()].iter().filter(|b| !**b).count() as u64;
                bitmap[range].fill(true);
                prop_assert_eq!(got.take(Time::ZERO, start, start + length), fresh);
                prop_assert_eq!(got.next(), bitmap.iter().position(|b| !b).unwrap_or(80) as u64);
                prop_assert_eq!(got.highest(), bitmap.iter().rposition(|b| *b).map_or(0, |i| i as u64 + 1));
            }
        }
    }
}
