//! `MatMulEpilogueFusionPass`: a product followed by bias, factor, residual and activation becomes
//! `FusedMatMul`.
//! `MatMulTransposeFusionPass`: a transpose of the last two axes before a product becomes an
//! attribute of the product.
//! `MatMulWeightsPass`: a constant matrix that a product reads transposed is transposed once, when
//! the model is compiled, because a product of few rows reads its weights without packing.
use super::{fuse_tails, info, no_growing_state, out_desc, put};
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Match, Pattern, PatternFusion, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{Pass, PassInfo};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, Blob, ConstTensor, DType, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// The matrix product operators.
pub const PRODUCTS: [&str; 5] = ["MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2", "FusedMatMul"];

/// Whether `x1` and `x2` are transposed.
pub fn turned(n: &Node<'_>) -> (bool, bool) {
    (n.flag("transpose_x1") || n.flag("adj_x1"), n.flag("transpose_x2") || n.flag("adj_x2"))
}

/// The attributes of `FusedMatMul` for a product.
pub fn fused_attrs(n: &Node<'_>) -> AttrMap {
    let mut a = if n.op() == "FusedMatMul" { super::attrs_of(n) } else { AttrMap::default() };
    let (x1, x2) = turned(n);
    a.set("transpose_x1", x1);
    a.set("transpose_x2", x2);
    if let Some(t) = n.attr("y_dtype") {
        a.set("y_dtype", t.clone());
    }
    a
}

/// The pass for bias, factor, residual and activation.
pub struct MatMulEpilogue;

impl Pass for MatMulEpilogue {
    fn info(&self) -> PassInfo {
        info("MatMulEpilogueFusionPass", "puts bias, factor, residual and activation behind a product into its kernel")
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let rewriter = SubgraphRewriter::new("MatMulEpilogueFusionPass", graph, patch);
        fuse_tails(rewriter, graph, &PRODUCTS[..4], "FusedMatMul", (0, true), |n| {
            no_growing_state(&n.graph(), &n.inputs()[..2])?;
            Ok(fused_attrs(n))
        });
        Ok(())
    }
}

/// The pass for transposes before a product.
pub struct MatMulTranspose;

impl PatternFusion for MatMulTranspose {
    fn info(&self) -> PassInfo {
        info("MatMulTransposeFusionPass", "takes a transpose of the last two axes into the product that reads it")
    }
    fn patterns(&self) -> Vec<Pattern> {
        let left = Pattern::new(|p| {
            let t = p.op("TransposeD", [p.input("a")]).when(swaps_last).named("left");
            p.any(&PRODUCTS, [t, p.input("b"), p.maybe("bias"), p.maybe("x3")])
        });
        let right = Pattern::new(|p| {
            let t = p.op("TransposeD", [p.input("b")]).when(swaps_last).named("right");
            p.any(&PRODUCTS, [p.input("a"), t, p.maybe("bias"), p.maybe("x3")])
        });
        vec![left, right]
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let n = m.root();
        no_growing_state(&m.graph(), &[m.value("a"), m.value("b")])?;
        let mut attrs = fused_attrs(&n);
        let (x1, x2) = turned(&n);
        attrs.set("transpose_x1", x1 != m.maybe("left").is_some());
        attrs.set("transpose_x2", x2 != m.maybe("right").is_some());
        let inputs = [m.value("a"), m.value("b"), m.value("bias"), m.value("x3")];
        Ok(vec![put(r, "FusedMatMul", &inputs, &attrs, out_desc(&n)?)?.into()])
    }
}

/// Whether a permutation only swaps the last two axes.
pub fn swaps_last(n: &Node<'_>) -> bool {
    let Some(p) = n.ints("perm") else { return false };
    let r = p.len();
    r >= 2 && p[r - 2..] == [r as i64 - 1, r as i64 - 2] && p[..r - 2].iter().enumerate().all(|(i, a)| *a == i as i64)
}

/// The pass for constant matrices that products read transposed.
pub struct MatMulWeights;

impl Pass for MatMulWeights {
    fn info(&self) -> PassInfo {
        info("MatMulWeightsPass", "turns constant matrices that a product alone reads turned")
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        for n in graph.nodes_of(&PRODUCTS).filter(|n| turned(n).1) {
            let own = n.input(1).filter(|v| graph.users(*v).len() == 1);
            let Some(other) = own.and_then(|v| graph.constant(v)).and_then(other_way) else { continue };
            let value = patch.constant(&format!("{}_weights", n.name()), other);
            patch.set_input(n.id(), 1, value);
            for key in ["transpose_x2", "adj_x2"] {
                if n.flag(key) {
                    patch.set_attr(n.id(), key, false);
                }
            }
        }
        Ok(())
    }
}

/// The transpose of a constant matrix of real numbers.
fn other_way(c: &ConstTensor) -> Option<ConstTensor> {
    let &[rows, cols] = c.dims.as_slice() else { return None };
    let bytes = c.bytes()?;
    let bytes = bytes.as_slice();
    let size = match c.dtype {
        DType::F32 => 4,
        DType::F16 | DType::BF16 => 2,
        _ => return None,
    };
    let (rows_n, cols_n) = (usize::try_from(rows).ok()?, usize::try_from(cols).ok()?);
    let mut out = Vec::with_capacity(bytes.len());
    for j in 0..cols_n {
        for i in 0..rows_n {
            out.extend_from_slice(bytes.get((i * cols_n + j) * size..)?.get(..size)?);
        }
    }
    ConstTensor::new(c.dtype, &[cols, rows], Blob::from_owner(out))
}
