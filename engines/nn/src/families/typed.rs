//! The types of a cluster's values, and its steps in the form that the kernel computes.
//! Single-precision lanes hold f32, f16 and bf16; i32 and bool have lanes of their own. An input of
//! another type may only be read by `Cast` and is loaded as the type it is cast to. A value of
//! another type can only be an output that no step reads. Steps are refused if the result in lanes
//! would differ from that of the separate operators.
use crate::families::cluster::reduced;
use crate::families::maps::{map_named, pair_named};
use crate::sig::{Answer, Sig};
use ge_kernels::elementwise::{Binary, ClusterStep, Compare, Convert, Source};
use ge_kernels::view::Kind;
use ge_kernels::view::steps::{Operand, Step};

/// Content of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// An f32 number.
    Single,
    /// The bits of an i32.
    Whole,
    /// 1 or 0 for a bool.
    Truth,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// Type as a tensor.
    pub kind: Kind,
    /// Lanes in which it is computed.
    pub lanes: Lanes,
}

impl Type {
    /// Whether a tensor of this type has the same bits as its lanes.
    pub fn lies_as_lanes(self) -> bool {
        matches!((self.kind, self.lanes), (Kind::F32, Lanes::Single) | (Kind::I32, Lanes::Whole))
    }
}

/// The lanes of a type; `None` if it has none.
pub fn lanes_of(kind: Kind) -> Option<Lanes> {
    match kind {
        Kind::F32 | Kind::F16 | Kind::Bf16 => Some(Lanes::Single),
        Kind::I32 => Some(Lanes::Whole),
        Kind::Bool => Some(Lanes::Truth),
        _ => None,
    }
}

/// The lanes into which a tensor of a type without lanes is loaded for a cast to another type;
/// `None` if the result would differ from that of the cast.
pub fn read_for(from: Kind, to: Kind) -> Option<Lanes> {
    let small = matches!(from, Kind::I8 | Kind::U8 | Kind::I16 | Kind::U16);
    match to {
        // A cast from f64 would give other results.
        Kind::I32 => from.is_int().then_some(Lanes::Whole),
        Kind::F32 => Some(Lanes::Single),
        // Integers that f32 rounds are out of range for f16, and none of them becomes zero.
        Kind::F16 | Kind::Bool => from.is_int().then_some(Lanes::Single),
        Kind::Bf16 => small.then_some(Lanes::Single),
        _ => None,
    }
}

/// How a value is cast; `None` if the detour through single precision would change the result.
pub fn conversion(from: Type, to: Kind) -> Option<Convert> {
    let half = matches!(from.kind, Kind::F16 | Kind::Bf16);
    Some(match (from.lanes, to) {
        (Lanes::Single, Kind::F32) => Convert::Copy,
        (Lanes::Single, Kind::F16) => Convert::F16,
        (Lanes::Single, Kind::Bf16) => Convert::Bf16,
        // Lanes of 16-bit types are not rounded between steps, so a cast to an integer could give a
        // neighbouring one.
        (Lanes::Single, _) if half => return None,
        (Lanes::Single, Kind::I32) => Convert::Whole,
        (Lanes::Single, Kind::Bool) => Convert::Truth,
        (Lanes::Whole, Kind::F32) => Convert::Single,
        (Lanes::Whole, Kind::F16 | Kind::Bf16) => return None,
        (Lanes::Whole, Kind::Bool) => Convert::WholeTruth,
        (Lanes::Truth, Kind::I32) => Convert::Whole,
        // The conversion is done when the output is stored.
        _ => Convert::Copy,
    })
}

/// The comparison with this name.
pub fn compare_named(op: &str) -> Option<Compare> {
    Some(match op {
        "Equal" => Compare::Equal,
        "NotEqual" => Compare::NotEqual,
        "Less" => Compare::Less,
        "LessEqual" => Compare::LessEqual,
        "Greater" => Compare::Greater,
        "GreaterEqual" => Compare::GreaterEqual,
        _ => return None,
    })
}

