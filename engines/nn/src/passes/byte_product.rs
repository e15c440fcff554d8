//! `ByteProductFusionPass`: a product of f32 by constant 8-bit integers that are cast and scaled at
//! run time reads the integers directly.
//!
//! Before: `%w = Mul(Cast(%q), %scale)`, `%y = MatMulV2(%x, %w)` or `FusedMatMul`, with constants
//! `%q: i8[K,N]` and `%scale: f32[N]`
//! After: `%y = FusedWeightMatMul(%x, %panels, %scale)` with a constant `i8[ceil(N/16),K,16]`
//! When: only the product reads the weights, which were too large to be folded; its sizes are known
//! or have names.
//! Refuses: transposed factors, a factor `alpha`, steps behind the product.
use super::matmul::{PRODUCTS, turned};
use super::{only_reader, open, other_operand, out_desc};
use ge_kernels::gemm::weights::pack_weights;
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Boundary, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, ConstTensor, DType, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};

const NAME: &str = "ByteProductFusionPass";

/// The pass `ByteProductFusionPass`.
pub struct ByteProduct;

impl Pass for ByteProduct {
    fn info(&self) -> PassInfo {
        let help = "multiplies by constant bytes where they are cast and scaled before a product";
        PassInfo::new(NAME, PassStage::AFTER_PRECISION_REFINE, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut rewriter = SubgraphRewriter::new(NAME, graph, patch);
        for n in graph.nodes_of(&PRODUCTS) {
            let Some(weights) = scaled(graph, &n) else { continue };
            if let Err(why) = plain(&n) {
                rewriter.refuse(n.id(), &why);
                continue;
            }
            let nodes = weights.nodes.iter().copied().chain([n.id()]).collect();
            rewriter.replace(&Boundary { nodes, outputs: vec![n.value(0)] }, |r| weights.make(&n, r));
        }
        Ok(())
    }
}

/// Constant 8-bit integers with their cast and scaling.
struct Scaled<'g> {
    nodes: [NodeId; 2],
    bytes: &'g ConstTensor,
    scale: &'g ConstTensor,
}

/// The second factor of a product, if it is cast and scaled for this product only.
fn scaled<'g>(g: &Graph<'g>, n: &Node<'g>) -> Option<Scaled<'g>> {
    let alone =
        |v: ValueRef| only_reader(g, v).is_some_and(|reader| reader.input(0) == Some(v) || reader.id() == n.id());
    let weights = n.input(1).filter(|v| alone(*v))?;
    let mul = g.find(weights.node).filter(|m| m.op() == "Mul")?;
    let cast = mul.inputs().iter().find_map(|v| g.find(v.node).filter(|c| c.op() == "Cast"))?;
    let widened = cast.value(0);
    only_reader(g, widened)?;
    let scale = g.constant(other_operand(&mul, widened)?)?;
    let bytes = g.constant(cast.input(0)?)?;
    let single = cast.outputs().first().is_some_and(|d| d.dtype == DType::F32) && scale.dtype == DType::F32;
    (single && bytes.dtype == DType::I8).then_some(Scaled { nodes: [cast.id(), mul.id()], bytes, scale })
}

/// Refuses what the kernel does not support.
fn plain(n: &Node<'_>) -> Verdict {
    let single = n.input_desc(0).is_some_and(|d| d.dtype == DType::F32 && open::is_named(&d.shape));
    if !single || turned(n) != (false, false) {
        return Err("x1 is not f32 of sizes that are known or have names, or a factor is turned".into());
    }
    if n.float("alpha").is_some_and(|a| a != 1.0) || n.attr("steps").is_some() || n.attr("y_dtype").is_some() {
        return Err("the product has a factor, steps or a type of its own".into());
    }
    if n.op() != "FusedMatMul" && n.input(3).is_some_and(|v| !v.is_absent()) {
        return Err("input 3 is given".into());
    }
    Ok(())
}

impl Scaled<'_> {
    fn make(&self, n: &Node<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let &[k, columns] = self.bytes.dims.as_slice() else {
            return Err(format!("the weights have the shape {:?}", self.bytes.dims));
        };
        let scales = match self.scale.dims.as_slice() {
            [] | [1] | [1, 1] => 1,
            [c] | [1, c] if *c == columns => columns,
            other => return Err(format!("the scale has the shape {other:?} for {columns} columns")),
        };
        let size = |d: u64| usize::try_from(d).map_err(|_| format!("a size of {d}"));
        let (rows, wide) = (size(k)?, size(columns)?);
        let bytes = self.bytes.bytes().ok_or("the weights cannot be read")?;
        let given: Vec<i8> = bytes.iter().map(|v| *v as i8).collect();
        if rows == 0 || wide == 0 || given.len() != rows * wide {
            return Err("there are no weights".into());
        }
        let dims = [columns.div_ceil(16), k, 16];
        let panels = ConstTensor::of(&dims, &pack_weights(&given, rows, wide)).ok_or("no constant can be made")?;
        let scale = self.scale.to_f64(wide).ok_or("the scale cannot be read")?;
        let scale: Vec<f32> = (0..wide).map(|j| scale[if scales == 1 { 0 } else { j }] as f32).collect();
        let scale = ConstTensor::of(&[columns], &scale).ok_or("no constant can be made")?;
        let mut attrs = AttrMap::default();
        for key in ["activation", "activation_params"] {
            if let Some(v) = n.attr(key) {
                attrs.set(key, v.clone());
            }
        }
        let other = |i: usize| n.input(i).unwrap_or(ValueRef::ABSENT);
        let x1 = n.input(0).ok_or("x1 is missing")?;
        let inputs = [x1, r.constant(panels), r.constant(scale), other(2), other(3)];
        let mut made = r.op("FusedWeightMatMul", inputs);
        for a in &attrs {
            made = made.attr(a.key.as_str(), a.value.clone());
        }
        Ok(vec![made.desc(0, out_desc(n)?.clone()).into()])
    }
}
