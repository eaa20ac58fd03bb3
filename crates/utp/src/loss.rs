//! What a selective acknowledgement says is lost, and what of that is sent again (libutp `selective_ack`; Al-Saadi 2018, sec. IV-B). Knows no windows.

use crate::config::Repair;
use crate::header::Sack;
use crate::outgoing::{MOST, Outgoing};
use crate::seq::ahead;

/// DUPLICATE_ACKS_BEFORE_RESEND: packets known to have arrived behind a lost one.
const ENOUGH: u32 = 3;
/// Packets looked at per acknowledgement.
const MOST_REPAIRS: u32 = 4;

/// Which packets may still be repaired.
#[derive(Debug)]
pub(crate) struct Repairs {
    rule: Repair,
    /// `fast_resend_seq_nr`: packets before this one have been sent again.
    pub from: u16,
}

impl Repairs {
    pub(crate) fn new(rule: Repair, first: u16) -> Repairs {
        Repairs { rule, from: first }
    }

    /// Queues what `sack`, sent with the acknowledgement of `ack`, shows to be lost; the bytes of it that count as a loss. What
    /// the mask reports has been acknowledged before.
    pub(crate) fn on_sack(&mut self, out: &mut Outgoing, ack: u16, sack: Sack) -> u64 {
        let Some(reach) = reach(out, ack, sack) else { return 0 };
        let mut looked_at = 0;
        let mut lost = 0;
        // Packet ack + 1 first: an acknowledgement without it is what makes the mask be sent at all.
        let missing = std::iter::once(ack.wrapping_add(1)).chain((0..reach).filter(|&k| !sack.has(k)).map(|k| packet(ack, k)));
        for seq in missing {
            let Some(&sent) = out.get(seq).filter(|sent| sent.transmissions > 0) else { continue };
            if usize::from(ahead(self.from, seq)) > MOST {
                continue;
            }
            let again = match self.rule {
                Repair::Once => true,
                Repair::ByTime => sent.transmissions == 1 || out.overtaken(&sent),
            };
            if again && !sent.queued {
                out.queue(seq);
                // A lost retransmission is no second sign of congestion.
                let counts = (self.rule == Repair::Once || sent.transmissions == 1) && !sent.probe;
                lost += if counts { u64::from(sent.len).max(1) } else { 0 };
            }
            if self.rule == Repair::Once {
                self.from = seq.wrapping_add(1);
            }
            looked_at += 1;
            if looked_at == MOST_REPAIRS {
                break;
            }
        }
        lost
    }
}

fn packet(ack: u16, k: u16) -> u16 {
    ack.wrapping_add(2).wrapping_add(k)
}

/// Below this bit of the mask enough packets are known to have arrived behind. Bits of packets that are not outstanding are noise.
fn reach(out: &Outgoing, ack: u16, sack: Sack) -> Option<u16> {
    let outstanding = |k: u16| (1..out.len()).contains(&ahead(out.first(), packet(ack, k)));
    let mut count = 0;
    (0..sack.len()).rev().find(|&k| {
        count += u32::from(sack.has(k) && outstanding(k));
        count == ENOUGH
    })
}

#[cfg(test)]
mod tests {
    use lowtide_units::Time;

    use super::*;
    use crate::header::Kind;
    use crate::outgoing::Tally;

    /// Packets 101 to 140 have left.
    fn outgoing() -> Outgoing {
        let mut out = Outgoing::new(101);
        for n in 0..40 {
            let seq = out.push(Kind::Data, 1000, n * 1000);
            out.transmit(seq, Time::from_millis(n));
        }
        out
    }

    /// What an acknowledgement of 100 with `mask` makes leave again, and the bytes that count as lost.
    fn repaired(repairs: &mut Repairs, out: &mut Outgoing, mask: u32) -> (Vec<u16>, u64) {
        let sack = Sack::from_mask(mask);
        for k in (0..sack.len()).filter(|&k| sack.has(k)) {
            out.ack(packet(100, k), Time::from_millis(60), &mut Tally::default());
        }
        let lost = repairs.on_sack(out, 100, sack);
        let mut again = Vec::new();
        while let Some(seq) = out.next_queued() {
            out.transmit(seq, Time::from_millis(60));
            again.push(seq);
        }
        (again, lost)
    }

    /// three packets behind the hole repair it, once.
    #[test]
    fn libutp_repairs_a_packet_once() {
        let (mut out, mut repairs) = (outgoing(), Repairs::new(Repair::Once, 101));
        assert_eq!(repaired(&mut repairs, &mut out, 0b011), (vec![], 0));
        assert_eq!(repaired(&mut repairs, &mut out, 0b111), (vec![101], 1000));
        for _ in 0..10 {
            assert_eq!(repaired(&mut repairs, &mut out, 0xff), (vec![], 0));
        }
    }

    #[test]
    fn libutp_mod_repairs_again_what_a_later_packet_overtook() {
        let (mut out, mut repairs) = (outgoing(), Repairs::new(Repair::ByTime, 101));
        assert_eq!(repaired(&mut repairs, &mut out, 0b111), (vec![101], 1000));
        // Packets sent before the retransmission say nothing about it.
        assert_eq!(repaired(&mut repairs, &mut out, 0xff), (vec![], 0));
        // One sent after it does, and it is no second loss.
        let later = out.push(Kind::Data, 1000, 40_000);
        out.transmit(later, Time::from_millis(70));
        out.ack(later, Time::from_millis(90), &mut Tally::default());
        assert_eq!(repaired(&mut repairs, &mut out, 0xff), (vec![101], 0));
    }

    /// `00 00 00 0e`: 26 holes below three set bits, four repairs per acknowledgement.
    #[test]
    fn four_repairs_an_acknowledgement_from_the_lowest() {
        let (mut out, mut repairs) = (outgoing(), Repairs::new(Repair::Once, 101));
        for from in [101, 105, 109] {
            assert_eq!(repaired(&mut repairs, &mut out, 0x0e00_0000), ((from..from + 4).collect(), 4000));
        }
        // The mod looks at the four lowest only, sent again or not.
        let (mut out, mut repairs) = (outgoing(), Repairs::new(Repair::ByTime, 101));
        assert_eq!(repaired(&mut repairs, &mut out, 0x0e00_0000).0, [101, 102, 103, 104]);
        assert_eq!(repaired(&mut repairs, &mut out, 0x0e00_0000), (vec![], 0));
    }

    #[test]
    fn bits_beyond_what_was_sent_count_for_nothing() {
        let (mut out, mut repairs) = (Outgoing::new(101), Repairs::new(Repair::Once, 101));
        for n in 0..3 {
            let seq = out.push(Kind::Data, 1000, n * 1000);
            out.transmit(seq, Time::ZERO);
        }
        assert_eq!(repaired(&mut repairs, &mut out, u32::MAX), (vec![], 0), "two packets behind, not three");
    }
}
