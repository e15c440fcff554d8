//! Errors of the compiler. Each becomes diagnostics whose code, kind and help come from its
//! variant.
mod faults;

pub use faults::{EventFault, MemoryFault, OptionFault, VariableFault};
use ge_codes::Code;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind};

/// Result of the compiler's functions.
pub type Result<T, E = CompileError> = std::result::Result<T, E>;

/// Why a compilation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A type that no enabled plugin has a prototype for.
    #[error("no enabled plugin knows operator {op} of `{node}`")]
    NoPrototype {
        /// Node.
        node: String,
        /// Type.
        op: String,
    },
    /// What a plugin said.
    #[error("{0}")]
    Plugin(Error),
    /// Faults of the model, each with its place.
    #[error("{}", Error::all(code.kind(), all.clone()))]
    Model {
        /// The code whose kind all of them have.
        code: Code,
        /// The faults.
        all: Vec<Diagnostic>,
    },
    /// A plugin's patch was refused.
    #[error("{who} made an illegal change: {source}")]
    Patch {
        /// Pass or engine, with its plugin.
        who: String,
        /// Why.
        source: ge_ir::EditError,
    },
    /// An option does not fit the model, another option or the plugins.
    #[error("{0}")]
    Option(OptionFault),
    /// Memory that a node asks for cannot be given.
    #[error("{0}")]
    Memory(MemoryFault),
    /// Numbers of events cannot be as the model asks.
    #[error("{0}")]
    Events(EventFault),
    /// Variables of one name differ, or it is not clear which one is written.
    #[error("{0}")]
    Variable(VariableFault),
    /// Graphs within graphs, deeper or more of them than can be laid out.
    #[error("{what}")]
    TooDeep {
        /// What is too deep, with the limit.
        what: String,
    },
    /// More streams, events or notifies than there are.
    #[error("the model needs {needs} {what}, {whose} {has}")]
    Limit {
        /// `streams`, `events` or `notifies`.
        what: &'static str,
        /// How many it needs.
        needs: u64,
        /// `SOC has`, or `a model has at most`.
        whose: String,
        /// How many there are.
        has: u64,
        /// What to do.
        help: &'static str,
    },
    /// More memory than the device has.
    #[error("the model needs {needs} of memory, {soc} has {has}")]
    Capacity {
        /// What it needs.
        needs: String,
        /// What there is.
        has: String,
        /// The SoC.
        soc: String,
        /// The largest holders, with their bytes.
        holders: Vec<String>,
    },
    /// A plan that does not hold: a bug of ours.
    #[error("internal error in {stage}: {message}")]
    Internal {
        /// Stage.
        stage: &'static str,
        /// What.
        message: String,
    },
    /// Interrupted by the user.
    #[error("interrupted")]
    Cancelled,
}

impl From<Error> for CompileError {
    fn from(e: Error) -> CompileError {
        CompileError::Plugin(e)
    }
}

macro_rules! from_fault {
    ($($fault:ident => $variant:ident),*) => {$(
        impl From<$fault> for CompileError {
            fn from(f: $fault) -> CompileError {
                CompileError::$variant(f)
            }
        }
    )*};
}
from_fault!(OptionFault => Option, MemoryFault => Memory, EventFault => Events, VariableFault => Variable);

impl CompileError {
    /// A failure of one of our own plans.
    pub fn internal(stage: &'static str, message: impl Into<String>) -> CompileError {
        CompileError::Internal { stage, message: message.into() }
    }
    /// A node that a graph of ours does not take: it reads what stands nowhere before it.
    pub fn unordered(stage: &'static str, node: &str) -> CompileError {
        CompileError::internal(stage, format!("`{node}` reads what does not stand before it"))
    }
    /// One fault of the model.
    pub fn model(code: Code, d: Diagnostic) -> CompileError {
        CompileError::Model { code, all: vec![d.code(code)] }
    }
    /// Whether it is a fault of ours or of a plugin, not of the model or its options.
    pub fn is_a_fault(&self) -> bool {
        match self {
            CompileError::Internal { .. } | CompileError::Patch { .. } => true,
            CompileError::Plugin(Error { kind, .. }) => {
                matches!(*kind, ErrorKind::PLUGIN | ErrorKind::PANIC | ErrorKind::INTERNAL)
            }
            CompileError::Model { code, .. } => code.kind() == ErrorKind::PLUGIN,
            _ => false,
        }
    }
    /// The code; None: a plugin's own.
    pub fn code(&self) -> Option<Code> {
        Some(match self {
            CompileError::Plugin(_) => return None,
            CompileError::Model { code, .. } => *code,
            CompileError::NoPrototype { .. } => ge_codes::NO_PROTOTYPE,
            CompileError::Patch { .. } => ge_codes::PLUGIN_EDIT,
            CompileError::Option(f) => f.code(),
            CompileError::Memory(f) => f.code(),
            CompileError::Events(f) => f.code(),
            CompileError::Variable(f) => f.code(),
            CompileError::TooDeep { .. } => ge_codes::TOO_DEEP,
            CompileError::Limit { .. } => ge_codes::SOC_TOO_SMALL,
            CompileError::Capacity { .. } => ge_codes::MEMORY,
            CompileError::Internal { .. } => ge_codes::BUG,
            CompileError::Cancelled => ge_codes::INTERRUPTED,
        })
    }
    /// As the border's error: kind (hence exit code) and diagnostics.
    pub fn into_error(self) -> Error {
        let Some(code) = self.code() else {
            return match self {
                CompileError::Plugin(e) => e,
                other => Error::internal(other.to_string()),
            };
        };
        let d = Diagnostic::error(self.to_string());
        let d = match self {
            CompileError::Model { code, all } => return code.all(all),
            CompileError::Cancelled => return Error::cancelled(),
            CompileError::Plugin(_) => d,
            CompileError::NoPrototype { node, op } => d.node(node, op).help(
                "enable the plugin that brings the operator in plugins.toml (`ge plugin list` shows what is loaded)",
            ),
            CompileError::Patch { .. } => d.help(
                "report it to the plugin's maker; `enabled = false` in plugins.toml leaves the plugin out",
            ),
            CompileError::Option(f) => d.help(f.help()),
            CompileError::Memory(f) => d.help(f.help()),
            CompileError::Events(f) => d.help(f.help()),
            CompileError::Variable(f) => d.help(f.help()),
            CompileError::TooDeep { .. } => d.help("make the nesting of subgraphs smaller"),
            CompileError::Limit { help, .. } => d.help(help),
            CompileError::Capacity { needs, has, soc, holders } => d
                .found(needs, format!("at most {has}, the memory of {soc}"))
                .note(format!("the largest holders: {}", holders.join(", ")))
                .help(
                    "compile for smaller sizes (`--input-shape`), for a SoC with more memory (`--soc`), or split the model",
                ),
            CompileError::Internal { .. } => d.help("this is a bug of ge: please report it with the bundle"),
        };
        d.raise(code)
    }
}
