//! What can happen in the world, and its code in the event queue. Knows nobody that it happens to.

use crate::engine::Code;

/// What happens to whom: a number of a flow or a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A transmitter becomes free.
    Free(u32),
    /// The rate of a stage's link changes.
    Rate(u32),
    /// Something arrives behind a stage.
    Arrive(u32),
    /// A flow begins.
    Begin(u32),
    /// A flow's sending time is over.
    End(u32),
    /// The application of a flow acts.
    App(u32),
    /// The handshake of a flow waited long enough.
    Syn(u32),
    /// The timer of a sending end.
    Sender(u32),
    /// The timer of a receiving end.
    Receiver(u32),
    /// The observer looks.
    Sample,
}

/// Four bits say what happens, the others of whom: flows and stages are fewer than 2^28.
const ID_BITS: u32 = 28;

impl Code for Event {
    fn encode(self) -> u32 {
        let (kind, id) = match self {
            Event::Free(stage) => (0, stage),
            Event::Rate(stage) => (1, stage),
            Event::Arrive(stage) => (2, stage),
            Event::Begin(flow) => (3, flow),
            Event::End(flow) => (4, flow),
            Event::App(flow) => (5, flow),
            Event::Syn(flow) => (6, flow),
            Event::Sender(flow) => (7, flow),
            Event::Receiver(flow) => (8, flow),
            Event::Sample => (9, 0),
        };
        debug_assert!(id < 1 << ID_BITS, "{self:?}");
        kind << ID_BITS | id
    }

    fn decode(code: u32) -> Event {
        let id = code & ((1 << ID_BITS) - 1);
        match code >> ID_BITS {
            0 => Event::Free(id),
            1 => Event::Rate(id),
            2 => Event::Arrive(id),
            3 => Event::Begin(id),
            4 => Event::End(id),
            5 => Event::App(id),
            6 => Event::Syn(id),
            7 => Event::Sender(id),
            8 => Event::Receiver(id),
            _ => Event::Sample,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_decoded_as_what_it_was() {
        let most = (1 << ID_BITS) - 1;
        for id in [0, 1, 65_535, most] {
            for event in [
                Event::Free(id),
                Event::Rate(id),
                Event::Arrive(id),
                Event::Begin(id),
                Event::End(id),
                Event::App(id),
                Event::Syn(id),
                Event::Sender(id),
                Event::Receiver(id),
                Event::Sample,
            ] {
                assert_eq!(Event::decode(event.encode()), event);
            }
        }
    }
}
