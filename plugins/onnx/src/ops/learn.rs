//! `Adagrad`, `Adam` and `Momentum` of `ai.onnx.preview.training`: expands the update of each
//! tensor into arithmetic in its own type. Inputs are the learning rate, the update count, then one
//! list each of tensors, gradients and state tensors; the outputs are lists in the same way.
use super::Outs;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{ConstTensor, ValueRef};

/// Makes arithmetic nodes on tensors of one type.
struct Rule<'a, 'b> {
    b: &'a mut GraphBuilder<'b>,
    /// A tensor with the type that constants get.
    like: ValueRef,
}

impl Rule<'_, '_> {
    fn op(&mut self, op: &str, ins: &[ValueRef]) -> ValueRef {
        self.b.node(op).inputs(ins).build()
    }
    fn number(&mut self, v: f64) -> ValueRef {
        let c = ConstTensor::of(&[], &[v]).map_or(ValueRef::ABSENT, |t| self.b.made_constant("number", t));
        self.op("CastLike", &[c, self.like])
    }
    fn times(&mut self, v: ValueRef, by: f64) -> ValueRef {
        if by == 1.0 {
            return v;
        }
        let by = self.number(by);
        self.op("Mul", &[v, by])
    }
    fn plus(&mut self, a: ValueRef, b: ValueRef) -> ValueRef {
        self.op("Add", &[a, b])
    }
    /// The gradient plus `by` times the tensor (L2 regularisation).
    fn regular(&mut self, x: ValueRef, g: ValueRef, by: f64) -> ValueRef {
        if by == 0.0 {
            return g;
        }
        let own = self.times(x, by);
        self.plus(own, g)
    }
    /// `old * keep + new * take`.
    fn blend(&mut self, (old, keep): (ValueRef, f64), (new, take): (ValueRef, f64)) -> ValueRef {
        let (old, new) = (self.times(old, keep), self.times(new, take));
        self.plus(old, new)
    }
    /// `sqrt(v) + e`.
    fn root(&mut self, v: ValueRef, e: f64) -> ValueRef {
        let (v, e) = (self.op("Sqrt", &[v]), self.number(e));
        self.plus(v, e)
    }
    /// Whether this is not the first update.
    fn later(&mut self, count: ValueRef) -> ValueRef {
        let zero = ConstTensor::of(&[], &[0i64]).map_or(ValueRef::ABSENT, |t| self.b.made_constant("zero", t));
        let zero = self.op("CastLike", &[zero, count]);
        self.op("Greater", &[count, zero])
    }
}

/// Number of updated tensors; each has `kept` state lists besides tensor and gradient.
fn lists(n: &ForeignNode, kept: usize) -> Result<usize> {
    let tensors = n.inputs.len().saturating_sub(2);
    let of = 2 + kept;
    if tensors == 0 || !tensors.is_multiple_of(of) {
        return Err(n.refuse(format!("{tensors} tensors; {of} for each that is updated are taken")));
    }
    Ok(tensors / of)
}

/// Inputs of tensor `i` of `of`: the tensor, its gradient and its state.
fn part(n: &ForeignNode, i: usize, of: usize) -> Result<Vec<ValueRef>> {
    (2 + i..n.inputs.len()).step_by(of).map(|k| n.input(k)).collect()
}

/// The results of all tensors, list by list.
fn joined(parts: Vec<Vec<ValueRef>>) -> Vec<ValueRef> {
    let width = parts.first().map_or(0, Vec::len);
    (0..width).flat_map(|k| parts.iter().map(move |p| p[k])).collect()
}

