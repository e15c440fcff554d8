//! Communication between ranks (names and attributes of CANN's Hcom operators).
//!
//! All have `group = "hccl_world_group"`. `HcomAllReduce(x) {reduction = sum|max|min|prod}`;
//! `HcomAllGather(x) {rank_size}`: dimension 0 is multiplied by rank_size;
//! `HcomReduceScatter(x) {reduction, rank_size}`: dimension 0 is divided by rank_size;
//! `HcomBroadcast(x...) {root_rank}`: the outputs are like the inputs;
//! `HcomAllToAll(x) {rank_size}`: dimension 0 consists of rank_size equal blocks, and block k goes
//! to rank k; `HcomSend(x) {sr_tag, dest_rank}`: no output;
//! `HcomReceive() {sr_tag, src_rank, shape, dtype}`;
//! `HcomTransfer(x) {sr_tag, src_rank, dest_rank}`: what a send and its receive are merged into; it
//! gives zeros in every rank but `dest_rank`.
use crate::dims;
use crate::read::{self, bad};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, NUMERIC};
use ge_plugin_api::types::{Dim, Shape, TensorDesc};

fn ranks(c: &InferCtx<'_>) -> Result<i64> {
    c.node
        .int("rank_size")
        .filter(|&n| n > 0)
        .ok_or_else(|| bad("attribute `rank_size`", c.node.int("rank_size").unwrap_or(0), "1 or more"))
}
fn all_gather(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (n, mut d) = (ranks(c)?, c.like(0)?);
    if d.shape.rank() == Some(0) {
        return Err(bad("input 0 `x`", "a scalar", "rank 1 or more"));
    }
    if let Some(f) = d.shape.dims_mut().first_mut() {
        *f = dims::mul(*f, dims::from_i64(n));
    }
    Ok(vec![d])
}
fn divided(c: &InferCtx<'_>) -> Result<Dim> {
    let n = ranks(c)?;
    match c.input(0)?.shape.dims().first() {
        Some(f) => match dims::size(*f) {
            Some(v) if v % n != 0 => Err(bad("input 0 `x`: dimension 0", v, format!("a multiple of rank_size = {n}"))),
            Some(v) => Ok(dims::from_i64(v / n)),
            None => Ok(Dim::UNKNOWN),
        },
        None if c.input(0)?.shape.is_unranked() => Ok(Dim::UNKNOWN),
        None => Err(bad("input 0 `x`", "a scalar", "rank 1 or more")),
    }
}
fn reduce_scatter(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (f, mut d) = (divided(c)?, c.like(0)?);
    if let Some(o) = d.shape.dims_mut().first_mut() {
        *o = f;
    }
    Ok(vec![d])
}
fn all_to_all(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    divided(c)?;
    Ok(vec![c.like(0)?])
}
fn broadcast(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    (0..c.input_count()).map(|i| c.like(i)).collect()
}
fn receive(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let t = read::dtype(c, "dtype").ok_or_else(|| bad("attribute `dtype`", "nothing", "an element type"))?;
    Ok(vec![TensorDesc::new(t, Shape::from_i64(read::need_ints(c, "shape")?))])
}
fn nothing(_: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(Vec::new())
}

fn defs() -> Vec<OpDef> {
    let i = AttrKind::INT;
    let group = |d: OpDef| d.attr("group", AttrKind::STRING, "hccl_world_group").flags(COMMUNICATION);
    let x = |name: &str, f| OpDef::new(name, f).input("x", NUMERIC, "T").output("y", NUMERIC, "T");
    let reduction = |d: OpDef| d.attr("reduction", AttrKind::STRING, "sum").choices(&["sum", "max", "min", "prod"]);
    vec![
        group(reduction(x("HcomAllReduce", infer::same))).attr("fusion", i, 1i64).attr("fusion_id", i, -1i64),
        group(OpDef::new("HcomAllGather", all_gather).input("x", ANY, "T").output("y", ANY, "T"))
            .required_attr("rank_size", i),
        group(reduction(x("HcomReduceScatter", reduce_scatter))).required_attr("rank_size", i),
        group(OpDef::new("HcomBroadcast", broadcast).dynamic("x", ANY, "").dynamic_output("y", ANY, "")).attr(
            "root_rank",
            i,
            0i64,
        ),
        group(OpDef::new("HcomAllToAll", all_to_all).input("x", ANY, "T").output("y", ANY, "T"))
            .required_attr("rank_size", i),
        group(OpDef::new("HcomSend", nothing).input("x", ANY, ""))
            .required_attr("sr_tag", i)
            .required_attr("dest_rank", i)
            .flags(STATEFUL),
        group(OpDef::new("HcomTransfer", infer::same).input("x", ANY, "T").output("y", ANY, "T"))
            .required_attr("src_rank", i)
            .required_attr("dest_rank", i)
            .attr("sr_tag", i, 0i64)
            .flags(STATEFUL | COMMUNICATION),
        group(OpDef::new("HcomReceive", receive).output("y", ANY, ""))
            .required_attr("sr_tag", i)
            .required_attr("src_rank", i)
            .required_attr("shape", AttrKind::INTS)
            .required_attr("dtype", AttrKind::TYPE)
            .flags(STATEFUL),
    ]
}
register_ops!(defs);
