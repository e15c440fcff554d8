//! `FusedCluster` (`plugins/ops/src/fused.rs`): its steps one after the other, each value with a
//! shape of its own, in double precision; what it gives is rounded once.
use crate::args::{bad, put_f64, room, view_error};
use crate::kernels::fused::compute;
use crate::kernels::math::special::{max, min};
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_kernels::view::steps::{Operand, Step, parse};
use ge_kernels::view::{Layout, Nest, broadcast_shapes};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::{AttrValue, DType};
use ge_plugin_api::{Error, Result};

/// A value of a cluster: its sizes and numbers.
type Value = (Vec<usize>, Vec<f64>);

/// A reduction over the last axes.
fn reduce(s: &Step, values: &[Value]) -> Result<Value> {
    let &[Operand::Value(x), Operand::Number(n), Operand::Number(keep)] = s.args.as_slice() else {
        return Err(bad(format!("step {}", s.op), format!("{:?}", s.args), "a value, a number of axes, and 0 or 1"));
    };
    let (shape, x) = &values[x];
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
            "ReduceMean" => row.iter().sum::<f64>() / len as f64,
            "ReduceMax" => row.iter().copied().fold(f64::NEG_INFINITY, max),
            "ReduceMin" => row.iter().copied().fold(f64::INFINITY, min),
            other => return Err(bad("attribute `steps`", other, "a reduction")),
        });
    }
    let mut shape = kept.to_vec();
    shape.resize(kept.len() + if keep == 1.0 { n } else { 0 }, 1);
    Ok((shape, y))
}

/// An element-wise step over the broadcast shape of what it reads.
fn map(s: &Step, values: &[Value]) -> Result<Value> {
    let mut shape = Vec::new();
    for a in &s.args {
        if let Operand::Value(k) = a {
            shape = broadcast_shapes(&shape, &values[*k].0).map_err(view_error)?;
        }
    }
    let n = crate::args::count(&shape)?;
    let (mut wide, mut step) = (Vec::new(), s.clone());
    for a in &mut step.args {
        let Operand::Value(k) = a else { continue };
        let (own, v) = &values[*k];
        let l = Layout::contiguous(own).and_then(|l| l.broadcast_to(&shape)).map_err(view_error)?;
        let mut all = room(n)?;
        Nest::new(&shape, [&l]).each_run(|[p], len, [s]| {
            all.extend((0..len as isize).map(|i| v[(p + i * s) as usize]));
        });
        *a = Operand::Value(wide.len());
        wide.push(all);
    }
    let y = compute(&step, &wide, n, DType::F32)?;
    Ok((shape, y))
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let args = crate::args::all(ctx, 0)?;
    let texts = ctx.attrs.get("steps").and_then(AttrValue::as_strs).unwrap_or_default();
    let steps = parse(texts, args.len()).map_err(Error::failed)?;
    let mut values: Vec<Value> = Vec::with_capacity(args.len() + steps.len());
    for a in &args {
        values.push((a.shape.clone(), a.f64s()?));
    }
    for s in &steps {
        let y = if s.op.starts_with("Reduce") { reduce(s, &values) } else { map(s, &values) }?;
        values.push(y);
    }
    let gives = ctx.attrs.ints("gives").unwrap_or(&[]).to_vec();
    for (k, v) in gives.iter().enumerate() {
        let v = usize::try_from(*v).ok().and_then(|v| values.get(v));
        let (shape, y) = v.ok_or_else(|| bad("attribute `gives`", format!("{gives:?}"), "values of the cluster"))?;
        put_f64(ctx, k, shape, y)?;
    }
    Ok(())
}

/// The rows of this file.
pub const OPS: &[Op] = &[Op::new("FusedCluster", run, &[FLOAT]).gives(&[FLOAT])];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_plugin_api::types::{AttrValue, DType};

    fn texts(v: &[&str]) -> AttrValue {
        v.iter().map(|s| (*s).to_owned()).collect::<Vec<String>>().into()
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
