//! The parser: turns text into a model and collects all errors. It never panics or hangs, and its
//! memory is bounded by the size of the text.
mod nodes;
mod places;
mod tensors;
mod types;
mod values;

pub use places::Places;

use super::lexer::{LexError, Lexer, Tok};
use crate::graph::{Graph, Model};
use ge_plugin_api::diagnostic::{Diagnostic, Result as ApiResult};
use ge_plugin_api::types::{AttrMap, Blob, NodeId, TensorDesc};
use places::{line_column, line_starts};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The parser stops after this many errors in one text.
pub const ERROR_LIMIT: usize = 100;

/// Opens the files that a text names, by paths relative to the text. The host refuses paths that
/// leave the text's folder.
pub trait SideFiles {
    /// Returns the whole file, memory-mapped.
    fn open(&self, path: &str) -> ApiResult<Blob>;
}

/// Rejects side files: a text that names one is refused.
pub struct NoFiles;
impl SideFiles for NoFiles {
    fn open(&self, path: &str) -> ApiResult<Blob> {
        Err(ge_plugin_api::Error::unsupported(format!("this text cannot name other files ({path})")))
    }
}

/// Parses a model. Node ids follow the order of the text: for each graph its head, then its body,
/// then its return line.
///
/// # Errors
/// Returns every error found, up to [`ERROR_LIMIT`], each with file, line and column (`GE-E0120`
/// for the form, `GE-E0121` for names, `GE-E0122` for constants and side files).
pub fn parse(text: &str, file_name: &str, files: &dyn SideFiles) -> Result<Model, Vec<Diagnostic>> {
    parse_placed(text, file_name, files).map(|(m, _)| m)
}

/// Like [`parse`], but also returns the places of all nodes, so that later messages can name line
/// and column.
pub fn parse_placed<'t>(
    text: &'t str,
    file_name: &'t str,
    files: &dyn SideFiles,
) -> Result<(Model, Places<'t>), Vec<Diagnostic>> {
    let mut p = Parser {
        text,
        file: file_name,
        lexer: Lexer::new(text),
        at: 0,
        tok: Tok::End,
        files,
        opened: HashMap::new(),
        faults: Vec::new(),
        lines: None,
        suggested: 0,
        places: Vec::new(),
    };
    let graphs = p.model();
    match Model::from_graphs(graphs) {
        Some(m) if p.faults.is_empty() => Ok((m, Places { text, file: file_name, nodes: p.places })),
        _ => {
            p.faults.sort_by_key(|(at, _)| *at);
            Err(p.faults.into_iter().map(|(_, d)| d).collect())
        }
    }
}

/// Signals that an error was reported; parsing continues at the next statement.
struct Broken;
type Read<T> = Result<T, Broken>;

struct Parser<'t, 'f> {
    text: &'t str,
    file: &'f str,
    lexer: Lexer<'t>,
    /// Byte offset where the current token starts.
    at: usize,
    tok: Tok<'t>,
    files: &'f dyn SideFiles,
    opened: HashMap<String, Option<Blob>>,
    faults: Vec<(usize, Diagnostic)>,
    /// Offsets of line starts, computed for the first message.
    lines: Option<Vec<usize>>,
    suggested: usize,
    /// For each graph, the byte offsets of its nodes by id, then that of the graph itself.
    places: Vec<Vec<usize>>,
}

/// The inputs in a graph's head: byte offset, name and descriptor.
type Head<'t> = Vec<(usize, Cow<'t, str>, TensorDesc)>;

/// State of the graph being parsed.
struct Scope<'t> {
    graph: Graph,
    /// Nodes by name. `None` marks a faulty definition, whose uses are not reported again.
    names: HashMap<Cow<'t, str>, Option<NodeId>>,
    /// Uses of names that were not defined before: byte offset and name.
    unknown: Vec<(usize, Cow<'t, str>)>,
}

/// A value used as an input, as it was read.
enum UseOf<'t> {
    Absent,
    Value { at: usize, name: Cow<'t, str>, output: u64 },
}

/// A statement of the body, as it was read.
struct Statement<'t> {
    at: usize,
    /// `None` for the return line.
    name: Option<Cow<'t, str>>,
    op: String,
    inputs: Vec<UseOf<'t>>,
    controls: Vec<(usize, Cow<'t, str>)>,
    attrs: AttrMap,
    outputs: Vec<TensorDesc>,
}

impl<'t, 'f> Parser<'t, 'f> {
    // ---- messages ----