fn adagrad(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let of = lists(n, 1)?;
    let mut made = Vec::with_capacity(of);
    for i in 0..of {
        let p = part(n, i, of)?;
        let mut r = Rule { b, like: p[0] };
        let g = r.regular(p[0], p[1], n.float_or("norm_coefficient", 0.0));
        let square = r.op("Mul", &[g, g]);
        let h = r.plus(p[2], square);
        let root = r.root(h, n.float_or("epsilon", 1e-6));
        let (rate, count) = (r.op("CastLike", &[n.input(0)?, p[0]]), r.op("CastLike", &[n.input(1)?, p[0]]));
        let (slower, one) = (r.times(count, n.float_or("decay_factor", 0.0)), r.number(1.0));
        let slower = r.plus(one, slower);
        let rate = r.op("Div", &[rate, slower]);
        let step = r.op("Mul", &[rate, g]);
        let step = r.op("Div", &[step, root]);
        made.push(vec![r.op("Sub", &[p[0], step]), h]);
    }
    Ok(joined(made))
}
map_op!("onnx", "ai.onnx.preview.training", "Adagrad", 1..=u32::MAX, adagrad);

fn adam(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let of = lists(n, 2)?;
    let (alpha, beta) = (n.float_or("alpha", 0.9), n.float_or("beta", 0.999));
    let mut made = Vec::with_capacity(of);
    for i in 0..of {
        let p = part(n, i, of)?;
        let mut r = Rule { b, like: p[0] };
        let g = r.regular(p[0], p[1], n.float_or("norm_coefficient", 0.0));
        let v = r.blend((p[2], alpha), (g, 1.0 - alpha));
        let square = r.op("Mul", &[g, g]);
        let h = r.blend((p[3], beta), (square, 1.0 - beta));
        let root = r.root(h, n.float_or("epsilon", 1e-6));
        let (rate, count) = (r.op("CastLike", &[n.input(0)?, p[0]]), r.op("CastLike", &[n.input(1)?, p[0]]));
        // Bias correction of the means for the first updates; before the first update there is
        // none.
        let mut lack = |v: f64| {
            let (base, one) = (r.number(v), r.number(1.0));
            let power = r.op("Pow", &[base, count]);
            r.op("Sub", &[one, power])
        };
        let (first, second) = (lack(alpha), lack(beta));
        let second = r.op("Sqrt", &[second]);
        let full = r.op("Mul", &[rate, second]);
        let full = r.op("Div", &[full, first]);
        let later = r.later(n.input(1)?);
        let rate = r.op("SelectV2", &[later, full, rate]);
        let step = r.op("Div", &[v, root]);
        let step = r.op("Mul", &[rate, step]);
        let x = r.op("Sub", &[p[0], step]);
        made.push(vec![r.times(x, 1.0 - n.float_or("norm_coefficient_post", 0.0)), v, h]);
    }
    Ok(joined(made))
}
map_op!("onnx", "ai.onnx.preview.training", "Adam", 1..=u32::MAX, adam);

fn momentum(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let of = lists(n, 1)?;
    let alpha = n.float_or("alpha", 0.0);
    let nesterov = match n.str_or("mode", "standard") {
        "standard" => false,
        "nesterov" => true,
        other => return Err(n.refuse(format!("mode `{other}`; standard and nesterov are taken"))),
    };
    let mut made = Vec::with_capacity(of);
    for i in 0..of {
        let p = part(n, i, of)?;
        let mut r = Rule { b, like: p[0] };
        let g = r.regular(p[0], p[1], n.float_or("norm_coefficient", 0.0));
        let later = r.later(n.input(1)?);
        let (own, one) = (r.number(n.float_or("beta", 1.0)), r.number(1.0));
        let factor = r.op("SelectV2", &[later, own, one]);
        let (old, new) = (r.times(p[2], alpha), r.op("Mul", &[factor, g]));
        let v = r.plus(old, new);
        let rate = r.op("CastLike", &[n.input(0)?, p[0]]);
        let ahead = if nesterov { r.blend((g, 1.0), (v, alpha)) } else { v };
        let step = r.op("Mul", &[rate, ahead]);
        made.push(vec![r.op("Sub", &[p[0], step]), v]);
    }
    Ok(joined(made))
}
map_op!("onnx", "ai.onnx.preview.training", "Momentum", 1..=u32::MAX, momentum);
