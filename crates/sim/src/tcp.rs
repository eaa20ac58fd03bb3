//! TCP endpoints without I/O: what to send, when to acknowledge, what is lost. They are told the time, hand out packets and
//! know nothing of links or of the event queue.

pub mod halving;
pub mod pace;
pub mod prr;
pub mod rack;
pub mod rate;
pub mod receiver;
pub mod rto;
pub mod sack;
pub mod sender;
pub mod undo;
pub mod usage;

#[cfg(test)]
mod tests;
