//! What options and attributes can ask for in vain: data for each fault, with its words, code and
//! help.
use crate::feature::shared_memory::Clash;
use ge_codes::Code;
use ge_ir::{Node, TensorDesc};
use ge_plugin_api::device::MemoryKind;

fn named(file: &Option<String>) -> String {
    file.as_ref().map_or_else(String::new, |f| format!("ge.fusionSwitchFile `{f}`: "))
}

/// An option that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionFault {
    /// A switch names a pass that is not there.
    #[error("unknown pass `{name}`")]
    UnknownPass {
        /// The name.
        name: String,
        /// The nearest that there is.
        nearest: Option<String>,
    },
    /// A switch names a pass that always runs.
    #[error("{}pass `{name}` is needed for right results and cannot be switched", named(.file))]
    FixedPass {
        /// The pass.
        name: String,
        /// The switch file that names it; None: the option itself.
        file: Option<String>,
    },
    /// A value is not one of the option's.
    #[error("`{option}` {what}")]
    Value {
        /// The option.
        option: &'static str,
        /// What is wrong with the value.
        what: String,
        /// What to do.
        help: String,
    },
    /// A file that an option names cannot be read.
    #[error("{option} `{path}`: {why}")]
    Unreadable {
        /// The option.
        option: &'static str,
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A file that an option names is not of its form.
    #[error("{option} `{path}`: {why}")]
    File {
        /// The option.
        option: &'static str,
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
        /// The form that it should have.
        form: &'static str,
    },
    /// Two options contradict each other, or one needs another.
    #[error("{what}")]
    Contradiction {
        /// Both options by name.
        what: &'static str,
        /// What to do.
        help: &'static str,
    },
    /// Memory of inputs or outputs cannot be lent as asked.
    #[error("`{option}`: {what}")]
    Lent {
        /// The option.
        option: &'static str,
        /// Why not.
        what: String,
        /// What fits.
        help: &'static str,
    },
    /// An option names what the model does not have, or asks of it what it cannot be.
    #[error("{option} `{value}` {what}")]
    Model {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        what: String,
        /// What to do.
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

/// Memory that a node asks for and cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFault {
    /// A node that is told to do nothing, whose output nobody else writes.
    #[error("`{node}` ({op}) has `_no_task`, and nothing else writes its output")]
    NoTask {
        /// Node.
        node: String,
        /// Its operator.
        op: String,
    },
    /// A type of memory that no device has.
    #[error("`{node}` asks for {memory} memory, which no device has")]
    NoSuchType {
        /// Node.
        node: String,
        /// The type asked for.
        memory: String,
    },
    /// An input must lie where another value does.
    #[error("input {input} of `{node}` ({op}) cannot lie where the node wants it: {clash}")]
    Place {
        /// Node.
        node: String,
        /// Its type.
        op: String,
        /// The input.
        input: u32,
        /// What stands against it.
        clash: Clash,
    },
    /// One value is wanted in two types of memory.
    #[error("`{node}` would lie in {first} and in {second} memory")]
    TwoTypes {
        /// Node.
        node: String,
        /// One type.
        first: MemoryKind,
        /// The other.
        second: MemoryKind,
    },
    /// A part of a concat without a task that needs more room than its data.
    #[error("`{node}` needs {needs} bytes for {data} of data, and a concat without a task joins it")]
    Joined {
        /// Node.
        node: String,
        /// Bytes that its engine asks for.
        needs: u64,
        /// Bytes of its data.
        data: u64,
    },
    /// A buffer pool that is too small.
    #[error("buffer pool {pool} has {has} bytes, its nodes need {needs} (`{node}` is one)")]
    Pool {
        /// The pool's id.
        pool: i64,
        /// Its bytes.
        has: u64,
        /// Bytes that its nodes need.
        needs: u64,
        /// One of them.
        node: String,
    },
    /// An output whose bytes are not known.
    #[error("output {output} of `{node}` ({op}) has no known size: {desc}")]
    NoSize {
        /// Node.
        node: String,
        /// Its type.
        op: String,
        /// The output.
        output: usize,
        /// Type and shape.
        desc: String,
        /// Whether its shape is open.
        is_open: bool,
    },
    /// A constant that is larger than any memory.
    #[error("constant `{name}` ({desc}) does not fit into memory")]
    Constant {
        /// Its name.
        name: String,
        /// Type and shape.
        desc: String,
    },
}

impl MemoryFault {
    /// An output whose bytes are not known.
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

/// `_event_multiplexing` that cannot be done, and waits that may never end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventFault {
    /// An entry that is not of its form.
    #[error("`_event_multiplexing` of `{node}` has the entry `{entry}`")]
    Form {
        /// Node.
        node: String,
        /// The entry.
        entry: String,
    },
    /// An entry that names a node that is gone.
    #[error("`_event_multiplexing` of `{node}` has the entry `{entry}`, and there is no node `{gone}`")]
    NoNode {
        /// Node.
        node: String,
        /// The entry.
        entry: String,
        /// The name in it.
        gone: String,
    },
    /// One number for events that nothing orders.
    #[error(
        "`_event_multiplexing` gives the events {first} and {second} one number, but nothing orders the first wait \
         before the second record and its wait"
    )]
    Unordered {
        /// One event, as a pair of nodes.
        first: String,
        /// The other.
        second: String,
    },
    /// A wait for what runs only if a switch wakes its stream.
    #[error("`{waits}` waits for `{record}`, which runs only if a switch wakes its stream")]
    MayNeverRun {
        /// Who waits.
        waits: String,
        /// For whom.
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

/// Variables that cannot be one, or that are reached by two ways.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableFault {
    /// A shape that is open.
    #[error("variable `{name}` has no known size")]
    NoSize {
        /// Its name.
        name: String,
    },
    /// More bytes than can be counted.
    #[error("variable `{name}` is too large")]
    TooLarge {
        /// Its name.
        name: String,
    },
    /// Two of one name that differ.
    #[error("variable `{name}` is {here} in one graph and {there} in another")]
    Differs {
        /// Its name.
        name: String,
        /// One type and shape, or size.
        here: String,
        /// The other.
        there: String,
    },
    /// Two initial values for one name.
    #[error("variable `{name}` has two initial values")]
    TwoValues {
        /// Its name.
        name: String,
    },
    /// A name that is a variable in one graph and something else in another.
    #[error("`{name}` is a variable in one graph and another node in graph `{graph}`")]
    OtherNode {
        /// The name.
        name: String,
        /// The graph where it is another node.
        graph: String,
    },
    /// A node that hands one variable to a graph twice, which writes it.
    #[error("`{node}` gives variable `{name}` by two ways to graphs that write it")]
    TwoWays {
        /// The node.
        node: String,
        /// The variable.
        name: String,
    },
    /// A graph that is called in a loop, writes over what the loop carries, and has control flow of the
    /// first kind.
    #[error(
        "graph `{graph}` writes over what a loop around it carries, and has branches or loops of v1 (`Switch`, `Enter`)"
    )]
    Frames {
        /// The graph.
        graph: String,
    },
    /// An operator whose graphs have effects, which no run of unknown shapes can give on.
    #[error(
        "the graphs of `{node}` ({op}) read or write variable `{name}`, which cannot be done where shapes are unknown"
    )]
    Operator {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The variable.
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
