//! Operator prototypes: inputs, outputs, attributes, allowed types, and inference of shapes and
//! types.
use crate::abi::erase::RawSlice;
use crate::abi::table::abi_object;
use crate::abi::{ROption, RResult, RString, RVec, StableAbi};
use crate::diagnostic::{Error, Result};
use crate::open_code;
use crate::range::{Range, RangeCtx, RangeFn};
use crate::types::{AttrValue, ConstTensor, DType, Expr, Shape, TensorDesc};
use crate::view::{Node, RawNodeRef};

open_code! {
    /// How many values a parameter has.
    pub struct ParamKind: u8 {
        /// Exactly one.
        REQUIRED = 0 "required",
        /// One or none.
        OPTIONAL = 1 "optional",
        /// Any number, including none. An operator may have several such parameters.
        DYNAMIC = 2 "dynamic",
    }
}

open_code! {
    /// The type of an attribute's value.
    pub struct AttrKind: u8 {
        /// Whole number.
        INT = 0 "integer",
        /// Float.
        FLOAT = 1 "float",
        /// Boolean.
        BOOL = 2 "boolean",
        /// String.
        STRING = 3 "string",
        /// Element type.
        TYPE = 4 "type",
        /// List of whole numbers.
        INTS = 5 "list of integers",
        /// List of floats.
        FLOATS = 6 "list of floats",
        /// List of strings.
        STRINGS = 7 "list of strings",
        /// A tensor.
        TENSOR = 8 "tensor",
        /// A subgraph.
        GRAPH = 9 "graph",
        /// Any value.
        ANY = 10 "any",
    }
}

/// An input or output of an operator.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct ParamSpec {
    /// Name of the parameter.
    pub name: RString,
    /// How many values it has.
    pub kind: ParamKind,
    /// Allowed element types; empty allows all.
    pub types: RVec<DType>,
    /// Parameters of an operator with the same group have the same type; empty: no such constraint.
    pub type_group: RString,
}

/// An attribute of an operator.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct AttrSpec {
    /// Name of the attribute.
    pub name: RString,
    /// Type of its value.
    pub kind: AttrKind,
    /// Value if none is given. `None` and not `required`: the attribute may be absent.
    pub default: ROption<AttrValue>,
    /// Whether the attribute must be given.
    pub required: bool,
    /// Allowed values of a string; empty allows all. Numbers are limited by `min` and `max`.
    pub choices: RVec<RString>,
    /// Smallest allowed number.
    pub min: f64,
    /// Largest allowed number.
    pub max: f64,
}

/// Attribute of a node whose operator has the flag [`REPLACES`](flags::REPLACES): its output uses
/// the memory of input 0 and already holds input 0 when the node starts, so the node only writes
/// the elements that change. Whoever sets the attribute must know that nobody reads the old
/// contents.
pub const IN_PLACE: &str = "_in_place";

