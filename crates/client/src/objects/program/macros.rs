//! Macros, as far as the names of headers need them: `#include M2S(INCLUDE_PATH/types.h)`.
//!
//! Conditions are not evaluated, so a macro that is defined twice, and not the same, has no known value: what depends on
//! it is left to the compiler.

use std::collections::HashMap;

/// Bytes at which an expansion has grown beyond all that a header's name may be.
const MAX_EXPANDED: usize = 64 << 10;

/// What is known of the macros at one place of a source.
#[derive(Debug, Default)]
pub(super) struct Macros {
    /// `None` where the value depends on conditions.
    known: HashMap<String, Option<Macro>>,
    /// Conditions (`#if`) that are open.
    depth: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Macro {
    /// Of one that looks like a function.
    parameters: Option<Vec<String>>,
    body: String,
}

/// A piece of a source's text.
enum Token<'a> {
    Name(&'a str),
    /// Some white space.
    Space,
    /// Anything else: a number, a string with its quotation marks, or one character.
    Other(&'a str),
}

impl Macros {
    /// Those that build options define, split into words: `-D NAME`, `-DNAME=VALUE`, `-DNAME(PARAMETERS)=VALUE`.
    pub(super) fn of_options(words: &[String]) -> Self {
        let mut macros = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(rest) = word.strip_prefix("-D") else { continue };
            let definition = if rest.is_empty() { words.next().map_or("", String::as_str) } else { rest };
            match definition.split_once('=') {
                Some((head, body)) => macros.define(&format!("{head} {body}")),
                None => macros.define(&format!("{definition} 1")),
            }
        }
        macros
    }

    /// Takes in a directive: its text after the `#`.
    pub(super) fn see(&mut self, directive: &str) {
        let (word, rest) = split_name(directive);
        match word {
            "define" => self.define(rest.trim_start()),
            "undef" => {
                let (name, _) = split_name(rest.trim_start());
                if self.depth == 0 {
                    self.known.remove(name);
                } else if self.known.contains_key(name) {
                    self.known.insert(name.to_owned(), None);
                }
            }
            "if" | "ifdef" | "ifndef" => self.depth += 1,
            "endif" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// The header that `text` names, all of it macros or not, and whether it stands in quotation marks.
    pub(super) fn header(&self, text: &str) -> Option<(String, bool)> {
        match between_marks(text) {
            None => between_marks(self.expand(&without_comments(text), &mut Vec::new())?.trim()),
            name => name,
        }
    }

    /// `NAME VALUE` or `NAME(PARAMETERS) VALUE`.
    fn define(&mut self, text: &str) {
        let (name, rest) = split_name(text);
        if name.is_empty() {
            return;
        }
        let (parameters, body) = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((parameters, body)) => {
                (Some(parameters.split(',').map(|name| name.trim().to_owned()).collect()), body)
            }
            None => (None, rest),
        };
        // The next line would belong to it.
        let is_whole = !body.trim_end().ends_with('\\');
        let new = is_whole.then(|| Macro { parameters, body: without_comments(body).trim().to_owned() });
        self.known
            .entry(name.to_owned())
            .and_modify(|known| *known = known.take().filter(|old| Some(old) == new.as_ref()))
            .or_insert(new);
    }

    /// `text` with the values of its macros; `None` if one is not known, or for what is not understood here (`##`).
    fn expand(&self, text: &str, within: &mut Vec<String>) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((token, later)) = next(rest) {
            rest = later;
            let name = match token {
                Token::Name(name) if !within.iter().any(|outer| outer == name) => name,
                Token::Name(text) | Token::Other(text) => {
                    out.push_str(text);
                    continue;
                }
                Token::Space => {
                    out.push(' ');
                    continue;
                }
            };
            match self.known.get(name) {
                None => out.push_str(name),
                Some(None) => return None,
                Some(Some(Macro { parameters: None, body })) => {
                    within.push(name.to_owned());
                    out.push_str(&self.expand(body, within)?);
                    within.pop();
                }
                Some(Some(Macro { parameters: Some(parameters), body })) => {
                    let Some(list) = rest.trim_start().strip_prefix('(') else {
                        out.push_str(name);
                        continue;
                    };
                    let (arguments, later) = arguments(list)?;
                    rest = later;
                    if arguments.len() != parameters.len() {
                        return None;
                    }
                    let body = self.substitute(body, parameters, &arguments, within)?;
                    within.push(name.to_owned());
                    out.push_str(&self.expand(&body, within)?);
                    within.pop();
                }
            }
            if out.len() > MAX_EXPANDED {
                return None;
            }
        }
        Some(out)
    }

    /// A macro's body with `arguments` in the place of its parameters.
    fn substitute(
        &self,
        body: &str,
        parameters: &[String],
        arguments: &[&str],
        within: &mut Vec<String>,
    ) -> Option<String> {
        let argument = |name: &str| parameters.iter().position(|known| known == name).map(|at| arguments[at]);
        let mut out = String::new();
        let mut rest = body;
        while let Some((token, later)) = next(rest) {
            rest = later;
            match token {
                Token::Other("#") => match next(rest.trim_start())? {
                    (Token::Name(name), later) => {
                        out.push_str(&stringified(argument(name)?));
                        rest = later;
                    }
                    _ => return None,
                },
                Token::Name(name) => match argument(name) {
                    Some(text) => out.push_str(&self.expand(text, within)?),
                    None => out.push_str(name),
                },
                Token::Other(text) => out.push_str(text),
                Token::Space => out.push(' '),
            }
            if out.len() > MAX_EXPANDED {
                return None;
            }
        }
        Some(out)
    }
}

/// A header's name, and whether it stands in quotation marks.
fn between_marks(text: &str) -> Option<(String, bool)> {
    let (rest, end) = match text.strip_prefix('"') {
        Some(rest) => (rest, '"'),
        None => (text.strip_prefix('<')?, '>'),
    };
    let (name, _) = rest.split_once(end)?;
    Some((name.to_owned(), end == '"'))
}

/// The name that `text` begins with, maybe an empty one, and the rest.
fn split_name(text: &str) -> (&str, &str) {
    let is_part = |(at, c): &(usize, char)| *c == '_' || c.is_ascii_alphabetic() || *at > 0 && c.is_ascii_digit();
    let len = text.char_indices().take_while(is_part).count();
    text.split_at(len)
}

/// The first token, and what follows it.
fn next(text: &str) -> Option<(Token<'_>, &str)> {
    let first = text.chars().next()?;
    let (name, rest) = split_name(text);
    if !name.is_empty() {
        return Some((Token::Name(name), rest));
    }
    if first.is_whitespace() {
        return Some((Token::Space, text.trim_start()));
    }
    let mut chars = text.char_indices().skip(1);
    let end = match first {
        // A number goes on through letters and dots (C99, section 6.4.8).
        '0'..='9' => chars.find(|(_, c)| !c.is_ascii_alphanumeric() && !"._".contains(*c)).map(|(at, _)| at),
        '"' => {
            let mut is_escaped = false;
            let is_end = |(_, c): &(usize, char)| {
                let ends = *c == '"' && !is_escaped;
                is_escaped = *c == '\\' && !is_escaped;
                ends
            };
            chars.find(is_end).map(|(at, _)| at + 1)
        }
        _ => chars.next().map(|(at, _)| at),
    };
    let (token, rest) = text.split_at(end.unwrap_or(text.len()));
    Some((Token::Other(token), rest))
}

/// The arguments up to the closing parenthesis, and what follows that.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut all, mut depth, mut begin) = (Vec::new(), 0, text);
    let mut rest = text;
    loop {
        let (token, later) = next(rest)?;
        let argument = || begin[..begin.len() - rest.len()].trim();
        match token {
            Token::Other(")") if depth == 0 => {
                all.push(argument());
                return Some((all, later));
            }
            Token::Other(",") if depth == 0 => {
                all.push(argument());
                begin = later;
            }
            Token::Other("(") => depth += 1,
            Token::Other(")") => depth -= 1,
            _ => {}
        }
        rest = later;
    }
}

