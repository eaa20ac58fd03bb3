//! What papers published beside their text.

pub mod ledbat_pp;
pub mod rledbat;
