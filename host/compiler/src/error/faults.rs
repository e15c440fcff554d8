//! Faults of options and of attributes that cannot be fulfilled: the data of each fault, with its
//! message, code and help.
use crate::feature::shared_memory::Clash;
use ge_codes::Code;
use ge_ir::{Node, TensorDesc};
use ge_plugin_api::device::MemoryKind;

fn named(file: &Option<String>) -> String {
    file.as_ref().map_or_else(String::new, |f| format!("ge.fusionSwitchFile `{f}`: "))
}

/// An option that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionFault {
    /// A switch names a pass that does not exist.
    #[error("unknown pass `{name}`")]
    UnknownPass {
        /// The unknown name.
        name: String,
        /// The existing name that is nearest to it, if one is near.
        nearest: Option<String>,
    },
    /// A switch names a pass that always runs.
    #[error("{}pass `{name}` is needed for right results and cannot be switched", named(.file))]
    FixedPass {
        /// Name of the pass.
        name: String,
        /// The switch file that names the pass; `None`: the option itself names it.
        file: Option<String>,
    },
    /// The value of an option is not valid.
    #[error("`{option}` {what}")]
    Value {
        /// Name of the option.
        option: &'static str,
        /// What is wrong with the value.
        what: String,
        /// What the user can do.
        help: String,
    },
    /// A file that an option names cannot be read.
    #[error("{option} `{path}`: {why}")]
    Unreadable {
        /// Name of the option.
        option: &'static str,
        /// Path of the file.
        path: String,
        /// Why the file cannot be read.
        why: String,
    },
    /// A file that an option names does not have the expected form.
    #[error("{option} `{path}`: {why}")]
    File {
        /// Name of the option.
        option: &'static str,
        /// Path of the file.
        path: String,
        /// What is wrong with the file.
        why: String,
        /// The form that the file should have.
        form: &'static str,
    },
    /// Two options contradict each other, or one needs another.
    #[error("{what}")]
    Contradiction {
        /// The contradiction; it names both options.
        what: &'static str,
        /// What the user can do.
        help: &'static str,
    },
    /// Memory of inputs or outputs cannot be shared as the option asks.
    #[error("`{option}`: {what}")]
    Lent {
        /// Name of the option.
        option: &'static str,
        /// Why it cannot be shared.
        what: String,
        /// What the option accepts.
        help: &'static str,
    },
    /// An option names something that the model does not have, or asks for something that the model
    /// cannot do.
    #[error("{option} `{value}` {what}")]
    Model {
        /// Name of the option.
        option: &'static str,
        /// Value of the option.
        value: String,
        /// What is wrong with the value.
        what: String,
        /// What the user can do.
        help: String,
    },
}

impl OptionFault {
    pub(super) fn code(&self) -> Code {
        match self {
            OptionFault::UnknownPass { .. } => ge_codes::UNKNOWN_NAME,
            OptionFault::FixedPass { .. } => ge_codes::FIXED_PASS,
            OptionFault::Value { .. } => ge_codes::OPTION_VALUE,
            OptionFault::Unreadable { .. } => ge_codes::UNREADABLE,
            OptionFault::File { .. } => ge_codes::OPTIONS_FILE,
            OptionFault::Contradiction { .. } => ge_codes::OPTIONS_CONTRADICT,
            OptionFault::Lent { .. } => ge_codes::IO_REUSE,
            OptionFault::Model { .. } => ge_codes::MODEL_OPTION,
        }
    }
    pub(super) fn help(&self) -> String {
        match self {
            OptionFault::UnknownPass { nearest: Some(n), .. } => {
                format!("did you mean `{n}`? `ge opt --list` shows all")
            }
            OptionFault::UnknownPass { nearest: None, .. } => "`ge opt --list` shows all".into(),
            OptionFault::FixedPass { .. } => {
                "`ge opt --list` shows the level of each pass; those of O0 always run".into()
            }
            OptionFault::Unreadable { .. } => "give the path of a file that can be read".into(),
            OptionFault::File { form, .. } => (*form).into(),
            OptionFault::Contradiction { help, .. } | OptionFault::Lent { help, .. } => (*help).into(),
            OptionFault::Value { help, .. } | OptionFault::Model { help, .. } => help.clone(),
        }
    }
}

