//! `QuantMatMulFusionPass`: a product of dequantised 8-bit integers by a dequantised constant
//! matrix becomes `FusedQuantMatMul`, which multiplies integers and includes the bias, the
//! activation and the quantisation that follow. So does `MatMulInteger` with the cast and the
//! scales that follow it, as left by quantisation at run time; that quantisation is fused, too, if
//! nothing else needs it. The pass runs before constants are folded, while the 8-bit constants
//! still exist.
use super::{activation_of, only_reader, other_operand, set_activation};
use crate::families::fused::act_named;
use crate::families::qmatmul::MOST_K;
use crate::families::quant::divides_in_f32;
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Boundary, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, DType, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};

const NAME: &str = "QuantMatMulFusionPass";

/// The pass `QuantMatMulFusionPass`.
pub struct QuantMatMul;

/// 8-bit integers with their scale and zero point.
#[derive(Clone, Copy)]
struct Bytes {
    value: ValueRef,
    scale: ValueRef,
    zero: ValueRef,
}

/// A matched product and what follows it.
struct Found {
    nodes: Vec<NodeId>,
    last: ValueRef,
    a: Bytes,
    /// `None`: one, because the scale of `b` includes it. Absent value: `a` is real and the product
    /// quantises it.
    a_scale: Option<ValueRef>,
    b: Bytes,
    turned: bool,
    bias: ValueRef,
    act: Option<(&'static str, Vec<f64>)>,
    y: Option<[ValueRef; 2]>,
}

fn is_byte(d: DType) -> bool {
    matches!(d, DType::I8 | DType::U8)
}

/// Whether a value is known to be one number: a constant, or the scale or zero point of a
/// quantisation at run time.
fn is_one(g: &Graph<'_>, v: ValueRef) -> bool {
    match g.find(v.node) {
        Some(n) if n.op() == "DynamicQuantizeLinear" => v.output > 0,
        _ => g.constant(v).is_some_and(|c| c.count() == Some(1)),
    }
}

/// Whether a constant has one number, or one per column.
fn by_column(c: &ConstTensor, columns: u64) -> bool {
    c.count() == Some(1) || (c.dims.len() == 1 && c.dims[0] == columns)
}

/// The input of a DequantizeLinear of 8-bit integers with an f32 scale.
fn dequantised<'g>(g: &Graph<'g>, v: ValueRef) -> Option<(Node<'g>, Bytes)> {
    let n = g.find(v.node).filter(|n| n.op() == "DequantizeLinear" && n.int("block_size").unwrap_or(0) == 0)?;
    let bytes = Bytes { value: n.input(0)?, scale: n.input(1)?, zero: n.input(2).unwrap_or(ValueRef::ABSENT) };
    let single = g.desc(bytes.scale).is_some_and(|d| d.dtype == DType::F32) && n.attr("output_dtype").is_none();
    single.then_some((n, bytes))
}

/// The number of columns N of a constant matrix `[K, N]`, or `[N, K]` if it is transposed.
fn columns(g: &Graph<'_>, v: ValueRef, turned: bool) -> Verdict<u64> {
    let c = g.constant(v).ok_or("the second factor is no constant")?;
    let &[rows, cols] = c.dims.as_slice() else { return Err(format!("the second factor has the shape {:?}", c.dims)) };
    let (k, n) = if turned { (cols, rows) } else { (rows, cols) };
    if !is_byte(c.dtype) {
        return Err(format!("the second factor is {}", c.dtype));
    }
    if k > MOST_K as u64 {
        return Err(format!("sums of {k} products of bytes can leave 32 bits"));
    }
    Ok(n)
}

