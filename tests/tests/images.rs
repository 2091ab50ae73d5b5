//! Images and samplers: the same natively and through Ropeway.

use ropeway_tests::compare::same;

#[test]
fn images() {
    same("images");
}
