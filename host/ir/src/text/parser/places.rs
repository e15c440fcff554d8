//! Line and column of nodes, for messages that are produced after parsing.
use crate::graph::Model;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::diagnostic::Diagnostic;
use std::collections::HashMap;

/// Where the graphs and nodes of a text are.
#[derive(Clone, Debug)]
pub struct Places<'t> {
    pub(super) text: &'t str,
    pub(super) file: &'t str,
    pub(super) nodes: Vec<Vec<usize>>,
}

impl Places<'_> {
    /// Sets the place of each diagnostic that has none yet and names a node or a graph of `model`,
    /// which must be unchanged since parsing. A node is named as `graph/node`, or as `node` if only
    /// one graph has the name; a graph is named by the subject `@graph`.
    pub fn locate(&self, model: &Model, diagnostics: &mut [Diagnostic]) {
        let mut at: HashMap<String, usize> = HashMap::new();
        let mut plain: HashMap<&str, Option<usize>> = HashMap::new();
        for (g, places) in model.graphs().iter().zip(&self.nodes) {
            at.extend(places.last().map(|p| (format!("@{}", g.name()), *p)));
            for (n, p) in g.nodes().zip(places) {
                at.entry(format!("{}/{}", g.name(), n.name())).or_insert(*p);
                plain.entry(n.name()).and_modify(|p| *p = None).or_insert(Some(*p));
            }
        }
        let starts = line_starts(self.text);
        for d in diagnostics.iter_mut().filter(|d| d.place.is_none()) {
            let key = if d.node.is_empty() { d.subject.as_str() } else { d.node.as_str() };
            if let Some(p) = at.get(key).copied().or_else(|| plain.get(key).copied().flatten()) {
                let (line, column) = line_column(self.text, &starts, p);
                d.place = ROption::RSome(ge_plugin_api::diagnostic::Place { file: self.file.into(), line, column });
            }
        }
    }
}

pub(super) fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1)).collect()
}

/// Line and column, both from 1; the column counts characters.
pub(super) fn line_column(text: &str, starts: &[usize], at: usize) -> (u32, u32) {
    let line = starts.partition_point(|s| *s <= at).max(1);
    let start = starts.get(line - 1).copied().unwrap_or(0);
    let column = text.get(start..at).map_or(0, |s| s.chars().filter(|c| *c != '\u{feff}').count()) + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}
