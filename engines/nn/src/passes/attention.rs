//! `AttentionFusionPass`: product, factor, mask, softmax and product become `PromptFlashAttention`
//! in layout BNSD. `AttentionLayoutFusionPass`: reshapes and transposes around it are replaced by
//! its layout BSH.
use super::norm::{factor, last_axis};
use super::{info, matmul::swaps_last, no_growing_state, out_desc, put};
use ge_plugin_api::fusion::{Expr, Match, Pattern, PatternBuilder, PatternFusion, Replacement, Verdict};
use ge_plugin_api::pass::PassInfo;
use ge_plugin_api::types::{AttrMap, Dim, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// The four sizes of a tensor with four axes.
fn four(g: &Graph<'_>, v: ValueRef) -> Option<[Dim; 4]> {
    g.desc(v)?.shape.dims().try_into().ok()
}
fn known(d: Dim) -> Option<i64> {
    i64::try_from(d.size()?).ok()
}
fn plain(n: &Node<'_>) -> bool {
    !n.flag("adj_x1") && !n.flag("adj_x2")
}

/// The pass for the attention itself.
pub struct AttentionFusion;

/// Whether the mask is the same for all batch entries and heads, or has one entry for each of them;
/// only then can an attention read keys and values that grow in place head by head.
fn each_reads_all(g: &Graph<'_>, m: &Match<'_>) -> bool {
    let mask = m.value("mask");
    let Some(dims) = g.desc(mask).map(|d| d.shape.dims()).filter(|_| !mask.is_absent()) else {
        return mask.is_absent();
    };
    let lead = dims.len().checked_sub(2).map_or(&[][..], |n| &dims[..n]);
    let one = |d: &Dim| d.size() == Some(1);
    let own = four(g, m.value("q")).is_some_and(|q| lead.len() == 2 && lead.iter().zip(&q).all(|(a, b)| a.same(*b)));
    dims.len() >= 2 && (lead.iter().all(one) || own)
}

impl PatternFusion for AttentionFusion {
    fn info(&self) -> PassInfo {
        info("AttentionFusionPass", "makes one attention of product, factor, mask, softmax and product by heads")
    }
    fn patterns(&self) -> Vec<Pattern> {
        let of = |form: usize| {
            Pattern::new(move |p| {
                let (q, k, c) = (p.input("q"), p.input("k"), p.constant_if("factor", |c| c.count() == Some(1)));
                let scores = if form.is_multiple_of(2) {
                    p.op("BatchMatMulV2", [q, p.op("TransposeD", [k]).when(swaps_last)]).when(plain)
                } else {
                    p.op("BatchMatMulV2", [q, k]).when(|n| !n.flag("adj_x1") && n.flag("adj_x2"))
                };
                let scaled = match form / 2 % 3 {
                    0 => scores * c,
                    1 => scores / c.named("divisor"),
                    _ => scores,
                };
                let all = if form < 6 { scaled + p.input("mask") } else { scaled };
                let weights = p.op("SoftmaxV2", [all]).when(last_axis);
                p.op("BatchMatMulV2", [weights, p.input("v")]).when(plain)
            })
        };
        (0..12).map(of).collect()
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let g = m.graph();
        if !each_reads_all(&g, m) {
            no_growing_state(&g, &[m.value("k"), m.value("v")])?;
        }
        let heads = |name: &str| {
            let sizes = four(&g, m.value(name)).ok_or_else(|| format!("{name} has no four axes"))?;
            known(sizes[1]).ok_or_else(|| format!("the number of heads of {name} is open"))
        };
        let mut attrs = AttrMap::default();
        attrs.set("num_heads", heads("q")?);
        attrs.set("num_key_value_heads", heads("k")?);
        attrs.set("input_layout", "BNSD");
        attrs.set("scale_value", factor(m)?);
        // No key is masked by its distance.
        attrs.set("next_tokens", 214_748_647i64);
        let inputs = [m.value("q"), m.value("k"), m.value("v"), m.value("mask")];
        Ok(vec![put(r, "PromptFlashAttention", &inputs, &attrs, out_desc(&m.root())?)?.into()])
    }
}

/// The pass for the layout around an attention.
pub struct AttentionLayout;

fn heads_second(n: &Node<'_>) -> bool {
    n.ints("perm") == Some(&[0, 2, 1, 3])
}
/// Whether an attention reads no lengths, for which the pattern has no input.
fn reads_heads_alone(n: &Node<'_>) -> bool {
    n.inputs().iter().skip(4).all(|v| v.is_absent())
}
/// A `[B, S, N * D]` tensor reshaped and transposed into heads.
fn by_heads<'p>(p: &'p PatternBuilder, name: &str) -> Expr<'p> {
    let split = p.op("Reshape", [p.input(name), p.maybe(&format!("{name}_shape"))]);
    p.op("TransposeD", [split]).when(heads_second)
}

impl PatternFusion for AttentionLayout {
    fn info(&self) -> PassInfo {
        info("AttentionLayoutFusionPass", "takes the reshapes and transposes around an attention into its layout")
    }
    fn patterns(&self) -> Vec<Pattern> {
        vec![Pattern::new(|p| {
            let inputs = [by_heads(p, "q"), by_heads(p, "k"), by_heads(p, "v"), p.maybe("mask")];
            let core =
                p.op("PromptFlashAttention", inputs).attr("input_layout", "BNSD").when(reads_heads_alone).named("core");
            p.op("Reshape", [p.op("TransposeD", [core]).when(heads_second), p.maybe("shape")])
        })]
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let (g, core) = (m.graph(), m.node("core"));
        let merged = |v: ValueRef, heads: ValueRef| -> bool {
            let (Some(&[b, s, all]), Some(h)) = (g.desc(v).map(|d| d.shape.dims()), four(&g, heads)) else {
                return false;
            };
            let row = known(h[1]).zip(known(h[3])).and_then(|(n, d)| n.checked_mul(d));
            b.same(h[0]) && s.same(h[2]) && row.is_some() && known(all) == row
        };
        let out = out_desc(&m.root())?;
        let fits = ["q", "k", "v"].iter().enumerate().all(|(i, n)| merged(m.value(n), core.inputs()[i]));
        if !fits || !merged(m.root().value(0), core.value(0)) {
            return Err("what is reshaped is not [batch, positions, heads * size]".into());
        }
        let mut attrs = super::attrs_of(&core);
        attrs.set("input_layout", "BSH");
        let inputs = [m.value("q"), m.value("k"), m.value("v"), m.value("mask")];
        Ok(vec![put(r, "PromptFlashAttention", &inputs, &attrs, out)?.into()])
    }
}
