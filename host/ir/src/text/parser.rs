//! The parser: text to model, collecting all faults; never panics, hangs or allocates beyond the text's own size.
use super::DEPTH_LIMIT;
use super::lexer::{LexError, Lexer, Tok};
use super::printer::{free_indices, is_indexed_input, net_output_name};
use super::tensor::Packer;
use crate::graph::{Graph, Model};
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::diagnostic::{Diagnostic, Result as ApiResult};
use ge_plugin_api::types::tensor::Origin;
use ge_plugin_api::types::{
    AttrMap, AttrValue, Blob, ConstData, ConstTensor, Container, DType, DictEntry, Dim, FileRange, Format, Key, NodeId,
    Shape, TensorDesc, ValueRef,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// So many faults are told of one text; reading stops there.
pub const ERROR_LIMIT: usize = 100;

/// Opens the files that a text names, relative to it. The host refuses paths that leave the text's folder.
pub trait SideFiles {
    /// The whole file, mapped.
    fn open(&self, path: &str) -> ApiResult<Blob>;
}

/// No side files: a text that names one is refused.
pub struct NoFiles;
impl SideFiles for NoFiles {
    fn open(&self, path: &str) -> ApiResult<Blob> {
        Err(ge_plugin_api::Error::unsupported(format!("this text cannot name other files ({path})")))
    }
}

/// Reads a model. Node ids are the order of the text: each graph's head, then its body, then its return.
///
/// Errors: every fault found, up to [`ERROR_LIMIT`], each with file, line and column (`GE-E0120` form, `GE-E0121` names,
/// `GE-E0122` constants and side files).
pub fn parse(text: &str, file_name: &str, files: &dyn SideFiles) -> Result<Model, Vec<Diagnostic>> {
    parse_placed(text, file_name, files).map(|(m, _)| m)
}

/// As [`parse`], with the places of all nodes, so that later messages can name line and column.
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

/// Where the graphs and nodes of a text stand.
#[derive(Clone, Debug)]
pub struct Places<'t> {
    text: &'t str,
    file: &'t str,
    nodes: Vec<Vec<usize>>,
}

impl Places<'_> {
    /// Gives a place to each diagnostic that names a node (`graph/node`) or a graph (subject `@graph`) of the model as it
    /// was read and has none yet.
    pub fn locate(&self, model: &Model, diagnostics: &mut [Diagnostic]) {
        let mut at: HashMap<String, usize> = HashMap::new();
        for (g, places) in model.graphs().iter().zip(&self.nodes) {
            at.extend(places.last().map(|p| (format!("@{}", g.name()), *p)));
            for (n, p) in g.nodes().zip(places) {
                at.entry(format!("{}/{}", g.name(), n.name())).or_insert(*p);
            }
        }
        let starts = line_starts(self.text);
        for d in diagnostics.iter_mut().filter(|d| d.place.is_none()) {
            let key = if d.node.is_empty() { d.subject.as_str() } else { d.node.as_str() };
            if let Some(&p) = at.get(key) {
                let (line, column) = line_column(self.text, &starts, p);
                d.place = ROption::RSome(ge_plugin_api::diagnostic::Place { file: self.file.into(), line, column });
            }
        }
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1)).collect()
}

