//! `TcpTxBuffer` (`tcp-tx-buffer.cc`): what was written, what of it was sent and what became of it, with SACK. Items are whole segments,
//! numbered from zero, so that none is ever split or merged. Knows no window but the peer's.

use std::collections::VecDeque;

use lowtide_units::Time;

use super::rate::RateInformation;
use crate::sender_stats::Note;

/// `m_dupAckThresh`.
const DUP_ACK_THRESH: u32 = 3;

/// Flags of an item: `m_sacked`, `m_lost`, `m_retrans`.
const SACKED: u8 = 1;
const LOST: u8 = 2;
const RETRANS: u8 = 4;

/// `TcpTxItem`, but for its flags.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxItem {
    /// Payload bytes.
    pub len: u32,
    /// `m_lastSent`.
    pub last_sent: Time,
    /// `m_rateInfo`.
    pub rate: RateInformation,
    /// The how-manieth transmission it was.
    order: u32,
}

/// The buffer of one socket.
#[derive(Debug)]
pub struct TxBuffer {
    segment: u32,
    /// `m_firstByteSeq`, in segments.
    head: u32,
    /// `m_sentList` and its items' flags.
    sent: VecDeque<TxItem>,
    flags: VecDeque<u8>,
    /// `m_sentSize`.
    sent_size: u64,
    /// Bytes written and not sent. `m_appList` holds what of them fits into the buffer beside what was sent.
    app: u64,
    /// `m_maxBuffer`.
    max_buffer: u64,
    /// `m_sackedOut`, `m_lostOut`, `m_retrans`.
    sacked_out: u32,
    lost_out: u32,
    retrans: u32,
    /// `m_highestSack`.
    highest_sack: Option<u32>,
    /// Items that are lost and not sent again, and the lowest that may be one.
    waiting: u32,
    waiting_from: u32,
    /// Items marked as lost so far; transmissions so far.
    losses: u64,
    transmissions: u32,
    notes: Option<Vec<Note>>,
}

impl TxBuffer {
    /// An empty buffer of `max_buffer` bytes for segments of `segment`.
    pub fn new(segment: u32, max_buffer: u64) -> TxBuffer {
        TxBuffer {
            segment,
            head: 0,
            sent: VecDeque::new(),
            flags: VecDeque::new(),
            sent_size: 0,
            app: 0,
            max_buffer,
            sacked_out: 0,
            lost_out: 0,
            retrans: 0,
            highest_sack: None,
            waiting: 0,
            waiting_from: 0,
            losses: 0,
            transmissions: 0,
            notes: None,
        }
    }

    /// `HeadSequence`.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The segment after the last one sent: `m_highTxMark`.
    pub fn high_tx(&self) -> u32 {
        self.head + self.sent.len() as u32
    }

    /// `m_sentSize`.
    pub fn sent_size(&self) -> u64 {
        self.sent_size
    }

