//! Pages that open from disk without a network: text, tables and plots. Reads results only.

pub mod html;
pub mod plot;

pub use html::Page;
pub use plot::{Curve, Plot};