/// What is known of an operator beyond its parameters; combine the flags with bitwise or.
pub mod flags {
    /// The output is random: the node is never merged or folded.
    pub const RANDOM: u64 = 1;
    /// The node has an effect besides its outputs (Assign, Send): it is never removed or merged.
    pub const STATEFUL: u64 = 1 << 1;
    /// Works element by element.
    pub const ELEMENTWISE: u64 = 1 << 2;
    /// The inputs may be swapped.
    pub const COMMUTATIVE: u64 = 1 << 3;
    /// Output 0 may reuse the memory of input 0 (same size, no other reader).
    pub const INPLACE: u64 = 1 << 4;
    /// Output 0 is a view of input 0: the same bytes with another shape (Reshape, Squeeze …).
    pub const VIEW: u64 = 1 << 5;
    /// Output 0 is input 0 itself (a reference: Assign, in-place update of a variable).
    pub const REFERENCE: u64 = 1 << 6;
    /// Collective or point-to-point communication.
    pub const COMMUNICATION: u64 = 1 << 7;
    /// The output sizes are known only after the node has run.
    pub const DATA_DEPENDENT_SHAPE: u64 = 1 << 8;
    /// Changes layout or type (TransData, Transpose, Cast, Reshape …); the trans-op passes look for
    /// it.
    pub const TRANS_OP: u64 = 1 << 9;
    /// On the white list of mixed precision: computed in the narrow type.
    pub const LOW_PRECISION: u64 = 1 << 10;
    /// On the black list of mixed precision: keeps its type (sums of many terms, exponentials,
    /// divisions by small numbers).
    pub const FULL_PRECISION: u64 = 1 << 11;
    /// Output 1 is input 1 itself, as with [`REFERENCE`] (the second variable of an optimizer's
    /// step).
    pub const REFERENCE_1: u64 = 1 << 12;
    /// Output 2 is input 2 itself.
    pub const REFERENCE_2: u64 = 1 << 13;
    /// Does not read the value of its input, only which variable it is (`VarIsInitializedOp`).
    pub const NAMES_INPUT: u64 = 1 << 14;
    /// Output 0 is input 0 with some elements replaced, so a node can be told to write only those
    /// ([`IN_PLACE`](super::IN_PLACE)).
    pub const REPLACES: u64 = 1 << 15;
    /// The digits of its input matter even for very small numbers (`Log`). In mixed precision,
    /// nothing that leads to the input is rounded to a narrow type, back to an operator that
    /// [makes](MAKES_DIGITS) digits.
    pub const NEEDS_DIGITS: u64 = 1 << 16;
    /// Small numbers in its output have all digits even if its input is rounded (`Exp`, `Sigmoid`,
    /// `SoftmaxV2`).
    pub const MAKES_DIGITS: u64 = 1 << 17;
    /// Input 1 holds indices into axes of input 0, and the operator fails if one is beyond its axis
    /// (`GatherV2`). Unless all indices are constants that every axis has, no pass moves the node
    /// out of code that may not run, such as a branch or the body of a loop.
    pub const INDEXES: u64 = 1 << 18;
    /// It fails for some values of its inputs in another way (a position beyond a table, a length
    /// beyond its axis). No pass moves the node out of code that may not run.
    pub const MAY_FAIL: u64 = 1 << 19;
    /// A matrix product: the last axis of input 0 meets the last axis but one of input 1, and each
    /// is the other way round if `transpose_x1` or `transpose_x2` (`adj_x1`, `adj_x2`) is set.
    pub const PRODUCT: u64 = 1 << 20;
    /// What remains of input 0 after whole turns or whole divisors decides the result (`Sin`,
    /// `Mod`), so an error that is small beside a large number is large for the result. In mixed
    /// precision, where the input may be large, neither the operator nor anything that leads to the
    /// input is rounded to a narrow type.
    pub const NEEDS_FRACTION: u64 = 1 << 21;

    /// Position of the flag [`wide`] of input 0.
    const WIDE: u32 = 32;
    /// Number of inputs that can have the flag [`wide`].
    const WIDE_INPUTS: u32 = 8;

    /// The flag of an input that no precision mode rounds to a narrow type: its numbers lie in
    /// another range than those of the other inputs (a mask that is added to scores), or they are
    /// places (the grid of `GridSample`). Inputs from 8 on have no such flag.
    /// # Examples
    /// ```
    /// use ge_plugin_api::ops::flags;
    ///
    /// let proto_flags = flags::LOW_PRECISION | flags::wide(3);
    /// assert!(flags::is_wide(proto_flags, 3) && !flags::is_wide(proto_flags, 0));
    /// ```
    pub const fn wide(input: u32) -> u64 {
        if input < WIDE_INPUTS { 1 << (WIDE + input) } else { 0 }
    }

    /// Whether an operator with these flags marks an input as [`wide`].
    pub fn is_wide(flags: u64, input: usize) -> bool {
        u32::try_from(input).is_ok_and(|i| flags & wide(i) != 0)
    }

