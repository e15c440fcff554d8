//! `EinsumFusionPass`: an `Einsum` of two tensors becomes a matrix product, or an element-wise
//! product if nothing is summed. An `Einsum` of one tensor becomes a sum and a transpose.
//!
//! Before: `%y = Einsum(%a, %b) {equation = "bhid,bhjd->bhij"}`
//! After: `%y = BatchMatMulV2(%a, %b) {adj_x2}`, with transposes and reshapes if the letters are in
//! another order.
//! When: letters in both tensors and the result are batch axes, letters only in both tensors are
//! summed, letters in one tensor and the result are rows or columns. Several letters of one kind
//! are joined into one axis; their sizes must be known, unless they are rows of a single matrix. If
//! no letter is summed, axes of size one replace letters that a tensor lacks; behind its first
//! letter this needs known sizes. The axes that `...` stands for get letters of their own, and the
//! last axes get the same ones in every term.
//! Refuses: a letter that occurs twice in a term, summed letters that only one of two tensors has,
//! sizes of 1 that are broadcast, more than two tensors, integers.
//! Keeps: the node's name and value; the order of additions is that of the matrix product.
use crate::edit::{becomes, fresh_name, is_free};
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, AttrValue, DType, Dim, Key, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::BTreeSet;

/// The pass that this module describes.
pub struct EinsumFusion;

impl Pass for EinsumFusion {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "EinsumFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "makes matrix products of Einsum".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut names: Option<BTreeSet<&str>> = None;
        for n in graph.nodes_of(&["Einsum"]) {
            let Some(steps) = Steps::of(&n) else { continue };
            let names = names.get_or_insert_with(|| graph.nodes().map(|n| n.name()).collect());
            steps.write(patch, &n, names);
        }
        Ok(())
    }
}

/// An operator with its attributes and the sizes of its output.
struct Step {
    op: &'static str,
    attrs: Vec<(&'static str, AttrValue)>,
    dims: Vec<Dim>,
}

/// What an `Einsum` becomes: the steps of each tensor, and those of the result. The first of these
/// reads what the steps of the tensors return.
struct Steps {
    of: Vec<Vec<Step>>,
    result: Vec<Step>,
}

/// The letters of a term; `None` if one occurs twice or is not a letter.
fn letters(term: &str) -> Option<Vec<char>> {
    let all: Vec<char> = term.chars().collect();
    let once = all.iter().collect::<BTreeSet<_>>().len() == all.len();
    (once && all.iter().all(char::is_ascii_alphabetic)).then_some(all)
}

/// A tensor between steps: the letters of its axes, and their sizes.
struct Tensor {
    axes: Vec<char>,
    dims: Vec<Dim>,
    steps: Vec<Step>,
}

impl Tensor {
    fn of(n: &Node<'_>, i: usize, term: &str) -> Option<Tensor> {
        let d = n.input_desc(i).filter(|d| d.origin.is_none())?;
        let axes = letters(term)?;
        (d.shape.rank() == Some(axes.len())).then(|| Tensor { axes, dims: d.shape.dims().to_vec(), steps: Vec::new() })
    }

    fn dim(&self, letter: char) -> Option<Dim> {
        Some(self.dims[self.axes.iter().position(|l| *l == letter)?])
    }

    /// Transposes the axes into an order.
    fn turn(&mut self, order: &[char]) -> Option<()> {
        if self.axes == order {
            return Some(());
        }
        let perm: Vec<usize> =
            order.iter().map(|l| self.axes.iter().position(|a| a == l)).collect::<Option<Vec<_>>>()?;
        self.dims = perm.iter().map(|p| self.dims[*p]).collect();
        self.axes = order.to_vec();
        let perm: Vec<i64> = perm.iter().map(|p| *p as i64).collect();
        self.steps.push(Step { op: "TransposeD", attrs: vec![("perm", perm.into())], dims: self.dims.clone() });
        Some(())
    }

    /// Keeps the first axes and joins each of the two groups of axes behind them into one axis.
    fn join(&mut self, first: usize, groups: [usize; 2]) -> Option<()> {
        if groups == [1, 1] {
            return Some(());
        }
        let (mut dims, mut at) = (self.dims[..first].to_vec(), first);
        for len in groups {
            let size = self.dims[at..at + len].iter().try_fold(1u64, |n, d| n.checked_mul(d.size()?))?;
            dims.push(Dim::known(size));
            at += len;
        }
        self.reshape(dims)
    }

