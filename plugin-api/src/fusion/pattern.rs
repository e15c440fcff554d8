//! `Pattern`: a small graph to look for, with captures, and the expressions in which patterns are
//! written.
use crate::types::{AttrValue, ConstTensor, Key};
use crate::view::Node;
use core::cell::RefCell;
use core::fmt;
use std::sync::Arc;

/// Most elements of a constant that [`PatternBuilder::scalar`] compares; a longer constant does not
/// match.
const MOST: usize = 1 << 16;

/// Condition on a node of the graph.
pub(super) type NodeTest = Arc<dyn Fn(&Node<'_>) -> bool + Send + Sync>;
/// Condition on the value of a constant.
pub(super) type ConstTest = Arc<dyn Fn(&ConstTensor) -> bool + Send + Sync>;

/// A value of a pattern: output `output` of its place `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub node: usize,
    pub output: u32,
}

/// A place of a pattern: what may stand there in the graph.
#[derive(Clone)]
pub(super) enum Place {
    /// Any value; it may be absent if `optional`.
    Input { optional: bool },
    /// A constant whose tensor is in the graph.
    Constant(Option<ConstTest>),
    /// An operator of one of these types.
    Op { types: Vec<Key>, inputs: Vec<At>, commutative: bool, tests: Vec<NodeTest> },
}

/// A small graph to look for: operators between inputs and outputs, connected by values.
///
/// A match has exactly the inputs that the pattern names (absent ones at the end do not count), no
/// subgraphs, no control edges across its boundary, and no inner value that is read outside. A
/// value that is used twice (`x * sigmoid(x)`) is one value.
/// # Examples
/// ```
/// use ge_plugin_api::fusion::Pattern;
///
/// // x / (Sqrt(v) + a constant); each name is a value that the fusion asks for.
/// let norm = Pattern::new(|p| p.input("x") / (p.op("Sqrt", [p.input("v")]) + p.constant("epsilon")));
/// println!("{norm:?}");
/// ```
#[derive(Clone)]
pub struct Pattern {
    pub(super) places: Vec<Place>,
    pub(super) outputs: Vec<At>,
    pub(super) names: Vec<(String, At)>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names.iter().map(|(n, _)| n.as_str()).collect();
        f.debug_struct("Pattern").field("places", &self.places.len()).field("captures", &names).finish()
    }
}

impl Pattern {
    /// A pattern with one output:
    /// `Pattern::new(|p| { let x = p.input("x"); x * p.op("Sigmoid", [x]) })`.
    pub fn new(f: impl for<'p> FnOnce(&'p PatternBuilder) -> Expr<'p>) -> Pattern {
        let b = PatternBuilder::default();
        let out = f(&b).at;
        b.finish(vec![out])
    }
    /// A pattern with several outputs; the search starts at the first one. A part that is not
    /// connected to it is never found.
    pub fn of_outputs(f: impl for<'p> FnOnce(&'p PatternBuilder) -> Vec<Expr<'p>>) -> Pattern {
        let b = PatternBuilder::default();
        let outs = f(&b).iter().map(|e| e.at).collect();
        b.finish(outs)
    }
    /// For each place, whether an output depends on it.
    pub(super) fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.places.len()];
        let mut todo: Vec<usize> = self.outputs.iter().map(|o| o.node).collect();
        while let Some(p) = todo.pop() {
            if needed.get_mut(p).is_none_or(|seen| core::mem::replace(seen, true)) {
                continue;
            }
            if let Some(Place::Op { inputs, .. }) = self.places.get(p) {
                todo.extend(inputs.iter().map(|i| i.node));
            }
        }
        needed
    }
    /// Operator types of the node that produces output 0; empty if that is not an operator.
    pub(super) fn root_types(&self) -> &[Key] {
        match self.outputs.first().and_then(|o| self.places.get(o.node)) {
            Some(Place::Op { types, .. }) => types,
            _ => &[],
        }
    }
}

/// Makes the parts of a [`Pattern`]; see there for an example.
#[derive(Default)]
pub struct PatternBuilder {
    places: RefCell<Vec<Place>>,
    names: RefCell<Vec<(String, At)>>,
}

