//! Errors of the compiler. Each error becomes diagnostics; its variant determines their code, kind
//! and help.
mod faults;

pub use faults::{EventFault, MemoryFault, OptionFault, VariableFault};
use ge_codes::Code;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind};

/// Result type of the compiler's functions.
pub type Result<T, E = CompileError> = std::result::Result<T, E>;

/// Why a compilation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// No enabled plugin has a prototype for an operator type.
    #[error("no enabled plugin knows operator {op} of `{node}`")]
    NoPrototype {
        /// Name of the node.
        node: String,
        /// Operator type of the node.
        op: String,
    },
    /// An error that a plugin returned.
    #[error("{0}")]
    Plugin(Error),
    /// Faults of the model, each with its place.
    #[error("{}", Error::all(code.kind(), all.clone()))]
    Model {
        /// The code whose kind all the faults share.
        code: Code,
        /// The faults.
        all: Vec<Diagnostic>,
    },
    /// The compiler refused the patch of a pass or an engine.
    #[error("{who} made an illegal change: {source}")]
    Patch {
        /// Name of the pass or engine, with its plugin.
        who: String,
        /// Why the patch was refused.
        source: ge_ir::EditError,
    },
    /// An option does not fit the model, another option or the plugins.
    #[error("{0}")]
    Option(OptionFault),
    /// The memory that a node asks for cannot be provided.
    #[error("{0}")]
    Memory(MemoryFault),
    /// Events cannot be numbered as the model asks.
    #[error("{0}")]
    Events(EventFault),
    /// Variables of one name differ, or it is not clear which variable is written.
    #[error("{0}")]
    Variable(VariableFault),
    /// The graphs are nested too deeply, or there are more of them than can be laid out.
    #[error("{what}")]
    TooDeep {
        /// What is too deep, with the limit.
        what: String,
    },
    /// The model needs more streams, events or notifies than there are.
    #[error("the model needs {needs} {what}, {whose} {has}")]
    Limit {
        /// `streams`, `events` or `notifies`.
        what: &'static str,
        /// Number that the model needs.
        needs: u64,
        /// Who sets the limit, as the message has it: `SOC has` or `a model has at most`.
        whose: String,
        /// Number available.
        has: u64,
        /// What the user can do.
        help: &'static str,
    },
    /// The model needs more memory than the device has.
    #[error("the model needs {needs} of memory, {soc} has {has}")]
    Capacity {
        /// Memory needed, as text.
        needs: String,
        /// Memory of the device, as text.
        has: String,
        /// Name of the SoC.
        soc: String,
        /// The largest holders of memory, with their bytes.
        holders: Vec<String>,
    },
    /// A plan of the compiler is inconsistent: a bug of the compiler.
    #[error("internal error in {stage}: {message}")]
    Internal {
        /// Stage that found the inconsistency.
        stage: &'static str,
        /// Description of the inconsistency.
        message: String,
    },
    /// The user interrupted the compilation.
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
    /// The error for an inconsistency in a plan of the compiler.
    pub fn internal(stage: &'static str, message: impl Into<String>) -> CompileError {
        CompileError::Internal { stage, message: message.into() }
    }
    /// The error for a node that cannot be added to a graph because it reads a value that no
    /// earlier node produces.
    pub fn unordered(stage: &'static str, node: &str) -> CompileError {
        CompileError::internal(stage, format!("`{node}` reads what does not stand before it"))
    }
    /// The error for one fault of the model.
    pub fn model(code: Code, d: Diagnostic) -> CompileError {
        CompileError::Model { code, all: vec![d.code(code)] }
    }
    /// Whether the compiler or a plugin is at fault, not the model or its options.
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
    /// The code of the error; `None` for an error of a plugin, which carries its own code.
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
    /// Converts to the plugin API's error: a kind, which determines the exit code, and diagnostics.
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
