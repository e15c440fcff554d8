//! `ge run MODEL` with inputs at hand: the inputs settle what the model leaves open. Open
//! dimensions take the sizes of the inputs. Where sizes depend on values (a Reshape to an input,
//! the positions of a NonZero), the values become constants: first small integer tensors, which
//! usually hold shapes, then all inputs. The folding engine then computes what no static plan can
//! hold.
use crate::commands::flags::Global;
use crate::commands::talk::say;
use crate::session::{Compiled, Session, import};
use crate::{Error, Result};
use ge_ir::{Model, NodeId};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{DType, TensorDesc};

/// Integer tensors of at most this many bytes are assumed to hold shapes.
const SHAPE_BYTES: usize = 1024;

/// An input of a graph that is not compiled yet: name, node, declared type and shape.
pub type Input = (String, NodeId, TensorDesc);

/// The inputs of a model, in order.
pub fn inputs(model: &Model) -> Vec<Input> {
    let Some(root) = model.graphs().first() else { return Vec::new() };
    let data = root.data_nodes().into_iter();
    let desc = |n: &ge_ir::Node| n.outputs().first().cloned().unwrap_or_else(TensorDesc::unknown);
    data.map(|n| (n.name().to_owned(), n.id(), desc(n))).collect()
}

/// Compiles a model for these inputs.
pub fn compile(
    global: &Global,
    session: &Session,
    name: &str,
    mut model: Model,
    options: &crate::options::OptionMap,
    given: &[HostTensor],
    observer: &dyn ge_compiler::pipeline::Observer,
) -> Result<Compiled> {
    let list = inputs(&model);
    for ((_, id, _), t) in list.iter().zip(given) {
        bind_shape(&mut model, *id, t);
    }
    let whole =
        |t: &HostTensor| matches!(t.dtype, DType::I64 | DType::I32 | DType::BOOL) && t.bytes().len() <= SHAPE_BYTES;
    let (mut first, mut dynamic, mut attempts) = (None, None, 0);
    for frozen in [(|_: &HostTensor| false) as fn(&HostTensor) -> bool, whole, |_| true] {
        let mut graph = model.clone();
        let mut any = false;
        for ((_, id, _), t) in list.iter().zip(given).filter(|(_, t)| frozen(t)) {
            any |= freeze(&mut graph, *id, t)?;
        }
        if attempts > 0 && !any {
            continue;
        }
        match session.compile(name, graph, options, observer) {
            // A plan for these values is faster than one that settles sizes in the run.
            Ok(c) if c.model.is_dynamic() => dynamic = dynamic.or(Some(c)),
            Ok(c) => {
                if attempts > 0 {
                    say(global, "note: sizes hang on values of the inputs: the model is compiled for these values");
                }
                return Ok(c);
            }
            Err(e) if !open_sizes(&e) => return dynamic.ok_or(first.unwrap_or(e)),
            Err(e) => first = first.or(Some(e)),
        }
        attempts += 1;
    }
    dynamic.ok_or_else(|| first.unwrap_or_else(|| Error::internal("no attempt was made")))
}

/// Errors about sizes: they are unknown, or belong to a branch or a loop that these inputs never
/// take.
const SIZES: &[ge_codes::Code] = &[ge_codes::OPEN_SIZES, ge_codes::CONTROL_FLOW, ge_codes::BRANCH];

/// Whether all problems are about sizes, so that values of the inputs may help.
fn open_sizes(e: &Error) -> bool {
    !e.diagnostics.is_empty() && e.diagnostics.iter().all(|d| SIZES.iter().any(|c| c.is(d)))
}

/// Gives an input the sizes of its tensor if they match its declaration; a mismatch is reported by
/// the run.
fn bind_shape(model: &mut Model, id: NodeId, t: &HostTensor) {
    let Some(root) = model.graphs_mut().first_mut() else { return };
    let Some(old) = root.get(id).and_then(|n| n.outputs().first().cloned()) else { return };
    let open = old.shape.is_unranked();
    let fits = open
        || old.shape.rank() == Some(t.dims.len())
            && old.shape.dims().iter().zip(t.dims.iter()).all(|(d, n)| d.size().is_none_or(|s| s == *n));
    if fits && old.shape.sizes().is_none() {
        let mut desc = old;
        desc.shape = ge_ir::Shape::new(t.dims.iter().map(|n| ge_ir::Dim::known(*n)));
        root.set_outputs(id, vec![desc]);
    }
}

/// Fixes an input to its value, if any node reads it. Returns whether one does.
fn freeze(model: &mut Model, id: NodeId, t: &HostTensor) -> Result<bool> {
    let read = model.graphs().first().and_then(|g| g.get(id)).is_some_and(|n| !n.uses(0).is_empty());
    if read {
        import::fix_input(model, id, t)?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Diagnostic;

    /// A further attempt, with input values as constants, costs a whole compilation, so only errors
    /// about sizes may lead to one. A pass that cannot be switched off must not.
    #[test]
    fn only_faults_of_sizes_are_compiled_again() {
        for p in ge_codes::pages() {
            let e = Diagnostic::error("x").raise(p.code);
            let again = matches!(p.code.text(), "GE-E0342" | "GE-E0350" | "GE-E0351");
            assert_eq!(open_sizes(&e), again, "{}", p.code.text());
        }
        let both = vec![ge_codes::OPEN_SIZES.say("x"), ge_codes::FIXED_PASS.say("y")];
        assert!(!open_sizes(&ge_codes::OPEN_SIZES.all(both)));
    }
}
