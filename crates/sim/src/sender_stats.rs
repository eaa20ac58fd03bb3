//! What a sender counts, and what it notes of each transmission for who watches. Knows no transport.

/// Counters of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Segments sent again.
    pub retransmits: u64,
    /// Segments declared lost.
    pub losses: u64,
    /// Acknowledgements that the congestion control was told of.
    pub acks: u64,
    /// Reductions given back.
    pub undone: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Times the congestion control was told of congestion.
    pub episodes: u64,
}

/// What became of a transmission, for who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It left.
    Sent {
        /// The how-manieth transmission it is.
        order: u32,
        /// The segment.
        seq: u32,
        /// Its payload.
        len: u32,
    },
    /// The receiver has the segment.
    Delivered {
        /// Its last transmission.
        order: u32,
    },
    /// It was given up.
    Lost {
        /// Its last transmission.
        order: u32,
    },
}
