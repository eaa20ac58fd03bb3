//! The retransmission timeout of ns-2's agents, in ticks: `rtt_update`, `rtt_timeout` and `rtt_backoff` of `tcp.cc` and, where the Linux agent
//! has its own, of `tcp-linux.cc`; and the one segment a round that is timed (`rtt_active_`, `output`, `newack`).

use lowtide_units::{Span, Time};

/// `rtxcur_init_`.
const RTXCUR_INIT: Span = Span::from_secs(3);

/// The estimator of one agent.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    linux: bool,
    timestamps: bool,
    /// `tcp_tick_`: 10 ms; the Linux agent sets it to 1 ms (`install_congestion_control`).
    tick: u64,
    minrto: Span,
    /// `maxrto_`.
    maxrto: Span,
    /// `t_srtt_` in eighths of a tick, `t_rttvar_` in quarters.
    srtt: i64,
    rttvar: i64,
    /// `t_rtxcur_`.
    rtxcur: Span,
    backoff: u64,
    /// `rtt_seq_` and `rtt_ts_` while `rtt_active_`; and the highest `rtt_seq_` so far.
    timed: Option<(u32, Time)>,
    last_timed: Option<(u32, Time)>,
}

impl Rtt {
    /// No sample yet.
    pub fn new(linux: bool, timestamps: bool, minrto: Span) -> Rtt {
        let (tick, maxrto) = if linux { (1_000_000, 120) } else { (10_000_000, 60) };
        Rtt {
            linux,
            timestamps,
            tick,
            minrto,
            maxrto: Span::from_secs(maxrto),
            srtt: 0,
            rttvar: 0,
            rtxcur: RTXCUR_INIT,
            backoff: 1,
            timed: None,
            last_timed: None,
        }
    }

    /// `t_srtt_`, zero before the first sample and after four back-offs.
    pub fn srtt(&self) -> Span {
        Span::from_nanos(self.srtt as u64 * self.tick / 8)
    }

    /// `rtt_update`: what was sent `tao` ago is acknowledged.
    fn update(&mut self, tao: Span, now: Time) {
        let ticks = if self.timestamps {
            (tao.nanos() + self.tick / 2) / self.tick
        } else {
            // Counted in ticks of the clock that pass: part of one at its start counts too.
            (tao.nanos() + (now.nanos() - tao.nanos()) % self.tick) / self.tick
        };
        let ticks = ticks.max(1) as i64;
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (ticks << 3, ticks << 1);
        } else {
            let delta = ticks - (self.srtt >> 3);
            self.srtt = (self.srtt + delta).max(1);
            let excess = delta.abs() - (self.rttvar >> 2);
            if self.linux {
                // As in Linux a fall of the RTT hardly raises the deviation.
                self.rttvar += if delta < 0 && excess > 0 { excess >> 3 } else { excess };
            } else {
                self.rttvar = (self.rttvar + excess).max(1);
            }
        }
        self.rtxcur = Span::from_nanos((((self.rttvar << 3) + self.srtt) >> 3) as u64 * self.tick);
    }

    /// `rtt_timeout`.
    pub fn timeout(&self) -> Span {
        (self.rtxcur.max(self.minrto) * self.backoff).min(self.maxrto).max(Span::from_nanos(2 * self.tick))
    }

    /// `rtt_backoff`: backed off this far, the next sample is taken for the first one.
    pub fn back_off(&mut self) {
        if self.backoff < 64 || self.timeout() < self.maxrto {
            self.backoff <<= 1;
        }
        if self.backoff > 8 {
            self.rttvar += self.srtt >> 3;
            self.srtt = 0;
        }
    }

    /// `output`: segment `seq` leaves for the first time; it is timed if none is.
    pub fn on_new(&mut self, seq: u32, now: Time) {
        if self.timed.is_none() {
            if self.last_timed.is_none_or(|(last, _)| seq > last) {
                self.last_timed = Some((seq, now));
            }
            self.timed = self.last_timed;
        }
    }

    /// `reset_rtx_timer`: nothing is timed any more.
    pub fn forget(&mut self) {
        self.timed = None;
    }

    /// `newack`, `time_processing`: `ack` is the next segment expected, `echo` what its timestamp echoes; `advanced`: it acknowledges
    /// something new, but the Linux agent takes samples from duplicates, too.
    pub fn on_ack(&mut self, ack: u32, echo: Time, advanced: bool, now: Time) {
        if self.timestamps && (advanced || self.linux) {
            self.update(now.since(echo), now);
            // `ts_resetRTO_` is the Linux agent's.
            self.backoff = if self.linux { 1 } else { self.backoff };
        }
        if let Some((_, at)) = self.timed.take_if(|(seq, _)| ack > *seq) {
            self.backoff = 1;
            if !self.timestamps {
                self.update(now.since(at), now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(ms: &[u64]) -> Rtt {
        let mut rtt = Rtt::new(true, true, Span::from_millis(200));
        ms.iter().for_each(|ms| rtt.update(Span::from_millis(*ms), Time::from_millis(1000)));
        rtt
    }

    /// 100 ms, then 150: SRTT 106.25, RTTVAR 50 and then 50 + (50 - 50) / 4; a fall to 90 ms adds nothing above RTTVAR/4, but
    /// takes (16 - 50) / 4. The timeout is their sum in whole milliseconds.
    #[test]
    fn the_linux_agent_counts_in_milliseconds() {
        let timeout = |ms: &[u64]| sampled(ms).timeout();
        assert_eq!(timeout(&[]), Span::from_secs(3));
        assert_eq!(timeout(&[100]), Span::from_millis(300));
        assert_eq!(timeout(&[100, 150]), Span::from_millis(306));
        assert_eq!(timeout(&[100, 150, 90]), Span::from_millis(104 + 166));
        assert_eq!(timeout(&[100; 40]), Span::from_millis(200), "the floor is of the whole");
        let mut rtt = sampled(&[100, 150]);
        (0..4).for_each(|_| rtt.back_off());
        assert_eq!((rtt.srtt(), rtt.timeout()), (Span::ZERO, Span::from_millis(306 * 16)));
        rtt.on_ack(1, Time::from_millis(920), true, Time::from_millis(1000));
        assert_eq!(rtt.timeout(), Span::from_millis(240));
    }

    /// Ticks of 10 ms: 40 ms from 1.007 s on are four ticks and the 7 ms of the one it began in: still four.
    #[test]
    fn reno_times_one_segment_a_round_in_ticks_of_ten_milliseconds() {
        let mut rtt = Rtt::new(false, false, Span::from_millis(200));
        rtt.on_new(0, Time::from_millis(1007));
        rtt.on_new(1, Time::from_millis(1008));
        rtt.on_ack(1, Time::ZERO, true, Time::from_millis(1047));
        assert_eq!(rtt.srtt(), Span::from_millis(40));
        rtt.on_ack(2, Time::ZERO, true, Time::from_millis(1300));
        assert_eq!(rtt.srtt(), Span::from_millis(40), "the second was not timed");
    }
}
