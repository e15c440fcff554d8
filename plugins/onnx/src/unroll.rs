//! Unrolls bodies of loops and scans turn by turn.
use crate::control::{Captured, body, capture, scalar};
use crate::free;
use crate::import::{Building, Env, Importer, is_standard};
use crate::loops::declared_rank;
use crate::proto::{GraphProto, NodeProto};
use crate::random::Turns;
use crate::scope::Known;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::{ConstTensor, DType, Shape, TensorDesc, ValueRef};
use std::cell::Cell;
use std::rc::Rc;

/// Maximum number of nodes that all loops of a model together are unrolled to.
const UNROLL: usize = 10_000;

/// The number of nodes that loops may still be unrolled to. Each turn of an unrolled loop has an
/// equal share of what its loop has left, so that loops inside it are unrolled in all turns or in
/// none.
#[derive(Clone)]
pub struct Budget(Rc<Cell<usize>>);

impl Budget {
    /// The budget of a model.
    pub fn of_model() -> Budget {
        Budget::of(UNROLL)
    }
    fn of(nodes: usize) -> Budget {
        Budget(Rc::new(Cell::new(nodes)))
    }
    fn spend(&self, nodes: usize) {
        self.0.set(self.0.get().saturating_sub(nodes));
    }
    /// Takes what `count` turns of a body need. Returns the share of each turn for the loops in it,
    /// or `None` if there is no turn or not enough left.
    pub fn take(&self, im: &Importer<'_>, sub: &GraphProto, count: usize) -> Option<usize> {
        let each = self.0.get().checked_div(count)?;
        // A turn without nodes counts like one node.
        let share = left_after(im, &sub.node, each, 0)?.min(each.checked_sub(1)?);
        self.spend(count * (each - share));
        Some(share)
    }
    /// Makes a turn that has a budget of `share` nodes.
    pub fn turn<R>(&self, share: usize, make: impl FnOnce(Budget) -> R) -> R {
        let own = Budget::of(share);
        let made = make(own.clone());
        self.spend(share - own.0.get());
        made
    }
}

/// Maximum depth of functions and subgraphs whose nodes are counted.
const DEEPEST: usize = 64;

/// What is left of a number of nodes after these nodes, with those of their subgraphs and of the
/// functions that they call; `None` if they are more.
fn left_after(im: &Importer<'_>, nodes: &[NodeProto], left: usize, depth: usize) -> Option<usize> {
    if depth > DEEPEST {
        return None;
    }
    nodes.iter().try_fold(left, |left, n| {
        let mut inside = free::subgraphs(n).map(|g| &g.node).chain(im.function(n).map(|f| &f.node));
        inside.try_fold(left.checked_sub(1)?, |left, nodes| left_after(im, nodes, left, depth + 1))
    })
}

/// Whether the body passes its condition on unchanged, or returns true.
fn stays_true(sub: &GraphProto) -> bool {
    let (Some(i), Some(o)) = (sub.input.get(1), sub.output.first()) else { return false };
    if i.name == o.name {
        return true;
    }
    let truth = |t: &crate::proto::TensorProto| {
        t.data_type == 9 && (t.raw_data.first() == Some(&1) || t.int32_data.first() == Some(&1))
    };
    if sub.initializer.iter().any(|t| t.name == o.name && truth(t)) {
        return true;
    }
    match sub.node.iter().find(|n| n.output.first() == Some(&o.name)) {
        Some(n) if is_standard(n, "Identity") => n.input.first() == Some(&i.name),
        Some(n) if is_standard(n, "Constant") => n.attribute.iter().any(|a| a.t.as_ref().is_some_and(truth)),
        _ => false,
    }
}

/// Unrolls one turn of a body into the graph around it; `given` are its inputs. Returns its
/// outputs.
pub fn turn(
    im: &mut Importer<'_>,
    sub: &GraphProto,
    given: Vec<Known>,
    captured: &Captured,
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let mut b = Building {
        builder: std::mem::replace(&mut g.builder, ge_plugin_api::frontend::GraphBuilder::new(None)),
        ..Building::new()
    };
    b.scope.extend(captured.inputs.iter().cloned());
    b.scope.extend(captured.constants.iter().cloned());
    b.scope.extend(sub.input.iter().map(|i| i.name.clone()).zip(given));
    let made = body(im, sub, &mut b, env).and_then(|()| {
        let outputs = sub.output.iter().map(|o| im.read_value(&mut b, &o.name));
        outputs.collect::<Result<Vec<Known>>>()
    });
    g.builder = b.builder;
    g.provenance.append(&b.provenance);
    made
}

/// The number of turns, if it is a constant and if no condition can end the loop early.
pub fn turns(sub: &GraphProto, bound: Option<&Known>, cond: Option<&Known>) -> Option<usize> {
    let number = |k: &Known| k.constant.as_ref()?.to_i64(1)?.first().copied();
    let count = usize::try_from(number(bound?)?).ok()?;
    let always = cond.is_none_or(|c| number(c) == Some(1)) && stays_true(sub);
    always.then_some(count)
}

/// Unrolls a loop of `count` turns, each with its share of the budget.
pub fn unroll(
    im: &mut Importer<'_>,
    name: &str,
    sub: &GraphProto,
    (count, share): (usize, usize),
    mut state: Vec<Known>,
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let carried = state.len();
    let captured = capture(im, g, &[sub])?;
    let mut scans: Vec<Vec<ValueRef>> = vec![Vec::new(); sub.output.len() - 1 - carried];
    let turns = Turns::of(im, &[&sub.node], env);
    let [turn_dims, go_dims] = [0, 1].map(|at| vec![1_u64; declared_rank(sub.input.get(at))]);
    for k in 0..count {
        let number = ConstTensor::of(&turn_dims, &[k as i64]);
        let iter = Known {
            value: scalar(g, im, &format!("{name}/{k}/iteration"), number.clone()),
            desc: TensorDesc::new(DType::I64, Shape::of(&turn_dims)).into(),
            constant: number,
        };
        let always = Known {
            value: ValueRef::ABSENT,
            desc: TensorDesc::new(DType::BOOL, Shape::of(&go_dims)).into(),
            constant: ConstTensor::of(&go_dims, &[true]),
        };
        let given: Vec<Known> = [iter, always].into_iter().chain(state.iter().cloned()).collect();
        let prefix = format!("{}{name}/{k}/", env.prefix);
        let number = turns.unrolled(im, g, k, &format!("{name}/{k}"));
        let made = env.unrolled.turn(share, |unrolled| {
            turn(im, sub, given, &captured, g, &Env { prefix, unrolled, turn: number, ..env.clone() })
        })?;
        let made = &made[1..];
        for (s, o) in scans.iter_mut().zip(&made[carried..]) {
            s.push(o.value);
        }
        state = made[..carried].to_vec();
    }
    let mut out = state;
    for (i, s) in scans.iter().enumerate() {
        let own = if carried + i == 0 { name.to_owned() } else { im.take_name(&format!("{name}/scan{i}")) };
        let v = g.builder.node("Pack").name(&own).inputs(s).attr("axis", 0i64).attr("N", s.len() as i64).build();
        out.push(Known::new(v, TensorDesc::unknown()));
    }
    Ok(out)
}
