//! Diagnostics: what could not be done to which thing, where, what was found and expected, who was
//! asked, what helps. Plain data, so that they cross the border; the host draws them.
use crate::abi::{ROption, RString, RVec, StableAbi};
use crate::open_code;

open_code! {
    /// How bad it is.
    pub struct Severity: u8 {
        /// The work fails.
        ERROR = 0 "error",
        /// The work goes on.
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
    /// What kind of failure it is; the host derives the exit code from it (DESIGN 4).
    pub struct ErrorKind: u8 {
        /// The work failed, or the answer is no (exit 1).
        FAILED = 0 "failed",
        /// A usage or option error, a path that is missing, inputs that do not fit (exit 2).
        USAGE = 1 "usage",
        /// Nothing enabled can do it (exit 3).
        UNSUPPORTED = 2 "unsupported",
        /// An input file is damaged or not what it claims (exit 4).
        DAMAGED = 3 "damaged",
        /// A plugin failed (exit 5).
        PLUGIN = 4 "plugin",
        /// A plugin panicked (exit 5).
        PANIC = 5 "panic",
        /// The device failed (exit 6).
        DEVICE = 6 "device",
        /// A bug of the host (exit 70).
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

/// A stable code of errors, and the kind that all errors of this code have.
///
/// A constant for each code, made once, keeps code and exit code together:
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
    /// The code as errors show it.
    pub const fn text(&self) -> &'static str {
        self.text
    }
    /// The kind of errors with this code.
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

/// `GE-E0102`: a model file contradicts itself, or is cut.
pub const BROKEN_MODEL: Code = Code::new("GE-E0102", ErrorKind::DAMAGED);
/// `GE-E0103`: a model that has no folder asks for a file of external data.
pub const NO_EXTERNAL_DATA: Code = Code::new("GE-E0103", ErrorKind::DAMAGED);
/// `GE-E0104`: a model uses something that its front end does not map.
pub const NOT_MAPPED: Code = Code::new("GE-E0104", ErrorKind::UNSUPPORTED);

/// A place: a file, and where it is text, line and column (from 1; 0 is none).
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct Place {
    /// File as the user named it.
    pub file: RString,
    /// Line from 1, or 0.
    pub line: u32,
    /// Column from 1, or 0.
    pub column: u32,
}

/// One thing to tell the user.
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
    /// Stable code (`GE-E0207`); empty: the host gives the code of the kind.
    pub code: RString,
    /// atc's own code beside it, or empty.
    pub atc_code: RString,
    /// How bad.
    pub severity: Severity,
    /// What could not be done to which thing, by the user's own names.
    pub message: RString,
    /// File, line and column of the fault.
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
    /// Who else was asked and why not, and other facts, one a line.
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
    /// With a stable code.
    pub fn code(mut self, code: impl AsRef<str>) -> Self {
        self.code = code.as_ref().into();
        self
    }
    /// With atc's code.
    pub fn atc(mut self, code: &str) -> Self {
        self.atc_code = code.into();
        self
    }
    /// With the node's path and operator type.
    pub fn node(mut self, node: impl Into<String>, op: impl Into<String>) -> Self {
        self.node = node.into().into();
        self.op = op.into().into();
        self
    }
    /// With a place.
    pub fn at(mut self, file: impl Into<String>, line: u32, column: u32) -> Self {
        self.place = ROption::RSome(Place { file: file.into().into(), line, column });
        self
    }
    /// With the input, output or attribute it is about.
    pub fn subject(mut self, s: impl Into<String>) -> Self {
        self.subject = s.into().into();
        self
    }
    /// With what was found and what was expected.
    pub fn found(mut self, found: impl Into<String>, expected: impl Into<String>) -> Self {
        self.found = found.into().into();
        self.expected = expected.into().into();
        self
    }
    /// With one more fact.
    pub fn note(mut self, n: impl Into<String>) -> Self {
        self.notes.push(n.into().into());
        self
    }
    /// With what to do.
    pub fn help(mut self, h: impl Into<String>) -> Self {
        self.help = h.into().into();
        self
    }
}

/// A failure: its kind and all diagnostics of it (at least one).
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Error {
    /// Kind.
    pub kind: ErrorKind,
    /// Diagnostics, most telling first.
    pub diagnostics: RVec<Diagnostic>,
}

/// Result of the border's functions.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// An error of a kind with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Diagnostic::error(message).of(kind)
    }
    /// "The work failed".
    pub fn failed(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::FAILED, message)
    }
    /// "Nothing enabled can do it".
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::UNSUPPORTED, message)
    }
    /// "The input is damaged or not what it claims".
    pub fn damaged(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::DAMAGED, message)
    }
    /// "A usage or option error".
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::USAGE, message)
    }
    /// "A bug of ours".
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::INTERNAL, message)
    }
    /// Cancelled.
    pub fn cancelled() -> Error {
        Error::new(ErrorKind::CANCELLED, "interrupted")
    }
    /// Several diagnostics as one error of a kind.
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
    /// Adds node path and operator where they are not said yet.
    pub fn at_node(mut self, node: &str, op: &str) -> Error {
        for d in self.diagnostics.iter_mut() {
            if d.node.is_empty() {
                d.node = node.into();
                d.op = op.into();
            }
        }
        self
    }
    /// The first message.
    pub fn message(&self) -> &str {
        self.diagnostics.first().map_or("", |d| d.message.as_str())
    }
}

impl Diagnostic {
    /// An error with this diagnostic, of this code and its kind.
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
