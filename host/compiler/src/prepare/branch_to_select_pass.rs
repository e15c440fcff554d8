//! `BranchToSelectPass`: computes both of two small branches and selects the values of one. A
//! choice on the device costs a switch, a jump, three labels and a copy of each value in each
//! branch, and keeps the whole model on one stream.
//!
//! Before: `%y = If(%c, %x) {then_branch = @t, else_branch = @e}`   After: the nodes of `@t` and
//! `@e` over `%x`, `%y = SelectV2(%c, …)`
//! When: the root graph has an `If` over one bool; each branch has up to 8 nodes, both together
//! read and write at most 64 KiB, their shapes are known and equal, and all values are
//! floating-point or bool.
//! Refuses: what might fail or have an effect in a branch that is not taken: integers (indices,
//! divisors), constant indices that may be beyond an axis, operators whose prototype says that they
//! may fail, effects, randomness, communication; subgraphs; control edges; nodes that are bound to
//! an engine, stream, group or stage.
//! Keeps: names of the branches' nodes; the first value has the name of the `If`. Each selection
//! records which nodes came from which branch (`ge_model::choice`).
//! Source: ours. Cost: the nodes of the branches.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::inline::copy;
use crate::pass::subgraph::may_fail;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{AttrValue, DType, Graph, Node, TensorDesc, ValueRef};
use ge_model::choice;
use ge_plugin_api::fusion::CONSISTENT;
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::AttrMap;

node_pass!(
    BranchToSelectPass,
    O3,
    ["If", "StatelessIf"],
    "`If(c, x) {then, else}` of small branches -> both, and `SelectV2(c, then, else)`",
    needs "one bool, real numbers, known and equal shapes, indices that fit, at most 8 nodes a branch and 64 KiB",
    keeps "names of the branches' nodes",
    visit,
);

/// Maximum number of nodes of a branch, not counting constants.
const NODES: usize = 8;
/// Maximum number of bytes that both branches together read and write.
const BYTES: u64 = 64 << 10;
const ACTS: u64 =
    flags::RANDOM | flags::STATEFUL | flags::REFERENCE | flags::COMMUNICATION | flags::DATA_DEPENDENT_SHAPE;

fn named<'m>(at: &At<'m>, key: &str) -> Option<&'m Graph> {
    match at.n.attr(key)? {
        AttrValue::Graph(g) => at.model.graph(g),
        _ => None,
    }
}

fn plain(d: &TensorDesc) -> bool {
    (d.dtype.is_float() || d.dtype == DType::BOOL) && d.shape.is_static()
}

