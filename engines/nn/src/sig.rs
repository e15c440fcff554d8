//! The signature of a node: what a family knows about it. It is made from the graph when compiling,
//! and from the request when loading.
use ge_kernels::view::Kind;
use ge_plugin_api::engine::LoadRequest;
use ge_plugin_api::fusion;
use ge_plugin_api::types::format::transfer_shape;
use ge_plugin_api::types::{AttrMap, DType, Dim, Format, Key, Shape, TensorDesc};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};
use std::sync::OnceLock;

/// Maximum number of values of a constant input that are stored with the kernel.
const MOST_VALUES: usize = 4096;
/// Operators and inputs whose real constants are stored with the kernel, and the maximum count of
/// them.
const REAL_VALUES: &[(&str, usize)] = &[("Resize", 1), ("Resize", 2)];
const MOST_REALS: usize = 64;
/// Longest line that a block copies, in elements: 1 GiB of f32.
const MOST_LINE: usize = 1 << 28;
/// First bytes of a kernel binary; the format version follows.
const MAGIC: &[u8; 4] = b"GENN";
/// Format version of kernels and packed weights. It must change whenever weights are packed
/// differently or attributes change their meaning; the test `packed_forms_are_those_of_the_version`
/// checks this.
pub const FORM: u16 = 3;

/// A result, or the reason for a refusal as text.
pub type Answer<T> = std::result::Result<T, String>;

/// The description of one input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type, if kernels can compute with it.
    pub kind: Option<Kind>,
    /// Element type in the graph.
    pub dtype: DType,
    /// Layout of the axes.
    pub format: Format,
    /// Size of each axis.
    pub shape: Vec<usize>,
    /// Layout and sizes before it was converted to another format; `None` if it was not.
    pub origin: Option<(Format, Vec<usize>)>,
    /// Its values, if it is a small integer constant.
    pub values: Option<Vec<i64>>,
    /// Its values, if it is a small real constant that the kernel is planned with.
    pub reals: Option<Vec<f64>>,
}

impl Tensor {
    /// Describes a tensor descriptor; fails with a reason if the shape is not static.
    pub fn of(desc: &TensorDesc, values: Option<Vec<i64>>) -> Answer<Tensor> {
        let shape = sizes(&desc.shape)?;
        let origin = desc.origin.as_ref().into_option().map(|o| Ok::<_, String>((o.format, sizes(&o.shape)?)));
        let origin = origin.transpose()?;
        Ok(Tensor {
            kind: kind_of(desc.dtype),
            dtype: desc.dtype,
            format: desc.format,
            shape,
            origin,
            values,
            reals: None,
        })
    }

    /// The same tensor converted to another format; `None` if that is not defined or if it was
    /// converted already.
    pub fn laid_out(&self, to: Format) -> Option<Tensor> {
        let from = Shape::new(self.shape.iter().map(|&d| Dim::known(d as u64)));
        let shape = transfer_shape(self.format, &from, to, self.dtype).filter(|_| self.origin.is_none())?;
        let origin = Some((self.format, self.shape.clone()));
        Some(Tensor { format: to, shape: sizes(&shape).ok()?, origin, values: None, reals: None, ..self.clone() })
    }

