//! The arguments of a task, in the order of its args format, and where each of them lies.
use crate::error::RuntimeError;
use crate::place::{NULL, Places};
use ge_model::{CompiledModel, NodeInfo, TaskInfo};
use ge_plugin_api::device::Place;
use ge_plugin_api::engine::ArgInfo;
use ge_plugin_api::task::TaskType;
use ge_plugin_api::types::{AttrValue, TensorDesc};

/// One argument, as the model describes it.
struct Argument<'m> {
    kind: &'m str,
    index: u32,
    desc: Option<&'m TensorDesc>,
    bytes: u64,
    place: Place,
}

impl Argument<'_> {
    fn info(&self) -> ArgInfo {
        ArgInfo { kind: self.kind.into(), index: self.index, desc: self.desc.cloned().into(), bytes: self.bytes }
    }
    fn is(&self, a: &ArgInfo) -> bool {
        a.kind.as_str() == self.kind
            && (a.index, a.bytes) == (self.index, self.bytes)
            && a.desc.as_ref().into_option() == self.desc
    }
}

/// The arguments of a task in `args_format` order, and their places.
///
/// # Errors
/// Fails if the args format is malformed or names something that the node does not have.
pub(crate) fn arguments(
    m: &CompiledModel,
    places: &Places,
    t: &TaskInfo,
    node: &NodeInfo,
) -> Result<(Vec<ArgInfo>, Vec<Place>), RuntimeError> {
    let (mut args, mut spots) = (Vec::new(), Vec::new());
    each(m, places, t, node, &mut |a| {
        args.push(a.info());
        spots.push(a.place);
    })?;
    Ok((args, spots))
}

/// The places of a task's arguments if the arguments equal `these`, otherwise `None`.
///
/// # Errors
/// Fails like [`arguments`].
pub(crate) fn places_of(
    m: &CompiledModel,
    places: &Places,
    t: &TaskInfo,
    node: &NodeInfo,
    these: &[ArgInfo],
) -> Result<Option<Vec<Place>>, RuntimeError> {
    let mut spots = Vec::with_capacity(these.len());
    let mut same = true;
    each(m, places, t, node, &mut |a| {
        same &= these.get(spots.len()).is_some_and(|b| a.is(b));
        spots.push(a.place);
    })?;
    Ok((same && spots.len() == these.len()).then_some(spots))
}

fn each<'m>(
    m: &'m CompiledModel,
    places: &Places,
    t: &'m TaskInfo,
    node: &'m NodeInfo,
    take: &mut dyn FnMut(Argument<'m>),
) -> Result<(), RuntimeError> {
    let damaged = |what: String| RuntimeError::Damaged { what };
    for item in t.args_format.split_inclusive('}') {
        let Some(inner) = item.strip_prefix('{').and_then(|i| i.strip_suffix('}')) else {
            return Err(damaged(format!("`{}` is no args format (node `{}`)", t.args_format, node.name)));
        };
        let plain = inner.strip_suffix('*').unwrap_or(inner);
        let numbered = |prefix: &str| {
            plain
                .strip_prefix(prefix)
                .filter(|d| d.len() <= 6 && d.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|d| d.parse::<u32>().ok())
        };
        let (kind, index, found) = if let Some(n) = numbered("ws") {
            let w = node.workspaces.get(n as usize);
            let w = w.ok_or_else(|| damaged(format!("`{}` has no workspace {n}", node.name)))?;
            ("w", n, Some((None, places.of(m, w, w.size)?)))
        } else if let Some(n) = numbered("i") {
            let v = places.input(m, t.graph, node, n as usize)?;
            ("i", n, v.map(|(d, p)| (Some(d), p)))
        } else if let Some(n) = numbered("o") {
            let v = places.output(m, node, n as usize)?;
            let v = v.ok_or_else(|| damaged(format!("`{}` has no output {n}", node.name)))?;
            ("o", n, Some((Some(v.0), v.1)))
        } else {
            (plain, 0, places.context(t.graph, t.node, plain).map(|p| (None, p)))
        };
        let (desc, place) = found.unwrap_or((None, NULL));
        take(Argument { kind, index, desc, bytes: place.bytes, place });
    }
    if t.kind == TaskType::PREPROCESS_KERNEL.code() {
        // A tiling function receives, through its context, the descriptors of all inputs and
        // outputs and the values of those inputs that tiling reads.
        let values = value_inputs(node);
        for i in 0..node.inputs.len() {
            let Some((d, p)) = places.input(m, t.graph, node, i)? else { continue };
            let place = if values.contains(&(i as i64)) { p } else { NULL };
            take(Argument { kind: "i", index: i as u32, desc: Some(d), bytes: p.bytes, place });
        }
        for k in 0..node.outputs.len() {
            let Some((d, p)) = places.output(m, node, k)? else { continue };
            take(Argument { kind: "o", index: k as u32, desc: Some(d), bytes: p.bytes, place: NULL });
        }
    }
    Ok(())
}

/// Indices of the inputs whose values the node's tiling reads, from its attached-stream attributes.
pub(crate) fn value_inputs(node: &NodeInfo) -> Vec<i64> {
    let Some(AttrValue::List(list)) = node.attrs.get("_attached_stream_info_list") else { return Vec::new() };
    let named = |d: &AttrValue| {
        let e = d.as_dict()?.iter().find(|e| e.key.as_str() == "_attached_resource_depend_value_list_int")?;
        Some(e.value.as_ints()?.to_vec())
    };
    list.iter().filter_map(named).flatten().collect()
}
