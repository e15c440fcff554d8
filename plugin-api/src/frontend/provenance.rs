//! Where the nodes of a graph come from. A front end writes it once for the whole graph, and the
//! host takes it off.
use crate::patch::{Edit, Patch};
use crate::types::{Attr, AttrMap, AttrValue, DictEntry, Key, NodeId, ValueRef};
use std::collections::HashMap;

/// The graph attribute that carries it across the ABI.
const KEY: &str = "_provenance";

/// The model's names of its tensors, and the operator of the model that each node was made from.
///
/// With it, `ge compare`, dumps and messages can use the model's own names. A front end records
/// while it builds a graph and writes everything at the end; nothing is set on single nodes.
///
/// # Examples
/// ```
/// use ge_plugin_api::frontend::{GraphBuilder, Provenance};
/// use ge_plugin_api::types::{DType, Shape, TensorDesc};
///
/// let mut builder = GraphBuilder::new(None);
/// let x = builder.data("x", 0, TensorDesc::new(DType::F32, Shape::of(&[2, 3])));
/// let y = builder.node("Relu").name("relu").input(x).build();
/// builder.outputs(&[("y".to_owned(), y)]);
/// let mut provenance = Provenance::default();
/// provenance.name(y, "relu_output_0");
/// provenance.origin(y.node, "Relu, ai.onnx 13");
/// provenance.write(builder.patch());
/// assert_eq!(builder.into_patch().edits().len(), 4);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// All names, concatenated.
    names: String,
    /// Three numbers per name: node, output, and length of the name in bytes.
    tensors: Vec<i64>,
    texts: Vec<String>,
    known: HashMap<String, i64>,
    /// Two numbers per entry: node and index into `texts`.
    origins: Vec<i64>,
}