impl PatternBuilder {
    fn finish(self, outputs: Vec<At>) -> Pattern {
        Pattern { places: self.places.into_inner(), outputs, names: self.names.into_inner() }
    }
    fn put(&self, place: Place) -> Expr<'_> {
        let mut places = self.places.borrow_mut();
        places.push(place);
        Expr { b: self, at: At { node: places.len() - 1, output: 0 } }
    }
    fn captured(&self, name: &str, make: impl FnOnce() -> Place) -> Expr<'_> {
        let known = self.names.borrow().iter().find(|(n, _)| n == name).map(|(_, at)| *at);
        match known {
            Some(at) => Expr { b: self, at },
            None => self.put(make()).named(name),
        }
    }
    /// A named input of the pattern, which matches any value. The same name stands for the same
    /// value.
    pub fn input(&self, name: &str) -> Expr<'_> {
        self.captured(name, || Place::Input { optional: false })
    }
    /// A named input that may be absent, such as an optional bias.
    pub fn maybe(&self, name: &str) -> Expr<'_> {
        self.captured(name, || Place::Input { optional: true })
    }
    /// A named constant. It stays in the graph as long as others read it.
    pub fn constant(&self, name: &str) -> Expr<'_> {
        self.captured(name, || Place::Constant(None))
    }
    /// A named constant whose value must satisfy a condition.
    pub fn constant_if(&self, name: &str, test: impl Fn(&ConstTensor) -> bool + Send + Sync + 'static) -> Expr<'_> {
        self.captured(name, || Place::Constant(Some(Arc::new(test))))
    }
    /// A constant whose elements all equal this number, within a relative error of one thousandth.
    pub fn scalar(&self, value: f64) -> Expr<'_> {
        self.put(Place::Constant(Some(Arc::new(move |c: &ConstTensor| {
            let near = |v: &f64| (v - value).abs() <= 1e-3 * value.abs();
            c.to_f64(MOST).is_some_and(|v| !v.is_empty() && v.iter().all(near))
        }))))
    }
    /// An operator of a type.
    pub fn op<'p>(&'p self, op: &str, inputs: impl IntoIterator<Item = Expr<'p>>) -> Expr<'p> {
        self.any(&[op], inputs)
    }
    /// An operator of one of several types.
    pub fn any<'p>(&'p self, ops: &[&str], inputs: impl IntoIterator<Item = Expr<'p>>) -> Expr<'p> {
        let inputs = inputs.into_iter().map(|e| e.at).collect();
        let types = ops.iter().map(|o| Key::new(o)).collect();
        self.put(Place::Op { types, inputs, commutative: false, tests: Vec::new() })
    }
}

/// A value of a pattern that is being written. `+` and `*` match their operands in either order.
#[derive(Clone, Copy)]
pub struct Expr<'p> {
    b: &'p PatternBuilder,
    at: At,
}

impl<'p> Expr<'p> {
    /// Captures the value: the match returns it and its node by this name.
    pub fn named(self, name: &str) -> Self {
        self.b.names.borrow_mut().push((name.to_owned(), self.at));
        self
    }
    /// Another output of the same node.
    pub fn output(self, k: u32) -> Self {
        Expr { at: At { output: k, ..self.at }, ..self }
    }
    /// Lets the node's two operands stand in either order.
    pub fn commutative(self) -> Self {
        if let Some(Place::Op { commutative, .. }) = self.b.places.borrow_mut().get_mut(self.at.node) {
            *commutative = true;
        }
        self
    }
    /// Adds a condition on the node.
    pub fn when(self, test: impl Fn(&Node<'_>) -> bool + Send + Sync + 'static) -> Self {
        if let Some(Place::Op { tests, .. }) = self.b.places.borrow_mut().get_mut(self.at.node) {
            tests.push(Arc::new(test));
        }
        self
    }
    /// Requires an attribute of the node to have this value.
    pub fn attr(self, key: &str, value: impl Into<AttrValue>) -> Self {
        let (key, value) = (Key::new(key), value.into());
        self.when(move |n| n.attr(key) == Some(&value))
    }
    fn with(self, ops: &[&str], other: Expr<'p>) -> Self {
        self.b.any(ops, [self, other])
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident [$($op:literal),+] $turn:ident),+ $(,)?) => {$(
        impl<'p> core::ops::$trait for Expr<'p> {
            type Output = Expr<'p>;
            fn $method(self, other: Expr<'p>) -> Expr<'p> { self.with(&[$($op),+], other).$turn() }
        }
        impl<'p> core::ops::$trait<f64> for Expr<'p> {
            type Output = Expr<'p>;
            fn $method(self, other: f64) -> Expr<'p> { core::ops::$trait::$method(self, self.b.scalar(other)) }
        }
    )+};
}
impl Expr<'_> {
    fn ordered(self) -> Self {
        self
    }
}
operator! {
    Add add ["Add"] commutative,
    Mul mul ["Mul"] commutative,
    Sub sub ["Sub"] ordered,
    Div div ["Div", "RealDiv"] ordered,
}
