//! `TcpHighSpeed` of ns-3.37 (`tcp-highspeed.cc`), on `TcpNewReno`: RFC 3649's table, appendix B, for a and for b.

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState};

/// (w, 100·b): up to w segments `TableLookupB`; `TableLookupA` is the number of the row, from 1.
#[rustfmt::skip]
const TABLE: [(u32, u32); 73] = [
    (38, 50), (118, 44), (221, 41), (347, 38), (495, 37), (663, 35), (851, 34), (1058, 33), (1284, 32), (1529, 31), (1793, 30),
    (2076, 29), (2378, 28), (2699, 28), (3039, 27), (3399, 27), (3778, 26), (4177, 26), (4596, 25), (5036, 25), (5497, 24), (5979,
    24), (6483, 23), (7009, 23), (7558, 22), (8130, 22), (8726, 22), (9346, 21), (9991, 21), (10661, 21), (11358, 20), (12082, 20),
    (12834, 20), (13614, 19), (14424, 19), (15265, 19), (16137, 19), (17042, 18), (17981, 18), (18955, 18), (19965, 17), (21013, 17),
    (22101, 17), (23230, 17), (24402, 16), (25618, 16), (26881, 16), (28193, 16), (29557, 15), (30975, 15), (32450, 15), (33986, 15),
    (35586, 14), (37253, 14), (38992, 14), (40808, 14), (42707, 13), (44694, 13), (46776, 13), (48961, 13), (51258, 13), (53667, 12),
    (56230, 12), (58932, 12), (61799, 12), (64851, 11), (68113, 11), (71617, 11), (75401, 10), (79517, 10), (84035, 10), (89053, 10),
    (94717, 9)
];
/// Beyond the table (`TableLookupA`, `TableLookupB`).
const LAST: (u32, u32) = (73, 9);

fn row(window: u32) -> (u32, u32) {
    TABLE.iter().position(|(w, _)| window <= *w).map_or(LAST, |at| (at as u32 + 1, TABLE[at].1))
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighSpeed {
    /// `m_ackCnt`.
    count: u32,
}

impl CongestionOps for HighSpeed {
    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        NewReno::increase(tcb, segments, |tcb, segments| {
            let before = tcb.segments().max(1);
            let mut window = before;
            self.count += segments * row(window).0;
            while self.count >= window {
                self.count -= window;
                window += 1;
            }
            if window != before {
                tcb.cwnd = window * tcb.segment;
            }
        });
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        let flight = bytes_in_flight / tcb.segment;
        let left = 1.0 - f64::from(row(flight).1) / 100.0;
        (f64::from(flight) * left).max(2.0) as u32 * tcb.segment
    }
}
