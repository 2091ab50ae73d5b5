//! What encryption costs: the same orders over TLS and in plain text; and clients with weights, which only encrypted
//! servers know.

mod between;
mod calls;
mod idle;
mod served;
mod start;
mod weights;

pub use weights::obey;

use crate::setup::Bench;
use crate::table::Row;

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    [start::rows, calls::rows, between::rows, idle::rows, weights::rows]
        .iter()
        .flat_map(|rows| rows(bench, say))
        .collect()
}
