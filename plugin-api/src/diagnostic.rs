//! Diagnostics: what failed for which item and where, what was found and expected, who was asked,
//! and what helps. They are plain data and cross the ABI; the host renders them.
use crate::abi::{ROption, RString, RVec, StableAbi};
use crate::open_code;

open_code! {
    /// How serious a diagnostic is.
    pub struct Severity: u8 {
        /// The operation fails.
        ERROR = 0 "error",
        /// The operation continues.
        WARNING = 1 "warning",
        /// For information.
        NOTE = 2 "note",
    }
}
impl Default for Severity {
    fn default() -> Self {
        Severity::ERROR
    }
}

open_code! {
    /// Kind of failure. The host derives the exit code from it (DESIGN 4).
    pub struct ErrorKind: u8 {
        /// The operation failed, or the answer is no (exit 1).
        FAILED = 0 "failed",
        /// A wrong usage or option, a missing path, or inputs that do not fit (exit 2).
        USAGE = 1 "usage",
        /// No enabled plugin can do it (exit 3).
        UNSUPPORTED = 2 "unsupported",
        /// An input file is damaged or is not what it claims to be (exit 4).
        DAMAGED = 3 "damaged",
        /// A plugin failed (exit 5).
        PLUGIN = 4 "plugin",
        /// A plugin panicked (exit 5).
        PANIC = 5 "panic",
        /// The device failed (exit 6).
        DEVICE = 6 "device",
        /// A bug in the host (exit 70).
        INTERNAL = 7 "internal",
        /// Cancelled by the user (exit 130).
        CANCELLED = 8 "cancelled",
    }
}
impl Default for ErrorKind {
    fn default() -> Self {
        ErrorKind::FAILED
    }
}

/// A stable error code, and the kind that all errors with this code have.
///
/// Define one constant per code, so that code and exit code always match:
/// ```
/// use ge_plugin_api::{Diagnostic, ErrorKind, diagnostic::Code};
///
/// const NO_KERNEL: Code = Code::new("ACME-17", ErrorKind::UNSUPPORTED);
/// let error = Diagnostic::error("no kernel for `conv1`").node("conv1", "Conv2D").raise(NO_KERNEL);
/// assert_eq!(error.kind, ErrorKind::UNSUPPORTED);
/// assert!(NO_KERNEL.is(&error.diagnostics[0]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    text: &'static str,
    kind: ErrorKind,
}

impl Code {
    /// A code with its kind.
    pub const fn new(text: &'static str, kind: ErrorKind) -> Code {
        Code { text, kind }
    }
    /// The code as shown in errors.
    pub const fn text(&self) -> &'static str {
        self.text
    }
    /// The kind of all errors with this code.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
    /// Whether a diagnostic has this code.
    pub fn is(&self, d: &Diagnostic) -> bool {
        d.code.as_str() == self.text
    }
    /// A diagnostic with this code.
    pub fn say(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).code(self)
    }
    /// An error with this code.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.say(message).of(self.kind)
    }
    /// Several diagnostics as one error of this code's kind.
    pub fn all(&self, diagnostics: Vec<Diagnostic>) -> Error {
        Error::all(self.kind, diagnostics)
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        self.text
    }
}

/// `GE-E0102`: a model file contradicts itself or is truncated.
pub const BROKEN_MODEL: Code = Code::new("GE-E0102", ErrorKind::DAMAGED);
/// `GE-E0103`: a model without a folder refers to an external data file.
pub const NO_EXTERNAL_DATA: Code = Code::new("GE-E0103", ErrorKind::DAMAGED);
/// `GE-E0104`: a model uses something that its front end does not map.
pub const NOT_MAPPED: Code = Code::new("GE-E0104", ErrorKind::UNSUPPORTED);

/// A position: a file, and line and column if it is a text file.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct Place {
    /// Name of the file as the user gave it.
    pub file: RString,
    /// Line, counted from 1; 0 if there is none.
    pub line: u32,
    /// Column, counted from 1; 0 if there is none.
    pub column: u32,
}

/// One message to the user.
/// # Examples
/// ```
/// use ge_plugin_api::{Diagnostic, ErrorKind};
///
/// let error = Diagnostic::error("no kernel for `conv1`")
///     .code("ACME-17")
///     .node("conv1", "Conv2D")
///     .subject("input 0")
///     .found("f64[1,3]", "f32 or f16")
///     .help("cast the input, or compile with `--set ge.exec.precision_mode=force_fp32`")
///     .of(ErrorKind::UNSUPPORTED);
/// assert!(error.to_string().contains("no kernel for `conv1`"));
/// ```
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct Diagnostic {
    /// Stable code (`GE-E0207`). If empty, the host uses the code of the error's kind.
    pub code: RString,
    /// The code that atc uses for it, or empty.
    pub atc_code: RString,
    /// How serious it is.
    pub severity: Severity,
    /// What failed for which item, in the user's own names.
    pub message: RString,
    /// File, line and column of the fault, if known.
    pub place: ROption<Place>,
    /// Node path (`graph/node`), or empty.
    pub node: RString,
    /// Operator type, or empty.
    pub op: RString,
    /// The input, output or attribute at fault (`input 0`), or empty.
    pub subject: RString,
    /// What was found, or empty.
    pub found: RString,
    /// What was expected, or empty.
    pub expected: RString,
    /// Further facts, one per line, for example who else was asked and why they refused.
    pub notes: RVec<RString>,
    /// What to do, or empty.
    pub help: RString,
}