/// Matches a product of dequantised values; succeeds if the second factor is a constant of 8-bit
/// integers.
fn of_dequantised(g: &Graph<'_>, n: &Node<'_>) -> Option<Verdict<Found>> {
    let (of_a, a) = dequantised(g, n.input(0)?)?;
    let turn = g.find(n.input(1)?.node).filter(|t| t.op() == "TransposeD" && t.ints("perm") == Some(&[1, 0]));
    let (of_b, b) = dequantised(g, turn.map_or(n.input(1), |t| t.input(0))?)?;
    let turned = (n.flag("transpose_x2") || n.flag("adj_x2")) != turn.is_some();
    let found = || {
        let width = columns(g, b.value, turned)?;
        let a_known = match g.constant(a.zero) {
            Some(z) => is_byte(z.dtype) && z.count() == Some(1),
            // Without a zero point, the type of the value itself decides, if it is known.
            None => a.zero.is_absent() && g.desc(a.value).is_some_and(|d| is_byte(d.dtype)),
        };
        if !a_known || !is_one(g, a.scale) {
            return Err("scale and zero point of the first factor are not one number each".to_owned());
        }
        let axis = of_b.int("axis").unwrap_or(1);
        for v in [b.scale, b.zero] {
            let Some(c) = g.constant(v) else {
                if v.is_absent() {
                    continue;
                }
                return Err("scale and zero point of the second factor are no constants".into());
            };
            let along = if turned { [0, -2] } else { [1, -1] };
            if !by_column(c, width) || (c.count() != Some(1) && !along.contains(&axis)) {
                return Err("scales of the second factor are not by column".into());
            }
        }
        if n.flag("transpose_x1") || n.flag("adj_x1") || n.attr("y_dtype").is_some() || n.input(3).is_some() {
            return Err("the first factor is turned, or the product is of another type".into());
        }
        let mut nodes = Vec::new();
        // Nodes with other readers stay.
        let own = |n: &Node<'_>| {
            g.users(n.value(0)).len() == 1 && n.controls().is_empty() && g.control_users(n.id()).is_empty()
        };
        nodes.extend(own(&of_a).then(|| of_a.id()));
        if turn.as_ref().is_none_or(own) {
            nodes.extend(own(&of_b).then(|| of_b.id()));
            nodes.extend(turn.as_ref().map(Node::id));
        }
        nodes.push(n.id());
        let mut f = Found {
            nodes,
            last: n.value(0),
            a,
            a_scale: Some(a.scale),
            b,
            turned,
            bias: ValueRef::ABSENT,
            act: None,
            y: None,
        };
        if let Some(bias) = n.input(2) {
            if !is_bias(g, bias, width) {
                return Err("the bias is no vector of single numbers".into());
            }
            f.bias = bias;
        }
        f.follow(g, width);
        Ok(f)
    };
    Some(found())
}

/// Matches a product of integers with the cast and the scales that follow it.
fn of_integers(g: &Graph<'_>, n: &Node<'_>) -> Option<Verdict<Found>> {
    let cast = only_reader(g, n.value(0)).filter(|c| c.op() == "Cast")?;
    let scaled = only_reader(g, cast.value(0)).filter(|m| m.op() == "Mul")?;
    let scale = other_operand(&scaled, cast.value(0))?;
    let absent = |i: usize| n.input(i).unwrap_or(ValueRef::ABSENT);
    let (a, b, za, zb) = (n.input(0)?, n.input(1)?, absent(2), absent(3));
    let found = || {
        let width = columns(g, b, false)?;
        if !matches!(cast.attr("dst_type"), Some(AttrValue::Type(DType::F32))) {
            return Err("the sums are not cast to single numbers".to_owned());
        }
        if !za.is_absent() && !is_one(g, za) {
            return Err("the zero point of the first factor is not one number".into());
        }
        if !zb.is_absent() && !g.constant(zb).is_some_and(|c| by_column(c, width)) {
            return Err("zero points of the second factor are not by column".into());
        }
        // A scale of several axes may give them to the result, even if it is one number.
        let flat = |v: ValueRef| g.constant(v).is_none_or(|c| c.dims.len() <= 1);
        let single = |v: ValueRef| g.desc(v).is_none_or(|d| matches!(d.dtype, DType::F32 | DType::UNKNOWN));
        let column =
            |v: ValueRef| flat(v) && g.constant(v).is_some_and(|c| c.dtype == DType::F32 && by_column(c, width));
        let one = |v: ValueRef| flat(v) && single(v) && is_one(g, v);
        let mut nodes = vec![n.id(), cast.id(), scaled.id()];
        let product = g.find(scale.node).filter(|p| p.op() == "Mul");
        let (a_scale, b_scale) = match product.map(|p| (p, p.inputs())) {
            _ if column(scale) => (None, scale),
            Some((p, &[x, y])) if one(x) && column(y) || one(y) && column(x) => {
                if g.users(p.value(0)).len() == 1 {
                    nodes.insert(0, p.id());
                }
                if one(x) && column(y) { (Some(x), y) } else { (Some(y), x) }
            }
            _ => return Err("what the sums are multiplied by is not one scale a column".into()),
        };
        let (mut first, mut a_scale) = (Bytes { value: a, scale: ValueRef::ABSENT, zero: za }, a_scale);
        // If nothing else reads the quantised values, their scale and their zero point, the product
        // quantises by itself.
        let only = |d: &Node<'_>| {
            let outputs = [(0, a), (1, a_scale.unwrap_or(ValueRef::ABSENT)), (2, za)];
            let all_read_here = outputs.iter().all(|(k, v)| d.value(*k) == *v && g.users(*v).len() == 1);
            all_read_here && d.controls().is_empty() && g.control_users(d.id()).is_empty()
        };
        if let Some(d) = g.find(a.node).filter(|d| d.op() == "DynamicQuantizeLinear" && only(d))
            && let Some(x) = d.input(0)
        {
            nodes.insert(0, d.id());
            first = Bytes { value: x, zero: ValueRef::ABSENT, ..first };
            a_scale = Some(ValueRef::ABSENT);
        }
        let mut f = Found {
            nodes,
            last: scaled.value(0),
            a: first,
            a_scale,
            b: Bytes { value: b, scale: b_scale, zero: zb },
            turned: false,
            bias: ValueRef::ABSENT,
            act: None,
            y: None,
        };
        f.follow(g, width);
        Ok(f)
    };
    Some(found())
}

