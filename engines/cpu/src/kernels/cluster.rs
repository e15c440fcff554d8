//! `FusedCluster` (`plugins/ops/src/fused.rs`): computes its steps one after the other. Each value
//! has its own shape and type. Each step is rounded to single precision, or computed in integers,
//! and each output is rounded to its type.
use crate::args::{Arg, bad, filled, kind_of, put_f64, room, view_error};
use crate::kernels::fused::{compute, single};
use crate::kernels::math::special::{max, min};
use crate::op::Op;
use crate::store::types::NUMB;
use ge_kernels::view::steps::{Operand, Step, parse};
use ge_kernels::view::{Elem, Kind, Layout, Nest, broadcast_shapes, cast};
use ge_kernels::with_kind;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::{AttrValue, DType};
use ge_plugin_api::{Error, Result};

/// A value of a cluster: shape, numbers and kind.
type Value = (Vec<usize>, Vec<f64>, Kind);

/// A reduction over the last axes.
fn reduce(s: &Step, values: &[Value]) -> Result<Value> {
    let &[Operand::Value(x), Operand::Number(n), Operand::Number(keep)] = s.args.as_slice() else {
        return Err(bad(format!("step {}", s.op), format!("{:?}", s.args), "a value, a number of axes, and 0 or 1"));
    };
    let (shape, x, kind) = &values[x];
    let n = n as usize;
    if n > shape.len() {
        return Err(bad(format!("step {}", s.op), format!("{n} axes"), format!("at most {}", shape.len())));
    }
    let (kept, over) = shape.split_at(shape.len() - n);
    let (rows, len) = (kept.iter().product::<usize>(), over.iter().product::<usize>());
    let mut y = room(rows)?;
    for r in 0..rows {
        let row = &x[r * len..(r + 1) * len];
        y.push(match s.op.as_str() {
            "ReduceSum" => row.iter().sum(),
            "ReduceMean" => row.iter().sum::<f64>() / len.max(1) as f64,
            "ReduceMax" => row.iter().copied().fold(f64::NEG_INFINITY, max),
            "ReduceMin" => row.iter().copied().fold(f64::INFINITY, min),
            other => return Err(bad("attribute `steps`", other, "a reduction")),
        });
    }
    if !kind.is_int() {
        y.iter_mut().for_each(|v| *v = single(*v));
    }
    let mut shape = kept.to_vec();
    shape.resize(kept.len() + if keep == 1.0 { n } else { 0 }, 1);
    Ok((shape, y, *kind))
}

/// An element-wise step over the broadcast shape of its operands.
fn map(s: &Step, values: &[Value]) -> Result<Value> {
    let mut shape = Vec::new();
    for a in &s.args {
        if let Operand::Value(k) = a {
            shape = broadcast_shapes(&shape, &values[*k].0).map_err(view_error)?;
        }
    }
    let n = crate::args::count(&shape)?;
    let (mut wide, mut step, mut own_kind) = (Vec::new(), s.clone(), None);
    for a in &mut step.args {
        let Operand::Value(k) = a else { continue };
        let (own, v, kind) = &values[*k];
        let l = Layout::contiguous(own).and_then(|l| l.broadcast_to(&shape)).map_err(view_error)?;
        let mut all = room(n)?;
        Nest::new(&shape, [&l]).each_run(|[p], len, [s]| {
            all.extend((0..len as isize).map(|i| v[(p + i * s) as usize]));
        });
        *a = Operand::Value(wide.len());
        wide.push(all);
        own_kind = own_kind.or(Some(*kind));
    }
    let kind = own_kind.unwrap_or(Kind::F32);
    let of = |i: usize| match step.args.get(i) {
        Some(Operand::Value(k)) => Ok(wide[*k].clone()),
        Some(Operand::Number(v)) => filled(n, *v),
        None => Err(bad(format!("step {}", s.op), format!("{} operands", s.args.len()), "one more")),
    };
    if let Some(to) = s.op.strip_prefix("Cast:") {
        let to = kind_named(to)?;
        return Ok((shape, recast(&of(0)?, to), to));
    }
    if let Some(to) = s.op.strip_prefix("Select:") {
        let (c, a, b) = (of(0)?, of(1)?, of(2)?);
        let y = c.iter().zip(a).zip(b).map(|((c, a), b)| if *c != 0.0 { a } else { b }).collect();
        return Ok((shape, y, kind_named(to)?));
    }
    if let Some(f) = test_named(&s.op) {
        let b = if s.args.len() > 1 { of(1)? } else { of(0)? };
        let y = of(0)?.iter().zip(b).map(|(a, b)| f64::from(u8::from(f(*a, b)))).collect();
        return Ok((shape, y, Kind::Bool));
    }
    if kind.is_int() {
        let f = whole_named(&s.op).ok_or_else(|| bad("attribute `steps`", &s.op, "an operator of whole numbers"))?;
        let y = of(0)?.iter().zip(of(1)?).map(|(a, b)| f64::from(f(*a as i64, b as i64) as i32)).collect();
        return Ok((shape, y, kind));
    }
    let y = compute(&step, &wide, n, DType::F32)?;
    Ok((shape, y, kind))
}

