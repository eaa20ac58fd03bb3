//! What an acknowledgement tells a sender: what was delivered, its RTT, and what the congestion control hears of it. The order
//! is that of Linux `tcp_ack`.

use lowtide_cc::Ack;
use lowtide_units::{Span, Time};

use super::timers::Due;
use super::way_back::FLOOR_SEGMENTS;
use super::{LossRecovery, Sender};
use crate::packet::Packet;
use crate::tcp::scoreboard::Segment;
use crate::tcp::undo;

/// What one acknowledgement says.
#[derive(Default)]
pub(super) struct News {
    /// Before it: bytes in flight, and bytes declared lost so far.
    pub in_flight: u64,
    lost_before: u64,
    /// Before it: the left edge and one past the highest SACKed segment.
    pub una: u32,
    sacked_to: u32,
    /// Segments by which the left edge moved.
    pub advanced: u32,
    /// Bytes newly delivered, duplicates that it reports included.
    pub delivered: u64,
    /// Of the newest transmission among what was delivered: its order and its segment.
    newest: Option<(u32, u32)>,
    /// When the first and the last of those acknowledged cumulatively left that were sent once and not SACKed; the same of those
    /// SACKed.
    acked: Option<(Time, Time)>,
    sacked: Option<(Time, Time)>,
    /// Something sent again was acknowledged cumulatively (FLAG_RETRANS_DATA_ACKED).
    retransmission_acked: bool,
    /// Something sent once, and before the episode began, was delivered (FLAG_ORIG_SACK_ACKED).
    pub original_delivered: bool,
    /// Something was newly SACKed (FLAG_DATA_SACKED).
    pub sacked_some: bool,
    /// It reports a duplicate, and that of a tail loss probe (FLAG_DSACKING_ACK, FLAG_DSACK_TLP).
    pub dsack: bool,
    pub dsack_of_probe: bool,
    /// The lowest segment sent once that arrived after higher ones.
    late: Option<u32>,
    /// It acknowledges a lone short segment, which the receiver's timer may have held back (FLAG_ACK_MAYBE_DELAYED).
    maybe_delayed: bool,
    /// It echoes a mark (FLAG_ECE), and whose timestamp.
    pub ece: bool,
    pub echo: Time,
    /// It brings no data, moves nothing and leaves the window as it was (not FLAG_NOT_DUP).
    pub is_duplicate: bool,
    /// A retransmission was found lost (FLAG_LOST_RETRANS).
    pub retransmission_lost: bool,
}

impl News {
    #[inline]
    fn add(&mut self, seq: u32, segment: &Segment) {
        self.delivered += u64::from(segment.len());
        if self.newest.is_none_or(|newest| segment.order > newest.0) {
            self.newest = Some((segment.order, seq));
        }
    }
}

fn extend(times: &mut Option<(Time, Time)>, at: Time) {
    *times = Some((times.map_or(at, |(first, _)| first), at));
}

impl Sender {
    /// An acknowledgement arrives. Afterwards [`poll`](Self::poll).
    pub fn on_ack(&mut self, ack: &Packet, now: Time) {
        let mut news = News {
            in_flight: self.in_flight(),
            lost_before: self.clock.lost(),
            una: self.board.una(),
            sacked_to: self.board.sacked_to(),
            ece: ack.ece && self.config.ecn,
            echo: ack.echo,
            ..News::default()
        };
        self.only_new = false;
        let had_data = self.board.outstanding() > 0;
        self.take_sacks(ack, &mut news, now);
        self.take_acknowledged(ack, &mut news, now);
        let edge = self.offset(ack.seq) + u64::from(ack.window);
        news.is_duplicate = had_data && news.advanced == 0 && edge <= self.edge;
        self.edge = self.edge.max(edge);
        if news.advanced > 0 {
            self.peer_clock = ack.sent;
            (self.timeouts_in_a_row, self.tail.persist_backoff) = (0, 0);
        }
        if !had_data {
            if news.dsack && self.config.recovery == LossRecovery::Linux {
                self.judge(&mut news, now);
            }
            self.on_window_update(now);
            self.check_probe(&news, now);
            return;
        }
        if self.config.recovery == LossRecovery::NewReno {
            self.count_duplicates(&mut news);
        }
        if news.delivered > 0 {
            self.clock.on_delivered(now, news.delivered);
        }
        let rtt = self.sample_rtt(&news, now);
        let mut sets_timer = news.advanced > 0 || self.sack_restarts_timer(&news, rtt);
        match self.config.recovery {
            LossRecovery::Linux => {
                if let Some((_, newest)) = news.newest {
                    self.rack.update_window(self.board.last_stamp(newest).delivered, self.clock.delivered());
                }
                self.check_probe(&news, now);
                if self.is_dubious(&news) {
                    sets_timer &= !self.judge(&mut news, now);
                }
            }
            LossRecovery::Sack | LossRecovery::NewReno => self.judge_by_rfc(&mut news, now),
        }
        if sets_timer {
            self.restart_timer(now);
        }
        let rtt = rtt.filter(|_| news.delivered > 0).map(|rtt| self.less_the_way_back(rtt, ack.sent, now));
        self.control(&news, ack.owd, rtt, now);
    }

