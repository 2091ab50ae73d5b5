//! `#include` in program sources.
//!
//! The compiler is at the server and the headers are here, so what a source includes is put in its place before it is
//! sent, just as a preprocessor would. What cannot be found here stays as it is: it may be a header of the compiler's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::macros::Macros;

/// Headers within headers that are followed (clang's own limit is 200).
const MAX_DEPTH: usize = 100;

/// Bytes at which a source has grown beyond all reason.
const MAX_EXPANDED: usize = 64 << 20;

/// The name that the compiler's messages have for the application's own text once it says where a line comes from.
const MAIN: &str = "source.cl";

/// `source` with everything included that can be found, or `None` where nothing is.
///
/// `headers` are texts that the application gives for names (clCompileProgram); they come before all files. `options`
/// are those of the build; their `-I` folders are searched in order, relative ones from the current folder.
pub fn expand(source: &[u8], options: &str, headers: &[(&str, &[u8])]) -> Option<Vec<u8>> {
    expand_with(source, options, headers, |path| std::fs::read(path).ok())
}

/// [`expand`] with another way to read files: `None` for one that is not there.
fn expand_with(
    source: &[u8],
    options: &str,
    headers: &[(&str, &[u8])],
    read: impl Fn(&Path) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    // Most programs include nothing, and are not looked at twice.
    if !source.windows(7).any(|word| word == b"include") {
        return None;
    }
    let words = words(options);
    let mut expansion = Expansion {
        headers,
        folders: folders(&words),
        macros: Macros::of_options(&words),
        read: &read,
        out: Vec::new(),
        stack: Vec::new(),
        once: Vec::new(),
    };
    expansion.text(source, None).then_some(expansion.out)
}

/// The folders of `-I` in build options.
fn folders(words: &[String]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("-I") {
            Some("") => folders.extend(words.next().map(PathBuf::from)),
            Some(folder) => folders.push(folder.into()),
            None => {}
        }
    }
    folders
}

/// Splits options at spaces, except within quotation marks.
fn words(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(end)) if c == end => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', _) => word.get_or_insert_default().extend(chars.next()),
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

struct Expansion<'a> {
    headers: &'a [(&'a str, &'a [u8])],
    folders: Vec<PathBuf>,
    macros: Macros,
    read: &'a dyn Fn(&Path) -> Option<Vec<u8>>,
    out: Vec<u8>,
    /// The headers that are being put in, outermost first.
    stack: Vec<PathBuf>,
    /// Those with `#pragma once`.
    once: Vec<PathBuf>,
}

