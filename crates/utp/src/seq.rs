//! Packet numbers of 16 bits that wrap. Knows no packets.

/// How far `to` lies ahead of `from`, around the wrap.
pub(crate) const fn ahead(from: u16, to: u16) -> u16 {
    to.wrapping_sub(from)
}

/// Whether `a` comes before `b`, taking the shorter way around the circle.
pub(crate) const fn before(a: u16, b: u16) -> bool {
    a != b && ahead(a, b) < 1 << 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        assert!(before(65_530, 4) && !before(4, 65_530) && !before(7, 7));
        assert_eq!(ahead(65_530, 4), 10);
    }
}