    fn reshape(&mut self, dims: Vec<Dim>) -> Option<()> {
        let sizes: Vec<i64> = dims.iter().map(|d| i64::try_from(d.size()?).ok()).collect::<Option<_>>()?;
        self.dims = dims.clone();
        self.steps.push(Step { op: "Reshape", attrs: vec![("shape", sizes.into())], dims });
        Some(())
    }
}

impl Steps {
    fn of(n: &Node<'_>) -> Option<Steps> {
        let equation: String = n.attr("equation")?.as_str()?.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match equation.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (equation.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        // How many axes the dots of each term stand for.
        let dots = |(i, term): (usize, &&str)| match term.contains("...") {
            false => Some(0),
            true => n.input_desc(i)?.shape.rank()?.checked_sub(term.chars().filter(|c| *c != '.').count()),
        };
        let dots = terms.iter().enumerate().map(dots).collect::<Option<Vec<usize>>>()?;
        let free: Vec<char> = ('a'..='z').chain('A'..='Z').filter(|l| !equation.contains(*l)).collect();
        let spelled = |term: &str, dots: usize| {
            let axes: String = free.get(..dots)?.iter().rev().collect();
            Some(term.replacen("...", &axes, 1))
        };
        let most = dots.iter().copied().max().unwrap_or(0);
        let terms = terms.iter().zip(&dots).map(|(t, d)| spelled(t, *d)).collect::<Option<Vec<String>>>()?;
        let y = n.outputs().first().filter(|d| d.origin.is_none() && d.shape.rank().is_some())?;
        let floats = matches!(y.dtype, DType::F32 | DType::F16 | DType::BF16);
        if !floats || !is_free(n) || n.inputs().len() != terms.len() {
            return None;
        }
        let out = match right {
            Some(right) => letters(&spelled(right, most)?)?,
            // Without an arrow: what the dots stand for, then the letters that occur once, in
            // alphabetical order.
            None => {
                let once = |l: &char| l.is_ascii_alphabetic() && left.matches(*l).count() == 1;
                let letters: BTreeSet<char> = left.chars().filter(once).collect();
                free.get(..most)?.iter().rev().copied().chain(letters).collect()
            }
        };
        match terms.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [x] => Steps::of_one(Tensor::of(n, 0, x)?, &out),
            [a, b] => Steps::of_two(Tensor::of(n, 0, a)?, Tensor::of(n, 1, b)?, &out),
            _ => None,
        }
    }

    /// A sum over the letters that the result lacks, and a transpose.
    fn of_one(mut x: Tensor, out: &[char]) -> Option<Steps> {
        if !out.iter().all(|l| x.axes.contains(l)) {
            return None;
        }
        let sum: Vec<i64> = (0i64..).zip(&x.axes).filter(|(_, l)| !out.contains(l)).map(|(i, _)| i).collect();
        if !sum.is_empty() {
            let kept: Vec<bool> = x.axes.iter().map(|l| out.contains(l)).collect();
            let mut at = kept.iter();
            x.dims.retain(|_| *at.next().unwrap_or(&true));
            x.axes.retain(|l| out.contains(l));
            let attrs = vec![("axes", sum.into()), ("keep_dims", false.into())];
            x.steps.push(Step { op: "ReduceSumD", attrs, dims: x.dims.clone() });
        }
        x.turn(out)?;
        (!x.steps.is_empty()).then(|| Steps { of: vec![Vec::new()], result: x.steps })
    }

