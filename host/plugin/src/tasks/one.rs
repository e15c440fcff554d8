//! Rules for a single task: its type, launch, operands and numbers.
use super::args_format::{self, ArgItem, Arity, ContextPart};
use super::{Broken, Rule};
use ge_plugin_api::task::{KernelType, TILING_SINK_BLOCK_DIM, Task, TaskType};
use ge_plugin_api::types::DType;

/// Maximum number of blocks of a launch, given by the width of the hardware field.
const MAX_BLOCKS: u32 = 65_535;
/// Copy kinds of the run-time, up to copies between device addresses.
const COPY_KINDS: std::ops::RangeInclusive<i64> = 0..=5;

/// A task in the form that the rules check; from an engine or from an OM.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Type of the task.
    pub kind: TaskType,
    /// Name, type and number of blocks of the kernel, if the task launches one.
    pub kernel: Option<(&'a str, u32, u32)>,
    /// Its operands: the args format of its launch, or its own operands.
    pub operands: &'a str,
    /// Its numbers; their meaning depends on the type.
    pub numbers: &'a [i64],
    /// Whether it has private bytes, which the rules do not inspect.
    pub private: bool,
}

impl<'a> Seen<'a> {
    /// Takes an engine's task.
    pub fn of(task: &'a Task) -> Seen<'a> {
        let kernel = task.kernel.as_ref().into_option();
        Seen {
            kind: task.kind(),
            kernel: kernel.map(|k| (k.kernel_name.as_str(), k.kernel_type, k.block_dim)),
            operands: kernel.map_or(task.operands.as_str(), |k| k.args_format.as_str()),
            numbers: &task.numbers,
            private: !task.private.is_empty(),
        }
    }
    /// Whether it stands for several launches, which are listed in its private bytes.
    pub fn is_several(&self) -> bool {
        self.private && matches!(self.kind, TaskType::SUPER_KERNEL | TaskType::FFTS_PLUS)
    }
}

/// Whether tasks of this type launch a kernel.
fn launches(kind: TaskType) -> bool {
    use TaskType as T;
    matches!(
        kind,
        T::KERNEL
            | T::KERNEL_EX
            | T::ALL_KERNEL
            | T::VECTOR_KERNEL
            | T::VECTOR_ALL_KERNEL
            | T::PREPROCESS_KERNEL
            | T::FUSION_KERNEL
            | T::KERNEL_LAUNCH_V2
            | T::CUSTOM_KERNEL
    )
}

/// Whether tasks of this type never launch a kernel of the store.
fn never_launches(kind: TaskType) -> bool {
    use TaskType as T;
    matches!(
        kind,
        T::EVENT_RECORD
            | T::EVENT_WAIT
            | T::EVENT_RESET
            | T::MEM_EVENT_RECORD
            | T::MEM_EVENT_WAIT
            | T::NOTIFY_RECORD
            | T::NOTIFY_WAIT
            | T::STREAM_SWITCH
            | T::STREAM_ACTIVE
            | T::LABEL_SET
            | T::STREAM_LABEL_GOTO
            | T::STREAM_LABEL_SWITCH_BY_INDEX
            | T::MEMCPY_ASYNC
            | T::MEMCPY_ADDR_ASYNC
            | T::REDUCE_ASYNC
            | T::UPDATE
            | T::NOP
            | T::END_GRAPH
            | T::MODEL_EXIT
    )
}

/// Checks a task against the rules for single tasks and returns its operands.
///
/// # Errors
/// Returns the first broken rule.
pub fn check_one(task: &Seen<'_>, has: Arity) -> Result<Vec<ArgItem>, Broken> {
    let kind = task.kind;
    if kind.known_name().is_none() {
        return Err(Broken::new(Rule::T5, format!("is of type {}, which there is not", kind.code())));
    }
    match &task.kernel {
        None if launches(kind) => return Err(Broken::new(Rule::T5, format!("({kind}) launches no kernel"))),
        Some(_) if never_launches(kind) => {
            return Err(Broken::new(Rule::T5, format!("({kind}) cannot launch a kernel")));
        }
        Some((name, kernel_type, blocks)) => launch(task, name, *kernel_type, *blocks)?,
        None => {}
    }
    let items = args_format::parse(task.operands)
        .map_err(|e| Broken::new(Rule::T3, format!("({kind}) has `{}`: {} at byte {}", e.text, e.reason, e.at)))?;
    args_format::check(task.operands, &items, has)
        .map_err(|e| Broken::new(Rule::T2, format!("({kind}) names in `{}` {}", e.text, e.reason)))?;
    items.iter().try_for_each(|i| fits(task, i))?;
    numbers(task, &items)?;
    Ok(items)
}

fn launch(task: &Seen<'_>, name: &str, kernel_type: u32, blocks: u32) -> Result<(), Broken> {
    let kind = task.kind;
    if name.is_empty() {
        return Err(Broken::new(Rule::T6, format!("({kind}) launches a kernel without a name")));
    }
    let Some(kernel) = KernelType::from_code(kernel_type) else {
        return Err(Broken::new(Rule::T7, format!("({kind}) has kernel type {kernel_type}, which there is not")));
    };
    let host = matches!(kernel, KernelType::AI_CPU | KernelType::CUST_AI_CPU | KernelType::HOST_CPU);
    let right = match kind {
        TaskType::VECTOR_KERNEL | TaskType::VECTOR_ALL_KERNEL | TaskType::ALL_KERNEL => !host,
        TaskType::KERNEL_EX | TaskType::PREPROCESS_KERNEL => host,
        _ => true,
    };
    if !right {
        return Err(Broken::new(
            Rule::T7,
            format!("({kind}) has kernel type {kernel}, which such a task does not launch"),
        ));
    }
    if blocks != TILING_SINK_BLOCK_DIM && !(1..=MAX_BLOCKS).contains(&blocks) {
        return Err(Broken::new(Rule::T8, format!("({kind}) has {blocks} blocks")));
    }
    Ok(())
}

/// Checks that an item has a meaning for the task.
fn fits(task: &Seen<'_>, item: &ArgItem) -> Result<(), Broken> {
    let kind = task.kind;
    let sunk = task.kernel.is_some_and(|k| k.2 == TILING_SINK_BLOCK_DIM) || kind == TaskType::PREPROCESS_KERNEL;
    let good = match item {
        ArgItem::Input { .. } | ArgItem::Output { .. } | ArgItem::Workspace { .. } => true,
        ArgItem::Context(ContextPart::TilingKey | ContextPart::BlockDim) => sunk || kind == TaskType::UPDATE,
        ArgItem::Context(_) => sunk,
        ArgItem::FftsAddr | ArgItem::FftsTiling { .. } => matches!(kind, TaskType::FFTS | TaskType::FFTS_PLUS),
        ArgItem::SubNode(_) => matches!(kind, TaskType::SUPER_KERNEL | TaskType::FUSION_KERNEL),
        ArgItem::OpType => {
            let host = [KernelType::AI_CPU, KernelType::CUST_AI_CPU, KernelType::HOST_CPU].map(KernelType::code);
            task.kernel.is_some_and(|k| host.contains(&k.1))
        }
        _ => task.kernel.is_some() || task.private,
    };
    let kernel = task.kernel.map_or(String::new(), |k| format!(" of a {} kernel", KernelType(k.1)));
    if good { Ok(()) } else { Err(Broken::new(Rule::T4, format!("({kind}){kernel} cannot have the argument {item}"))) }
}

fn numbers(task: &Seen<'_>, items: &[ArgItem]) -> Result<(), Broken> {
    let kind = task.kind;
    let number = |k: usize, what: &str| {
        task.numbers
            .get(k)
            .copied()
            .ok_or_else(|| Broken::new(Rule::T11, format!("({kind}) lacks its number {k}, {what}")))
    };
    let within = |k: usize, what: &str, range: std::ops::RangeInclusive<i64>| match number(k, what)? {
        n if range.contains(&n) => Ok(()),
        n => {
            let (first, last) = (range.start(), range.end());
            Err(Broken::new(Rule::T11, format!("({kind}) has {n} as {what}, there are {first} to {last}")))
        }
    };
    let operands = |least: usize| {
        let n = items.len();
        let what = format!("({kind}) has {n} operands in `{}`, it needs {least}", task.operands);
        if n < least { Err(Broken::new(Rule::T4, what)) } else { Ok(()) }
    };
    match kind {
        TaskType::MEMCPY_ASYNC | TaskType::MEMCPY_ADDR_ASYNC => {
            operands(2)?;
            within(0, "kind of copy", COPY_KINDS)
        }
        TaskType::REDUCE_ASYNC => {
            operands(2)?;
            within(0, "kind of reduction", 0..=3)?;
            let dtype = number(1, "element type")?;
            let known = u8::try_from(dtype).ok().map(DType).filter(|d| d.bytes_of(1).is_some());
            let what = || Broken::new(Rule::T11, format!("({kind}) has {dtype} as element type, which there is not"));
            known.map(|_| ()).ok_or_else(what)
        }
        TaskType::STREAM_SWITCH => {
            operands(2)?;
            within(0, "condition", 0..=5)?;
            within(1, "data type", 0..=1)
        }
        TaskType::STREAM_LABEL_SWITCH_BY_INDEX => {
            operands(1)?;
            number(0, "first label").map(|_| ())
        }
        TaskType::LABEL_SET | TaskType::STREAM_LABEL_GOTO => within(0, "label", 0..=i64::from(u32::MAX)),
        TaskType::STREAM_ACTIVE => within(0, "stream", 0..=i64::from(u32::MAX)),
        TaskType::UPDATE => operands(2),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::task::KernelTask;

    fn verdict(task: &Task) -> Option<Rule> {
        let has = Arity { inputs: 2, outputs: 1, workspaces: 1, events: 0 };
        check_one(&Seen::of(task), has).err().map(|b| b.rule)
    }
    fn kernel(change: impl FnOnce(&mut KernelTask)) -> Task {
        let mut k = KernelTask::new("k", 1, "{i0*}{i1*}{o0*}{ws0*}");
        change(&mut k);
        Task::kernel(k)
    }
    fn copy(number: i64, operands: &str) -> Task {
        Task { numbers: vec![number].into(), operands: operands.into(), ..Task::new(TaskType::MEMCPY_ASYNC) }
    }

    #[test]
    fn each_rule_of_one_task_is_broken_by_what_breaks_it_and_by_nothing_else() {
        assert_eq!(verdict(&kernel(|_| ())), None);
        assert_eq!(verdict(&copy(3, "{i0*}{o0*}")), None);
        for (task, rule) in [
            (kernel(|k| k.args_format = "{i2*}{o0*}".into()), Rule::T2),
            (kernel(|k| k.args_format = "{o1*}".into()), Rule::T2),
            (kernel(|k| k.args_format = "{o0*}{ws1*}".into()), Rule::T2),
            (kernel(|k| k.args_format = "{frobnicate}".into()), Rule::T3),
            (kernel(|k| k.args_format = "{ffts_addr}{o0*}".into()), Rule::T4),
            (kernel(|k| k.args_format = "{*op_type}{o0*}".into()), Rule::T4),
            (kernel(|k| k.args_format = "{tiling_context}{o0*}".into()), Rule::T4),
            (Task::new(TaskType::KERNEL), Rule::T5),
            (Task::new(TaskType(999)), Rule::T5),
            (Task { kind: TaskType::NOP.code(), ..kernel(|_| ()) }, Rule::T5),
            (kernel(|k| k.kernel_name = "".into()), Rule::T6),
            (kernel(|k| k.kernel_type = 3), Rule::T7),
            (Task { kind: TaskType::PREPROCESS_KERNEL.code(), ..kernel(|_| ()) }, Rule::T7),
            (kernel(|k| k.block_dim = 0), Rule::T8),
            (kernel(|k| k.block_dim = 65_536), Rule::T8),
            (copy(4711, "{i0*}{o0*}"), Rule::T11),
            (copy(3, "{o0*}"), Rule::T4),
            (Task { numbers: Vec::new().into(), ..copy(3, "{i0*}{o0*}") }, Rule::T11),
            (Task::new(TaskType::LABEL_SET), Rule::T11),
        ] {
            assert_eq!(verdict(&task), Some(rule), "{task:?}");
        }
        assert_eq!(verdict(&kernel(|k| k.block_dim = TILING_SINK_BLOCK_DIM)), None);
    }
}
