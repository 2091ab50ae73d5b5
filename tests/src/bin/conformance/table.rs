//! The table of what passes natively and through Ropeway, as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::catalogue::Row;
use crate::output::{SubTest, Verdict};
use crate::results::{Mode, Results, WHOLE};

/// Below this time a program does nothing but start, in seconds.
const SHORT: f64 = 0.05;

/// A sub-test that ends differently.
struct Difference<'a> {
    name: &'a str,
    native: Verdict,
    ropeway: Verdict,
    note: &'a str,
    kind: Kind,
}

/// The meaning of a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Native passes or skips, Ropeway does not.
    Real,
    /// Native passes or skips, and there was no time for it through Ropeway.
    NotRun,
    /// The second try ended alike in both modes.
    Unsteady,
    /// Native does not pass either, or Ropeway does better.
    Harmless,
}

fn differences<'a>(results: &'a Results, key: &'a str) -> Vec<Difference<'a>> {
    let mut names: BTreeSet<&str> = results.of(key, Mode::Native).map(|ended| ended.name.as_str()).collect();
    names.extend(results.of(key, Mode::Ropeway).map(|ended| ended.name.as_str()));
    names.into_iter().filter_map(|name| difference(results, key, name)).collect()
}

fn difference<'a>(results: &'a Results, key: &str, name: &'a str) -> Option<Difference<'a>> {
    let native = results.find(key, Mode::Native, name);
    let ropeway = results.find(key, Mode::Ropeway, name);
    // A crash at the end, or a time of the whole, may be there in one mode only.
    let special = name.starts_with('(');
    let verdict = |ended: Option<&SubTest>| match ended {
        Some(ended) => Some(ended.verdict),
        None if special => Some(Verdict::Pass),
        None => None,
    };
    // A sub-test that has run in one mode only has no result yet.
    let (its_native, its_ropeway) = (verdict(native)?, verdict(ropeway)?);
    if its_native == its_ropeway || name == WHOLE && results.of(key, Mode::Native).count() > 1 {
        return None;
    }
    let again = [Mode::NativeAgain, Mode::RopewayAgain].map(|mode| results.find(key, mode, name).map(|e| e.verdict));
    let kind = if !matches!(its_native, Verdict::Pass | Verdict::Skip) || its_ropeway == Verdict::Pass {
        Kind::Harmless
    } else if its_ropeway == Verdict::NotRun {
        Kind::NotRun
    } else if again[0].is_some() && again[0] == again[1] {
        Kind::Unsteady
    } else {
        Kind::Real
    };
    let note = [ropeway, native].into_iter().flatten().map(|ended| ended.note.as_str()).find(|note| !note.is_empty());
    Some(Difference { name, native: its_native, ropeway: its_ropeway, note: note.unwrap_or(""), kind })
}

/// Seconds natively and through Ropeway: of whole programs, or else of the sub-tests that pass in both.
fn times(results: &Results, key: &str) -> Option<(f64, f64)> {
    let whole = |mode| results.find(key, mode, WHOLE).filter(|whole| whole.verdict == Verdict::Pass);
    if let (Some(native), Some(ropeway)) = (whole(Mode::Native), whole(Mode::Ropeway)) {
        return Some((native.seconds, ropeway.seconds));
    }
    let mut sums = None;
    for native in results.of(key, Mode::Native).filter(|ended| ended.verdict == Verdict::Pass) {
        if let Some(ropeway) = results.find(key, Mode::Ropeway, &native.name)
            && ropeway.verdict == Verdict::Pass
        {
            let (a, b) = sums.unwrap_or((0.0, 0.0));
            sums = Some((a + native.seconds, b + ropeway.seconds));
        }
    }
    sums
}

/// One line about a row, for whoever waits.
pub fn short(results: &Results, Row { key, .. }: &Row) -> String {
    let passed = [Mode::Native, Mode::Ropeway].map(|mode| passed(results, key, mode));
    let real: Vec<_> = differences(results, key).into_iter().filter(|its| its.kind == Kind::Real).collect();
    let names: Vec<_> = real.iter().map(|its| its.name).collect();
    let names = if names.is_empty() { "no difference".to_owned() } else { names.join(", ") };
    format!("{key}: {} natively, {} through Ropeway: {names}", passed[0], passed[1])
}

fn count(results: &Results, key: &str, mode: Mode, verdict: Verdict) -> usize {
    let sub_tests = results.of(key, mode).filter(|ended| ended.verdict == verdict);
    sub_tests.filter(|ended| !ended.name.starts_with('(') || lists_nothing(results, key)).count()
}

fn passed(results: &Results, key: &str, mode: Mode) -> usize {
    count(results, key, mode, Verdict::Pass)
}

