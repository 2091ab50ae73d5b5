//! The list of messages in `docs/protocol.md` is the message table.
//!
//! `UPDATE_GOLDEN=1 cargo test -p ropeway-protocol --test docs` (`make golden`) writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use ropeway_protocol::{Described, MESSAGES, NOTES, PEER_MESSAGES};

const BEGIN: &str = "<!-- messages: generated from crates/protocol/src/messages.rs by `make golden` -->\n";
const END: &str = "<!-- end of messages -->\n";

/// One Markdown list entry for each row: the wire, then what it means.
fn list(table: &[Described]) -> String {
    table.iter().fold(String::new(), |mut out, row| {
        let kind = format!("{:?}", row.kind).to_lowercase();
        let fields: Vec<_> = row.fields().collect();
        let fields = if fields.is_empty() { String::new() } else { format!(" {}", fields.join(", ")) };
        let tail = if row.tail { " + tail" } else { "" };
        let reply = row.reply().map(|reply| format!(" -> {reply}")).unwrap_or_default();
        let doc = row.doc.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(out, "- **{}** ({kind} {})  ", row.name, row.opcode);
        let _ = writeln!(out, "  `{{{fields} }}{tail}{reply}`  ");
        let _ = writeln!(out, "  {doc}");
        out
    })
}

#[test]
fn the_message_list_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = std::fs::read_to_string(&path).expect("docs/protocol.md can be read");
    let (head, rest) = page.split_once(BEGIN).expect("docs/protocol.md has the marker where the messages begin");
    let (_, foot) = rest.split_once(END).expect("docs/protocol.md has the marker where the messages end");
    let messages = format!(
        "\n### From the client\n\n{}\n### From the server\n\n{}\n### Between peers\n\n{}\n",
        list(MESSAGES),
        list(NOTES),
        list(PEER_MESSAGES)
    );
    let current = format!("{head}{BEGIN}{messages}{END}{foot}");
    if page == current {
        return;
    }
    assert!(std::env::var_os("UPDATE_GOLDEN").is_some(), "docs/protocol.md lags behind the table: run `make golden`");
    std::fs::write(&path, current).unwrap();
}
