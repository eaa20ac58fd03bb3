//! TCP-LP as ns-2 runs it: Linux 2.6.22's `tcp_lp.c` in the Linux agent (ns-2 `tcp/linux/src/tcp_lp.c`), what Carofiglio 2010
//! measured as LP. On top of what `tcp_lp_linux` differs from the description in, the rate of the receiver's clock is estimated
//! from the timestamps and goes wrong, and what that does depends on the width of the machine's words. Faults are kept: for
//! comparison with that paper only. Knows nothing of retransmissions.

use serde::Deserialize;

use super::window::{Agent, Module, Window};
use crate::contract::{Beside, Replica};
use crate::ns2::clock::{HZ, RemoteClock, rounded_ms, timestamps, whole_ms};
use lowtide_cc::scavenger::tcp_lp_range::DelayRange;
use lowtide_cc::{Ack, Start};
use lowtide_cc::{ParamError, Params};

/// Parameters.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The machine's.
    pub word: Word,
}

/// The inference phase in times that the last segment took.
const INFERENCE: u64 = 3;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    let config: Config = params.read("tcp_lp-ns2")?;
    Ok(Box::new(Agent::new(TcpLpNs2 { word: config.word, ..TcpLpNs2::default() }, start)))
}

/// How wide the machine's `unsigned long` is, ns-2's stand-in for Linux's 32-bit integers (`ns-linux-util.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// A difference below zero wraps to 2³² less itself.
    #[default]
    Bits32,
    /// It fits into the signed sum of 64 bits, whose sign is then dropped.
    Bits64,
}

impl Word {
    /// The one-way delay from timestamps and the rate of the receiver's clock (`tcp_lp_owd_calculator`).
    ///
    /// Acknowledgements one or two ticks apart make the rate stray above 1000. The delay then multiplies the receiver's timestamp
    /// by ⌊1000 / rate⌋ = 0, and what is left is the sender's, negative: the time since the start, or 2³² less that.
    fn delay(self, hz: i64, (remote, local): (i64, i64)) -> Option<u32> {
        let difference = remote * (HZ / hz) - local;
        let delay = match self {
            Word::Bits32 => difference as u32,
            Word::Bits64 => difference.unsigned_abs() as u32,
        };
        (delay > 0).then_some(delay)
    }
}

/// The state of one flow; delays in milliseconds.
#[derive(Debug, Default)]
pub struct TcpLpNs2 {
    word: Word,
    clock: RemoteClock,
    delays: DelayRange,
    inference_ms: u64,
    last_drop_ms: u64,
    inferring: bool,
}

impl Module for TcpLpNs2 {
    fn measure(&mut self, window: &mut Window, ack: &Ack, beside: &Beside) {
        if let Some(stamps) = timestamps(ack)
            && let Some(delay) = self.clock.update(stamps).and_then(|hz| self.word.delay(hz, stamps))
        {
            self.delays.sample(delay);
        }
        let now = whole_ms(ack.now);
        // What follows goes for acknowledgements of retransmissions, too (`tcp_lp_pkts_acked`): only the delay is not taken from those.
        let echoed = beside.echo_age.or(ack.rtt).map(|age| rounded_ms((ack.now - age).nanos() as i64) as u64);
        if let Some(echoed) = echoed.filter(|echoed| now > *echoed) {
            self.inference_ms = INFERENCE * (now - echoed);
        }
        self.inferring = self.last_drop_ms > 0 && now - self.last_drop_ms < self.inference_ms;
        if self.delays.smoothed() >= self.delays.threshold() {
            self.delays.start_afresh();
            window.cwnd = if self.inferring { 1.0 } else { libm::floor(window.cwnd / 2.0).max(1.0) };
            self.last_drop_ms = now;
        }
    }

    fn avoid(&mut self, window: &mut Window, _ack: &Ack) {
        if !self.inferring {
            window.grow_as_reno();
        }
    }

    fn reduce(&mut self, window: &mut Window) {
        window.halve();
    }

    fn phase(&self) -> &'static str {
        if self.inferring { "inference" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use lowtide_units::{Span, Time};

    use super::*;

    /// 25 ticks for 10 make 1023 a second of 1000: the receiver's timestamp counts nothing then.
    #[test]
    fn above_a_thousand_ticks_the_delay_is_the_time() {
        let mut clock = RemoteClock { hz: 1000, reference: (10_275, 10_250) };
        let stamps = (10_300, 10_260);
        let hz = clock.update(stamps).expect("a rate");
        assert_eq!(hz, 1023);
        assert_eq!(Word::Bits32.delay(hz, stamps), Some(4_294_957_036));
        assert_eq!(Word::Bits64.delay(hz, stamps), Some(10_260));
        assert_eq!([Word::Bits32, Word::Bits64].map(|word| word.delay(1000, stamps)), [Some(40); 2]);
        assert_eq!([Word::Bits32, Word::Bits64].map(|word| word.delay(1000, (7, 7))), [None; 2]);
    }

    fn ack(at_ms: u64, owd_ms: i64) -> Ack {
        let rtt = Span::from_millis(50);
        Ack { now: Time::from_millis(at_ms), acked: 1000, owd: Some(owd_ms * 1_000_000), rtt: Some(rtt), srtt: rtt, ..Ack::default() }
    }

    /// A timeout's repair ends the inference phase though it gives no delay: nothing holds the window back any more.
    #[test]
    fn a_repair_ends_the_inference_phase() {
        let start = Start { mss: 1000, initial_window: Some(40_000), ..Start::default() };
        let (mut law, mut window) = (TcpLpNs2::default(), Window::new(&start));
        law.measure(&mut window, &ack(1000, 25), &Beside::default());
        law.measure(&mut window, &ack(1100, 25), &Beside::default());
        assert!(law.inferring || law.last_drop_ms == 1100);
        law.measure(&mut window, &ack(1120, 25), &Beside::default());
        assert!(law.inferring, "150 ms from 1100 on");
        let delays = law.delays;
        let repair = Ack { rtt: None, ..ack(1300, 90) };
        let beside = Beside { echo_age: Some(Span::from_millis(60)) };
        law.measure(&mut window, &repair, &beside);
        assert_eq!((law.inferring, law.inference_ms, law.delays), (false, 180, delays));
    }

    /// As in Linux: the first delay is an indication, a second one within three round trips leaves one segment.
    #[test]
    fn two_indications_leave_one_segment() {
        let start = Start { mss: 1000, initial_window: Some(40_000), ..Start::default() };
        let (mut law, mut window) = (TcpLpNs2::default(), Window::new(&start));
        law.measure(&mut window, &ack(1000, 25), &Beside::default());
        law.measure(&mut window, &ack(1100, 25), &Beside::default());
        assert_eq!((window.cwnd, law.delays.min, law.delays.max), (20.0, 25, 50));
        (0..6).for_each(|n| law.measure(&mut window, &ack(1110 + 10 * n, 200), &Beside::default()));
        assert_eq!(window.cwnd, 1.0);
    }
}
