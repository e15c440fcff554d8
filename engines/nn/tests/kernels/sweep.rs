//! Plans each family of kernels for thousands of random shapes, including 0, 1, very long and very
//! thin sizes in every position. A plan that does not end is reported with its node and fails the
//! test; so does a family that refuses nodes it should accept.
use ge_nn::families::{cube, matmul, qconv};
use ge_nn::kernel::Tiling;
use ge_nn::sig::{Sig, Tensor, kind_of};
use ge_nn::store;
use ge_plugin_api::types::{AttrMap, AttrValue, DType, Format};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Number of shapes per family, and the time limit for all plans of a family; a single plan takes
/// microseconds.
const SHAPES: u64 = 4000;
const BUDGET: Duration = Duration::from_secs(60);
/// Time after which a plan counts as endless.
const ENDLESS: Duration = Duration::from_secs(20);

const F: DType = DType::F32;
const I: DType = DType::I64;

struct Rng(u64);

impl Rng {
    fn next(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.next(list.len() as u64) as usize]
    }
    /// A random size of an axis, at most `most`.
    fn size(&mut self, most: usize) -> usize {
        let v = match self.next(10) {
            0..3 => 1,
            3 => self.of(&[0, 2, 3]),
            4..7 => 1 + self.next(40) as usize,
            7 => self.of(&[15, 16, 17, 48, 64, 95, 96, 97, 127, 128, 192, 193, 256, 257]),
            8 => 1 + self.next(2000) as usize,
            _ => self.of(&[4096, 50_000, 65_537, 1_000_003]),
        };
        v.min(most)
    }
    /// Random sizes of `rank` axes with at most 2^28 elements in total.
    fn shape(&mut self, rank: usize) -> Vec<usize> {
        let mut room = 1usize << 28;
        let mut s: Vec<usize> = (0..rank)
            .map(|_| {
                let d = self.size(room);
                room /= d.max(1);
                d
            })
            .collect();
        let turn = self.next(rank.max(1) as u64) as usize;
        s.rotate_left(turn);
        s
    }
    fn any(&mut self) -> Vec<usize> {
        let rank = 1 + self.next(5) as usize;
        self.shape(rank)
    }
}

fn tensor(dtype: DType, shape: &[usize]) -> Tensor {
    let shape = shape.to_vec();
    Tensor { kind: kind_of(dtype), dtype, format: Format::ND, shape, origin: None, values: None, reals: None }
}

fn values(v: &[i64]) -> Tensor {
    Tensor { values: Some(v.to_vec()), ..tensor(I, &[v.len()]) }
}

fn sig(op: &str, inputs: Vec<Tensor>, outputs: Vec<Tensor>, attrs: &[(&str, AttrValue)]) -> Sig {
    let mut map = AttrMap::default();
    attrs.iter().for_each(|(k, v)| map.set(*k, v.clone()));
    Sig { op: op.into(), attrs: map, inputs: inputs.into_iter().map(Some).collect(), outputs }
}

fn ints(v: &[usize]) -> AttrValue {
    v.iter().map(|d| *d as i64).collect::<Vec<i64>>().into()
}

