//! Records and waits of the operators Send, Recv, SendNotify, RecvNotify.
use ge_plugin_api::task::{Task, TaskType};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Diagnostic, ErrorKind, Result};

/// Makes the task. Its numbers are the event; or the notify and its rank (-1 for the own rank).
pub fn task(node: &Node<'_>, kind: TaskType, attribute: &str) -> Result<Vec<Task>> {
    let id = node.int(attribute).filter(|id| *id >= 0).ok_or_else(|| {
        let text = format!("{} `{}` has no `{attribute}`", node.op(), node.name());
        Diagnostic::error(text).node(node.name(), node.op()).subject(attribute).of(ErrorKind::FAILED)
    })?;
    let numbers = if attribute == "event_id" { vec![id] } else { vec![id, node.int("rank").unwrap_or(-1)] };
    Ok(vec![Task { numbers: numbers.into(), ..Task::new(kind) }])
}