    /// The tensor before it was converted to its format.
    ///
    /// # Errors
    /// Fails if a blocked tensor lacks its original shape, or if its sizes do not match its format.
    fn plain_form(&self) -> Answer<Tensor> {
        let Some((format, shape)) = self.origin.clone() else {
            return Ok(self.clone());
        };
        let plain = Tensor { format, shape, origin: None, ..self.clone() };
        match plain.laid_out(self.format) {
            Some(t) if t.shape == self.shape => Ok(plain),
            _ => Err(format!("{} {:?} is not {format} {:?} laid out", self.format, self.shape, plain.shape)),
        }
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// The sizes of a static shape.
fn sizes(shape: &Shape) -> Answer<Vec<usize>> {
    let known = shape.sizes().ok_or_else(|| format!("shape {shape} is not known"))?;
    let sizes = known.iter().map(|&d| usize::try_from(d)).collect::<std::result::Result<Vec<_>, _>>();
    let sizes = sizes.map_err(|_| format!("shape {shape} is too large"))?;
    ge_kernels::view::element_count(&sizes).map_err(|e| e.to_string())?;
    Ok(sizes)
}

/// The kernels' type for an element type; `None` if kernels do not compute with it.
pub fn kind_of(dtype: DType) -> Option<Kind> {
    Some(match dtype {
        DType::F32 => Kind::F32,
        DType::F64 => Kind::F64,
        DType::F16 => Kind::F16,
        DType::BF16 => Kind::Bf16,
        DType::I8 => Kind::I8,
        DType::I16 => Kind::I16,
        DType::I32 => Kind::I32,
        DType::I64 => Kind::I64,
        DType::U8 => Kind::U8,
        DType::U16 => Kind::U16,
        DType::U32 => Kind::U32,
        DType::U64 => Kind::U64,
        DType::BOOL => Kind::Bool,
        _ => return None,
    })
}

/// Attributes of a node, without the names of its original nodes: these can be long and kernels do
/// not need them.
fn attrs_of(node: &Node<'_>) -> AttrMap {
    static NAMES: OnceLock<[Key; 3]> = OnceLock::new();
    let names = NAMES.get_or_init(|| [fusion::ORIGINALS, fusion::PASS_NAME, "_origin_tensors"].map(Key::new));
    node.attrs().iter().filter(|a| !names.contains(&a.key)).cloned().collect()
}

/// The part of a node that a family sees.
#[derive(Clone, Debug)]
pub struct Sig {
    /// Operator type.
    pub op: String,
    /// Attributes.
    pub attrs: AttrMap,
    /// Inputs; `None` for an absent optional input.
    pub inputs: Vec<Option<Tensor>>,
    /// Outputs.
    pub outputs: Vec<Tensor>,
}

impl Sig {
    /// The signature of a node in a graph.
    pub fn of_node(node: &Node<'_>) -> Answer<Sig> {
        let mut inputs = Vec::with_capacity(node.inputs().len());
        for i in 0..node.inputs().len() {
            inputs.push(match node.input_desc(i) {
                None => None,
                Some(d) => {
                    let whole = d.dtype.is_int() || d.dtype == DType::BOOL;
                    let values = if whole { node.const_input(i).and_then(|c| c.to_i64(MOST_VALUES)) } else { None };
                    let mut t = Tensor::of(d, values).map_err(|e| format!("input {i}: {e}"))?;
                    if d.dtype.is_float() && REAL_VALUES.contains(&(node.op(), i)) {
                        t.reals = node.const_input(i).and_then(|c| c.to_f64(MOST_REALS));
                    }
                    Some(t)
                }
            });
        }
        let mut outputs = Vec::with_capacity(node.outputs().len());
        for (k, d) in node.outputs().iter().enumerate() {
            outputs.push(Tensor::of(d, None).map_err(|e| format!("output {k}: {e}"))?);
        }
        Ok(Sig { op: node.op().to_owned(), attrs: attrs_of(node), inputs, outputs })
    }

    /// The kernel binary: which constant inputs were read, and their values.
    pub fn encode(&self) -> Vec<u8> {
        let mut b = [MAGIC.as_slice(), &FORM.to_le_bytes()].concat();
        for (i, t) in self.inputs.iter().enumerate() {
            let Some(t) = t else { continue };
            let words: Vec<[u8; 8]> = match (&t.values, &t.reals) {
                (Some(v), _) => v.iter().map(|x| x.to_le_bytes()).collect(),
                (_, Some(v)) => v.iter().map(|x| x.to_le_bytes()).collect(),
                (None, None) => continue,
            };
            b.extend_from_slice(&(i as u32).to_le_bytes());
            b.extend_from_slice(&(words.len() as u32).to_le_bytes());
            b.extend_from_slice(words.as_flattened());
        }
        b
    }

    /// The signature of a task at load time, and the argument numbers of its inputs and outputs.
    ///
    /// # Errors
    /// `damaged` if arguments, descriptors and binary do not match each other.
    pub fn of_request(r: &LoadRequest) -> Result<(Sig, Places)> {
        let node = r.node.as_str();
        let bad = |what: String| Error::damaged(format!("task of `{node}`: {what}"));
        let mut sig = Sig { op: r.op.to_string(), attrs: r.attrs.clone(), inputs: Vec::new(), outputs: Vec::new() };
        let mut places = Places::default();
        for (arg, a) in r.args.iter().enumerate() {
            let mut bytes = 0;
            match a.kind.as_str() {
                "w" => places.workspaces.push(arg),
                "tiling_context.tiling_data" => {
                    places.context = Some(arg);
                    bytes = a.bytes;
                }
                _ => {}
            }
            if let Some(d) = a.desc.as_ref().into_option() {
                let t = Tensor::of(d, None).map_err(|e| bad(format!("argument {arg}: {e}")))?;
                bytes = d.data_bytes().ok_or_else(|| bad(format!("argument {arg} has no size")))?;
                if bytes > a.bytes {
                    return Err(bad(format!(
                        "argument {arg} has {} bytes, {} x{:?} needs {bytes}",
                        a.bytes, d.dtype, t.shape
                    )));
                }
                match a.kind.as_str() {
                    "i" => {
                        let at = a.index as usize;
                        if at > r.args.len().saturating_add(64) {
                            return Err(bad(format!("argument {arg} names input {at}")));
                        }
                        if sig.inputs.len() <= at {
                            sig.inputs.resize(at + 1, None);
                            places.inputs.resize(at + 1, None);
                        }
                        sig.inputs[at] = Some(t);
                        places.inputs[at] = Some(arg);
                    }
                    "o" => {
                        if a.index as usize != sig.outputs.len() {
                            return Err(bad(format!("argument {arg} names output {}", a.index)));
                        }
                        sig.outputs.push(t);
                        places.outputs.push(arg);
                    }
                    _ => bytes = a.bytes,
                }
            }
            places.bytes.push(bytes);
        }
        let (form, mut rest) = r
            .binary
            .as_slice()
            .strip_prefix(MAGIC.as_slice())
            .and_then(|b| b.split_first_chunk::<2>())
            .ok_or_else(|| bad("unknown kernel binary".into()))?;
        let form = u16::from_le_bytes(*form);
        if form != FORM {
            let what = format!(
                "task of `{node}`: its kernel and weights have form {form}, this build of the engine reads {FORM}"
            );
            return Err(Error::unsupported(what).with(|d| d.help("compile the model again, with this build")));
        }
        while !rest.is_empty() {
            let (input, n, tail) = header(rest).ok_or_else(|| bad("truncated kernel binary".into()))?;
            let (values, tail) = n
                .checked_mul(8)
                .and_then(|b| tail.split_at_checked(b))
                .ok_or_else(|| bad("truncated kernel binary".into()))?;
            let t = sig
                .inputs
                .get_mut(input)
                .and_then(Option::as_mut)
                .ok_or_else(|| bad(format!("values of input {input}, which is absent")))?;
            if n != t.count() {
                return Err(bad(format!("{n} values for {} elements of input {input}", t.count())));
            }
            let words = values.as_chunks::<8>().0.iter();
            match t.dtype.is_float() {
                true => t.reals = Some(words.map(|v| f64::from_le_bytes(*v)).collect()),
                false => t.values = Some(words.map(|v| i64::from_le_bytes(*v)).collect()),
            }
            rest = tail;
        }
        Ok((sig, places))
    }

    /// Input `i`; an error if it is missing.
    pub fn input(&self, i: usize) -> Answer<&Tensor> {
        self.inputs.get(i).and_then(Option::as_ref).ok_or_else(|| format!("input {i} is missing"))
    }

    /// Input `i`, or `None` if it is absent.
    pub fn opt_input(&self, i: usize) -> Option<&Tensor> {
        self.inputs.get(i).and_then(Option::as_ref)
    }

    /// Output `k`; an error if it is missing.
    pub fn output(&self, k: usize) -> Answer<&Tensor> {
        self.outputs.get(k).ok_or_else(|| format!("output {k} is missing"))
    }

    /// The signature with all inputs and outputs as they were before they were converted to their
    /// formats.
    ///
    /// # Errors
    /// Fails if the sizes of a tensor do not match its format.
    pub fn plain_form(&self) -> Answer<Sig> {
        let named = |what: &str, i: usize, t: &Tensor| t.plain_form().map_err(|e| format!("{what} {i}: {e}"));
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.map(|(i, t)| t.as_ref().map(|t| named("input", i, t)).transpose());
        let outputs = self.outputs.iter().enumerate().map(|(k, t)| named("output", k, t));
        Ok(Sig {
            op: self.op.clone(),
            attrs: self.attrs.clone(),
            inputs: inputs.collect::<Answer<_>>()?,
            outputs: outputs.collect::<Answer<_>>()?,
        })
    }

    /// Refuses a blocked layout of an input, since its axes differ from the operator's.
    pub fn plain(&self, i: usize) -> Answer<()> {
        match self.opt_input(i).map(|t| t.format) {
            Some(f @ (Format::NC1HWC0 | Format::NC1HWC0_C04 | Format::FRACTAL_Z | Format::FRACTAL_NZ)) => {
                Err(format!("input {i} is in {f}, it takes a plain format"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses lines that are too long for the working memory of a block.
    pub fn holds_lines(&self, len: usize) -> Answer<()> {
        if len > MOST_LINE {
            return Err(format!("lines of {len} elements, it takes {MOST_LINE}"));
        }
        Ok(())
    }

    /// The values of input `i`, which must be an integer constant.
    pub fn values(&self, i: usize) -> Answer<&[i64]> {
        self.input(i)?
            .values
            .as_deref()
            .ok_or_else(|| format!("input {i} is not a constant of at most {MOST_VALUES} values"))
    }

    /// Integers from an attribute, or from constant input `i` if the attribute is not given.
    pub fn ints_or(&self, key: &str, i: usize) -> Answer<Vec<i64>> {
        match self.attrs.ints(key) {
            Some(v) => Ok(v.to_vec()),
            None => self.attrs.int(key).map_or_else(|| self.values(i).map(<[i64]>::to_vec), |v| Ok(vec![v])),
        }
    }

    /// An integer attribute, or its default.
    pub fn int(&self, key: &str, default: i64) -> i64 {
        self.attrs.int(key).unwrap_or(default)
    }

    /// A real attribute, or its default.
    pub fn float(&self, key: &str, default: f64) -> f32 {
        self.attrs.float(key).unwrap_or(default) as f32
    }

    /// A text attribute, or its default.
    pub fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.attrs.str(key).unwrap_or(default)
    }

    /// The element type shared by all given inputs and output 0; it must be one of `kinds`.
    pub fn one_kind(&self, kinds: &[Kind]) -> Answer<Kind> {
        let kind = self.kind_in(0, kinds)?;
        for (i, t) in self.inputs.iter().enumerate() {
            if let Some(t) = t
                && t.kind != Some(kind)
            {
                return Err(format!("input {i} is {}, input 0 {}", t.dtype, kind.name()));
            }
        }
        if self.output(0)?.kind != Some(kind) {
            return Err(format!("output 0 is {}, input 0 {}", self.output(0)?.dtype, kind.name()));
        }
        Ok(kind)
    }

    /// The element type of the two factors, and that of all other inputs and output 0: the same
    /// type, or f32 if the factors are f16 or bf16.
    pub fn factors(&self, kinds: &[Kind]) -> Answer<(Kind, Kind)> {
        let kind = self.kind_in(0, kinds)?;
        let y = self.output(0)?;
        let gives = y.kind.filter(|k| *k == kind || (*k == Kind::F32 && matches!(kind, Kind::F16 | Kind::Bf16)));
        let Some(gives) = gives else { return Err(format!("output 0 is {}, input 0 {}", y.dtype, kind.name())) };
        for (i, t) in self.inputs.iter().enumerate() {
            let want = if i < 2 { kind } else { gives };
            if let Some(t) = t
                && t.kind != Some(want)
            {
                let than = if i < 2 { "input 0" } else { "output 0" };
                return Err(format!("input {i} is {}, {than} {}", t.dtype, want.name()));
            }
        }
        Ok((kind, gives))
    }

    /// The element type of input `i`; it must be one of `kinds`.
    pub fn kind_in(&self, i: usize, kinds: &[Kind]) -> Answer<Kind> {
        let t = self.input(i)?;
        t.kind.filter(|k| kinds.contains(k)).ok_or_else(|| {
            let names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
            format!("input {i} is {}, it takes {}", t.dtype, names.join(", "))
        })
    }
}

fn header(b: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (input, rest) = b.split_first_chunk::<4>()?;
    let (n, rest) = rest.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*input) as usize, u32::from_le_bytes(*n) as usize, rest))
}

/// The launch argument of each input and output, and the size of every argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// Argument of each input; `None` for an absent one.
    pub inputs: Vec<Option<usize>>,
    /// Argument of each output.
    pub outputs: Vec<usize>,
    /// Size in bytes of each argument.
    pub bytes: Vec<u64>,
    /// Arguments that are workspaces.
    pub workspaces: Vec<usize>,
    /// The argument that holds the device's tiling data, if any.
    pub context: Option<usize>,
}

/// The three types that kernels compute in single precision.
pub const FLOATS: &[Kind] = &[Kind::F32, Kind::F16, Kind::Bf16];
