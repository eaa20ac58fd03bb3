//! The points that an experiment consists of: each variant in each column at every combination of swept values. Runs nothing.

use super::experiment::{Experiment, Sweep, Variant};
pub use super::point::{Extent, Point, Profile};
use super::rule::Value;
use super::rule::compile::VARIANT;

impl Experiment {
    /// The points of a run of that extent. In the laboratory run the companions that it names, and one column: ours, or else what is
    /// described.
    pub fn points(&self, extent: Extent) -> Vec<Point> {
        let repeat = match (extent, &self.lab) {
            (Extent::Full, _) => self.repeat,
            (Extent::Lab, Some(lab)) => lab.repeat,
            _ => 1,
        };
        let repeat_of = |own: Option<u32>| match extent {
            Extent::Full => own.unwrap_or(repeat),
            Extent::Quick => repeat,
            Extent::Lab => repeat.min(own.unwrap_or(repeat)),
        };
        let mut starts: Vec<Point> = Vec::new();
        for profile in self.profiles_in(extent) {
            let set: Vec<_> = self.column(profile).iter().flat_map(|c| &c.set).map(|(k, v)| (k.clone(), v.clone())).collect();
            let start = Point { set, profile: Some(profile), repeat, ..Point::default() };
            if self.variants.iter().all(|v| v.companion) {
                starts.push(start.clone());
            }
            let mine = self.variants.iter().filter(|v| !v.companion && v.is_in(profile) && (extent != Extent::Quick || v.quick));
            starts.extend(mine.map(|v| Point { repeat: repeat_of(v.repeat), ..start.as_variant(v, Some(profile)) }));
        }
        let upon = |v: &Variant| {
            let column = self.column(v.upon.unwrap_or(Profile::Described));
            Point { set: column.into_iter().flat_map(|c| &c.set).map(|(k, v)| (k.clone(), v.clone())).collect(), ..Point::default() }
        };
        let is_in = |v: &Variant| match (extent, &self.lab) {
            (Extent::Full, _) => true,
            (Extent::Quick, _) => v.quick,
            (Extent::Lab, lab) => lab.as_ref().is_some_and(|lab| lab.companions.contains(&v.name)),
        };
        let companions = self.variants.iter().filter(|v| v.companion && is_in(v));
        starts.extend(companions.map(|v| {
            let companion = Some(v.name.clone());
            Point { companion, repeat: repeat_of(v.repeat), ..upon(v).as_variant(v, None) }
        }));
        self.sweep.iter().fold(starts, |points, sweep| {
            let values = self.swept(sweep, extent);
            points.iter().flat_map(|point| values.iter().map(|value| point.with(sweep, value))).collect()
        })
    }

    /// The columns that a run of that extent has.
    fn profiles_in(&self, extent: Extent) -> Vec<Profile> {
        let all: Vec<Profile> = Profile::ALL.into_iter().filter(|p| self.column(*p).is_some_and(|c| c.none.is_none())).collect();
        match extent {
            Extent::Quick => all.into_iter().filter(|p| self.column(*p).is_some_and(|c| !c.full_only)).collect(),
            Extent::Lab if all.contains(&Profile::Ours) => vec![Profile::Ours],
            Extent::Lab => vec![Profile::Described],
            Extent::Full => all,
        }
    }

    fn swept<'s>(&'s self, sweep: &'s Sweep, extent: Extent) -> &'s [toml::Value] {
        match extent {
            Extent::Full => &sweep.values,
            Extent::Quick => &sweep.quick,
            Extent::Lab => self.lab.as_ref().and_then(|l| l.points.get(&sweep.name)).map_or(&[][..], Vec::as_slice),
        }
    }

    /// The values of one of its sweeps in a column, the variants' names being the first of them.
    pub fn values_of(&self, sweep: &str, profile: Option<Profile>, extent: Extent) -> Vec<Value> {
        if sweep == VARIANT {
            let admitted = |v: &&Variant| !v.companion && profile.is_none_or(|p| v.is_in(p)) && (extent != Extent::Quick || v.quick);
            return self.variants.iter().filter(admitted).map(|v| Value::Word(v.name.clone())).collect();
        }
        let found = self.sweep.iter().find(|s| s.name == sweep);
        found.map_or(&[][..], |s| self.swept(s, extent)).iter().map(value_of).collect()
    }

    /// What the paper prints for `metric` at `point`.
    pub fn reported_at(&self, metric: &str, point: &Point) -> Option<f64> {
        let variant = point.at.iter().find(|(name, _)| name == VARIANT).and_then(|(_, v)| v.as_str()).unwrap_or("");
        let values = self.reported.get(metric)?.get(variant)?;
        let sweep = self.sweep.first()?;
        let (_, at) = point.at.iter().find(|(name, _)| *name == sweep.name)?;
        values.get(sweep.values.iter().position(|v| v == at)?).copied()
    }
}

/// A value of a sweep as rules compare it.
pub fn value_of(value: &toml::Value) -> Value {
    match value {
        toml::Value::Integer(i) => Value::Number(*i as f64),
        toml::Value::Float(f) => Value::Number(*f),
        toml::Value::String(s) => Value::Word(s.clone()),
        other => Value::Word(other.to_string()),
    }
}

impl Variant {
    /// Whether it is among those of a column.
    pub fn is_in(&self, profile: Profile) -> bool {
        self.only.is_none_or(|only| only == profile)
    }
}

impl Point {
    fn as_variant(&self, variant: &Variant, profile: Option<Profile>) -> Point {
        let mut point = self.clone();
        point.at.push((VARIANT.to_owned(), toml::Value::String(variant.name.clone())));
        let own = match profile {
            Some(Profile::Described) => variant.described.as_ref(),
            Some(Profile::Run) => variant.run.as_ref(),
            Some(Profile::Ours) => variant.ours.as_ref().or(variant.described.as_ref()),
            None => None,
        };
        point.set.extend(variant.set.iter().chain(own.into_iter().flatten()).map(|(k, v)| (k.clone(), v.clone())));
        point
    }

    fn with(&self, sweep: &Sweep, value: &toml::Value) -> Point {
        let mut point = self.clone();
        point.at.push((sweep.name.clone(), value.clone()));
        let set = match (sweep.times, value_of(value)) {
            (Some(times), Value::Number(n)) => toml::Value::Float(n * times),
            _ => value.clone(),
        };
        if !sweep.key.is_empty() {
            point.set.push((sweep.key.clone(), set));
        }
        let nth = sweep.values.iter().position(|v| v == value);
        let along = sweep.along.iter().filter_map(|(key, values)| Some((key.clone(), values.get(nth?)?.clone())));
        point.set.extend(along);
        point
    }
}
