//! The parser under libFuzzer: no bytes make it panic, what it reads lies inside the datagram, and what it understood is written as it was
//! read. `cargo +nightly fuzz run packet` in crates/utp.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lowtide_utp::Packet;

fuzz_target!(|datagram: &[u8]| {
    let Ok((packet, payload)) = Packet::decode(datagram) else { return };
    assert!(datagram.ends_with(payload) && payload.len() == usize::from(packet.payload));
    let mut again = Vec::new();
    packet.encode_head(&mut again);
    assert_eq!(again.len(), packet.head_bytes());
    again.extend(payload);
    let (read, rest) = Packet::decode(&again).expect("its own");
    // A close reason is read and never written.
    assert_eq!((read, rest), (Packet { close_reason: None, ..packet }, payload));
});
