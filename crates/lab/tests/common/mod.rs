//! What the laboratory's tests have in common: saying when this machine cannot run them.

/// Whether the laboratory can be had here; says loudly when not.
pub fn root() -> bool {
    let ready = lowtide_lab::site::ready();
    if let Err(e) = &ready {
        lowtide_testing::skip("the laboratory", &format!("{e:#}"));
    }
    ready.is_ok()
}
