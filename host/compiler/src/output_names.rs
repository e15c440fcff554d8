//! The names of a model's outputs.
//!
//! A model states them (`_output_names` of its `NetOutput`), or its outputs have the names of the
//! nodes that produce them. Passes fuse these nodes, put casts and copies behind them, or move them
//! into parts, so a compilation begins by stating all names.
use ge_ir::{Graph, Model, Node};
use std::collections::BTreeSet;

/// The attribute of `NetOutput` that states the names; an empty one is not stated.
const NAMES: &str = "_output_names";

/// States the names of a model's outputs.
pub(crate) fn keep(model: &mut Model) {
    if let Some((id, names)) = model.root().net_output().map(|out| (out.id(), of(model.root(), out))) {
        model.root_mut().set_attr(id, NAMES, names);
    }
}

/// Names of a graph's outputs: those that the model states, else those of the nodes that produce
/// them. If the name of a node is taken, because another output is the same value, the output has
/// the first of `NAME_1`, `NAME_2` … that is free.
pub(crate) fn of(g: &Graph, out: &Node) -> Vec<String> {
    let stated = out.attrs().strs(NAMES).unwrap_or_default();
    let mut taken: BTreeSet<String> = stated.iter().map(|n| (*n).to_owned()).collect();
    let mut of_node = |v: &ge_ir::ValueRef| {
        let producer = g.get(v.node).map_or("", |n| n.name());
        let own = if v.output == 0 { producer.to_owned() } else { format!("{producer}:{}", v.output) };
        let others = (1..).map(|k| format!("{own}_{k}"));
        let free = std::iter::once(own.clone()).chain(others).find(|n| taken.insert(n.clone()));
        free.unwrap_or(own)
    };
    let one = |(k, v): (usize, &ge_ir::ValueRef)| match stated.get(k).filter(|n| !n.is_empty()) {
        Some(name) => (*name).to_owned(),
        None => of_node(v),
    };
    out.inputs().iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_has_a_name_of_its_own_that_stays() {
        let text = "graph @main(%x: f32[2]) {
  %y = Relu(%x) : f32[2]
  %s = TwoOutputs(%y) : f32[2], f32[2]
  return %y, %s#1, %y, %s, %y {_output_names = [\"\", \"\", \"\", \"y_2\"]}
}
";
        let mut model = ge_ir::text::parse(text, "t.ge", &ge_ir::text::NoFiles).expect("legal");
        for _ in 0..2 {
            keep(&mut model);
            let out = model.root().net_output().expect("outputs");
            assert_eq!(out.attrs().strs(NAMES).expect("stated"), ["y", "s:1", "y_1", "y_2", "y_3"]);
        }
    }
}