impl Provenance {
    /// Records that the model calls a value by this name. A value may have several names.
    pub fn name(&mut self, value: ValueRef, name: &str) {
        self.names.push_str(name);
        self.tensors.extend([i64::from(value.node.0), i64::from(value.output), name.len() as i64]);
    }
    /// Records the model's operator that a node was made from, as text (`Relu, ai.onnx 13`).
    pub fn origin(&mut self, node: NodeId, text: &str) {
        let index = match self.known.get(text) {
            Some(i) => *i,
            None => {
                let i = self.texts.len() as i64;
                self.texts.push(text.to_owned());
                self.known.insert(text.to_owned(), i);
                i
            }
        };
        self.origins.extend([i64::from(node.0), index]);
    }
    /// The current position in the recorded origins, for [`Provenance::nodes_since`].
    pub fn mark(&self) -> usize {
        self.origins.len()
    }
    /// Nodes whose origin was recorded after `mark`.
    pub fn nodes_since(&self, mark: usize) -> impl Iterator<Item = NodeId> + '_ {
        self.origins.get(mark..).unwrap_or(&[]).chunks_exact(2).filter_map(|c| Some(NodeId(u32::try_from(c[0]).ok()?)))
    }
    /// Adds what was recorded separately for nodes of the same graph.
    pub fn append(&mut self, other: &Provenance) {
        self.names.push_str(&other.names);
        self.tensors.extend_from_slice(&other.tensors);
        for (node, text) in other.origins() {
            self.origin(node, text);
        }
    }
    /// Writes the record as an attribute of the patch's graph; nothing if it is empty.
    pub fn write(self, patch: &mut Patch) {
        if self.tensors.is_empty() && self.origins.is_empty() {
            return;
        }
        let entry = |key: &str, value: AttrValue| DictEntry { key: key.into(), value };
        let dict = vec![
            entry("names", AttrValue::Str(self.names.into())),
            entry("tensors", AttrValue::Ints(self.tensors.into())),
            entry("texts", AttrValue::from(self.texts)),
            entry("origins", AttrValue::Ints(self.origins.into())),
        ];
        patch.push(Edit::SetGraphAttr(Attr { key: Key::new(KEY), value: AttrValue::Dict(dict.into()) }));
    }
    /// Removes the record from a graph's attributes. `None` if there is none or it cannot be read.
    pub fn take(attrs: &mut AttrMap) -> Option<Provenance> {
        let value = attrs.remove(KEY)?;
        let field = |key: &str| Some(&value.as_dict()?.iter().find(|e| e.key.as_str() == key)?.value);
        Some(Provenance {
            names: field("names")?.as_str()?.to_owned(),
            tensors: field("tensors")?.as_ints()?.to_vec(),
            texts: field("texts")?.as_strs()?.into_iter().map(str::to_owned).collect(),
            known: HashMap::new(),
            origins: field("origins")?.as_ints()?.to_vec(),
        })
    }
    /// Values with their names, in the order of recording. Stops at the first invalid entry.
    pub fn tensors(&self) -> impl Iterator<Item = (ValueRef, &str)> {
        let mut at = 0usize;
        self.tensors.chunks_exact(3).map_while(move |c| {
            let value = ValueRef::new(NodeId(u32::try_from(c[0]).ok()?), u32::try_from(c[1]).ok()?);
            let end = at.checked_add(usize::try_from(c[2]).ok()?)?;
            let name = self.names.get(at..end)?;
            at = end;
            Some((value, name))
        })
    }
    /// Nodes with the text of their origin, in the order of recording. Skips invalid entries.
    pub fn origins(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.origins.chunks_exact(2).filter_map(|c| {
            let text = self.texts.get(usize::try_from(c[1]).ok()?)?;
            Some((NodeId(u32::try_from(c[0]).ok()?), text.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossed(p: Provenance) -> Option<Provenance> {
        let mut patch = Patch::for_new_graph();
        p.write(&mut patch);
        let mut attrs = AttrMap::default();
        for e in patch.into_edits() {
            if let Edit::SetGraphAttr(a) = e {
                attrs.set(a.key, a.value);
            }
        }
        let back = Provenance::take(&mut attrs);
        assert!(attrs.is_empty());
        back
    }

    #[test]
    fn what_is_told_comes_back_in_order() {
        let mut p = Provenance::default();
        p.name(ValueRef::new(NodeId(3), 1), "b:ö");
        p.name(ValueRef::new(NodeId(3), 0), "");
        p.origin(NodeId(3), "Split, ai.onnx 18");
        let mark = p.mark();
        let mut inner = Provenance::default();
        inner.name(ValueRef::new(NodeId(7), 0), "c");
        inner.origin(NodeId(7), "Relu, ai.onnx 14");
        inner.origin(NodeId(8), "Split, ai.onnx 18");
        p.append(&inner);
        assert_eq!(p.nodes_since(mark).collect::<Vec<_>>(), [NodeId(7), NodeId(8)]);
        let back = crossed(p).expect("there");
        let v = |n, k| ValueRef::new(NodeId(n), k);
        assert_eq!(back.tensors().collect::<Vec<_>>(), [(v(3, 1), "b:ö"), (v(3, 0), ""), (v(7, 0), "c")]);
        let split = "Split, ai.onnx 18";
        assert_eq!(
            back.origins().collect::<Vec<_>>(),
            [(NodeId(3), split), (NodeId(7), "Relu, ai.onnx 14"), (NodeId(8), split)]
        );
        assert!(crossed(Provenance::default()).is_none());
    }

    #[test]
    fn lengths_that_do_not_fit_end_it() {
        let bad = |tensors: Vec<i64>| Provenance { names: "aö".into(), tensors, ..Provenance::default() };
        for t in [vec![0, 0, 4], vec![0, 0, 2], vec![-1, 0, 1], vec![0, 0, -1], vec![0, 0, i64::MAX], vec![0, 0]] {
            assert_eq!(bad(t).tensors().count(), 0);
        }
        let p = Provenance { origins: vec![0, 1, 1, 0, 2, -1], texts: vec!["t".into()], ..Provenance::default() };
        assert_eq!(p.origins().collect::<Vec<_>>(), [(NodeId(1), "t")]);
    }
}
