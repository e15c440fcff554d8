//! Operator prototypes: inputs, outputs, attributes, types allowed, and the inference of shapes and
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
    /// How often a parameter stands.
    pub struct ParamKind: u8 {
        /// Once.
        REQUIRED = 0 "required",
        /// Once or not at all.
        OPTIONAL = 1 "optional",
        /// Any number, at least `min`; only the last parameter, or several with the attribute
        /// counts of the operator.
        DYNAMIC = 2 "dynamic",
    }
}

open_code! {
    /// What kind of value an attribute has.
    pub struct AttrKind: u8 {
        /// Whole number.
        INT = 0 "integer",
        /// Real number.
        FLOAT = 1 "float",
        /// Truth value.
        BOOL = 2 "boolean",
        /// Text.
        STRING = 3 "string",
        /// Element type.
        TYPE = 4 "type",
        /// Whole numbers.
        INTS = 5 "list of integers",
        /// Real numbers.
        FLOATS = 6 "list of floats",
        /// Texts.
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
    /// Name.
    pub name: RString,
    /// How often.
    pub kind: ParamKind,
    /// Types allowed; empty is any.
    pub types: RVec<DType>,
    /// Parameters of one operator with the same letter have the same type; empty: no tie.
    pub type_group: RString,
}

/// An attribute of an operator.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct AttrSpec {
    /// Name.
    pub name: RString,
    /// Kind.
    pub kind: AttrKind,
    /// Value where none is given; none and `required`: it must be given.
    pub default: ROption<AttrValue>,
    /// Whether it must be given.
    pub required: bool,
    /// Legal texts, empty: any; for numbers `min` and `max` hold.
    pub choices: RVec<RString>,
    /// Least number.
    pub min: f64,
    /// Greatest number.
    pub max: f64,
}

/// Attribute of a node of an operator that [`REPLACES`](flags::REPLACES): its output lies where its
/// input 0 lies and holds it when the node begins, so that the node writes other elements alone.
/// Whoever sets it knows that nobody reads what was there.
pub const IN_PLACE: &str = "_in_place";

/// What is known of an operator beyond its parameters; ors of the constants.
pub mod flags {
    /// Output depends on chance: never merged or folded.
    pub const RANDOM: u64 = 1;
    /// Has an effect beyond its outputs (Assign, Send): never removed or merged.
    pub const STATEFUL: u64 = 1 << 1;
    /// Element-wise.
    pub const ELEMENTWISE: u64 = 1 << 2;
    /// Inputs may be swapped.
    pub const COMMUTATIVE: u64 = 1 << 3;
    /// Output 0 may take the memory of input 0 (same size, sole reader).
    pub const INPLACE: u64 = 1 << 4;
    /// Output 0 is a view of input 0: same bytes, another shape (Reshape, Squeeze …).
    pub const VIEW: u64 = 1 << 5;
    /// Output 0 is input 0 itself (a reference: Assign, in-place update of a variable).
    pub const REFERENCE: u64 = 1 << 6;
    /// Collective or point-to-point communication.
    pub const COMMUNICATION: u64 = 1 << 7;
    /// Output sizes are known only after it has run.
    pub const DATA_DEPENDENT_SHAPE: u64 = 1 << 8;
    /// A change of layout or type (TransData, Transpose, Cast, Reshape …), for the trans-op passes.
    pub const TRANS_OP: u64 = 1 << 9;
    /// White in mixed precision: it is done in the narrow type.
    pub const LOW_PRECISION: u64 = 1 << 10;
    /// Black in mixed precision: it keeps its type (sums of many, exponentials, what divides by
    /// small numbers).
    pub const FULL_PRECISION: u64 = 1 << 11;
    /// Output 1 is input 1 itself, as with [`REFERENCE`] (the second variable of an optimizer's
    /// step).
    pub const REFERENCE_1: u64 = 1 << 12;
    /// Output 2 is input 2 itself.
    pub const REFERENCE_2: u64 = 1 << 13;
    /// Reads no value of its input: it asks only which variable that is (`VarIsInitializedOp`).
    pub const NAMES_INPUT: u64 = 1 << 14;
    /// Output 0 is input 0 with some of its elements replaced, so that a node of it can be told to
    /// write those alone ([`IN_PLACE`](super::IN_PLACE)).
    pub const REPLACES: u64 = 1 << 15;
    /// It reads numbers by their digits, however small they are (`Log`): in mixed precision nothing
    /// that comes to it is rounded to a narrow type, back to what [makes](MAKES_DIGITS) digits.
    pub const NEEDS_DIGITS: u64 = 1 << 16;
    /// Small numbers that it gives have all digits though what it reads is rounded (`Exp`,
    /// `Sigmoid`, `SoftmaxV2`).
    pub const MAKES_DIGITS: u64 = 1 << 17;

