//! One node with constant inputs, passed through an engine as the host would do it, and launched
//! block by block.
use ge_nn::engine::Nn;
use ge_nn::kernel::Tiling;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::{ArgInfo, Engine, LoadRequest, Support, Target, TaskContext};
use ge_plugin_api::kernel::KernelCall;
use ge_plugin_api::task::KernelTask;
use ge_plugin_api::types::{
    Attr, AttrMap, AttrValue, ConstTensor, DType, Format, Key, NodeId, Origin, Shape, TensorDesc, Use, ValueRef,
};
use ge_plugin_api::view::host::{GraphSource, NodeParts, view};

/// A numeric tensor with its type; the numbers are stored as f64.
#[derive(Clone, Debug, PartialEq)]
pub struct T {
    pub dtype: DType,
    pub dims: Vec<u64>,
    pub data: Vec<f64>,
}

pub fn t(dtype: DType, dims: &[u64], data: impl IntoIterator<Item = f64>) -> T {
    T { dtype, dims: dims.to_vec(), data: data.into_iter().collect() }
}

/// Deterministic numbers in -1..1.
pub fn noise(dtype: DType, dims: &[u64], seed: u64) -> T {
    let n = dims.iter().product::<u64>();
    let data = (0..n).map(|i| (((i + seed * 7919) * 2_654_435_761 % 65_521) as f64) / 32_760.5 - 1.0);
    let mut r = t(dtype, dims, data);
    r.data = numbers(dtype, &bytes(&r));
    r
}

fn half(v: f64) -> half::f16 {
    half::f16::from_f32(v as f32)
}

pub fn bytes(t: &T) -> Vec<u8> {
    let mut b = Vec::new();
    for &v in &t.data {
        match t.dtype {
            DType::F32 => b.extend((v as f32).to_le_bytes()),
            DType::F64 => b.extend(v.to_le_bytes()),
            DType::F16 => b.extend(half(v).to_le_bytes()),
            DType::BF16 => b.extend(half::bf16::from_f32(v as f32).to_le_bytes()),
            DType::I32 => b.extend((v as i32).to_le_bytes()),
            DType::I64 => b.extend((v as i64).to_le_bytes()),
            DType::U8 | DType::BOOL => b.push(v as u8),
            DType::I8 => b.push(v as i8 as u8),
            other => panic!("no test numbers of {other}"),
        }
    }
    b
}

pub fn numbers(dtype: DType, b: &[u8]) -> Vec<f64> {
    macro_rules! read {
        ($t:ty) => {
            b.chunks_exact(size_of::<$t>()).map(|c| f64::from(<$t>::from_le_bytes(c.try_into().unwrap()))).collect()
        };
    }
    match dtype {
        DType::F32 => read!(f32),
        DType::F64 => read!(f64),
        DType::F16 => read!(half::f16),
        DType::BF16 => read!(half::bf16),
        DType::I32 => read!(i32),
        DType::I64 => b.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().unwrap()) as f64).collect(),
        DType::U8 | DType::BOOL => b.iter().map(|&v| f64::from(v)).collect(),
        DType::I8 => b.iter().map(|&v| f64::from(v as i8)).collect(),
        other => panic!("no test numbers of {other}"),
    }
}

type Stored = (Key, String, Vec<ValueRef>, Vec<TensorDesc>, AttrMap);

struct Source {
    nodes: Vec<Stored>,
    order: Vec<NodeId>,
}

impl GraphSource for Source {
    fn order(&self) -> &[NodeId] {
        &self.order
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        let n = self.nodes.get(id.index())?;
        Some(NodeParts { op: n.0, name: &n.1, inputs: &n.2, controls: &[], outputs: &n.3, attrs: n.4.as_slice() })
    }
    fn users(&self, _: ValueRef) -> &[Use] {
        &[]
    }
    fn control_users(&self, _: NodeId) -> &[NodeId] {
        &[]
    }
    fn name(&self) -> &str {
        "main"
    }
    fn attrs(&self) -> &[Attr] {
        &[]
    }
    fn graph(&self, _: &str) -> Option<&Source> {
        None
    }
    fn next_id(&self) -> NodeId {
        NodeId(self.nodes.len() as u32)
    }
    fn op_flags(&self, _: Key) -> u64 {
        0
    }
}

