//! Labels: the targets of jumps, and the detection of endless loops.
use crate::plan::{Op, Stream, Task};
use ge_plugin_api::device::DeviceTask;
use ge_plugin_api::task::TaskType;
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};

/// Positions of all labels.
pub struct Labels {
    /// For each label, its stream and its position on it.
    places: Vec<Option<(u32, u32)>>,
}

impl Labels {
    /// Finds every LABEL_SET; each of the `count` labels must be set exactly once.
    pub fn collect(tasks: &[DeviceTask], streams: &[Stream], count: u32) -> Result<Labels> {
        // Each label is set by a task, so more labels than tasks means a gap; refuse before
        // allocating.
        if count as usize > tasks.len() {
            return Err(Error::damaged(format!("the model has {count} labels, more than its {} tasks", tasks.len())));
        }
        let mut places = vec![None; count as usize];
        for (s, stream) in streams.iter().enumerate() {
            for (position, &id) in stream.tasks.iter().enumerate() {
                let t = &tasks[id as usize];
                if t.kind != TaskType::LABEL_SET.code() {
                    continue;
                }
                let bad = |m: String| {
                    let m = format!("task {id} (LABEL_SET) {m}");
                    Err(Diagnostic::error(m).node(t.node.as_str(), t.op.as_str()).of(ErrorKind::DAMAGED))
                };
                let label = t.numbers.first().copied().unwrap_or(-1);
                match usize::try_from(label).ok().and_then(|l| places.get_mut(l)) {
                    None => return bad(format!("sets label {label}, the model has {count}")),
                    Some(Some(_)) => return bad(format!("sets label {label}, which is set already")),
                    Some(p) => *p = Some((s as u32, position as u32)),
                }
            }
        }
        match places.iter().position(Option::is_none) {
            Some(gap) => Err(Error::damaged(format!("label {gap} of {count} is set by no task: label ids have a gap"))),
            None => Ok(Labels { places }),
        }
    }
    /// The position of a label that a task jumps to; the label must be on the task's own stream.
    pub fn position(&self, id: usize, t: &DeviceTask, label: i64) -> Result<u32> {
        let bad = |m: String| {
            let m = format!("task {id} ({}) {m}", TaskType(t.kind));
            Err(Diagnostic::error(m).node(t.node.as_str(), t.op.as_str()).of(ErrorKind::DAMAGED))
        };
        match usize::try_from(label).ok().and_then(|l| self.places.get(l).copied().flatten()) {
            None => bad(format!("jumps to label {label}, the model has {}", self.places.len())),
            Some((s, _)) if s != t.stream => bad(format!("jumps to label {label}, which stands on stream {s}")),
            Some((_, position)) => Ok(position),
        }
    }
}

/// Refuses a stream that has a reachable position from which the end cannot be reached: an endless
/// loop.
pub fn refuse_endless(streams: &[Stream], tasks: &[Task], targets: &[u32]) -> Result<()> {
    for (s, stream) in streams.iter().enumerate() {
        let n = stream.tasks.len();
        let op = |p: usize| tasks[stream.tasks[p] as usize].op;
        if !(0..n).any(|p| matches!(op(p), Op::Goto(_) | Op::SwitchByIndex { .. })) {
            continue;
        }
        let follow = |p: usize, visit: &mut dyn FnMut(usize)| match op(p) {
            Op::Goto(to) => visit(to as usize),
            Op::SwitchByIndex { first, count } => {
                targets[first as usize..(first + count) as usize].iter().for_each(|t| visit(*t as usize))
            }
            Op::End | Op::Exit => visit(n),
            _ => visit(p + 1),
        };
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); n + 1];
        for p in 0..n {
            follow(p, &mut |q| before[q].push(p as u32));
        }
        let mut reached = vec![false; n + 1];
        let mut ends = vec![false; n + 1];
        let mut stack = vec![0usize];
        while let Some(p) = stack.pop() {
            if !std::mem::replace(&mut reached[p], true) && p < n {
                follow(p, &mut |q| stack.push(q));
            }
        }
        stack.push(n);
        while let Some(p) = stack.pop() {
            if !std::mem::replace(&mut ends[p], true) {
                stack.extend(before[p].iter().map(|q| *q as usize));
            }
        }
        if let Some(p) = (0..n).find(|&p| reached[p] && !ends[p]) {
            let t = &tasks[stream.tasks[p] as usize];
            let m = format!(
                "stream {s} cannot reach its end from task {} ({}): its jumps loop for ever",
                stream.tasks[p], t.kind
            );
            return Err(Diagnostic::error(m).node(t.node.as_str(), t.node_op.as_str()).of(ErrorKind::DAMAGED));
        }
    }
    Ok(())
}
