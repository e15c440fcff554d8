//! Times single kernels on one thread: `cargo run --release -p ge-kernels --example speed`. Names
//! given as arguments (`lstm`, `gemm`, `conv`, `bytes`, `peak`) select what is timed. `bytes` times
//! convolutions of bytes, `peak` compares products of all types and instruction sets with the peak
//! of this machine, measured in the same run.
use ge_kernels::bf16;
use ge_kernels::conv::{
    ByteConv, ByteFilter, ByteImages, Conv, ConvPair, ConvSpec, Half, RowConv, TapConv, change_byte_filters,
    pack_filter, pack_row_filter, pack_tap_filter, packed_filter_len,
};
use ge_kernels::gemm::{
    BMatrix, Epilogue, Gemm, GemmInt8, Matrix, pack_columns, pack_int8, packed_int8_len, packed_len,
};
use ge_kernels::norm::{Softmax, softmax};
use ge_kernels::peak::{self, Peak};
use ge_kernels::quant::{BytePair, Join, extremes, join_bytes};
use ge_kernels::requantise::Requantise;
use ge_kernels::rnn::bytes::{ByteLstm, ByteOperands, ByteWeights, pack_bytes, packed_bytes_len};
use ge_kernels::rnn::{
    Activation, Cell, Direction, Operands, Recurrent, Results, packed_input_len, packed_recurrent_len,
};
use ge_kernels::simd::Act;
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::simd::{Level, with_level};
use ge_kernels::view::Out;
use std::time::Instant;