    /// Indices of the inputs that an operator with these flags writes: input k is output k.
    pub fn written(flags: u64) -> impl Iterator<Item = usize> {
        let all = [REFERENCE, REFERENCE_1, REFERENCE_2];
        all.into_iter().enumerate().filter(move |(_, f)| flags & f != 0).map(|(k, _)| k)
    }
}

/// Prototype of an operator.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct OpProto {
    /// Operator type, named as in CANN.
    pub name: RString,
    /// Inputs.
    pub inputs: RVec<ParamSpec>,
    /// Outputs.
    pub outputs: RVec<ParamSpec>,
    /// Attributes.
    pub attrs: RVec<AttrSpec>,
    /// Bitwise or of [`flags`].
    pub flags: u64,
    /// Indices of the inputs whose values (not only shapes) inference or tiling reads.
    pub value_inputs: RVec<u32>,
    /// Names of the attributes that hold subgraphs.
    pub subgraphs: RVec<RString>,
}

/// Inference function of an operator: computes the output descriptors from the node's input
/// descriptors, constants and attributes.
pub type InferFn = fn(&InferCtx<'_>) -> Result<Vec<TensorDesc>>;

/// A prototype with its functions, as an author writes it.
/// # Examples
/// ```
/// use ge_plugin_api::ops::{AttrKind, OpDef, flags, infer};
/// use ge_plugin_api::types::DType;
///
/// let reals = [DType::F32, DType::F16];
/// let elu = OpDef::new("Elu", infer::same)
///     .input("x", &reals, "T")
///     .output("y", &reals, "T")
///     .attr("alpha", AttrKind::FLOAT, 1.0)
///     .range(0.0, 100.0)
///     .flags(flags::ELEMENTWISE);
/// assert_eq!(elu.proto.attrs.len(), 1);
/// ```
#[derive(Clone)]
pub struct OpDef {
    /// The prototype.
    pub proto: OpProto,
    /// Inference of the outputs.
    pub infer: InferFn,
    /// Computes the value ranges of the outputs; `None` if nothing is known of them.
    pub value_ranges: Option<RangeFn>,
}

/// Attribute of a tensor descriptor that holds what is known of integer values that are not
/// constant: for each value the text of an expression, or `"?"`. The host writes it during shape
/// inference.
pub const VALUE: &str = "_value";

/// A node whose outputs are being inferred.
pub struct InferCtx<'a> {
    /// The node.
    pub node: Node<'a>,
}

impl<'a> InferCtx<'a> {
    /// Descriptor of input `i`.
    /// # Errors
    /// Returns `failed` if the node has no input `i`.
    pub fn input(&self, i: usize) -> Result<&'a TensorDesc> {
        self.node.input_desc(i).ok_or_else(|| Error::failed(format!("input {i} is missing")))
    }
    /// Descriptor of input `i`, or `None` if it is absent.
    pub fn opt_input(&self, i: usize) -> Option<&'a TensorDesc> {
        self.node.input_desc(i)
    }
    /// Number of inputs, including absent ones between others.
    pub fn input_count(&self) -> usize {
        self.node.inputs().len()
    }
    /// The constant behind input `i`; `None` if the input is not a constant.
    pub fn constant(&self, i: usize) -> Option<&'a ConstTensor> {
        self.node.const_input(i)
    }
    /// The integers of input `i` (a shape, axes); `None` if the input is not a constant or has more
    /// than 4,096 of them.
    pub fn const_ints(&self, i: usize) -> Option<Vec<i64>> {
        self.constant(i)?.to_i64(4096)
    }
    /// The integers of input `i`, which may be constant or computed from sizes; unknown ones are
    /// `None`. Returns `None` if nothing is known, or if a constant has more than 64 of them.
    pub fn values(&self, i: usize) -> Option<Vec<Option<Expr>>> {
        if let Some(t) = self.constant(i) {
            return Some(t.to_i64(64)?.into_iter().map(|v| Some(Expr::from(v))).collect());
        }
        let AttrValue::Strs(list) = self.opt_input(i)?.attrs.get(VALUE)? else { return None };
        Some(list.iter().map(|s| Expr::parse(s)).collect())
    }
    /// A descriptor with the type, format and shape of input `i`.
    /// # Errors
    /// Returns `failed` if the node has no input `i`.
    pub fn like(&self, i: usize) -> Result<TensorDesc> {
        let d = self.input(i)?;
        Ok(TensorDesc {
            dtype: d.dtype,
            format: d.format,
            container: d.container,
            shape: d.shape.clone(),
            ..TensorDesc::default()
        })
    }
}

