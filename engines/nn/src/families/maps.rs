//! The element-wise operators on one and on two tensors, one row each: name, numbers and operation.
//! The op store, chains of steps and blocked layouts all use these rows, so a new operator is added
//! only here.
use crate::sig::Answer;
use ge_kernels::elementwise::{Binary, Unary};
use ge_kernels::simd::Act;

/// A map of one tensor.
pub struct MapRow {
    /// Operator type.
    pub op: &'static str,
    /// The numbers of the map, in its order: attribute names and defaults.
    numbers: &'static [(&'static str, f64)],
    /// A text attribute and the value of it that selects the operator's second form; an additional
    /// number then marks that form.
    form: Option<(&'static str, &'static str)>,
    make: fn(&[f32]) -> Answer<Unary>,
}

const fn plain(op: &'static str, make: fn(&[f32]) -> Answer<Unary>) -> MapRow {
    MapRow { op, numbers: &[], form: None, make }
}
const fn with(op: &'static str, numbers: &'static [(&'static str, f64)], make: fn(&[f32]) -> Answer<Unary>) -> MapRow {
    MapRow { op, numbers, form: None, make }
}

/// The maps of one tensor.
pub const MAPS: &[MapRow] = &[
    plain("Sigmoid", |_| Ok(Unary::Act(Act::Sigmoid))),
    plain("Tanh", |_| Ok(Unary::Act(Act::Tanh))),
    plain("Erf", |_| Ok(Unary::Erf)),
    plain("Exp", |_| Ok(Unary::Exp)),
    plain("Expm1", |_| Ok(Unary::Expm1)),
    plain("Log", |_| Ok(Unary::Ln)),
    plain("Log1p", |_| Ok(Unary::Ln1p)),
    plain("Sqrt", |_| Ok(Unary::Sqrt)),
    plain("Rsqrt", |_| Ok(Unary::Rsqrt)),
    plain("Reciprocal", |_| Ok(Unary::Reciprocal)),
    plain("Softplus", |_| Ok(Unary::Softplus)),
    plain("Softsign", |_| Ok(Unary::Softsign)),
    plain("Mish", |_| Ok(Unary::Mish)),
    plain("Sin", |_| Ok(Unary::Sin)),
    plain("Cos", |_| Ok(Unary::Cos)),
    plain("Tan", |_| Ok(Unary::Tan)),
    plain("Asin", |_| Ok(Unary::Asin)),
    plain("Acos", |_| Ok(Unary::Acos)),
    plain("Atan", |_| Ok(Unary::Atan)),
    plain("Sinh", |_| Ok(Unary::Sinh)),
    plain("Cosh", |_| Ok(Unary::Cosh)),
    plain("Asinh", |_| Ok(Unary::Asinh)),
    plain("Acosh", |_| Ok(Unary::Acosh)),
    plain("Atanh", |_| Ok(Unary::Atanh)),
    plain("Ceil", |_| Ok(Unary::Ceil)),
    plain("Floor", |_| Ok(Unary::Floor)),
    plain("Round", |_| Ok(Unary::Round)),
    plain("HardSwish", |_| Ok(Unary::Act(Act::HardSwish))),
    plain("Relu6", |_| Ok(Unary::Act(Act::Clip(0.0, 6.0)))),
    plain("Abs", |_| Ok(Unary::Abs)),
    plain("Neg", |_| Ok(Unary::Neg)),
    plain("Sign", |_| Ok(Unary::Sign)),
    plain("Square", |_| Ok(Unary::Square)),
    plain("Relu", |_| Ok(Unary::Act(Act::Relu))),
    MapRow {
        op: "Gelu",
        numbers: &[],
        form: Some(("approximate", "tanh")),
        make: |n| Ok(Unary::Act(if n.is_empty() { Act::Gelu } else { Act::GeluTanh })),
    },
    with("Swish", &[("scale", 1.0)], |n| match n[0] {
        1.0 => Ok(Unary::Act(Act::Silu)),
        scale => Err(format!("attribute `scale` is {scale}, it takes 1")),
    }),
    with("HardSigmoid", &[("alpha", 1.0 / 6.0), ("beta", 0.5)], |n| Ok(Unary::Act(Act::HardSigmoid(n[0], n[1])))),
    with("LeakyRelu", &[("negative_slope", 0.01)], |n| Ok(Unary::Act(Act::LeakyRelu(n[0])))),
    with("Elu", &[("alpha", 1.0)], |n| Ok(Unary::Act(Act::Elu(n[0])))),
    with("Selu", &[("alpha", 1.673_263_242_354_377_2), ("scale", 1.050_700_987_355_480_5)], |n| {
        Ok(Unary::Selu(n[0], n[1]))
    }),
    with("Muls", &[("value", 1.0)], |n| Ok(Unary::Affine(n[0], 0.0))),
    with("Adds", &[("value", 0.0)], |n| Ok(Unary::Affine(1.0, n[0]))),
];

/// The maps of two tensors with broadcasting.
pub const PAIRS: &[(&str, Binary)] = &[
    ("Add", Binary::Add),
    ("Sub", Binary::Sub),
    ("Mul", Binary::Mul),
    ("Div", Binary::Div),
    ("RealDiv", Binary::Div),
    ("Maximum", Binary::Max),
    ("Minimum", Binary::Min),
    ("Pow", Binary::Pow),
    ("SquaredDifference", Binary::SquaredDifference),
    ("PRelu", Binary::PRelu),
];

impl MapRow {
    /// The row of an operator; `None` if it is not a map of one tensor.
    pub fn of(op: &str) -> Option<&'static MapRow> {
        MAPS.iter().find(|m| m.op == op)
    }
    /// The numbers of a node. The functions read its attributes and return `None` for those that
    /// are not given.
    pub fn numbers<'t>(
        &self,
        float: impl Fn(&'static str) -> Option<f64>,
        text: impl Fn(&'static str) -> Option<&'t str>,
    ) -> Vec<f64> {
        let given = self.numbers.iter().map(|(key, default)| float(key).unwrap_or(*default));
        let second = self.form.filter(|(key, value)| text(key) == Some(value)).map(|_| 1.0);
        given.chain(second).collect()
    }
    /// Makes the map with these numbers.
    ///
    /// # Errors
    /// Fails with a reason if the numbers are not supported.
    pub fn make(&self, numbers: &[f32]) -> Answer<Unary> {
        let most = self.numbers.len() + usize::from(self.form.is_some());
        if (self.numbers.len()..=most).contains(&numbers.len()) {
            return (self.make)(numbers);
        }
        Err(format!("{} takes {} numbers, it has {}", self.op, self.numbers.len(), numbers.len()))
    }
}

/// The map of one number with this name in a chain of steps: an operator with its numbers (`Gelu 1`
/// is the tanh form), or `Clip` with two bounds.
///
/// # Errors
/// Fails if there is no such map.
pub fn map_named(op: &str, numbers: &[f32]) -> Answer<Unary> {
    match (op, numbers) {
        ("Clip", &[low, high]) => Ok(Unary::Act(Act::Clip(low, high))),
        // Older chains omit a scale of one.
        ("Swish", []) => Ok(Unary::Act(Act::Silu)),
        _ => MapRow::of(op).ok_or_else(|| format!("no map of one tensor is called {op}"))?.make(numbers),
    }
}

/// The map of two numbers for an operator; `None` if there is none.
pub fn pair_named(op: &str) -> Option<Binary> {
    PAIRS.iter().find(|(name, _)| *name == op).map(|(_, map)| *map)
}
