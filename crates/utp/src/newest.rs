//! libutp-mod's rule that finds lost retransmissions (Al-Saadi 2018, sec. IV-B): a packet that left before the newest packet known to
//! have arrived, and has not arrived, is lost, however often it was sent. Knows no packets but by the order in which they left.

/// The newest transmission known to have arrived: the paper's maxTA.
///
/// The paper takes times. Here every transmission has a number, a clock without ties: the paper's "greater than" and its program's "not
/// less than" are the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewestArrival(u64);

impl NewestArrival {
    /// Transmission `order` has arrived.
    pub(crate) fn arrived(&mut self, order: u64) {
        self.0 = self.0.max(order);
    }

    /// Whether something that left after transmission `order` has arrived.
    pub(crate) fn overtook(self, order: u64) -> bool {
        self.0 > order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_left_later_overtakes() {
        let mut newest = NewestArrival::default();
        assert!(!newest.overtook(1), "nothing has arrived");
        newest.arrived(5);
        newest.arrived(3);
        assert!(newest.overtook(4) && !newest.overtook(5) && !newest.overtook(6));
    }
}
