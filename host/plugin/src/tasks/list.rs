//! Rules for the task list of a node as a whole: written outputs, available streams and events,
//! promised task counts.
use super::args_format::{ArgItem, Arity};
use super::one::{Seen, check_one};
use super::{Broken, Rule};
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::RunningParams;
use ge_plugin_api::task::{StreamSlot, TILING_SINK_BLOCK_DIM, Task, TaskType};

/// Limit of workspaces in bytes if the SoC does not state its memory.
const MOST_MEMORY: u64 = 1 << 47;

/// Tells whether the kernel store has a kernel with this name.
pub type Stored<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// What a node has and was given; its task list is checked against this.
#[derive(Clone, Copy)]
pub struct Granted<'a> {
    /// Number of inputs.
    pub inputs: usize,
    /// For each output, whether something reads it. Outputs that are read must be written.
    pub read: &'a [bool],
    /// What its engine has asked for.
    pub params: &'a RunningParams,
    /// Number of its attached streams; `None` if they are not assigned yet.
    pub attached: Option<usize>,
    /// Its events and notifies (`true` for a notify); `None` if they are not assigned yet.
    pub sync: Option<&'a [bool]>,
    /// The kernel store; `None` if it is not known yet.
    pub stored: Option<Stored<'a>>,
    /// The SoC that the model is compiled for.
    pub soc: &'a SocSpec,
}

/// Marks the outputs that an operand list writes.
pub fn written(items: &[ArgItem], outputs: &mut [bool]) {
    for item in items {
        match item {
            ArgItem::Output { index, .. } => outputs.iter_mut().skip(*index as usize).take(1).for_each(|o| *o = true),
            // Through their descriptors or instances a kernel reaches all outputs.
            ArgItem::OutputDesc | ArgItem::OutputInstance(_) => outputs.fill(true),
            _ => {}
        }
    }
}

/// Checks the task list of a node against all rules.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(tasks: &[Task], has: &Granted<'_>) -> Result<(), Broken> {
    workspaces(has.params, has.soc)?;
    let sync = has.sync.map_or(has.params.sync.len(), <[bool]>::len);
    let arity = Arity {
        inputs: has.inputs,
        outputs: has.read.len(),
        workspaces: has.params.workspaces.len(),
        // Until events are assigned, an attached stream may bring any number of them.
        events: if has.sync.is_some() { sync } else { usize::MAX },
    };
    let mut done = vec![false; has.read.len()];
    for (k, task) in tasks.iter().enumerate() {
        let items = check_one(&Seen::of(task), arity).map_err(|b| b.of(k))?;
        of_engine(tasks, k, has).map_err(|b| b.of(k))?;
        let mut own = vec![false; has.read.len()];
        written(&items, &mut own);
        if own.contains(&true) && tasks[..k].contains(task) {
            return Err(Broken::new(Rule::T12, format!("({}) stands there twice", task.kind())).of(k));
        }
        done.iter_mut().zip(own).for_each(|(d, o)| *d |= o);
    }
    let several = tasks.iter().any(|t| Seen::of(t).is_several());
    if let Some(k) = (0..done.len()).find(|k| has.read[*k] && !done[*k] && !several) {
        let what = match tasks.len() {
            0 => format!("the list is empty, output {k} is read"),
            n => format!("none of {n} tasks writes output {k}, which is read"),
        };
        return Err(Broken::new(Rule::T1, what));
    }
    let promised = has.params.task_count as usize;
    let main = tasks.iter().filter(|t| t.stream.0 < 0).count();
    if promised != 0 && promised != main {
        return Err(Broken::new(Rule::T13, format!("{main} tasks on the main stream, {promised} were promised")));
    }
    Ok(())
}

/// Checks the workspaces that an engine asks for against the SoC's memory.
pub(crate) fn workspaces(params: &RunningParams, soc: &SocSpec) -> Result<(), Broken> {
    let limit = Some(soc.memory_bytes).filter(|n| *n > 0).unwrap_or(MOST_MEMORY);
    let all = params.workspaces.iter().fold(0u64, |n, w| n.saturating_add(w.bytes));
    if all > limit {
        return Err(Broken::new(Rule::T14, format!("workspaces of {all} bytes, the SoC has {limit}")));
    }
    Ok(())
}

