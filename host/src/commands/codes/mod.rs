//! Pages of the error codes: what each means, what to do, an example. A test holds that every code of the sources has one.

mod files;
mod model;
mod plugins;
mod runs;
mod usage;

/// One code.
pub struct Page {
    /// Code.
    pub code: &'static str,
    /// One line: what it means.
    pub title: &'static str,
    /// Why it comes.
    pub text: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// Commands or input that bring it, and what is right.
    pub example: &'static str,
}

const fn p(
    code: &'static str,
    title: &'static str,
    text: &'static str,
    remedy: &'static str,
    example: &'static str,
) -> Page {
    Page { code, title, text, remedy, example }
}

/// All pages, by code.
pub fn pages() -> impl Iterator<Item = &'static Page> + Clone {
    [model::PAGES, usage::PAGES, files::PAGES, plugins::PAGES, runs::PAGES].into_iter().flatten()
}

/// Codes of atc that errors show, and whose page explains them.
pub const ATC: &[(&str, &str)] = &[
    ("E10001", "GE-E0304"),
    ("E10002", "GE-E0307"),
    ("E10016", "GE-E0303"),
    ("E10032", "GE-E0306"),
    ("E10055", "GE-E0310"),
    ("E13003", "GE-E0305"),
    ("EZ3003", "GE-E0207"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// The sources of the product, without these pages.
    fn sources() -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut open: Vec<PathBuf> =
            ["host", "plugin-api", "engines", "plugins"].iter().map(|d| root.join(d)).collect();
        let mut out = Vec::new();
        while let Some(d) = open.pop() {
            for e in std::fs::read_dir(&d).expect("a folder of the repository").map(|e| e.expect("readable").path()) {
                if e.is_dir() {
                    open.push(e);
                } else if e.extension().is_some_and(|x| x == "rs") && !e.to_string_lossy().contains("commands/codes/") {
                    out.push(std::fs::read_to_string(&e).expect("a source is text"));
                }
            }
        }
        out
    }

    /// Every code in the sources, found by its form.
    fn used() -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        for text in sources() {
            for (at, _) in text.match_indices("GE-E") {
                let digits: String = text[at + 4..].chars().take_while(char::is_ascii_digit).collect();
                if digits.len() == 4 {
                    out.insert(format!("GE-E{digits}"));
                }
            }
        }
        out
    }

    #[test]
    fn every_code_of_the_sources_has_a_page_and_every_page_a_code() {
        let used = used();
        assert!(used.len() > 50, "the sources were not found");
        let pages: BTreeSet<String> = super::pages().map(|p| p.code.to_owned()).collect();
        assert_eq!(pages.len(), super::pages().count(), "a code stands twice");
        assert_eq!(used.difference(&pages).collect::<Vec<_>>(), Vec::<&String>::new(), "codes without a page");
        assert_eq!(pages.difference(&used).collect::<Vec<_>>(), Vec::<&String>::new(), "pages without a code");
        // Cause, what to do, an example: a page of two lines says too little.
        for p in super::pages() {
            assert!(p.text.len() > 40 && p.remedy.len() > 20 && p.example.len() > 8, "{} says too little", p.code);
        }
    }

    #[test]
    fn every_code_of_atc_that_errors_show_is_explained() {
        let known: BTreeSet<&str> = ATC.iter().map(|(atc, _)| *atc).collect();
        let mut found = BTreeSet::new();
        for text in sources() {
            for (at, _) in text.match_indices(".atc(\"") {
                found.insert(text[at + 6..].chars().take_while(|c| *c != '"').collect::<String>());
            }
        }
        assert!(found.len() >= 5 && found.iter().all(|c| known.contains(c.as_str())), "{found:?}");
        assert!(ATC.iter().all(|(_, ours)| super::pages().any(|p| p.code == *ours)));
    }
}
