//! `ConvBatchNormActivationFusionPass`: `BNInfer(Conv(x, w, b?), scale, offset, mean, variance)`
//! becomes one convolution with new weights `w·k` and bias `(b − mean)·k + offset`, where
//! `k = scale / √(variance + epsilon)` for each output channel. All of this is computed in double
//! precision and rounded once. The same is done for `Mul(Conv(x, w, b?), k)` with one constant per
//! output channel, a batch norm whose scale is a separate node. A product with a single number
//! stays as it is, for the chain of maps behind it. An activation after the norm stays a node of
//! its own, because the prototypes of these convolutions have none. Nothing is folded if a new
//! number would leave the range of its type.
use crate::edit;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{ConstTensor, DType, Key, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use half::{bf16, f16};
use std::collections::BTreeSet;

/// Convolutions whose filter has the output channel first.
const CONVOLUTIONS: [&str; 3] = ["Conv2D", "DepthwiseConv2D", "Conv3D"];
/// Most elements of a filter that is folded.
const MOST: usize = 1 << 28;

/// The pass that this module describes.
pub struct ConvBatchNormActivation;

impl Pass for ConvBatchNormActivation {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "ConvBatchNormActivationFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "puts the batch norm after a convolution into its weights and bias".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut names: Option<BTreeSet<&str>> = None;
        for norm in graph.nodes_of(&["BNInfer", "BatchNorm", "Mul"]) {
            if let Some(f) = Fold::of(&norm) {
                let names = names.get_or_insert_with(|| graph.nodes().map(|n| n.name()).collect());
                f.record(graph, patch, &norm, names);
            }
        }
        Ok(())
    }
}

struct Fold<'a> {
    conv: Node<'a>,
    filter: ConstTensor,
    bias: Option<ConstTensor>,
}

fn values(node: &Node<'_>, i: usize, n: usize) -> Option<Vec<f64>> {
    node.const_input(i)?.to_f64(n).filter(|v| v.len() == n)
}

/// The smallest number of a type that has all its digits.
fn least(dtype: DType) -> Option<f64> {
    match dtype {
        DType::F32 => Some(f32::MIN_POSITIVE.into()),
        DType::F64 => Some(f64::MIN_POSITIVE),
        DType::F16 => Some(f16::MIN_POSITIVE.into()),
        DType::BF16 => Some(bf16::MIN_POSITIVE.into()),
        _ => None,
    }
}

/// A tensor of these values in an element type, each rounded once. `None` if a value is beyond the
/// range of the type.
fn tensor(dtype: DType, dims: &[u64], v: &[f64]) -> Option<ConstTensor> {
    let made = rounded(dtype, dims, v)?;
    let fits = made.to_f64(v.len())?.into_iter().zip(v).all(|(new, exact)| new.is_finite() || !exact.is_finite());
    fits.then_some(made)
}

/// Whether all weights of a channel sink below the numbers that have all their digits, although the
/// old ones did not. If one of them does not, the digits that smaller ones lose are no more than
/// what rounding takes from that one.
fn sinks(new: &[f64], old: &[f64], least: f64) -> bool {
    let most = |v: &[f64]| v.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    most(new) > 0.0 && most(new) < least && most(old) >= least
}

fn rounded(dtype: DType, dims: &[u64], v: &[f64]) -> Option<ConstTensor> {
    match dtype {
        DType::F32 => ConstTensor::of(dims, &v.iter().map(|x| *x as f32).collect::<Vec<_>>()),
        DType::F64 => ConstTensor::of(dims, v),
        DType::F16 => ConstTensor::of(dims, &v.iter().map(|x| f16::from_f64(*x)).collect::<Vec<_>>()),
        DType::BF16 => ConstTensor::of(dims, &v.iter().map(|x| bf16::from_f64(*x)).collect::<Vec<_>>()),
        _ => None,
    }
}

/// What is applied to each output channel: `y = (x − mean)·k + shift`.
struct Affine {
    mean: Vec<f64>,
    k: Vec<f64>,
    shift: Vec<f64>,
}

impl Affine {
    /// The function of a batch norm in inference mode.
    fn norm(norm: &Node<'_>, channels: usize) -> Option<Affine> {
        if norm.op() == "BatchNorm" && norm.attr("is_training").and_then(|a| a.as_bool()) != Some(false) {
            return None;
        }
        let (scale, shift) = (values(norm, 1, channels)?, values(norm, 2, channels)?);
        let (mean, variance) = (values(norm, 3, channels)?, values(norm, 4, channels)?);
        let epsilon = norm.float("epsilon").unwrap_or(1e-5);
        let k: Vec<f64> = scale.iter().zip(&variance).map(|(s, v)| s / (v + epsilon).sqrt()).collect();
        Some(Affine { mean, k, shift })
    }

