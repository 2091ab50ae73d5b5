//! Names that kernels may have, read from a program's own text.

use std::collections::BTreeSet;

/// Length from which a name makes NVIDIA's driver (580) write past its own memory when it is asked for the names of a
/// program's kernels, or for all its kernels at once.
const TOO_LONG: usize = 255;

/// Most names that are tried.
const MOST: usize = 10_000;

/// Returns all identifiers in these texts, sources or binaries, if one of them is so long that the driver cannot be
/// asked for the kernels' names; making a kernel of each identifier tells which are kernels.
pub fn candidates<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<String>> {
    let texts: Vec<_> = texts.into_iter().collect();
    let too_long = texts.iter().any(|text| words(text).any(|word| word.len() >= TOO_LONG));
    too_long.then(|| all(Vec::new(), texts))
}

/// These names, and all identifiers in these texts.
pub fn all<'a>(names: Vec<String>, texts: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let in_texts = texts.into_iter().flat_map(words).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut all: BTreeSet<_> = names.into_iter().collect();
    for name in in_texts {
        if all.len() >= MOST {
            break;
        }
        all.insert(name);
    }
    all.into_iter().collect()
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.split(move |byte| !is_part(byte)).filter(|word| word.first().is_some_and(|byte| !byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_listed_only_where_one_is_long() {
        let long = "k".repeat(TOO_LONG);
        assert_eq!(candidates([b"kernel void a(int b) {}".as_slice()]), None);
        let text = format!("kernel void {long}(int b2) {{ 2b; }}");
        let names = candidates([b"x".as_slice(), text.as_bytes()]).unwrap();
        assert_eq!(names, ["b2", "int", "kernel", &long, "void", "x"].map(str::to_owned));
    }
}