/// `#argument` (C99, section 6.10.3.2).
fn stringified(argument: &str) -> String {
    let words: Vec<_> = argument.split_whitespace().collect();
    format!("\"{}\"", words.join(" ").replace('\\', "\\\\").replace('"', "\\\""))
}

/// A line's text without its comments.
fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((token, later)) = next(rest) {
        if rest.starts_with("//") {
            break;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            out.push(' ');
            rest = comment.split_once("*/").map_or("", |(_, later)| later);
            continue;
        }
        match token {
            Token::Name(text) | Token::Other(text) => out.push_str(text),
            Token::Space => out.push(' '),
        }
        rest = later;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn macros(options: &[&str], lines: &[&str]) -> Macros {
        let words: Vec<_> = options.iter().map(|word| (*word).to_owned()).collect();
        let mut macros = Macros::of_options(&words);
        lines.iter().for_each(|line| macros.see(line));
        macros
    }

    #[test]
    fn a_name_is_put_together_from_options_as_hashcat_does() {
        let options = ["-D", "INCLUDE_PATH=/usr/share/hashcat-6.2/OpenCL", "-D", "XM2S(x)=#x", "-DM2S(x)=XM2S(x)"];
        let macros = macros(&options, &["define COMPARE_S M2S(INCLUDE_PATH/inc_comp_single.cl) // one"]);
        for (text, name) in [
            ("M2S(INCLUDE_PATH/inc_types.h)", "/usr/share/hashcat-6.2/OpenCL/inc_types.h"),
            ("COMPARE_S /* here */", "/usr/share/hashcat-6.2/OpenCL/inc_comp_single.cl"),
        ] {
            assert_eq!(macros.header(text), Some((name.to_owned(), true)), "{text}");
        }
    }

    #[test]
    fn names_in_both_kinds_of_marks() {
        let macros = macros(&["-DA=\"a.h\"", "-DB=<sys/b.h>", "-D", "FLAG"], &[]);
        assert_eq!(macros.header("A"), Some(("a.h".into(), true)));
        assert_eq!(macros.header(" B"), Some(("sys/b.h".into(), false)));
        assert_eq!((macros.header("FLAG"), macros.header("C")), (None, None));
    }

    #[test]
    fn what_depends_on_conditions_is_not_known() {
        let either = ["ifdef X", "define H \"a.h\"", "else", "define H \"b.h\"", "endif"];
        assert_eq!(macros(&[], &either).header("H"), None);
        // The same twice, or one after the other, is known.
        assert!(macros(&[], &["define H \"a.h\"", "define H   \"a.h\" // again"]).header("H").is_some());
        let then = ["define H \"a.h\"", "undef H", "define H \"b.h\""];
        assert_eq!(macros(&[], &then).header("H"), Some(("b.h".into(), true)));
        let perhaps = ["define H \"a.h\"", "if X", "undef H", "endif", "define H \"b.h\""];
        assert_eq!(macros(&[], &perhaps).header("H"), None);
        assert_eq!(macros(&[], &["define H \\"]).header("H"), None);
    }

    #[test]
    fn macros_that_name_themselves_or_make_no_name_end() {
        let macros = macros(&["-DA=A", "-DB=C", "-DC=B", "-DF(x)=F(x)", "-DG(x,y)=x##y", "-DH(x)=#y"], &[]);
        for text in ["A", "B", "F(1)", "F(", "F", "G(a,b)", "G(a)", "H(1)", "\"open", "", "(", ")", "##"] {
            assert_eq!(macros.header(text), None, "{text}");
        }
        let many: Vec<String> = (0..40).map(|n| format!("define M{} M{n} M{n} M{n} M{n}", n + 1)).collect();
        let mut grows = Macros::default();
        many.iter().for_each(|line| grows.see(line));
        assert_eq!(grows.header("M40"), None);
    }
}