/// Checks rules that apply only to lists from engines: their own streams, events, kernels and
/// sizes.
fn of_engine(tasks: &[Task], k: usize, has: &Granted<'_>) -> Result<(), Broken> {
    let task = &tasks[k];
    let kind = task.kind();
    if kind == TaskType::END_GRAPH {
        return Err(Broken::new(Rule::T5, format!("({kind}) is the host's to give")));
    }
    if let (Ok(slot), Some(n)) = (usize::try_from(task.stream.0), has.attached)
        && slot >= n
    {
        return Err(Broken::new(Rule::T9, format!("({kind}) stands on attached stream {slot} of {n}")));
    }
    if let (false, Some(sync)) = (task.kernel.is_some(), has.sync) {
        let notify = matches!(kind, TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT);
        let event = matches!(kind, TaskType::EVENT_RECORD | TaskType::EVENT_WAIT);
        match sync.get(task.sync_slot as usize) {
            // Nodes that stand for a record or a wait name it by their own number.
            _ if !(notify || event) || !task.numbers.is_empty() => {}
            Some(n) if *n == notify => {}
            Some(_) => {
                return Err(Broken::new(Rule::T10, format!("({kind}) names {} of the other kind", task.sync_slot)));
            }
            None => {
                let what = format!("({kind}) names {} of {} that the node has", task.sync_slot, sync.len());
                return Err(Broken::new(Rule::T10, what));
            }
        }
    }
    if let (Some(launch), Some(stored)) = (task.kernel.as_ref().into_option(), has.stored)
        && kind != TaskType::PREPROCESS_KERNEL
        && !Seen::of(task).is_several()
        && !stored(&launch.kernel_name)
    {
        return Err(Broken::new(
            Rule::T6,
            format!("({kind}) launches `{}`, which is not in the kernel store", launch.kernel_name),
        ));
    }
    if kind == TaskType::UPDATE {
        let of = task.numbers.first().and_then(|n| usize::try_from(*n).ok()).and_then(|n| tasks.get(n));
        let waits = |t: &Task| t.kernel.as_ref().into_option().is_some_and(|l| l.block_dim == TILING_SINK_BLOCK_DIM);
        if !of.is_some_and(waits) {
            return Err(Broken::new(
                Rule::T11,
                format!("({kind}) updates a task that is no kernel with placeholder blocks"),
            ));
        }
    }
    let (most, soc) = (u64::from(has.soc.tasks_normal.max(has.soc.tasks_huge)), &has.soc.name);
    if most > 0 && u64::from(task.sqe_num) > most && !has.soc.unlimited_depth && task.stream == StreamSlot::MAIN {
        let what = format!("({kind}) takes {} places of its stream, one of {soc} has {most}", task.sqe_num);
        return Err(Broken::new(Rule::T14, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::engine::Workspace;
    use ge_plugin_api::task::KernelTask;

    fn kernel(args: &str) -> Task {
        Task::kernel(KernelTask::new("k", 1, args))
    }
    fn verdict(tasks: &[Task], change: impl FnOnce(&mut RunningParams)) -> Option<Rule> {
        let mut params = RunningParams::default();
        change(&mut params);
        let soc = SocSpec { memory_bytes: 1 << 30, tasks_normal: 64, ..SocSpec::default() };
        let has = Granted {
            inputs: 1,
            read: &[true, false],
            params: &params,
            attached: Some(0),
            sync: Some(&[true]),
            stored: Some(&|n| n == "k"),
            soc: &soc,
        };
        check(tasks, &has).err().map(|b| b.rule)
    }

    #[test]
    fn each_rule_of_a_list_is_broken_by_what_breaks_it() {
        let good = kernel("{i0*}{o0*}");
        assert_eq!(verdict(std::slice::from_ref(&good), |_| ()), None);
        assert_eq!(verdict(&[], |_| ()), Some(Rule::T1));
        assert_eq!(verdict(&[kernel("{i0*}{o1*}")], |_| ()), Some(Rule::T1));
        assert_eq!(verdict(&[good.clone(), good.clone()], |_| ()), Some(Rule::T12));
        assert_eq!(verdict(&[Task::kernel(KernelTask::new("q", 1, "{o0*}"))], |_| ()), Some(Rule::T6));
        assert_eq!(verdict(&[good.clone().on(StreamSlot::attached(0))], |_| ()), Some(Rule::T9));
        assert_eq!(verdict(&[good.clone(), Task::new(TaskType::NOTIFY_WAIT)], |_| ()), None);
        assert_eq!(verdict(&[good.clone(), Task::new(TaskType::EVENT_WAIT)], |_| ()), Some(Rule::T10));
        let far = Task { sync_slot: 1, ..Task::new(TaskType::NOTIFY_WAIT) };
        assert_eq!(verdict(&[good.clone(), far], |_| ()), Some(Rule::T10));
        assert_eq!(verdict(&[good.clone(), Task::new(TaskType::END_GRAPH)], |_| ()), Some(Rule::T5));
        assert_eq!(verdict(std::slice::from_ref(&good), |p| p.task_count = 2), Some(Rule::T13));
        let large =
            |p: &mut RunningParams| p.workspaces = vec![Workspace { bytes: 1 << 60, ..Workspace::default() }].into();
        assert_eq!(verdict(std::slice::from_ref(&good), large), Some(Rule::T14));
        assert_eq!(verdict(&[Task { sqe_num: 65, ..good }], |_| ()), Some(Rule::T14));
    }
}