/// The map on zeros and ones that computes a logical operator with two operands.
fn logic_named(op: &str) -> Option<Binary> {
    Some(match op {
        "LogicalAnd" => Binary::Min,
        "LogicalOr" => Binary::Max,
        _ => return None,
    })
}

/// Whether the map exists for i32.
pub fn is_whole_map(op: Binary) -> bool {
    !matches!(op, Binary::Pow | Binary::PRelu)
}

/// The type and lanes of input `i`, from its tensor type and from the casts that read it.
fn read(sig: &Sig, i: usize, steps: &[Step]) -> Answer<Type> {
    let t = sig.input(i)?;
    let kind = t.kind.ok_or_else(|| format!("input {i} is {}", t.dtype))?;
    if let Some(lanes) = lanes_of(kind) {
        return Ok(Type { kind, lanes });
    }
    let mut all = None;
    for s in steps.iter().filter(|s| s.args.contains(&Operand::Value(i))) {
        let to = s.op.strip_prefix("Cast:").and_then(kind_named).and_then(|to| read_for(kind, to));
        let lanes = to.ok_or_else(|| format!("input {i} is {}, which step {} does not read", kind.name(), s.op))?;
        if all.replace(lanes).is_some_and(|a| a != lanes) {
            return Err(format!("input {i} is cast to whole numbers and to others"));
        }
    }
    Ok(Type { kind, lanes: all.ok_or_else(|| format!("nothing reads input {i}"))? })
}

/// The type with this name in steps.
fn kind_named(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|k| k.name() == name)
}

/// The types of inputs and steps, and the steps in the form that the kernel computes.
///
/// # Errors
/// Fails with a reason if a step does not support its types.
pub fn typed(sig: &Sig, steps: &[Step]) -> Answer<(Vec<Type>, Vec<ClusterStep>)> {
    let mut types = (0..sig.inputs.len()).map(|i| read(sig, i, steps)).collect::<Answer<Vec<_>>>()?;
    let inputs = types.len();
    let mut out = Vec::with_capacity(steps.len());
    for s in steps {
        for a in &s.args {
            let Operand::Value(k) = a else { continue };
            if *k >= inputs && lanes_of(types[*k].kind).is_none() {
                return Err(format!("step {} reads a value of {}", s.op, types[*k].kind.name()));
            }
        }
        let (step, kind, lanes) = one(s, &types)?;
        types.push(Type { kind, lanes });
        out.push(step);
    }
    Ok((types, out))
}

/// The lane value for a number.
fn number(v: f64, lanes: Lanes) -> Answer<f32> {
    match lanes {
        Lanes::Whole if v.fract() == 0.0 && (-2_147_483_648.0..2_147_483_648.0).contains(&v) => {
            Ok(f32::from_bits(v as i32 as u32))
        }
        Lanes::Whole => Err(format!("{v} is no whole number of 32 bits")),
        Lanes::Truth => Ok(f32::from(u8::from(v != 0.0))),
        Lanes::Single => Ok(v as f32),
    }
}

fn source(o: &Operand, lanes: Lanes) -> Answer<Source> {
    Ok(match o {
        Operand::Value(k) => Source::Value(*k),
        Operand::Number(v) => Source::Number(number(*v, lanes)?),
    })
}

/// The common type of a step's operands; single precision if it reads no value.
fn of_values(s: &Step, types: &[Type]) -> Answer<Type> {
    let mut all = s.args.iter().filter_map(|a| if let Operand::Value(k) = a { Some(types[*k]) } else { None });
    let first = all.next().unwrap_or(Type { kind: Kind::F32, lanes: Lanes::Single });
    match all.find(|t| *t != first) {
        Some(t) => Err(format!("step {} reads {} and {}", s.op, first.kind.name(), t.kind.name())),
        None => Ok(first),
    }
}