/// A node asks for memory that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFault {
    /// A node has `_no_task`, but nothing else writes its output.
    #[error("`{node}` ({op}) has `_no_task`, and nothing else writes its output")]
    NoTask {
        /// Name of the node.
        node: String,
        /// Operator type of the node.
        op: String,
    },
    /// A node asks for a memory type that no device has.
    #[error("`{node}` asks for {memory} memory, which no device has")]
    NoSuchType {
        /// Name of the node.
        node: String,
        /// The memory type that it asks for.
        memory: String,
    },
    /// An input must lie where another value lies.
    #[error("input {input} of `{node}` ({op}) cannot lie where the node wants it: {clash}")]
    Place {
        /// Name of the node.
        node: String,
        /// Operator type of the node.
        op: String,
        /// Index of the input.
        input: u32,
        /// The clash that prevents the placement.
        clash: Clash,
    },
    /// One value is wanted in two memory types.
    #[error("`{node}` would lie in {first} and in {second} memory")]
    TwoTypes {
        /// Name of the node.
        node: String,
        /// One memory type.
        first: MemoryKind,
        /// The other memory type.
        second: MemoryKind,
    },
    /// A part of a concat without a task needs more room than its data.
    #[error("`{node}` needs {needs} bytes for {data} of data, and a concat without a task joins it")]
    Joined {
        /// Name of the node.
        node: String,
        /// Bytes that the node's engine asks for.
        needs: u64,
        /// Bytes of the node's data.
        data: u64,
    },
    /// A buffer pool is too small.
    #[error("buffer pool {pool} has {has} bytes, its nodes need {needs} (`{node}` is one)")]
    Pool {
        /// Id of the pool.
        pool: i64,
        /// Size of the pool in bytes.
        has: u64,
        /// Bytes that the pool's nodes need.
        needs: u64,
        /// Name of one of these nodes.
        node: String,
    },
    /// The size of an output is not known.
    #[error("output {output} of `{node}` ({op}) has no known size: {desc}")]
    NoSize {
        /// Name of the node.
        node: String,
        /// Operator type of the node.
        op: String,
        /// Index of the output.
        output: usize,
        /// Element type and shape of the output.
        desc: String,
        /// Whether the shape has unknown dimensions.
        is_open: bool,
    },
    /// A constant is larger than any memory.
    #[error("constant `{name}` ({desc}) does not fit into memory")]
    Constant {
        /// Name of the constant.
        name: String,
        /// Element type and shape of the constant.
        desc: String,
    },
}

impl MemoryFault {
    /// The fault of an output whose size is not known.
    pub fn no_size(n: &Node, output: usize, d: &TensorDesc) -> MemoryFault {
        MemoryFault::NoSize {
            node: n.name().into(),
            op: n.op().into(),
            output,
            desc: format!("{}{}", d.dtype, d.shape),
            is_open: !d.shape.is_static(),
        }
    }
    pub(super) fn code(&self) -> Code {
        match self {
            MemoryFault::NoSize { is_open: true, .. } => ge_codes::OPEN_SIZES,
            _ => ge_codes::MEMORY_WISH,
        }
    }
    pub(super) fn help(&self) -> &'static str {
        match self {
            MemoryFault::NoTask { .. } => {
                "take the attribute away: only a view, or a node whose inputs or outputs lie one behind the other in one \
                 memory (`_output_reuse_input` with `_nopadding_continuous_input` or `_output`), is done without a task"
            }
            MemoryFault::NoSuchType { .. } => "memory types are HBM, P2P, HOST, TS, L1, L2 and UB",
            MemoryFault::Place { .. } | MemoryFault::TwoTypes { .. } => {
                "let the stage `conflict` put a copy between the two (`--from conflict`)"
            }
            MemoryFault::Joined { .. } => {
                "switch the pass off: `--set ge.optimizationSwitch=ConcatNotaskPass:off;PackNotaskPass:off`"
            }
            MemoryFault::Pool { .. } => {
                "make `_buffer_pool_size` greater, or order the nodes so that they are not needed together"
            }
            MemoryFault::NoSize { is_open: true, .. } => "give the open sizes with `--input-shape`",
            MemoryFault::NoSize { .. } => "no memory holds so much, or the type has no size in memory",
            MemoryFault::Constant { .. } => "make it smaller, or compute it in the graph",
        }
    }
}

/// `_event_multiplexing` that cannot be fulfilled, and waits that may never end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventFault {
    /// An entry does not have the expected form.
    #[error("`_event_multiplexing` of `{node}` has the entry `{entry}`")]
    Form {
        /// Name of the node.
        node: String,
        /// The entry.
        entry: String,
    },
    /// An entry names a node that does not exist (any more).
    #[error("`_event_multiplexing` of `{node}` has the entry `{entry}`, and there is no node `{gone}`")]
    NoNode {
        /// Name of the node that has the entry.
        node: String,
        /// The entry.
        entry: String,
        /// The name of the missing node.
        gone: String,
    },
    /// Two events are given the same number, but nothing orders them.
    #[error(
        "`_event_multiplexing` gives the events {first} and {second} one number, but nothing orders the first wait \
         before the second record and its wait"
    )]
    Unordered {
        /// One event, as a pair of nodes.
        first: String,
        /// The other event.
        second: String,
    },
    /// A node waits for a node that runs only if a switch wakes its stream.
    #[error("`{waits}` waits for `{record}`, which runs only if a switch wakes its stream")]
    MayNeverRun {
        /// Name of the waiting node.
        waits: String,
        /// Name of the node that it waits for.
        record: String,
    },
}