/// The reason why a node must not run when its branch is not taken; `None` if there is none.
fn obstacle(cx: &PassContext<'_>, g: &Graph, n: &Node) -> Option<&'static str> {
    let bound = |n: &Node| CONSISTENT.iter().any(|k| n.attr(*k).is_some());
    if bound(n) {
        return Some("is bound to an engine, a stream or a stage");
    }
    if cx.op_flags(n) & ACTS != 0 || !n.subgraphs().is_empty() || n.op() == "Variable" {
        return Some("acts beyond its outputs");
    }
    if !n.controls().is_empty() || !n.control_users().is_empty() {
        return Some("has control edges");
    }
    if n.is_const() {
        return None;
    }
    let given = |i: usize| {
        n.input(i).is_none_or(|v| v.is_absent() || g.constant(v).is_some()) || g.input_desc(n, i).is_some_and(plain)
    };
    if !n.outputs().iter().all(plain) || !(0..n.inputs().len()).all(given) {
        return Some("is not of real numbers of known shape");
    }
    if may_fail(cx, g, n) {
        return Some("may fail by the values of its inputs");
    }
    None
}

/// Number of bytes that a branch reads and writes.
///
/// # Errors
/// Returns the reason why the branch must not run when it is not taken.
fn weigh(cx: &PassContext<'_>, g: &Graph) -> Result<u64, String> {
    let inner = || g.nodes().filter(|n| !matches!(n.op(), "Data" | "NetOutput"));
    if inner().filter(|n| !n.is_const()).count() > NODES {
        return Err(format!("@{} has more than {NODES} nodes", g.name()));
    }
    let mut bytes = 0u64;
    for n in inner() {
        if let Some(why) = obstacle(cx, g, n) {
            return Err(format!("`{}` {why}", n.name()));
        }
        if !n.is_const() {
            let read = (0..n.inputs().len()).filter_map(|i| g.input_desc(n, i));
            bytes = read.chain(n.outputs()).filter_map(TensorDesc::data_bytes).fold(bytes, u64::saturating_add);
        }
    }
    Ok(bytes)
}

fn check(cx: &PassContext<'_>, at: &At<'_>, branches: [&Graph; 2]) -> Result<(), String> {
    let n = at.n;
    if at.gi != 0 {
        return Err("it stands in a graph that is called, which has labels all the same".into());
    }
    if !n.controls().is_empty() || !n.control_users().is_empty() || CONSISTENT.iter().any(|k| n.attr(*k).is_some()) {
        return Err("it has control edges, or is bound to an engine, a stream or a stage".into());
    }
    if at.input_desc(0).is_none_or(|d| d.dtype != DType::BOOL || d.shape.count() != Some(1)) {
        return Err("its condition is not one bool".into());
    }
    let mut bytes = 0u64;
    for g in branches {
        bytes = bytes.saturating_add(weigh(cx, g)?);
        let out = g.net_output().ok_or("a branch has no outputs")?;
        if out.inputs().len() != n.outputs().len() || !out.controls().is_empty() {
            return Err(format!("@{} gives other outputs", g.name()));
        }
        for (k, own) in n.outputs().iter().enumerate() {
            // A condition of one element must not add an axis.
            let fits = |d: &TensorDesc| d.dtype == own.dtype && d.shape == own.shape && d.format == own.format;
            let rank = at.input_desc(0).and_then(|c| c.shape.rank()) <= own.shape.rank();
            if !plain(own) || !rank || !g.input_desc(out, k).is_some_and(fits) {
                return Err(format!("output {k} is not real numbers of one known shape in both branches"));
            }
        }
    }
    if bytes > BYTES {
        return Err(format!("its branches touch {bytes} bytes, more than {BYTES}"));
    }
    Ok(())
}

/// Names of the nodes of a branch that compute something.
fn computing(g: &Graph) -> Vec<String> {
    let inner = g.nodes().filter(|n| !matches!(n.op(), "Data" | "NetOutput") && !n.is_const());
    inner.map(|n| n.name().to_owned()).collect()
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let (Some(then), Some(other)) = (named(at, "then_branch"), named(at, "else_branch")) else { return Ok(()) };
    let args = n.inputs().get(1..).unwrap_or(&[]);
    let takes = |g: &Graph| {
        g.data_nodes().into_iter().all(|d| {
            let k = d.attrs().int("index").and_then(|i| usize::try_from(i).ok());
            d.controls().is_empty()
                && d.control_users().is_empty()
                && k.and_then(|k| args.get(k)).is_some_and(|v| !v.is_absent())
        })
    };
    let fits =
        check(cx, at, [then, other]).and_then(|()| match takes(then) && takes(other) && then.name() != other.name() {
            true => Ok(()),
            false => Err("an input of a branch is not given".into()),
        });
    if let Err(why) = fits {
        cx.refuse(n.name(), why);
        return Ok(());
    }
    let mut sides: Vec<Vec<ValueRef>> = Vec::new();
    for g in [then, other] {
        let Some(out) = g.net_output() else { return Ok(()) };
        match copy(r, g, args, None) {
            Ok(values) => {
                sides.push(out.inputs().iter().map(|v| values.get(v).copied().unwrap_or(ValueRef::ABSENT)).collect())
            }
            // This was checked above. A pass that fails records nothing.
            Err(why) => return Err(crate::error::CompileError::internal("prepare", why)),
        }
    }
    let cond = n.inputs()[0];
    let mut attrs = AttrMap::default();
    attrs.set(choice::IF_TRUE, computing(then));
    attrs.set(choice::IF_FALSE, computing(other));
    r.patch.push(ge_plugin_api::patch::Edit::SetName(n.id(), format!("{}__if", n.name()).into()));
    for (k, d) in n.outputs().iter().enumerate() {
        let (a, b) = (sides[0][k], sides[1][k]);
        let value = match a == b {
            true => a,
            false => {
                let name = if k == 0 { n.name().to_owned() } else { format!("{}_{k}", n.name()) };
                let select = r.patch.add("SelectV2", &name, &[cond, a, b], vec![d.clone()], attrs.clone());
                ValueRef::new(select, 0)
            }
        };
        r.patch.replace_uses(n.value(k as u32), value);
    }
    r.patch.remove(n.id());
    r.count();
    Ok(())
}