impl Diagnostic {
    /// An error with a message.
    pub fn error(message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into().into(), ..Diagnostic::default() }
    }
    /// A warning with a message.
    pub fn warning(message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::WARNING, ..Diagnostic::error(message) }
    }
    /// Sets the stable code.
    pub fn code(mut self, code: impl AsRef<str>) -> Self {
        self.code = code.as_ref().into();
        self
    }
    /// Sets the code that atc uses.
    pub fn atc(mut self, code: &str) -> Self {
        self.atc_code = code.into();
        self
    }
    /// Sets the node's path and operator type.
    pub fn node(mut self, node: impl Into<String>, op: impl Into<String>) -> Self {
        self.node = node.into().into();
        self.op = op.into().into();
        self
    }
    /// Sets file, line and column; 0 for no line or column.
    pub fn at(mut self, file: impl Into<String>, line: u32, column: u32) -> Self {
        self.place = ROption::RSome(Place { file: file.into().into(), line, column });
        self
    }
    /// Sets the input, output or attribute that it is about.
    pub fn subject(mut self, s: impl Into<String>) -> Self {
        self.subject = s.into().into();
        self
    }
    /// Sets what was found and what was expected.
    pub fn found(mut self, found: impl Into<String>, expected: impl Into<String>) -> Self {
        self.found = found.into().into();
        self.expected = expected.into().into();
        self
    }
    /// Adds a further fact.
    pub fn note(mut self, n: impl Into<String>) -> Self {
        self.notes.push(n.into().into());
        self
    }
    /// Sets what the user should do.
    pub fn help(mut self, h: impl Into<String>) -> Self {
        self.help = h.into().into();
        self
    }
}

/// A failure: its kind and its diagnostics (at least one).
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Error {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Diagnostics, the most important one first.
    pub diagnostics: RVec<Diagnostic>,
}

/// Result type of the functions of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// An error of a kind with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Diagnostic::error(message).of(kind)
    }
    /// A `FAILED` error: the operation failed.
    pub fn failed(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::FAILED, message)
    }
    /// An `UNSUPPORTED` error: no enabled plugin can do it.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::UNSUPPORTED, message)
    }
    /// A `DAMAGED` error: an input is damaged or is not what it claims to be.
    pub fn damaged(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::DAMAGED, message)
    }
    /// A `USAGE` error: wrong usage or option.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::USAGE, message)
    }
    /// An `INTERNAL` error: a bug in the host.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::INTERNAL, message)
    }
    /// A `CANCELLED` error: the user interrupted the operation.
    pub fn cancelled() -> Error {
        Error::new(ErrorKind::CANCELLED, "interrupted")
    }
    /// Several diagnostics as one error of a kind. If there are none, a general one is added.
    pub fn all(kind: ErrorKind, diagnostics: Vec<Diagnostic>) -> Error {
        if diagnostics.is_empty() {
            return Error::new(kind, "failed without a diagnostic");
        }
        Error { kind, diagnostics: diagnostics.into() }
    }
    /// Changes the first diagnostic.
    pub fn with(mut self, f: impl FnOnce(Diagnostic) -> Diagnostic) -> Error {
        if let Some(d) = self.diagnostics.first_mut() {
            *d = f(std::mem::take(d));
        }
        self
    }
    /// Sets node path and operator type in all diagnostics that have no node yet.
    pub fn at_node(mut self, node: &str, op: &str) -> Error {
        for d in self.diagnostics.iter_mut() {
            if d.node.is_empty() {
                d.node = node.into();
                d.op = op.into();
            }
        }
        self
    }
    /// The message of the first diagnostic.
    pub fn message(&self) -> &str {
        self.diagnostics.first().map_or("", |d| d.message.as_str())
    }
}

impl Diagnostic {
    /// An error with this diagnostic, the given code and the code's kind.
    pub fn raise(self, code: Code) -> Error {
        self.code(code).of(code.kind)
    }
    /// An error of a kind with this diagnostic.
    pub fn of(self, kind: ErrorKind) -> Error {
        Error { kind, diagnostics: vec![self].into() }
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (i, d) in self.diagnostics.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            f.write_str(&d.message)?;
            if !d.node.is_empty() {
                write!(f, " (node `{}`, {})", d.node, d.op)?;
            }
            if !d.found.is_empty() {
                write!(f, ": found {}, expected {}", d.found, d.expected)?;
            }
        }
        Ok(())
    }
}
impl std::error::Error for Error {}
impl From<&str> for Error {
    fn from(s: &str) -> Error {
        Error::failed(s)
    }
}
impl From<String> for Error {
    fn from(s: String) -> Error {
        Error::failed(s)
    }
}
