//! Times single kernels on one thread: `cargo run --release -p ge-kernels --example speed`.
use ge_kernels::gemm::{BMatrix, Epilogue, Gemm, Matrix, pack_columns, packed_len};
use ge_kernels::view::Out;
use std::time::Instant;

fn best(mut f: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..15 {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    let products = [
        (1024, 1024, 1024),
        (128, 256, 256),
        (128, 1024, 256),
        (128, 256, 1024),
        (1, 1536, 512),
        (1, 2048, 512),
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
        let h = Gemm::new([m, n, k], Matrix::rows(k), BMatrix::Packed, vec![[0, 0]]).expect("a plain product");
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
