//! Golden files: one `.ge` text with its command, its input and its expected results, and code to
//! rewrite the expectations.
//!
//! ```text
//! # RUN: ge opt --passes TransposeTransDataPass
//! graph @main(…) { … }
//! # ----
//! graph @main(…) { … }
//! # refused: TransposeTransDataPass: the first reader is no Transpose
//! ```
//! `# error: words` states that the run fails with a message, note or help that contains these
//! words; at the end of a statement it also fixes the line of the error. This module neither runs
//! passes nor touches files: the caller does that and passes the outcome to `Golden::check`.
use super::{NoFiles, parse, to_string};
use crate::graph::{Graph, Model};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::types::AttrValue;
use std::collections::HashMap;

/// A golden file split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Golden<'t> {
    text: &'t str,
    /// Command lines after `# RUN:`; at least one.
    pub run: Vec<&'t str>,
    /// The text up to `# ----`; line numbers equal those of the file.
    pub input: &'t str,
    /// The graphs after `# ----`; `None` if that line is missing.
    pub expected: Option<&'t str>,
    /// Line number (from 1) and words of each `# refused:`.
    pub refused: Vec<(usize, &'t str)>,
    /// Line number, words, and whether it stands at the end of a statement, for each `# error:`.
    pub errors: Vec<(usize, &'t str, bool)>,
}

/// Result of running a golden file's command.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The resulting model, or the diagnostics of the failed run.
    pub result: Result<Model, Vec<Diagnostic>>,
    /// Refusals as `Pass: reason`, in order.
    pub refused: Vec<String>,
}