impl OpDef {
    /// A prototype with a name. Inputs, outputs and attributes are then added in order.
    pub fn new(name: &str, infer: InferFn) -> OpDef {
        OpDef {
            proto: OpProto {
                name: name.into(),
                inputs: RVec::new(),
                outputs: RVec::new(),
                attrs: RVec::new(),
                flags: 0,
                value_inputs: RVec::new(),
                subgraphs: RVec::new(),
            },
            infer,
            value_ranges: None,
        }
    }
    fn param(name: &str, kind: ParamKind, types: &[DType], group: &str) -> ParamSpec {
        ParamSpec { name: name.into(), kind, types: types.into(), type_group: group.into() }
    }
    /// Adds a required input. Parameters with the same `group` have the same type; empty `types`
    /// allow all types.
    pub fn input(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.inputs.push(Self::param(name, ParamKind::REQUIRED, types, group));
        self
    }
    /// Adds an optional input.
    pub fn opt(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.inputs.push(Self::param(name, ParamKind::OPTIONAL, types, group));
        self
    }
    /// Adds an input with any number of values.
    pub fn dynamic(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.inputs.push(Self::param(name, ParamKind::DYNAMIC, types, group));
        self
    }
    /// Adds a required output.
    pub fn output(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.outputs.push(Self::param(name, ParamKind::REQUIRED, types, group));
        self
    }
    /// Adds an output with any number of values.
    pub fn dynamic_output(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.outputs.push(Self::param(name, ParamKind::DYNAMIC, types, group));
        self
    }
    /// Adds an optional output.
    pub fn opt_output(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.outputs.push(Self::param(name, ParamKind::OPTIONAL, types, group));
        self
    }
    fn attr_spec(mut self, name: &str, kind: AttrKind, default: Option<AttrValue>, required: bool) -> Self {
        self.proto.attrs.push(AttrSpec {
            name: name.into(),
            kind,
            default: default.into(),
            required,
            choices: RVec::new(),
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
        });
        self
    }
    /// Adds an attribute with a default.
    pub fn attr(self, name: &str, kind: AttrKind, default: impl Into<AttrValue>) -> Self {
        self.attr_spec(name, kind, Some(default.into()), false)
    }
    /// Adds an attribute that must be given.
    pub fn required_attr(self, name: &str, kind: AttrKind) -> Self {
        self.attr_spec(name, kind, None, true)
    }
    /// Adds an attribute that may be absent and has no default.
    pub fn opt_attr(self, name: &str, kind: AttrKind) -> Self {
        self.attr_spec(name, kind, None, false)
    }
    /// Limits the attribute that was added last to numbers from `min` to `max`.
    pub fn range(mut self, min: f64, max: f64) -> Self {
        if let Some(a) = self.proto.attrs.last_mut() {
            a.min = min;
            a.max = max;
        }
        self
    }
    /// Limits the attribute that was added last to these strings.
    pub fn choices(mut self, choices: &[&str]) -> Self {
        if let Some(a) = self.proto.attrs.last_mut() {
            a.choices = choices.iter().map(|&c| c.into()).collect();
        }
        self
    }
    /// Sets the function that computes the value ranges of the outputs ([`crate::range`]).
    pub fn value_ranges(mut self, f: RangeFn) -> Self {
        self.value_ranges = Some(f);
        self
    }
    /// Adds `flags` to those already set.
    pub fn flags(mut self, flags: u64) -> Self {
        self.proto.flags |= flags;
        self
    }
    /// Sets the indices of the inputs whose values are read.
    pub fn value_inputs(mut self, inputs: &[u32]) -> Self {
        self.proto.value_inputs = inputs.into();
        self
    }
    /// Adds a required attribute that holds a subgraph.
    pub fn subgraph(mut self, name: &str) -> Self {
        self.proto.subgraphs.push(name.into());
        self.attr_spec(name, AttrKind::GRAPH, None, true)
    }
}

