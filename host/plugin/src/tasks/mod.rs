//! Task lists as engines give them: the grammar of their arguments, and the numbered rules that
//! they must follow.
//!
//! The rules are checked in three places: the compiler and the runner of dynamic models, when an
//! engine has given its tasks ([`EngineHandle::tasks`]); `ge plugin check`; and the loader of an
//! OM, for which a broken rule means that the file is damaged.
//!
//! [`EngineHandle::tasks`]: crate::EngineHandle::tasks

/// Args formats: what is at each address of a launch.
pub mod args_format;
/// Rules for a single task.
mod one;
/// Rules for the task list of a node.
mod list;

pub(crate) use list::workspaces;
pub use list::{Granted, Stored, check, written};
pub use one::{Seen, check_one};

use crate::rules::rules;
use std::fmt;

rules! { "A rule of task lists."
    T1 "every output that is read is written by a task of the node"
        "name the output in the args format of the task that writes it (`{o0*}`), or refuse the node in `supports`",
    T2 "every operand exists"
        "name inputs and outputs that the node has, and workspaces that `calc_op_running_param` asks for",
    T3 "the args format can be read"
        "write items in braces, one after the other: `{i0*}{o0*}{ws0*}`; docs/plugins-reference.md has the grammar",
    T4 "the args format fits the task and its kernel type"
        "leave the item out, or give the task the type that has such an argument",
    T5 "the type is one that an engine may give, with a launch where it launches and without one where it does not"
        "use `Task::kernel` for kernels and `Task::new` for all else",
    T6 "the kernel has a name, and it is in the kernel store"
        "name the kernel that `compile` returned for the node (`TaskContext::kernel`)",
    T7 "the kernel type is known and fits the task"
        "take one of `KernelType`, such as `KernelType::TE`",
    T8 "a launch has 1 to 65535 blocks, or the placeholder of tiling on the device"
        "give `block_dim` the number of blocks that the kernel is launched with",
    T9 "the stream is the node's own, or one of the attached streams that it has"
        "ask for the attached stream in `RunningParams::attached`",
    T10 "events and notifies are those that the node asked for, each by its kind"
        "ask for them in `RunningParams::sync`, and number `sync_slot` in that order",
    T11 "the numbers of a task are those of its type"
        "give `numbers` as the documentation of `Task::numbers` has them for the type",
    T12 "no task that writes an output stands there twice"
        "return the task once; blocks of one launch share its work",
    T13 "the main stream has as many tasks as were promised"
        "return `task_count` tasks, or promise 0, which has them counted",
    T14 "workspaces, tiling data and tasks fit the SoC"
        "ask for no more than the SoC has (`Target::soc`), or refuse the node in `supports`",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A rule that is broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The broken rule.
    pub rule: Rule,
    /// Position of the task in the list; `None` if the rule is not about one task.
    pub task: Option<usize>,
    /// Description of the problem.
    pub what: String,
}

impl Broken {
    pub(crate) fn new(rule: Rule, what: impl Into<String>) -> Broken {
        Broken { rule, task: None, what: what.into() }
    }
    fn of(self, task: usize) -> Broken {
        Broken { task: Some(task), ..self }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} of task lists ({}) is broken: ", self.rule, self.rule.title())?;
        if let Some(k) = self.task {
            write!(f, "task {k} ")?;
        }
        f.write_str(&self.what)
    }
}
