//! A Wi-Fi link's times: what an 802.11n station sends at once, how long that takes, and how long it waits for the channel. Knows no
//! queue and no packet.
//!
//! The analytical model of Høiland-Jørgensen et al., "Ending the Anomaly: Achieving Low Latency and Airtime Fairness in WiFi" (USENIX
//! ATC 2017, §2.2.1, after Kim et al.): packets that wait leave together as one A-MPDU; its airtime is the preamble, the frames with
//! their overhead at the PHY's rate, and the block acknowledgement; between two of them lie the inter-frame space and the backoff.
//! Added to it: other stations with as much to send as may be, each of which wins the channel as often as this one (Bianchi 2000:
//! access is fair in transmissions), without collisions. No frame is lost: `impair` does that.

use lowtide_units::{Rate, Span};
use serde::{Deserialize, Serialize};

use crate::random::{Random, unit};

/// 802.11n at 5 GHz: SIFS and slot (IEEE 802.11-2012 table 18-17).
const SIFS: Span = Span::from_micros(16);
const SLOT: Span = Span::from_micros(9);
/// AIFS of best effort: SIFS and three slots; its backoff is drawn from 0 to 15 slots (802.11-2012 table 8-105).
const AIFS: Span = Span::from_micros(16 + 3 * 9);
const CW_MIN: u64 = 15;
/// The HT-mixed preamble with one spatial stream (802.11-2012 §20.3.9).
const PREAMBLE: Span = Span::from_micros(36);
/// A block acknowledgement of 32 bytes at 24 Mbit/s: 20 µs of preamble and 3 symbols (802.11-2012 §18.4.3).
const BLOCK_ACK: Span = Span::from_micros(32);
/// Of each frame beyond Ethernet's 14 bytes: delimiter 4, QoS header 26, CCMP 16, LLC and SNAP 8, FCS 4, padding 2 on average.
const FRAME_OVERHEAD: u64 = 4 + 26 + 16 + 8 + 4 + 2 - 14;
/// A frame of an Ethernet packet of 1500 bytes: what an aggregate must have room for to take one more.
const FULL_FRAME: u64 = 1514 + FRAME_OVERHEAD;
/// The longest A-MPDU of 802.11n (802.11-2012 §8.4.2.58.3).
const LONGEST_BYTES: u64 = 65_535;

/// What a Wi-Fi link is set to; its PHY's rate is the link's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WifiConfig {
    /// The most frames of an aggregate: 64, the width of a block acknowledgement.
    pub frames: u32,
    /// The longest aggregate on the air: 4 ms, as Linux's ath9k (drivers/net/wireless/ath/ath9k/xmit.c, `max_4ms_framelen`).
    pub airtime_ms: f64,
    /// Other stations that always have an aggregate of that length to send.
    pub contenders: u32,
}

impl Default for WifiConfig {
    fn default() -> WifiConfig {
        WifiConfig { frames: 64, airtime_ms: 4.0, contenders: 0 }
    }
}

impl WifiConfig {
    /// The key that is wrong, and the rule.
    ///
    /// # Errors
    /// An aggregate of no frame or no time, more stations than a channel has.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !(1..=64).contains(&self.frames) {
            return Err(("frames", "must be between 1 and 64"));
        }
        if !(0.01..=10.0).contains(&self.airtime_ms) {
            return Err(("airtime_ms", "must be between 0.01 and 10"));
        }
        if self.contenders > 100 {
            return Err(("contenders", "must be at most 100"));
        }
        Ok(())
    }
}

/// An aggregate as it grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    frames: u64,
    /// Bytes on the air.
    bytes: u64,
}

/// A station's transmitter.
#[derive(Clone, Debug)]
pub struct Wifi {
    config: WifiConfig,
    phy: Rate,
    random: Random,
}

impl Wifi {
    /// A station with a PHY of that rate. The configuration is one that [`WifiConfig::check`] accepts.
    pub fn new(config: WifiConfig, phy: Rate, random: Random) -> Wifi {
        Wifi { config, phy, random }
    }

    /// `aggregate` with a packet of `bytes` with its Ethernet header; whether a full frame has room behind it.
    pub fn add(&self, aggregate: &mut Aggregate, bytes: u32) -> bool {
        aggregate.frames += 1;
        aggregate.bytes += u64::from(bytes) + FRAME_OVERHEAD;
        let longer = aggregate.bytes + FULL_FRAME;
        aggregate.frames < u64::from(self.config.frames)
            && longer <= LONGEST_BYTES
            && PREAMBLE + self.phy.time_for(longer) <= Span::from_millis_f64(self.config.airtime_ms)
    }

    /// How long it takes from now on until `aggregate` is acknowledged: the wait for the channel, drawn, and its airtime.
    pub fn send(&mut self, aggregate: Aggregate) -> Span {
        let mut wait = self.backoff();
        while self.config.contenders > 0 && unit(&mut self.random) * f64::from(self.config.contenders + 1) >= 1.0 {
            wait += self.backoff() + Span::from_millis_f64(self.config.airtime_ms) + SIFS + BLOCK_ACK;
        }
        wait + self.airtime(aggregate)
    }

    fn backoff(&mut self) -> Span {
        AIFS + SLOT * (unit(&mut self.random) * (CW_MIN + 1) as f64) as u64
    }

    fn airtime(&self, aggregate: Aggregate) -> Span {
        PREAMBLE + self.phy.time_for(aggregate.bytes) + SIFS + BLOCK_ACK
    }

    /// The mean rate of full Ethernet packets in the longest aggregates: the link's capacity.
    pub fn capacity(&self) -> Rate {
        let mut full = Aggregate::default();
        while self.add(&mut full, 1514) {}
        let access = AIFS + SLOT * CW_MIN / 2;
        let other = access + Span::from_millis_f64(self.config.airtime_ms) + SIFS + BLOCK_ACK;
        // Of n + 1 equal stations each waits for n others on average.
        let cycle = access + self.airtime(full) + other * u64::from(self.config.contenders);
        Rate::from_bytes_over(full.frames * 1514, cycle)
    }
}

#[cfg(test)]
mod tests;