    /// Inputs that an operator with these flags writes: input k is output k.
    pub fn written(flags: u64) -> impl Iterator<Item = usize> {
        let all = [REFERENCE, REFERENCE_1, REFERENCE_2];
        all.into_iter().enumerate().filter(move |(_, f)| flags & f != 0).map(|(k, _)| k)
    }
}

/// A prototype.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct OpProto {
    /// Operator type (CANN's name).
    pub name: RString,
    /// Inputs.
    pub inputs: RVec<ParamSpec>,
    /// Outputs.
    pub outputs: RVec<ParamSpec>,
    /// Attributes.
    pub attrs: RVec<AttrSpec>,
    /// Bitwise or of [`flags`].
    pub flags: u64,
    /// Inputs whose values (not only shapes) inference or tiling reads.
    pub value_inputs: RVec<u32>,
    /// Names of the attributes that hold subgraphs.
    pub subgraphs: RVec<RString>,
}

/// Inference of an operator: from a node (its input descriptors, constants, attributes) to its
/// output descriptors.
pub type InferFn = fn(&InferCtx<'_>) -> Result<Vec<TensorDesc>>;

/// A prototype with its inference, as an author writes it.
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
    /// Its inference.
    pub infer: InferFn,
    /// What it says of the numbers that it gives.
    pub value_ranges: Option<RangeFn>,
}

/// Attribute of a tensor descriptor: what is known of whole numbers that are no constant, the text
/// of an expression or `"?"` for each. The host writes it while shapes are inferred.
pub const VALUE: &str = "_value";

/// A node under inference.
pub struct InferCtx<'a> {
    /// The node.
    pub node: Node<'a>,
}

impl<'a> InferCtx<'a> {
    /// Descriptor of input `i`, which must be there.
    /// # Errors
    /// `failed`: the node has no input `i`.
    pub fn input(&self, i: usize) -> Result<&'a TensorDesc> {
        self.node.input_desc(i).ok_or_else(|| Error::failed(format!("input {i} is missing")))
    }
    /// Descriptor of input `i`, if given.
    pub fn opt_input(&self, i: usize) -> Option<&'a TensorDesc> {
        self.node.input_desc(i)
    }
    /// Number of inputs, absent ones in between counted.
    pub fn input_count(&self) -> usize {
        self.node.inputs().len()
    }
    /// The constant behind input `i`, if it is one.
    pub fn constant(&self, i: usize) -> Option<&'a ConstTensor> {
        self.node.const_input(i)
    }
    /// Whole numbers behind input `i` (a shape, axes), if constant; at most 4,096.
    pub fn const_ints(&self, i: usize) -> Option<Vec<i64>> {
        self.constant(i)?.to_i64(4096)
    }
    /// Whole numbers behind input `i`, constant or computed of sizes, each where it is known; at
    /// most 64.
    pub fn values(&self, i: usize) -> Option<Vec<Option<Expr>>> {
        if let Some(t) = self.constant(i) {
            return Some(t.to_i64(64)?.into_iter().map(|v| Some(Expr::from(v))).collect());
        }
        let AttrValue::Strs(list) = self.opt_input(i)?.attrs.get(VALUE)? else { return None };
        Some(list.iter().map(|s| Expr::parse(s)).collect())
    }
    /// A type with the shape of input `i`.
    /// # Errors
    /// `failed`: the node has no input `i`.
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
    /// A prototype by name; inputs, outputs and attributes are added in order.
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
    /// A required input. `group`: same letter, same type.
    pub fn input(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.inputs.push(Self::param(name, ParamKind::REQUIRED, types, group));
        self
    }
    /// An optional input.
    pub fn opt(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.inputs.push(Self::param(name, ParamKind::OPTIONAL, types, group));
        self
    }
    /// Any number of inputs.
    pub fn dynamic(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.inputs.push(Self::param(name, ParamKind::DYNAMIC, types, group));
        self
    }
    /// An output.
    pub fn output(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.outputs.push(Self::param(name, ParamKind::REQUIRED, types, group));
        self
    }
    /// Any number of outputs.
    pub fn dynamic_output(mut self, name: &str, types: &[DType], group: &str) -> Self {
        self.proto.outputs.push(Self::param(name, ParamKind::DYNAMIC, types, group));
        self
    }
    /// An output that may be left out.
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
    /// An attribute with a default.
    pub fn attr(self, name: &str, kind: AttrKind, default: impl Into<AttrValue>) -> Self {
        self.attr_spec(name, kind, Some(default.into()), false)
    }
    /// An attribute that must be given.
    pub fn required_attr(self, name: &str, kind: AttrKind) -> Self {
        self.attr_spec(name, kind, None, true)
    }
    /// An attribute that may be left out and has no default.
    pub fn opt_attr(self, name: &str, kind: AttrKind) -> Self {
        self.attr_spec(name, kind, None, false)
    }
    /// Bounds of the attribute added last.
    pub fn range(mut self, min: f64, max: f64) -> Self {
        if let Some(a) = self.proto.attrs.last_mut() {
            a.min = min;
            a.max = max;
        }
        self
    }
    /// Legal texts of the attribute added last.
    pub fn choices(mut self, choices: &[&str]) -> Self {
        if let Some(a) = self.proto.attrs.last_mut() {
            a.choices = choices.iter().map(|&c| c.into()).collect();
        }
        self
    }
    /// The function that says the ranges of its outputs ([`crate::range`]).
    pub fn value_ranges(mut self, f: RangeFn) -> Self {
        self.value_ranges = Some(f);
        self
    }
    /// Adds `flags` to those already set.
    pub fn flags(mut self, flags: u64) -> Self {
        self.proto.flags |= flags;
        self
    }
    /// Inputs whose values are read.
    pub fn value_inputs(mut self, inputs: &[u32]) -> Self {
        self.proto.value_inputs = inputs.into();
        self
    }
    /// An attribute that holds a subgraph.
    pub fn subgraph(mut self, name: &str) -> Self {
        self.proto.subgraphs.push(name.into());
        self.attr_spec(name, AttrKind::GRAPH, None, true)
    }
}

