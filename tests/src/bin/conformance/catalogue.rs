//! Which programs are run, and with what arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program with its arguments: a row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name with its arguments.
    pub key: String,
    /// Where it is.
    pub program: PathBuf,
    /// Its arguments, without names of sub-tests.
    pub args: Vec<String>,
}

/// The programs in `folder` and below, each as often as `arguments` names it, or once and bare.
pub fn rows(folder: &Path, arguments: &str, only: &[String], without: &[String]) -> Result<Vec<Row>, String> {
    let mut programs = Vec::new();
    find(folder, &mut programs)?;
    programs.sort();
    let lines = lines(arguments);
    let mut rows = Vec::new();
    for program in programs {
        let path = program.strip_prefix(folder).unwrap_or(&program).display().to_string();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let named = |list: &[String]| list.iter().any(|its| is_named(its, &path, &name));
        if !only.is_empty() && !named(only) || named(without) {
            continue;
        }
        let mut sets: Vec<_> = lines.iter().filter(|(its, _)| *its == name).map(|(_, args)| args.clone()).collect();
        if sets.is_empty() {
            sets.push(Vec::new());
        }
        for args in sets {
            let key = [std::slice::from_ref(&name), args.as_slice()].concat().join(" ");
            rows.push(Row { key, program: program.clone(), args });
        }
    }
    Ok(rows)
}

/// Whether a program is named by its own name, by its path, or by a folder that it is in.
fn is_named(by: &str, path: &str, name: &str) -> bool {
    let by = by.trim_end_matches('/');
    by == name || by == path || path.strip_prefix(by).is_some_and(|rest| rest.starts_with('/'))
}

/// The lines of the file of arguments: a program's name and its arguments; a `#` begins a comment.
fn lines(text: &str) -> Vec<(&str, Vec<String>)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split('#').next()?.split_whitespace();
            let name = words.next()?;
            Some((name, words.map(str::to_owned).collect()))
        })
        .collect()
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            find(&path, found)?;
        } else if kind.is_file() && entry.file_name().to_string_lossy().starts_with("test_") {
            let executable = entry.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
            if executable && path.extension().is_none() {
                found.push(path);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, path: &str, mode: u32) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn keys(folder: &Path, arguments: &str, only: &[&str]) -> Vec<String> {
        let only: Vec<_> = only.iter().map(|&only| only.to_owned()).collect();
        rows(folder, arguments, &only, &[]).unwrap().into_iter().map(|row| row.key).collect()
    }

    #[test]
    fn programs_are_found_and_get_their_arguments() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "api/test_api", 0o755);
        program(folder.path(), "images/copy/test_copy", 0o755);
        program(folder.path(), "api/test_api.cpp", 0o755);
        program(folder.path(), "api/test_data", 0o644);
        program(folder.path(), "api/helper", 0o755);
        let arguments = "# why\ntest_copy small_images\ntest_copy  max_images 1D # two runs\n\ntest_other -w\n";
        let all = ["test_api", "test_copy small_images", "test_copy max_images 1D"];
        assert_eq!(keys(folder.path(), arguments, &[]), all);
        assert_eq!(keys(folder.path(), arguments, &["test_api"]), all[..1]);
        assert_eq!(keys(folder.path(), arguments, &["images/"]), all[1..]);
        assert_eq!(keys(folder.path(), "", &["images/copy/test_copy", "ap"]), ["test_copy"]);
        let without = ["images".to_owned()];
        assert_eq!(rows(folder.path(), "", &[], &without).unwrap().len(), 1);
        assert!(rows(&folder.path().join("none"), "", &[], &[]).is_err());
    }
}