/// A node under test.
#[derive(Clone)]
pub struct Case {
    pub op: &'static str,
    pub attrs: Vec<(&'static str, AttrValue)>,
    pub inputs: Vec<Option<T>>,
    /// Inputs that are graph inputs, not constants.
    pub fed: Vec<usize>,
    pub outputs: Vec<(DType, Vec<u64>)>,
    /// Formats of inputs that are not ND, and their sizes before they were converted.
    pub formats: Vec<(usize, Format, Option<Vec<u64>>)>,
    /// The same for outputs.
    pub made: Vec<(usize, Format, Vec<u64>)>,
}

pub fn case(op: &'static str, inputs: &[&T], outputs: &[(DType, &[u64])]) -> Case {
    Case {
        op,
        attrs: vec![],
        inputs: inputs.iter().map(|t| Some((*t).clone())).collect(),
        fed: vec![],
        outputs: outputs.iter().map(|(d, s)| (*d, s.to_vec())).collect(),
        formats: vec![],
        made: vec![],
    }
}

fn origin(dims: &[u64]) -> Origin {
    Origin { format: Format::ND, shape: Shape::of(dims) }
}

impl Case {
    pub fn with(mut self, key: &'static str, value: impl Into<AttrValue>) -> Case {
        self.attrs.push((key, value.into()));
        self
    }
    pub fn laid(mut self, i: usize, format: Format) -> Case {
        self.formats.push((i, format, None));
        self
    }
    /// Input `i` has a format; before the conversion it was ND with these sizes.
    pub fn laid_from(mut self, i: usize, format: Format, dims: &[u64]) -> Case {
        self.formats.push((i, format, Some(dims.to_vec())));
        self
    }
    /// Output `k` has a format; in ND it would have these sizes.
    pub fn made_from(mut self, k: usize, format: Format, dims: &[u64]) -> Case {
        self.made.push((k, format, dims.to_vec()));
        self
    }
    fn desc(&self, i: usize, t: &T) -> TensorDesc {
        let found = self.formats.iter().find(|f| f.0 == i);
        let mut d = TensorDesc::new(t.dtype, Shape::of(&t.dims)).with_format(found.map_or(Format::ND, |f| f.1));
        d.origin = found.and_then(|f| f.2.as_deref()).map(origin).into();
        d
    }
    fn out_desc(&self, k: usize) -> TensorDesc {
        let (dtype, dims) = &self.outputs[k];
        let found = self.made.iter().find(|f| f.0 == k);
        let mut d = TensorDesc::new(*dtype, Shape::of(dims)).with_format(found.map_or(Format::ND, |f| f.1));
        d.origin = found.map(|f| origin(&f.2)).into();
        d
    }
    pub fn absent(mut self, i: usize) -> Case {
        self.inputs.insert(i, None);
        self
    }
    pub fn feed(mut self, i: usize) -> Case {
        self.fed.push(i);
        self
    }

    fn source(&self) -> (Source, NodeId) {
        let mut s = Source { nodes: vec![], order: vec![] };
        let mut values = vec![];
        for (i, input) in self.inputs.iter().enumerate() {
            let Some(t) = input else {
                values.push(ValueRef::ABSENT);
                continue;
            };
            let desc = self.desc(i, t);
            let mut attrs = AttrMap::default();
            let fed = self.fed.contains(&i);
            if !fed {
                let blob = ge_plugin_api::types::Blob::from_owner(bytes(t));
                attrs.set("value", ConstTensor::new(t.dtype, &t.dims, blob).unwrap());
            }
            let op = Key::new(if fed { "Data" } else { "Const" });
            values.push(ValueRef::new(NodeId(s.nodes.len() as u32), 0));
            s.nodes.push((op, format!("in{i}"), vec![], vec![desc], attrs));
        }
        let mut attrs = AttrMap::default();
        self.attrs.iter().for_each(|(k, v)| attrs.set(*k, v.clone()));
        let outs = (0..self.outputs.len()).map(|k| self.out_desc(k)).collect();
        let id = NodeId(s.nodes.len() as u32);
        s.nodes.push((Key::new(self.op), "node".into(), values, outs, attrs));
        s.order = (0..s.nodes.len() as u32).map(NodeId).collect();
        (s, id)
    }

