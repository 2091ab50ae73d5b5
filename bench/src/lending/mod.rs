//! What a broker costs: until devices are lent, until they are free again, and what a program's start takes longer. And
//! what it is for: programs do not slow each other down.

mod grants;
mod house;
mod many;
mod start;

use crate::setup::Bench;
use crate::table::Row;

/// Measures the wanted rows; a failure becomes the error of its row.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    [grants::rows, start::rows, many::rows].iter().flat_map(|rows| rows(bench, say)).collect()
}
