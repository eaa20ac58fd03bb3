//! Growth as Linux 2.6.22 counts it (`tcp_cong.c` with `sysctl_tcp_abc` = 1, so ns-2's `tcp/linux/ns-linux-param.c`): in bytes that
//! are acknowledged, whether the window may grow meanwhile or not. What a law forgoes is made up for at one segment an
//! acknowledgement as soon as it asks again. Knows no algorithm.

use super::Window;
use crate::events::Ack;

impl Window {
    /// An acknowledgement, whatever becomes of it (ns-2 `tcp-linux.cc` `recv`: `bytes_acked`).
    pub(super) fn note(&mut self, ack: &Ack) {
        if self.base.abc {
            self.acknowledged += ack.acked;
        }
    }

    /// `tcp_is_cwnd_limited` of that age: nothing more could have been sent before this acknowledgement.
    pub(super) fn is_the_limit(&self, ack: &Ack) -> bool {
        !ack.no_growth && ack.in_flight >= self.bytes()
    }

    /// `tcp_reno_cong_avoid`; at the threshold it is still slow start.
    pub(super) fn grow_by_bytes(&mut self, ack: &Ack) {
        if !self.is_the_limit(ack) {
            return;
        }
        if self.in_slow_start() {
            self.slow_start_by_bytes();
        } else if self.acknowledged >= self.bytes() {
            self.acknowledged -= self.bytes();
            self.cwnd += 1.0;
        }
    }

    /// `tcp_slow_start`: a segment more, whatever the threshold, and nothing is left to make up for.
    pub fn slow_start_by_bytes(&mut self) {
        self.acknowledged = 0;
        self.cwnd += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reno_base::testing::{MSS, ack, episode};
    use crate::reno_base::{Base, Cause, Start};

    /// Ten segments after slow start to ten.
    fn window() -> Window {
        let start = Start { mss: MSS, ..Start::default() };
        let mut window = Window::new(Base { abc: true, ..Base::default() }, &start);
        (window.cwnd, window.ssthresh) = (10.0, 10.0);
        window
    }

    fn full(segments: f64) -> Ack {
        Ack { in_flight: u64::MAX, ..ack(0.0, segments, 50.0) }
    }

    fn grown(window: &mut Window, acks: u32) -> f64 {
        for _ in 0..acks {
            window.note(&full(1.0));
            window.grow_as_reno(&full(1.0));
        }
        window.cwnd
    }

    /// At the threshold one more by slow start, then one in a window: eleven, twelve.
    #[test]
    fn slow_start_reaches_past_the_threshold() {
        let mut window = window();
        assert_eq!(grown(&mut window, 1), 11.0);
        assert_eq!(grown(&mut window, 10), 11.0);
        assert_eq!(grown(&mut window, 1), 12.0);
        assert_eq!(grown(&mut window, 11), 12.0);
        assert_eq!(grown(&mut window, 1), 13.0);
    }

    /// Forty acknowledgements without growth are 40 segments: 11, 12 and 13 of them are one segment each, 4 are left.
    #[test]
    fn what_was_forgone_is_made_up_for() {
        let mut window = window();
        grown(&mut window, 1);
        (0..40).for_each(|_| window.note(&full(1.0)));
        assert_eq!([(); 4].map(|()| grown(&mut window, 1)), [12.0, 13.0, 14.0, 14.0]);
    }

    /// Neither an episode nor slow start leaves anything of it.
    #[test]
    fn an_episode_and_slow_start_forget_it() {
        for forget in [|window: &mut Window| window.halve(&episode(0.0, Cause::Loss, 20.0)), Window::slow_start_by_bytes] {
            let mut window = window();
            (0..100).for_each(|_| window.note(&full(1.0)));
            forget(&mut window);
            assert_eq!(window.acknowledged, 0);
        }
    }

    /// Nine of ten in flight: not the limit; but the bytes count.
    #[test]
    fn a_window_that_is_not_full_does_not_grow() {
        let mut window = window();
        window.ssthresh = 2.0;
        let nine = Ack { in_flight: 9 * u64::from(MSS), ..ack(0.0, 1.0, 50.0) };
        for _ in 0..10 {
            window.note(&nine);
            window.grow_as_reno(&nine);
        }
        assert_eq!((window.cwnd, window.acknowledged), (10.0, 10 * u64::from(MSS)));
    }
}