impl<'t> Golden<'t> {
    /// Splits a file into its parts.
    ///
    /// # Errors
    /// Fails if there is no `# RUN:` line or more than one `# ----` line.
    pub fn read(text: &'t str, file: &str) -> Result<Golden<'t>, Vec<Diagnostic>> {
        let mut g =
            Golden { text, run: Vec::new(), input: text, expected: None, refused: Vec::new(), errors: Vec::new() };
        let mut offset = 0;
        for (i, line) in text.split_inclusive('\n').enumerate() {
            let at = offset;
            offset += line.len();
            let place = u32::try_from(i + 1).unwrap_or(u32::MAX);
            let bare = line.trim();
            if let Some(r) = bare.strip_prefix("# RUN:") {
                g.run.push(r.trim());
            } else if bare == "# ----" {
                if g.expected.is_some() {
                    let d = Diagnostic::error("a second `# ----` line").code(ge_codes::TEXT_FORM);
                    return Err(vec![d.at(file, place, 1)]);
                }
                g.input = &text[..at];
                g.expected = Some(&text[offset..]);
            } else if let Some(r) = bare.strip_prefix("# refused:") {
                g.refused.push((i + 1, r.trim()));
            } else if let Some((before, words)) = bare.split_once("# error:") {
                g.errors.push((i + 1, words.trim(), !before.trim().is_empty()));
            }
        }
        if g.run.is_empty() {
            let d = Diagnostic::error("a golden file opens with its command").code(ge_codes::TEXT_FORM).at(file, 1, 1);
            return Err(vec![d.found("no `# RUN:` line", "`# RUN: ge opt …`")]);
        }
        Ok(g)
    }

    /// Compares an outcome with what the file expects.
    ///
    /// # Errors
    /// Returns the differences as text for the user.
    pub fn check(&self, outcome: &Outcome) -> Result<(), String> {
        let mut wrong = String::new();
        match (&outcome.result, self.errors.is_empty()) {
            (Ok(_), false) => wrong.push_str("an error was expected, and none came\n"),
            (Err(told), false) => {
                for (line, words, here) in &self.errors {
                    let fits = |d: &&Diagnostic| {
                        let on_line = match &d.place {
                            ROption::RSome(p) => usize::try_from(p.line) == Ok(*line),
                            ROption::RNone => false,
                        };
                        let mut said = std::iter::once(&d.message).chain(&d.notes).chain(std::iter::once(&d.help));
                        said.any(|s| s.contains(words)) && (!here || on_line)
                    };
                    if !told.iter().any(|d| fits(&d)) {
                        wrong.push_str(&format!("line {line}: nothing was told with the words `{words}`\n"));
                    }
                }
            }
            (Err(_), true) => wrong.push_str("the run failed\n"),
            (Ok(m), true) => {
                let wanted = self.expected.unwrap_or(self.input);
                match (parse(wanted, "expected", &NoFiles).map(|w| to_string(&w)), to_string(m)) {
                    (Ok(Ok(want)), Ok(found)) if want == found => {}
                    (Ok(Ok(want)), Ok(found)) => wrong.push_str(&diff(&want, &found)),
                    (Err(d), _) => {
                        let first = d.first().map_or("", |d| d.message.as_str());
                        wrong.push_str(&format!("the expected graphs do not parse: {first}\n"));
                    }
                    _ => wrong.push_str("the graphs cannot be printed\n"),
                }
            }
        }
        if let (Err(told), true) = (&outcome.result, !wrong.is_empty()) {
            for d in told.iter().take(10) {
                wrong.push_str(&format!("told: {}\n", d.message));
            }
        }
        for (line, words) in &self.refused {
            if !outcome.refused.iter().any(|r| r.contains(words)) {
                wrong.push_str(&format!("line {line}: nothing was refused with the words `{words}`\n"));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        for r in outcome.refused.iter().take(10) {
            wrong.push_str(&format!("refused: {r}\n"));
        }
        wrong.push_str("run with UPDATE_EXPECT=1 to write what came as the expectation\n");
        Err(wrong)
    }

    /// Returns the file with its expectation rewritten from an outcome. The input is kept
    /// unchanged; `# refused:` lines are written only if the file had some.
    ///
    /// # Errors
    /// Fails if the run failed although the file expects no error, or if the model cannot be
    /// printed.
    pub fn update(&self, outcome: &Outcome) -> Result<String, String> {
        let mut out = self.input.to_owned();
        match &outcome.result {
            Ok(m) => {
                if !out.ends_with('\n') {
                    out.push('\n');
                }
                out.push_str("# ----\n");
                out.push_str(&to_string(m).map_err(|e| e.to_string())?);
                if !self.refused.is_empty() {
                    for r in &outcome.refused {
                        out.push_str(&format!("# refused: {r}\n"));
                    }
                }
                Ok(out)
            }
            // Only a person can say where an error belongs.
            Err(_) if !self.errors.is_empty() => Ok(self.text.to_owned()),
            Err(told) => Err(told.first().map_or_else(String::new, |d| d.message.to_string())),
        }
    }
}

/// Splits a file into separate models, in file order: each graph that no other graph names becomes
/// a root and is followed by the graphs that it names.
pub fn cases(model: &Model) -> Vec<Model> {
    let mut at: HashMap<&str, usize> = HashMap::new();
    for (i, g) in model.graphs().iter().enumerate() {
        at.entry(g.name()).or_insert(i);
    }
    let names = |g: &Graph| -> Vec<usize> {
        let mut out = Vec::new();
        for v in g.nodes().flat_map(|n| n.attrs().iter()).chain(g.attrs().iter()) {
            match &v.value {
                AttrValue::Graph(s) => out.extend(at.get(s.as_str())),
                AttrValue::List(l) => out.extend(l.iter().filter_map(|v| match v {
                    AttrValue::Graph(s) => at.get(s.as_str()),
                    _ => None,
                })),
                _ => {}
            }
        }
        out
    };
    let children: Vec<Vec<usize>> = model.graphs().iter().map(names).collect();
    let mut child = vec![false; children.len()];
    children.iter().flatten().for_each(|&c| child[c] = true);
    if let Some(first) = child.first_mut() {
        *first = false;
    }
    let mut out = Vec::new();
    for root in (0..children.len()).filter(|r| !child[*r]) {
        let mut seen = vec![false; children.len()];
        let mut stack = vec![root];
        while let Some(g) = stack.pop() {
            if !std::mem::replace(&mut seen[g], true) {
                stack.extend(children[g].iter().copied().filter(|c| child[*c]));
            }
        }
        let rest = (0..children.len()).filter(|g| seen[*g] && *g != root);
        let graphs = std::iter::once(root).chain(rest).filter_map(|g| model.graphs().get(g).cloned()).collect();
        out.extend(Model::from_graphs(graphs));
    }
    out
}

/// Joins the cases into the model of one file again, in order. Returns `None` if there are no
/// graphs.
pub fn join(cases: Vec<Model>) -> Option<Model> {
    Model::from_graphs(cases.into_iter().flat_map(|m| m.graphs().to_vec()).collect())
}

/// Line differences: ` ` marks lines in both texts, `-` lines only in `expected`, `+` lines only in
/// `found`. Three lines of context surround each change. At most 200 lines.
pub fn diff(expected: &str, found: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (ma, mb) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut lines: Vec<(char, &str)> = Vec::new();
    lines.extend(a[head.saturating_sub(3)..head].iter().map(|l| (' ', *l)));
    if ma.len().saturating_mul(mb.len()) <= 1_000_000 {
        // Longest common subsequence, computed from the end.
        let w = mb.len() + 1;
        let mut best = vec![0u32; (ma.len() + 1) * w];
        for i in (0..ma.len()).rev() {
            for j in (0..mb.len()).rev() {
                best[i * w + j] = if ma[i] == mb[j] {
                    best[(i + 1) * w + j + 1] + 1
                } else {
                    best[(i + 1) * w + j].max(best[i * w + j + 1])
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < ma.len() || j < mb.len() {
            if i < ma.len() && j < mb.len() && ma[i] == mb[j] {
                lines.push((' ', ma[i]));
                (i, j) = (i + 1, j + 1);
            } else if j == mb.len() || (i < ma.len() && best[(i + 1) * w + j] >= best[i * w + j + 1]) {
                lines.push(('-', ma[i]));
                i += 1;
            } else {
                lines.push(('+', mb[j]));
                j += 1;
            }
        }
    } else {
        lines.extend(ma.iter().map(|l| ('-', *l)));
        lines.extend(mb.iter().map(|l| ('+', *l)));
    }
    lines.extend(a[a.len() - tail..].iter().take(3).map(|l| (' ', *l)));
    let near = |i: usize| lines[i.saturating_sub(3)..(i + 4).min(lines.len())].iter().any(|(c, _)| *c != ' ');
    let mut out = String::from("--- expected\n+++ found\n");
    let mut skipped = false;
    let mut count = 0;
    for (i, (c, l)) in lines.iter().enumerate() {
        if !near(i) {
            skipped = true;
            continue;
        }
        if count == 200 {
            out.push_str("…\n");
            break;
        }
        if std::mem::take(&mut skipped) {
            out.push_str("…\n");
        }
        out.push_str(&format!("{c}{l}\n"));
        count += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# RUN: ge opt --passes P\ngraph @fires(%x: f32[2]) {\n  %a = Relu(%x)   : f32[2]\n  return %a\n}\n# ----\ngraph @fires(%x: f32[2]) {\n  return %x\n}\n# refused: P: two readers\n";

    fn read(text: &str) -> Model {
        parse(text, "t.ge", &NoFiles).expect("reads")
    }

    #[test]
    fn outcomes_are_compared_and_expectations_rewritten() {
        let g = Golden::read(FILE, "t.ge").expect("golden");
        assert_eq!(g.run, ["ge opt --passes P"]);
        let right =
            Outcome { result: Ok(read(g.expected.expect("there"))), refused: vec!["P: `b` has two readers".into()] };
        // The outcome must contain the expected words.
        assert!(
            g.check(&right)
                .expect_err("words")
                .contains("line 10: nothing was refused with the words `P: two readers`")
        );
        let right = Outcome { refused: vec!["P: two readers".into()], ..right };
        assert_eq!(g.check(&right), Ok(()));
        let wrong = Outcome { result: Ok(read(g.input)), refused: vec!["P: two readers".into()] };
        let said = g.check(&wrong).expect_err("differs");
        assert!(said.contains("-  return %x\n") && said.contains("+  %a = Relu(%x) : f32[2]\n"), "{said}");
        let new = g.update(&wrong).expect("updates");
        assert!(new.starts_with(g.input));
        assert_eq!(Golden::read(&new, "t.ge").expect("golden").check(&wrong), Ok(()));
    }

    #[test]
    fn expected_errors_must_come_on_their_line() {
        let text =
            "# RUN: ge opt\ngraph @g(%x: f32[2]) {\n  %a = Relu(%y) : f32[2]  # error: no value `%y`\n  return %x\n}\n";
        let g = Golden::read(text, "t.ge").expect("golden");
        let told = parse(g.input, "t.ge", &NoFiles);
        assert_eq!(g.check(&Outcome { result: told, refused: vec![] }), Ok(()));
        let elsewhere = Err(vec![Diagnostic::error("there is no value `%y`").at("t.ge", 2, 1)]);
        assert!(g.check(&Outcome { result: elsewhere, refused: vec![] }).is_err());
        assert!(g.check(&Outcome { result: Ok(Model::new("g")), refused: vec![] }).is_err());
        assert!(Golden::read("graph @g() {}", "t.ge").is_err());
    }

    #[test]
    fn a_file_falls_into_models_and_comes_together_again() {
        let m = read(
            "graph @one() { %p = PartitionedCall() {f = @sub} : ()\n return }\ngraph @sub() { return }\ngraph @two() { return }",
        );
        let c = cases(&m);
        assert_eq!(c.iter().map(|m| m.graphs().len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(join(c), Some(m));
    }
}