impl EventFault {
    pub(super) fn code(&self) -> Code {
        match self {
            EventFault::MayNeverRun { .. } => ge_codes::SLEEPING_STREAM,
            _ => ge_codes::EVENT_NUMBERS,
        }
    }
    pub(super) fn help(&self) -> &'static str {
        match self {
            EventFault::Form { .. } => {
                "an entry is `SendTo;NODE;NUMBER` or `RecvFrom;NODE;NUMBER`, with a number up to 65535"
            }
            EventFault::NoNode { .. } => {
                "name a node as the compiled graph has it: what has been fused or folded is no longer there"
            }
            EventFault::Unordered { .. } => "give them different numbers, or order the nodes by a control edge",
            EventFault::MayNeverRun { .. } => {
                "end every branch with a StreamActive that wakes the stream of the node that joins them"
            }
        }
    }
}

/// Variables that are not valid, or that are reached in two ways.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableFault {
    /// The shape of a variable has unknown dimensions.
    #[error("variable `{name}` has no known size")]
    NoSize {
        /// Name of the variable.
        name: String,
    },
    /// A variable has more bytes than can be counted.
    #[error("variable `{name}` is too large")]
    TooLarge {
        /// Name of the variable.
        name: String,
    },
    /// Two variables of the same name differ.
    #[error("variable `{name}` is {here} in one graph and {there} in another")]
    Differs {
        /// Name of the variables.
        name: String,
        /// Element type and shape, or size, of one of them.
        here: String,
        /// Element type and shape, or size, of the other.
        there: String,
    },
    /// Two initial values are given for one name.
    #[error("variable `{name}` has two initial values")]
    TwoValues {
        /// Name of the variable.
        name: String,
    },
    /// A name belongs to a variable in one graph and to another node in another graph.
    #[error("`{name}` is a variable in one graph and another node in graph `{graph}`")]
    OtherNode {
        /// The name.
        name: String,
        /// Name of the graph where it belongs to another node.
        graph: String,
    },
    /// A node passes one variable in two ways to a graph that writes it.
    #[error("`{node}` gives variable `{name}` by two ways to graphs that write it")]
    TwoWays {
        /// Name of the node.
        node: String,
        /// Name of the variable.
        name: String,
    },
    /// A graph called in a loop writes over what the loop carries, and contains v1 control flow
    /// (`Switch`, `Enter`).
    #[error(
        "graph `{graph}` writes over what a loop around it carries, and has branches or loops of v1 (`Switch`, `Enter`)"
    )]
    Frames {
        /// Name of the graph.
        graph: String,
    },
    /// The subgraphs of an operator have effects that a run of unknown shapes cannot carry out.
    #[error(
        "the graphs of `{node}` ({op}) read or write variable `{name}`, which cannot be done where shapes are unknown"
    )]
    Operator {
        /// Name of the node.
        node: String,
        /// Operator type of the node.
        op: String,
        /// Name of the variable.
        name: String,
    },
}

impl VariableFault {
    pub(super) fn code(&self) -> Code {
        match self {
            VariableFault::NoSize { .. } | VariableFault::Operator { .. } => ge_codes::OPEN_SIZES,
            VariableFault::OtherNode { .. } | VariableFault::TwoWays { .. } | VariableFault::Frames { .. } => {
                ge_codes::VARIABLE_PATHS
            }
            _ => ge_codes::VARIABLE,
        }
    }
    pub(super) fn help(&self) -> &'static str {
        match self {
            VariableFault::NoSize { .. } | VariableFault::TooLarge { .. } => {
                "a variable has one type and shape, both known"
            }
            VariableFault::Differs { .. } | VariableFault::TwoValues { .. } => {
                "Variables of one name are one variable: give them one type, shape and initial value, or two names"
            }
            VariableFault::OtherNode { .. } => "give one of the two another name",
            VariableFault::Frames { .. } => {
                "write it in the loop's own graph, or use `If` and `While` in the called one"
            }
            VariableFault::TwoWays { .. } => "name the variable in the graph, or give it as one input",
            VariableFault::Operator { .. } => "give all sizes with `--input-shape`",
        }
    }
}
