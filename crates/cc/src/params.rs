//! An algorithm's parameters as a scenario file writes them: a TOML table read into the algorithm's own `Config`.

use serde::de::DeserializeOwned;

/// Named parameters of one algorithm, not yet checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(toml::Table);

/// A parameter that an algorithm does not know or cannot take.
#[derive(Debug, thiserror::Error)]
#[error("congestion control `{algorithm}`: {reason}")]
pub struct ParamError {
    /// The algorithm's registry name.
    pub algorithm: String,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

impl From<toml::Table> for Params {
    fn from(table: toml::Table) -> Params {
        Params(table)
    }
}

impl Params {
    /// Reads TOML text such as `target_ms = 25`.
    pub fn from_toml(text: &str) -> Result<Params, toml::de::Error> {
        toml::from_str(text).map(Params)
    }

    /// These parameters laid over `preset`: what is named here wins.
    pub fn over(&self, preset: &Params) -> Params {
        let mut merged = preset.0.clone();
        merged.extend(self.0.clone());
        Params(merged)
    }

    /// These parameters as two: the one called `key`, if it is among them, and the others.
    pub fn split(&self, key: &str) -> (Params, Params) {
        let mut others = self.0.clone();
        let own = others.remove(key).map(|value| (key.to_owned(), value));
        (Params(own.into_iter().collect()), Params(others))
    }

    /// Reads the table into an algorithm's configuration. Unknown names are errors (`deny_unknown_fields` on `C`).
    pub fn read<C: DeserializeOwned>(&self, algorithm: &str) -> Result<C, ParamError> {
        toml::Value::Table(self.0.clone())
            .try_into()
            .map_err(|e: toml::de::Error| ParamError { algorithm: algorithm.to_owned(), reason: e.message().to_owned() })
    }
}

/// `reason` as a [`ParamError`] unless `ok`.
pub fn require(ok: bool, algorithm: &str, reason: &str) -> Result<(), ParamError> {
    if ok {
        return Ok(());
    }
    Err(ParamError { algorithm: algorithm.to_owned(), reason: reason.to_owned() })
}
