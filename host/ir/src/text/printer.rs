//! The printer: writes a model as canonical text; equal models give the same bytes.
use super::DEPTH_LIMIT;
use super::element::write_f64;
use super::lexer::{is_ident, is_plain_name, quote};
use super::tensor::write_tensor;
use crate::graph::{Graph, Model, Node};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::types::{
    AttrMap, AttrValue, Blob, ConstData, ConstTensor, Container, DType, Dim, FileRange, Format, NodeId, Shape,
    TensorDesc, ValueRef,
};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;

/// Stores constants that are too large for the text.
pub trait SideFileSink {
    /// Stores the bytes and returns the file range that the text is to name. `known` is the range
    /// that the bytes came from; it is empty if they came from no file.
    fn place(&mut self, bytes: &Blob, known: &FileRange) -> io::Result<FileRange>;
}

/// Options for printing.
pub struct PrintOptions<'s> {
    /// Largest constant, in bytes, that is written into the text; default 1024.
    pub inline_limit: u64,
    /// Stores larger constants. If `None` (the default), a constant that came from a file is
    /// written as a reference to that file, whatever its size, and all others are written into the
    /// text.
    pub side_files: Option<&'s mut dyn SideFileSink>,
}

impl Default for PrintOptions<'_> {
    fn default() -> Self {
        PrintOptions { inline_limit: 1024, side_files: None }
    }
}

/// Prints a model without writing side files.
///
/// # Errors
/// Fails if values are nested deeper than [`DEPTH_LIMIT`].
pub fn to_string(model: &Model) -> io::Result<String> {
    let mut out = Vec::new();
    print(model, &mut out, &mut PrintOptions::default())?;
    String::from_utf8(out).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Prints a model with every constant written into the text, even if it came from a file.
pub fn to_string_whole(model: &Model) -> io::Result<String> {
    struct Nowhere;
    impl SideFileSink for Nowhere {
        fn place(&mut self, _: &Blob, known: &FileRange) -> io::Result<FileRange> {
            Ok(known.clone())
        }
    }
    let mut out = Vec::new();
    let mut options = PrintOptions { inline_limit: u64::MAX, side_files: Some(&mut Nowhere) };
    print(model, &mut out, &mut options)?;
    String::from_utf8(out).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Prints a model.
///
/// # Errors
/// Fails if writing the output or a side file fails, or if values are nested deeper than
/// [`DEPTH_LIMIT`].
pub fn print(model: &Model, out: &mut dyn io::Write, options: &mut PrintOptions<'_>) -> io::Result<()> {
    let mut p = Printer { out, buf: String::new(), options };
    for (i, g) in model.graphs().iter().enumerate() {
        p.graph(g, i == 0)?;
    }
    p.flush()
}

/// The default name of the `NetOutput` node that the return line stands for.
pub(super) fn net_output_name(graph: &str, root: bool) -> String {
    if root { "NetOutput".to_owned() } else { format!("{graph}/NetOutput") }
}

/// Whether nodes of this type take an index among a graph's inputs.
pub(super) fn is_indexed_input(op: &str) -> bool {
    matches!(op, "Data" | "RefData" | "AippData")
}

/// The numbers from 0 on that are not claimed, in rising order.
pub(super) fn free_indices(claimed: &HashSet<i64>) -> impl Iterator<Item = i64> + '_ {
    (0i64..).filter(|i| !claimed.contains(i))
}

struct Printer<'o, 'p, 's> {
    out: &'o mut dyn io::Write,
    buf: String,
    options: &'p mut PrintOptions<'s>,
}

