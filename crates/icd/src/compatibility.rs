//! Writes the lists in `docs/compatibility.md` from the code: the functions with their state, from the dispatch table;
//! the tests that call them; the extensions, from [`crate::capabilities`].
//!
//! `UPDATE_GOLDEN=1 cargo test -p ropeway-icd compatibility` (`make golden`) writes them anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::api::{collectives, command_buffer, content_size, loader, semaphore, servers};
use crate::{capabilities, dispatch};

/// Remarks on functions that do not simply work.
const NOTES: &[(&str, &str)] = &[
    ("clSetCommandQueueProperty", "`CL_INVALID_OPERATION`, as for every device of OpenCL 1.1 or later"),
    ("clGetSemaphoreHandleForTypeKHR", "`CL_INVALID_VALUE`, as for every semaphore without handles; found by name"),
    ("clUnloadPlatformCompiler", "works: a hint, and there is no compiler here to unload"),
];

/// Why functions are refused: the beginning or a part of their names, and the reason.
const REFUSED: &[(&str, &str)] = &[
    ("EGL", "EGL's objects are on the application's machine"),
    ("GL", "OpenGL's objects are on the application's machine"),
    ("D3D", "Direct3D's objects are on the application's machine"),
    ("DX9", "Direct3D's objects are on the application's machine"),
    ("", "not there yet"),
];

/// Extensions that devices have and Ropeway does not offer.
const HIDDEN: &[(&str, &str)] = &[
    ("cl_arm_import_memory", LOCAL),
    ("cl_ext_image_from_buffer", NOT_YET),
    ("cl_ext_image_requirements_info", NOT_YET),
    ("cl_intel_d3d11_nv12_media_sharing", GRAPHICS),
    ("cl_intel_dx9_media_sharing", GRAPHICS),
    ("cl_intel_sharing_format_query", GRAPHICS),
    ("cl_intel_unified_shared_memory", NOT_YET),
    ("cl_intel_va_api_media_sharing", GRAPHICS),
    ("cl_khr_command_buffer_multi_device", NOT_YET),
    ("cl_khr_command_buffer_mutable_dispatch", NOT_YET),
    ("cl_khr_d3d10_sharing", GRAPHICS),
    ("cl_khr_d3d11_sharing", GRAPHICS),
    ("cl_khr_dx9_media_sharing", GRAPHICS),
    ("cl_khr_egl_event", GRAPHICS),
    ("cl_khr_egl_image", GRAPHICS),
    ("cl_khr_external_memory", LOCAL),
    ("cl_khr_external_memory_dma_buf", LOCAL),
    ("cl_khr_external_memory_opaque_fd", LOCAL),
    ("cl_khr_external_memory_win32", LOCAL),
    ("cl_khr_external_semaphore", LOCAL),
    ("cl_khr_external_semaphore_opaque_fd", LOCAL),
    ("cl_khr_external_semaphore_sync_fd", LOCAL),
    ("cl_khr_external_semaphore_win32", LOCAL),
    ("cl_khr_gl_depth_images", GRAPHICS),
    ("cl_khr_gl_event", GRAPHICS),
    ("cl_khr_gl_msaa_sharing", GRAPHICS),
    ("cl_khr_gl_sharing", GRAPHICS),
    ("cl_khr_terminate_context", NOT_YET),
    ("cl_khr_unified_svm", NOT_YET),
    ("cl_nv_copy_opts", "its options name things of the driver on the same machine"),
    ("cl_nv_create_buffer", "its flags name memory of the same machine"),
    ("cl_nv_d3d10_sharing", GRAPHICS),
    ("cl_nv_d3d11_sharing", GRAPHICS),
    ("cl_nv_d3d9_sharing", GRAPHICS),
];
const GRAPHICS: &str = "graphics objects are on the application's machine";
const LOCAL: &str = "its handles are those of one machine";
const NOT_YET: &str = "its host functions are not there yet";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below `folder` whose names end with `suffix`, and their texts.
fn files(folder: &Path, suffix: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            let text = fs::read_to_string(&path).expect("it is text");
            found.push((path, text));
        }
    }
    found.sort_unstable();
    found
}

/// The names that `text` holds right behind `before`.
fn names_behind<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    let end = |rest: &str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    text.split(before).skip(1).map(move |rest| &rest[..end(rest)])
}

/// Whether a C program calls `function`, or asks for it by name.
fn calls(program: &str, function: &str) -> bool {
    program.match_indices(function).any(|(at, _)| {
        let alone = !program[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        alone && program[at + function.len()..].starts_with(['(', '"', ','])
    })
}

/// Up to three programs of `tests/c` that call `function`, its table of errors first.
fn tests_of(programs: &[(String, String)], function: &str) -> Vec<String> {
    let mut names: Vec<_> = programs.iter().filter(|(_, text)| calls(text, function)).map(|(name, _)| name).collect();
    names.sort_by_key(|name| (!name.starts_with("errors/"), *name));
    let tables = names.iter().filter(|name| name.starts_with("errors/")).count();
    names.drain(tables.min(1)..tables);
    names.into_iter().take(3).map(|name| format!("`{name}`")).collect()
}

fn programs() -> Vec<(String, String)> {
    let folder = root().join("tests/c");
    let name = |path: &Path| {
        let path = path.strip_prefix(&folder).expect("it is in the folder").with_extension("");
        path.to_string_lossy().into_owned()
    };
    // Programs that call functions at random are no test of any one function.
    files(&folder, ".c")
        .into_iter()
        .map(|(path, text)| (name(&path), text))
        .filter(|(name, _)| name != "errors/random")
        .collect()
}

/// The functions that are found by name only, which some source file spells as a byte string.
fn by_name_only() -> BTreeSet<String> {
    let table: BTreeSet<_> = dispatch::FUNCTIONS.iter().map(|(_, name)| *name).collect();
    let sources = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), ".rs");
    let names = sources.iter().flat_map(|(_, text)| names_behind(text, "b\"")).filter(|name| name.starts_with("cl"));
    let found = names.filter(|name| !table.contains(name) && loader::function(name.as_bytes()).is_some());
    let found = found.map(str::to_owned);
    let lists = [
        command_buffer::FUNCTIONS,
        content_size::FUNCTIONS,
        semaphore::FUNCTIONS,
        servers::FUNCTIONS,
        servers::wwu::FUNCTIONS,
        collectives::FUNCTIONS,
    ];
    found.chain(lists.concat().iter().map(|name| (*name).to_owned())).collect()
}

