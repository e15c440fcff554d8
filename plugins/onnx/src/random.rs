//! Random operators in loops. Each turn of a loop draws other numbers, as a generator does that goes
//! on from call to call. Our operators have no state: in a loop, they read the number of the turn,
//! counted over all loops around them, and derive their numbers from it and their seed. So two runs
//! of a model draw the same numbers.
use crate::control::{Input, node, scalar};
use crate::free;
use crate::import::{Building, Env, Importer, is_standard};
use crate::proto::NodeProto;
use ge_plugin_api::types::{ConstTensor, DType, Shape, TensorDesc, ValueRef};
use std::collections::HashSet;

/// The random operators, and which of their inputs is the number of the turn.
const OPERATORS: [(&str, usize); 7] = [
    ("RandomUniform", 0),
    ("RandomNormal", 0),
    ("RandomUniformLike", 1),
    ("RandomNormalLike", 1),
    ("Bernoulli", 1),
    ("Multinomial", 1),
    ("Dropout", 3),
];

/// Factor of the turns of an outer loop: turns get different numbers as long as an inner loop has
/// fewer of them.
const OUTER: i64 = 1_000_003;

/// Which input of a node is the number of the turn; `None` if the operator is not random.
pub fn turn_input(n: &NodeProto) -> Option<usize> {
    OPERATORS.iter().find(|(op, _)| is_standard(n, op)).map(|(_, at)| *at)
}

/// Whether any of these nodes draws random numbers, or one of their subgraphs or functions.
pub fn draw(im: &Importer<'_>, nodes: &[NodeProto]) -> bool {
    let mut called = HashSet::new();
    let mut left = vec![nodes];
    while let Some(nodes) = left.pop() {
        for n in nodes {
            if turn_input(n).is_some() {
                return true;
            }
            left.extend(free::subgraphs(n).map(|g| g.node.as_slice()));
            let called = im.function(n).filter(|f| called.insert((&f.domain, &f.name, &f.overload)));
            left.extend(called.map(|f| f.node.as_slice()));
        }
    }
    false
}

/// The number of the turn in a body that is about to be imported.
pub struct Turns {
    draws: bool,
    /// The number of the turn of the loops around.
    outer: Option<ValueRef>,
}

impl Turns {
    /// For bodies with these nodes.
    pub fn of(im: &Importer<'_>, nodes: &[&[NodeProto]], env: &Env<'_>) -> Turns {
        let draws = nodes.iter().any(|nodes| draw(im, nodes));
        Turns { draws, outer: env.turn.filter(|_| draws) }
    }
    /// The number that a body gets from outside; `None` if it needs none.
    pub fn given(&self) -> Option<ValueRef> {
        self.outer
    }
    /// The input of a body for the number that it gets from outside.
    pub fn input(&self, name: &str) -> Option<Input> {
        let number = || TensorDesc::new(DType::I64, Shape::scalar());
        self.outer.map(|_| Input::internal(format!("{name}/turns"), number()))
    }
    /// The number in the body of a loop whose own turn is `own`; `outer` is the value of the input.
    pub fn within(
        &self,
        im: &mut Importer<'_>,
        b: &mut Building,
        (outer, own): (Option<ValueRef>, ValueRef),
        name: &str,
    ) -> Option<ValueRef> {
        let Some(outer) = outer else { return self.draws.then_some(own) };
        let factor = scalar(b, im, &format!("{name}/turns/factor"), ConstTensor::of(&[], &[OUTER]));
        let before = node(b, im, "Mul", &[outer, factor], &format!("{name}/turns/outer"));
        Some(node(b, im, "Add", &[before, own], &format!("{name}/turns/all")))
    }
    /// The number in an unrolled turn.
    pub fn unrolled(&self, im: &mut Importer<'_>, g: &mut Building, k: usize, name: &str) -> Option<ValueRef> {
        if !self.draws {
            return None;
        }
        let own = scalar(g, im, &format!("{name}/turns/own"), ConstTensor::of(&[], &[k as i64]));
        self.within(im, g, (self.outer, own), name)
    }
}