    /// A matrix product.
    fn of_two(mut a: Tensor, mut b: Tensor, out: &[char]) -> Option<Steps> {
        let kind = |in_a: bool, in_b: bool, in_out: bool| -> Vec<char> {
            let is = |l: &char| (a.axes.contains(l), b.axes.contains(l), out.contains(l)) == (in_a, in_b, in_out);
            let from = if in_out { out } else { &a.axes };
            from.iter().copied().filter(is).collect()
        };
        let (batch, sum) = (kind(true, true, true), kind(true, true, false));
        let (rows, columns) = (kind(true, false, true), kind(false, true, true));
        let all = batch.len() + rows.len() + columns.len() == out.len()
            && batch.len() + rows.len() + sum.len() == a.axes.len()
            && batch.len() + columns.len() + sum.len() == b.axes.len();
        let equal = batch.iter().chain(&sum).all(|l| a.dim(*l) == b.dim(*l));
        if !all || !equal {
            return None;
        }
        if sum.is_empty() {
            return Steps::of_pairs(a, b, out);
        }
        let sizes = |t: &Tensor, of: &[char]| of.iter().map(|l| t.dim(*l)).collect::<Option<Vec<Dim>>>();
        let split = [sizes(&a, &batch)?, sizes(&a, &rows)?, sizes(&b, &columns)?].concat();
        // In either tensor the summed axis may be any of the last two axes.
        let swap_a = a.axes == [&batch[..], &sum, &rows].concat() && !rows.is_empty();
        let swap_b = b.axes == [&batch[..], &columns, &sum].concat() && !columns.is_empty();
        // All rows are multiplied by a single matrix, however many axes they have.
        let all_rows = batch.is_empty() && rows.len() > 1 && sum.len() == 1 && !swap_a;
        if swap_a {
            a.join(batch.len(), [sum.len(), rows.len()])?;
        } else {
            a.turn(&[&batch[..], &rows, &sum].concat())?;
            if !all_rows {
                a.join(batch.len(), [rows.len(), sum.len()])?;
            }
        }
        if swap_b {
            b.join(batch.len(), [columns.len(), sum.len()])?;
        } else {
            b.turn(&[&batch[..], &sum, &columns].concat())?;
            b.join(batch.len(), [sum.len(), columns.len()])?;
        }
        let rows_of_a =
            if swap_a { vec![a.dims[batch.len() + 1]] } else { a.dims[batch.len()..a.dims.len() - 1].to_vec() };
        let dims = [&a.dims[..batch.len()], &rows_of_a, &[b.dims[batch.len() + usize::from(!swap_b)]]].concat();
        let attrs = vec![("adj_x1", swap_a.into()), ("adj_x2", swap_b.into())];
        let product = Step { op: "BatchMatMulV2", attrs, dims: dims.clone() };
        let mut y = Tensor { axes: [&batch[..], &rows, &columns].concat(), dims, steps: vec![product] };
        if columns.len() != 1 || (rows.len() != 1 && !all_rows) {
            y.reshape(split)?;
        }
        y.turn(out)?;
        Some(Steps { of: vec![a.steps, b.steps], result: y.steps })
    }

    /// An element-wise product. Both tensors get their axes in the order of the result, with axes
    /// of size one for the letters that they lack.
    fn of_pairs(mut a: Tensor, mut b: Tensor, out: &[char]) -> Option<Steps> {
        let dims = out.iter().map(|l| a.dim(*l).or(b.dim(*l))).collect::<Option<Vec<Dim>>>()?;
        for t in [&mut a, &mut b] {
            let own: Vec<char> = out.iter().copied().filter(|l| t.axes.contains(l)).collect();
            t.turn(&own)?;
            // Leading axes that a tensor lacks need no axis of size one.
            let from = out.iter().position(|l| own.contains(l)).unwrap_or(out.len());
            let placed: Vec<Dim> = out[from..].iter().map(|l| t.dim(*l).unwrap_or(Dim::known(1))).collect();
            if placed.len() != own.len() {
                t.reshape(placed)?;
            }
        }
        let product = Step { op: "Mul", attrs: Vec::new(), dims };
        Some(Steps { of: vec![a.steps, b.steps], result: vec![product] })
    }

    /// Adds the steps; the node itself becomes the last one.
    fn write(self, patch: &mut Patch, n: &Node<'_>, names: &BTreeSet<&str>) {
        let like = &n.outputs()[0];
        let mut count = 0;
        let mut add = |patch: &mut Patch, step: &Step, inputs: &[ValueRef]| {
            let mut attrs = AttrMap::default();
            step.attrs.iter().for_each(|(k, v)| attrs.set(*k, v.clone()));
            let desc = TensorDesc { shape: Shape::new(step.dims.iter().copied()), ..like.clone() };
            count += 1;
            let name = fresh_name(names, n.name(), &format!("step{count}"));
            ValueRef::new(patch.add(step.op, &name, inputs, vec![desc], attrs), 0)
        };
        let inputs: Vec<ValueRef> = self
            .of
            .iter()
            .zip(n.inputs())
            .map(|(steps, x)| steps.iter().fold(*x, |x, step| add(patch, step, &[x])))
            .collect();
        let Some((last, before)) = self.result.split_last() else { return };
        let inputs = before.iter().fold(inputs, |inputs, step| vec![add(patch, step, &inputs)]);
        becomes(patch, n, Key::new(last.op), &inputs);
        last.attrs.iter().for_each(|(k, v)| patch.set_attr(n.id(), k, v.clone()));
    }
}
