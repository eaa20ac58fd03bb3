//! bpf/delay.h's history of the base delay against the reference's, over pauses from seconds to longer than the history.

use lowtide_cc::delay::BaseDelay;
use lowtide_cc::{Span, Time};
use lowtide_kernel::native::{Ack, Control, Start};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[test]
fn the_base_delay_is_the_references_after_pauses_of_any_length() {
    for seed in 0..2_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut kernel, mut reference) =
            (Control::new(1, &Start { mss: 1000, window: 2000, ..Start::default() }), BaseDelay::ten_minutes());
        let mut now = rng.random_range(1..1 << 40);
        for _ in 0..200 {
            let pause = [Span::from_secs(1), Span::from_secs(70), Span::from_secs(900)][rng.random_range(0..3)];
            now += rng.random_range(1..pause.nanos());
            let rtt = rng.random_range(1_000_000..500_000_000u64);
            kernel.on_ack(&Ack { now, acked: 1000, rtt, srtt: rtt, ..Ack::default() });
            reference.update(Time::from_nanos(now), rtt.cast_signed());
            assert_eq!(Some(kernel.show().base.cast_signed()), reference.min(), "seed {seed}");
        }
    }
}