/// A convolution with one to three spatial axes, including wide rows.
fn convolution(r: &mut Rng) -> Sig {
    let op = r.of(&["Conv2D", "FusedConv", "DepthwiseConv2D", "Conv3D", "Conv2DTransposeD", "Conv3DTransposeD"]);
    let axes = if op.contains("3D") { 3 } else { 1 + r.next(2) as usize };
    let groups = if r.next(3) == 0 { r.of(&[2, 3, 8]) } else { 1 };
    let dtype = r.of(&[F, DType::F16, DType::BF16]);
    let (ci, co) = (r.size(64).max(1) * groups, r.size(96).max(1) * groups);
    let batch = r.of(&[1, 1, 1, 2, 5, 33]);
    let transposed = op.contains("Transpose");
    let (mut x, mut w, mut y) = (vec![batch, ci], vec![], vec![batch, co]);
    let (mut strides, mut dilations, mut pads) = (vec![1usize; 2], vec![1usize; 2], vec![]);
    let mut room = (1usize << 22) / (ci.max(co) / groups);
    let mut kernel = vec![];
    for _ in 0..axes {
        let k = r.of(&[1, 1, 2, 3, 5, 7]);
        let (s, d) = (r.of(&[1, 1, 2, 3]), r.of(&[1, 1, 1, 2]));
        let span = (k - 1) * d + 1;
        let (before, after) = match transposed {
            true => (0, 0),
            false => (r.next(span as u64) as usize, r.next(span as u64) as usize),
        };
        let size = r.size(room.max(span)).max(span.saturating_sub(before + after)).max(1);
        room = (room / size).max(1);
        x.push(size);
        kernel.push(k);
        y.push(if transposed { (size - 1) * s + span } else { (size + before + after - span) / s + 1 });
        strides.push(s);
        dilations.push(d);
        pads.extend([before, after]);
    }
    let groups = if op == "DepthwiseConv2D" { ci } else { groups };
    if op == "DepthwiseConv2D" {
        y[1] = ci * r.of(&[1, 2]);
    }
    w.extend(if transposed { [ci, co / groups] } else { [y[1], ci / groups] });
    w.extend(kernel);
    let attrs = [
        ("strides", ints(&strides)),
        ("dilations", ints(&dilations)),
        ("pads", ints(&pads)),
        ("groups", AttrValue::from(groups as i64)),
    ];
    sig(op, vec![tensor(dtype, &x), tensor(dtype, &w)], vec![tensor(dtype, &y)], &attrs)
}

fn pooling(r: &mut Rng) -> Sig {
    let op = r.of(&["MaxPoolV3", "AvgPoolV2", "GlobalAveragePool", "GlobalMaxPool"]);
    let dtype = r.of(&[F, DType::F16, DType::BF16]);
    let axes = 1 + r.next(3) as usize;
    let mut x = vec![r.size(40), r.size(100)];
    if op.starts_with("Global") {
        x.extend(r.shape(axes).iter().map(|d| (*d).min(5000)));
        let y: Vec<usize> = x.iter().enumerate().map(|(i, d)| if i < 2 { *d } else { 1 }).collect();
        return sig(op, vec![tensor(dtype, &x)], vec![tensor(dtype, &y)], &[]);
    }
    let (mut y, mut ksize, mut strides) = (x.clone(), vec![1; 2], vec![1; 2]);
    for _ in 0..axes {
        let (k, s) = (r.of(&[1, 2, 3, 7]), r.of(&[1, 2, 3]));
        let size = r.size(1 << 16).max(k);
        x.push(size);
        y.push((size - k) / s + 1);
        ksize.push(k);
        strides.push(s);
    }
    let attrs = [("ksize", ints(&ksize)), ("strides", ints(&strides))];
    sig(op, vec![tensor(dtype, &x)], vec![tensor(dtype, &y)], &attrs)
}

fn product(r: &mut Rng) -> Sig {
    let op = r.of(&["MatMulV2", "BatchMatMulV2", "FusedMatMul", "MatMulInteger"]);
    let lead: Vec<usize> = if op == "MatMulV2" { vec![] } else { r.shape(2).iter().map(|d| (*d).min(3000)).collect() };
    let (m, n, k) = (r.size(1 << 20), r.size(1 << 20), r.size(1 << 20));
    let bytes = op == "MatMulInteger";
    let (turn_a, turn_b) = (!bytes && r.next(3) == 0, !bytes && r.next(3) == 0);
    let dtype = if bytes { DType::U8 } else { r.of(&[F, DType::F16, DType::BF16]) };
    let a = if turn_a { [k, m] } else { [m, k] };
    let b = if turn_b { [n, k] } else { [k, n] };
    let shared = r.next(2) == 0;
    let with = |lead: &[usize], last: [usize; 2]| lead.iter().copied().chain(last).collect::<Vec<_>>();
    let left = with(&lead, a);
    let right = with(if shared { &[] } else { &lead }, b);
    let out = with(&lead, [m, n]);
    let y = tensor(if bytes { DType::I32 } else { dtype }, &out);
    let attrs = [("transpose_x1", AttrValue::from(turn_a)), ("transpose_x2", AttrValue::from(turn_b))];
    sig(op, vec![tensor(dtype, &left), tensor(dtype, &right)], vec![y], if bytes { &[] } else { &attrs })
}

