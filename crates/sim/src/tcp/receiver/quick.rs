//! Which acknowledgements wait for nothing: Linux's quick-ACK mode. The first ones, those after a pause, after a duplicate or a mark, and
//! each whose segment lets the receive window grow. Knows no sequence numbers.

use lowtide_units::{Span, Time};

/// Acknowledgements that leave at once after a duplicate arrived, at the start and after a pause (Linux `TCP_MAX_QUICKACKS`).
pub const MOST: u32 = 16;
/// A retransmission timeout is at least this much above the RTT (`TCP_RTO_MIN`).
const RTO_MIN: Span = Span::from_millis(200);

/// The state of one receiver's.
#[derive(Debug)]
pub struct Quick {
    mss: u32,
    /// Of those at the start and after a pause.
    most: u32,
    /// Those that are left (`icsk_ack.quick`).
    left: u32,
    /// When the last segment in order came (`icsk_ack.lrcvtime`).
    last: Option<Time>,
    /// The RTT that the first echoed clock reading gave, as the handshake's would.
    first_rtt: Option<Span>,
    growth: Option<Growth>,
    /// What the window may grow to at most.
    buffer: u64,
}

impl Quick {
    /// `most` at the start; those for a growing window too, if it `grows`.
    pub fn new(most: u32, mss: u32, buffer: u64, grows: bool) -> Quick {
        let growth = grows.then(|| Growth::new(mss, buffer));
        Quick { mss, most, left: most, last: None, first_rtt: None, growth, buffer }
    }

    /// The next acknowledgement waits for nothing.
    pub fn is_due(&self) -> bool {
        self.left > 0
    }

    /// The next `most` acknowledgements wait for nothing; fewer where that many segments exceed half the window (`tcp_incr_quickack`).
    pub fn enter(&mut self, most: u32) {
        let window = self.growth.as_ref().map_or(self.buffer, |growth| growth.window);
        let segments = match window / (2 * u64::from(self.mss)) {
            0 => 2,
            segments => segments.min(u64::from(most)) as u32,
        };
        self.left = self.left.max(segments);
    }

    /// An acknowledgement of something that has arrived leaves (`tcp_dec_quickack_mode`).
    pub fn on_acknowledged(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// A segment comes at `now` that echoes the clock reading `echo`; `in_order`: it is the next one (`tcp_event_data_recv`).
    pub fn on_segment(&mut self, now: Time, echo: Time, in_order: bool) {
        if let Some(growth) = &mut self.growth {
            growth.on_echo(now, echo);
        }
        if self.first_rtt.is_none() && echo > Time::ZERO {
            self.first_rtt = Some(now.since(echo));
        }
        if in_order && self.last.replace(now).is_some_and(|last| now.since(last) > self.timeout()) {
            self.enter(self.most);
        }
    }

    /// The segment was a full one that the application has not yet read: the window may grow (`tcp_grow_window`).
    pub fn on_stored(&mut self) {
        if self.growth.as_mut().is_some_and(Growth::grow) {
            self.left |= 1;
        }
    }

    /// The application has read `delivered` bytes in all, with `held` above a hole (`tcp_rcv_space_adjust`).
    pub fn on_read(&mut self, now: Time, delivered: u64, held: u64) {
        if let Some(growth) = &mut self.growth {
            growth.on_read(now, delivered, held);
        }
    }

    /// The receiver's own retransmission timeout after its handshake (RFC 6298 §2.2, with Linux's floor of the variance).
    fn timeout(&self) -> Span {
        let rtt = self.first_rtt.unwrap_or_default();
        rtt + (rtt * 2).max(RTO_MIN)
    }
}

/// How Linux lets a receive window grow: by two segments for each that comes, up to what its buffer holds; and the buffer with what
/// the application reads in a round trip (dynamic right-sizing). The window that the simulator advertises is the whole buffer from
/// the start; this one only says which acknowledgements are quick.
#[derive(Debug)]
struct Growth {
    mss: u64,
    /// Bytes (`rcv_ssthresh`).
    window: u64,
    /// What the buffer holds of such segments (`tcp_full_space`), at most `most`.
    limit: u64,
    most: u64,
    /// The last clock reading that was echoed, and the RTT in eighths of it (`rcv_rtt_est`).
    echo: Time,
    rtt: Option<Span>,
    /// Bytes read in the last round trip (`rcvq_space`), where and when this one began.
    space: u64,
    read: u64,
    began: Option<Time>,
}

/// Bytes of the receive buffer at the start (`net.ipv4.tcp_rmem`).
const RMEM: u64 = 131_072;
/// Memory that a full segment of an Ethernet takes: half a page for the frame, the rest for its description (`skb->truesize`).
const FRAME: u64 = 2048;
const DESCRIPTION: u64 = 256;
/// The window at the start is half the buffer (`TCP_DEFAULT_SCALING_RATIO`) in whole segments (`tcp_select_initial_window`).
const FIRST_WINDOW: u64 = 65_535;
/// Segments that a sender is taken to send in the first round trip (`TCP_INIT_CWND`).
const FIRST_READ: u64 = 10;

impl Growth {
    fn new(mss: u32, buffer: u64) -> Growth {
        let mss = u64::from(mss);
        let window = FIRST_WINDOW / mss * mss;
        let truesize = mss.div_ceil(FRAME) * FRAME + DESCRIPTION;
        // tcp_measure_rcv_mss: in units of 1/256.
        let ratio = mss * 256 / truesize;
        Growth {
            mss,
            window: window.min(buffer),
            limit: (RMEM * ratio / 256).min(buffer),
            most: buffer,
            echo: Time::ZERO,
            rtt: None,
            space: (FIRST_READ * mss).min(window),
            read: 0,
            began: None,
        }
    }

    /// `tcp_rcv_rtt_measure_ts`: a sample for each clock reading.
    fn on_echo(&mut self, now: Time, echo: Time) {
        self.began.get_or_insert(now);
        if echo == self.echo {
            return;
        }
        self.echo = echo;
        let sample = now.since(echo);
        // tcp_rcv_rtt_update
        self.rtt = Some(match self.rtt {
            Some(rtt) if sample > rtt => rtt - rtt / 8 + sample / 8,
            _ => sample,
        });
    }

    /// Whether it grew. The segment itself still takes its place in the buffer.
    fn grow(&mut self) -> bool {
        let room = self.limit.saturating_sub(self.mss + self.window);
        self.window += room.min(2 * self.mss);
        room > 0
    }

    /// `tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`.
    fn on_read(&mut self, now: Time, delivered: u64, held: u64) {
        let (Some(rtt), Some(began)) = (self.rtt, self.began) else { return };
        if now.since(began) < rtt {
            return;
        }
        let copied = delivered - self.read;
        (self.began, self.read) = (Some(now), delivered);
        if copied <= self.space {
            return;
        }
        let window = 2 * copied;
        let more = u128::from(window) * u128::from(copied - self.space) / u128::from(self.space);
        let wanted = window + 2 * more as u64 + held;
        self.space = copied;
        self.limit = self.limit.max(wanted.min(self.most));
    }
}

#[cfg(test)]
impl Quick {
    /// The window as Linux would have it.
    pub fn window(&self) -> u64 {
        self.growth.as_ref().map_or(0, |growth| growth.window)
    }
}
