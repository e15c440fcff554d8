//! `Pattern`: a small graph to look for, with captures, and the expressions in which it is written.
use crate::types::{AttrValue, ConstTensor, Key};
use crate::view::Node;
use core::cell::RefCell;
use core::fmt;
use std::sync::Arc;

/// Most elements of a constant that a condition may look at.
const MOST: usize = 1 << 16;

/// Condition on a node of the graph.
pub(super) type NodeTest = Arc<dyn Fn(&Node<'_>) -> bool + Send + Sync>;
/// Condition on a constant's value.
pub(super) type ConstTest = Arc<dyn Fn(&ConstTensor) -> bool + Send + Sync>;

/// A value of a pattern: output `output` of its node `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub node: usize,
    pub output: u32,
}

/// What stands at a place of a pattern.
#[derive(Clone)]
pub(super) enum Place {
    /// Any value; absent too where it is optional.
    Input { optional: bool },
    /// A constant whose value is in the graph.
    Constant(Option<ConstTest>),
    /// An operator of one of these types.
    Op { types: Vec<Key>, inputs: Vec<At>, commutative: bool, tests: Vec<NodeTest> },
}

/// A small graph to look for: operators between inputs and outputs, connected by values.
///
/// What it matches has exactly the inputs that the pattern names (absent ones at the end do not
/// count), no subgraphs, no control edges that cross its border, and no inner value that is read
/// outside of it. A value given twice (`x * sigmoid(x)`) is one value.
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
    /// A pattern with several outputs, the one looked for first in front. What is not connected
    /// with it is never found.
    pub fn of_outputs(f: impl for<'p> FnOnce(&'p PatternBuilder) -> Vec<Expr<'p>>) -> Pattern {
        let b = PatternBuilder::default();
        let outs = f(&b).iter().map(|e| e.at).collect();
        b.finish(outs)
    }
    /// By place: whether an output needs it.
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
    /// Types of the node that gives output 0; none where that is no operator.
    pub(super) fn root_types(&self) -> &[Key] {
        match self.outputs.first().and_then(|o| self.places.get(o.node)) {
            Some(Place::Op { types, .. }) => types,
            _ => &[],
        }
    }
}

/// Makes the parts of a [`Pattern`].
/// See [`Pattern`] for an example.
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
    /// An input of the pattern by name: any value. The same name is the same value.
    pub fn input(&self, name: &str) -> Expr<'_> {
        self.captured(name, || Place::Input { optional: false })
    }
    /// An input that may be absent (an optional bias).
    pub fn maybe(&self, name: &str) -> Expr<'_> {
        self.captured(name, || Place::Input { optional: true })
    }
    /// A constant by name. It stays in the graph while others read it.
    pub fn constant(&self, name: &str) -> Expr<'_> {
        self.captured(name, || Place::Constant(None))
    }
    /// A constant by name for whose value a condition holds.
    pub fn constant_if(&self, name: &str, test: impl Fn(&ConstTensor) -> bool + Send + Sync + 'static) -> Expr<'_> {
        self.captured(name, || Place::Constant(Some(Arc::new(test))))
    }
    /// A constant of which every element is this number, up to one part in a thousand.
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

/// A value of a pattern that is being written. `+` and `*` match either order of their operands.
#[derive(Clone, Copy)]
pub struct Expr<'p> {
    b: &'p PatternBuilder,
    at: At,
}

impl<'p> Expr<'p> {
    /// Captures it: the match gives the value and its node by this name.
    pub fn named(self, name: &str) -> Self {
        self.b.names.borrow_mut().push((name.to_owned(), self.at));
        self
    }
    /// Another output of its node.
    pub fn output(self, k: u32) -> Self {
        Expr { at: At { output: k, ..self.at }, ..self }
    }
    /// Its two operands may stand in either order.
    pub fn commutative(self) -> Self {
        if let Some(Place::Op { commutative, .. }) = self.b.places.borrow_mut().get_mut(self.at.node) {
            *commutative = true;
        }
        self
    }
    /// A condition on its node.
    pub fn when(self, test: impl Fn(&Node<'_>) -> bool + Send + Sync + 'static) -> Self {
        if let Some(Place::Op { tests, .. }) = self.b.places.borrow_mut().get_mut(self.at.node) {
            tests.push(Arc::new(test));
        }
        self
    }
    /// An attribute of its node that must have this value.
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
