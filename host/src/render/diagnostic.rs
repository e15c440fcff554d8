//! Diagnostics as people read them (STYLE 3.6): code, what failed, place, found and expected, which
//! others were asked, help.
use crate::{Diagnostic, Error, ErrorKind};
use ge_plugin_api::abi::ROption;
use std::io::Write;

pub use ge_codes::exit_code;

/// Maximum number of diagnostics drawn for one failure; the rest are only counted.
const SHOWN: usize = 10;

/// Prints a failure on stderr, in colour if `colour` is set.
pub fn print_error(e: &Error, colour: bool) {
    let mut out = String::new();
    for d in e.diagnostics.iter().take(SHOWN) {
        draw(&mut out, d, e.kind, colour);
    }
    if e.diagnostics.len() > SHOWN {
        out.push_str(&format!("  … and {} more of this kind (`--json` lists all)\n", e.diagnostics.len() - SHOWN));
    }
    let _ = std::io::stderr().write_all(out.as_bytes());
}

fn draw(out: &mut String, d: &Diagnostic, kind: ErrorKind, colour: bool) {
    let code = if d.code.is_empty() { ge_codes::code_of(kind).text() } else { d.code.as_str() };
    let (on, off) = if colour { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
    let atc = if d.atc_code.is_empty() { String::new() } else { format!(", atc {}", d.atc_code) };
    out.push_str(&format!("{on}{}[{code}{atc}]{off}: {}\n", d.severity, d.message));
    if let ROption::RSome(p) = &d.place {
        match (p.line, p.column) {
            (0, _) => out.push_str(&format!("  in {}\n", p.file)),
            (l, 0) => out.push_str(&format!("  in {}:{l}\n", p.file)),
            (l, c) => out.push_str(&format!("  in {}:{l}:{c}\n", p.file)),
        }
    }
    if !d.node.is_empty() && !d.message.contains(&format!("`{}`", d.node)) {
        out.push_str(&format!("  at node `{}` ({})\n", d.node, d.op));
    }
    if !d.found.is_empty() || !d.expected.is_empty() {
        let subject = if d.subject.is_empty() { String::new() } else { format!("{}: ", d.subject) };
        out.push_str(&format!("  {subject}found {}, expected {}\n", d.found, d.expected));
    }
    for n in &d.notes {
        out.push_str(&format!("  {n}\n"));
    }
    if !d.help.is_empty() {
        out.push_str(&format!("  help: {}\n", d.help));
    }
}

/// Converts a failure to JSON.
pub fn error_json(e: &Error) -> serde_json::Value {
    let list: Vec<serde_json::Value> = e
        .diagnostics
        .iter()
        .map(|d| {
            let place = match &d.place {
                ROption::RSome(p) => serde_json::json!({"file": p.file.as_str(), "line": p.line, "column": p.column}),
                ROption::RNone => serde_json::Value::Null,
            };
            serde_json::json!({
                "code": if d.code.is_empty() { ge_codes::code_of(e.kind).text() } else { d.code.as_str() }, "atc_code": d.atc_code.as_str(),
                "severity": d.severity.name(), "message": d.message.as_str(), "place": place, "node": d.node.as_str(), "op": d.op.as_str(),
                "subject": d.subject.as_str(), "found": d.found.as_str(), "expected": d.expected.as_str(),
                "notes": d.notes.iter().map(|n| n.as_str()).collect::<Vec<_>>(), "help": d.help.as_str(),
            })
        })
        .collect();
    serde_json::json!({"schema": 1, "error": {"kind": e.kind.name(), "exit": exit_code(e.kind), "diagnostics": list}})
}
