//! A device's own queue below a discipline: a short FIFO that is kept full. The discipline does not see what waits in it,
//! as ns-3's and real drivers' do not: the real buffer is the discipline's plus this.

use lowtide_units::Time;

use crate::queue::{Drop, Fifo, Packet, Queue};

/// A discipline with a device queue below it.
pub(crate) struct Device<P> {
    discipline: Box<dyn Queue<P>>,
    ring: Fifo<P>,
    size: usize,
}

impl<P: Packet> Device<P> {
    pub fn new(discipline: Box<dyn Queue<P>>, size: usize) -> Device<P> {
        Device { discipline, ring: Fifo::default(), size }
    }

    fn fill(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) {
        while self.ring.packets() < self.size {
            let Some(packet) = self.discipline.dequeue(now, dropped) else { return };
            self.ring.push(packet);
        }
    }
}

impl<P: Packet + Send> Queue<P> for Device<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<(P, Drop)>) {
        self.discipline.enqueue(packet, now, dropped);
        self.fill(now, dropped);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        let next = self.ring.pop()?;
        self.fill(now, dropped);
        Some(next)
    }

    fn bytes(&self) -> u64 {
        self.discipline.bytes() + self.ring.bytes()
    }

    fn packets(&self) -> usize {
        self.discipline.packets() + self.ring.packets()
    }

    fn marks(&self) -> u64 {
        self.discipline.marks()
    }
}
