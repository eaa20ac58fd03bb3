//! A segment that both receivers get: what it says, and what it makes of path and window.

use lowtide_cc::rledbat::{self, Group};
use lowtide_cc::scavenger::ledbat_pp::{Config, LedbatPp};
use lowtide_cc::{Controller, Params, Span, Start, Time, registry};
use lowtide_kernel::native::{In, Profile, UNKNOWN};

use crate::shared::phase;
use crate::{LOWTIDE, Stream};

/// The profile's control in `cc`, which begins with a segment of a flow whose segments have `mss` bytes.
fn reference(profile: &Profile, mss: u32, now: u64) -> Box<dyn Controller> {
    let start = Start { mss, now: Time::from_nanos(now), initial_window: Some(2 * u64::from(mss)), seed: now, ..Start::default() };
    if profile.name == LOWTIDE {
        let receiver = Params::from_toml("receiver = true").expect("it is TOML");
        return registry::by_name(LOWTIDE).expect("it has one").build(&receiver, &start).expect("it builds");
    }
    let config = Config {
        enhanced: profile.enhanced,
        burst_segments: f64::from(profile.burst),
        least_target_ms: 1.0,
        receiver: true,
        ..Config::default()
    };
    Box::new(LedbatPp::new(config, &start))
}

impl Stream {
    #[expect(clippy::too_many_arguments, reason = "a segment's fields")]
    pub(crate) fn compare(&mut self, now: u64, i: usize, seq: u32, len: u32, tsval: u32, tsecr: u32, ce: bool) -> Result<(), String> {
        let connection = &mut self.connections[i];
        let rcv_nxt = connection.rcv_nxt;
        let ours = connection.c.receive(&In { now, seq, len, wire: len, tsval, tsecr, rcv_nxt, ce });
        let reported = self.path.receive(&mut connection.c, &ours, now);
        let timestamps = connection.timestamps.then_some((tsval, tsecr));
        let segment = rledbat::Segment { now: Time::from_nanos(now), seq, len, wire: len, timestamps, ce };
        let theirs = connection.reference.on_segment(&segment, rcv_nxt);
        let Some(report) = theirs else {
            self.seen.ignored += 1;
            return if ours.ignored { Ok(()) } else { Err(format!("ignored by the reference alone: {ours:?}")) };
        };
        let ns = |span: Option<u64>| span.unwrap_or(UNKNOWN);
        let same = !ours.ignored
            && ours.rtt == ns(report.rtt.map(Span::nanos))
            && ours.sent == ns(report.sent.map(Time::nanos))
            && ours.there == report.there.map_or(UNKNOWN, i64::cast_unsigned)
            && ours.paused == report.paused.nanos()
            && u64::from(ours.got) == report.got
            && (ours.lost, ours.marked, ours.limited, ours.drained) == (report.lost, report.marked, report.limited, report.drained);
        if !same {
            return Err(format!("{ours:?} in C, {report:?} in the reference"));
        }
        self.seen.segments += 1;
        self.seen.losses += u64::from(ours.lost);
        self.seen.marks += u64::from(ours.marked);
        let (profile, mss) = (self.profile, (connection.reference.floor() / 2) as u32);
        let group = self.group.get_or_insert_with(|| {
            let group = Group::new(reference(profile, mss, now), mss, Span::from_nanos(u64::from(profile.report_ns)));
            if profile.way_back { group.without_the_way_back() } else { group }
        });
        if reported != group.on_report(&mut connection.reference, report, Time::from_nanos(now)) {
            return Err(format!("reported in C: {reported}"));
        }
        if !reported {
            return Ok(());
        }
        let (shown, snapshot) = (self.path.show(), group.snapshot());
        self.seen.slowdowns = self.seen.slowdowns.max(shown.slowdowns);
        self.seen.phases[shown.phase() as usize] += 1;
        let known = |ns: u64| (ns != UNKNOWN).then_some(Span::from_nanos(ns));
        let phase = if snapshot.phase == "start" { "slow_start" } else { snapshot.phase };
        let same = phase::name(shown.phase()) == phase
            && known(shown.base) == snapshot.base_delay
            && known(shown.queueing) == snapshot.queueing_delay
            && (self.path.flows(), self.path.srtt()) == (group.flows(), group.srtt().nanos())
            && (shown.cwnd >> 16).abs_diff(group.window()) <= 1
            && u64::from(connection.c.window()).abs_diff(connection.reference.window()) <= 1;
        connection.reference.set_window(u64::from(connection.c.window()));
        let at_threshold = |window: f64, threshold: Option<f64>| threshold.is_some_and(|t| (window - t).abs() <= 1.0);
        if phase::name(shown.phase()) != phase
            && at_threshold(shown.window(), shown.threshold())
            && at_threshold(snapshot.cwnd as f64, snapshot.ssthresh.map(|t| t as f64))
        {
            self.seen.ties += 1;
            self.events.clear();
            return Ok(());
        }
        if same {
            Ok(())
        } else {
            Err(format!("{shown:?}, {:?} in C, {snapshot:?}, window {} in the reference", self.path, group.window()))
        }
    }
}
