//! `rledbat-s0`: the receiver of Bagnulo 2023 as its authors published it, a kernel module (github.com/net-research/rledbat_module,
//! d82ff20, SRC/rledbat_receive.c; numbers here are that file's lines). Not to be used for anything but comparison: `Receiver` is the
//! receiver. Knows segments and window fields, not what carries them.
//!
//! Beside its switches it differs from RFC 9840 in this: a decrease is one step, then none for an RTT (781–799); the ramp after a
//! slowdown ends above the target (771); the base is the least RTT of all time (357); segments are 1448 bytes on every path (52);
//! the window grows whether or not it is the limit (841–938). What a loss takes is given up by the bytes after the retransmission
//! (742), which may just have closed the hole and opened the whole window; bytes behind a hole pay, too, though no acknowledgement
//! moves (539). A loss while a decrease is paid takes the window to its floor (658–673); one below the floor leaves a negative debt, and
//! the window stands for good (742). The half that writes the field is an empty file there: by the paper's sec. 4 it writes the
//! lesser of the host's field and the window, and a comment (94) says that it does not use the window of before.

mod delays;

use serde::Deserialize;

use delays::Delays;
use lowtide_cc::rledbat::{Outgoing, Segment, later};
use lowtide_cc::{ParamError, Params};

/// The name that scenarios use.
pub const PUBLISHED: &str = "rledbat-s0";

/// `TARGET` (69), ns.
const TARGET: u64 = 60_000_000;
/// `mss` (52).
const MSS: u64 = 1448;
/// `INIT_WINDOW` (60). The paper begins with the largest (sec. 3.4).
const INITIAL: u64 = MSS;
/// `MIN_REDUCTION_BYTES` (56).
const FLOOR: u64 = 2 * MSS;
/// `MAX_WINDOW` (48), in units of the window field.
const LARGEST: u64 = 65_535;
/// `GAIN_CONSTANT` (80).
const MAX_DIVISOR: u64 = 16;
/// A slowdown is due after nine times what the last one took (834, 910).
const PERIOD: u64 = 9;
/// The first is due two RTTs after slow start (753, 856, 889), and each waits for two (693): the last read, not smoothed.
const RTTS: u64 = 2;

/// Parameters. The switches are what no reader of the paper would expect; by default all of them are as published.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The target is min(T, base RTT) (sec. 7): compiled with `RLEDBAT2`.
    pub enhanced: bool,
    /// A decrease empties the table of TSvals (`rledbat_incoming_hook_func`, 809): nothing sent before it gives an RTT. The line
    /// above says "20220701 comment again", so that the figures may have been drawn without. Off: the table stays.
    pub forgets_on_decrease: bool,
    /// An echo that is not in the table counts as an empty queue (`min_rtt`, 374), of which the minimum of ten packets makes ten more:
    /// for an RTT after a decrease or a loss the window grows. Off: it tells nothing (sec. 3.1).
    pub unknown_is_empty: bool,
    /// GAIN in the decrease is a part of a byte (`bytes_to_decrease_rledbat`, 444–451). Off: of a segment (eq. 4).
    pub gain_in_bytes: bool,
    /// GAIN divides by one too many where the base divides 2T, by 3 at 60 ms (`ceil_rledbat`, 396–399). Off: by ⌈2T/base⌉.
    pub ceiling_adds_one: bool,
    /// A retransmission is what is not above the segment before it (`rledbat_incoming_hook_func`, 527; the TSvals compared there
    /// are never set). Off: what is below the highest and has a later TSval (sec. 3.2).
    pub told_by_last_segment: bool,
    /// What a segment pays is rounded up to units of the field (`rledbat_incoming_hook_func`, 613 and 621), so that the right edge
    /// moves left by less than a unit each time. Off: down (sec. 3.3.1).
    pub pays_in_excess: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            enhanced: false,
            forgets_on_decrease: true,
            unknown_is_empty: true,
            gain_in_bytes: true,
            ceiling_adds_one: true,
            told_by_last_segment: true,
            pays_in_excess: true,
        }
    }
}

/// One connection's. Windows count in units of the field; times are ns.
#[derive(Debug)]
pub struct Published {
    config: Config,
    unit: u64,
    /// `minimum_window`.
    least: u64,
    /// `rcwnd_ok`.
    window: u64,
    ssthresh: u64,
    delays: Delays,
    /// Sequence number and TSval of the last segment, or of the highest.
    before: Option<(u32, u32)>,
    /// `reduction`: the window is on its way down by `rcwnd_scale` bytes more.
    reducing: bool,
    debt: i64,
    /// `recent_retransmission`: a loss was answered within this reduction.
    answered: bool,
    next_decrease: u64,
    first_slow_start: bool,
    slow_start_allowed: bool,
    /// `increase_bytes`, not yet a unit, and `to_increase_CA`, not yet a byte.
    grown: u64,
    avoidance: u64,
    /// `periodic_reduction_time`, and whether it lies ahead.
    slowdown_at: u64,
    scheduled: bool,
    slowdown_began: u64,
    /// `!freeze_ended`: a slowdown has yet to wait.
    freeze_due: bool,
    /// `keep_window_time`.
    frozen_until: u64,
}