fn normalisation(r: &mut Rng) -> Sig {
    let op = r.of(&[
        "SoftmaxV2",
        "LogSoftmaxV2",
        "LayerNorm",
        "LayerNormV3",
        "RmsNorm",
        "BNInfer",
        "InstanceNorm",
        "GroupNorm",
        "ScaledMaskedSoftmax",
    ]);
    let dtype = r.of(&[F, DType::F16, DType::BF16]);
    let rank = 2 + r.next(3) as usize;
    let mut x = r.shape(rank);
    let axis = r.next(rank as u64) as usize;
    match op {
        "SoftmaxV2" | "LogSoftmaxV2" => {
            sig(op, vec![tensor(dtype, &x)], vec![tensor(dtype, &x)], &[("axes", ints(&[axis]))])
        }
        "ScaledMaskedSoftmax" => {
            let mask = tensor(dtype, &x[axis..]);
            sig(op, vec![tensor(dtype, &x), mask], vec![tensor(dtype, &x)], &[])
        }
        "LayerNorm" | "LayerNormV3" | "RmsNorm" => {
            let gamma = tensor(dtype, &x[axis..]);
            let inputs = if op == "RmsNorm" { vec![gamma] } else { vec![gamma.clone(), gamma] };
            let inputs = [vec![tensor(dtype, &x)], inputs].concat();
            sig(op, inputs, vec![tensor(dtype, &x)], &[("begin_norm_axis", AttrValue::from(axis as i64))])
        }
        "BNInfer" => {
            let inputs = [vec![tensor(dtype, &x)], vec![tensor(dtype, &[x[1]]); 4]].concat();
            sig(op, inputs, vec![tensor(dtype, &x)], &[])
        }
        _ => {
            let groups = r.of(&[1, 2, 3]);
            if op == "GroupNorm" {
                x[1] = x[1].next_multiple_of(groups);
            }
            let inputs = [vec![tensor(dtype, &x)], vec![tensor(dtype, &[x[1]]); 2]].concat();
            sig(op, inputs, vec![tensor(dtype, &x)], &[("num_groups", AttrValue::from(groups as i64))])
        }
    }
}

fn reduction(r: &mut Rng) -> Sig {
    let op =
        r.of(&["ReduceSumD", "ReduceMeanD", "ReduceMaxD", "ReduceMin", "ReduceProdD", "ArgMaxD", "ArgMinD", "TopKV2"]);
    let x = r.any();
    let axis = r.next(x.len() as u64) as usize;
    let mut y = x.clone();
    match op {
        "TopKV2" => {
            y[axis] = x[axis].min(r.size(50));
            let k = values(&[y[axis] as i64]);
            let attrs = [("dim", AttrValue::from(axis as i64))];
            sig(op, vec![tensor(F, &x), k], vec![tensor(F, &y), tensor(I, &y)], &attrs)
        }
        "ArgMaxD" | "ArgMinD" => {
            y.remove(axis);
            sig(op, vec![tensor(F, &x)], vec![tensor(I, &y)], &[("dimension", AttrValue::from(axis as i64))])
        }
        _ => {
            let axes: Vec<usize> = (0..x.len()).filter(|a| *a == axis || r.next(3) == 0).collect();
            axes.iter().for_each(|a| y[*a] = 1);
            let list: Vec<i64> = axes.iter().map(|a| *a as i64).collect();
            if op == "ReduceMin" {
                return sig(op, vec![tensor(F, &x), values(&list)], vec![tensor(F, &y)], &[]);
            }
            sig(op, vec![tensor(F, &x)], vec![tensor(F, &y)], &[("axes", ints(&axes))])
        }
    }
}