/// The prototypes of one plugin. `ge_plugin!` makes one from all that
/// [`register_op!`](crate::register_op) registers. It can also be written by hand:
///
/// # Examples
/// ```
/// use ge_plugin_api::Result;
/// use ge_plugin_api::ops::{InferCtx, OpDef, OpProto, OpSet, infer};
/// use ge_plugin_api::types::{DType, TensorDesc};
///
/// struct OneOp;
///
/// fn double() -> OpDef {
///     OpDef::new("Double", infer::same).input("x", &[DType::F32], "T").output("y", &[DType::F32], "T")
/// }
///
/// impl OpSet for OneOp {
///     fn protos(&self) -> Vec<OpProto> {
///         vec![double().proto]
///     }
///     fn infer(&self, _: usize, ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
///         (double().infer)(ctx)
///     }
/// }
/// assert_eq!(OneOp.protos()[0].name.as_str(), "Double");
/// ```
pub trait OpSet: Send + Sync {
    /// All prototypes, always in the same order.
    fn protos(&self) -> Vec<OpProto>;
    /// Infers the outputs of a node of prototype `index` in that order.
    /// # Errors
    /// Returns an error if an input is missing, or types, shapes or attributes contradict each
    /// other. Unknown sizes are not an error.
    fn infer(&self, index: usize, ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>>;
    /// Value ranges of the outputs of a node of prototype `index`; `None` if nothing is known of
    /// them.
    fn ranges(&self, index: usize, ctx: &RangeCtx<'_>) -> Option<Vec<Range>> {
        let _ = (index, ctx);
        None
    }
}

abi_object! {
    /// Handle by which the host calls a plugin's [`OpSet`].
    object OpSetObject of dyn OpSet;
    /// ABI function table of [`OpSet`].
    table OpSetTable, OpSetTableRef;
    /// All prototypes, always in the same order.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    call protos() -> Result<Vec<OpProto>> => RResult<RVec<OpProto>, Error> = |set| Ok(set.protos());
    /// Infers the outputs of a node of prototype `index`.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    [last_prefix_field]
    call infer(index: usize => usize, node: &Node<'_> => RawNodeRef)
        -> Result<Vec<TensorDesc>> => RResult<RVec<TensorDesc>, Error> = |set| set.infer(index, &InferCtx { node });
    /// [`OpSet::ranges`]; missing in libraries that are older than this function.
    raw ranges(index: usize => usize, node: &Node<'_> => RawNodeRef, inputs: &[Range] => RawSlice<Range>)
        -> Result<ROption<RVec<Range>>> => RResult<ROption<RVec<Range>>, Error> =
        |set| Ok(set.ranges(index, &RangeCtx { node, inputs }).map(RVec::from).into());
}

impl OpSetObject {
    /// Value ranges of the outputs of a node of prototype `index`; `None` if nothing is known of
    /// them.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    pub fn ranges(&self, index: usize, node: &Node<'_>, inputs: &[Range]) -> Result<Option<Vec<Range>>> {
        let Some(call) = self.table().ranges() else { return Ok(None) };
        // SAFETY: pointer and table belong together; node and ranges outlive the call.
        let said = unsafe { call(self.ptr(), index, RawNodeRef::of(node), RawSlice::of(inputs)) }.into_result()?;
        Ok(said.into_option().map(Vec::from))
    }
}

/// Inference functions for common operators.
pub mod infer {
    use super::*;
    use crate::types::{Dim, Expr};

    /// Output 0 has the type, format and shape of input 0.
    /// # Errors
    /// Returns `failed` if there is no input 0.
    pub fn same(ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        Ok(vec![ctx.like(0)?])
    }
    /// NumPy broadcasting of two shapes. A size that is the minimum of another size and a number
    /// can only broadcast with that size if both are equal or it is 1.
    /// # Errors
    /// Returns `failed` if two sizes of one axis differ and neither is 1.
    pub fn broadcast_shapes(a: &Shape, b: &Shape) -> Result<Shape> {
        let (Some(ra), Some(rb)) = (a.rank(), b.rank()) else { return Ok(Shape::unranked()) };
        let r = ra.max(rb);
        let at = |s: &Shape, rs: usize, i: usize| if i + rs >= r { s.dims()[i + rs - r] } else { Dim::known(1) };
        let lesser = |x: Dim, y: Dim| Expr::of(x).zip(Expr::of(y)).is_some_and(|(x, y)| x.is_lesser_of(&y));
        let mut out = Vec::with_capacity(r);
        for i in 0..r {
            let (x, y) = (at(a, ra, i), at(b, rb, i));
            out.push(match (x.size(), y.size()) {
                (Some(1), _) => y,
                (_, Some(1)) => x,
                (Some(p), Some(q)) if p == q => x,
                (Some(_), Some(_)) => return Err(Error::failed(format!("shapes {a} and {b} do not broadcast"))),
                (Some(_), None) => x,
                (None, Some(_)) => y,
                _ if x.same(y) || lesser(y, x) => x,
                _ if lesser(x, y) => y,
                _ => Dim::UNKNOWN,
            });
        }
        Ok(Shape::new(out))
    }
    /// The first index and the number of indices that ONNX's `Slice` takes from an axis of `size`
    /// elements. Positions below zero count from the end. Then the first index is limited to
    /// `0..=size` (`0..=size - 1` for a negative step), and the end to `0..=size`
    /// (`-1..=size - 1`). The first index is 0 if there are no indices, or if `step` is zero.
    ///
    /// # Examples
    /// ```
    /// use ge_plugin_api::ops::infer::slice_of_axis;
    ///
    /// assert_eq!(slice_of_axis(10, -3, i64::MAX, 2), (7, 2));
    /// assert_eq!(slice_of_axis(10, i64::MAX, i64::MIN, -1), (9, 10));
    /// assert_eq!(slice_of_axis(10, -11, i64::MIN, -1), (0, 1));
    /// ```
    pub fn slice_of_axis(size: i64, begin: i64, end: i64, step: i64) -> (i64, i64) {
        if size <= 0 || step == 0 {
            return (0, 0);
        }
        let place = |v: i64| if v < 0 { v.saturating_add(size) } else { v };
        let (begin, span) = if step > 0 {
            let begin = place(begin).clamp(0, size);
            (begin, place(end).clamp(0, size) - begin)
        } else {
            let begin = place(begin).clamp(0, size - 1);
            (begin, begin - place(end).clamp(-1, size - 1))
        };
        if span <= 0 { (0, 0) } else { (begin, (span - 1) / step.saturating_abs() + 1) }
    }
    /// Broadcasts all inputs; the result has the type of input 0.
    /// # Errors
    /// Fails as [`broadcast_shapes`] does, and if there is no input 0.
    pub fn broadcast(ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        let mut out = ctx.like(0)?;
        for i in 1..ctx.input_count() {
            if let Some(d) = ctx.opt_input(i) {
                out.shape = broadcast_shapes(&out.shape, &d.shape)?;
            }
        }
        Ok(vec![out])
    }
    /// Broadcasts all inputs; the result is boolean.
    /// # Errors
    /// Fails as [`broadcast_shapes`] does, and if there is no input 0.
    pub fn compare(ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        let mut out = broadcast(ctx)?;
        out[0].dtype = DType::BOOL;
        Ok(out)
    }
}