impl Published {
    /// The module on a connection whose windows are scaled by 2^`scale`.
    ///
    /// # Errors
    /// Unknown parameters.
    pub fn build(params: &Params, scale: u8) -> Result<Published, ParamError> {
        let unit = 1 << scale.min(14);
        Ok(Published {
            config: params.read(PUBLISHED)?,
            unit,
            least: FLOOR.div_ceil(unit),
            window: INITIAL.div_ceil(unit),
            ssthresh: LARGEST,
            delays: Delays::default(),
            before: None,
            reducing: false,
            debt: 0,
            answered: false,
            next_decrease: 0,
            first_slow_start: true,
            slow_start_allowed: true,
            grown: 0,
            avoidance: 0,
            slowdown_at: 0,
            scheduled: false,
            slowdown_began: 0,
            freeze_due: false,
            frozen_until: 0,
        })
    }

    /// The window in bytes.
    pub fn window(&self) -> u64 {
        self.window * self.unit
    }

    /// An acknowledgement leaves: its window field (sec. 4).
    pub fn on_outgoing(&mut self, out: &Outgoing) -> u16 {
        if let Some(tsval) = out.tsval {
            self.delays.sent(tsval, out.now);
        }
        u16::try_from(self.window).unwrap_or(u16::MAX).min(out.field)
    }

    /// A segment with payload arrives (`rledbat_incoming_hook_func`; the cases in its order).
    pub fn on_segment(&mut self, segment: &Segment) {
        let now = segment.now.nanos();
        let (tsval, tsecr) = segment.timestamps.unzip();
        let lost = self.is_retransmission(segment.seq, tsval.unwrap_or_default());
        let queueing = self.delays.received(now, tsecr, self.config.unknown_is_empty);
        let acked = u64::from(segment.len);
        if self.reducing {
            self.pay(acked);
            if lost && !self.answered {
                self.lose_again();
            }
        } else if now < self.frozen_until || self.freeze_due {
            self.wait(now, lost);
        } else if !self.first_slow_start && self.scheduled && now > self.slowdown_at {
            self.slow_down(now, lost);
        } else if lost {
            self.lose(now);
        } else if queueing > self.target() && (!self.first_slow_start || self.scheduled) {
            self.decrease(now, queueing);
        } else {
            self.grow(now, acked, queueing);
        }
    }

    /// 526–530: sequence numbers compare as they are, so that one retransmission more is seen where they wrap.
    fn is_retransmission(&mut self, seq: u32, tsval: u32) -> bool {
        if self.config.told_by_last_segment {
            return self.before.replace((seq, tsval)).is_some_and(|(last, _)| seq <= last);
        }
        match self.before {
            Some((highest, then)) if !later(seq, highest) => later(tsval, then),
            _ => {
                self.before = Some((seq, tsval));
                false
            }
        }
    }

    fn target(&self) -> u64 {
        if self.config.enhanced { self.delays.base().map_or(TARGET, |base| base.min(TARGET)) } else { TARGET }
    }

    /// 1/GAIN (`gain`, 407–416), with the target of draft and paper also where the other is enhanced.
    fn divisor(&self) -> u64 {
        let Some(base) = self.delays.base().map(|base| base.max(1)).filter(|base| 2 * TARGET > *base) else { return 1 };
        let one_too_many = self.config.ceiling_adds_one && (2 * TARGET).is_multiple_of(base);
        ((2 * TARGET).div_ceil(base) + u64::from(one_too_many)).min(MAX_DIVISOR)
    }

    fn half(&self) -> u64 {
        (self.window / 2).max(self.least)
    }

    fn reduce_to(&mut self, window: u64) {
        self.debt = (self.window as i64 - window as i64) * self.unit as i64;
        self.reducing = true;
    }

    /// 598–646. There is a debt only while the window is above its floor, at which it ends.
    fn pay(&mut self, acked: u64) {
        let Ok(debt) = u64::try_from(self.debt) else { return };
        if debt == 0 {
            self.reducing = false;
            return;
        }
        let part = debt.min(acked);
        let excess = self.config.pays_in_excess && part % self.unit > 0;
        let units = part / self.unit + u64::from(excess);
        self.window = self.window.saturating_sub(units).max(self.least);
        self.debt -= (units * self.unit) as i64;
        if acked >= debt || self.debt <= 0 || self.window == self.least {
            (self.debt, self.reducing, self.answered) = (0, false, false);
        }
    }

