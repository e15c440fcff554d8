//! `For(start, limit, delta, values…) {body}`: a loop made of labels whose index is counted on the
//! device, in 64 bits. The body receives the index and the values and returns the next values. It
//! runs while `(limit - index) * delta` is greater than zero.
use super::lower::{Expansion, Outs, refused, unchanged};
use crate::error::Result;
use ge_ir::{ConstTensor, DType, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::types::{AttrMap, AttrValue};

impl Expansion<'_> {
    /// Writes the nodes of a `For`.
    pub(super) fn count(&mut self, n: &Node, inputs: &[ValueRef], controls: &[NodeId]) -> Result<Outs> {
        let body = self.subgraph(n, "body")?;
        let ([start, limit, delta], values) = match inputs.split_first_chunk::<3>() {
            Some((bounds, values)) => (*bounds, values.to_vec()),
            None => return Err(refused(n, "it has no start, limit and delta")),
        };
        let fixed = unchanged(&self.model.graphs()[body], values.len(), 1);
        let name = self.w.take(n.name(), &format!("{}/begin", n.name()));
        let begin = self.w.add("NoOp", name, vec![], controls.to_vec(), vec![], AttrMap::default())?;
        let shape = self.w.desc(start)?.shape;
        let [start, limit, delta] = [(start, "start"), (limit, "limit"), (delta, "delta")]
            .map(|(v, what)| self.wide(n, v, what, &shape))
            .into_iter()
            .collect::<Result<Vec<_>>>()?
            .try_into()
            .map_err(|_| refused(n, "it has no start, limit and delta"))?;
        let zero = ConstTensor::of(&shape.sizes().unwrap_or_default(), &[0i64]);
        let mut attrs = AttrMap::default();
        attrs.set("value", AttrValue::Tensor(zero.ok_or_else(|| refused(n, "its start is not one number"))?));
        let zero = self.plain(n, "Const", "zero", vec![], DType::I64, &shape, attrs)?;
        let mut state = values.clone();
        for (k, s) in state.iter_mut().enumerate() {
            // A value that no turn changes is read where it lies, unless it is also an output.
            if !fixed[k] || !n.uses(k).is_empty() {
                let name = self.w.take(n.name(), &format!("{}/init_{k}", n.name()));
                *s = self.copy(n, name, *s, None)?;
            }
        }
        let name = self.w.take(n.name(), &format!("{}/index", n.name()));
        let index = self.copy(n, name, start, None)?;
        let (again, inside, end) = (self.next_label(), self.next_label(), self.next_label());
        self.label_after(n, again, vec![], vec![begin])?;
        let none = AttrMap::default;
        let left = self.plain(n, "Sub", "left", vec![limit, index], DType::I64, &shape, none())?;
        let left = self.plain(n, "Mul", "sign", vec![left, delta], DType::I64, &shape, none())?;
        let test = self.plain(n, "Greater", "test", vec![left, zero], DType::BOOL, &shape, none())?;
        let test = self.index(n, test, true)?;
        self.switch(n, test, &[], vec![end, inside])?;
        self.label(n, inside, vec![])?;
        let first = self.w.graph.next_id();
        let seen = self.model.graphs()[body].data_nodes().into_iter().find(|d| d.attrs().int("index") == Some(0));
        let to = seen.and_then(|d| d.outputs().first().map(|d| d.dtype)).unwrap_or(DType::I32);
        let mut attrs = AttrMap::default();
        attrs.set("dst_type", AttrValue::Type(to));
        let shown = self.plain(n, "Cast", "turn", vec![index], to, &shape, attrs)?;
        let args: Vec<ValueRef> = std::iter::once(shown).chain(state.iter().copied()).collect();
        let (changes, in_place) = self.changes(body, 1, &fixed);
        let mut next = self.inline_behind(n, body, &args, &[], &changes)?;
        if next.len() < values.len() {
            return Err(refused(n, &format!("its body gives {} values of {}", next.len(), values.len())));
        }
        let step = self.plain(n, "Add", "step", vec![index, delta], DType::I64, &shape, none())?;
        for k in (0..values.len()).filter(|k| !fixed[*k]) {
            if !self.is_fresh(next[k], first) {
                let name = self.w.take(n.name(), &format!("{}/next_{k}", n.name()));
                next[k] = self.copy(n, name, next[k], None)?;
            }
        }
        let mut outs = state.clone();
        for k in (0..values.len()).filter(|k| !fixed[*k]) {
            outs[k] = self.handed_on(n, k, next[k], state[k], in_place.contains(&k))?;
        }
        let name = self.w.take(n.name(), &format!("{}/index_next", n.name()));
        let counted = self.copy(n, name, step, Some(index))?;
        self.goto(n, again)?;
        // Everything that the loop reads stays alive until the loop has ended.
        let mut keep: Vec<ValueRef> = outs.iter().copied().filter(|v| !v.is_absent()).collect();
        keep.extend([counted, limit, delta, zero]);
        let tail = self.label(n, end, keep)?;
        Ok((outs, tail))
    }

    /// Casts a bound of the index to 64 bits. Fails unless it is one number of type i32 or i64.
    fn wide(&mut self, n: &Node, v: ValueRef, what: &str, shape: &ge_ir::Shape) -> Result<ValueRef> {
        let d = self.w.desc(v)?;
        let one = d.shape.sizes().is_some_and(|s| s.iter().product::<u64>() == 1) && d.shape == *shape;
        if !one || !matches!(d.dtype, DType::I32 | DType::I64) {
            let found = format!("its {what} is {}{}, start, limit and delta are one number each", d.dtype, d.shape);
            return Err(refused(n, &found));
        }
        let mut attrs = AttrMap::default();
        attrs.set("dst_type", AttrValue::Type(DType::I64));
        self.plain(n, "Cast", what, vec![v], DType::I64, shape, attrs)
    }

    /// Adds a node with one output, named after the `For`.
    #[allow(clippy::too_many_arguments)]
    fn plain(
        &mut self,
        n: &Node,
        op: &str,
        what: &str,
        inputs: Vec<ValueRef>,
        dtype: DType,
        shape: &ge_ir::Shape,
        attrs: AttrMap,
    ) -> Result<ValueRef> {
        let name = self.w.take(n.name(), &format!("{}/{what}", n.name()));
        let id = self.w.add(op, name, inputs, vec![], vec![TensorDesc::new(dtype, shape.clone())], attrs)?;
        Ok(ValueRef::new(id, 0))
    }
}
