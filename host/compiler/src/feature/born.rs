//! Names of sizes that come into being inside a graph. If the size of an operator's output is
//! neither known nor an expression of names, it gets a name of its own, so that all later nodes
//! know which sizes are equal.
//!
//! A name says where a size comes from, not how large it is: two sizes have the same name only if
//! they are always equal.
//! - An elementwise output size is a function of the set of input sizes that meet in it: `[a]` and
//!   `[b]` give the same size in every such operator, and combining that size with `[a]` again does
//!   not change it.
//! - Other operators whose output sizes depend only on sizes, constants and attributes give equal
//!   sizes for equal inputs.
//! - A size that depends on values gets a name that only this node has.
//!
//! Inside a called graph a name holds for one execution of the graph; it is not passed to the
//! outside.
use crate::toolbox::Toolbox;
use ge_ir::{AttrValue, Dim, Graph, Node, TensorDesc};
use ge_plugin_api::ops::{VALUE, flags};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Prefix of such a name.
const PREFIX: &str = "_b";
/// Number of hexadecimal digits after the prefix.
const DIGITS: usize = 12;
/// Constant inputs of at most this many bytes count among what identifies a node's sizes, even if
/// the prototype does not say that their values decide the sizes.
const MOST_BYTES: usize = 1024;

/// The names of one compilation.
#[derive(Debug, Default)]
pub struct Born {
    on: AtomicBool,
    /// For each name of a meeting: the names of the sizes that meet in it.
    met: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Born {
    /// Starts the naming of sizes. Before this call, when a graph is only inspected, [`Born::name`]
    /// does nothing.
    pub fn begin(&self) {
        self.on.store(true, Ordering::Relaxed);
    }
    /// Whether a size has a name of this kind, or an expression that contains one.
    pub fn is(d: Dim) -> bool {
        let born = |w: &str| {
            let digits = w.strip_prefix(PREFIX);
            digits.is_some_and(|d| d.len() == DIGITS && d.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        d.symbol_name().is_some_and(|n| n.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(born))
    }

    /// Element type and shape as messages show them: sizes with names of this kind appear as
    /// unknown.
    pub fn told(d: &TensorDesc) -> String {
        let mut shape = d.shape.clone();
        if !shape.is_unranked() {
            shape.dims_mut().iter_mut().filter(|d| Self::is(**d)).for_each(|d| *d = Dim::UNKNOWN);
        }
        format!("{}{shape}", d.dtype)
    }

    /// Names the unknown sizes of a node's outputs. `by_node`: nothing but the node itself says
    /// what they are.
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

    /// The name of the size in which the input sizes of a node meet that stand `from_end`
    /// dimensions before the end. Sizes of 1 do not count. `None` if an input has no known rank or
    /// one of these sizes has no name.
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

/// Text of everything that determines a node's output sizes. `None` if they depend on values that
/// are known only in a run, or if the text would not be exact.
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

/// The name that belongs to a text: its FNV-1a hash, folded to 48 bits.
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
