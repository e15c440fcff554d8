//! Programs of a few whole numbers: the condition of a loop, the positions of a slice. Evaluating
//! one takes some tens of nanoseconds, a launch a microsecond.
//!
//! A program covers only what is exact in 64 bits and means the same everywhere: numbers and lists
//! of up to [`MOST`] integers or truth values, without overflow. Where a run leaves these limits
//! there is no result, and the caller takes the ordinary way.
use super::graph::{Graph, Kind, Node};
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::{DType, TensorDesc};
use smallvec::SmallVec;

/// Maximum number of elements of a value.
const MOST: usize = 16;
/// Maximum number of steps of a program.
const STEPS: usize = 32;

/// A number, or a list of numbers.
pub(crate) type List = SmallVec<[i64; 4]>;

/// Computes one value of a graph from the graph's parameters.
pub(crate) struct Program {
    steps: Vec<Step>,
}

/// For each graph that is the condition of a `While`, the program that tells it, if one can.
pub(crate) fn conditions(graphs: &[Graph]) -> Vec<Option<Program>> {
    let mut out: Vec<Option<Program>> = graphs.iter().map(|_| None).collect();
    for n in graphs.iter().flat_map(|g| &g.nodes).filter(|n| n.kind == Kind::While) {
        if let Some(cond) = n.graphs.first() {
            out[*cond] = Program::condition(&graphs[*cond]);
        }
    }
    out
}

/// A step makes one value; the last step makes the result.
enum Step {
    /// The parameter with this index.
    Param(usize),
    Constant(List),
    /// Applies an operator to the values of earlier steps. The result must fit the type.
    Apply(Act, SmallVec<[usize; 3]>, DType),
}

/// What an operator does with its elements.
#[derive(Clone, Copy)]
enum Act {
    Same,
    Unary(fn(i64) -> Option<i64>),
    /// One of the two operands may have one element where the other has several.
    Binary(fn(i64, i64) -> Option<i64>),
    /// Picks by position, from the front or the back.
    Pick,
    /// Puts lists behind each other.
    Join,
}

/// The elements of a parameter, if they are few whole numbers.
fn list(t: &TensorView<'_>) -> Option<List> {
    let count = t.dims.iter().try_fold(1u64, |a, d| a.checked_mul(*d))?;
    if count > MOST as u64 || (t.dims.len() > 1 && count != 1) {
        return None;
    }
    numbers(t.dtype, t.bytes)
}

fn numbers(dtype: DType, bytes: &[u8]) -> Option<List> {
    match dtype {
        DType::I64 => Some(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()),
        DType::I32 => Some(bytes.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect()),
        DType::BOOL => Some(bytes.iter().map(|b| i64::from(*b != 0)).collect()),
        _ => None,
    }
}

fn is_whole(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::I32 | DType::BOOL)
}

/// Whether a program may hold a value of this type and shape.
fn is_small(d: &TensorDesc) -> bool {
    is_whole(d.dtype) && (d.shape.rank().is_some_and(|r| r <= 1) || d.shape.count() == Some(1))
}

fn fits(v: i64, dtype: DType) -> bool {
    match dtype {
        DType::I32 => i32::try_from(v).is_ok(),
        DType::BOOL => v == 0 || v == 1,
        _ => true,
    }
}

/// What a node does and how many of its inputs count, if a program can do it.
fn act(graph: &Graph, n: &Node) -> Option<(Act, usize)> {
    let reads = |k: usize| n.inputs.get(k).copied().flatten().and_then(|v| graph.stated(v));
    let numbers = || n.inputs.iter().flatten().all(|v| graph.stated(*v).is_some_and(|d| d.shape.rank() == Some(0)));
    Some(match n.op.as_str() {
        "Cast" if n.descs.first()?.dtype == DType::BOOL => (Act::Unary(|a| Some(i64::from(a != 0))), 1),
        "Cast" => (Act::Same, 1),
        "Neg" => (Act::Unary(i64::checked_neg), 1),
        "LogicalNot" => (Act::Unary(|a| Some(i64::from(a == 0))), 1),
        "Add" => (Act::Binary(i64::checked_add), 2),
        "Sub" => (Act::Binary(i64::checked_sub), 2),
        "Mul" => (Act::Binary(i64::checked_mul), 2),
        "Minimum" => (Act::Binary(|a, b| Some(a.min(b))), 2),
        "Maximum" => (Act::Binary(|a, b| Some(a.max(b))), 2),
        "Less" => (Act::Binary(|a, b| Some(i64::from(a < b))), 2),
        "LessEqual" => (Act::Binary(|a, b| Some(i64::from(a <= b))), 2),
        "Greater" => (Act::Binary(|a, b| Some(i64::from(a > b))), 2),
        "GreaterEqual" => (Act::Binary(|a, b| Some(i64::from(a >= b))), 2),
        "Equal" => (Act::Binary(|a, b| Some(i64::from(a == b))), 2),
        "NotEqual" => (Act::Binary(|a, b| Some(i64::from(a != b))), 2),
        "LogicalAnd" => (Act::Binary(|a, b| Some(a & b)), 2),
        "LogicalOr" => (Act::Binary(|a, b| Some(a | b)), 2),
        // Along the only axis that there is.
        "Gather" | "GatherV2" if reads(0)?.shape.rank() == Some(1) => (Act::Pick, 2),
        "ConcatD" | "ConcatV2D" => (Act::Join, n.inputs.len()),
        "Pack" if numbers() => (Act::Join, n.inputs.len()),
        _ if n.flags & flags::VIEW != 0 && reads(0)?.dtype == n.descs.first()?.dtype => (Act::Same, 1),
        _ => return None,
    })
}