    /// The engine's answer for the node.
    pub fn support(&self, engine: &Nn) -> Support {
        let (s, id) = self.source();
        engine.supports(&view(&s).node(id))
    }

    /// The reason for a refusal.
    pub fn refusal(&self, engine: &Nn) -> String {
        if let Some(full) = self.with_defaults() {
            assert_eq!(full.support(engine), self.support(engine), "{} with {:?}", self.op, full.attrs);
        }
        match self.support(engine) {
            Support::No(why) => why.to_string(),
            Support::Yes | Support::YesAt(_) => panic!("{} is taken", self.op),
        }
    }

    /// The request that the host would pass to the executor.
    pub fn request(&self, engine: &Nn) -> (LoadRequest, u32) {
        let (s, id) = self.source();
        let g = view(&s);
        let node = g.node(id);
        assert_eq!(engine.supports(&node), Support::Yes, "{}", self.op);
        let soc = SocSpec { name: "sim".into(), aic_cores: 20, aiv_cores: 40, ..SocSpec::default() };
        let target = Target { soc, deterministic: true, online: false, rank_size: 1 };
        engine.calc_op_running_param(&node, &target).unwrap();
        let kernel = engine.compile(&node, &target).unwrap().unwrap();
        let context = TaskContext { target, kernel: ROption::RSome(kernel.clone()), rank_size: 1 };
        let task = engine.generate_task(&node, &context).unwrap().remove(0);
        let arg = |kind: &str, index: usize, desc: Option<TensorDesc>| ArgInfo {
            kind: kind.into(),
            index: index as u32,
            bytes: desc.as_ref().and_then(TensorDesc::data_bytes).unwrap_or(0),
            desc: desc.into(),
        };
        let mut args = vec![];
        for (i, t) in self.inputs.iter().enumerate() {
            args.push(match t {
                Some(t) => arg("i", i, Some(self.desc(i, t))),
                None => arg("", 0, None),
            });
        }
        for k in 0..self.outputs.len() {
            args.push(arg("o", k, Some(self.out_desc(k))));
        }
        let planned = match &task.kernel {
            ROption::RSome(k) => k.block_dim,
            ROption::RNone => panic!("no kernel"),
        };
        let attrs = node.attrs().iter().cloned().collect();
        let request = LoadRequest {
            node: "node".into(),
            op: self.op.into(),
            attrs,
            task,
            binary: kernel.binary,
            args: args.into(),
            rank: 0,
            rank_size: 1,
        };
        (request, planned)
    }

    /// The outputs of a launch with this many blocks (0: as planned); the last block runs first.
    pub fn launch(&self, engine: &Nn, blocks: u32) -> Result<Vec<T>, String> {
        self.launch_over(engine, blocks, 0xa5a5_a5a5_a5a5_a5a5)
    }

    /// The same, with changed tiling data.
    pub fn launch_tiled(&self, engine: &Nn, blocks: u32, change: impl Fn(&mut Tiling)) -> Result<Vec<T>, String> {
        self.launch_with(engine, blocks, 0, |k| {
            let mut tiling = Tiling { units: Tiling::units_of(&k.tiling).unwrap(), block_dim: k.block_dim };
            change(&mut tiling);
            k.tiling = tiling.encode().into();
        })
    }

    /// The same, with memory that was filled with `before` before the launch.
    fn launch_over(&self, engine: &Nn, blocks: u32, before: u64) -> Result<Vec<T>, String> {
        self.launch_with(engine, blocks, before, |_| ())
    }

