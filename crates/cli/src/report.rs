//! Pages that open from disk without a network: text, tables and plots. Reads results only.

pub mod dots;
mod escape;
pub mod heat;
pub mod html;
pub mod plot;
pub mod results;
mod setting;

pub use escape::csv;
pub use html::{Cell, Page};
pub use plot::{Curve, Form, Plot, Stroke};
pub use results::plot_dir;
pub use setting::setting;