    /// 647–674: a loss while the window comes down. In a slowdown it halves what is returned to.
    fn lose_again(&mut self) {
        self.answered = true;
        self.ssthresh = self.half();
        if self.scheduled || !self.freeze_due {
            self.reduce_to(self.least);
            self.slow_start_allowed = true;
            self.delays.forget();
        }
    }

    /// 678–703: a slowdown stands for two RTTs, counted from the first segment after it has come down.
    fn wait(&mut self, now: u64, lost: bool) {
        if now >= self.frozen_until {
            self.frozen_until = now + RTTS * self.delays.rtt();
            self.freeze_due = false;
        }
        if lost {
            self.ssthresh = self.half();
        }
    }

    /// 705–726.
    fn slow_down(&mut self, now: u64, lost: bool) {
        self.ssthresh = if lost { self.half() } else { self.window };
        self.reduce_to(self.least.min(self.window));
        self.slowdown_began = now;
        self.freeze_due = true;
        self.slow_start_allowed = true;
        self.scheduled = false;
    }

    /// 728–761.
    fn lose(&mut self, now: u64) {
        self.answered = true;
        self.ssthresh = self.half();
        self.reduce_to(self.ssthresh);
        self.slow_start_allowed = true;
        if self.first_slow_start {
            self.end_first_slow_start(now);
        }
        self.delays.forget();
    }

    fn end_first_slow_start(&mut self, now: u64) {
        self.first_slow_start = false;
        self.slowdown_at = now + RTTS * self.delays.rtt();
        self.scheduled = true;
    }

    /// 825–835, 905–911: the first step outside slow start after a slowdown settles when the next one comes.
    fn schedule(&mut self, now: u64) {
        if now > self.slowdown_at {
            self.scheduled = true;
            self.slowdown_at = now + PERIOD * (now - self.slowdown_began);
        }
    }

    /// 769–838.
    fn decrease(&mut self, now: u64, queueing: u64) {
        if now < self.next_decrease {
            return;
        }
        self.slow_start_allowed = false;
        let change = self.change(queueing);
        if change < 0 {
            let step = change.unsigned_abs();
            if self.window > self.least {
                self.debt = change.abs();
                self.reducing = true;
                if self.window - step / self.unit < self.least {
                    self.reduce_to(self.least);
                }
                self.next_decrease = now + self.delays.rtt();
            }
            if self.config.forgets_on_decrease {
                self.delays.forget();
            }
        } else if change > 0 {
            self.add(change.unsigned_abs());
            self.next_decrease = now + self.delays.rtt();
        }
        self.schedule(now);
    }

    /// max(GAIN − W (qd/T − 1), −W/2) in bytes (419–461), rounded towards zero.
    fn change(&self, queueing: u64) -> i64 {
        let gain = if self.config.gain_in_bytes { 1 } else { i128::from(MSS) };
        let (target, window, divisor) = (i128::from(self.target()), i128::from(self.window()), i128::from(self.divisor()));
        let change = (gain * target - divisor * window * (i128::from(queueing) - target)) / (divisor * target).max(1);
        change.max(-(window / 2)) as i64
    }

    /// 841–938.
    fn grow(&mut self, now: u64, acked: u64, queueing: u64) {
        let (full, delayed) = (self.window >= self.ssthresh, queueing > 3 * self.target() / 4);
        if self.first_slow_start && (full || delayed) {
            if delayed {
                self.ssthresh = self.window;
            } else {
                self.window = self.ssthresh;
            }
            self.slow_start_allowed = false;
            self.end_first_slow_start(now);
            self.add(acked + acked / self.window() / self.divisor());
        } else if !full && self.slow_start_allowed {
            self.add(acked / self.divisor());
        } else {
            self.slow_start_allowed = false;
            self.schedule(now);
            self.avoid(acked);
        }
    }

    /// 917–935: GAIN segments a window.
    fn avoid(&mut self, acked: u64) {
        self.avoidance += acked * MSS / self.divisor();
        if self.avoidance > self.window() {
            self.grown += self.avoidance / self.window();
            self.avoidance %= self.window();
        }
        self.add(0);
        self.window = self.window.min(LARGEST);
    }

    fn add(&mut self, bytes: u64) {
        self.grown += bytes;
        self.window += self.grown / self.unit;
        self.grown %= self.unit;
    }
}

#[cfg(test)]
mod tests;