fn functions() -> String {
    let programs = programs();
    let mut untested = Vec::new();
    let mut out = String::from("\n| function | state | tests |\n|---|---|---|\n");
    let extra = by_name_only();
    let by_name = extra.iter().map(|name| ("found by name", name.as_str()));
    for (module, name) in dispatch::FUNCTIONS.iter().copied().chain(by_name) {
        let tests = tests_of(&programs, name);
        let note = NOTES.iter().find(|(function, _)| *function == name).map(|(_, note)| (*note).to_owned());
        let state = match module {
            "unsupported" => {
                let why = REFUSED.iter().find(|(part, _)| name.contains(part)).expect("the last one fits all").1;
                format!("refused: {why}")
            }
            "found by name" => note.unwrap_or_else(|| "works; found by name".to_owned()),
            _ => note.unwrap_or_else(|| "works".to_owned()),
        };
        // Functions that only the loader calls are tested by every program that finds the platform.
        if module != "unsupported" && tests.is_empty() && !name.starts_with("clIcd") {
            untested.push(name);
        }
        let _ = writeln!(out, "| `{name}` | {state} | {} |", tests.join(", "));
    }
    assert!(untested.is_empty(), "functions that work, but that no program in tests/c calls: {untested:#?}");
    let working: BTreeSet<_> = dispatch::FUNCTIONS.iter().filter(|(module, _)| *module != "unsupported").collect();
    let needless: Vec<_> = NOTES
        .iter()
        .filter(|(name, _)| !extra.contains(*name) && !working.iter().any(|(_, function)| function == name))
        .collect();
    assert!(needless.is_empty(), "notes on what does not work: {needless:#?}");
    out + "\n"
}

fn extensions() -> String {
    let mut rows: Vec<_> =
        capabilities::EXTENSIONS.iter().map(|name| (*name, "offered where the device has it".to_owned())).collect();
    for (name, why) in HIDDEN {
        assert!(!capabilities::EXTENSIONS.contains(name), "{name} is offered, so there is no reason why it is hidden");
        rows.push((name, format!("hidden: {why}")));
    }
    for row in &mut rows {
        if row.0 == "cl_khr_icd" {
            row.1 = "always".to_owned();
        }
    }
    rows.push((
        command_buffer::NAME,
        "on every device of OpenCL 2.1 and later: it is made of ordinary commands".to_owned(),
    ));
    rows.push((collectives::NAME, "on every platform: [its page](extensions/cl_ropeway_collectives.md)".to_owned()));
    rows.push((content_size::NAME, "always: reads of large buffers, and what goes from server to server".to_owned()));
    rows.push((semaphore::NAME, "on every device: it is made of ordinary commands and events".to_owned()));
    rows.push((servers::NAME, "always: [servers that come and go](extensions/cl_ropeway_servers.md)".to_owned()));
    rows.sort_unstable();
    let rows: String = rows.iter().map(|(name, state)| format!("| `{name}` | {state} |\n")).collect();
    format!(
        "\n| extension | state |\n|---|---|\n{rows}\nAny other is hidden: it may need host functions that Ropeway does not know.\n\n"
    )
}

/// `page` with what is between its markers replaced.
fn replaced(page: &str, list: &str, current: &str) -> String {
    let begin = format!("<!-- {list}: generated from the code by `make golden` -->\n");
    let end = format!("<!-- end of {list} -->\n");
    let (head, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no '{begin}' in docs/compatibility.md"));
    let (_, foot) = rest.split_once(&end).unwrap_or_else(|| panic!("no '{end}' in docs/compatibility.md"));
    format!("{head}{begin}{current}{end}{foot}")
}

#[test]
fn the_lists_are_current() {
    let path = root().join("docs/compatibility.md");
    let page = fs::read_to_string(&path).expect("docs/compatibility.md can be read");
    let current = replaced(&replaced(&page, "functions", &functions()), "extensions", &extensions());
    if page == current {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_GOLDEN").is_some(),
        "docs/compatibility.md lags behind the code: run `make golden`"
    );
    fs::write(&path, current).expect("docs/compatibility.md can be written");
}

#[test]
fn calls_are_told_from_other_words() {
    assert!(calls("x = clFinish(queue);", "clFinish") && calls("find(\"clFinish\")", "clFinish"));
    assert!(!calls("clFinishing(queue)", "clFinish") && !calls("reclFinish(q)", "clFinish"));
    assert!(!calls("/* clFinish waits */", "clFinish"));
}