    fn fault(&mut self, at: usize, code: impl AsRef<str>, d: Diagnostic) -> Broken {
        if self.faults.len() < ERROR_LIMIT {
            let text = self.text;
            let starts = self.lines.get_or_insert_with(|| line_starts(text));
            let (line, column) = line_column(text, starts, at);
            self.faults.push((at, d.code(code).at(self.file, line, column)));
        }
        Broken
    }
    fn full(&self) -> bool {
        self.faults.len() >= ERROR_LIMIT
    }
    fn wanted(&mut self, what: &str) -> Broken {
        let found = self.tok.show();
        let d = Diagnostic::error(format!("{what} expected, found {found}")).found(found, what);
        self.fault(self.at, ge_codes::TEXT_FORM, d)
    }
    fn lex_fault(&mut self, e: LexError) -> Broken {
        let found = self.text.get(e.at..).and_then(|s| s.chars().next()).map_or(String::new(), |c| format!("{c:?}"));
        self.fault(e.at, ge_codes::TEXT_FORM, Diagnostic::error(e.message).found(found, e.expected))
    }

    // ---- tokens ----

    fn advance(&mut self) -> Read<Tok<'t>> {
        match self.lexer.next() {
            Ok((at, t)) => {
                self.at = at;
                Ok(std::mem::replace(&mut self.tok, t))
            }
            Err(e) => Err(self.lex_fault(e)),
        }
    }
    fn is(&self, c: char) -> bool {
        self.tok == Tok::Punct(c)
    }
    fn is_word(&self, w: &str) -> bool {
        matches!(self.tok, Tok::Ident(s) if s == w)
    }
    fn take(&mut self, c: char) -> Read<bool> {
        if self.is(c) {
            self.advance()?;
            return Ok(true);
        }
        Ok(false)
    }
    fn want(&mut self, c: char, what: &str) -> Read<()> {
        if self.take(c)? { Ok(()) } else { Err(self.wanted(what)) }
    }
    /// Reads a word or a quoted string.
    fn key(&mut self, what: &str) -> Read<Cow<'t, str>> {
        match &self.tok {
            Tok::Ident(s) => {
                let s = Cow::Borrowed(*s);
                self.advance()?;
                Ok(s)
            }
            Tok::Str(_) => match self.advance()? {
                Tok::Str(s) => Ok(s),
                _ => Err(self.wanted(what)),
            },
            _ => Err(self.wanted(what)),
        }
    }
    fn unsigned(&mut self, what: &str) -> Read<u64> {
        if let Tok::Number(w) = self.tok
            && w.bytes().all(|b| b.is_ascii_digit())
            && let Ok(v) = w.parse::<u64>()
        {
            self.advance()?;
            return Ok(v);
        }
        Err(self.wanted(what))
    }

    /// Continues at the next token that starts a line and can start a statement or a graph.
    fn recover(&mut self) {
        loop {
            let (at, tok) = match self.lexer.next() {
                Ok(x) => x,
                Err(_) => continue,
            };
            let before = self.text[..at].trim_end_matches([' ', '\t', '\r']);
            let fresh = || before.is_empty() || before.ends_with('\n');
            let stop = match &tok {
                Tok::End => true,
                Tok::Value { .. } | Tok::Punct('}') => fresh(),
                Tok::Ident("return" | "graph") => fresh(),
                _ => false,
            };
            if stop {
                self.at = at;
                self.tok = tok;
                return;
            }
        }
    }

    // ---- graphs ----

    fn model(&mut self) -> Vec<Graph> {
        let mut graphs: Vec<Graph> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        if self.advance().is_err() {
            self.recover();
        }
        while self.tok != Tok::End && !self.full() {
            let at = self.at;
            if !self.is_word("graph") {
                self.wanted("`graph`");
                self.recover_to_graph();
                continue;
            }
            if let Ok(g) = self.graph(graphs.is_empty()) {
                if !names.insert(g.name().to_owned()) {
                    let d = Diagnostic::error(format!("graph `@{}` is defined twice", g.name()));
                    self.fault(at, ge_codes::TEXT_NAME, d);
                }
                graphs.push(g);
            } else {
                self.recover_to_graph();
            }
        }
        if graphs.is_empty() && self.faults.is_empty() {
            let d = Diagnostic::error("the text has no graph")
                .found("nothing but space and comments", "`graph @name(…) {`");
            self.fault(0, ge_codes::TEXT_FORM, d);
        }
        graphs
    }
    fn recover_to_graph(&mut self) {
        while !matches!(self.tok, Tok::End | Tok::Ident("graph")) {
            self.recover();
            if matches!(self.tok, Tok::Value { .. } | Tok::Punct(_) | Tok::Ident("return")) && self.full() {
                return;
            }
        }
    }

    fn graph(&mut self, root: bool) -> Read<Graph> {
        self.advance()?;
        let Tok::At(name) = &self.tok else { return Err(self.wanted("`@` and the graph's name")) };
        let name = name.clone().into_owned();
        let start = self.at;
        self.advance()?;
        let mut scope = Scope { graph: Graph::new(&name), names: HashMap::new(), unknown: Vec::new() };
        let head = self.head()?;
        if self.is_word("attributes") {
            self.advance()?;
            *scope.graph.attrs_mut() = self.attrs()?;
        }
        self.want('{', "`{` and the graph's body")?;
        // Read all statements before making nodes, because the indices of the head depend on what
        // the body claims.
        let mut body: Vec<Statement<'t>> = Vec::new();
        let mut poisoned: Vec<Cow<'t, str>> = Vec::new();
        let mut closed = false;
        while !self.full() {
            match &self.tok {
                Tok::Punct('}') => {
                    closed = true;
                    // The caller reads what follows the graph; an error there does not belong to
                    // this graph.
                    if self.advance().is_err() {
                        self.recover();
                    }
                    break;
                }
                Tok::End | Tok::Ident("graph") => break,
                _ => {}
            }
            let started = match &self.tok {
                Tok::Value { name, .. } => Some(name.clone()),
                _ => None,
            };
            match self.statement() {
                Ok(s) => body.push(s),
                Err(Broken) => {
                    poisoned.extend(started);
                    self.recover();
                }
            }
        }
        if !closed && !self.full() {
            self.wanted("`}` that closes the graph");
        }
        for p in poisoned {
            scope.names.insert(p, None);
        }
        Ok(self.build(scope, head, body, root, start))
    }

    fn head(&mut self) -> Read<Head<'t>> {
        self.want('(', "`(` and the graph's inputs")?;
        let mut head = Vec::new();
        if self.take(')')? {
            return Ok(head);
        }
        loop {
            let at = self.at;
            let Tok::Value { name, output: None } = &self.tok else {
                return Err(self.wanted("`%` and an input's name"));
            };
            let name = name.clone();
            self.advance()?;
            self.want(':', "`:` and the input's type")?;
            head.push((at, name, self.desc()?));
            if self.take(')')? {
                return Ok(head);
            }
            self.want(',', "`,` or `)`")?;
        }
    }

    fn statement(&mut self) -> Read<Statement<'t>> {
        let at = self.at;
        if self.is_word("return") {
            self.advance()?;
            let mut s = Statement {
                at,
                name: None,
                op: "NetOutput".into(),
                inputs: Vec::new(),
                controls: Vec::new(),
                attrs: AttrMap::default(),
                outputs: Vec::new(),
            };
            if matches!(self.tok, Tok::Value { .. }) || self.is_word("_") {
                loop {
                    s.inputs.push(self.use_of()?);
                    if !self.take(',')? {
                        break;
                    }
                }
            }
            self.tail(&mut s)?;
            if !self.is('}') {
                return Err(self.wanted("`}` behind the return line"));
            }
            return Ok(s);
        }
        let Tok::Value { name, output: None } = &self.tok else {
            return Err(self.wanted("a node `%name = …`, `return` or `}`"));
        };
        let name = name.clone();
        self.advance()?;
        self.want('=', "`=` and an operator type")?;
        let op = self.key("an operator type")?.into_owned();
        self.want('(', "`(` and the inputs")?;
        let mut s = Statement {
            at,
            name: Some(name),
            op,
            inputs: Vec::new(),
            controls: Vec::new(),
            attrs: AttrMap::default(),
            outputs: Vec::new(),
        };
        if !self.take(')')? {
            loop {
                s.inputs.push(self.use_of()?);
                if self.take(')')? {
                    break;
                }
                self.want(',', "`,` or `)`")?;
            }
        }
        self.tail(&mut s)?;
        self.want(':', "`:` and the output types (`: ()` for none)")?;
        if self.take('(')? {
            self.want(')', "`)`")?;
        } else {
            loop {
                s.outputs.push(self.desc()?);
                if !self.take(',')? {
                    break;
                }
            }
        }
        Ok(s)
    }

    /// Reads `{attributes} after(controls)`.
    fn tail(&mut self, s: &mut Statement<'t>) -> Read<()> {
        if self.is('{') {
            s.attrs = self.attrs()?;
        }
        if self.is_word("after") {
            self.advance()?;
            self.want('(', "`(` and the control inputs")?;
            if self.take(')')? {
                return Ok(());
            }
            loop {
                let at = self.at;
                let Tok::Value { name, output: None } = &self.tok else { return Err(self.wanted("a node `%name`")) };
                s.controls.push((at, name.clone()));
                self.advance()?;
                if self.take(')')? {
                    break;
                }
                self.want(',', "`,` or `)`")?;
            }
        }
        Ok(())
    }

    fn use_of(&mut self) -> Read<UseOf<'t>> {
        let at = self.at;
        match &self.tok {
            Tok::Ident("_") => {
                self.advance()?;
                Ok(UseOf::Absent)
            }
            Tok::Value { .. } => match self.advance()? {
                Tok::Value { name, output } => Ok(UseOf::Value { at, name, output: output.unwrap_or(0) }),
                _ => Err(self.wanted("a value")),
            },
            _ => Err(self.wanted("a value `%name`, `%name#k` or `_`")),
        }
    }
}