/// The prototypes of one plugin.
/// `ge_plugin!` makes one of all that [`register_op!`](crate::register_op) registers; written by
/// hand:
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
    /// All prototypes, in a fixed order.
    fn protos(&self) -> Vec<OpProto>;
    /// Infers outputs for prototype `index` of that order.
    /// # Errors
    /// What does not fit: an input is missing, or types, shapes or attributes contradict each
    /// other. Sizes that are not known are no error.
    fn infer(&self, index: usize, ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>>;
    /// Ranges of the outputs, for prototype `index`; None: it says nothing of them.
    fn ranges(&self, index: usize, ctx: &RangeCtx<'_>) -> Option<Vec<Range>> {
        let _ = (index, ctx);
        None
    }
}

abi_object! {
    /// An [`OpSet`] of a plugin.
    object OpSetObject of dyn OpSet;
    /// ABI function table of [`OpSet`].
    table OpSetTable, OpSetTableRef;
    /// All prototypes.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call protos() -> Result<Vec<OpProto>> => RResult<RVec<OpProto>, Error> = |set| Ok(set.protos());
    /// Infers the outputs of a node by prototype `index`.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    [last_prefix_field]
    call infer(index: usize => usize, node: &Node<'_> => RawNodeRef)
        -> Result<Vec<TensorDesc>> => RResult<RVec<TensorDesc>, Error> = |set| set.infer(index, &InferCtx { node });
    /// `ranges`; a library built before it was appended has none.
    raw ranges(index: usize => usize, node: &Node<'_> => RawNodeRef, inputs: &[Range] => RawSlice<Range>)
        -> Result<ROption<RVec<Range>>> => RResult<ROption<RVec<Range>>, Error> =
        |set| Ok(set.ranges(index, &RangeCtx { node, inputs }).map(RVec::from).into());
}

impl OpSetObject {
    /// Ranges of the outputs of a node by prototype `index`; None: nothing is said of them.
    ///
    /// # Errors
    /// A panic in the plugin.
    pub fn ranges(&self, index: usize, node: &Node<'_>, inputs: &[Range]) -> Result<Option<Vec<Range>>> {
        let Some(call) = self.table().ranges() else { return Ok(None) };
        // SAFETY: as above; the ranges live for the call too.
        let said = unsafe { call(self.ptr(), index, RawNodeRef::of(node), RawSlice::of(inputs)) }.into_result()?;
        Ok(said.into_option().map(Vec::from))
    }
}

/// Ready inferences for common operators.
pub mod infer {
    use super::*;
    use crate::types::{Dim, Expr};

    /// Output 0 is like input 0.
    /// # Errors
    /// `failed`: there is no input 0.
    pub fn same(ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        Ok(vec![ctx.like(0)?])
    }
    /// NumPy broadcasting of two shapes. The lesser of a size and a number fits that size only where it
    /// is the same, or 1.
    /// # Errors
    /// `failed`: two sizes of one axis differ and neither is 1.
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
    /// All inputs broadcast; type of input 0.
    /// # Errors
    /// As [`broadcast_shapes`], and where there is no input 0.
    pub fn broadcast(ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        let mut out = ctx.like(0)?;
        for i in 1..ctx.input_count() {
            if let Some(d) = ctx.opt_input(i) {
                out.shape = broadcast_shapes(&out.shape, &d.shape)?;
            }
        }
        Ok(vec![out])
    }
    /// All inputs broadcast; boolean result.
    /// # Errors
    /// As [`broadcast_shapes`], and where there is no input 0.
    pub fn compare(ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
        let mut out = broadcast(ctx)?;
        out[0].dtype = DType::BOOL;
        Ok(out)
    }
}