fn elementwise(r: &mut Rng) -> Sig {
    let op =
        r.of(&["Relu", "Sigmoid", "Exp", "Add", "Mul", "Div", "Pow", "Less", "Equal", "Select", "SelectV2", "Cast"]);
    let dtype = r.of(&[F, DType::F16, DType::BF16]);
    let x = r.any();
    let thin: Vec<usize> = x.iter().map(|d| if r.next(2) == 0 { 1 } else { *d }).collect();
    let same = tensor(dtype, &x);
    match op {
        "Relu" | "Sigmoid" | "Exp" => sig(op, vec![same.clone()], vec![same], &[]),
        "Cast" => sig(op, vec![same], vec![tensor(F, &x)], &[]),
        "Less" | "Equal" => sig(op, vec![same, tensor(dtype, &thin)], vec![tensor(DType::BOOL, &x)], &[]),
        "Select" | "SelectV2" => {
            let choice = if op == "Select" { &x } else { &thin };
            sig(op, vec![tensor(DType::BOOL, choice), same.clone(), same.clone()], vec![same], &[])
        }
        _ => sig(op, vec![same.clone(), tensor(dtype, &thin)], vec![same], &[]),
    }
}

fn layout(r: &mut Rng) -> Sig {
    let op = r.of(&[
        "TransposeD",
        "BroadcastTo",
        "TileD",
        "ConcatD",
        "Pack",
        "SplitD",
        "SliceD",
        "PadD",
        "GatherV2",
        "Unpack",
    ]);
    let dtype = r.of(&[F, DType::F16, DType::I8, I]);
    let x = r.any();
    let rank = x.len();
    let axis = r.next(rank as u64) as usize;
    let at = |key: &'static str| (key, AttrValue::from(axis as i64));
    let own = tensor(dtype, &x);
    let (mut y, n) = (x.clone(), 1 + r.next(4) as usize);
    match op {
        "TransposeD" => {
            let mut perm: Vec<usize> = (0..rank).collect();
            (1..rank).rev().for_each(|i| perm.swap(i, r.next(i as u64 + 1) as usize));
            let y: Vec<usize> = perm.iter().map(|p| x[*p]).collect();
            sig(op, vec![own], vec![tensor(dtype, &y)], &[("perm", ints(&perm))])
        }
        "BroadcastTo" => {
            let thin: Vec<usize> = x.iter().map(|d| if r.next(2) == 0 { 1 } else { *d }).collect();
            let shape: Vec<i64> = x.iter().map(|d| *d as i64).collect();
            sig(op, vec![tensor(dtype, &thin), values(&shape)], vec![own], &[])
        }
        "TileD" => {
            let times: Vec<usize> = x.iter().map(|_| r.of(&[1, 1, 2, 5])).collect();
            let y: Vec<usize> = x.iter().zip(&times).map(|(d, t)| d * t).collect();
            sig(op, vec![own], vec![tensor(dtype, &y)], &[("multiples", ints(&times))])
        }
        "ConcatD" => {
            y[axis] *= n;
            sig(op, vec![own; n], vec![tensor(dtype, &y)], &[at("concat_dim"), ("N", AttrValue::from(n as i64))])
        }
        "SplitD" => {
            y[axis] *= n;
            sig(op, vec![tensor(dtype, &y)], vec![own; n], &[at("split_dim"), ("num_split", AttrValue::from(n as i64))])
        }
        "Pack" => {
            y.insert(axis, n);
            sig(op, vec![own; n], vec![tensor(dtype, &y)], &[at("axis")])
        }
        "Unpack" => {
            y.insert(axis, n);
            sig(op, vec![tensor(dtype, &y)], vec![own; n], &[at("axis")])
        }
        "SliceD" => {
            let offsets: Vec<usize> = x.iter().map(|d| r.next(*d as u64 + 1) as usize).collect();
            let y: Vec<usize> = x.iter().zip(&offsets).map(|(d, o)| d - o).collect();
            sig(op, vec![own], vec![tensor(dtype, &y)], &[("offsets", ints(&offsets)), ("size", ints(&y))])
        }
        "PadD" => {
            let pads: Vec<usize> = (0..2 * rank).map(|_| r.of(&[0, 0, 1, 3])).collect();
            let y: Vec<usize> = x.iter().zip(pads.as_chunks::<2>().0).map(|(d, p)| d + p[0] + p[1]).collect();
            sig(op, vec![own], vec![tensor(dtype, &y)], &[("paddings", ints(&pads))])
        }
        _ => {
            let count = r.size(1000);
            y[axis] = count;
            let index = tensor(I, &[count]);
            sig(op, vec![own, index, values(&[axis as i64])], vec![tensor(dtype, &y)], &[])
        }
    }
}

