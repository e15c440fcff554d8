//! Streams and labels. `numbers` are those of `ge_plugin_api::task::Task`; the host replaces them
//! by stream ids once streams are physical.
use ge_plugin_api::task::{Task, TaskType};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};

fn missing(node: &Node<'_>, attribute: &str) -> Error {
    let text = format!("{} `{}` has no `{attribute}`", node.op(), node.name());
    Diagnostic::error(text).node(node.name(), node.op()).subject(attribute).of(ErrorKind::FAILED)
}

fn label(node: &Node<'_>) -> Result<i64> {
    node.int("_label_index")
        .or_else(|| node.int("label_id"))
        .filter(|l| *l >= 0)
        .ok_or_else(|| missing(node, "_label_index"))
}

/// One task for each stream of `active_stream_list`: task k activates the k-th stream. A node that
/// activates no stream gets a task that does nothing.
pub fn stream_active(node: &Node<'_>) -> Result<Vec<Task>> {
    let list = node.ints("active_stream_list").unwrap_or_default();
    if list.is_empty() {
        return Ok(vec![Task::new(TaskType::NOP)]);
    }
    let one = |k: usize| Task { numbers: vec![k as i64].into(), ..Task::new(TaskType::STREAM_ACTIVE) };
    Ok((0..list.len()).map(one).collect())
}

/// Compares input 0 with input 1 and activates the only stream of `active_stream_list` if the
/// condition holds.
pub fn stream_switch(node: &Node<'_>) -> Result<Vec<Task>> {
    let list = node.ints("active_stream_list").ok_or_else(|| missing(node, "active_stream_list"))?;
    if list.len() != 1 {
        let text =
            format!("StreamSwitch `{}` activates {} streams, a switch can activate one", node.name(), list.len());
        return Err(Diagnostic::error(text).node(node.name(), node.op()).of(ErrorKind::FAILED));
    }
    let condition =
        node.int("switch_condition").or_else(|| node.int("cond")).ok_or_else(|| missing(node, "switch_condition"))?;
    if !(0..=5).contains(&condition) {
        let text = format!("StreamSwitch `{}` has condition {condition}, there are 0 to 5", node.name());
        return Err(Diagnostic::error(text)
            .node(node.name(), node.op())
            .subject("switch_condition")
            .of(ErrorKind::FAILED));
    }
    let wide = node.int("_switch_data_type").unwrap_or(0);
    Ok(vec![Task {
        numbers: vec![condition, wide, 0].into(),
        operands: "{i0*}{i1*}".into(),
        ..Task::new(TaskType::STREAM_SWITCH)
    }])
}

/// Sets a label.
pub fn label_set(node: &Node<'_>) -> Result<Vec<Task>> {
    Ok(vec![Task { numbers: vec![label(node)?].into(), ..Task::new(TaskType::LABEL_SET) }])
}

/// Jumps to a label.
pub fn label_goto(node: &Node<'_>) -> Result<Vec<Task>> {
    Ok(vec![Task { numbers: vec![label(node)?].into(), ..Task::new(TaskType::STREAM_LABEL_GOTO) }])
}

/// Jumps to the label of `label_list` that input 0 selects; an index beyond the list selects the
/// last one.
pub fn label_switch(node: &Node<'_>) -> Result<Vec<Task>> {
    let labels = node.ints("_label_switch_list").or_else(|| node.ints("label_list")).unwrap_or_default();
    if labels.is_empty() {
        return Err(missing(node, "label_list"));
    }
    Ok(vec![Task {
        numbers: labels.into(),
        operands: "{i0*}".into(),
        ..Task::new(TaskType::STREAM_LABEL_SWITCH_BY_INDEX)
    }])
}