    fn launch_with(
        &self,
        engine: &Nn,
        blocks: u32,
        before: u64,
        change: impl Fn(&mut KernelTask),
    ) -> Result<Vec<T>, String> {
        let (mut request, planned) = self.request(engine);
        if let ROption::RSome(k) = &mut request.task.kernel {
            change(k);
        }
        let loaded = engine.load_kernel(&request).map_err(|e| e.message().to_owned())?;
        let mut memory: Vec<Vec<u64>> = vec![];
        for t in &self.inputs {
            let b = t.as_ref().map(bytes).unwrap_or_default();
            let mut v = vec![0u64; b.len().div_ceil(8)];
            v.iter_mut().zip(b.chunks(8)).for_each(|(v, c)| {
                let mut w = [0; 8];
                w[..c.len()].copy_from_slice(c);
                *v = u64::from_le_bytes(w);
            });
            memory.push(v);
        }
        for (d, s) in &self.outputs {
            let n = d.bytes_of(s.iter().product()).unwrap() as usize;
            memory.push(vec![before; n.div_ceil(8)]);
        }
        let args: Vec<*mut u8> = memory.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
        let ROption::RSome(k) = &request.task.kernel else { panic!("no kernel") };
        let dim = if blocks == 0 { planned } else { blocks };
        for block_idx in (0..dim).rev() {
            let call = KernelCall {
                args: args.as_ptr(),
                n_args: args.len(),
                block_idx,
                block_dim: dim,
                tiling_key: 0,
                tiling: k.tiling.as_ptr(),
                tiling_len: k.tiling.len(),
                scratch: std::ptr::null_mut(),
                host: ROption::RNone,
            };
            // SAFETY: the memory is as long as the request says; blocks run one after the other.
            let code = unsafe { (loaded.run)(loaded.ctx, &call) };
            if code != 0 {
                let ROption::RSome(last) = loaded.last_error else { panic!("no reason") };
                return Err((last.0)().into_option().map_or_else(String::new, |e| e.message().to_owned()));
            }
        }
        if let ROption::RSome(d) = loaded.drop {
            // SAFETY: dropped once, after the last launch.
            unsafe { (d.0)(loaded.ctx) };
        }
        let mut out = vec![];
        for ((d, s), m) in self.outputs.iter().zip(&memory[self.inputs.len()..]) {
            let n = d.bytes_of(s.iter().product()).unwrap() as usize;
            let b: Vec<u8> = m.iter().flat_map(|v| v.to_le_bytes()).take(n).collect();
            out.push(T { dtype: *d, dims: s.clone(), data: numbers(*d, &b) });
        }
        Ok(out)
    }

    /// The same case with all missing attributes set to the prototype's defaults; `None` if none is
    /// missing.
    fn with_defaults(&self) -> Option<Case> {
        let mut given = AttrMap::default();
        self.attrs.iter().for_each(|(k, v)| given.set(*k, v.clone()));
        let full = crate::defaults::filled(self.op, &given)?;
        let defaults = crate::defaults::all().get(self.op)?.iter().filter(|(k, _)| given.get(*k).is_none());
        let mut case = self.clone();
        case.attrs.extend(defaults.cloned());
        assert_eq!(case.attrs.len(), full.len());
        Some(case)
    }

    /// The outputs. Checks that the bits are the same for 1, 2, 7, 32 and the planned number of
    /// blocks, and with defaults left out or given.
    pub fn run(&self, engine: &Nn) -> Vec<T> {
        let bits = |v: &[T]| v.iter().flat_map(|t| t.data.iter().map(|x| x.to_bits())).collect::<Vec<_>>();
        let want = self.launch(engine, 0).unwrap();
        if let Some(full) = self.with_defaults() {
            assert_eq!(bits(&full.launch(engine, 0).unwrap()), bits(&want), "{} with {:?}", self.op, full.attrs);
        }
        let written = self.launch_over(engine, 0, 0x5a5a_5a5a_5a5a_5a5a).unwrap();
        assert_eq!(bits(&written), bits(&want), "{} leaves bytes of its outputs as they were", self.op);
        for blocks in [1, 2, 7, 32] {
            let got = self.launch(engine, blocks).unwrap();
            assert_eq!(bits(&got), bits(&want), "{} with {blocks} blocks", self.op);
        }
        want
    }

    /// Checks that output 0 is close to these numbers: within `tol` relative to the larger of one
    /// and the number.
    pub fn gives(&self, want: impl IntoIterator<Item = f64>, tol: f64) {
        let got = self.run(&Nn::ai_core()).remove(0);
        let want: Vec<f64> = want.into_iter().collect();
        assert_eq!(got.data.len(), want.len(), "{}", self.op);
        for (i, (g, w)) in got.data.iter().zip(&want).enumerate() {
            let near = (g - w).abs() <= tol * w.abs().max(1.0) || g == w || (g.is_nan() && w.is_nan());
            assert!(near, "{} element {i}: {g} for {w}", self.op);
        }
    }
}
