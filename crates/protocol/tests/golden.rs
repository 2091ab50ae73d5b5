//! Pins the wire: the message table, and samples of every message and reply byte for byte.
//!
//! `UPDATE_GOLDEN=1 cargo test -p ropeway-protocol --test golden` (`make golden`) writes `golden.txt` anew, and raises
//! [`VERSION`] if the wire has changed since the version was last raised.

use std::fmt::Write as _;
use std::path::Path;

use ropeway_generate::{Entropy, Generator, seeded};
use ropeway_protocol::{Described, MESSAGES, NOTES, PEER_MESSAGES, VERSION};

/// How many values of a type are pinned: enough for every variant of every enum to occur, which `covers_every_variant`
/// checks.
fn samples(name: &str) -> usize {
    match name {
        "SetKernelArg" | "KernelArgInfo" | "BuildReply" => 32,
        _ => 5,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn messages(out: &mut String, table: &[Described], generators: &[Generator]) {
    for row in table {
        let kind = format!("{:?}", row.kind).to_lowercase();
        let _ =
            write!(out, "\n{kind} {} {} {{ {} }}", row.opcode, row.name, row.fields().collect::<Vec<_>>().join(", "));
        let _ = write!(out, "{}", if row.tail { " + tail" } else { "" });
        let _ = writeln!(out, "{}", row.reply().map(|reply| format!(" -> {reply}")).unwrap_or_default());
        let generator = generators.iter().find(|generator| generator.name == row.name);
        let generator = generator.unwrap_or_else(|| panic!("{} has no generator in ropeway-generate", row.name));
        for sample in 0..samples(row.name) {
            let entropy = seeded(&format!("{} {sample}", row.name), 96);
            let mut frame = Vec::new();
            let value = generator.frame(&mut Entropy::new(&entropy), &mut frame);
            let _ = writeln!(out, "  {value}\n    {}", hex(&frame));
        }
    }
}

fn pinned() -> String {
    let mut out = first_line(VERSION);
    messages(&mut out, MESSAGES, ropeway_generate::MESSAGES);
    messages(&mut out, NOTES, ropeway_generate::NOTES);
    messages(&mut out, PEER_MESSAGES, ropeway_generate::PEER_MESSAGES);
    for reply in ropeway_generate::REPLIES {
        let _ = writeln!(out, "\nbody {}", reply.name);
        for sample in 0..samples(reply.name) {
            let entropy = seeded(&format!("{} {sample}", reply.name), 160);
            let (value, bytes) = reply.body(&mut Entropy::new(&entropy));
            let _ = writeln!(out, "  {value}\n    {}", hex(&bytes));
        }
    }
    out
}

/// The first line of `golden.txt`.
fn first_line(version: u16) -> String {
    format!("version {version}\n")
}

/// Writes the next version into the source.
fn raise_version(next: u16) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let source = std::fs::read_to_string(&path).unwrap();
    let declared = |version| format!("pub const VERSION: u16 = {version};");
    assert_eq!(source.matches(&declared(VERSION)).count(), 1, "VERSION is declared once in {}", path.display());
    std::fs::write(&path, source.replace(&declared(VERSION), &declared(next))).unwrap();
}

#[test]
fn the_wire_is_as_pinned() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt");
    let mut now = pinned();
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    if now == before {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_GOLDEN").is_some(),
        "the wire has changed: `make golden` raises VERSION and pins it"
    );
    let version_before = before.lines().next().and_then(|line| line.strip_prefix("version ")?.parse().ok());
    if version_before.is_some_and(|before: u16| VERSION <= before) {
        raise_version(VERSION + 1);
        now = now.replacen(&first_line(VERSION), &first_line(VERSION + 1), 1);
    }
    std::fs::write(&path, now).unwrap();
}

#[test]
fn no_opcode_or_name_occurs_twice() {
    for table in [MESSAGES, NOTES, PEER_MESSAGES] {
        for (at, row) in table.iter().enumerate() {
            assert_ne!(row.opcode, 0, "{}: 0 is the reply's opcode", row.name);
            for other in &table[..at] {
                assert!(row.opcode != other.opcode && row.name != other.name, "{} and {}", row.name, other.name);
            }
        }
    }
}

#[test]
fn every_message_is_documented_and_generated() {
    for (table, generators) in [
        (MESSAGES, ropeway_generate::MESSAGES),
        (NOTES, ropeway_generate::NOTES),
        (PEER_MESSAGES, ropeway_generate::PEER_MESSAGES),
    ] {
        assert_eq!(table.len(), generators.len());
        for row in table {
            assert!(row.doc.trim().ends_with('.'), "{} has no documentation, or half a sentence", row.name);
        }
    }
}

#[test]
fn every_reply_is_generated() {
    for (row, reply) in MESSAGES.iter().filter_map(|row| Some((row, row.reply()?))) {
        let body = format!("Result<{reply}, Status>");
        let generated = ropeway_generate::REPLIES.iter().any(|reply| reply.written == body);
        assert!(generated, "the reply to {} is missing from REPLIES in ropeway-generate", row.name);
    }
}

#[test]
fn covers_every_variant() {
    let pinned = pinned();
    for variant in [
        "Bytes(",
        "Memory(Some",
        "Memory(None",
        "Local(",
        "Queue(",
        "Undefined",
        "initial: Tail",
        "Transfer(",
        "NeedContent",
        "Built(",
        "Loaded",
        "Stdout",
        "Stderr",
        "Unknown",
        "Value(",
        "kind: Buffer",
        "kind: Local",
        "Other",
        "declared: Some",
        "declared: None",
        "offset: Some",
        "local: Some",
        "local: None",
        "times: Some",
        "Commands",
        "Peer {",
        "Ranges(",
        "Image(",
    ] {
        assert!(pinned.contains(variant), "no sample has {variant}");
    }
}
