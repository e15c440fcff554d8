//! `Dim1TransposeToSqueezePass`: replaces a transpose that moves only axes of size 1 by a squeeze
//! and an unsqueeze, which move no data.
//!
//! Before: `%y = TransposeD(%x : f32[1,5,3]) {perm = [1, 0, 2]} : f32[5,1,3]`
//! After: `%s = Squeeze(%x) {axis = [0]} : f32[5,3]  %y = Unsqueeze(%s) {axes = [1]} : f32[5,1,3]`
//! When: the permutation and all sizes are known, and axes of other sizes keep their order.
//! Refuses: an axis of another size that moves past one of another size; run-time formats; control
//! inputs.
//! Keeps: the transpose's name on the node that gives its output; graph outputs.
//! Source: 003 §2.2, facts 4.4 (1_2, 17). Cost: each node once.
use super::permute_pass::permutation;
use crate::error::Result;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Graph, Key, Model, Node, Shape, TensorDesc};
use ge_plugin_api::abi::RVec;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{Attr, AttrMap, AttrValue};

/// See the module documentation.
pub struct Dim1TransposeToSqueezePass;

struct Match {
    squeezed: Vec<i64>,
    middle: TensorDesc,
    unsqueezed: Vec<i64>,
}

fn matches(g: &Graph, n: &Node) -> Result<Match, &'static str> {
    let p = permutation(g, n).ok_or("its permutation is computed")?;
    let x = g.input_desc(n, 0).ok_or("it has no input")?;
    let own = n.outputs().first().ok_or("it has no output")?;
    let sizes = x.shape.sizes().ok_or("a size is not known")?;
    if x.origin_format() != x.format || own.origin_format() != own.format {
        return Err("it works on a run-time format");
    }
    if !n.controls().is_empty() {
        return Err("it waits for others by control edges");
    }
    let kept: Vec<usize> = p.iter().copied().filter(|a| sizes[*a] != 1).collect();
    if kept.windows(2).any(|w| w[0] > w[1]) {
        return Err("it moves an axis longer than 1 past another");
    }
    if kept.len() == sizes.len() {
        return Err("it moves no axis");
    }
    let squeezed = (0..sizes.len()).filter(|a| sizes[*a] == 1).map(|a| a as i64).collect();
    let unsqueezed = p.iter().enumerate().filter(|(_, a)| sizes[**a] == 1).map(|(i, _)| i as i64).collect();
    let rest: Vec<u64> = sizes.iter().copied().filter(|s| *s != 1).collect();
    Ok(Match { squeezed, middle: TensorDesc::new(x.dtype, Shape::of(&rest)), unsqueezed })
}

impl NodePass for Dim1TransposeToSqueezePass {
    fn name(&self) -> &'static str {
        "Dim1TransposeToSqueezePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O2
    }
    fn effect(&self) -> &'static str {
        "`Transpose` that moves only axes of size 1 -> `Unsqueeze(Squeeze(x))`"
    }
    fn needs(&self) -> &'static str {
        "the permutation and all sizes are known, and axes of other sizes keep their order"
    }
    fn keeps(&self) -> &'static str {
        "the transpose's name on the node that gives its output; graph outputs"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["Transpose", "TransposeD"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        let g = &model.graphs()[gi];
        let Some(x) = n.input(0) else { return Ok(()) };
        match matches(g, n) {
            Ok(m) => {
                let mut attrs = AttrMap::default();
                attrs.set("axis", m.squeezed);
                let name = format!("{}_squeeze", n.name());
                let s = r.patch.add("Squeeze", &name, &[x], vec![m.middle], attrs);
                r.patch.push(Edit::SetOp(n.id(), Key::new("Unsqueeze")));
                r.patch.push(Edit::SetInputs(n.id(), RVec::from(vec![ge_ir::ValueRef::new(s, 0)])));
                r.patch.push(Edit::RemoveAttr(n.id(), Key::new("perm")));
                let axes = Attr { key: Key::new("axes"), value: AttrValue::from(m.unsqueezed) };
                r.patch.push(Edit::SetAttr(n.id(), axes));
                r.count();
            }
            Err(why) => cx.refuse(n.name(), why),
        }
        Ok(())
    }
}
