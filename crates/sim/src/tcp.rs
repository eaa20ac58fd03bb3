//! TCP endpoints without I/O: what to send, when to acknowledge, what is lost. They are told the time, hand out packets and
//! know nothing of links or of the event queue.
//!
//! The default is Linux's TCP (6.18); functions name the one of `net/ipv4` that they follow. `LossRecovery` selects what the RFCs say
//! instead.

pub mod pace;
pub mod prr;
pub mod rack;
pub mod rate;
pub mod receiver;
pub mod rto;
pub mod scoreboard;
pub mod sender;
pub mod undo;
pub mod usage;

#[cfg(test)]
mod tests;