fn quantised(r: &mut Rng) -> Sig {
    let op = r.of(&["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"]);
    let (u8, one) = (DType::U8, || tensor(F, &[]));
    let zero = || tensor(DType::U8, &[]);
    let x = r.any();
    match op {
        "QuantizeLinear" => sig(op, vec![tensor(F, &x), one(), zero()], vec![tensor(u8, &x)], &[]),
        "DequantizeLinear" => sig(op, vec![tensor(u8, &x), one(), zero()], vec![tensor(F, &x)], &[]),
        "DynamicQuantizeLinear" => sig(op, vec![tensor(F, &x)], vec![tensor(u8, &x), one(), zero()], &[]),
        "QLinearConv" => {
            let (c, o, kh, kw) = (r.size(40), r.size(40), r.of(&[1, 3]), r.of(&[1, 1, 5]));
            let (h, w) = (r.size(3000).max(kh), r.size(60_000).max(kw));
            let y = [1, o, h - kh + 1, w - kw + 1];
            let inputs = vec![
                tensor(u8, &[1, c, h, w]),
                one(),
                zero(),
                tensor(u8, &[o, c, kh, kw]),
                one(),
                zero(),
                one(),
                zero(),
            ];
            sig(op, inputs, vec![tensor(u8, &y)], &[])
        }
        _ => {
            let (m, n, k) = (r.size(1 << 20), r.size(1 << 20), r.size(30_000));
            let inputs = vec![tensor(u8, &[m, k]), one(), zero(), tensor(u8, &[k, n]), one(), zero(), one(), zero()];
            sig(op, inputs, vec![tensor(u8, &[m, n])], &[])
        }
    }
}

fn sequence(r: &mut Rng) -> Sig {
    let dtype = r.of(&[F, DType::F16]);
    let (b, n, d) = (r.size(8), r.size(16).max(1), r.size(128).max(1));
    let (q, kv) = (r.size(5000), r.size(5000));
    if r.next(3) == 0 {
        let (m, k, n, groups) = (r.size(5000), r.size(500), r.size(5000), r.size(20).max(1));
        let mut list = vec![0i64; groups];
        list[groups - 1] = m as i64;
        let attrs = [("group_list_type", AttrValue::from(1i64))];
        let inputs = vec![tensor(dtype, &[m, k]), tensor(dtype, &[groups, k, n]), values(&list)];
        return sig("GroupedMatmul", inputs, vec![tensor(dtype, &[m, n])], &attrs);
    }
    let attrs = [("num_heads", AttrValue::from(n as i64)), ("input_layout", AttrValue::from("BNSD"))];
    let (query, key) = (tensor(dtype, &[b, n, q, d]), tensor(dtype, &[b, n, kv, d]));
    sig("PromptFlashAttention", vec![query.clone(), key.clone(), key], vec![query], &attrs)
}

fn recurrence(r: &mut Rng) -> Sig {
    let (op, gates) = r.of(&[("CommonLSTM", 4), ("CommonGRU", 3), ("CommonRNN", 1)]);
    let dtype = r.of(&[F, DType::F16, DType::BF16]);
    let (steps, batch, input, hidden) = (r.size(5000), r.size(300), r.size(5000), r.size(2000));
    let dirs = r.of(&[1, 2]);
    let packed = r.next(2) == 0;
    let rows = if packed { hidden.next_multiple_of(16) } else { hidden } * gates;
    let weights = |k: usize| if packed { tensor(dtype, &[dirs, rows * k]) } else { tensor(dtype, &[dirs, rows, k]) };
    let state = tensor(dtype, &[dirs, batch, hidden]);
    let mut outputs = vec![tensor(dtype, &[steps, dirs, batch, hidden]), state.clone()];
    outputs.extend((gates == 4).then_some(state));
    let attrs = [
        ("direction", AttrValue::from(if dirs == 2 { "bidirectional" } else { "reverse" })),
        ("hidden_size", AttrValue::from(hidden as i64)),
        ("packed", AttrValue::from(packed)),
    ];
    let x = tensor(dtype, &[steps, batch, input]);
    sig(op, vec![x, weights(input), weights(hidden)], outputs, &attrs)
}