    /// Linux `tcp_sacktag_write_queue`: the duplicate that the first block may report (RFC 2883 §4), then the blocks from the lowest up.
    fn take_sacks(&mut self, ack: &Packet, news: &mut News, now: Time) {
        let mut blocks = ack.sack;
        if blocks[0].0 >= blocks[0].1 {
            return;
        }
        let inside_next = blocks[1].0 <= blocks[0].0 && blocks[0].1 <= blocks[1].1;
        if blocks[0].0 < ack.seq || inside_next {
            self.take_duplicate(blocks[0], news);
        }
        blocks.sort_unstable();
        let Sender { board, rack, min_rtt, recover, .. } = self;
        let mut visit = |seq: u32, segment: &Segment, highest: u32| {
            news.add(seq, segment);
            news.sacked_some = true;
            rack.on_delivered(segment, now, *min_rtt);
            if !segment.retransmitted {
                if seq < highest {
                    news.late = Some(news.late.map_or(seq, |late| late.min(seq)));
                }
                news.original_delivered |= seq < *recover;
                extend(&mut news.sacked, segment.stamp.sent);
            }
        };
        for &(from, to) in blocks.iter().filter(|block| block.0 < block.1) {
            board.sack(from, to, &mut visit);
        }
        if let Some(late) = news.late {
            self.rack.on_reordering(late, self.board.sacked_to());
        }
    }

    /// Linux `tcp_check_dsack`, `tcp_dsack_seen` and what `tcp_sacktag_one` does with a duplicate.
    #[cold]
    fn take_duplicate(&mut self, (from, to): (u32, u32), news: &mut News) {
        self.duplicates.reported += u64::from(to - from);
        if self.duplicates.reported > self.stats.retransmits {
            // The network made it.
            return;
        }
        news.dsack = true;
        news.dsack_of_probe = to - from == 1 && self.tail.end == Some(to);
        if !news.dsack_of_probe {
            self.rack.on_dsack();
        }
        self.undo.on_duplicate(from, to);
        news.delivered += u64::from(to - from) * u64::from(self.config.mss);
        for seq in from.max(self.board.una())..to.min(self.board.nxt()) {
            let segment = *self.board.segment(seq);
            if segment.retransmitted && segment.sacked {
                news.late = Some(news.late.map_or(seq, |late| late.min(seq)));
            }
            self.board.settle_repair(seq);
        }
    }

    /// Linux `tcp_clean_rtx_queue`.
    fn take_acknowledged(&mut self, ack: &Packet, news: &mut News, now: Time) {
        let Sender { board, rack, min_rtt, recover, config, .. } = self;
        let (sacked_to, has_sacks, mut late) = (news.sacked_to, board.sacked() > 0, None);
        let una = board.una();
        let mut lone = None;
        board.acknowledge(ack.seq, |seq, segment| {
            news.retransmission_acked |= segment.retransmitted;
            lone = Some(segment.len());
            if segment.sacked {
                return;
            }
            news.add(seq, segment);
            if !answers_original(segment, ack.echo, config.recovery) {
                rack.on_delivered(segment, now, *min_rtt);
            }
            if !segment.retransmitted {
                extend(&mut news.acked, segment.stamp.sent);
                late = late.or(Some(seq));
                news.original_delivered |= seq < *recover;
            }
        });
        news.advanced = self.board.una() - una;
        news.maybe_delayed = news.advanced == 1 && lone.is_some_and(|len| len < self.config.mss) && !has_sacks && !news.ece;
        if let Some(late) = late.filter(|&late| late < sacked_to) {
            // A hole that was filled by its first transmission.
            self.rack.on_reordering(late, self.board.sacked_to());
        }
    }

    /// Linux `tcp_ack_update_rtt`: the RTO goes by the oldest segment acknowledged, the algorithm by the newest; what was sent again is
    /// timed by the timestamp that is echoed, where there is one (RFC 7323 §4).
    fn sample_rtt(&mut self, news: &News, now: Time) -> Option<Span> {
        let elapsed = |at| self.config.elapsed(at, now);
        let acked = news.acked.filter(|_| !news.retransmission_acked);
        let by_timestamp = || {
            let usable = self.config.recovery == LossRecovery::Linux && news.advanced > 0 && news.echo > Time::ZERO;
            usable.then(|| elapsed(news.echo))
        };
        let of_oldest = acked.or(news.sacked).map(|(first, _)| elapsed(first)).or_else(by_timestamp)?;
        let of_newest = news.sacked.or(acked).map_or(of_oldest, |(_, last)| elapsed(last));
        let round_ended = self.board.una() > self.round_end;
        if round_ended {
            self.round_end = self.board.nxt();
        }
        self.rto.sample(of_oldest, round_ended);
        self.min_rtt = self.min_rtt.min(of_newest);
        self.latest_rtt = Some(of_newest);
        Some(of_newest)
    }

