//! Pages that open from disk without a network: text, tables and plots. Reads results only.

pub mod dots;
mod escape;
pub mod heat;
pub mod html;
pub mod plot;
pub mod results;

pub use html::{Cell, Page};
pub use plot::{Curve, Form, Plot, Stroke};
pub use results::{plot_dir, setting};