    /// The function of a product with a constant, input `i`, that has one number per channel.
    fn product(mul: &Node<'_>, i: usize, channels: usize) -> Option<Affine> {
        let rank = mul.outputs().first()?.shape.rank()?;
        let dims = mul.input_desc(i)?.shape.sizes()?;
        let lead = rank.checked_sub(dims.len())?;
        let alone = dims.iter().enumerate().all(|(axis, n)| *n == 1 || axis + lead == 1);
        let k = mul.const_input(i).filter(|_| alone)?.to_f64(channels)?;
        (channels > 1 && k.len() == channels).then(|| Affine {
            mean: vec![0.0; channels],
            k,
            shift: vec![0.0; channels],
        })
    }
}

impl<'a> Fold<'a> {
    fn of(norm: &Node<'a>) -> Option<Fold<'a>> {
        let g = norm.graph();
        // The factors of a product may be in either order.
        let at = if norm.op() == "Mul" && norm.const_input(0).is_some() { 1 } else { 0 };
        let input = norm.input(at).filter(|v| !v.is_absent() && v.output == 0)?;
        let conv = g.find(input.node)?;
        let plain = CONVOLUTIONS.contains(&conv.op()) && !conv.str("data_format").unwrap_or("").ends_with('C');
        let alone = g.users(input).len() == 1
            && edit::is_free(&conv)
            && (1..norm.outputs().len()).all(|k| g.users(norm.value(k as u32)).is_empty());
        // Input 3 of a convolution is the offset of quantised weights.
        let offset = conv.input(3).is_some_and(|v| !v.is_absent());
        if !plain || !alone || offset {
            return None;
        }
        let w = conv.const_input(1)?;
        let dims = w.shape().sizes()?;
        let channels = usize::try_from(*dims.first()?).ok().filter(|c| *c > 0)?;
        let Affine { mean, k, shift } = match norm.op() {
            "Mul" => Affine::product(norm, 1 - at, channels)?,
            _ => Affine::norm(norm, channels)?,
        };
        let same_shape = norm.outputs().first()?.shape.rank() == conv.outputs().first()?.shape.rank();
        if k.iter().any(|k| !k.is_finite()) || !same_shape {
            return None;
        }
        let given = conv.input(2).filter(|v| !v.is_absent());
        let bias = match given {
            Some(_) => values(&conv, 2, channels)?,
            None => vec![0.0; channels],
        };
        let weights = w.to_f64(MOST)?;
        let mut filter = weights.clone();
        let each = filter.len() / channels;
        for (part, k) in filter.chunks_exact_mut(each.max(1)).zip(&k) {
            part.iter_mut().for_each(|v| *v *= k);
        }
        let b: Vec<f64> = (0..channels).map(|c| (bias[c] - mean[c]) * k[c] + shift[c]).collect();
        let dtype = norm.outputs().first()?.dtype;
        let (least, each) = (least(w.dtype)?, each.max(1));
        if filter.chunks(each).zip(weights.chunks(each)).any(|(new, old)| sinks(new, old, least)) {
            return None;
        }
        let filter = tensor(w.dtype, &dims, &filter)?;
        let bias = match given.is_some() || b.iter().any(|b| *b != 0.0) {
            true => Some(tensor(dtype, &[channels as u64], &b)?),
            false => None,
        };
        Some(Fold { conv, filter, bias })
    }

    /// Turns the norm into the convolution, so that its name and its readers stay.
    fn record(&self, g: &Graph<'_>, patch: &mut Patch, norm: &Node<'_>, names: &BTreeSet<&str>) {
        let name = |what: &str| edit::fresh_name(names, norm.name(), what);
        let filter = patch.constant(&name("filter"), self.filter.clone());
        let bias = self.bias.clone().map(|b| patch.constant(&name("bias"), b));
        let x: ValueRef = self.conv.inputs()[0];
        let inputs: Vec<ValueRef> = [Some(x), Some(filter), bias].into_iter().flatten().collect();
        edit::becomes(patch, norm, Key::new(self.conv.op()), &inputs);
        for a in self.conv.attrs() {
            patch.push(Edit::SetAttr(norm.id(), a.clone()));
        }
        let outputs: Vec<_> = norm.outputs().iter().take(1).cloned().collect();
        patch.push(Edit::SetOutputs(norm.id(), outputs.into()));
        edit::keep_names(patch, norm, &[self.conv, *norm]);
        let reads: Vec<NodeId> = vec![x.node];
        edit::remove_unread(patch, g, norm.id(), &reads, &[self.conv.id()]);
    }
}

#[cfg(test)]
mod tests {
    use super::sinks;

    #[test]
    fn a_channel_sinks_with_its_greatest_weight() {
        assert!(sinks(&[1e-5, -2e-5], &[1.0, 2.0], 6.1e-5));
        assert!(!sinks(&[1e-5, -2e-4], &[1.0, 2.0], 6.1e-5), "one keeps its digits");
        assert!(!sinks(&[1e-5], &[2e-5], 6.1e-5), "it had none before");
        assert!(!sinks(&[0.0], &[1.0], 6.1e-5), "zero is exact");
    }
}