/// The type with the name used in a step.
fn kind_named(name: &str) -> Result<Kind> {
    let kind = Kind::ALL.into_iter().find(|k| k.name() == name);
    kind.ok_or_else(|| bad("attribute `steps`", name, "an element type"))
}

/// Numbers after a cast to another type.
fn recast(x: &[f64], to: Kind) -> Vec<f64> {
    with_kind!(to, T => x.iter().map(|x| cast::<f64, T>(*x).to_f64()).collect())
}

/// A comparison, or a logical operator on ones and zeros.
fn test_named(op: &str) -> Option<fn(f64, f64) -> bool> {
    Some(match op {
        "Equal" => |a, b| a == b,
        "NotEqual" => |a, b| a != b,
        "Less" => |a, b| a < b,
        "LessEqual" => |a, b| a <= b,
        "Greater" => |a, b| a > b,
        "GreaterEqual" => |a, b| a >= b,
        "LogicalAnd" => |a, b| a != 0.0 && b != 0.0,
        "LogicalOr" => |a, b| a != 0.0 || b != 0.0,
        "LogicalXor" => |a, b| (a != 0.0) != (b != 0.0),
        "LogicalNot" => |a, _| a == 0.0,
        "IsNan" => |a, _| a.is_nan(),
        _ => return None,
    })
}

/// A function of two 32-bit integers; only the low bits of the result are used.
fn whole_named(op: &str) -> Option<fn(i64, i64) -> i64> {
    Some(match op {
        "Add" => |a, b| a + b,
        "Sub" => |a, b| a - b,
        "Mul" => |a, b| a * b,
        "Div" => |a, b| if b == 0 { 0 } else { a / b },
        "Maximum" => |a, b| a.max(b),
        "Minimum" => |a, b| a.min(b),
        // The difference is cut to 32 bits too.
        "SquaredDifference" => |a, b| i64::from((a - b) as i32) * i64::from((a - b) as i32),
        _ => return None,
    })
}