/// Line and column from 1; the column counts characters.
fn line_column(text: &str, starts: &[usize], at: usize) -> (u32, u32) {
    let line = starts.partition_point(|s| *s <= at).max(1);
    let start = starts.get(line - 1).copied().unwrap_or(0);
    let column = text.get(start..at).map_or(0, |s| s.chars().filter(|c| *c != '\u{feff}').count()) + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// A fault was told; read on at the next statement.
struct Broken;
type Read<T> = Result<T, Broken>;

struct Parser<'t, 'f> {
    text: &'t str,
    file: &'f str,
    lexer: Lexer<'t>,
    /// Where the current token starts.
    at: usize,
    tok: Tok<'t>,
    files: &'f dyn SideFiles,
    opened: HashMap<String, Option<Blob>>,
    faults: Vec<(usize, Diagnostic)>,
    /// Starts of lines, made for the first message.
    lines: Option<Vec<usize>>,
    suggested: usize,
    /// Where each graph's nodes stand, by id; the graph itself last.
    places: Vec<Vec<usize>>,
}

/// One graph under reading.
struct Scope<'t> {
    graph: Graph,
    /// Names to nodes; None: its definition is faulty, uses of it are not told again.
    names: HashMap<Cow<'t, str>, Option<NodeId>>,
    /// Uses of names not defined before: position, name.
    unknown: Vec<(usize, Cow<'t, str>)>,
}

/// A use of a value as read.
enum UseOf<'t> {
    Absent,
    Value { at: usize, name: Cow<'t, str>, output: u64 },
}

/// A statement of the body as read.
struct Statement<'t> {
    at: usize,
    /// None: the return line.
    name: Option<Cow<'t, str>>,
    op: String,
    inputs: Vec<UseOf<'t>>,
    controls: Vec<(usize, Cow<'t, str>)>,
    attrs: AttrMap,
    outputs: Vec<TensorDesc>,
}

impl<'t, 'f> Parser<'t, 'f> {
    // ---- messages ----

    fn fault(&mut self, at: usize, code: &str, d: Diagnostic) -> Broken {
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
        self.fault(self.at, "GE-E0120", d)
    }
    fn lex_fault(&mut self, e: LexError) -> Broken {
        let found = self.text.get(e.at..).and_then(|s| s.chars().next()).map_or(String::new(), |c| format!("{c:?}"));
        self.fault(e.at, "GE-E0120", Diagnostic::error(e.message).found(found, e.expected))
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
    /// A word or a quoted string.
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
        if let Tok::Number(w) = self.tok {
            if let (true, Ok(v)) = (w.bytes().all(|b| b.is_ascii_digit()), w.parse::<u64>()) {
                self.advance()?;
                return Ok(v);
            }
        }
        Err(self.wanted(what))
    }

    /// Goes on at the next thing that starts a line and can start a statement or a graph.
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
                    self.fault(at, "GE-E0121", d);
                }
                graphs.push(g);
            } else {
                self.recover_to_graph();
            }
        }
        if graphs.is_empty() && self.faults.is_empty() {
            let d = Diagnostic::error("the text has no graph")
                .found("nothing but space and comments", "`graph @name(…) {`");
            self.fault(0, "GE-E0120", d);
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
        // Statements first, nodes after: the head's indices depend on what the body claims.
        let mut body: Vec<Statement<'t>> = Vec::new();
        let mut poisoned: Vec<Cow<'t, str>> = Vec::new();
        let mut closed = false;
        while !self.full() {
            match &self.tok {
                Tok::Punct('}') => {
                    closed = true;
                    // What stands behind the graph is the caller's to read: a fault there is none of this graph.
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

    fn head(&mut self) -> Read<Vec<(usize, Cow<'t, str>, TensorDesc)>> {
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

    /// `{attributes} after(controls)`.
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

    // ---- from statements to nodes ----

    fn build(
        &mut self,
        mut scope: Scope<'t>,
        head: Vec<(usize, Cow<'t, str>, TensorDesc)>,
        body: Vec<Statement<'t>>,
        root: bool,
        start: usize,
    ) -> Graph {
        let mut places = Vec::with_capacity(head.len() + body.len() + 1);
        let claimed: HashSet<i64> =
            body.iter().filter(|s| is_indexed_input(&s.op)).filter_map(|s| s.attrs.int("index")).collect();
        let indices: Vec<i64> = free_indices(&claimed).take(head.len()).collect();
        let data = Key::new("Data");
        for ((at, name, desc), index) in head.into_iter().zip(indices) {
            let mut attrs = AttrMap::default();
            attrs.set("index", index);
            let node = scope.graph.push_node(data, name.to_string(), Vec::new(), Vec::new(), vec![desc], attrs);
            places.push(at);
            self.define(&mut scope, at, name, node);
        }
        for s in body {
            let mut inputs = Vec::with_capacity(s.inputs.len());
            let mut good = true;
            for u in s.inputs {
                match u {
                    UseOf::Absent => inputs.push(ValueRef::ABSENT),
                    UseOf::Value { at, name, output } => match self.look_up(&mut scope, at, &name) {
                        Some(id) => {
                            let count = scope.graph.get(id).map_or(0, |n| n.outputs().len());
                            match u32::try_from(output) {
                                Ok(k) if (k as usize) < count => inputs.push(ValueRef::new(id, k)),
                                _ => {
                                    good = false;
                                    let d = Diagnostic::error(format!("`%{name}` has no output {output}"))
                                        .found(format!("`%{name}#{output}`"), format!("one of its {count} outputs"));
                                    self.fault(at, "GE-E0121", d);
                                }
                            }
                        }
                        None => good = false,
                    },
                }
            }
            let mut controls = Vec::with_capacity(s.controls.len());
            for (at, name) in s.controls {
                match self.look_up(&mut scope, at, &name) {
                    Some(id) => controls.push(id),
                    None => good = false,
                }
            }
            let (text_name, node_name) = match s.name {
                Some(n) => (Some(n.clone()), n.into_owned()),
                None => {
                    let base = net_output_name(scope.graph.name(), root);
                    let mut name = base.clone();
                    let mut k = 1u32;
                    while scope.names.contains_key(name.as_str()) {
                        name = format!("{base}_{k}");
                        k += 1;
                    }
                    (None, name)
                }
            };
            let node = if good {
                scope.graph.push_node(Key::new(&s.op), node_name, inputs, controls, s.outputs, s.attrs)
            } else {
                None
            };
            places.push(s.at);
            if let Some(n) = text_name {
                self.define(&mut scope, s.at, n, node);
            }
        }
        self.tell_unknown(&scope);
        places.push(start);
        self.places.push(places);
        scope.graph
    }

    fn define(&mut self, scope: &mut Scope<'t>, at: usize, name: Cow<'t, str>, node: Option<NodeId>) {
        if let Some(Some(_)) = scope.names.get(&name) {
            let d = Diagnostic::error(format!("`%{name}` is defined twice in graph `@{}`", scope.graph.name()));
            self.fault(at, "GE-E0121", d);
            return;
        }
        scope.names.insert(name, node);
    }

    fn look_up(&mut self, scope: &mut Scope<'t>, at: usize, name: &Cow<'t, str>) -> Option<NodeId> {
        match scope.names.get(name) {
            Some(node) => *node,
            None => {
                if scope.unknown.len() < ERROR_LIMIT {
                    scope.unknown.push((at, name.clone()));
                }
                None
            }
        }
    }

    /// Tells of names used before they are defined, and of names never defined with the nearest one that is.
    fn tell_unknown(&mut self, scope: &Scope<'t>) {
        for (at, name) in &scope.unknown {
            let d = if scope.names.contains_key(name) {
                Diagnostic::error(format!("`%{name}` is used before it is defined"))
                    .found("a use before the definition", "values defined on an earlier line")
                    .help(format!("move the definition of `%{name}` before this line"))
            } else {
                let d = Diagnostic::error(format!("there is no value `%{name}` in graph `@{}`", scope.graph.name()))
                    .found(format!("`%{name}`"), "a name defined before");
                match self.nearest(name, scope) {
                    Some(n) => d.help(format!("did you mean `%{n}`?")),
                    None => d,
                }
            };
            self.fault(*at, "GE-E0121", d);
        }
    }

    fn nearest(&mut self, name: &str, scope: &Scope<'t>) -> Option<String> {
        // Bounded work whatever the text: few questions, few and short candidates.
        self.suggested += 1;
        if self.suggested > 20 || name.len() > 100 {
            return None;
        }
        let near = scope.graph.nodes().take(5000).map(|n| n.name()).filter(|n| n.len().abs_diff(name.len()) <= 2);
        near.map(|n| (strsim::damerau_levenshtein(name, n), n))
            .filter(|(d, _)| *d <= 2)
            .min_by(|a, b| a.cmp(b))
            .map(|(_, n)| n.to_owned())
    }

    // ---- types ----

    fn desc(&mut self) -> Read<TensorDesc> {
        let mut d = self.bare_desc()?;
        if self.is('{') {
            d.attrs = self.attrs()?;
        }
        Ok(d)
    }

    fn bare_desc(&mut self) -> Read<TensorDesc> {
        let Tok::Ident(word) = self.tok else { return Err(self.wanted("a type such as `f32[2,3]`")) };
        let known = match word {
            "seq" => Some(Container::SEQ),
            "opt" => Some(Container::OPT),
            _ => None,
        };
        let at = self.at;
        self.advance()?;
        if !self.is('<') {
            return self.tensor_type(at, word);
        }
        let outer = match known.or_else(|| code(word).map(Container)) {
            Some(c) => c,
            None => return Err(self.no_such(at, "container", word, &["seq", "opt"])),
        };
        self.advance()?;
        let Tok::Ident(inner) = self.tok else { return Err(self.wanted("a type such as `f32[2,3]`")) };
        let at = self.at;
        self.advance()?;
        let mut container = outer;
        let nested = outer == Container::OPT && inner == "seq" && self.is('<');
        let mut d = if nested {
            self.advance()?;
            container = Container::OPT_SEQ;
            let Tok::Ident(word) = self.tok else { return Err(self.wanted("a type such as `f32[2,3]`")) };
            let at = self.at;
            self.advance()?;
            self.tensor_type(at, word)?
        } else {
            self.tensor_type(at, inner)?
        };
        self.want('>', "`>`")?;
        if nested {
            self.want('>', "`>`")?;
        }
        d.container = container;
        Ok(d)
    }

    /// Behind the element type: `[dims]@FORMAT(origin)`.
    fn tensor_type(&mut self, at: usize, word: &str) -> Read<TensorDesc> {
        let dtype = self.dtype(at, word)?;
        let (shape, format) = self.shape_format()?;
        let mut d = TensorDesc { dtype, format, shape, ..TensorDesc::default() };
        if self.take('(')? {
            let at = self.at;
            let Tok::Ident(word) = self.tok else { return Err(self.wanted("the original type")) };
            self.advance()?;
            let inner = self.dtype(at, word)?;
            if inner != dtype {
                let m = "the original type has another element type";
                let d = Diagnostic::error(m).found(format!("`{word}`"), format!("`{dtype}`"));
                return Err(self.fault(at, "GE-E0120", d));
            }
            let (shape, format) = self.shape_format()?;
            d.origin = ROption::RSome(Origin { format, shape });
            self.want(')', "`)`")?;
        }
        Ok(d)
    }

    fn dtype(&mut self, at: usize, word: &str) -> Read<DType> {
        if let Some(d) = DType::from_name(word).or_else(|| code(word).map(DType)) {
            return Ok(d);
        }
        let names: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        Err(self.no_such(at, "element type", word, &names))
    }

    fn no_such(&mut self, at: usize, what: &str, word: &str, known: &[&str]) -> Broken {
        let mut d = Diagnostic::error(format!("there is no {what} `{word}`"))
            .found(format!("`{word}`"), format!("a known {what}"));
        let near = known.iter().filter(|_| word.len() <= 40).map(|k| (strsim::damerau_levenshtein(word, k), *k)).min();
        if let Some((_, k)) = near {
            d = d.help(format!("did you mean `{k}`?"));
        }
        self.fault(at, "GE-E0120", d)
    }

    fn shape_format(&mut self) -> Read<(Shape, Format)> {
        self.want('[', "`[` and the dimensions")?;
        let mut shape = Shape::scalar();
        if self.tok == Tok::Dots {
            self.advance()?;
            self.want(']', "`]`")?;
            shape = Shape::unranked();
        } else if !self.take(']')? {
            let mut dims = Vec::new();
            loop {
                dims.push(self.dim()?);
                if self.take(']')? {
                    break;
                }
                self.want(',', "`,` or `]`")?;
            }
            if !dims.is_empty() {
                shape = Shape::new(dims);
            }
        }
        let mut format = Format::ND;
        if let Tok::At(name) = &self.tok {
            let (at, name) = (self.at, name.clone());
            format = match Format::from_name(&name).or_else(|| code(&name).map(Format)) {
                Some(f) => f,
                None => {
                    let names: Vec<&str> = Format::ALL.iter().map(|f| f.name()).collect();
                    return Err(self.no_such(at, "format", &name, &names));
                }
            };
            self.advance()?;
        }
        Ok((shape, format))
    }

    fn dim(&mut self) -> Read<Dim> {
        const WHAT: &str = "a dimension: a number, `?` or a name";
        match &self.tok {
            Tok::Punct('?') => {
                self.advance()?;
                Ok(Dim::UNKNOWN)
            }
            Tok::Number(_) => {
                let at = self.at;
                let v = self.unsigned(WHAT)?;
                if i64::try_from(v).is_err() {
                    let d = Diagnostic::error("a dimension is too large")
                        .found(v.to_string(), format!("at most {}", i64::MAX));
                    return Err(self.fault(at, "GE-E0120", d));
                }
                Ok(Dim::known(v))
            }
            _ => {
                let name = self.key(WHAT)?;
                Ok(Dim::symbol(&name))
            }
        }
    }

    // ---- attributes ----

    /// `{key = value, …}`, the current token being `{`.
    fn attrs(&mut self) -> Read<AttrMap> {
        let mut list: Vec<ge_plugin_api::types::Attr> = Vec::new();
        self.entries(0, |key, value| list.push(ge_plugin_api::types::Attr { key: Key::new(&key), value }))?;
        // Entries are known to differ: no search for each.
        if list.len() > 64 {
            return Ok(wide(list));
        }
        Ok(list.into_iter().collect())
    }

    fn entries(&mut self, depth: usize, mut put: impl FnMut(Cow<'t, str>, AttrValue)) -> Read<()> {
        self.want('{', "`{`")?;
        let mut seen: HashSet<Cow<'t, str>> = HashSet::new();
        if self.take('}')? {
            return Ok(());
        }
        loop {
            let at = self.at;
            let key = self.key("an attribute's name")?;
            self.want('=', "`=` and a value")?;
            let value = self.value(depth)?;
            if seen.insert(key.clone()) {
                put(key, value);
            } else {
                self.fault(at, "GE-E0121", Diagnostic::error(format!("attribute `{key}` is given twice")));
            }
            if self.take('}')? {
                return Ok(());
            }
            self.want(',', "`,` or `}`")?;
        }
    }

    fn value(&mut self, depth: usize) -> Read<AttrValue> {
        const WHAT: &str = "a value";
        if depth > DEPTH_LIMIT {
            let d = Diagnostic::error("values nest too deeply").found("more", format!("at most {DEPTH_LIMIT} levels"));
            return Err(self.fault(self.at, "GE-E0120", d));
        }
        let at = self.at;
        match self.tok.clone() {
            Tok::Number(w) => {
                let v = self.number(w)?;
                self.advance()?;
                Ok(v)
            }
            Tok::Str(s) => {
                self.advance()?;
                Ok(AttrValue::Str(s.as_ref().into()))
            }
            Tok::At(g) => {
                self.advance()?;
                Ok(AttrValue::Graph(g.as_ref().into()))
            }
            Tok::Punct('[') => {
                self.advance()?;
                let mut list = Vec::new();
                if !self.take(']')? {
                    loop {
                        list.push(self.value(depth + 1)?);
                        if self.take(']')? {
                            break;
                        }
                        self.want(',', "`,` or `]`")?;
                    }
                }
                Ok(AttrValue::list(list))
            }
            Tok::Punct('{') => {
                let mut list: Vec<DictEntry> = Vec::new();
                self.entries(depth + 1, |key, value| list.push(DictEntry { key: key.as_ref().into(), value }))?;
                list.sort_by(|a, b| a.key.cmp(&b.key));
                Ok(AttrValue::Dict(list.into()))
            }
            Tok::Ident("true") => self.advance().map(|_| AttrValue::Bool(true)),
            Tok::Ident("false") => self.advance().map(|_| AttrValue::Bool(false)),
            Tok::Ident("inf") => self.advance().map(|_| AttrValue::Float(f64::INFINITY)),
            Tok::Ident("nan") => {
                self.advance()?;
                if !self.take('(')? {
                    return Ok(AttrValue::Float(f64::from_bits(0x7ff8_0000_0000_0000)));
                }
                let bits = match self.tok {
                    Tok::Number(w) => w.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok()),
                    _ => None,
                };
                match bits.map(f64::from_bits).filter(|v| v.is_nan()) {
                    Some(v) => {
                        self.advance()?;
                        self.want(')', "`)`")?;
                        Ok(AttrValue::Float(v))
                    }
                    None => Err(self.wanted("the bits of a NaN, `0x…`")),
                }
            }
            Tok::Ident("dense") => {
                self.advance()?;
                self.want('<', "`<` and a tensor")?;
                let t = self.tensor(at)?;
                self.want('>', "`>` that closes the tensor")?;
                Ok(AttrValue::Tensor(t))
            }
            Tok::Ident(w) => {
                let d = match DType::from_name(w).or_else(|| code(w).map(DType)) {
                    Some(d) => d,
                    None => {
                        let mut names: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
                        names.extend(["true", "false", "inf", "nan", "dense"]);
                        return Err(self.no_such(at, "value", w, &names));
                    }
                };
                self.advance()?;
                Ok(AttrValue::Type(d))
            }
            _ => Err(self.wanted(WHAT)),
        }
    }

    /// The current token as a whole or real number.
    fn number(&mut self, w: &str) -> Read<AttrValue> {
        if w == "-inf" {
            return Ok(AttrValue::Float(f64::NEG_INFINITY));
        }
        let digits = w.strip_prefix(['-', '+']).unwrap_or(w);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return match w.parse::<i64>() {
                Ok(v) => Ok(AttrValue::Int(v)),
                Err(_) => {
                    let d = Diagnostic::error("a whole number is out of range")
                        .found(w.chars().take(40).collect::<String>(), "a 64-bit signed number");
                    Err(self.fault(self.at, "GE-E0120", d))
                }
            };
        }
        let plain = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
        match w.parse::<f64>() {
            Ok(v) if plain && v.is_finite() => Ok(AttrValue::Float(v)),
            _ => Err(self.wanted("a number in range")),
        }
    }

    // ---- tensors ----

    /// Behind `dense<`: `type[dims]: elements`.
    fn tensor(&mut self, start: usize) -> Read<ConstTensor> {
        let at = self.at;
        let Tok::Ident(word) = self.tok else { return Err(self.wanted("an element type")) };
        self.advance()?;
        let dtype = self.dtype(at, word)?;
        let at = self.at;
        let (shape, format) = self.shape_format()?;
        let dims = match shape.sizes() {
            Some(d) if format == Format::ND => d,
            _ => {
                let d = Diagnostic::error("a constant needs known dimensions and no format")
                    .found(format!("`{shape}`"), "numbers");
                return Err(self.fault(at, "GE-E0122", d));
            }
        };
        self.want(':', "`:` and the elements")?;
        let at = self.at;
        let (data, file) = match self.tok {
            Tok::Ident("splat") => {
                self.advance()?;
                if self.is_word("raw") {
                    (ConstData::Splat(Blob::from_owner(self.raw()?)), FileRange::default())
                } else {
                    let mut p = Packer::new(dtype);
                    let at = self.at;
                    self.element(&mut p, dtype)?;
                    if dtype == DType::STRING {
                        let d = Diagnostic::error("strings cannot be a splat").help("write each string out");
                        return Err(self.fault(at, "GE-E0122", d));
                    }
                    (ConstData::Splat(Blob::from_owner(p.splat())), FileRange::default())
                }
            }
            Tok::Ident("file") => self.side_file()?,
            Tok::Ident("raw") => (ConstData::Bytes(Blob::from_owner(self.raw()?)), FileRange::default()),
            _ => {
                let mut p = Packer::new(dtype);
                while !self.is('>') {
                    self.element(&mut p, dtype)?;
                    if self.is(',') {
                        self.advance()?;
                    }
                }
                let (found, wanted) = (p.count, Shape::of(&dims).count());
                if wanted != Some(found) {
                    let wanted = wanted.map_or("more than can be counted".to_owned(), |w| w.to_string());
                    let d = Diagnostic::error(format!("a constant of shape {shape} has {found} elements"))
                        .found(found.to_string(), wanted);
                    return Err(self.fault(start, "GE-E0122", d));
                }
                (ConstData::Bytes(Blob::from_owner(p.finish())), FileRange::default())
            }
        };
        let t = match &data {
            ConstData::Bytes(b) => ConstTensor::new(dtype, &dims, b.clone()),
            ConstData::Splat(b) => ConstTensor::splat(dtype, &dims, b),
        };
        match t {
            Some(t) => Ok(ConstTensor { file, ..t }),
            None => {
                let (ConstData::Bytes(b) | ConstData::Splat(b)) = &data;
                let want =
                    ConstTensor { dtype, dims: dims.as_slice().into(), data: ConstData::Splat(Blob::empty()), file };
                let want = match (&data, want.byte_len(), dtype.bits()) {
                    (ConstData::Splat(_), Some(_), Some(w)) => format!("{} bytes for one element", w.div_ceil(8)),
                    (ConstData::Bytes(_), Some(n), _) => format!("{n} bytes"),
                    _ => "a type and a size that can be held".to_owned(),
                };
                let d = Diagnostic::error(format!("the bytes do not fit {dtype}{shape}"))
                    .found(format!("{} bytes", b.len()), want);
                Err(self.fault(at, "GE-E0122", d))
            }
        }
    }

    fn element(&mut self, p: &mut Packer, dtype: DType) -> Read<()> {
        let at = self.at;
        let good = match self.tok.clone() {
            Tok::Str(s) if dtype == DType::STRING => {
                p.text(&s);
                self.advance()?;
                true
            }
            Tok::Punct('(') if dtype.is_complex() => {
                self.advance()?;
                let re = self.part()?;
                self.want(',', "`,` and the imaginary part")?;
                let im = self.part()?;
                let good = p.complex(re, im);
                self.want(')', "`)`")?;
                good
            }
            Tok::Number(w) | Tok::Ident(w) if !dtype.is_complex() => {
                let good = p.word(w);
                if good {
                    self.advance()?;
                }
                good
            }
            _ => false,
        };
        if good {
            return Ok(());
        }
        let found = self.tok.show();
        let d = Diagnostic::error(format!("{found} is no element of type {dtype}"))
            .found(found, format!("a value of {dtype}"));
        Err(self.fault(at, "GE-E0122", d))
    }

    fn part(&mut self) -> Read<&'t str> {
        match self.tok {
            Tok::Number(w) | Tok::Ident(w) => {
                self.advance()?;
                Ok(w)
            }
            _ => Err(self.wanted("a number")),
        }
    }

    /// `raw "hex"`, the current token being `raw`.
    fn raw(&mut self) -> Read<Vec<u8>> {
        self.advance()?;
        let Tok::Str(s) = &self.tok else { return Err(self.wanted("hexadecimal digits in quotes")) };
        let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let pairs = s.as_bytes().chunks(2).map(|c| match c {
            [a, b] => Some(digit(*a)? << 4 | digit(*b)?),
            _ => None,
        });
        match pairs.collect::<Option<Vec<u8>>>() {
            Some(v) => {
                self.advance()?;
                Ok(v)
            }
            None => Err(self.wanted("pairs of hexadecimal digits")),
        }
    }

    /// `file "path" OFFSET LEN`, the current token being `file`.
    fn side_file(&mut self) -> Read<(ConstData, FileRange)> {
        self.advance()?;
        let at = self.at;
        let Tok::Str(path) = &self.tok else { return Err(self.wanted("a path in quotes")) };
        let path = path.clone().into_owned();
        self.advance()?;
        let offset = self.unsigned("the first byte's offset")?;
        let len = self.unsigned("the number of bytes")?;
        let blob = match self.opened.get(&path) {
            Some(b) => b.clone(),
            None => {
                let b = match self.files.open(&path) {
                    Ok(b) => Some(b),
                    Err(e) => {
                        for d in e.diagnostics {
                            let code = if d.code.is_empty() { "GE-E0122".to_owned() } else { d.code.to_string() };
                            self.fault(at, &code, d);
                        }
                        None
                    }
                };
                self.opened.insert(path.clone(), b.clone());
                b
            }
        };
        let Some(blob) = blob else { return Err(Broken) };
        let part = match (usize::try_from(offset), usize::try_from(len)) {
            (Ok(o), Ok(l)) => blob.slice(o, l),
            _ => None,
        };
        match part {
            Some(b) => Ok((ConstData::Bytes(b), FileRange { path: path.as_str().into(), offset })),
            None => {
                let d = Diagnostic::error(format!("`{path}` is too short for a constant"))
                    .found(format!("{} bytes", blob.len()), format!("{len} bytes from {offset}"));
                Err(self.fault(at, "GE-E0122", d))
            }
        }
    }
}

/// The number of `code<n>`: a code of a newer version.
fn code(word: &str) -> Option<u8> {
    word.strip_prefix("code")?.parse().ok()
}

/// A map of entries whose keys differ, without a search for each.
fn wide(list: Vec<ge_plugin_api::types::Attr>) -> AttrMap {
    AttrMap::from_distinct(RVec::from(list))
}