impl Printer<'_, '_, '_> {
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.buf.as_bytes())?;
        self.buf.clear();
        Ok(())
    }

    fn graph(&mut self, g: &Graph, root: bool) -> io::Result<()> {
        let head = head_inputs(g);
        self.buf.push_str("graph ");
        self.name('@', g.name());
        self.buf.push('(');
        for (i, n) in head.iter().enumerate() {
            if i > 0 {
                self.buf.push_str(", ");
            }
            self.name('%', n.name());
            self.buf.push_str(": ");
            self.types(n.outputs())?;
        }
        self.buf.push(')');
        if !g.attrs().is_empty() {
            self.buf.push_str(" attributes");
            self.attrs(g.attrs(), 0)?;
        }
        self.buf.push_str(" {\n");
        let count = g.len();
        for (i, n) in g.nodes().enumerate().skip(head.len()) {
            let returns = i + 1 == count
                && n.op() == "NetOutput"
                && n.outputs().is_empty()
                && n.name() == net_output_name(g.name(), root);
            if returns {
                self.buf.push_str("  return");
                if !n.inputs().is_empty() {
                    self.buf.push(' ');
                    self.values(g, n.inputs());
                }
            } else {
                self.buf.push_str("  ");
                self.name('%', n.name());
                self.buf.push_str(" = ");
                self.word(n.op());
                self.buf.push('(');
                self.values(g, n.inputs());
                self.buf.push(')');
            }
            self.attrs(n.attrs(), 0)?;
            if !n.controls().is_empty() {
                self.buf.push_str(" after(");
                for (i, c) in n.controls().iter().enumerate() {
                    if i > 0 {
                        self.buf.push_str(", ");
                    }
                    self.node_name(g, *c);
                }
                self.buf.push(')');
            }
            if !returns {
                self.buf.push_str(" : ");
                if n.outputs().is_empty() {
                    self.buf.push_str("()");
                } else {
                    self.types(n.outputs())?;
                }
            }
            self.buf.push('\n');
            if self.buf.len() > 1 << 16 {
                self.flush()?;
            }
        }
        self.buf.push_str("}\n");
        Ok(())
    }

    fn name(&mut self, sigil: char, s: &str) {
        self.buf.push(sigil);
        if is_plain_name(s) {
            self.buf.push_str(s);
        } else {
            quote(&mut self.buf, s);
        }
    }
    fn word(&mut self, s: &str) {
        if is_ident(s) {
            self.buf.push_str(s);
        } else {
            quote(&mut self.buf, s);
        }
    }
    fn node_name(&mut self, g: &Graph, id: NodeId) {
        self.name('%', g.get(id).map_or("", |n| n.name()));
    }
    fn values(&mut self, g: &Graph, values: &[ValueRef]) {
        for (i, v) in values.iter().enumerate() {
            if i > 0 {
                self.buf.push_str(", ");
            }
            if v.is_absent() {
                self.buf.push('_');
                continue;
            }
            self.node_name(g, v.node);
            if v.output > 0 {
                let _ = write!(self.buf, "#{}", v.output);
            }
        }
    }

    fn types(&mut self, descs: &[TensorDesc]) -> io::Result<()> {
        for (i, d) in descs.iter().enumerate() {
            if i > 0 {
                self.buf.push_str(", ");
            }
            self.desc(d)?;
        }
        Ok(())
    }

    fn desc(&mut self, d: &TensorDesc) -> io::Result<()> {
        let close = match d.container {
            Container::TENSOR => "",
            Container::SEQ => {
                self.buf.push_str("seq<");
                ">"
            }
            Container::OPT => {
                self.buf.push_str("opt<");
                ">"
            }
            Container::OPT_SEQ => {
                self.buf.push_str("opt<seq<");
                ">>"
            }
            c => {
                let _ = write!(self.buf, "code{}<", c.0);
                ">"
            }
        };
        self.tensor_type(d.dtype, &d.shape, d.format);
        if let ROption::RSome(o) = &d.origin {
            self.buf.push('(');
            self.tensor_type(d.dtype, &o.shape, o.format);
            self.buf.push(')');
        }
        self.buf.push_str(close);
        if !d.attrs.is_empty() {
            self.dict(d.attrs.sorted().into_iter().map(|a| (a.key.as_str(), &a.value)), 0)?;
        }
        Ok(())
    }

    fn tensor_type(&mut self, dtype: DType, shape: &Shape, format: Format) {
        self.buf.push_str(&dtype_name(dtype));
        if shape.is_unranked() {
            self.buf.push_str("[...]");
        } else {
            self.buf.push('[');
            for (i, d) in shape.dims().iter().enumerate() {
                if i > 0 {
                    self.buf.push(',');
                }
                self.dim(*d);
            }
            self.buf.push(']');
        }
        if format != Format::ND {
            self.buf.push('@');
            match format.known_name() {
                Some(n) => self.buf.push_str(n),
                None => {
                    let _ = write!(self.buf, "code{}", format.0);
                }
            }
        }
    }

    fn dim(&mut self, d: Dim) {
        match (d.size(), d.symbol_name()) {
            (Some(v), _) => {
                let _ = write!(self.buf, "{v}");
            }
            (None, Some(s)) => self.word(s),
            (None, None) => self.buf.push('?'),
        }
    }

    fn attrs(&mut self, attrs: &AttrMap, depth: usize) -> io::Result<()> {
        if attrs.is_empty() {
            return Ok(());
        }
        self.buf.push(' ');
        self.dict(attrs.sorted().into_iter().map(|a| (a.key.as_str(), &a.value)), depth)
    }

    fn dict<'v>(&mut self, entries: impl Iterator<Item = (&'v str, &'v AttrValue)>, depth: usize) -> io::Result<()> {
        self.buf.push('{');
        for (i, (k, v)) in entries.enumerate() {
            if i > 0 {
                self.buf.push_str(", ");
            }
            self.word(k);
            self.buf.push_str(" = ");
            self.value(v, depth)?;
        }
        self.buf.push('}');
        Ok(())
    }

    fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Self, &T) -> io::Result<()>) -> io::Result<()> {
        self.buf.push('[');
        for (i, v) in items.iter().enumerate() {
            if i > 0 {
                self.buf.push_str(", ");
            }
            one(self, v)?;
        }
        self.buf.push(']');
        Ok(())
    }

    fn value(&mut self, v: &AttrValue, depth: usize) -> io::Result<()> {
        if depth > DEPTH_LIMIT {
            let m = format!("attribute values nest deeper than {DEPTH_LIMIT}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, m));
        }
        match v {
            AttrValue::Int(i) => {
                let _ = write!(self.buf, "{i}");
            }
            AttrValue::Float(f) => write_f64(&mut self.buf, *f),
            AttrValue::Bool(b) => self.buf.push_str(if *b { "true" } else { "false" }),
            AttrValue::Str(s) => quote(&mut self.buf, s),
            AttrValue::Type(d) => self.buf.push_str(&dtype_name(*d)),
            AttrValue::Ints(l) => self.list(l, |p, i| {
                let _ = write!(p.buf, "{i}");
                Ok(())
            })?,
            AttrValue::Floats(l) => self.list(l, |p, f| {
                write_f64(&mut p.buf, *f);
                Ok(())
            })?,
            AttrValue::Strs(l) => self.list(l, |p, s| {
                quote(&mut p.buf, s);
                Ok(())
            })?,
            AttrValue::List(l) => self.list(l, |p, v| p.value(v, depth + 1))?,
            AttrValue::Dict(d) => {
                let mut sorted: Vec<_> = d.iter().map(|e| (e.key.as_str(), &e.value)).collect();
                sorted.sort_by_key(|e| e.0);
                self.dict(sorted.into_iter(), depth + 1)?;
            }
            AttrValue::Graph(g) => self.name('@', g),
            AttrValue::Tensor(t) => self.tensor(t)?,
        }
        Ok(())
    }

    fn tensor(&mut self, t: &ConstTensor) -> io::Result<()> {
        let range = match (&t.data, self.options.side_files.as_deref_mut()) {
            (ConstData::Splat(_), _) => None,
            (ConstData::Bytes(b), Some(sink)) => {
                if b.len() as u64 > self.options.inline_limit {
                    Some(sink.place(b, &t.file)?)
                } else {
                    None
                }
            }
            (ConstData::Bytes(_), None) => Some(t.file.clone()).filter(|f| !f.path.is_empty()),
        };
        write_tensor(&mut self.buf, t, &dtype_name(t.dtype), range.as_ref());
        if self.buf.len() > 1 << 16 {
            self.flush()?;
        }
        Ok(())
    }
}