    /// What the control is told of a round trip that ends with what left the peer at `left`.
    fn less_the_way_back(&mut self, rtt: Span, left: Time, now: Time) -> Span {
        let Some(way_back) = &mut self.way_back else { return rtt };
        way_back.leave_out(rtt, left, now, self.cc.cwnd() <= FLOOR_SEGMENTS * u64::from(self.config.mss), self.rto.srtt())
    }

    /// A SACK of something sent after the head's last transmission does not put off the timer that waits for the head
    /// (`tcp_clean_rtx_queue`).
    fn sack_restarts_timer(&self, news: &News, rtt: Option<Span>) -> bool {
        let Some((first, _)) = news.sacked.filter(|_| rtt.is_some() && self.board.outstanding() > 0) else { return false };
        self.config.recovery == LossRecovery::Linux && first < self.board.segment(self.board.una()).stamp.sent
    }

    /// Whether anything about the acknowledgement asks for a closer look (`tcp_ack_is_dubious`).
    fn is_dubious(&self, news: &News) -> bool {
        news.is_duplicate || news.sacked_some || news.ece || news.dsack || self.state != super::State::Open
    }

    /// Linux `tcp_cong_control`: reduces the window, or tells the algorithm what arrived.
    fn control(&mut self, news: &News, owd: i64, rtt: Option<Span>, now: Time) {
        let reducing = self.is_reducing();
        let lost = self.clock.lost() - news.lost_before;
        if news.delivered > 0 {
            // On a path that keeps order a SACK above a hole announces a loss: nothing grows on it (`tcp_may_raise_cwnd`), but that is not
            // asked of those who answer for their window in recovery, too.
            let may_grow = news.advanced > 0 || self.rack.expects_reordering() || self.cc.has_own_recovery();
            self.tell(news, lost, may_grow, owd, rtt, now);
        }
        if reducing && self.reduces_in_proportion() {
            let (pipe, ssthresh) = (self.in_flight(), self.cc.cwnd());
            self.prr.on_ack(news.delivered, pipe, ssthresh, u64::from(self.config.mss), news.advanced > 0 && lost == 0);
        }
    }

    fn tell(&mut self, news: &News, lost: u64, may_grow: bool, owd: i64, rtt: Option<Span>, now: Time) {
        let stamp = news.newest.map(|(_, newest)| *self.board.last_stamp(newest));
        let min_rtt = if self.min_rtt == Span::MAX { Span::ZERO } else { self.min_rtt };
        let rate = stamp.and_then(|stamp| self.clock.sample(now, &stamp, min_rtt, news.maybe_delayed));
        self.stats.acks += 1;
        self.cc.on_ack(&Ack {
            now,
            acked: news.delivered,
            advanced: self.offset(news.advanced),
            lost,
            ce: if news.ece { news.delivered } else { 0 },
            in_flight: news.in_flight,
            most_out: u64::from(self.used.most_out()) * u64::from(self.config.mss),
            una: self.offset(self.board.una()),
            nxt: self.offset(self.board.nxt()),
            rtt,
            srtt: self.rto.srtt(),
            way_back: self.way_back.as_ref().map_or(Span::ZERO, |way_back| way_back.behind()),
            waited: self.way_back.as_ref().map_or(Span::ZERO, |way_back| way_back.waited()),
            owd: Some(owd),
            delivered: self.clock.delivered(),
            prior_delivered: stamp.map_or(0, |stamp| stamp.delivered),
            rate,
            cwnd_limited: may_grow && self.used.limited(),
            no_growth: !may_grow,
            in_recovery: self.is_reducing(),
            ..Ack::default()
        });
    }

    /// An acknowledgement while nothing is out: the peer's window may have opened (`tcp_ack_probe`).
    fn on_window_update(&mut self, now: Time) {
        if let Some((_, Due::Persist)) = self.timer {
            self.timer = None;
            if self.next_len() > 0 && !self.permitted(self.next_len()) {
                self.timer = Some((now + self.persist_time(), Due::Persist));
            } else {
                self.tail.persist_backoff = 0;
            }
        }
    }
}

/// An echo from before its last transmission answers an earlier one (RFC 8985 §6.2 step 2, Linux `tcp_skb_spurious_retrans`). Asked of
/// cumulative acknowledgements only: a SACK echoes the last segment that came in order.
fn answers_original(segment: &Segment, echo: Time, recovery: LossRecovery) -> bool {
    recovery == LossRecovery::Linux && segment.retransmitted && undo::answers_original(echo, Some(segment.stamp.sent))
}