impl Program {
    /// The program that computes a value; `None` if it needs more than programs do.
    pub(crate) fn of(graph: &Graph, value: u32) -> Option<Program> {
        let mut w = Writing { graph, of: Vec::new(), out: Program { steps: Vec::new() } };
        w.value(value, 0)?;
        Some(w.out)
    }

    /// The program of a loop's condition, if it does the whole work of the condition's graph.
    pub(crate) fn condition(graph: &Graph) -> Option<Program> {
        let &[truth] = graph.outputs.as_slice() else { return None };
        let program = Program::of(graph, truth).filter(|_| graph.variables.is_empty() && graph.keeps.is_empty())?;
        let operator = |n: &&Node| !matches!(n.kind, Kind::Data | Kind::Constant | Kind::Output);
        // Each node that it does the work of is one step.
        let applied = program.steps.iter().filter(|s| matches!(s, Step::Apply(..))).count();
        (graph.nodes.iter().filter(operator).count() == applied).then_some(program)
    }

    /// The indices of the parameters that it reads.
    pub(crate) fn params(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|s| if let Step::Param(k) = s { Some(*k) } else { None })
    }

    /// The result for these parameters. `None` if a parameter is missing or large, or if a number
    /// leaves its type.
    pub(crate) fn run<'p>(&self, param: impl Fn(usize) -> Option<TensorView<'p>>) -> Option<List> {
        let mut made: SmallVec<[List; 8]> = SmallVec::with_capacity(self.steps.len());
        for step in &self.steps {
            let value = match step {
                Step::Param(k) => list(&param(*k)?)?,
                Step::Constant(list) => list.clone(),
                Step::Apply(act, args, dtype) => {
                    let value = apply(*act, args, &made)?;
                    if value.len() > MOST || !value.iter().all(|v| fits(*v, *dtype)) {
                        return None;
                    }
                    value
                }
            };
            made.push(value);
        }
        made.pop()
    }
}

fn apply(act: Act, args: &[usize], made: &[List]) -> Option<List> {
    let arg = |k: usize| args.get(k).and_then(|a| made.get(*a));
    match act {
        Act::Same => arg(0).cloned(),
        Act::Unary(f) => arg(0)?.iter().map(|a| f(*a)).collect(),
        Act::Binary(f) => match (&arg(0)?[..], &arg(1)?[..]) {
            ([a], b) => b.iter().map(|b| f(*a, *b)).collect(),
            (a, [b]) => a.iter().map(|a| f(*a, *b)).collect(),
            (a, b) if a.len() == b.len() => a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect(),
            _ => None,
        },
        Act::Pick => {
            let (from, at) = (arg(0)?, arg(1)?);
            let place = |k: i64| usize::try_from(if k < 0 { k.checked_add(from.len() as i64)? } else { k }).ok();
            at.iter().map(|k| from.get(place(*k)?).copied()).collect()
        }
        Act::Join => {
            let all: Option<Vec<&List>> = (0..args.len()).map(arg).collect();
            Some(all?.into_iter().flatten().copied().collect())
        }
    }
}

/// A program under construction.
struct Writing<'g> {
    graph: &'g Graph,
    /// The step that makes a value.
    of: Vec<(u32, usize)>,
    out: Program,
}

