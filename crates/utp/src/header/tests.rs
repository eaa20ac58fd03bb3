//! The wire format against bytes worked out from the text, and against bytes of all kinds.

use proptest::prelude::*;

use super::*;

fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode_head(&mut bytes);
    bytes
}

/// DATA, id 0x1234, timestamp 1 000 000, difference 50 000, window 1 MiB, packet 2, acknowledging 9.
#[test]
fn a_header_of_known_bytes() {
    let header = Header {
        kind: Kind::Data,
        connection_id: 0x1234,
        timestamp: 1_000_000,
        timestamp_difference: 50_000,
        window: 1 << 20,
        seq: 2,
        ack: 9,
    };
    let bytes = encoded(&Packet { header, ..Packet::default() });
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, "01001234000f42400000c3500010000000020009");
}

/// Acknowledging 100, holding 102, 103, 110, 133; and 102, 104, 105, 106.
#[test]
fn masks_of_known_bytes() {
    let sack = Sack::from_wire(&[0x03, 0x01, 0x00, 0x80]).expect("four bytes");
    let held: Vec<u16> = (0..sack.len()).filter(|&k| sack.has(k)).map(|k| 102 + k).collect();
    assert_eq!(held, [102, 103, 110, 133]);
    let packet = Packet { sack: Some(Sack::from_mask(0x1d)), ..Packet::default() };
    assert_eq!(encoded(&packet)[20..], [0, 4, 0x1d, 0, 0, 0]);
}

#[test]
fn a_mask_may_have_any_length() {
    let short = Sack::from_wire(&[0b101]).expect("one byte");
    assert_eq!((short.len(), short.has(0), short.has(1), short.has(2)), (8, true, false, true));
    let long = Sack::from_wire(&[0xff; 40]).expect("forty bytes");
    assert_eq!((long.len(), long.has(127), long.has(128)), (128, true, false));
}

#[test]
fn unknown_extensions_are_skipped_and_known_ones_found_behind_them() {
    let mut bytes = encoded(&Packet::default());
    bytes[1] = 7;
    bytes.extend([2, 3, 9, 9, 9]);
    bytes.extend([1, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0, 4, 1, 0, 0, 0]);
    bytes.extend(b"payload");
    let (packet, payload) = Packet::decode(&bytes).expect("sound");
    assert_eq!((packet.sack, payload, packet.payload), (Some(Sack::from_mask(1)), &b"payload"[..], 7));
}

/// libtorrent's FIN (utp_stream.cpp, `utp_socket_impl::send_fin` with `write_close_reason`): extension 3, two reserved bytes, the reason.
#[test]
fn a_close_reason_is_read_wherever_it_stands() {
    for behind_a_mask in [false, true] {
        let header = Header { kind: Kind::Fin, ..Header::default() };
        let mut bytes = encoded(&Packet { header, sack: behind_a_mask.then(|| Sack::from_mask(1)), ..Packet::default() });
        let next = if behind_a_mask { 20 } else { 1 };
        bytes[next] = 3;
        bytes.extend([0, 4, 0, 0, 1, 2]);
        let (packet, payload) = Packet::decode(&bytes).expect("sound");
        assert_eq!((packet.header.kind, packet.close_reason, payload), (Kind::Fin, Some(258), &[][..]));
        bytes[next + if behind_a_mask { 7 } else { 20 }] = 3;
        assert_eq!(Packet::decode(&bytes), Err(DecodeError::Extension(3)), "four bytes");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let sound = encoded(&Packet { sack: Some(Sack::from_mask(5)), ..Packet::default() });
    let with = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        Packet::decode(&bytes).expect_err("wrong")
    };
    assert_eq!(with(0, 0x22), DecodeError::Version);
    assert_eq!(with(0, 0x51), DecodeError::Kind(5));
    assert_eq!(with(21, 5), DecodeError::Extension(1), "runs past the end");
    assert_eq!(with(21, 0), DecodeError::Extension(1), "a mask of no bytes");
    assert_eq!(with(1, 2), DecodeError::Extension(2), "extension bits are eight bytes");
    for cut in 0..sound.len() {
        assert!(Packet::decode(&sound[..cut]).is_err(), "{cut} bytes");
    }
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let header = (0u8..5, any::<u16>(), any::<[u32; 3]>(), any::<[u16; 2]>()).prop_map(|(kind, id, words, numbers)| Header {
        kind: Kind::from_nibble(kind).expect("below five"),
        connection_id: id,
        timestamp: words[0],
        timestamp_difference: words[1],
        window: words[2],
        seq: numbers[0],
        ack: numbers[1],
    });
    let sack = prop::option::of(prop::collection::vec(any::<u8>(), 1..=16));
    (header, sack, 0u16..1400).prop_map(|(header, sack, payload)| Packet {
        header,
        sack: sack.and_then(|s| Sack::from_wire(&s)),
        payload,
        ..Packet::default()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(packet in any_packet()) {
        let mut bytes = encoded(&packet);
        prop_assert_eq!(bytes.len(), packet.head_bytes());
        bytes.resize(packet.bytes(), 0xab);
        let (read, payload) = Packet::decode(&bytes).expect("its own");
        prop_assert_eq!(read, packet);
        prop_assert!(payload.iter().all(|b| *b == 0xab));
    }

    /// No bytes make it panic, and what it reads of a datagram never lies outside of it.
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), like_utp: bool) {
        if like_utp && !bytes.is_empty() {
            bytes[0] = (bytes[0] % 5) << 4 | 1;
        }
        if let Ok((packet, payload)) = Packet::decode(&bytes) {
            prop_assert_eq!(payload.len(), usize::from(packet.payload));
            prop_assert!(bytes.ends_with(payload));
        }
    }
}