    /// Whether nothing is left to send or to be acknowledged (`Size` is zero).
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.app == 0
    }

    /// The application writes without end.
    pub fn is_bulk(&self) -> bool {
        self.app > u64::MAX / 2
    }

    /// Bytes written and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.app.saturating_add(self.sent_size)
    }

    /// `Add`. What the buffer does not hold is taken in when it has room, as by an application that writes a segment at a time until one is
    /// refused.
    pub fn add(&mut self, bytes: u64) {
        self.app = self.app.saturating_add(bytes);
    }

    /// The application takes back what was not sent.
    pub fn take_back(&mut self) {
        self.app = 0;
    }

    /// Bytes in the buffer that were not sent (`SizeFromSequence` of what comes next). `Add` refuses a packet that does not fit in whole, so
    /// that of a transfer that is longer than the room (`Available`) only whole segments are in it.
    pub fn unsent(&self) -> u64 {
        let available = self.max_buffer.saturating_sub(self.sent_size);
        if self.app <= available { self.app } else { available - available % u64::from(self.segment) }
    }

    /// Bytes in the buffer from `seq` on (`SizeFromSequence`).
    pub fn size_from(&self, seq: u32) -> u64 {
        u64::from(self.high_tx() - seq) * u64::from(self.segment) + self.unsent()
    }

    /// Nothing was written after `seq`.
    pub fn is_last(&self, seq: u32) -> bool {
        seq + 1 == self.high_tx() && self.app == 0
    }

    /// `GetLost`.
    pub fn lost_out(&self) -> u32 {
        self.lost_out
    }

    /// `GetRetransmitsCount`.
    pub fn retransmits(&self) -> u32 {
        self.retrans
    }

    /// Segments marked as lost so far.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// `BytesInFlight`.
    pub fn bytes_in_flight(&self) -> u32 {
        (self.sent_size - u64::from(self.sacked_out + self.lost_out) + u64::from(self.retrans)) as u32
    }

    /// `CopyFromSequence`: segment `seq` leaves, of `len` bytes if it is new. Whether it was sent before.
    pub fn copy_from_sequence(&mut self, seq: u32, len: u32, now: Time) -> bool {
        let again = seq < self.high_tx();
        if again {
            self.set(seq, self.flag(seq) | RETRANS);
        } else {
            self.app -= u64::from(len);
            self.sent_size += u64::from(len);
            self.sent.push_back(TxItem { len, ..TxItem::default() });
            self.flags.push_back(0);
        }
        self.transmissions += 1;
        let order = self.transmissions;
        let item = self.item_mut(seq);
        (item.last_sent, item.order) = (now, order);
        self.note(seq, |order, seq, len| Note::Sent { order, seq, len });
        again
    }

    /// An item that was sent.
    pub fn item_mut(&mut self, seq: u32) -> &mut TxItem {
        let at = self.index(seq);
        &mut self.sent[at]
    }

    /// `IsRetransmittedDataAcked` for the end of segment `seq`.
    pub fn is_retransmitted(&self, seq: u32) -> bool {
        let flags = (seq - self.head < self.sent.len() as u32).then(|| self.flag(seq));
        flags.is_some_and(|flags| flags & (SACKED | RETRANS) == RETRANS)
    }

    /// `IsHeadRetransmitted`.
    pub fn is_head_retransmitted(&self) -> bool {
        self.flags.front().is_some_and(|flags| flags & RETRANS != 0)
    }

    /// `DiscardUpTo`; `before_delete` is `beforeDelCb`. Returns the bytes by which the head moved.
    pub fn discard_up_to(&mut self, seq: u32, mut before_delete: impl FnMut(&mut TxItem)) -> u32 {
        let mut bytes = 0;
        while self.head < seq
            && let Some(mut item) = self.sent.pop_front()
        {
            if self.flags[0] & SACKED == 0 {
                self.write_note(item, self.head, |order, _, _| Note::Delivered { order });
            }
            self.recount(self.flags[0], 0, item.len);
            self.flags.pop_front();
            self.sent_size -= u64::from(item.len);
            self.head += 1;
            bytes += item.len;
            before_delete(&mut item);
        }
        if self.flags.front().is_some_and(|flags| flags & SACKED != 0) {
            // The receiver has reneged.
            self.mark_head_as_lost();
        }
        self.highest_sack = self.highest_sack.filter(|highest| *highest > self.head);
        bytes
    }

    /// `Update`; `sacked` is `sackedCb`. Returns the bytes that are news.
    pub fn update(&mut self, blocks: &[(u32, u32)], mut sacked: impl FnMut(&mut TxItem)) -> u32 {
        let mut bytes = 0;
        for &(from, to) in blocks {
            if self.high_tx() < from {
                break;
            }
            for seq in from.max(self.head)..to.min(self.high_tx()) {
                if self.flag(seq) & SACKED != 0 {
                    continue;
                }
                self.set(seq, (self.flag(seq) & !LOST) | SACKED);
                self.note(seq, |order, _, _| Note::Delivered { order });
                // An item just below the highest takes its place, too.
                if self.highest_sack.is_none_or(|highest| highest <= seq + 1) {
                    self.highest_sack = Some(seq);
                }
                let item = self.item_mut(seq);
                bytes += item.len;
                sacked(item);
            }
        }
        if bytes > 0 {
            self.update_lost_count();
        }
        bytes
    }

    /// `UpdateLostCount`: what lies below the third item SACKed, counted from the highest down, is lost.
    fn update_lost_count(&mut self) {
        let Some(highest) = self.highest_sack else { return };
        let mut sacked = 0;
        for seq in (self.head + 1..=highest).rev() {
            let flags = self.flag(seq);
            sacked += u32::from(flags & SACKED != 0);
            if sacked >= DUP_ACK_THRESH && flags & (SACKED | LOST) == 0 {
                self.set(seq, flags | LOST);
            }
        }
        if sacked >= DUP_ACK_THRESH && self.flags[0] & LOST == 0 {
            self.set(self.head, self.flags[0] | LOST);
        }
    }

    /// `IsLost`: of the items from `seq` on a lost one comes before a SACKed one.
    pub fn is_lost(&self, seq: u32) -> bool {
        if self.highest_sack.is_none_or(|highest| seq >= highest) {
            return false;
        }
        let from = self.index(seq.max(self.head));
        let decides = self.flags.range(from..).find(|flags| **flags & (LOST | SACKED) != 0);
        decides.is_some_and(|flags| flags & LOST != 0)
    }

    /// `NextSeg`, with `rule3` for its `isRecovery`: a segment and how many bytes of it may leave.
    pub fn next_seg(&mut self, r_wnd: u64, rule3: bool) -> Option<(u32, u32)> {
        if self.waiting > 0 {
            let from = self.index(self.waiting_from.max(self.head));
            let offset = self.flags.range(from..).position(|flags| is_waiting(*flags));
            if let Some(offset) = offset {
                self.waiting_from = self.head + (from + offset) as u32;
                return Some((self.waiting_from, self.segment));
            }
        }
        if self.unsent() > 0 {
            let room = r_wnd.checked_sub(self.sent_size)?;
            return Some((self.high_tx(), room.min(u64::from(self.segment)) as u32));
        }
        let untouched = if rule3 { self.flags.iter().position(|flags| flags & (SACKED | RETRANS) == 0) } else { None };
        untouched.map(|at| (self.head + at as u32, self.segment))
    }

    /// `SetSentListLost(false)`: the timer has expired.
    pub fn set_sent_list_lost(&mut self) {
        for seq in self.head..self.high_tx() {
            let flags = self.flag(seq) & !RETRANS;
            self.set(seq, if flags & SACKED == 0 { flags | LOST } else { flags });
        }
    }

    /// `MarkHeadAsLost`.
    pub fn mark_head_as_lost(&mut self) {
        if !self.sent.is_empty() {
            self.set(self.head, LOST);
        }
    }

    fn index(&self, seq: u32) -> usize {
        (seq - self.head) as usize
    }

    fn flag(&self, seq: u32) -> u8 {
        self.flags[self.index(seq)]
    }

    fn set(&mut self, seq: u32, flags: u8) {
        let at = self.index(seq);
        let before = std::mem::replace(&mut self.flags[at], flags);
        self.recount(before, flags, self.sent[at].len);
        if is_waiting(flags) {
            self.waiting_from = self.waiting_from.min(seq);
        }
        if flags & LOST > before & LOST {
            self.losses += 1;
            self.note(seq, |order, _, _| Note::Lost { order });
        }
    }

    fn recount(&mut self, before: u8, after: u8, len: u32) {
        let moved = |count: u32, flag: u8| match (before & flag != 0, after & flag != 0) {
            (false, true) => count + len,
            (true, false) => count - len,
            _ => count,
        };
        self.sacked_out = moved(self.sacked_out, SACKED);
        self.lost_out = moved(self.lost_out, LOST);
        self.retrans = moved(self.retrans, RETRANS);
        self.waiting = self.waiting + u32::from(is_waiting(after)) - u32::from(is_waiting(before));
    }

    /// What happened since the last call; the first call begins it.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.replace(Vec::new()).unwrap_or_default()
    }

    fn note(&mut self, seq: u32, note: fn(u32, u32, u32) -> Note) {
        if self.notes.is_some() {
            self.write_note(self.sent[self.index(seq)], seq, note);
        }
    }

    fn write_note(&mut self, item: TxItem, seq: u32, note: fn(u32, u32, u32) -> Note) {
        if let Some(notes) = &mut self.notes {
            notes.push(note(item.order, seq, item.len));
        }
    }
}

/// Lost, and not sent again since.
fn is_waiting(flags: u8) -> bool {
    flags & (SACKED | LOST | RETRANS) == LOST
}

#[cfg(test)]
mod tests;