impl Expansion<'_> {
    /// Appends `text`, which is the main source or the header at `path`; whether anything in it was replaced.
    fn text(&mut self, text: &[u8], path: Option<&Path>) -> bool {
        let mut replaced = false;
        let mut comment = false;
        for (number, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let directive = if comment { None } else { directive(line) };
            comment = in_comment_after(line, comment);
            match directive {
                Some(Directive::Include(text)) if self.include(text, path) => {
                    replaced = true;
                    self.line(number + 2, path);
                }
                // The compiler would warn of `#pragma once` in what is a single file to it; `header` implements its
                // meaning.
                Some(Directive::PragmaOnce) if path.is_some() => self.out.push(b'\n'),
                other => {
                    if let Some(Directive::Other(text)) = other {
                        self.macros.see(text);
                    }
                    self.out.extend_from_slice(line);
                }
            }
        }
        replaced
    }

    /// Appends what `#include` names, or macros that stand for its name; returns false if that is not found, and its line
    /// has to stay.
    fn include(&mut self, text: &str, from: Option<&Path>) -> bool {
        self.macros.header(text).is_some_and(|(name, quoted)| self.header(&name, quoted, from))
    }

    /// Appends a header if it is found; returns false if it is not, and its line has to stay.
    fn header(&mut self, name: &str, quoted: bool, from: Option<&Path>) -> bool {
        let Some((path, text)) = self.find(name, quoted, from) else { return false };
        if self.out.len() + text.len() > MAX_EXPANDED || self.stack.len() == MAX_DEPTH {
            return false;
        }
        let once = has_pragma_once(&text);
        if self.stack.contains(&path) && (once || is_guarded(&text)) {
            // The header would find itself included already and contribute nothing.
            return true;
        }
        if once {
            let number = self.once.iter().position(|known| *known == path).unwrap_or_else(|| {
                self.once.push(path.clone());
                self.once.len() - 1
            });
            let guard = format!("#ifndef ROPEWAY_ONCE_{number}\n#define ROPEWAY_ONCE_{number}\n");
            self.out.extend_from_slice(guard.as_bytes());
        }
        self.line(1, Some(&path));
        self.stack.push(path.clone());
        self.text(&text, Some(&path));
        self.stack.pop();
        if self.out.last() != Some(&b'\n') {
            self.out.push(b'\n');
        }
        if once {
            self.out.extend_from_slice(b"#endif\n");
        }
        true
    }

    /// Finds a header's path and text: first among the application's own headers, then, if its name is in quotation
    /// marks, beside the file that includes it, then in the folders.
    fn find(&self, name: &str, quoted: bool, from: Option<&Path>) -> Option<(PathBuf, Vec<u8>)> {
        if let Some((_, text)) = self.headers.iter().find(|(known, _)| *known == name) {
            return Some((name.into(), text.to_vec()));
        }
        if Path::new(name).is_absolute() {
            return Some((name.into(), (self.read)(Path::new(name))?));
        }
        let beside = from.and_then(Path::parent).filter(|_| quoted);
        let places = beside.into_iter().chain(self.folders.iter().map(PathBuf::as_path));
        places.map(|folder| folder.join(name)).find_map(|path| Some(((self.read)(&path)?, path))).map(|(t, p)| (p, t))
    }

    /// Says where the next line comes from.
    fn line(&mut self, number: usize, path: Option<&Path>) {
        let name = path.map_or(MAIN.into(), Path::to_string_lossy);
        let mut text = String::new();
        let _ = writeln!(text, "#line {number} \"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// The directives that matter here.
#[derive(PartialEq, Eq, Debug)]
enum Directive<'a> {
    /// What follows the word.
    Include(&'a str),
    PragmaOnce,
    /// Its text after the `#`.
    Other(&'a str),
}

fn directive(line: &[u8]) -> Option<Directive<'_>> {
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    if let Some(text) = rest.strip_prefix("include") {
        return Some(Directive::Include(text.trim_start()));
    }
    let mut words = rest.split_whitespace();
    let is_once = words.next() == Some("pragma") && words.next() == Some("once");
    Some(if is_once { Directive::PragmaOnce } else { Directive::Other(rest) })
}

/// Returns whether a `/*` comment is still open after this line; `comment` says whether one was open before it.
fn in_comment_after(line: &[u8], mut comment: bool) -> bool {
    let mut quote = None;
    let mut at = 0;
    while at < line.len() {
        let two = line.get(at..at + 2);
        if comment {
            if two == Some(b"*/") {
                comment = false;
                at += 1;
            }
        } else if let Some(end) = quote {
            match line[at] {
                b'\\' => at += 1,
                byte if byte == end => quote = None,
                _ => {}
            }
        } else if two == Some(b"//") {
            return false;
        } else if two == Some(b"/*") {
            comment = true;
            at += 1;
        } else if matches!(line[at], b'"' | b'\'') {
            quote = Some(line[at]);
        }
        at += 1;
    }
    comment
}

fn has_pragma_once(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n').any(|line| directive(line) == Some(Directive::PragmaOnce))
}

/// Whether the header's first directive leaves it out when it was included before (`#ifndef X`, `#define X`).
fn is_guarded(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut directives = text.lines().filter_map(|line| line.trim_start().strip_prefix('#')).map(str::trim_start);
    let first = directives.next().unwrap_or_default();
    let name = first.strip_prefix("ifndef").or_else(|| first.strip_prefix("if !defined")).map(|rest| {
        rest.trim_matches(|c: char| c.is_whitespace() || c == '(' || c == ')').split_whitespace().next().unwrap_or("")
    });
    let defined = directives.next().and_then(|second| second.strip_prefix("define"));
    let defined = defined.and_then(|rest| rest.split_whitespace().next());
    name.is_some_and(|name| !name.is_empty() && defined == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[
        ("/i/a.h", "#ifndef A\n#define A\n#include \"b.h\"\nint a;\n#endif\n"),
        ("/i/b.h", "#include \"a.h\"\nint b;"),
        ("/i/once.h", "#pragma once\nint once;\n"),
        ("/j/sub/c.h", "#include \"d.h\"\n"),
        ("/j/sub/d.h", "int d;\n"),
        ("/i/endless.h", "#include \"endless.h\"\n"),
    ];

    fn expanded(source: &str, options: &str) -> Option<String> {
        let read = |path: &Path| {
            let text = FILES.iter().find(|(name, _)| Path::new(name) == path)?.1;
            Some(text.as_bytes().to_vec())
        };
        let headers: &[(&str, &[u8])] = &[("own/given.h", b"#include \"b.h\"\nint given;\n")];
        expand_with(source.as_bytes(), options, headers, read).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn nothing_to_include_changes_nothing() {
        assert_eq!(expanded("kernel void f() {}", "-I /i"), None);
        assert_eq!(expanded("#include <stddef.h>\n#include NAME\n// include", "-I /i"), None);
    }

    #[test]
    fn a_header_comes_in_the_place_of_its_line() {
        let text = expanded("int x;\n # include <d.h> // that one\nint y;\n", "-cl-fast -I /j/sub -DX").unwrap();
        assert_eq!(text, "int x;\n#line 1 \"/j/sub/d.h\"\nint d;\n#line 3 \"source.cl\"\nint y;\n");
    }

    #[test]
    fn a_header_finds_others_beside_it() {
        let text = expanded("#include \"sub/c.h\"\n", "-I/j").unwrap();
        assert!(text.contains("int d;"), "{text}");
    }

    #[test]
    fn a_header_of_the_applications_own_needs_no_file() {
        let text = expanded("#include <own/given.h>\n", "-I /i").unwrap();
        assert!(text.contains("int given;") && text.contains("int b;"), "{text}");
    }

    #[test]
    fn a_header_with_its_whole_path_needs_no_folder() {
        let text = expanded("#include \"/j/sub/c.h\"\n", "").unwrap();
        assert!(text.contains("int d;"), "{text}");
    }

    #[test]
    fn headers_that_include_each_other_end() {
        let text = expanded("#include \"a.h\"\n#include \"a.h\"\n", "-I /i").unwrap();
        assert_eq!(text.matches("int a;").count(), 2, "the guard is the preprocessor's business: {text}");
        assert_eq!(text.matches("#ifndef A").count(), text.matches("#endif").count());
        assert!(!text.contains("#include"), "{text}");
    }

    #[test]
    fn pragma_once_becomes_a_guard() {
        let text = expanded("#include \"once.h\"\n#include \"once.h\"\n", "-I /i").unwrap();
        assert_eq!(text.matches("#ifndef ROPEWAY_ONCE_0\n#define ROPEWAY_ONCE_0\n").count(), 2);
        assert!(!text.contains("pragma"), "{text}");
    }

    #[test]
    fn a_header_without_end_is_left_to_the_compiler() {
        let text = expanded("#include \"endless.h\"\n", "-I /i").unwrap();
        assert!(text.contains("#include \"endless.h\""), "{text}");
    }

    #[test]
    fn macros_may_stand_for_a_headers_name() {
        let options = "-D PLACE=\"/j/sub\" -D XS(x)=#x -D S(x)=XS(x) -D KERNEL_STATIC";
        let text = expanded("#ifdef KERNEL_STATIC\n#include S(PLACE/d.h)\n#endif\n", options).unwrap();
        assert!(text.contains("int d;") && !text.contains("#include"), "{text}");
        // Also one that a header defines, and no other.
        let text =
            expanded("#include \"own/given.h\"\n#define H \"a.h\"\n#include H\n#include OTHER\n", "-I /i").unwrap();
        assert!(text.contains("int a;") && text.contains("#include OTHER"), "{text}");
    }

    #[test]
    fn comments_include_nothing() {
        assert_eq!(expanded("/*\n#include \"d.h\"\n*/ // /*\n", "-I /j/sub"), None);
        assert!(expanded("char *x = \"/*\"; /* */\n#include \"d.h\"\n", "-I /j/sub").is_some());
    }

    #[test]
    fn options_are_split_as_a_shell_would() {
        assert_eq!(words(r#"-I "/a b" -I'/c d' -DX=\"y\"  -I/e\ f"#), ["-I", "/a b", "-I/c d", "-DX=\"y\"", "-I/e f"]);
        assert_eq!(folders(&words(r#"-I "/a b" -I'/c d' -cl-x -I"#)), [Path::new("/a b"), Path::new("/c d")]);
    }
}
