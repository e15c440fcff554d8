//! `ConvEpilogueFusionPass`: a convolution followed by bias, residual and activation becomes
//! `FusedConv`.
//! `PadConvFusionPass`: zero padding before a convolution becomes the convolution's own padding.
use super::{attrs_of, fuse_tails, info, out_desc, put};
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Match, Pattern, PatternFusion, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{Pass, PassInfo};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// Convolutions of images.
pub const CONVOLUTIONS: [&str; 2] = ["Conv2D", "DepthwiseConv2D"];
/// Convolutions that may take over a padding before them, including those with fused steps.
const PADDED: [&str; 3] = ["Conv2D", "DepthwiseConv2D", "FusedConv"];

/// The attributes of `FusedConv` for a convolution.
///
/// # Errors
/// Fails if the number of channels is open.
pub fn fused_attrs(n: &Node<'_>) -> Verdict<AttrMap> {
    let mut a = attrs_of(n);
    if n.op() == "DepthwiseConv2D" {
        let channels = n.input_desc(0).and_then(|d| d.shape.dims().get(1)?.size());
        let channels = channels.and_then(|c| i64::try_from(c).ok());
        a.set("groups", channels.ok_or("the number of channels is open")?);
    }
    Ok(a)
}

/// The pass for bias, residual and activation.
pub struct ConvEpilogue;

impl Pass for ConvEpilogue {
    fn info(&self) -> PassInfo {
        info("ConvEpilogueFusionPass", "puts bias, residual and activation behind a convolution into its kernel")
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let rewriter = SubgraphRewriter::new("ConvEpilogueFusionPass", graph, patch);
        // Channels are the second of four axes.
        fuse_tails(rewriter, graph, &CONVOLUTIONS, "FusedConv", (2, false), fused_attrs);
        Ok(())
    }
}

/// The pass for padding before a convolution.
pub struct PadConv;

impl PatternFusion for PadConv {
    fn info(&self) -> PassInfo {
        info("PadConvFusionPass", "zeros around the images of a convolution become its padding")
    }
    fn patterns(&self) -> Vec<Pattern> {
        ["PadV3", "PadD"]
            .map(|op| {
                Pattern::new(move |p| {
                    let pad = p.op(op, [p.input("x"), p.maybe("paddings"), p.maybe("fill")]).named("pad");
                    let more = [p.input("filter"), p.maybe("bias"), p.maybe("residual")];
                    p.any(&PADDED, [pad].into_iter().chain(more))
                })
            })
            .into()
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let (g, n, pad) = (m.graph(), m.root(), m.node("pad"));
        if pad.str("mode").unwrap_or("constant") != "constant" {
            return Err("the padding repeats or mirrors what it stands beside".into());
        }
        if m.maybe("fill").is_some_and(|v| super::number(&g, v) != Some(0.0)) {
            return Err("the padding is not zero".into());
        }
        if n.str("auto_pad").is_some_and(|a| a.starts_with("SAME"))
            || n.str("data_format").is_some_and(|f| f.ends_with('C'))
        {
            return Err("the convolution's padding follows from its output, or channels are last".into());
        }
        let given = pad.ints("paddings").map(<[i64]>::to_vec);
        let list =
            given.or_else(|| g.constant(m.maybe("paddings")?)?.to_i64(64)).ok_or("the padding is no constant")?;
        if list.len() != 8 || list.iter().any(|p| *p < 0) {
            return Err(format!("the padding is {list:?}"));
        }
        let by_axis = pad.attr("paddings_contiguous").and_then(|a| a.as_bool()).unwrap_or(true);
        let of = |axis: usize, end: usize| if by_axis { list[2 * axis + end] } else { list[axis + 4 * end] };
        if (0..2).any(|axis| of(axis, 0) + of(axis, 1) != 0) {
            return Err("the padding adds images or channels".into());
        }
        let own = match (n.str("auto_pad"), n.ints("pads")) {
            (Some("VALID"), _) | (_, None | Some([])) => [0; 4],
            (_, Some(v)) => <[i64; 4]>::try_from(v).map_err(|_| "the convolution has other axes")?,
        };
        let pads: Vec<i64> = (0..4).map(|i| own[i] + of(2 + i / 2, i % 2)).collect();
        let mut attrs = attrs_of(&n);
        attrs.set("auto_pad", "NOTSET");
        attrs.set("pads", pads);
        let mut inputs = vec![m.value("x"), m.value("filter"), m.value("bias"), m.value("residual")];
        while inputs.pop_if(|v| v.is_absent()).is_some() {}
        Ok(vec![put(r, n.op(), &inputs, &attrs, out_desc(&n)?)?.into()])
    }
}
