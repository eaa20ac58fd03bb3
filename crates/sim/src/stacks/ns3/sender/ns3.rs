//! What ns-3's socket does besides what others do (3.37, `tcp-socket-base.cc`). Knows a sender that is set so.

use lowtide_cc::Restart;
use lowtide_units::{Span, Time};

use super::{Mode, Sender};

impl Sender {
    /// ns-3 orders what falls on one nanosecond by when it was scheduled: a pacing timer before the end of an acknowledgement's last
    /// hop, if that is the shorter. Paced segments come back as acknowledgements at multiples of the pacing interval.
    pub fn timer_goes_first(&self) -> bool {
        self.sampler.is_some()
    }

    /// ns-3 announces each segment that finds nothing out (CA_EVENT_TX_START in `SendPendingData`), after a timeout, too.
    pub(super) fn restart_of_ns3(&mut self, now: Time) {
        if self.sampler.is_some() {
            let idle = self.idle_since.take().map_or(Span::ZERO, |since| now.since(since));
            self.cc.on_restart(&Restart { now, idle, rto: self.rto.rto() });
        }
    }

    /// What an ns-3 sender repeats for want of anything else.
    pub(super) fn untouched(&mut self) -> Option<u32> {
        let len = self.next_len();
        let stuck = self.config.ghosts && matches!(self.mode, Mode::Reducing { loss: true, .. }) && (len == 0 || !self.permitted(len));
        if stuck { self.board.next_untouched() } else { None }
    }

    /// A window below one segment sends nothing; the timer that ends this runs although nothing is out.
    pub(super) fn stall(&mut self, pipe: u64, now: Time) -> Result<(), Option<Time>> {
        if pipe == 0 && self.timer.is_none() {
            self.arm(now);
        }
        Err(None)
    }

    /// `CongControl`'s part of `ReceivedAck`. What a partial acknowledgement repaired at once is out by then: the application has written
    /// since (`NewAck`), and so the bytes in flight were counted anew.
    pub(super) fn tell_socket_sample(&mut self, lost_before: u64, advanced: bool) {
        let repair = if advanced && self.repairs_at_once() { u64::from(self.config.mss) } else { 0 };
        let (in_flight, lost) = (self.in_flight() + repair, self.board.lost_out().abs_diff(lost_before));
        let srtt = self.rto.srtt();
        if let Some(sampler) = &mut self.sampler {
            self.sample = Some(sampler.generate(srtt, lost, in_flight));
        }
    }
}
