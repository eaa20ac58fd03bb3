//! What an acknowledgement tells a sender: what was delivered, its RTT, and what the congestion control hears of it.

use lowtide_cc::{Ack, Recovery};
use lowtide_replicas::Beside;
use lowtide_units::{Span, Time};

use super::recovery::{DUP_THRESHOLD, Disorder};
use super::{Detection, Mode, Sender, Way};
use crate::packet::Packet;
use crate::stacks::ns2::halving::Halving;
use crate::stacks::ns2::rto::Samples;
use crate::stacks::ns2::sack::Segment;

/// What one acknowledgement delivered.
#[derive(Default)]
struct Delivery {
    bytes: u64,
    /// Segments by which the left edge moved.
    advanced: u32,
    newest: Option<Segment>,
    /// The first of those acknowledged cumulatively.
    oldest: Option<Segment>,
    /// A retransmission is among it.
    repaired: bool,
    /// A window may grow on it.
    may_grow: bool,
    /// It shows that the last reduction was for nothing.
    spurious: bool,
    /// Something above the left edge is among it.
    sacked: bool,
}

impl Delivery {
    fn add(&mut self, segment: &Segment) {
        self.bytes += u64::from(segment.len);
        self.repaired |= segment.retransmitted;
        if self.newest.is_none_or(|newest| segment.order > newest.order) {
            self.newest = Some(*segment);
        }
    }
}

impl Sender {
    /// An acknowledgement arrives. Afterwards [`poll`](Self::poll).
    pub fn on_ack(&mut self, ack: &Packet, now: Time) {
        let before = self.in_flight();
        let una = self.board.una();
        let by_echo = self.config.echoed_rtt;
        self.owd = Some(if by_echo { self.config.elapsed(ack.echo, ack.sent).nanos() as i64 } else { ack.owd });
        let by_clock = by_echo || self.rto.samples() == Samples::EveryAck;
        self.echo_age = by_clock.then(|| self.config.elapsed(ack.echo, now));
        let (mut delivery, dsack) = self.take_delivered(ack, now);
        delivery.advanced = self.board.una() - una;
        let advanced = delivery.advanced > 0;
        self.edge = self.edge.max(self.offset(ack.seq) + u64::from(ack.window));
        let duplicate = self.count_duplicates(&mut delivery, ack, advanced);
        if advanced {
            self.peer_clock = ack.sent;
            self.rto.progress();
        }
        if delivery.bytes > 0 {
            self.clock.on_delivered(now, delivery.bytes);
        }
        if delivery.spurious {
            self.give_back(now);
        }
        let rtt = self.sample_rtt(&delivery, ack.echo, now);
        let lost = self.detect(now, advanced);
        let repairing = matches!(self.mode, Mode::Timeout);
        let disorder = self.disorder(delivery.sacked, advanced);
        let left = self.leave_episode(advanced);
        self.check_probe(dsack, before, now);
        let news = match disorder {
            Some(disorder) => self.lost_in(disorder, lost),
            None => lost.max(left),
        };
        self.enter_episode(news, u64::from(ack.ce), before, now);
        if delivery.bytes > 0 && !(duplicate && matches!(self.mode, Mode::Open)) {
            // On a path that keeps order a SACK above a hole announces a loss: nothing grows on it (Linux `tcp_may_raise_cwnd`),
            // but that is not asked of those who answer for their window in recovery too (`tcp_cong_control`).
            // What ends ns-3's recovery from a timeout counts above the recovery point only (`ProcessAck`, CA_LOSS).
            let only_repairs = disorder.is_some() && repairing && self.board.una() == self.recover;
            let orderly = disorder != Some(Disorder::Waiting) && !only_repairs;
            let reordered = disorder.is_none() && self.rack.sees_reordering();
            delivery.may_grow = (advanced && orderly) || reordered || self.cc.recovery() == Recovery::Own;
            self.tell(&delivery, lost, u64::from(ack.ce), before, rtt, now);
        }
        self.reduce(delivery.bytes, advanced && lost == 0);
        let by_timer = self.config.detection == Detection::Timer;
        if repairing && matches!(self.mode, Mode::Open) && by_timer {
            let outstanding = self.offset(self.board.nxt()) - self.offset(self.board.una());
            self.cc.on_repaired(Halving::moderated(outstanding, u64::from(self.config.mss)));
        }
        if advanced {
            self.fast = self.repairs_at_once();
        }
        // ns-2's agent sets its timer anew for a duplicate, too (`time_processing`).
        if (advanced && disorder != Some(Disorder::Waiting) && self.restarts_timer()) || by_timer {
            self.arm(now);
        }
        if self.board.una() == self.board.nxt() {
            // ns-3 lets it run while there is something to send (`NewAck`), though a pacer holds it back.
            if !self.config.stalls || self.next_len() == 0 {
                self.timer = None;
            }
            self.idle_since = Some(now);
        }
    }

