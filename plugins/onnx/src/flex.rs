//! `FlexAttention` (domain `ai.onnx.preview`): attention that passes its scores and weights through
//! subgraphs of the model. Without subgraphs it becomes an `Attention`; with them it is expanded
//! into products and a softmax, with the nodes of the subgraphs in between.
use crate::control::{capture, graph, scalar};
use crate::import::{Building, Env, Importer, domain};
use crate::proto::{AttributeProto, NodeProto};
use crate::scope::Known;
use crate::unroll::turn;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::{AttrValue, ConstTensor, DType, TensorDesc, ValueRef};

/// Whether this module imports an operator.
pub fn handles(domain: &str, op: &str) -> bool {
    (domain, op) == ("ai.onnx.preview", "FlexAttention")
}

/// State for expanding one node.
struct Writer<'a, 'm> {
    im: &'a mut Importer<'m>,
    g: &'a mut Building,
    name: &'a str,
}

impl Writer<'_, '_> {
    fn node(&mut self, op: &str, ins: &[ValueRef], attrs: &[(&str, AttrValue)]) -> ValueRef {
        let own = self.im.take_name(&format!("{}/{op}", self.name));
        self.named(op, &own, ins, attrs)
    }
    fn named(&mut self, op: &str, name: &str, ins: &[ValueRef], attrs: &[(&str, AttrValue)]) -> ValueRef {
        let d = self.g.builder.node(op).name(name).inputs(ins);
        attrs.iter().fold(d, |d, (k, v)| d.attr(k, v.clone())).build()
    }
    fn number(&mut self, what: &str, v: i64) -> ValueRef {
        scalar(self.g, self.im, &format!("{}/{what}", self.name), ConstTensor::of(&[], &[v]))
    }
    fn cast(&mut self, v: ValueRef, to: DType) -> ValueRef {
        self.node("Cast", &[v], &[("dst_type", to.into())])
    }
    /// Size of an axis, as a value computed at run time.
    fn size(&mut self, v: ValueRef, axis: i64) -> ValueRef {
        let shape = self.node("Shape", &[v], &[("dtype", DType::I64.into()), ("start", 0i64.into())]);
        let (at, zero) = (self.number("axis", axis), self.number("zero", 0));
        self.node("GatherV2", &[shape, at, zero], &[])
    }
    /// Heads of keys or values, each repeated for the query heads that share it.
    fn shared(&mut self, q: &Known, v: &Known) -> ValueRef {
        let heads = |k: &Known| k.desc.shape.dims().get(1).and_then(|d| d.size());
        if heads(q).is_some() && heads(q) == heads(v) {
            return v.value;
        }
        let (all, own) = (self.size(q.value, 1), self.size(v.value, 1));
        let each = self.node("Div", &[all, own], &[]);
        let (zero, one) = (self.number("zero", 0), self.number("one", 1));
        let numbers = self.node("Range", &[zero, all, one], &[]);
        let of = self.node("Div", &[numbers, each], &[]);
        let axis = self.number("heads", 1);
        self.node("GatherV2", &[v.value, of, axis], &[])
    }
    /// Queries multiplied by their factor; the default is one over the square root of the head
    /// size.
    fn scaled(&mut self, q: &Known, scale: Option<f64>) -> ValueRef {
        let size = q.desc.shape.dims().get(3).and_then(|d| d.size());
        let factor = scale.or(size.map(|n| 1.0 / (n as f64).sqrt()));
        if let Some(f) = factor {
            return self.node("Muls", &[q.value], &[("value", f.into())]);
        }
        let n = self.size(q.value, 3);
        let n = self.cast(n, DType::F32);
        let f = self.node("Rsqrt", &[n], &[]);
        let f = self.node("CastLike", &[f, q.value], &[]);
        self.node("Mul", &[q.value, f], &[])
    }
}

