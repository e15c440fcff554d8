//! Finds the tensor that a name of a reference file refers to: first by the model's own names, then
//! as `output_K`, then by the names that `ge` uses.
use super::OUTPUT;
use super::reference::Entry;
use crate::commands::tensors::{Computed, file_name, ours, safe};
use std::collections::HashMap;

/// Names of a model's tensors: nodes first, then graph outputs.
pub struct Keys<'a> {
    all: Vec<&'a Computed>,
    /// Tensors by the model's own names and by output position.
    exact: HashMap<String, Vec<usize>>,
    /// Tensors by node names, and by all names in the form of file names.
    loose: HashMap<String, Vec<usize>>,
}

/// The name of a sequence element, `out[3]`; for a tensor, its own name.
pub fn element(name: &str, at: Option<usize>) -> String {
    at.map_or_else(|| name.to_owned(), |n| format!("{name}[{n}]"))
}

/// Result of a look-up.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// No tensor has the name.
    None,
    /// One tensor, by index.
    One(usize),
    /// Several tensors, by index.
    Several(Vec<usize>),
}

impl<'a> Keys<'a> {
    /// Builds the look-up for the tensors of a run.
    pub fn of(nodes: &'a [Computed], outputs: &'a [Computed]) -> Keys<'a> {
        let all: Vec<&Computed> = nodes.iter().chain(outputs).collect();
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        let mut loose: HashMap<String, Vec<usize>> = HashMap::new();
        // A graph output takes precedence: its name refers to the output, not to the node that
        // computes it.
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
                // A node with names from the model is written under those, so `NODE_1` can then
                // only be another node's name.
                if t.names.iter().all(|n| *n == ours(&t.node, t.output)) {
                    add(file_name(&t.node, t.output).trim_end_matches(".npy").to_owned(), i);
                }
            }
        }
        Keys { all, exact, loose }
    }
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// The tensor at an index.
    pub fn tensor(&self, i: usize) -> &'a Computed {
        self.all[i]
    }
    /// Looks up what an entry of the files names. An entry without a turn is of the last turn. If
    /// several tensors have the name and the turn, the node decides, if the entry has one.
    pub fn find(&self, entry: &Entry) -> Found {
        let named = self.exact.get(&entry.name).or_else(|| self.loose.get(&entry.name)).map_or(&[][..], Vec::as_slice);
        let own = |i: usize| (self.all[i].node.as_str(), self.all[i].output);
        let is_last = |i: usize| !named.iter().any(|o| own(*o) == own(i) && self.all[*o].turn > self.all[i].turn);
        let in_turn = |i: &usize| match entry.turn {
            Some(turn) => self.all[*i].op == OUTPUT || self.all[*i].turn == turn,
            None => is_last(*i),
        };
        let mut found: Vec<usize> = named.iter().copied().filter(in_turn).collect();
        let by_node = |i: &usize| entry.node.as_ref().is_some_and(|(node, output)| own(*i) == (node.as_str(), *output));
        if found.len() > 1 && found.iter().any(by_node) {
            found.retain(by_node);
        }
        match found.as_slice() {
            [] => Found::None,
            [one] => Found::One(*one),
            _ => Found::Several(found),
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
            turn: 1,
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
            assert_eq!(keys.find(&Entry::named(name)), want, "{name}");
        }
        // In a graph in text form, the node's name is the model's own name.
        let nodes =
            [tensor(&["a"], "a", 0), tensor(&["a:1"], "a", 1), tensor(&["b_1"], "b_1", 0), tensor(&["b:1"], "b", 1)];
        let keys = Keys::of(&nodes, &[]);
        assert_eq!(keys.find(&Entry::named("a_1")), Found::One(1));
        assert_eq!(keys.find(&Entry::named("b_1")), Found::One(2));
        // Different names that become the same file name.
        let nodes = [tensor(&["/p"], "m", 0), tensor(&[":p"], "n", 0)];
        assert_eq!(Keys::of(&nodes, &[]).find(&Entry::named("_p")), Found::Several(vec![0, 1]));
    }

    #[test]
    fn turns_and_nodes_tell_tensors_of_one_name_apart() {
        let mut nodes = [tensor(&["t"], "b", 0), tensor(&["t"], "b", 0), tensor(&["t"], "b2", 0)];
        nodes[1].turn = 2;
        let keys = Keys::of(&nodes, &[]);
        let of = |turn, node: Option<&str>| {
            let mut entry = Entry::named("t");
            entry.turn = turn;
            entry.node = node.map(|n| (n.to_owned(), 0));
            keys.find(&entry)
        };
        assert_eq!(of(Some(1), Some("b2")), Found::One(2));
        assert_eq!(of(Some(1), Some("b")), Found::One(0));
        assert_eq!(of(Some(1), None), Found::Several(vec![0, 2]));
        assert_eq!(of(Some(2), None), Found::One(1));
        assert_eq!(of(Some(3), None), Found::None);
        // Files of other tools do not know turns: the last one is meant.
        assert_eq!(of(None, None), Found::Several(vec![1, 2]));
    }
}
