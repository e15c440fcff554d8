//! Names of sizes that are born inside a graph: what an operator gives whose size is neither
//! known nor an expression of names gets a name of its own, so that everything behind it knows
//! which sizes are equal.
//!
//! A name says where a size comes from, never how large it is: two sizes have one name only where
//! one cannot be without the other.
//! - Sizes of what is computed element by element are a function of the set of sizes that meet:
//!   `[a]` and `[b]` give the same size in every operator, and that with `[a]` once more does, too.
//! - Other operators whose sizes hang on sizes, constants and attributes alone give equal sizes for
//!   equal ones.
//! - What hangs on values is the node's own.
//!
//! In a graph that is called a name holds for one turn of it: it is told nobody outside.
use crate::toolbox::Toolbox;
use ge_ir::{AttrValue, Dim, Graph, Node, TensorDesc};
use ge_plugin_api::ops::{VALUE, flags};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What such a name begins with.
const PREFIX: &str = "_b";
/// Digits behind it.
const DIGITS: usize = 12;
/// Values of an input that are part of what its reader is known by, in bytes.
const MOST_BYTES: usize = 1024;

/// Names of one compilation.
#[derive(Debug, Default)]
pub struct Born {
    on: AtomicBool,
    /// The sizes that meet in one, by its name.
    met: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Born {
    /// From now on sizes are named: the graph is compiled, not only looked at.
    pub fn begin(&self) {
        self.on.store(true, Ordering::Relaxed);
    }
    /// Whether a size has a name of this kind, or one made of such.
    pub fn is(d: Dim) -> bool {
        let born = |w: &str| {
            let digits = w.strip_prefix(PREFIX);
            digits.is_some_and(|d| d.len() == DIGITS && d.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        d.symbol_name().is_some_and(|n| n.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(born))
    }

    /// A type and a shape for people: sizes of such names are open.
    pub fn told(d: &TensorDesc) -> String {
        let mut shape = d.shape.clone();
        if !shape.is_unranked() {
            shape.dims_mut().iter_mut().filter(|d| Self::is(**d)).for_each(|d| *d = Dim::UNKNOWN);
        }
        format!("{}{shape}", d.dtype)
    }

    /// Names what is unknown of a node's outputs. `by_node`: nothing else says what they are.
    pub fn name(&self, toolbox: &Toolbox, g: &Graph, n: &Node, outputs: &mut [TensorDesc], by_node: bool) {
        let open = |d: &TensorDesc| !d.shape.is_unranked() && d.shape.dims().contains(&Dim::UNKNOWN);
        if !self.on.load(Ordering::Relaxed) || !outputs.iter().any(open) {
            return;
        }
        let flags = toolbox.op_flags(n.op_key());
        let meet = !by_node && flags & flags::ELEMENTWISE != 0;
        let known_by = if by_node || meet { None } else { content(toolbox, g, n, flags) };
        let known_by = known_by.unwrap_or_else(|| format!("node {}/{}", g.name(), n.name()));
        for (k, d) in outputs.iter_mut().enumerate().filter(|(_, d)| !d.shape.is_unranked()) {
            let rank = d.shape.dims().len();
            for (axis, dim) in d.shape.dims_mut().iter_mut().enumerate().filter(|(_, d)| **d == Dim::UNKNOWN) {
                let met = if meet { self.meeting(g, n, rank - axis) } else { None };
                let name = met.unwrap_or_else(|| named(&format!("{known_by} {k} {axis}")));
                *dim = Dim::symbol(&name);
            }
        }
    }

    /// The name of the size in which those of a node's inputs meet that stand `from_end` dimensions
    /// before the end; None: one of them has no name.
    fn meeting(&self, g: &Graph, n: &Node, from_end: usize) -> Option<String> {
        let mut all: BTreeSet<String> = BTreeSet::new();
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        for i in 0..n.inputs().len() {
            let Some(d) = g.input_desc(n, i) else { continue };
            let Some(dim) = d.shape.rank()?.checked_sub(from_end).and_then(|at| d.shape.dims().get(at)) else {
                continue;
            };
            match (dim.size(), dim.symbol_name()) {
                (Some(1), _) => {}
                (_, Some(name)) => match met.get(name) {
                    Some(others) => all.extend(others.iter().cloned()),
                    None => drop(all.insert(name.to_owned())),
                },
                _ => return None,
            }
        }
        let mut text = String::from("meet");
        all.iter().for_each(|m| text.extend([" ", m.as_str()]));
        let name = named(&text);
        met.insert(name.clone(), all);
        Some(name)
    }
}

/// What the sizes of a node hang on, where that is no value of a run.
fn content(toolbox: &Toolbox, g: &Graph, n: &Node, flags: u64) -> Option<String> {
    if flags & (flags::DATA_DEPENDENT_SHAPE | flags::STATEFUL) != 0 {
        return None;
    }
    let proto = &toolbox.op(n.op_key())?.proto;
    let mut out = n.op().to_owned();
    for a in n.attrs().sorted() {
        if a.key.as_str().starts_with('_') {
            continue;
        }
        if matches!(a.value, AttrValue::Tensor(_) | AttrValue::Graph(_) | AttrValue::List(_) | AttrValue::Dict(_)) {
            return None;
        }
        write!(out, " {}={:?}", a.key.as_str(), a.value).ok()?;
    }
    for (i, v) in n.inputs().iter().enumerate() {
        if v.is_absent() {
            out.push_str(" -");
            continue;
        }
        let d = g.desc(*v).filter(|d| !d.shape.is_unranked() && !d.shape.dims().contains(&Dim::UNKNOWN))?;
        write!(out, " {}{}", d.dtype, d.shape).ok()?;
        let decides = proto.value_inputs.iter().any(|k| usize::try_from(*k) == Ok(i));
        let bytes = g.constant(*v).and_then(|t| t.bytes()).filter(|b| decides || b.len() <= MOST_BYTES);
        match (bytes, d.attrs.get(VALUE)) {
            (Some(b), _) => write!(out, "={:?}", &b[..]).ok()?,
            (None, Some(AttrValue::Strs(list))) if list.iter().all(|t| t != "?") => write!(out, "={list:?}").ok()?,
            _ if decides => return None,
            _ => {}
        }
    }
    Some(out)
}

/// The name for what a text says (FNV-1a, its halves folded).
fn named(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{PREFIX}{:012x}", (hash ^ (hash >> 48)) & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::{DType, Shape};

    #[test]
    fn names_of_this_kind_are_told_from_others() {
        let name = named("node x 0 0");
        assert!(name.len() == PREFIX.len() + DIGITS && name != named("node x 0 1"));
        assert!(Born::is(Dim::symbol(&name)) && Born::is(Dim::symbol(&format!("({name}+1)/2"))));
        let desc = TensorDesc::new(DType::F32, Shape::new([Dim::symbol(&name), Dim::symbol("_batch"), Dim::known(3)]));
        assert_eq!(Born::told(&desc), "f32[?,_batch,3]");
        assert!(!Born::is(Dim::symbol("_batch")) && !Born::is(Dim::known(3)) && !Born::is(Dim::UNKNOWN));
    }
}
