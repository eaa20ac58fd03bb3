//! What happens without a packet: retransmission timeouts, keep-alive, the probe of a closed window (libutp `check_timeouts`).

use lowtide_cc::{Cause, Congestion};
use lowtide_units::{Span, Time};

use super::{Connection, Failure, State};

/// Timeouts in a row after which the next one is the end; fewer while connecting.
const MOST_TIMEOUTS: u32 = 4;
const MOST_SYN_TIMEOUTS: u32 = 2;
/// KEEPALIVE_INTERVAL.
const KEEP_ALIVE: Span = Span::from_secs(29);
/// libutp waits for ever for the first data of a connection that it accepted (its `rto_timeout` stays 0).
const MOST_HALF_OPEN: Span = Span::from_secs(10);
/// A silent peer is asked so often, this far apart at most, before it is given up.
const MOST_ASKED: u32 = 3;
const ASK_AGAIN: Span = Span::from_secs(10);
/// Timeouts in a row after which the path may have come to carry less (MAX_PROBES, RFC 8899, sec. 4.3).
const DOUBTED: u32 = 3;
/// PACKET_SIZE: what a window of zero is taken for in the end.
const PROBE_WINDOW: u64 = 1435;

impl Connection {
    /// When [`on_timer`](Connection::on_timer) is due: one tick after the host was last active, or when the pace lets a packet leave.
    pub fn deadline(&self) -> Option<Time> {
        let tick = self.woken + self.config.tick;
        (!self.is_over()).then(|| self.paced_until().map_or(tick, |at| at.min(tick)))
    }

    /// When a packet that waits for nothing but its time may leave.
    pub fn paced_until(&self) -> Option<Time> {
        self.pacer.waits(Time::ZERO).filter(|_| self.paced && !self.is_over())
    }

    /// Whether [`on_timer`](Connection::on_timer) would look at the timers now, for hosts that look at many connections.
    pub fn is_check_due(&self, now: Time) -> bool {
        !self.is_over() && now.since(self.checked) >= self.config.tick
    }

    /// The deadline has come.
    pub fn on_timer(&mut self, now: Time) {
        if !self.is_over() {
            self.wake(now);
        }
    }

    /// Timers are looked at when the host is awake anyway, but not more often than once a tick. So did the program that the
    /// paper measured (`ucat`: `poll` with 500 ms, then `utp_check_timeouts`): a stall ends a whole number of ticks after the last packet.
    pub(super) fn wake(&mut self, now: Time) {
        self.woken = now;
        if now.since(self.checked) >= self.config.tick {
            self.checked = now;
            self.check(now);
        }
    }

    fn check(&mut self, now: Time) {
        if let Some(mtu) = &mut self.mtu {
            mtu.on_tick(now);
        }
        if self.peer_window == 0 && now >= self.zero_window_until {
            self.peer_window = PROBE_WINDOW;
        }
        if self.state == State::SynReceived && self.age(now) >= MOST_HALF_OPEN {
            self.state = State::Failed(Failure::TimedOut);
        } else if self.is_unreachable(now) {
            self.state = State::Failed(Failure::Unreachable);
        } else if self.timer.is_due(now) {
            self.time_out(now);
        }
        self.ask(now);
        self.keep_alive_due = self.state == State::Connected && now.since(self.last_sent) >= KEEP_ALIVE;
    }

    /// libutp keeps a connection whose peer has vanished for ever if nothing is to be sent. A packet with an old number must be
    /// acknowledged, as TCP's keep-alives are (RFC 9293, sec. 3.8.4).
    fn ask(&mut self, now: Time) {
        let Some(silence) = self.config.silence.filter(|_| self.state == State::Connected && self.out.is_empty()) else { return };
        if now.since(self.heard) < silence || (self.asked > 0 && now.since(self.asked_at) < ASK_AGAIN.min(silence)) {
            return;
        }
        if self.asked >= MOST_ASKED {
            self.state = State::Failed(Failure::TimedOut);
            return;
        }
        (self.asked, self.asked_at, self.ask_due) = (self.asked + 1, now, true);
    }

    fn time_out(&mut self, now: Time) {
        let most = if self.state == State::SynSent { MOST_SYN_TIMEOUTS } else { MOST_TIMEOUTS };
        if self.timer.count() >= most {
            self.state = State::Failed(Failure::TimedOut);
            return;
        }
        if self.only_probe_is_lost(now) {
            self.timer.start(now);
            self.out.queue(self.out.first());
            return;
        }
        let outstanding = !self.out.is_empty();
        self.tell_timeout(outstanding, now);
        self.timer.back_off(now, outstanding);
        if outstanding {
            self.out.give_up();
            self.fast_timeout = true;
            self.recover = self.out.next();
            self.stats.timeouts += 1;
            self.doubt_path();
            // The oldest leaves whatever the windows say.
            self.out.queue(self.out.first());
        }
    }

    fn doubt_path(&mut self) {
        let Some(mtu) = self.mtu.as_mut().filter(|_| self.timer.count() == DOUBTED) else { return };
        mtu.doubt();
        self.cc.on_mss(u32::from(self.packet()));
    }

    /// A probe of the path's MTU that nothing else went with: too large, and no sign of congestion.
    fn only_probe_is_lost(&mut self, now: Time) -> bool {
        let alone = (self.out.len() == 1).then(|| self.out.first());
        let Some(mtu) = &mut self.mtu else { return false };
        let lost = alone.is_some_and(|seq| mtu.lost(seq, now));
        mtu.cancel();
        if lost {
            self.cc.on_mss(u32::from(self.packet()));
        }
        lost
    }

    /// Once per episode; an idle connection's window decays with every timeout, which only libutp's control knows of.
    fn tell_timeout(&mut self, outstanding: bool, now: Time) {
        let tell = if outstanding { self.timer.count() == 0 } else { self.cc.hears_every_loss() };
        if tell {
            self.stats.episodes += u64::from(outstanding);
            // What is outstanding may be marked already, or carry no payload: it is not nothing.
            let in_flight = if outstanding { self.out.in_flight().max(1) } else { 0 };
            self.cc.on_congestion(&Congestion { now, cause: Cause::Timeout, lost: in_flight, in_flight, srtt: self.timer.srtt() });
        }
    }
}
