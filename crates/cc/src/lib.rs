//! Congestion controls as sans-I/O objects: one contract ([`Controller`]), one file an algorithm, one [`registry`].
//!
//! The host (the simulator's TCP, uTP, QUIC, a test) owns time, segments, RTT estimation, loss detection, episodes, PRR,
//! rate sampling and pacing; an algorithm owns its window. No algorithm knows its host.
//!
//! # Driving one
//!
//! Make it by name, tell it of each acknowledgement and of the start of each congestion episode, and obey what it says:
//!
//! ```
//! use lowtide_cc::{Ack, Cause, Congestion, Params, Span, Start, Time, registry};
//!
//! let params = Params::from_toml("target_ms = 40")?;
//! let start = Start { mss: 1448, ..Start::default() };
//! let mut cc = registry::by_name("ledbat_pp")?.build(&params, &start)?;
//!
//! let (rtt, mut now, mut delivered) = (Span::from_millis(50), Time::ZERO, 0);
//! for _ in 0..6 {
//!     // A window leaves, and a round trip later it is acknowledged at once.
//!     let window = cc.cwnd();
//!     now += rtt;
//!     let prior_delivered = delivered;
//!     delivered += window;
//!     cc.on_ack(&Ack {
//!         now,
//!         acked: window,
//!         in_flight: window,
//!         rtt: Some(rtt),
//!         srtt: rtt,
//!         delivered,
//!         prior_delivered,
//!         cwnd_limited: true,
//!         ..Ack::default()
//!     });
//! }
//! // Slow start by 1 + GAIN a round trip; GAIN is 1/2, two targets being 80 ms and the base RTT 50.
//! assert_eq!(cc.cwnd() / 1448, (2.0 * 1.5_f64.powi(6)) as u64);
//! assert_eq!(cc.snapshot().phase, "slow_start");
//! assert!(cc.pacing_rate().is_none(), "it leaves pacing to the host; BBR does not");
//!
//! let before = cc.cwnd();
//! cc.on_congestion(&Congestion { now, cause: Cause::Loss, lost: 1448, in_flight: before, srtt: rtt });
//! assert_eq!(cc.cwnd(), before / 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a host cannot measure it leaves at the [`Ack`]'s default. LEDBAT, libutp and TCP-LP need one-way delays, BBR needs
//! delivery rates; no other algorithm asks for either. What a host must do is in [`Controller`], in the order it must do it.
//!
//! # Where to look
//!
//! - [`registry`]: every algorithm and profile with its source; [`Params`] are TOML, the `Config` of the algorithm's module.
//! - [`reno_base`]: what the window-based best-effort algorithms share; each is a [`Law`](reno_base::Law) of a page on it.
//! - [`delay`], [`round`]: the base- and current-delay filters, and packet-timed rounds.
//! - [`rledbat`]: the other way round, a receiver that holds its sender back through the receive window.
//! - [`scavenger`] and [`best_effort`]: the algorithms, by role. Profiles called `-linux` follow Linux where it differs from the text
//!   that it implements. What imitates a simulator or somebody's published code is in the crate `lowtide-replicas`.

pub mod best_effort;
pub mod controller;
pub mod delay;
pub mod events;
pub mod params;
pub mod registry;
pub mod reno_base;
pub mod rledbat;
pub mod round;
pub mod scavenger;

pub use controller::{Controller, Recovery, Start};
pub use events::{Ack, Cause, Congestion, RateSample, Restart, Snapshot};
pub use lowtide_units::{Rate, Span, Time};
pub use params::{ParamError, Params};
