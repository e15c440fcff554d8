//! Which tensor a name of a reference file means: the model's own name first, then
//! `output_K`, then what `ge` calls it.
use crate::commands::tensors::{Computed, file_name, ours, safe};
use std::collections::HashMap;

/// Names of one model's tensors; nodes first, then graph outputs.
pub struct Keys<'a> {
    all: Vec<&'a Computed>,
    /// The model's own names, and positions of outputs.
    exact: HashMap<String, Vec<usize>>,
    /// Nodes' names, and both in the form of file names.
    loose: HashMap<String, Vec<usize>>,
}

/// The name of an element of a sequence, `out[3]`; of a tensor its own.
pub fn element(name: &str, at: Option<usize>) -> String {
    at.map_or_else(|| name.to_owned(), |n| format!("{name}[{n}]"))
}

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    None,
    /// A tensor, by its place.
    One(usize),
    /// Several, by their places.
    Several(Vec<usize>),
}

impl<'a> Keys<'a> {
    /// Of what a run computed.
    pub fn of(nodes: &'a [Computed], outputs: &'a [Computed]) -> Keys<'a> {
        let all: Vec<&Computed> = nodes.iter().chain(outputs).collect();
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        let mut loose: HashMap<String, Vec<usize>> = HashMap::new();
        // What the user gets of the model decides: an output's name means the output, not the node
        // behind it.
        for (k, o) in outputs.iter().enumerate() {
            exact.entry(o.shown()).or_default().push(nodes.len() + k);
        }
        let results: Vec<String> = exact.keys().cloned().collect();
        for (i, t) in nodes.iter().enumerate() {
            for n in t.names.iter().filter(|n| !results.contains(n)) {
                exact.entry(n.clone()).or_default().push(i);
            }
        }
        for (k, o) in outputs.iter().enumerate() {
            let name = element(&format!("output_{}", o.output), o.element);
            exact.entry(name).or_insert_with(|| vec![nodes.len() + k]);
        }
        let mut add = |name: String, i: usize| {
            let list = loose.entry(name).or_default();
            if !list.contains(&i) {
                list.push(i);
            }
        };
        for (i, t) in all.iter().enumerate() {
            t.names.iter().for_each(|n| add(safe(n), i));
            if i < nodes.len() {
                add(ours(&t.node, t.output), i);
                // A node with names of the model's is written under those: `NODE_1` is then another
                // node's name, if any.
                if t.names.iter().all(|n| *n == ours(&t.node, t.output)) {
                    add(file_name(&t.node, t.output).trim_end_matches(".npy").to_owned(), i);
                }
            }
        }
        Keys { all, exact, loose }
    }
    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// A tensor by its place.
    pub fn tensor(&self, i: usize) -> &'a Computed {
        self.all[i]
    }
    /// What a name means.
    pub fn find(&self, name: &str) -> Found {
        let found = self.exact.get(name).or_else(|| self.loose.get(name));
        match found.map(Vec::as_slice) {
            None | Some([]) => Found::None,
            Some([one]) => Found::One(*one),
            Some(several) => Found::Several(several.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::kernel::HostTensor;
    use ge_plugin_api::types::DType;

    fn tensor(names: &[&str], node: &str, output: u32) -> Computed {
        Computed {
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            node: node.into(),
            output,
            element: None,
            op: "Relu".into(),
            engine: String::new(),
            no_task: false,
            tensor: HostTensor::zeroed(DType::F32, &[1]).expect("small"),
        }
    }

    #[test]
    fn the_models_names_come_first_and_two_meanings_are_told() {
        let nodes = [
            tensor(&["/a/x"], "node_norm", 0),
            tensor(&["y"], "node_norm", 1),
            tensor(&["z"], "node_norm_1", 0),
            tensor(&[], "cast", 0),
            tensor(&["r"], "last", 0),
        ];
        let outputs = [tensor(&["r"], "r", 0)];
        let keys = Keys::of(&nodes, &outputs);
        for (name, want) in [
            ("/a/x", Found::One(0)),
            ("_a_x", Found::One(0)),
            ("y", Found::One(1)),
            ("node_norm:1", Found::One(1)),
            ("node_norm_1", Found::One(2)),
            ("cast_0", Found::One(3)),
            ("r", Found::One(5)),
            ("output_0", Found::One(5)),
            ("last", Found::One(4)),
            ("nothing", Found::None),
        ] {
            assert_eq!(keys.find(name), want, "{name}");
        }
        // In a text a node's name is the model's own.
        let nodes =
            [tensor(&["a"], "a", 0), tensor(&["a:1"], "a", 1), tensor(&["b_1"], "b_1", 0), tensor(&["b:1"], "b", 1)];
        let keys = Keys::of(&nodes, &[]);
        assert_eq!(keys.find("a_1"), Found::One(1));
        assert_eq!(keys.find("b_1"), Found::One(2));
        // Names that are one as a file.
        let nodes = [tensor(&["/p"], "m", 0), tensor(&[":p"], "n", 0)];
        assert_eq!(Keys::of(&nodes, &[]).find("_p"), Found::Several(vec![0, 1]));
    }
}