/// Converts one step; returns it with the type of its value.
fn one(s: &Step, types: &[Type]) -> Answer<(ClusterStep, Kind, Lanes)> {
    let wrong = |t: Type| format!("step {} of {}", s.op, t.kind.name());
    let op = s.op.as_str();
    if op.starts_with("Reduce") {
        let (r, x, ..) = reduced(s)?;
        let t = types[x];
        return if t.lanes == Lanes::Single { Ok((ClusterStep::Reduce(r, x), t.kind, t.lanes)) } else { Err(wrong(t)) };
    }
    if let (Some(to), [Operand::Value(x)]) = (op.strip_prefix("Cast:"), s.args.as_slice()) {
        let to = kind_named(to).ok_or_else(|| format!("there is no type {to}"))?;
        let how = conversion(types[*x], to).ok_or_else(|| format!("{} to {}", wrong(types[*x]), to.name()))?;
        return Ok((ClusterStep::Convert(how, *x), to, lanes_of(to).unwrap_or(types[*x].lanes)));
    }
    if let (Some(to), [c, a, b]) = (op.strip_prefix("Select:"), s.args.as_slice()) {
        let to = kind_named(to).and_then(|kind| Some(Type { kind, lanes: lanes_of(kind)? }));
        let to = to.ok_or_else(|| format!("step {op}: no lane holds it"))?;
        let Operand::Value(c) = *c else { return Err(format!("step {op} chooses by a number")) };
        for a in [a, b] {
            match a {
                Operand::Value(k) if types[*k].kind != to.kind => return Err(wrong(types[*k])),
                _ => {}
            }
        }
        if types[c].lanes != Lanes::Truth {
            return Err(wrong(types[c]));
        }
        return Ok((ClusterStep::Select(c, source(a, to.lanes)?, source(b, to.lanes)?), to.kind, to.lanes));
    }
    let t = of_values(s, types)?;
    let half = matches!(t.kind, Kind::F16 | Kind::Bf16);
    let truth = |step| Ok((step, Kind::Bool, Lanes::Truth));
    match (op, s.args.as_slice()) {
        ("LogicalNot", [Operand::Value(x)]) if t.lanes == Lanes::Truth => {
            return truth(ClusterStep::Binary(Binary::Sub, Source::Number(1.0), Source::Value(*x)));
        }
        ("LogicalXor", [a, b]) if t.lanes == Lanes::Truth => {
            return truth(ClusterStep::Compare(Compare::NotEqual, source(a, t.lanes)?, source(b, t.lanes)?));
        }
        ("IsNan", [Operand::Value(x)]) if t.lanes == Lanes::Single && !half => {
            return truth(ClusterStep::Compare(Compare::NotEqual, Source::Value(*x), Source::Value(*x)));
        }
        _ => {}
    }
    if let [a, b] = s.args.as_slice() {
        let pair = || Ok::<_, String>((source(a, t.lanes)?, source(b, t.lanes)?));
        if let Some(map) = logic_named(op).filter(|_| t.lanes == Lanes::Truth) {
            let (a, b) = pair()?;
            return truth(ClusterStep::Binary(map, a, b));
        }
        if let Some(test) = compare_named(op).filter(|_| !half) {
            let (a, b) = pair()?;
            return truth(match t.lanes {
                Lanes::Whole => ClusterStep::WholeCompare(test, a, b),
                _ => ClusterStep::Compare(test, a, b),
            });
        }
        if let Some(map) = pair_named(op) {
            let (a, b) = pair()?;
            return match t.lanes {
                Lanes::Single => Ok((ClusterStep::Binary(map, a, b), t.kind, t.lanes)),
                Lanes::Whole if is_whole_map(map) => Ok((ClusterStep::Whole(map, a, b), t.kind, t.lanes)),
                _ => Err(wrong(t)),
            };
        }
    }
    let Some((Operand::Value(x), rest)) = s.args.split_first() else {
        return Err(format!("step {op} reads no value"));
    };
    let number = |o: &Operand| match o {
        Operand::Number(v) => Ok(*v as f32),
        Operand::Value(k) => Err(format!("step {op} reads %{k} where it takes a number")),
    };
    let numbers = rest.iter().map(number).collect::<Answer<Vec<f32>>>()?;
    let map = map_named(op, &numbers)?;
    if t.lanes == Lanes::Single { Ok((ClusterStep::Unary(map, *x), t.kind, t.lanes)) } else { Err(wrong(t)) }
}
