//! Errors of loading and running.
use ge_plugin_api::diagnostic::{Diagnostic, Error};

/// Why a model was not loaded or did not run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No enabled plugin brings an engine that the model needs.
    #[error("the model needs engine {engine} for `{node}` ({op}), which no enabled plugin brings")]
    NoEngine {
        /// Name of the missing engine.
        engine: String,
        /// First node that needs the engine.
        node: String,
        /// Operator type of that node.
        op: String,
    },
    /// The OM is inconsistent or damaged.
    #[error("{what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// An input does not fit the model.
    #[error("input `{name}`: found {found}, expected {expected}")]
    Input {
        /// Name of the input.
        name: String,
        /// What the caller gave.
        found: String,
        /// What the model expects.
        expected: String,
    },
    /// The model has no gear for the sizes of its inputs.
    #[error("the model has no gear for {found}")]
    NoGear {
        /// Sizes of the inputs.
        found: String,
        /// The gear closest to these sizes.
        nearest: String,
        /// All gears.
        all: String,
        /// The command-line option that would add a gear for these sizes to those of the model.
        flag: String,
    },
    /// A variable has another type, shape or layout than requested, or does not exist.
    #[error("variable `{name}`: found {found}, expected {expected}")]
    Variable {
        /// Name of the variable.
        name: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A model needs more streams than one model may have.
    #[error("the model has {found} streams, a device gives {most} at once")]
    TooManyStreams {
        /// Streams that the model needs.
        found: usize,
        /// Maximum number of streams of one model.
        most: usize,
    },
    /// A model needs more new streams than the device has left beside the other models.
    #[error("the model needs {wanted} streams that no other model has, the device has {left} left")]
    DeviceFull {
        /// New streams that would have to be created.
        wanted: usize,
        /// Streams that the device can still create.
        left: usize,
    },
    /// An error from an engine or the device.
    #[error("{0}")]
    Border(Error),
}

impl From<Error> for RuntimeError {
    fn from(e: Error) -> RuntimeError {
        RuntimeError::Border(e)
    }
}

impl RuntimeError {
    /// Converts to the plugin interface's error, with its kind (which sets the exit code) and
    /// diagnostics.
    pub fn into_error(self) -> Error {
        let text = self.to_string();
        match self {
            RuntimeError::Border(e) => e,
            RuntimeError::NoEngine { node, op, engine } => Diagnostic::error(text)
                .node(node, op)
                .help(format!(
                    "enable the plugin that brings {engine} in plugins.toml, or compile the model again without it"
                ))
                .raise(ge_codes::ENGINE_OF_OM),
            RuntimeError::Damaged { .. } => {
                Diagnostic::error(text).help("compile the model again").raise(ge_codes::DAMAGED_OM)
            }
            RuntimeError::TooManyStreams { .. } => Diagnostic::error(text)
                .help("compile for a SoC with longer streams, or with fewer streams")
                .raise(ge_codes::STREAMS_TAKEN),
            RuntimeError::DeviceFull { .. } => Diagnostic::error(text)
                .help("unload another model, give both the same stream priority, or compile with fewer streams")
                .raise(ge_codes::STREAMS_TAKEN),
            RuntimeError::Variable { name, found, expected } => {
                Diagnostic::error(format!("variable `{name}` does not fit"))
                    .subject(name)
                    .found(found, expected)
                    .help("a variable has one type and shape in all graphs of a session; a saved value is for the variable of its name")
                    .raise(ge_codes::VARIABLE)
            }
            RuntimeError::NoGear { found, nearest, all, flag } => Diagnostic::error(text)
                .found(found, format!("one of {all}; the nearest is {nearest}"))
                .help(format!(
                    "give inputs of a gear, or add one: `ge compile MODEL -o OUT.om {flag}`; \
                     `--set compileHybridMode=1` with it runs any sizes"
                ))
                .raise(ge_codes::NO_GEAR),
            RuntimeError::Input { name, found, expected } => {
                Diagnostic::error(format!("input `{name}` does not fit the model"))
                    .subject(name)
                    .found(found, expected)
                    .help("`ge inspect MODEL --what graph` lists the inputs")
                    .raise(ge_codes::INPUT)
            }
        }
    }
}
