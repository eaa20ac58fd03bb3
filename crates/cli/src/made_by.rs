//! Which build made a result: the first line of its `scenario.toml`. A result of another build is kept and shown, but not taken
//! for one of this build: the simulator may have changed in between.

/// The line, a comment to TOML. Equal for builds whose simulations give equal results (build.rs).
const LINE: &str = concat!("# made by lowtide ", env!("CARGO_PKG_VERSION"), ", simulator ", env!("LOWTIDE_SIMULATOR"), "\n");

/// What all such lines begin with.
const BEGIN: &str = "# made by lowtide ";

/// A scenario as this build writes it into a result.
pub fn sign(scenario: &str) -> String {
    format!("{LINE}{scenario}")
}

/// Whether this build wrote it.
pub fn is_ours(text: &str) -> bool {
    text.starts_with(LINE)
}

/// The scenario itself, whoever wrote it.
pub fn scenario(text: &str) -> &str {
    match text.split_once('\n') {
        Some((line, scenario)) if line.starts_with(BEGIN) => scenario,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_the_same_whoever_made_it_and_only_this_build_is_ours() {
        let ours = sign("name = \"x\"\n");
        assert_eq!(scenario(&ours), "name = \"x\"\n");
        assert_eq!(scenario("name = \"x\"\n"), "name = \"x\"\n");
        let other = format!("{BEGIN}0.0.9, simulator 0\nname = \"x\"\n");
        assert_eq!(scenario(&other), "name = \"x\"\n");
        assert!(is_ours(&ours) && !is_ours(&other) && !is_ours("name = \"x\"\n"));
        assert!(toml::from_str::<toml::Table>(&ours).is_ok());
    }
}