/// The table, and below it the differences with what the programs say of them; and how many differ or did not run.
pub fn markdown(results: &Results, rows: &[Row]) -> (String, usize) {
    let mut table = String::from(
        "| program | native: passed | Ropeway: passed | skipped | differences | native s | Ropeway s | ratio |\n\
         |---|---:|---:|---:|---|---:|---:|---:|\n",
    );
    let mut below = String::new();
    let mut total = [0; 5];
    for Row { key, .. } in rows {
        let passed = [Mode::Native, Mode::Ropeway].map(|mode| passed(results, key, mode));
        let skipped = count(results, key, Mode::Native, Verdict::Skip);
        let differences = differences(results, key);
        let real: Vec<_> = differences.iter().filter(|its| its.kind == Kind::Real).collect();
        for (sum, more) in total.iter_mut().zip([passed[0], passed[1], skipped, real.len()]) {
            *sum += more;
        }
        let not_run = differences.iter().filter(|its| its.kind == Kind::NotRun).count();
        total[4] += not_run;
        let mut names = match real.len() {
            0 => "none".to_owned(),
            1..=4 => real.iter().map(|its| format!("`{}`", its.name)).collect::<Vec<_>>().join(", "),
            n => format!("{n}, see below"),
        };
        if not_run > 0 {
            let _ = write!(names, " ({not_run} not run)");
        }
        let times = match times(results, key) {
            None => "| | | |".to_owned(),
            Some((native, ropeway)) if native < SHORT => format!("| {native:.2} | {ropeway:.2} | |"),
            Some((native, ropeway)) => format!("| {native:.2} | {ropeway:.2} | {:.2} |", ropeway / native),
        };
        let _ = writeln!(table, "| {key} | {} | {} | {skipped} | {names} {times}", passed[0], passed[1]);
        if !differences.is_empty() {
            let _ = writeln!(below, "\n**{key}**\n");
        }
        let other = differences.iter().filter(|its| matches!(its.kind, Kind::Real | Kind::Unsteady));
        for Difference { name, native, ropeway, note, kind } in other {
            let kind = if *kind == Kind::Unsteady { " (unsteady: the second try ended alike)" } else { "" };
            let note = if note.is_empty() { String::new() } else { format!(": {note}") };
            let _ = writeln!(below, "- `{name}`: native {}, Ropeway {}{kind}{note}", native.name(), ropeway.name());
        }
        for (kind, what) in [
            (Kind::NotRun, "no time for them through Ropeway"),
            (Kind::Harmless, "not passed natively either, or better through Ropeway"),
        ] {
            let each = |its: &Difference| format!("`{}` {} → {}", its.name, its.native.name(), its.ropeway.name());
            let list: Vec<_> = differences.iter().filter(|its| its.kind == kind).map(each).collect();
            if !list.is_empty() {
                let _ = writeln!(below, "- {what}: {}", list.join(", "));
            }
        }
    }
    let _ = writeln!(table, "| **all** | {} | {} | {} | {} | | | |", total[0], total[1], total[2], total[3]);
    (table + &below, total[3] + total[4])
}

fn lists_nothing(results: &Results, key: &str) -> bool {
    results.of(key, Mode::Native).all(|ended| ended.name == WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Line;

    #[test]
    fn differences_are_told_by_what_they_mean() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::open(&folder.path().join("results.tsv"), |_| true).unwrap();
        let mut add = |mode, name: &str, verdict, seconds| {
            let sub_test = SubTest { name: name.to_owned(), verdict, seconds, note: "ERROR: x".to_owned() };
            results.add(Line { key: "test_x".to_owned(), mode, sub_test });
        };
        use Verdict::{Crash, Fail, Pass, Skip};
        for (name, native, ropeway) in [
            ("same", Pass, Pass),
            ("worse", Pass, Fail),
            ("better", Fail, Pass),
            ("bad", Crash, Fail),
            ("odd", Skip, Fail),
            ("late", Pass, Verdict::NotRun),
        ] {
            add(Mode::Native, name, native, 1.0);
            add(Mode::Ropeway, name, ropeway, 1.2);
        }
        add(Mode::NativeAgain, "odd", Fail, 1.0);
        add(Mode::RopewayAgain, "odd", Fail, 1.0);
        add(Mode::Native, "pending", Pass, 1.0);
        let row = Row { key: "test_x".to_owned(), program: "test_x".into(), args: Vec::new() };
        let (text, count) = markdown(&results, &[row]);
        assert_eq!(count, 2);
        assert!(text.contains("| test_x | 4 | 2 | 1 | `worse` (1 not run) | 1.00 | 1.20 | 1.20 |\n"), "{text}");
        assert!(text.contains("| **all** | 4 | 2 | 1 | 1 |"), "{text}");
        assert!(text.contains("- `worse`: native pass, Ropeway fail: ERROR: x\n"), "{text}");
        assert!(text.contains("- `odd`: native skip, Ropeway fail (unsteady"), "{text}");
        assert!(text.contains(": `bad` crash → fail, `better` fail → pass\n"), "{text}");
        assert!(!text.contains("pending"), "{text}");
    }
}
