//! `NameOpenSizesPass`: gives a name to each unknown size of an input that has none, so that sizes
//! derived from it are expressions and fusions can see which are equal.
//!
//! Before: `graph @main(%x: f32[?,3], %y: f32[?])`   After: `graph @main(%x: f32[x_0,3], %y:
//! f32[y_0])`
//! When: inputs of the model whose rank is known.
//! Refuses: inputs of subgraphs, whose sizes come from their callers; inputs whose value is given,
//! which has sizes of its own.
//! Keeps: sizes with a name, and the range that is stated for a size. Each size gets a different
//! name, so two unnamed sizes are never assumed equal.
//! Source: 003 §4.2. Cost: each node once, to collect the existing names.
use crate::dynamic::RANGES;
use crate::error::Result;
use crate::pass::PassContext;
use crate::pass::declare::graph_pass;
use crate::prepare::fixed_input_pass::FIXED;
use ge_ir::{AttrValue, Dim, Model, TensorDesc};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::Attr;
use std::collections::HashSet;

graph_pass!(
    NameOpenSizesPass,
    O0,
    "`Data : f32[?,3]` -> `Data : f32[x_0,3]`, a name for each open size of an input",
    needs "an input of the model, of known rank",
    keeps "names that are there, ranges",
    run,
);

/// Maximum number of characters taken from the input's name. Expressions are names too and must
/// stay short.
const LETTERS: usize = 24;

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let nameless = |d: &TensorDesc| !d.shape.is_unranked() && d.shape.dims().contains(&Dim::UNKNOWN);
    let open: Vec<_> = g
        .data_nodes()
        .into_iter()
        .filter_map(|n| Some((n, n.outputs().first().filter(|d| nameless(d))?)))
        .filter(|(n, _)| n.attr(FIXED).is_none())
        .collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    if gi != 0 {
        open.iter().for_each(|(n, _)| cx.refuse(n.name(), "its graph's caller gives its sizes"));
        return Ok(Vec::new());
    }
    let mut names = SizeNames::of(model);
    let mut ranges = g.attrs().get(RANGES).and_then(AttrValue::as_dict).map(<[_]>::to_vec);
    let mut p = Patch::starting_at(g.next_id());
    for (n, d) in open {
        cx.visits += 1;
        let mut d = d.clone();
        for (k, dim) in d.shape.dims_mut().iter_mut().enumerate().filter(|(_, d)| **d == Dim::UNKNOWN) {
            let name = names.make(n.name(), k);
            *dim = Dim::symbol(&name);
            let at = format!("{}:{k}", n.name());
            let stated = ranges.iter_mut().flatten().find(|e| e.key.as_str() == at);
            stated.into_iter().for_each(|e| e.key = name.as_str().into());
            cx.changes += 1;
        }
        p.set_output(n.id(), 0, d);
    }
    if let Some(ranges) = ranges {
        p.push(Edit::SetGraphAttr(Attr { key: RANGES.into(), value: AttrValue::Dict(ranges.into()) }));
    }
    Ok(p.into_edits().into())
}

/// Makes names for sizes of inputs. No two sizes get the same name, and none gets a name that the
/// model uses.
pub struct SizeNames {
    taken: HashSet<String>,
}

impl SizeNames {
    /// Collects the names that a model uses for sizes, including those in expressions.
    pub fn of(model: &Model) -> SizeNames {
        let outputs = model.graphs().iter().flat_map(|g| g.nodes()).flat_map(|n| n.outputs());
        let names = outputs.flat_map(|d| d.shape.dims()).filter_map(|d| d.symbol_name());
        let mut taken = HashSet::new();
        for name in names {
            taken.extend(name.split(|c| !(holds(c) || matches!(c, '.' | ':' | '#'))).map(str::to_owned));
            taken.insert(name.to_owned());
        }
        SizeNames { taken }
    }

    /// A new name for a dimension of an input.
    pub fn make(&mut self, input: &str, dim: usize) -> String {
        let name = format!("{}_{dim}", word(input));
        let numbered = (2..).map(|k: u64| format!("{name}_{k}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|n| !self.taken.contains(n)).unwrap_or_default();
        self.taken.insert(free.clone());
        free
    }
}

/// Whether a size name that `--input-shape` accepts may contain the character.
fn holds(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name of an input, adapted to be the first part of a size's name.
fn word(input: &str) -> String {
    let starts = |c: char| c.is_alphabetic() || c == '_';
    let start = if input.starts_with(starts) { "" } else { "_" };
    start.chars().chain(input.chars().map(|c| if holds(c) { c } else { '_' })).take(LETTERS).collect()
}