/// Whether a value is a constant vector in single precision, or is made from a constant integer
/// vector.
fn is_bias(g: &Graph<'_>, v: ValueRef, width: u64) -> bool {
    let of = |v: ValueRef, taken: &[DType]| {
        g.constant(v).is_some_and(|c| taken.contains(&c.dtype) && c.dims.len() == 1 && c.dims[0] == width)
    };
    of(v, &[DType::F32])
        || dequantised(g, v).is_some_and(|(n, b)| {
            let of_one_axis = n.int("axis").is_none_or(|a| a == 0 || a == -1) || is_one(g, b.scale);
            of(b.value, &[DType::I32, DType::I8, DType::U8]) && g.constant(b.scale).is_some() && of_one_axis
        })
}

impl Found {
    /// Takes what follows along single readers: bias, activation and quantisation, in this order.
    fn follow(&mut self, g: &Graph<'_>, width: u64) {
        while let Some(next) = only_reader(g, self.last) {
            let other = other_operand(&next, self.last);
            match (next.op(), other) {
                ("Add" | "BiasAdd", Some(o)) if self.act.is_none() && self.bias.is_absent() && is_bias(g, o, width) => {
                    self.bias = o;
                }
                ("QuantizeLinear", _) => {
                    let (scale, zero) = (next.input(1), next.input(2).filter(|z| !z.is_absent()));
                    let (Some(scale), Some(zero)) = (scale, zero) else { return };
                    let single = g.constant(scale).is_some_and(|c| c.dtype == DType::F32)
                        && divides_in_f32(next.attr("precision"), DType::F32);
                    let bytes = g.constant(zero).is_some_and(|c| is_byte(c.dtype));
                    if !(single && bytes && is_one(g, scale) && is_one(g, zero)) || next.input(0) != Some(self.last) {
                        return;
                    }
                    self.y = Some([scale, zero]);
                }
                _ => match activation_of(&next).filter(|_| next.input(0) == Some(self.last)) {
                    Some((name, numbers)) if self.act.is_none() && act_named(name, &numbers).is_ok() => {
                        self.act = Some((name, numbers));
                    }
                    _ => return,
                },
            }
            self.nodes.push(next.id());
            self.last = next.value(0);
            if self.y.is_some() {
                return;
            }
        }
    }

    fn make(&self, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let a_scale = match self.a_scale {
            Some(v) => v,
            None => r.constant(ConstTensor::of(&[], &[1.0f32]).ok_or("no constant can be made")?),
        };
        let [sy, zy] = self.y.unwrap_or([ValueRef::ABSENT; 2]);
        let (a, b) = (self.a, self.b);
        let mut attrs = AttrMap::default();
        attrs.set("transpose_x2", self.turned);
        if let Some((name, numbers)) = &self.act {
            set_activation(&mut attrs, name, numbers.clone());
        }
        let mut made =
            r.op("FusedQuantMatMul", [a.value, a_scale, a.zero, b.value, b.scale, b.zero, sy, zy, self.bias]);
        for at in &attrs {
            made = made.attr(at.key.as_str(), at.value.clone());
        }
        Ok(vec![made.into()])
    }
}

impl Pass for QuantMatMul {
    fn info(&self) -> PassInfo {
        let help =
            "multiplies bytes where a product stands behind dequantisation, with bias, activation and quantisation";
        PassInfo::new(NAME, PassStage::BEFORE_INFER_SHAPE, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut rewriter = SubgraphRewriter::new(NAME, graph, patch);
        for n in graph.nodes_of(&["MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2", "MatMulInteger"]) {
            let found = match n.op() {
                "MatMul" | "MatMulV2" | "BatchMatMul" | "BatchMatMulV2" => of_dequantised(graph, &n),
                "MatMulInteger" => of_integers(graph, &n),
                _ => None,
            };
            match found {
                None => {}
                Some(Err(why)) => rewriter.refuse(n.id(), &why),
                Some(Ok(f)) => {
                    rewriter.replace(&Boundary { nodes: f.nodes.clone(), outputs: vec![f.last] }, |r| f.make(r));
                }
            }
        }
        Ok(())
    }
}