    fn take_delivered(&mut self, ack: &Packet, now: Time) -> (Delivery, bool) {
        let Sender { board, rack, min_rtt, undo, config, .. } = self;
        let mut delivery = Delivery::default();
        let (evidence, mut under_way) = (*undo, false);
        let mut visit = |seq: u32, segment: &Segment| {
            delivery.add(segment);
            delivery.oldest = delivery.oldest.or((seq < ack.seq).then_some(*segment));
            delivery.sacked |= seq >= ack.seq;
            under_way |= !segment.retransmitted && evidence.is_some_and(|undo| undo.was_under_way(segment.order));
            // RFC 8985 §6.2 step 2: an echo from before the retransmission answers the original.
            let of_original = config.undo && segment.retransmitted && ack.echo < segment.stamp.sent;
            if !of_original {
                rack.on_delivered(seq, segment, now, *min_rtt);
            }
        };
        board.acknowledge(ack.seq, &mut visit);
        let (mut dsack, mut proven) = (false, false);
        for (n, &(from, to)) in ack.sack.iter().enumerate().filter(|(_, block)| block.0 < block.1) {
            // RFC 2883 §4: a first block below the ACK or inside the second reports a duplicate.
            let inside_next = n == 0 && ack.sack[1].0 <= from && to <= ack.sack[1].1;
            if to <= ack.seq || inside_next {
                dsack = true;
                proven |= undo.as_mut().is_some_and(|undo| undo.on_duplicate(from, to));
            } else {
                board.sack(from, to, &mut visit);
            }
        }
        if dsack {
            rack.on_dsack();
        }
        delivery.spurious = under_way || proven || undo.is_some_and(|undo| undo.answers_original(board.una(), ack.echo));
        (delivery, dsack)
    }

    /// Without SACK a duplicate ACK stands for one segment delivered (Linux `tcp_add_reno_sack`). Whether this is one.
    fn count_duplicates(&mut self, delivery: &mut Delivery, ack: &Packet, advanced: bool) -> bool {
        if !self.config.detection.counts_duplicates() {
            return false;
        }
        let mss = u64::from(self.config.mss);
        if advanced {
            let known = self.credit.min(delivery.bytes.saturating_sub(mss));
            // Nothing is missing outside recovery: duplicates were answers to what had arrived already (Linux `tcp_reset_reno_sack`).
            self.credit = if self.in_recovery() { self.credit - known } else { 0 };
            delivery.bytes -= known;
            self.duplicates = 0;
            return false;
        }
        if ack.seq != self.board.una() || self.in_flight() == 0 {
            return false;
        }
        self.duplicates += 1;
        // Outside recovery Reno sends for the first two of them only (RFC 3042).
        if self.config.detection == Detection::Reno && matches!(self.mode, Mode::Open) && self.duplicates > DUP_THRESHOLD {
            return true;
        }
        self.credit += mss;
        delivery.bytes += mss;
        true
    }

    fn sample_rtt(&mut self, delivery: &Delivery, echo: Time, now: Time) -> Option<Span> {
        let samples = self.rto.samples();
        if samples == Samples::EveryAck {
            self.rto.sample(self.config.elapsed(echo, now), true);
        }
        // What waited behind a repaired hole without SACK tells how long the repair took (ns-2 `FLAG_UNSURE_TSTAMP`).
        let waited = delivery.repaired && self.config.detection == Detection::Timer;
        let timed = if self.config.echoed_rtt { delivery.oldest } else { delivery.newest };
        let Segment { stamp, .. } = timed.filter(|segment| !segment.retransmitted && !waited)?;
        let rtt = self.config.elapsed(if self.config.echoed_rtt { echo } else { stamp.sent }, now);
        let round_ended = self.board.una() > self.round_end;
        if round_ended {
            self.round_end = self.board.nxt();
        }
        if samples == Samples::EveryRtt || (samples == Samples::OneARound && round_ended) {
            self.rto.sample(rtt, round_ended);
        }
        self.min_rtt = self.min_rtt.min(rtt);
        self.latest_rtt = Some(rtt);
        Some(rtt)
    }

    fn tell(&mut self, delivery: &Delivery, lost: u64, ce: u64, before: u64, rtt: Option<Span>, now: Time) {
        let stamp = delivery.newest.map(|newest| newest.stamp);
        let min_rtt = if self.min_rtt == Span::MAX { Span::ZERO } else { self.min_rtt };
        let rate = stamp.and_then(|stamp| self.clock.sample(now, &stamp, min_rtt, false));
        self.stats.acks += 1;
        let beside = Beside { echo_age: self.echo_age.take() };
        let ack = Ack {
            now,
            acked: delivery.bytes,
            advanced: self.offset(delivery.advanced),
            lost,
            ce,
            in_flight: before,
            rtt: if self.config.smoothed_rtt { Some(self.rto.srtt()).filter(|srtt| *srtt > Span::ZERO) } else { rtt },
            srtt: self.rto.srtt(),
            owd: self.owd.take(),
            delivered: self.clock.delivered(),
            prior_delivered: stamp.map_or(0, |stamp| stamp.delivered),
            rate,
            cwnd_limited: delivery.may_grow && (self.used.limited() || !self.config.validated),
            // ns-3's `IncreaseWindow` is called for acknowledgements of new data alone.
            no_growth: !delivery.may_grow && !self.config.validated,
            in_recovery: self.in_recovery(),
            ..Ack::default()
        };
        self.cc.on_ack_beside(&ack, &beside);
    }

    pub(super) fn reduce(&mut self, delivered: u64, advanced: bool) {
        let (pipe, ssthresh) = (self.in_flight(), self.cc.cwnd());
        match &mut self.mode {
            Mode::Reducing { way: Way::Prr(prr), .. } if delivered > 0 => {
                prr.on_ack(delivered, pipe, ssthresh, u64::from(self.config.mss), advanced);
            }
            Mode::Reducing { way: Way::Halving(halving), .. } => halving.on_ack(pipe, ssthresh),
            Mode::Open if self.ceiling < ssthresh => self.ceiling += delivered,
            _ => self.ceiling = u64::MAX,
        }
    }
}
