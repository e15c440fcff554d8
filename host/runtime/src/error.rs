//! Errors of loading and running.
use ge_plugin_api::diagnostic::{Diagnostic, Error};

/// Why a model was not loaded or did not run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// An engine that the model needs is not loaded.
    #[error("the model needs engine {engine} for `{node}` ({op}), which no enabled plugin brings")]
    NoEngine {
        /// Engine.
        engine: String,
        /// First node that needs it.
        node: String,
        /// Its type.
        op: String,
    },
    /// The OM says something that does not hold.
    #[error("{what}")]
    Damaged {
        /// What.
        what: String,
    },
    /// An input does not fit the model.
    #[error("input `{name}`: found {found}, expected {expected}")]
    Input {
        /// Input's name.
        name: String,
        /// What was given.
        found: String,
        /// What the model takes.
        expected: String,
    },
    /// The model has no gear for the sizes of the inputs.
    #[error("the model has no gear for {found}")]
    NoGear {
        /// Sizes of the inputs.
        found: String,
        /// The gear that is nearest.
        nearest: String,
        /// All gears.
        all: String,
        /// What a command line has for these gears and the sizes found.
        flag: String,
    },
    /// A variable is not what is asked for.
    #[error("variable `{name}`: found {found}, expected {expected}")]
    Variable {
        /// Its name.
        name: String,
        /// What was given.
        found: String,
        /// What it is.
        expected: String,
    },
    /// A model has more streams than a device gives at once.
    #[error("the model has {found} streams, a device gives {most} at once")]
    TooManyStreams {
        /// Streams of the model.
        found: usize,
        /// The most there are.
        most: usize,
    },
    /// A model needs more streams than other models leave.
    #[error("the model needs {wanted} streams that no other model has, the device has {left} left")]
    DeviceFull {
        /// Streams that would have to be made.
        wanted: usize,
        /// Streams that there are still.
        left: usize,
    },
    /// What an engine or the device said.
    #[error("{0}")]
    Border(Error),
}

impl From<Error> for RuntimeError {
    fn from(e: Error) -> RuntimeError {
        RuntimeError::Border(e)
    }
}

impl RuntimeError {
    /// As the border's error: kind (hence exit code) and diagnostics.
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
