//! Checks that every code in the sources comes from the table, and that every code in the table is
//! used.
use super::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Path and text of the product's sources, without the pages themselves.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut open: Vec<PathBuf> = ["host", "plugin-api", "engines", "plugins"].iter().map(|d| root.join(d)).collect();
    let mut out = Vec::new();
    while let Some(d) = open.pop() {
        for e in std::fs::read_dir(&d).expect("a folder of the repository").map(|e| e.expect("readable").path()) {
            if e.is_dir() {
                open.push(e);
            } else if e.extension().is_some_and(|x| x == "rs") && !e.to_string_lossy().contains("codes/src") {
                let text = std::fs::read_to_string(&e).expect("a source is text");
                out.push((e, text));
            }
        }
    }
    assert!(out.len() > 200, "the sources were not found");
    out
}

fn names() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    [model::NAMES, front_end::NAMES, usage::NAMES, files::NAMES, plugins::NAMES, runs::NAMES].into_iter().flatten()
}

#[test]
fn every_code_has_one_page_that_says_enough() {
    let all: BTreeSet<&str> = pages().map(|p| p.code.text()).collect();
    assert_eq!(all.len(), pages().count(), "a code stands twice");
    assert!(all.len() > 50);
    // A page needs a cause, a remedy and an example; two lines say too little.
    for p in pages() {
        let code = p.code.text();
        assert!(p.text.len() > 40 && p.remedy.len() > 20 && p.example.len() > 8, "{code} says too little");
        let digits = code.strip_prefix("GE-E").unwrap_or("");
        assert!(digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()), "{code}");
    }
    assert_eq!(names().count(), all.len());
}

/// Errors name codes by the constants of the table. A code given as text would have no kind, and
/// therefore no exit code from the table.
#[test]
fn sources_name_codes_by_constants_alone_and_use_all_of_them() {
    let (mut as_text, mut used) = (Vec::new(), BTreeSet::new());
    for (path, text) in sources() {
        let is_test = path.components().any(|c| c.as_os_str() == "tests") || path.ends_with("tests.rs");
        // Unit tests are at the end of a file and may spell out a code.
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
            // Allowed are the text that a dying process writes, help examples, and the table of the
            // interface.
            let allowed = line.contains("b\"error[") || line.contains("Example:") || line.contains("Code::new(");
            if line.contains("\"GE-E") && !is_test && !allowed {
                as_text.push(format!("{}: {}", path.display(), line.trim()));
            }
            let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            used.extend(words.filter(|w| w.len() > 2 && w.chars().all(|c| !c.is_lowercase())).map(str::to_owned));
        }
    }
    assert_eq!(as_text, Vec::<String>::new(), "codes that are no constants of the table");
    let idle: Vec<&str> = names().map(|(n, _)| *n).filter(|n| !used.contains(*n)).collect();
    // These are used by `code_of` above, for errors without a code of their own.
    let by_kind: Vec<&str> = (0..=9)
        .map(|k| code_of(ErrorKind(k)).text())
        .filter_map(|t| names().find(|(_, c)| *c == t).map(|(n, _)| *n))
        .collect();
    assert_eq!(idle.iter().filter(|n| !by_kind.contains(n)).collect::<Vec<_>>(), Vec::<&&str>::new());
}

/// The exit codes that the design prescribes, by code. Scripts rely on them.
#[test]
fn every_code_has_the_exit_code_of_the_design() {
    let expected: &[(u8, &[&str])] = &[
        (1, &["0001", "0209", "0315", "0316", "0340", "0403", "0523", "0701", "0702", "0703", "0801", "0802", "0803"]),
        (
            2,
            &[
                "0107", "0300", "0301", "0302", "0303", "0304", "0305", "0306", "0307", "0308", "0309", "0310", "0311",
                "0312", "0313", "0314", "0318", "0319", "0320", "0321", "0322", "0323", "0324", "0325", "0326", "0327",
                "0328", "0330", "0331", "0332", "0343", "0352", "0406", "0408", "0804",
            ],
        ),
        (
            3,
            &[
                "0104", "0200", "0201", "0207", "0208", "0210", "0329", "0342", "0350", "0351", "0401", "0404", "0601",
                "0602", "0604", "0605",
            ],
        ),
        (
            4,
            &[
                "0101", "0102", "0103", "0106", "0120", "0121", "0122", "0140", "0317", "0353", "0400", "0402", "0405",
                "0407",
            ],
        ),
        (
            5,
            &[
                "0500", "0501", "0502", "0503", "0504", "0505", "0506", "0507", "0508", "0509", "0510", "0511", "0512",
                "0513", "0514", "0515", "0516", "0517", "0518", "0519", "0520", "0521", "0522", "0524",
            ],
        ),
        (6, &["0600", "0603"]),
        (70, &["0900"]),
        (130, &["0130"]),
    ];
    for p in pages() {
        let exit = exit_code(p.code.kind());
        let row = expected.iter().find(|(_, l)| l.contains(&&p.code.text()[4..]));
        assert_eq!(row.map(|r| r.0), Some(exit), "{}", p.code.text());
    }
    assert_eq!(expected.iter().map(|(_, l)| l.len()).sum::<usize>(), pages().count());
    for k in 0..=9 {
        assert_eq!(exit_code(code_of(ErrorKind(k)).kind()), exit_code(ErrorKind(k)), "kind {k}");
    }
}

#[test]
fn an_error_made_past_the_table_is_seen() {
    let right = Diagnostic::error("x").raise(INPUT);
    assert!(contradiction(&right).is_none());
    let wrong = Diagnostic::error("x").code(INPUT).of(ErrorKind::UNSUPPORTED);
    assert!(contradiction(&wrong).is_some_and(|d| INPUT.is(d)));
    // A panic of a plugin has the same exit code as a failure of it; a vendor's own codes are not
    // in the table.
    assert!(contradiction(&Diagnostic::error("x").code(CALL).of(ErrorKind::PANIC)).is_none());
    assert!(contradiction(&Diagnostic::error("x").code("ACME-17").of(ErrorKind::DAMAGED)).is_none());
}

#[test]
fn every_code_of_atc_that_errors_show_is_explained() {
    let known: BTreeSet<&str> = ATC.iter().map(|(atc, _)| *atc).collect();
    let mut found = BTreeSet::new();
    for (_, text) in sources() {
        for (at, _) in text.match_indices(".atc(\"") {
            found.insert(text[at + 6..].chars().take_while(|c| *c != '"').collect::<String>());
        }
    }
    assert!(found.len() >= 5 && found.iter().all(|c| known.contains(c.as_str())), "{found:?}");
    assert!(ATC.iter().all(|(_, ours)| page(ours.text()).is_some()));
}