/// The shortest of at least fifteen times, and of as many as fit a tenth of a second.
fn best(mut f: impl FnMut()) -> f64 {
    let (mut best, start) = (f64::MAX, Instant::now());
    for turn in 0.. {
        if turn >= 15 && start.elapsed().as_secs_f64() > 0.1 {
            break;
        }
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

/// An LSTM with one direction.
fn recurrence([steps, batch, input, hidden]: [usize; 4]) {
    let acts = [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];
    let plan = Recurrent {
        cell: Cell::Lstm { input_forget: false },
        steps,
        batch,
        input,
        hidden,
        directions: vec![Direction { reverse: false, acts }],
        clip: f32::INFINITY,
        batch_first: false,
    };
    let (x, bias) = (vec![0.5f32; steps * batch * input], vec![0.1f32; 8 * hidden]);
    let w = vec![0.01f32; packed_input_len(4, hidden, input)];
    let r = vec![0.01f32; packed_recurrent_len(4, hidden)];
    let ops = Operands { x: &x, w: &w, r: &r, bias: &bias, lens: &[], h0: &[], c0: &[], peep: &[] };
    let (mut y, mut h, mut c) =
        (vec![0f32; steps * batch * hidden], vec![0f32; batch * hidden], vec![0f32; batch * hidden]);
    let t = best(|| {
        let (mut y, mut h, mut c) = (Out::new(&mut y), Out::new(&mut h), Out::new(&mut c));
        plan.run(0..plan.units(), &ops, &mut Results { y: &mut y, h: &mut h, c: Some(&mut c) });
    });
    println!(
        "lstm {steps}x{batch}x{input}, hidden {hidden}: {:.1} us, {:.1} GFLOP/s",
        t * 1e6,
        2.0 * plan.work() as f64 / t / 1e9
    );
}

fn main() {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let asked = |what: &str| named.is_empty() || named.iter().any(|n| n == what);
    if asked("lstm") {
        recurrences();
    }
    if asked("gemm") {
        products();
    }
    if asked("conv") {
        convolutions();
        few_places();
    }
    if asked("far") {
        far_taps();
    }
    if asked("pair") {
        pairs();
    }
    if asked("bytes") {
        byte_convolutions();
        byte_products();
        byte_recurrences();
        maps_of_many();
    }
    if asked("softmax") {
        softmax_of_rows();
    }
    if asked("peak") {
        against_the_peak();
    }
}

/// Name and level of a product of packed operands, the function that times it, and the rate that it
/// is compared with.
type Product = (&'static str, Level, fn([usize; 3]) -> f64, fn(&Peak) -> f64);

/// The same numbers from a multiple of sixty-four bytes on, as on a device. A cache line that is
/// not read as a whole costs tiles and vectors a second access.
fn aligned<T: Copy>(v: Vec<T>) -> &'static mut [T] {
    let mut all = v.clone();
    all.extend_from_within(..v.len().min(64 / size_of::<T>()));
    let skip = all.as_ptr().align_offset(64);
    all.copy_within(..v.len(), skip);
    &mut all.leak()[skip..skip + v.len()]
}

/// Products compared with the peak rate of the same types and instructions.
fn against_the_peak() {
    let products: [Product; 7] = [
        ("f32", Level::Avx2, in_panels::<f32>, |p| p.singles),
        ("f32", Level::Avx512, in_panels::<f32>, |p| p.singles),
        ("bf16 widened", Level::Vnni, in_panels::<bf16>, |p| p.singles),
        ("bf16", Level::Bf16, in_panels::<bf16>, |p| p.bf16),
        ("bf16 by tiles", Level::Amx, in_panels::<bf16>, |p| p.bf16),
        ("u8 by s8", Level::Vnni, of_bytes, |p| p.bytes),
        ("u8 by s8 by tiles", Level::Amx, of_bytes, |p| p.bytes),
    ];
    for (name, level, product, rate) in products {
        if !Level::available().contains(&level) {
            println!("{name} ({}): not measured, this machine lacks the instructions", level.name());
            continue;
        }
        with_level(level, || {
            let peak = rate(&peak::measure(1));
            println!("{name} ({}): peak {:.1} G/s", level.name(), peak / 1e9);
            let wide = [[3136, 64, 576], [64, 3136, 576], [128, 1024, 256], [128, 256, 1024], [16, 1536, 512]];
            for shape in [[512; 3], [1024; 3]].into_iter().chain(wide).chain([[1, 1536, 512]]) {
                let t = product(shape);
                let [m, n, k] = shape;
                let done = 2.0 * (m * n * k) as f64 / t;
                println!("  {m}x{n}x{k}: {:.1} us, {:.1} G/s, {:.2} of the peak", t * 1e6, done / 1e9, done / peak);
            }
        });
    }
}

/// Depthwise and pointwise convolutions joined, and the two one after the other.
fn pairs() {
    let depthwise_first = [(32, 16, 112), (144, 24, 56), (192, 32, 28), (384, 64, 14), (384, 96, 14), (576, 96, 14)];
    for (channels, out, size) in depthwise_first {
        let mut plane = ConvSpec::square(1, [channels; 2], size, 3);
        plane.groups = channels;
        (plane.pad_before, plane.pad_after) = ([0, 1, 1], [0, 1, 1]);
        let point = ConvSpec::square(1, [channels, out], size, 1);
        let places = size * size;
        let x = vec![0.5f32; channels * size * size];
        let (v, w) = (vec![0.25f32; channels * 9], vec![0.25f32; channels * out]);
        let (mut between, mut y) = (vec![0f32; channels * places], vec![0f32; out * places]);
        let act = Act::Clip(0.0, 6.0);
        let halves = [Half { w: &v, bias: None, act }, Half { w: &w, bias: None, act: Act::None }];
        let pair = ConvPair::new(&plane, &point).expect("sizes fit").expect("a pair");
        let joined = best(|| {
            let out = &mut Out::new(&mut y);
            pair.run(0..pair.units(), &x, [&halves[0], &halves[1]], None, out).expect("operands fit");
        });
        let alone = [&plane, &point].map(|s| Conv::new(s).expect("sizes fit").in_singles());
        let e = Epilogue { act, ..Epilogue::default() };
        let first = best(|| {
            let out = &mut Out::new(&mut between);
            alone[0].run(0..alone[0].units(), &x, &v, &e, out).expect("operands fit");
        });
        let e = Epilogue::default();
        let second = best(|| {
            let out = &mut Out::new(&mut y);
            alone[1].run(0..alone[1].units(), &between, &w, &e, out).expect("operands fit");
        });
        println!(
            "pair {channels}->{out} {size}x{size}: {:.1} us in {} units; alone {:.1} + {:.1} us, {:.1} GFLOP/s",
            joined * 1e6,
            pair.units(),
            first * 1e6,
            second * 1e6,
            2.0 * (channels * out * places) as f64 / second / 1e9,
        );
    }
}

fn in_panels<T: PanelElem>([m, n, k]: [usize; 3]) -> f64 {
    let (a, b) = (aligned(vec![T::narrow(0.5); m * k]), vec![T::narrow(0.25); k * n]);
    let packed = aligned(vec![T::narrow(0.0); packed_len(k, n)]);
    pack_columns(&b, k, n, n, 1, packed);
    let c = aligned(vec![0f32; m * n]);
    let g = Gemm::new([m, n, k], Matrix::rows(k), BMatrix::Packed { rows: k }, vec![[0, 0]]).expect("a plain product");
    let e = Epilogue::default();
    best(|| g.run(0..g.units(), a, packed, &e, &mut Out::new(c)).expect("operands fit"))
}

fn of_bytes([m, n, k]: [usize; 3]) -> f64 {
    let (a, b) = (aligned(vec![3u8; m * k]), vec![-2i8; k * n]);
    let packed = aligned(vec![0i8; packed_int8_len(k, n)]);
    pack_int8(&b, k, n, n, 1, packed);
    let c = aligned(vec![0i32; m * n]);
    let g = GemmInt8 { m, n, k, a_row: k };
    best(|| g.run(0..g.units(), a, packed, &mut Out::new(c)))
}

fn recurrences() {
    for [steps, batch, input, hidden] in [[64, 1, 128, 256], [64, 1, 256, 256], [64, 8, 256, 256], [32, 1, 64, 96]] {
        recurrence([steps, batch, input, hidden]);
    }
}

fn products() {
    let products = [
        (1024, 1024, 1024),
        (128, 256, 256),
        (128, 1024, 256),
        (128, 256, 1024),
        (1, 1536, 512),
        (1, 2048, 512),
        (1, 4096, 4096),
        (1, 3072, 768),
        (1, 768, 3072),
        (4, 4096, 4096),
        (1, 32000, 768),
        (4, 1536, 512),
        (16, 1536, 512),
        (64, 1536, 512),
        (128, 64, 128),
    ];
    for (m, n, k) in products {
        let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
        let mut c = vec![0f32; m * n];
        let g = Gemm::plain(m, n, k).expect("a plain product");
        let e = Epilogue::default();
        let t = best(|| g.run(0..g.units(), &a, &b, &e, &mut Out::new(&mut c)).expect("operands fit"));
        let mut p = vec![0f32; packed_len(k, n)];
        pack_columns(&b, k, n, n, 1, &mut p);
        let h =
            Gemm::new([m, n, k], Matrix::rows(k), BMatrix::Packed { rows: k }, vec![[0, 0]]).expect("a plain product");
        let u = best(|| h.run(0..h.units(), &a, &p, &e, &mut Out::new(&mut c)).expect("operands fit"));
        let flops = 2.0 * (m * n * k) as f64;
        println!(
            "gemm {m}x{n}x{k}: {:.1} us, {:.1} GFLOP/s; packed {:.1} us, {:.1} GFLOP/s",
            t * 1e6,
            flops / t / 1e9,
            u * 1e6,
            flops / u / 1e9
        );
    }
}

/// Convolutions with few output positions: as they are, and with positions as rows of a product.
fn few_places() {
    let long = |batch| ConvSpec {
        input: [1, 1, 640],
        kernel: [1, 1, 256],
        stride: [1, 1, 128],
        ..ConvSpec::square(batch, [1, 258], 1, 1)
    };
    let small = |batch, [ci, co]: [usize; 2], size, kernel: usize| ConvSpec {
        pad_before: [0, kernel / 2, kernel / 2],
        pad_after: [0, kernel / 2, kernel / 2],
        ..ConvSpec::square(batch, [ci, co], size, kernel)
    };
    let square = [(1, [512, 512], 3, 3), (1, [512, 1024], 7, 1), (1, [256, 256], 6, 3), (16, [64, 128], 1, 3)];
    let square = square.map(|(n, channels, size, kernel)| small(n, channels, size, kernel));
    for s in [long(1), long(100)].into_iter().chain(square) {
        let plain = Conv::new(&s).expect("sizes fit").in_singles();
        let rows = RowConv::new(&s).expect("sizes fit").expect("places are few");
        let x = vec![0.5f32; s.batch * s.channels_in * s.input.iter().product::<usize>()];
        let w = vec![0.25f32; s.channels_in * s.channels_out * s.taps()];
        let packed = pack_row_filter(&s, &w).expect("the filter is whole");
        let mut y = vec![0f32; s.batch * s.channels_out * plain.output().iter().product::<usize>()];
        let e = Epilogue::default();
        let t = best(|| plain.run(0..plain.units(), &x, &w, &e, &mut Out::new(&mut y)).expect("operands fit"));
        let u = best(|| rows.run(0..rows.units(), &x, &packed, &e, &mut Out::new(&mut y)).expect("operands fit"));
        let rate = 2.0 * rows.work() as f64 / u / 1e9;
        println!(
            "conv {:?} of {} x {:?}, {} -> {}: {:.1} us; places as rows {:.1} us, {rate:.1} GFLOP/s",
            s.kernel,
            s.batch,
            s.input,
            s.channels_in,
            s.channels_out,
            t * 1e6,
            u * 1e6
        );
    }
}

/// Dilated convolutions: as they are, and tap by tap.
fn far_taps() {
    let cases = [
        (256, 256, 28, 12),
        (64, 64, 129, 12),
        (512, 512, 14, 2),
        (128, 128, 65, 6),
        (512, 256, 33, 12),
        (256, 256, 33, 24),
        (64, 64, 56, 2),
        (2048, 256, 17, 6),
    ];
    for (ci, co, size, far) in cases {
        let mut s = ConvSpec::square(1, [ci, co], size, 3);
        s.dilation = [1, far, far];
        s.pad_before = [0, far, far];
        s.pad_after = s.pad_before;
        let plain = Conv::new(&s).expect("sizes fit").in_singles();
        let taps = TapConv::new(&s).expect("sizes fit").expect("two axes");
        let x = vec![0.5f32; ci * size * size];
        let w = vec![0.25f32; ci * co * 9];
        let packed = aligned(pack_tap_filter(&s, &w).expect("the filter is whole"));
        let mut y = vec![0f32; co * size * size];
        let e = Epilogue::default();
        let t = best(|| plain.run(0..plain.units(), &x, &w, &e, &mut Out::new(&mut y)).expect("operands fit"));
        let u = best(|| taps.run(0..taps.units(), &x, packed, &e, &mut Out::new(&mut y)).expect("operands fit"));
        let rate = |n: u64, t: f64| 2.0 * n as f64 / t / 1e9;
        println!(
            "conv {ci}->{co} {size}x{size}, taps {far} apart: {:.1} us, {:.1} GFLOP/s; tap by tap {:.1} us, {:.1} GFLOP/s of {:.2}",
            t * 1e6,
            rate(plain.work(), t),
            u * 1e6,
            rate(taps.effort(), u),
            taps.effort() as f64 / taps.work() as f64
        );
    }
}

/// Softmax of rows of one length.
fn softmax_of_rows() {
    for len in [17, 20, 24, 25, 33, 49, 50, 77, 100, 128, 197, 250, 401] {
        let s = Softmax { outer: 200_000 / len, len, inner: 1, log: false };
        let x: Vec<f32> = (0..s.outer * len).map(|i| (i as f32 * 1.7).sin() * 9.0).collect();
        let mut y = vec![0f32; x.len()];
        let t = best(|| softmax(&s, 0..s.units(), &x, &mut Out::new(&mut y)));
        println!(
            "softmax of rows of {len}: {:.1} ns a row, {:.2} ns a number",
            t * 1e9 / s.outer as f64,
            t * 1e9 / x.len() as f64
        );
    }
}

/// Numbers spread like trained weights: sums of several random bytes.
fn like_weights(n: usize) -> Vec<i8> {
    let mut s = 0x9e37_79b9_7f4a_7c15u64;
    let mut one = move || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        s.to_le_bytes().iter().map(|v| i32::from(*v as i8)).sum::<i32>() / 6
    };
    (0..n).map(|_| one().clamp(-127, 127) as i8).collect()
}

/// Convolutions of bytes with each instruction set of the machine, and by minimal filtering.
fn byte_convolutions() {
    let convolutions = [
        (16, 32, 56, 3, 1),
        (32, 64, 56, 3, 1),
        (64, 64, 56, 3, 1),
        (64, 128, 56, 3, 2),
        (128, 128, 28, 3, 1),
        (96, 64, 56, 1, 1),
        (256, 256, 14, 3, 1),
        (512, 512, 7, 3, 1),
        (3, 64, 224, 7, 2),
    ];
    for (ci, co, size, kernel, stride) in convolutions {
        let mut s = ConvSpec::square(1, [ci, co], size, kernel);
        s.stride = [1, stride, stride];
        s.pad_before = [0, kernel / 2, kernel / 2];
        s.pad_after = s.pad_before;
        let x: Vec<u8> = like_weights(ci * size * size).into_iter().map(|v| v as u8).collect();
        let filter = like_weights(ci * co * s.taps());
        let mut packed = vec![0i8; packed_filter_len(&s)];
        pack_filter(&s, &filter, &mut packed);
        let changed = change_byte_filters(&s, &filter, &[0]).unwrap_or_default();
        packed.extend(changed.iter().map(|v| *v as i8));
        let packed = aligned(packed);
        let (x, w) = (ByteImages { x: &x, flip: 0, zero: 3 }, ByteFilter { packed, zeros: &[0] });
        let to = Requantise { scale: &[0.0007], zero: 7, range: [0, 255] };
        let mut y = vec![0u8; co * size * size];
        print!("bytes {ci}->{co} {size}x{size} k{kernel} s{stride}:");
        let sets = [Level::Avx2, Level::Vnni, Level::Amx];
        for level in sets.into_iter().filter(|l| Level::available().contains(l)) {
            with_level(level, || {
                let plain = ByteConv::new(&s).expect("sizes fit");
                let mut time = |name: &str, plan: &ByteConv| {
                    let t =
                        best(|| plan.run(0..plan.units(), x, w, &[5], &to, &mut Out::new(&mut y)).expect("it fits"));
                    let rate = 2.0 * plan.work() as f64 / t / 1e9;
                    print!(" {} {name}{:.1} us, {rate:.0} G/s", level.name(), t * 1e6);
                };
                time("", &plain);
                if let Some(tiles) = plain.with_changed_filters().filter(|_| !changed.is_empty()) {
                    time("by tiles ", &tiles);
                }
            });
        }
        println!();
    }
}

/// Sums of quantised tensors, and the extremes and hyperbolic tangents of numbers.
fn maps_of_many() {
    let n = 200_704;
    let [a, b] = [0, 1].map(|_| like_weights(n).into_iter().map(|v| v as u8).collect::<Vec<_>>());
    let (x, mut y, mut z): (Vec<f32>, _, _) =
        (a.iter().map(|v| f32::from(*v) / 50.0 - 2.0).collect(), vec![0u8; n], vec![0f32; n]);
    let by = BytePair { join: Join::Sum, a: [0.03, 7.0], b: [0.05, 3.0], y: [0.07, 9.0], range: [0.0, 255.0] };
    let sum = best(|| join_bytes(&a, &b, by, &mut y));
    let least = best(|| {
        std::hint::black_box(extremes(std::hint::black_box(&x)));
    });
    let tanh = best(|| {
        z.copy_from_slice(&x);
        Act::Tanh.apply(&mut z);
    });
    println!("of {n}: sum of bytes {:.1} us, extremes {:.1} us, tanh {:.1} us", sum * 1e6, least * 1e6, tanh * 1e6);
}

/// Products of rows of bytes and packed bytes.
fn byte_products() {
    for [m, n, k] in [[1000, 10, 100], [128, 512, 512], [4, 1024, 256], [200, 1024, 512], [1, 1024, 256]] {
        let b = like_weights(k * n);
        let packed = aligned(vec![0i8; packed_int8_len(k, n)]);
        pack_int8(&b, k, n, n, 1, packed);
        let a: Vec<u8> = like_weights(m * k).into_iter().map(|v| v as u8).collect();
        let (a, c, g) = (aligned(a), aligned(vec![0i32; m * n]), GemmInt8 { m, n, k, a_row: k });
        let t = best(|| g.run(0..g.units(), a, packed, &mut Out::new(c)));
        println!("bytes {m}x{n}x{k}: {:.1} us, {:.0} G/s", t * 1e6, 2.0 * (m * n * k) as f64 / t / 1e9);
    }
}

/// LSTMs with byte weights.
fn byte_recurrences() {
    for [steps, batch, input, hidden] in [[50, 4, 512, 256], [24, 1, 512, 256], [120, 1, 256, 256]] {
        let directions =
            vec![Direction { reverse: false, acts: [Activation::Sigmoid, Activation::Tanh, Activation::Tanh] }];
        let plan = ByteLstm { steps, batch, input, hidden, directions, clip: f32::INFINITY, input_forget: false };
        let [w, r] = [input, hidden].map(|k| {
            let packed = aligned(vec![0i8; packed_bytes_len(k, hidden)]);
            pack_bytes(&like_weights(k * 4 * hidden), k, hidden, packed);
            ByteWeights { packed, scales: &[0.004], zeros: &[0] }
        });
        let x: Vec<f32> = like_weights(steps * batch * input).into_iter().map(|v| f32::from(v) / 64.0).collect();
        let bias = vec![0.1; 8 * hidden];
        let ops = ByteOperands { x: &x, w, r, bias: &bias, lens: &[], h0: &[], c0: &[], peep: &[] };
        let [mut y, mut h, mut c] = [steps, 1, 1].map(|n| vec![0f32; n * batch * hidden]);
        let t = best(|| {
            let (mut y, mut h, mut c) = (Out::new(&mut y), Out::new(&mut h), Out::new(&mut c));
            plan.run(0..plan.units(), &ops, &mut Results { y: &mut y, h: &mut h, c: Some(&mut c) });
        });
        let rate = 2.0 * plan.work() as f64 / t / 1e9;
        println!("byte lstm {steps}x{batch}x{input}, hidden {hidden}: {:.1} us, {rate:.0} G/s", t * 1e6);
    }
}

fn convolutions() {
    let convolutions = [
        (64, 64, 56, 3, 1, 1),
        (32, 32, 112, 3, 1, 32),
        (144, 144, 56, 3, 1, 144),
        (144, 144, 56, 3, 2, 144),
        (192, 192, 28, 3, 1, 192),
        (384, 384, 14, 3, 1, 384),
        (576, 576, 14, 3, 2, 576),
        (960, 960, 7, 3, 1, 960),
        (64, 64, 28, 3, 1, 64),
        (480, 480, 14, 5, 1, 480),
        (240, 240, 28, 5, 2, 240),
        (768, 768, 7, 7, 1, 768),
        (96, 96, 56, 7, 1, 96),
        (16, 96, 112, 1, 1, 1),
        (32, 32, 56, 1, 1, 1),
        (64, 64, 56, 1, 1, 1),
        (64, 128, 56, 1, 1, 1),
        (384, 64, 14, 1, 1, 1),
        (96, 576, 14, 1, 1, 1),
        (96, 24, 56, 1, 1, 1),
        (960, 160, 7, 1, 1, 1),
        (320, 1280, 7, 1, 1, 1),
        (3, 32, 224, 3, 2, 1),
        (512, 512, 7, 3, 1, 1),
        (16, 16, 32, 3, 1, 1),
        (32, 32, 16, 3, 1, 1),
        (64, 64, 8, 3, 1, 1),
        (32, 64, 16, 3, 2, 1),
        (128, 128, 28, 3, 1, 1),
        (256, 256, 14, 3, 1, 1),
        (64, 64, 112, 3, 1, 1),
        (16, 16, 96, 3, 1, 1),
        (3, 64, 224, 3, 1, 1),
        (8, 8, 64, 3, 1, 1),
        (96, 64, 240, 3, 1, 1),
    ];
    // Lines of text are wide.
    let wide = [(64, 128, [12, 320]), (240, 240, [12, 160]), (480, 480, [6, 160]), (480, 480, [3, 160])];
    let square = convolutions.map(|(ci, co, size, kernel, stride, groups)| (ci, co, [size; 2], kernel, stride, groups));
    let wide = wide.map(|(ci, co, size)| (ci, co, size, 1, 1, 1));
    for (ci, co, [height, width], kernel, stride, groups) in square.into_iter().chain(wide) {
        let mut s = ConvSpec::square(1, [ci, co], height, kernel);
        s.input = [1, height, width];
        s.groups = groups;
        s.stride = [1, stride, stride];
        s.pad_before = [0, kernel / 2, kernel / 2];
        s.pad_after = s.pad_before;
        let plain = Conv::new(&s).expect("sizes fit");
        let c = plain.clone().in_singles();
        let (x, w) = (vec![0.5f32; ci * height * width], vec![0.25f32; ci / groups * co * s.taps()]);
        let mut y = vec![0f32; co * c.output().iter().product::<usize>()];
        let e = Epilogue::default();
        let t = best(|| c.run(0..c.units(), &x, &w, &e, &mut Out::new(&mut y)).expect("operands fit"));
        print!(
            "conv {ci}->{co} {height}x{width} k{kernel} s{stride} g{groups}: {:.1} us, {:.1} GFLOP/s, {} units",
            t * 1e6,
            2.0 * c.work() as f64 / t / 1e9,
            c.units()
        );
        if kernel == 3 && c != plain {
            let t = best(|| plain.run(0..plain.units(), &x, &w, &e, &mut Out::new(&mut y)).expect("operands fit"));
            print!(", by plain products {:.1} us", t * 1e6);
        }
        println!();
    }
}