/// A family: its name, a function that makes a random node of it, and the minimum percentage of
/// nodes that it must accept.
type Family = (&'static str, fn(&mut Rng) -> Sig, u64);

const FAMILIES: &[Family] = &[
    ("convolution", convolution, 80),
    ("pooling", pooling, 90),
    ("product", product, 70),
    ("normalisation", normalisation, 90),
    ("reduction", reduction, 80),
    ("elementwise", elementwise, 90),
    ("layout", layout, 80),
    ("quantised", quantised, 85),
    ("sequence", sequence, 85),
    ("recurrence", recurrence, 90),
];

/// Plans a node in its own formats and in those of the cube unit; returns whether it is accepted.
fn plan(sig: &Sig) -> Result<(), String> {
    let own = store::build(sig).map(|kernel| Tiling::of(kernel.as_ref(), 20));
    for other in [matmul::laid_out(sig), cube::laid_out(sig), qconv::laid_out(sig)].into_iter().flatten() {
        let _ = store::build(&other).map(|kernel| Tiling::of(kernel.as_ref(), 20));
    }
    own.map(|_| ())
}

#[test]
fn every_plan_ends_whatever_the_shape() {
    let at = Arc::new(Mutex::new(String::new()));
    let (say, said) = mpsc::channel();
    let now = at.clone();
    std::thread::spawn(move || {
        for (name, make, _) in FAMILIES {
            let start = Instant::now();
            let (mut taken, mut refusals) = (0, vec![]);
            for seed in 1..=SHAPES {
                let sig = make(&mut Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
                *now.lock().unwrap() = format!("{name} {seed}: {sig:?}");
                match plan(&sig) {
                    Ok(()) => taken += 1,
                    Err(why) => refusals.push(format!("{why}: {sig:?}")),
                }
                // Signals that the thread is still working.
                let _ = say.send(None);
            }
            let _ = say.send(Some((*name, taken, refusals, start.elapsed())));
        }
    });
    for (name, _, least) in FAMILIES {
        let (done, taken, refusals, time) = loop {
            match said.recv_timeout(ENDLESS) {
                Ok(Some(sum)) => break sum,
                Ok(None) => {}
                Err(_) => panic!("no plan after {ENDLESS:?}: {}", at.lock().unwrap()),
            }
        };
        assert_eq!(done, *name);
        let few = refusals.iter().step_by(refusals.len().div_ceil(12).max(1)).cloned().collect::<Vec<_>>();
        assert!(taken * 100 >= SHAPES * least, "{name}: {taken} of {SHAPES} taken\n{}", few.join("\n"));
        assert!(time < BUDGET, "{name}: {time:?} for {SHAPES} plans");
    }
}

/// The nodes that led to this test: one output row wider than 96, and few units of work.
#[test]
fn convolutions_of_one_wide_row_are_planned() {
    let conv = |op: &str, x: &[usize], w: &[usize], y: &[usize], pads: &[usize]| {
        plan(&sig(op, vec![tensor(F, x), tensor(F, w)], vec![tensor(F, y)], &[("pads", ints(pads))]))
    };
    conv("Conv2D", &[1, 16, 97], &[8, 16, 1 + 2], &[1, 8, 95 + 2], &[1, 1]).unwrap();
    conv("Conv2D", &[1, 3, 16, 160], &[64, 3, 3, 3], &[1, 64, 16, 160], &[1, 1, 1, 1]).unwrap();
    conv("Conv2DTransposeD", &[1, 8, 1, 200], &[8, 4, 1, 3], &[1, 4, 1, 202], &[]).unwrap();
}