/// Imports a `FlexAttention` node and returns its output.
pub fn import(
    im: &mut Importer<'_>,
    n: &NodeProto,
    name: &str,
    attrs: &[(&str, &AttributeProto)],
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let given = |key: &str| attrs.iter().find(|(k, _)| *k == key).map(|(_, a)| *a);
    let (score, prob) = (given("score_mod"), given("prob_mod"));
    let dom = domain(&n.domain);
    let mut qkv = Vec::with_capacity(3);
    for i in 0..3 {
        qkv.push(im.read_value(g, n.input.get(i).map_or("", String::as_str))?);
    }
    if let Some(k) = qkv.iter().find(|k| k.desc.shape.rank().is_some_and(|r| r != 4)) {
        return Err(im.refuse(n, name, dom, None, &format!("an input of shape {}; it takes four axes", k.desc.shape)));
    }
    let scale = given("scale").map(|a| f64::from(a.f));
    let precision = match given("softmax_precision") {
        None => None,
        Some(a) => match i32::try_from(a.i).ok().and_then(crate::tensor::dtype) {
            Some(t) if t.is_float() => Some(t),
            _ => return Err(im.refuse(n, name, dom, None, &format!("softmax_precision {}", a.i))),
        },
    };
    let own = qkv.iter().map(|k| k.desc.dtype).find(|t| *t != DType::UNKNOWN);
    let mut w = Writer { im, g, name };
    if score.is_none() && prob.is_none() {
        let ins: Vec<ValueRef> = qkv.iter().map(|k| k.value).collect();
        let mut to: Vec<(&str, AttrValue)> = Vec::new();
        to.extend(scale.map(|s| ("scale", s.into())));
        to.extend(precision.map(|t| ("softmax_precision", t.into())));
        return Ok(vec![Known::new(w.named("Attention", name, &ins, &to), TensorDesc::unknown())]);
    }
    // If the query type is unknown, the type that the subgraph declares for its scores is used.
    let told = score.or(prob).and_then(|a| a.g.as_ref()?.input.first()).map(crate::inputs::declared);
    let told = told.and_then(Result::ok).map(|d| d.dtype).filter(|t| t.is_float());
    let wide = if own == Some(DType::F64) { DType::F64 } else { DType::F32 };
    let computed = precision.or(told.filter(|_| own.is_none())).unwrap_or(wide);

    let (q, k, v) = (w.scaled(&qkv[0], scale), w.shared(&qkv[0], &qkv[1]), w.shared(&qkv[0], &qkv[2]));
    let turned = [("adj_x2", AttrValue::from(true))];
    let scores = w.node("BatchMatMulV2", &[q, k], &turned);
    let mut scores = w.cast(scores, computed);
    if score.is_some() {
        scores = inside(&mut w, n, attrs, env, "score_mod", (scores, computed))?;
    }
    let mut weights = w.node("SoftmaxV2", &[scores], &[("axes", AttrValue::from(vec![-1i64]))]);
    if prob.is_some() {
        weights = inside(&mut w, n, attrs, env, "prob_mod", (weights, computed))?;
    }
    let values = w.cast(v, computed);
    let y = w.node("BatchMatMulV2", &[weights, values], &[]);
    let y = w.named("CastLike", name, &[y, qkv[2].value], &[]);
    Ok(vec![Known::new(y, crate::ranks::desc_of_rank(Some(4)))])
}

/// Passes a value through a subgraph of the node; the type stays the same.
fn inside(
    w: &mut Writer<'_, '_>,
    n: &NodeProto,
    attrs: &[(&str, &AttributeProto)],
    env: &Env<'_>,
    key: &str,
    (value, dtype): (ValueRef, DType),
) -> Result<ValueRef> {
    let sub = graph(w.im, n, w.name, attrs, key)?;
    if sub.input.len() != 1 || sub.output.len() != 1 {
        let why = format!("its subgraph `{key}` has {} inputs, {} outputs", sub.input.len(), sub.output.len());
        return Err(w.im.refuse(n, w.name, domain(&n.domain), None, &why));
    }
    let captured = capture(w.im, w.g, &[sub])?;
    let env = Env { prefix: format!("{}/{key}/", w.name), ..env.clone() };
    let desc = TensorDesc { dtype, ..crate::ranks::desc_of_rank(Some(4)) };
    let made = turn(w.im, sub, vec![Known::new(value, desc)], &captured, w.g, &env)?;
    Ok(made.first().map_or(value, |k| k.value))
}
