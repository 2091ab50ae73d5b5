//! What a broker costs: until devices are lent, until they are free again, and what a program's start takes longer.

mod grants;
mod house;
mod start;

use crate::setup::Bench;
use crate::table::Row;

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    [grants::rows, start::rows].iter().flat_map(|rows| rows(bench, say)).collect()
}
