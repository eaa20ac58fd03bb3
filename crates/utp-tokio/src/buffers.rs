//! Payload between the application and the packets: what was written and is not acknowledged, what was received and is not read.
//! Knows lengths and offsets, no protocol.

use std::collections::{BTreeMap, VecDeque};

/// An idle connection gives back more than this.
const FEW: usize = 512;

/// What was written, from the oldest byte not acknowledged on.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    bytes: VecDeque<u8>,
    /// The stream's offset of the first.
    base: u64,
}

impl Sending {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// What lies in front of `offset` is not needed any more.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        let known = (offset.saturating_sub(self.base) as usize).min(self.bytes.len());
        self.bytes.drain(..known);
        self.base += known as u64;
    }

    /// Whether the byte at `offset`, which was written, is still here.
    pub(crate) fn has(&self, offset: u64) -> bool {
        offset >= self.base
    }

    /// Copies the `len` bytes from `offset` on to the end of `out`.
    pub(crate) fn copy(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let from = (offset - self.base) as usize;
        let (front, back) = self.bytes.as_slices();
        let in_front = front.get(from..).unwrap_or_default();
        let first = in_front.len().min(len);
        out.extend_from_slice(&in_front[..first]);
        let skipped = from.saturating_sub(front.len());
        out.extend_from_slice(&back[skipped..skipped + len - first]);
    }

    pub(crate) fn rest(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > FEW {
            self.bytes = VecDeque::new();
        }
    }
}

/// What was received: in order and not read, and behind a hole.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    ready: VecDeque<u8>,
    held: BTreeMap<u16, Box<[u8]>>,
}

impl Receiving {
    /// Bytes to be read.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// A packet's payload that is next in order, and the `released` packets behind it.
    pub(crate) fn push(&mut self, seq: u16, payload: &[u8], released: u16) {
        self.ready.extend(payload);
        for n in 1..=released {
            if let Some(held) = self.held.remove(&seq.wrapping_add(n)) {
                self.ready.extend(&held);
            }
        }
    }

    pub(crate) fn hold(&mut self, seq: u16, payload: &[u8]) {
        self.held.insert(seq, payload.into());
    }

    /// Moves what is ready into `into`, as far as both go; how much.
    pub(crate) fn read(&mut self, into: &mut tokio::io::ReadBuf<'_>) -> usize {
        let mut moved = 0;
        let (front, back) = self.ready.as_slices();
        for part in [front, back] {
            let n = part.len().min(into.remaining());
            into.put_slice(&part[..n]);
            moved += n;
        }
        self.ready.drain(..moved);
        moved
    }

    pub(crate) fn clear(&mut self) {
        *self = Receiving::default();
    }

    pub(crate) fn rest(&mut self) {
        if self.ready.is_empty() && self.ready.capacity() > FEW {
            self.ready = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_across_the_end_of_the_ring() {
        let mut sending = Sending::default();
        let stream: Vec<u8> = (0..100_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
        let mut written = 0;
        for (acked, write) in [(0, 1500), (1400, 1000), (2400, 1490), (3000, 60), (3900, 1480)] {
            sending.forget_before(acked);
            sending.push(&stream[written..written + write]);
            written += write;
            for (from, to) in [(acked as usize, written), (acked as usize + 1, written - 1), (written - 3, written)] {
                let mut out = Vec::new();
                sending.copy(from as u64, to - from, &mut out);
                assert_eq!(out, stream[from..to], "{acked} {from} {to}");
            }
        }
        sending.forget_before(written as u64);
        sending.rest();
        assert_eq!((sending.len(), sending.bytes.capacity()), (0, 0));
    }
}
