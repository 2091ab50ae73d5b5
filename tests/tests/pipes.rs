//! Pipes, of which PoCL 3.1 has none: what is refused natively is refused through Ropeway.

use ropeway_tests::compare::same;

#[test]
fn pipes_are_as_they_are_natively() {
    same("pipes");
}