/// An input as a value. If it is only read by casts to 32 bits, its low 32 bits are used: doubles
/// cannot hold every 64-bit integer.
fn given(a: &Arg<'_>, i: usize, steps: &[Step]) -> Result<Value> {
    let kind = kind_of(a.dtype).ok_or_else(|| bad(format!("type of input {i}"), a.dtype, "one to compute with"))?;
    let mut casts = steps.iter().filter(|s| s.args.contains(&Operand::Value(i)));
    let v = match kind {
        Kind::I64 | Kind::U64 if casts.all(|s| s.op == "Cast:i32") => {
            a.i64s()?.into_iter().map(|v| f64::from(v as i32)).collect()
        }
        _ => a.f64s()?,
    };
    Ok((a.shape.clone(), v, kind))
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let args = crate::args::all(ctx, 0)?;
    let texts = ctx.attrs.get("steps").and_then(AttrValue::as_strs).unwrap_or_default();
    let steps = parse(texts, args.len()).map_err(Error::failed)?;
    let mut values: Vec<Value> = Vec::with_capacity(args.len() + steps.len());
    for (i, a) in args.iter().enumerate() {
        values.push(given(a, i, &steps)?);
    }
    for s in &steps {
        let y = if s.op.starts_with("Reduce") { reduce(s, &values) } else { map(s, &values) }?;
        values.push(y);
    }
    let gives = ctx.attrs.ints("gives").unwrap_or(&[]).to_vec();
    for (k, v) in gives.iter().enumerate() {
        let v = usize::try_from(*v).ok().and_then(|v| values.get(v));
        let (shape, y, _) = v.ok_or_else(|| bad("attribute `gives`", format!("{gives:?}"), "values of the cluster"))?;
        put_f64(ctx, k, shape, y)?;
    }
    Ok(())
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("FusedCluster", run, &[NUMB]).gives(&[NUMB])];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_plugin_api::types::{AttrValue, DType};

    fn texts(v: &[&str]) -> AttrValue {
        v.iter().map(|s| (*s).to_owned()).collect::<Vec<String>>().into()
    }

    #[test]
    fn values_have_types_of_their_own() {
        let (x, i) = (t(&[2, 2], &[1.5f32, -2.0, 0.25, 8.0]), t(&[2], &[i64::MAX, 3]));
        let steps = [
            "Cast:i32 %1",
            "Greater %0 1",
            "LogicalNot %3",
            "Select:i32 %4 %2 7",
            "Mul %5 2147483647",
            "Cast:f16 %0",
            "Select:f16 %3 %7 0.5",
            "LogicalXor %3 %4",
            "Cast:i64 %6",
        ];
        let a = attrs(&[("steps", texts(&steps)), ("gives", vec![6i64, 8, 9, 10].into())]);
        let types = [DType::I32, DType::F16, DType::BOOL, DType::I64];
        let y = call("FusedCluster", &[Some(&x), Some(&i)], &a, &types).unwrap();
        let product = |v: i32| v.wrapping_mul(i32::MAX);
        let want = [product(7), product(3), product(-1), product(7)];
        assert_eq!(y[0].view().values::<i32>().unwrap(), want);
        assert_eq!(y[1].bytes(), [1.5f32, 0.5, 0.5, 8.0].map(|v| half::f16::from_f32(v).to_le_bytes()).concat());
        assert_eq!(y[2].bytes(), [1, 1, 1, 1]);
        assert_eq!(y[3].view().values::<i64>().unwrap(), want.map(i64::from));
        let a = attrs(&[("steps", texts(&["Exp %0"])), ("gives", vec![1i64].into())]);
        let e = call("FusedCluster", &[Some(&t(&[1], &[1i32]))], &a, &[DType::I32]).unwrap_err().to_string();
        assert!(e.contains("an operator of whole numbers"), "{e}");
    }

    /// 1 / 97 · 96 · 97 is 95.99999 in single precision and 96 in double.
    #[test]
    fn each_step_is_rounded_as_the_operator_that_it_was() {
        let steps = ["Reciprocal %0", "Mul %1 96", "Mul %0 %2", "Floor %3"];
        let chain = attrs(&[("steps", texts(&steps))]);
        let cluster = attrs(&[("steps", texts(&steps)), ("gives", vec![4i64].into())]);
        for (op, a) in [("FusedElementwise", chain), ("FusedCluster", cluster)] {
            let y = call(op, &[Some(&t(&[2], &[97f32, 99.0]))], &a, &[DType::F32]).unwrap();
            let want = [97f32, 99.0].map(|x| (x.recip() * 96.0 * x).floor());
            assert_eq!(want, [95.0, 96.0]);
            assert_eq!(y[0].view().values::<f32>().unwrap(), want, "{op}");
        }
    }

    #[test]
    fn zero_stays_zero_for_every_slope() {
        let x = t(&[5], &[0f32, -0.0, 0.0, -2.0, 1.0]);
        let slope = t(&[5], &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.5, f32::NAN]);
        let a = attrs(&[("steps", texts(&["PRelu %0 %1"]))]);
        let y = call("FusedElementwise", &[Some(&x), Some(&slope)], &a, &[DType::F32]).unwrap();
        assert_eq!(y[0].view().values::<f32>().unwrap(), [0.0, 0.0, 0.0, -1.0, 1.0]);
    }

    #[test]
    fn a_cluster_is_its_steps_with_shapes_of_their_own() {
        let (x, b) = (t(&[2, 3], &[1.0f32, 2.0, 6.0, -1.0, 0.0, 4.0]), t(&[3], &[0.5f32, 1.0, 2.0]));
        let steps =
            ["ReduceMean %0 1 1", "Sub %0 %2", "Mul %3 %1", "ReduceMax %4 1 0", "ReduceMin %0 2 1", "ReduceSum %0 1 1"];
        let a = attrs(&[("steps", texts(&steps)), ("gives", vec![4i64, 5, 6, 7].into())]);
        let y = call("FusedCluster", &[Some(&x), Some(&b)], &a, &[DType::F32; 4]).unwrap();
        let of = |k: usize| (y[k].dims.to_vec(), y[k].view().values::<f32>().unwrap().to_vec());
        assert_eq!(of(0), (vec![2, 3], vec![-1.0, -1.0, 6.0, -1.0, -1.0, 6.0]));
        assert_eq!(of(1), (vec![2], vec![6.0, 6.0]));
        assert_eq!(of(2), (vec![1, 1], vec![-1.0]));
        assert_eq!(of(3), (vec![2, 1], vec![9.0, 3.0]));
        for (step, gives, says) in [
            ("ReduceSum %0 3 1", 2i64, "at most 2"),
            ("ReduceProd %0 1 1", 2, "a reduction"),
            ("ReduceSum %0 1", 2, "a number of axes"),
            ("Neg %0", 3, "values of the cluster"),
        ] {
            let a = attrs(&[("steps", texts(&[step])), ("gives", vec![gives].into())]);
            let e = call("FusedCluster", &[Some(&x), Some(&b)], &a, &[DType::F32]).unwrap_err().to_string();
            assert!(e.contains(says), "{step}: {e}");
        }
    }
}
