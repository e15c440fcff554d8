//! `NameOpenSizesPass`: an open size of an input that has no name gets one, so that the sizes made
//! of it are expressions and fusions see which are equal.
//!
//! Before: `graph @main(%x: f32[?,3], %y: f32[?])`   After: `graph @main(%x: f32[x_0,3], %y: f32[y_0])`
//! When: inputs of the model whose rank is known.
//! Refuses: inputs of subgraphs, which have the sizes of what they are given; inputs whose value is
//! given, which has sizes of its own.
//! Keeps: sizes with a name, and the range that is stated for a size. Each size has a name of its
//! own: two sizes without a name are never taken for one.
//! Source: 003 §4.2. Cost: each node once, for the names that there are.
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

/// Most letters that a name has of its input's: expressions are names, too, and must stay short.
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
    let mut taken = words(model);
    let mut ranges = g.attrs().get(RANGES).and_then(AttrValue::as_dict).map(<[_]>::to_vec);
    let mut p = Patch::starting_at(g.next_id());
    for (n, d) in open {
        cx.visits += 1;
        let mut d = d.clone();
        for (k, dim) in d.shape.dims_mut().iter_mut().enumerate().filter(|(_, d)| **d == Dim::UNKNOWN) {
            let name = free(&mut taken, &format!("{}_{k}", word(n.name())));
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

/// Whether a name that `--input-shape` can say may hold a letter.
fn holds(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name of an input as the first part of a size's name.
fn word(input: &str) -> String {
    let starts = |c: char| c.is_alphabetic() || c == '_';
    let start = if input.starts_with(starts) { "" } else { "_" };
    start.chars().chain(input.chars().map(|c| if holds(c) { c } else { '_' })).take(LETTERS).collect()
}

/// A name that nothing has.
fn free(taken: &mut HashSet<String>, name: &str) -> String {
    let numbered = (2..).map(|k: u64| format!("{name}_{k}"));
    let found = std::iter::once(name.to_owned()).chain(numbered).find(|n| !taken.contains(n)).unwrap_or_default();
    taken.insert(found.clone());
    found
}

/// Every name of a size in a model, those in expressions too.
fn words(model: &Model) -> HashSet<String> {
    let outputs = model.graphs().iter().flat_map(|g| g.nodes()).flat_map(|n| n.outputs());
    let names = outputs.flat_map(|d| d.shape.dims()).filter_map(|d| d.symbol_name());
    let mut out = HashSet::new();
    for name in names {
        out.extend(name.split(|c| !(holds(c) || matches!(c, '.' | ':' | '#'))).map(str::to_owned));
        out.insert(name.to_owned());
    }
    out
}
