//! Parameters of a replica that has what its original has by default.

use lowtide_cc::{ParamError, Params};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

/// Whether there are none, as there must be for the control called `name`.
///
/// # Errors
/// Any parameter.
pub(crate) fn check(params: &Params, name: &str) -> Result<(), ParamError> {
    let NoParams {} = params.read(name)?;
    Ok(())
}