impl Writing<'_> {
    /// The step that makes `v`, with the steps before it. `deep` nodes lie between it and the
    /// result.
    fn value(&mut self, v: u32, deep: usize) -> Option<usize> {
        if let Some(known) = self.of.iter().find(|k| k.0 == v) {
            return Some(known.1);
        }
        let graph = self.graph;
        let step = if let Some((t, _)) = &graph.constants[v as usize] {
            if !is_small(&t.desc()) || t.dims.iter().product::<u64>() > MOST as u64 {
                return None;
            }
            Step::Constant(numbers(t.dtype, &t.bytes()?)?)
        } else if let Some(k) = graph.inputs.iter().position(|i| *i == Some(v)) {
            if !is_whole(graph.stated(v)?.dtype) {
                return None;
            }
            Step::Param(k)
        } else {
            let n = graph.producer(v)?;
            let d = n.descs.first()?;
            let plain = n.kind == Kind::Operator && n.outputs[..] == [v] && n.controls.is_empty();
            if !plain || !is_small(d) || deep >= STEPS {
                return None;
            }
            let (act, count) = act(graph, n)?;
            let args = n.inputs.get(..count)?.iter().map(|i| self.value((*i)?, deep + 1)).collect::<Option<_>>()?;
            Step::Apply(act, args, d.dtype)
        };
        if self.out.steps.len() >= STEPS {
            return None;
        }
        self.out.steps.push(step);
        self.of.push((v, self.out.steps.len() - 1));
        Some(self.out.steps.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(steps: Vec<Step>) -> Program {
        Program { steps }
    }
    fn apply_to(act: Act, args: &[usize], dtype: DType) -> Step {
        Step::Apply(act, args.iter().copied().collect(), dtype)
    }
    fn listed(all: &[i64]) -> List {
        all.iter().copied().collect()
    }

    #[test]
    fn numbers_that_leave_their_type_have_no_result() {
        let add = |dtype| {
            program(vec![Step::Param(0), Step::Param(1), apply_to(Act::Binary(i64::checked_add), &[0, 1], dtype)])
        };
        let run = |dtype, a: i64, b: i64| {
            let bytes = [a.to_le_bytes(), b.to_le_bytes()];
            add(dtype).run(|k| Some(TensorView { dtype: DType::I64, dims: &[], bytes: &bytes[k] }))
        };
        assert_eq!(run(DType::I64, 40, 2), Some(listed(&[42])));
        assert_eq!(run(DType::I64, i64::MAX, 1), None);
        assert_eq!(run(DType::I32, i64::from(i32::MAX), 1), None);
        assert_eq!(run(DType::I32, i64::from(i32::MAX), 0), Some(listed(&[i64::from(i32::MAX)])));
    }

    #[test]
    fn only_numbers_and_short_lists_are_read() {
        let bytes = [0u8; 8 * 32];
        let read = |dtype, dims: &[u64]| {
            let count: u64 = dims.iter().product();
            let size = if dtype == DType::BOOL { 1 } else { 8 };
            program(vec![Step::Param(0)])
                .run(|_| Some(TensorView { dtype, dims, bytes: &bytes[..(count * size) as usize] }))
        };
        assert_eq!(read(DType::I64, &[]), Some(listed(&[0])));
        assert_eq!(read(DType::I64, &[1, 1]), Some(listed(&[0])));
        assert_eq!(read(DType::BOOL, &[3]), Some(listed(&[0, 0, 0])));
        assert_eq!(read(DType::I64, &[0]), Some(listed(&[])));
        assert_eq!(read(DType::I64, &[2, 2]), None);
        assert_eq!(read(DType::I64, &[17]), None);
        assert_eq!(read(DType::F64, &[]), None);
        assert_eq!(program(vec![Step::Param(0)]).run(|_| None), None);
    }

    #[test]
    fn operators_follow_their_rules() {
        let two = |act, a: &[i64], b: &[i64]| apply(act, &[0, 1], &[listed(a), listed(b)]);
        let sub = Act::Binary(i64::checked_sub);
        assert_eq!(two(sub, &[5], &[1, 2]), Some(listed(&[4, 3])));
        assert_eq!(two(sub, &[5, 6], &[1]), Some(listed(&[4, 5])));
        assert_eq!(two(sub, &[5, 6], &[1, 2]), Some(listed(&[4, 4])));
        assert_eq!(two(sub, &[5, 6], &[1, 2, 3]), None);
        assert_eq!(two(sub, &[], &[1]), Some(listed(&[])));
        assert_eq!(two(Act::Pick, &[7, 8, 9], &[-1, 0]), Some(listed(&[9, 7])));
        assert_eq!(two(Act::Pick, &[7, 8, 9], &[3]), None);
        assert_eq!(two(Act::Pick, &[7, 8, 9], &[-4]), None);
        assert_eq!(two(Act::Join, &[7], &[8, 9]), Some(listed(&[7, 8, 9])));
        assert_eq!(apply(Act::Unary(i64::checked_neg), &[0], &[listed(&[i64::MIN])]), None);
    }
}
