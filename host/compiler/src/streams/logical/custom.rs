//! Custom stream passes (stage AfterAssignLogicStream): plugins may move nodes by setting or
//! removing `_stream_id`, and may do nothing else, because the graph does not change while streams
//! are allocated.
use super::context::NONE;
use crate::error::{CompileError, Result};
use crate::pass::Switches;
use ge_ir::{AttrValue, Model, NodeId};
use ge_plugin::PassHandle;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::pass::PassStage;
use ge_plugin_api::patch::Edit;

/// Stream ids must be less than this.
const MOST: i64 = 1 << 20;

/// Runs the enabled passes in plugin order on each graph. Returns whether one has moved a node.
/// `streams` holds the stream of each graph's nodes and is updated.
///
/// # Errors
/// Returns the error of a pass, or an error that names the pass if it edits anything but
/// `_stream_id`.
pub fn run(model: &Model, switches: &Switches<'_>, streams: &mut [Vec<u32>]) -> Result<bool> {
    let stage = PassStage::AFTER_ASSIGN_LOGIC_STREAM;
    let enabled = |p: &&PassHandle| p.info.stage == stage && switches.enabled(p.name(), p.info.level, None);
    let passes: Vec<&PassHandle> = switches.toolbox().passes.iter().filter(enabled).collect();
    let mut moved = false;
    if passes.is_empty() {
        return Ok(moved);
    }
    // Passes see the streams as attributes of a copy of the model.
    let mut seen = model.clone();
    for (gi, (g, of)) in model.graphs().iter().zip(streams.iter()).enumerate() {
        for &id in g.order() {
            note(&mut seen, gi, id, of[id.index()]);
        }
    }
    for pass in passes {
        for (gi, of) in streams.iter_mut().enumerate() {
            let edits = {
                let context = switches.toolbox().lend(&seen, gi);
                pass.run(&context.graph())?
            };
            moved |= apply(pass.name(), edits, &mut seen, gi, of)?;
        }
    }
    Ok(moved)
}

/// Moves nodes of one graph as a pass requests. Returns whether one has moved.
fn apply(pass: &str, edits: Vec<Edit>, seen: &mut Model, gi: usize, streams: &mut [u32]) -> Result<bool> {
    let mut moved = false;
    for edit in edits {
        let (id, to) = match &edit {
            Edit::SetAttr(id, a) if a.key.as_str() == "_stream_id" => match &a.value {
                AttrValue::Int(s) if (0..MOST).contains(s) => (*id, *s as u32),
                _ => return Err(refused(pass, &edit)),
            },
            Edit::RemoveAttr(id, key) if key.as_str() == "_stream_id" => (*id, NONE),
            _ => return Err(refused(pass, &edit)),
        };
        let there = seen.graphs()[gi].get(id).is_some();
        let Some(slot) = streams.get_mut(id.index()).filter(|_| there) else {
            return Err(refused(pass, &edit));
        };
        moved |= *slot != to;
        *slot = to;
        note(seen, gi, id, to);
    }
    Ok(moved)
}

fn note(model: &mut Model, gi: usize, id: NodeId, stream: u32) {
    let g = &mut model.graphs_mut()[gi];
    if stream == NONE {
        g.remove_attr(id, "_stream_id");
    } else {
        g.set_attr(id, "_stream_id", i64::from(stream));
    }
}

fn refused(pass: &str, edit: &Edit) -> CompileError {
    let what = format!("{edit:?}");
    let what: String = what.chars().take(120).collect();
    let d = Diagnostic::error(format!(
        "pass {pass} changes the graph while streams are allocated: it may set `_stream_id` (0 to {}) and nothing else",
        MOST - 1
    ));
    CompileError::model(ge_codes::PLUGIN_EDIT, d.note(format!("its edit: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::{Attr, Key};

    fn model() -> Model {
        let text = "graph @g(%x: f32[2]) { %a = Relu(%x) : f32[2] %b = Relu(%a) : f32[2] return %b }";
        ge_ir::text::parse(text, "t.ge", &ge_ir::text::NoFiles).expect("a graph")
    }
    fn set(id: NodeId, key: &str, value: i64) -> Edit {
        Edit::SetAttr(id, Attr { key: Key::new(key), value: value.into() })
    }

    #[test]
    fn nodes_move_and_nothing_else_changes() {
        let mut m = model();
        let (a, b) = (m.root().find("a").expect("a").id(), m.root().find("b").expect("b").id());
        let mut streams = vec![0; m.root().id_bound()];
        assert!(!apply("P", vec![set(a, "_stream_id", 0)], &mut m, 0, &mut streams).expect("allowed"));
        assert!(apply("P", vec![set(b, "_stream_id", 3)], &mut m, 0, &mut streams).expect("allowed"));
        assert_eq!((streams[a.index()], streams[b.index()]), (0, 3));
        // A later pass sees the current streams of nodes.
        assert_eq!(m.root().get(b).and_then(|n| n.attrs().int("_stream_id")), Some(3));
    }

    #[test]
    fn any_other_edit_is_refused_by_the_pass_s_name() {
        let mut m = model();
        let a = m.root().find("a").expect("a").id();
        let mut streams = vec![0; m.root().id_bound()];
        let edits = [
            set(a, "_stream_label", 1),
            set(a, "_stream_id", -1),
            set(a, "_stream_id", MOST),
            set(NodeId(99), "_stream_id", 0),
            Edit::RemoveNode(a),
            Edit::SetName(a, "c".into()),
        ];
        for e in edits {
            let why = apply("BadPass", vec![e], &mut m, 0, &mut streams).expect_err("refused").to_string();
            assert!(why.contains("BadPass changes the graph while streams are allocated"), "{why}");
        }
        assert!(streams.iter().all(|s| *s == 0));
    }
}
