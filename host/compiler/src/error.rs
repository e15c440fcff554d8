//! Errors of the compiler. Each becomes diagnostics with a stable code.
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
    /// What a plugin said, or diagnostics gathered from many nodes.
    #[error("{0}")]
    Plugin(Error),
    /// A plugin's patch was refused.
    #[error("{who} made an illegal change: {source}")]
    Patch {
        /// Pass or engine, with its plugin.
        who: String,
        /// Why.
        source: ge_ir::EditError,
    },
    /// An option, or what the model asks for by attributes, does not fit the model or its limits.
    #[error("{message}")]
    Option {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// More memory than the device has.
    #[error("the model needs {needs} of memory, {soc} has {has}")]
    Memory {
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

impl CompileError {
    /// A failure of one of our own plans.
    pub fn internal(stage: &'static str, message: impl Into<String>) -> CompileError {
        CompileError::Internal { stage, message: message.into() }
    }
    /// Whether it is a fault of ours or of a plugin, not of the model or its options.
    pub fn is_a_fault(&self) -> bool {
        match self {
            CompileError::Internal { .. } | CompileError::Patch { .. } => true,
            CompileError::Plugin(e) => matches!(e.kind, ErrorKind::PLUGIN | ErrorKind::PANIC | ErrorKind::INTERNAL),
            _ => false,
        }
    }
    /// As the border's error: kind (hence exit code) and diagnostics.
    pub fn into_error(self) -> Error {
        let text = self.to_string();
        match self {
            CompileError::Plugin(e) => e,
            CompileError::NoPrototype { node, op } => Diagnostic::error(text)
                .code("GE-E0201")
                .node(node, op)
                .help("enable the plugin that brings the operator in plugins.toml (`ge plugin list` shows what is loaded)")
                .of(ErrorKind::UNSUPPORTED),
            CompileError::Patch { .. } => Diagnostic::error(text)
                .code("GE-E0521")
                .help("report it to the plugin's maker; `enabled = false` in plugins.toml leaves the plugin out")
                .of(ErrorKind::PLUGIN),
            CompileError::Memory { needs, has, soc, holders } => Diagnostic::error(text)
                .code("GE-E0703")
                .found(needs, format!("at most {has}, the memory of {soc}"))
                .note(format!("the largest holders: {}", holders.join(", ")))
                .help("compile for smaller sizes (`--input-shape`), for a SoC with more memory (`--soc`), or split the model")
                .of(ErrorKind::FAILED),
            CompileError::Option { help, .. } => Diagnostic::error(text).code("GE-E0318").help(help).of(ErrorKind::USAGE),
            CompileError::Internal { .. } => Diagnostic::error(text).code("GE-E0900").help("this is a bug of ge: please report it with the bundle").of(ErrorKind::INTERNAL),
            CompileError::Cancelled => Error::cancelled(),
        }
    }
}