pub(super) fn dtype_name(d: DType) -> std::borrow::Cow<'static, str> {
    match d.known_name() {
        Some(n) => n.into(),
        None => format!("code{}", d.0).into(),
    }
}

/// The nodes that are printed in the head: the plain `Data` nodes at the start of the order whose
/// rising indices are the ones that the head implies.
fn head_inputs(g: &Graph) -> Vec<&Node> {
    let plain = |n: &&Node| {
        n.op() == "Data"
            && n.attrs().len() == 1
            && matches!(n.attr("index"), Some(AttrValue::Int(_)))
            && n.inputs().is_empty()
            && n.controls().is_empty()
            && n.outputs().len() == 1
    };
    let mut head: Vec<&Node> = Vec::new();
    let mut last = -1;
    for n in g.nodes().take_while(plain) {
        let i = n.attrs().int("index").unwrap_or(-1);
        if i <= last {
            break;
        }
        last = i;
        head.push(n);
    }
    let claimed: HashSet<i64> = g
        .nodes()
        .skip(head.len())
        .filter(|n| is_indexed_input(n.op()))
        .filter_map(|n| n.attrs().int("index"))
        .collect();
    // A node that is cut off claims an index above those of the nodes that stay, so the indices
    // implied for these do not change.
    let fits = head.iter().zip(free_indices(&claimed)).take_while(|(n, i)| n.attrs().int("index") == Some(*i)).count();
    head.truncate(fits);
    head
}
