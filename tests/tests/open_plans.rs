//! Plans for other sizes that are derived from the plan before give what plans made from nothing
//! give.
use crate::executors::{Writer, chance, given, loaded, opened, seen};
use crate::open_streams::{PARALLEL, SEVERAL, compiled, spread};
use ge::session::Model;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::RunOptions;
use ge_tests::long;

/// Sizes that follow each other: some grow a little each time, as in a decoder, some are far apart.
const SIZES: [u64; 12] = [3, 4, 5, 9, 2, 1, 7, 40, 41, 300, 299, 6];

#[test]
fn a_plan_of_the_one_before_gives_what_one_from_nothing_gives() {
    let plain = opened(&[]);
    let wild = opened(&[("schedule", "random:7"), ("check_races", "true")]);
    let mut amended = 0;
    for seed in 0..if long() { 200 } else { 8 } {
        let mut next = chance(seed + 5000);
        let text = Writer { next: &mut next, graphs: String::new(), count: 0 }.model();
        let limit = ("ge.exec.static_model_ops_lower_limit", if seed % 4 < 2 { "1" } else { "-1" });
        let m = match seed % 2 {
            0 => compiled(&plain, &text, &[limit]),
            _ => compiled(&plain, &spread(&text, &mut next), &[limit, SEVERAL, PARALLEL]),
        };
        let kept: Vec<Model> =
            vec![loaded(&plain, &m, 0, false), loaded(&plain, &m, 3, false), loaded(&wild, &m, 0, false)];
        for rows in SIZES {
            let inputs = given(rows, &mut next);
            let want = seen(&loaded(&plain, &m, 0, false), &inputs, false).0;
            for k in &kept {
                assert_eq!(seen(k, &inputs, false).0, want, "seed {seed}, {rows} rows\n{text}");
            }
        }
        // A profiled run reports the same as one with a plan made from nothing.
        let inputs = given(300, &mut next);
        let fresh = seen(&loaded(&plain, &m, 0, false), &inputs, true);
        assert_eq!(seen(&kept[0], &inputs, true), fresh, "seed {seed}\n{text}");
        amended += kept.iter().map(Model::plans_amended).sum::<u64>();
    }
    assert!(amended > 100, "{amended}");
}

/// If sizes decide a branch, and its graphs only give values other shapes, the plan takes the
/// branch: there is one launch, and the nodes after the branch belong to the same round.
#[test]
fn branches_that_sizes_decide_are_taken_while_a_run_is_planned() {
    let s = opened(&[]);
    let text = "graph @main(%x: f32[n,3]) {
          %a = Neg(%x) : f32[n,3]
          %s = Shape(%a) {dtype = i64} : i64[2]
          %z = Const() {value = dense<i64[]: 0>} : i64[]
          %one = Const() {value = dense<i64[]: 1>} : i64[]
          %n = GatherV2(%s, %z, %z) : i64[]
          %is = Equal(%n, %one) : bool[]
          %y = If(%is, %a, %x) {then_branch = @t, else_branch = @e} : f32[...], f32[...]
          %b = Exp(%y#0) : f32[...]
          return %b, %y#1 }
        graph @t(%p: f32[n,3], %q: f32[n,3]) {
          %r = Squeeze(%p) {axis = [0]} : f32[...]
          return %r, %q }
        graph @e(%p: f32[n,3], %q: f32[n,3]) {
          %k = Const() {value = dense<i64[1]: -1>} : i64[1]
          %r = Reshape(%q, %k) : f32[?]
          return %p, %r }";
    let m = compiled(&s, text, &[]);
    let round = &s.exec_of(&m).unwrap().main[0].rounds;
    assert!(round.len() == 1 && round[0].host.is_empty(), "{round:?}");
    let m = loaded(&s, &m, 0, false);
    let mut next = chance(1);
    for rows in [1u64, 2, 3, 1, 5, 1] {
        let x: Vec<f32> = (0..rows * 3).map(|_| next(7) as f32 - 3.0).collect();
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        let x = [HostTensor::from_bytes(DType::F32, &[rows, 3], &bytes).unwrap()];
        for profile in [false, true] {
            let ran = m.run_views(&[x[0].view()], RunOptions { profile }).unwrap();
            let f32s = |k: usize| -> Vec<f32> {
                ran.outputs[k].bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
            };
            let dims: Vec<&[u64]> = ran.outputs.iter().map(|t| &t.dims[..]).collect();
            let (own, flat) = ([rows, 3], [rows * 3]);
            let want: [&[u64]; 2] = if rows == 1 { [&flat, &own] } else { [&own, &flat] };
            assert_eq!(dims, want);
            let given: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            assert_eq!(f32s(1), given);
            for (y, x) in f32s(0).iter().zip(&given) {
                assert!((y - (-x).exp()).abs() <= 1e-6 * (-x).exp(), "{y} {x}");
            }
            assert_eq!(ran.parts.len(), usize::from(profile));
        }
    }
}

/// The pieces of a concatenation along the first axis with more than one place are written into the
/// result by the nodes that make them, if they are multiples of 32 bytes and none of them is needed
/// on its own.
#[test]
fn concatenations_of_pieces_need_no_launch() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:3"), ("check_races", "true")]));
    // Axis, returned values, and launches with 1 row and with more.
    let cases: [(usize, &str, [usize; 2]); 6] = [
        (0, "%d", [3, 3]),
        (0, "%c", [2, 2]),
        (0, "%d, %a", [4, 4]),
        (1, "%d", [3, 4]),
        (1, "%c, %d", [3, 4]),
        (1, "%d, %b", [4, 4]),
    ];
    for (axis, returns, launches) in cases {
        let shape = if axis == 0 { "f32[?,8]" } else { "f32[n,16]" };
        let text = format!(
            "graph @main(%x: f32[n,8]) {{
               %a = Neg(%x) : f32[n,8]
               %b = Exp(%x) : f32[n,8]
               %c = ConcatD(%a, %b) {{N = 2, concat_dim = {axis}}} : {shape}
               %d = Abs(%c) : {shape}
               return {returns} }}"
        );
        let m = compiled(&plain, &text, &[]);
        let models = [loaded(&plain, &m, 0, false), loaded(&wild, &m, 0, false)];
        for rows in [1usize, 3, 4, 1, 2, 40] {
            let x: Vec<f32> = (0..rows * 8).map(|i| ((i * 5 + rows) % 11) as f32 - 5.0).collect();
            let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
            let given = HostTensor::from_bytes(DType::F32, &[rows as u64, 8], &bytes).unwrap();
            let (a, b) = (x.iter().map(|x| -x).collect::<Vec<_>>(), x.iter().map(|x| x.exp()).collect::<Vec<_>>());
            let c: Vec<f32> = match axis {
                0 => [&a[..], &b].concat(),
                _ => a.chunks(8).zip(b.chunks(8)).flat_map(|(a, b)| [a, b].concat()).collect(),
            };
            let d: Vec<f32> = c.iter().map(|c| c.abs()).collect();
            let want = returns.split(", ").map(|r| match r {
                "%a" => &a,
                "%b" => &b,
                "%c" => &c,
                _ => &d,
            });
            for m in &models {
                for profile in [false, true] {
                    let ran = m.run_views(&[given.view()], RunOptions { profile }).unwrap();
                    for (found, want) in ran.outputs.iter().zip(want.clone()) {
                        let found = found.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
                        assert!(found.clone().count() == want.len(), "{text}");
                        let near = |(f, w): (f32, &f32)| (f - w).abs() <= 1e-6 * w.abs();
                        assert!(found.zip(want).all(near), "{rows} rows\n{text}");
                    }
                    let tasks: usize = ran.parts.iter().map(|p| p.model().tasks.len() - 1).sum();
                    let told = if profile { launches[usize::from(rows > 1)] } else { 0 };
                    assert_eq!(tasks, told, "{rows} rows\n{text}");
                }
            }
        }
    }
}

/// Pieces of a split or slice along the first axis with more than one place are read where they
/// are, in values that the round made and in its inputs, if a piece is a multiple of 32 bytes and
/// does not leave the round.
#[test]
fn splits_and_slices_of_what_lies_in_one_piece_need_no_launch() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:5"), ("check_races", "true")]));
    const SPLIT: &str = "%s = SplitVD(FROM) {size_splits = [8, 16], split_dim = 1, num_split = 2} : f32[n,8], f32[n,16]
               %c = Abs(%s#0) : f32[n,8]
               %d = Exp(%s#1) : f32[n,16]";
    const SLICE: &str = "%p = SliceD(FROM) {offsets = [0, 0], size = [-1, 8]} : f32[n,8]
               %q = SliceD(FROM) {offsets = [0, 8], size = [-1, 16]} : f32[n,16]
               %c = Abs(%p) : f32[n,8]
               %d = Exp(%q) : f32[n,16]";
    const VIEWS: &str = "%s = SplitVD(FROM) {size_splits = [8, 16], split_dim = 1, num_split = 2} : f32[n,8], f32[n,16]
               %k = Const() {value = dense<i64[2]: -1, 4>} : i64[2]
               %v = Reshape(%s#1, %k) : f32[?,4]
               %c = Abs(%s#0) : f32[n,8]
               %d = Exp(%v) : f32[?,4]";
    // Nodes, the value that they read, returned values, and launches with 1 row and with more.
    let cases: [(&str, &str, &str, [usize; 2]); 7] = [
        (SPLIT, "%a", "%c, %d", [3, 4]),
        (SPLIT, "%x", "%c, %d", [2, 3]),
        (SPLIT, "%a", "%c, %d, %a", [3, 4]),
        (SPLIT, "%a", "%c, %s#1", [3, 3]),
        (SLICE, "%a", "%c, %d", [3, 5]),
        (SLICE, "%x", "%c, %d", [2, 4]),
        (VIEWS, "%a", "%c, %d", [3, 4]),
    ];
    for (nodes, from, returns, launches) in cases {
        let nodes = nodes.replace("FROM", from);
        let text = format!(
            "graph @main(%x: f32[n,24]) {{
               %a = Neg(%x) : f32[n,24]
               {nodes}
               return {returns} }}"
        );
        let m = compiled(&plain, &text, &[]);
        let models = [loaded(&plain, &m, 0, false), loaded(&wild, &m, 0, false)];
        for rows in [1usize, 3, 4, 1, 2, 40] {
            let x: Vec<f32> = (0..rows * 24).map(|i| ((i * 5 + rows) % 11) as f32 - 5.0).collect();
            let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
            let given = HostTensor::from_bytes(DType::F32, &[rows as u64, 24], &bytes).unwrap();
            let a: Vec<f32> = x.iter().map(|x| -x).collect();
            let read = if from == "%a" { &a } else { &x };
            let part =
                |from: usize, to: usize| read.chunks(24).flat_map(|r| r[from..to].to_vec()).collect::<Vec<f32>>();
            let want = |r: &str| -> Vec<f32> {
                match r {
                    "%c" => part(0, 8).iter().map(|v| v.abs()).collect(),
                    "%d" => part(8, 24).iter().map(|v| v.exp()).collect(),
                    "%s#1" => part(8, 24),
                    _ => a.clone(),
                }
            };
            for m in &models {
                for profile in [false, true] {
                    let ran = m.run_views(&[given.view()], RunOptions { profile }).unwrap();
                    for (found, want) in ran.outputs.iter().zip(returns.split(", ").map(want)) {
                        let found: Vec<f32> =
                            found.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                        assert_eq!(found.len(), want.len(), "{text}");
                        let near = |(f, w): (&f32, &f32)| (f - w).abs() <= 1e-6 * w.abs();
                        assert!(found.iter().zip(&want).all(near), "{rows} rows\n{text}");
                    }
                    let tasks: usize = ran.parts.iter().map(|p| p.model().tasks.len() - 1).sum();
                    let told = if profile { launches[usize::from(rows > 1)] } else { 0 };
                    assert_eq!(tasks, told, "{rows} rows\n{text}");
                }
            }
        }
    }
}

/// Two small branches of real numbers are both computed, in one launch with their condition. If
/// they are large for the sizes of a run, or if their results have different sizes, the host takes
/// one of them.
#[test]
fn small_branches_are_computed_both_where_their_sizes_say_that_they_are_small() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:5"), ("check_races", "true")]));
    let text = |last: &str, shape: &str| {
        format!(
            "graph @main(%x: f32[n,8]) {{
               %s = ReduceSum(%x) {{axes = [0, 1], keep_dims = false}} : f32[]
               %z = Const() {{value = dense<f32[]: 0>}} : f32[]
               %c = Greater(%s, %z) : bool[]
               %y = If(%c, %x) {{then_branch = @t, else_branch = @e}} : {shape}, f32[n,8]
               %b = Abs(%y#0) : {shape}
               return %b, %y#1 }}
             graph @t(%p: f32[n,8]) {{
               %r = Exp(%p) : f32[n,8]
               return %r, %p }}
             graph @e(%p: f32[n,8]) {{
               %q = Neg(%p) : f32[n,8]
               {last}
               return %v, %q }}"
        )
    };
    let same = text("%v = Relu(%q) : f32[n,8]", "f32[n,8]");
    let other = text("%v = ConcatD(%q, %q) {N = 2, concat_dim = 0} : f32[?,8]", "f32[?,8]");
    // Launches of a run with few rows and with many rows.
    for (text, parts) in [(same, [1, 3]), (other, [3, 3])] {
        let m = compiled(&plain, &text, &[]);
        let models = [loaded(&plain, &m, 0, false), loaded(&wild, &m, 0, false), loaded(&plain, &m, 3, false)];
        for rows in [1usize, 3, 2000, 3, 7, 2001, 1] {
            for sign in [1.0f32, -1.0] {
                let x: Vec<f32> = (0..rows * 8).map(|i| sign * ((i % 5) as f32 + 0.25)).collect();
                let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
                let given = HostTensor::from_bytes(DType::F32, &[rows as u64, 8], &bytes).unwrap();
                let twice = text.contains("ConcatD");
                let want: [Vec<f32>; 2] = match sign > 0.0 {
                    true => [x.iter().map(|x| x.exp()).collect(), x.clone()],
                    false => {
                        let own: Vec<f32> = x.iter().map(|x| -x).collect();
                        [if twice { [&own[..], &own].concat() } else { own.clone() }, own]
                    }
                };
                for m in &models {
                    for profile in [false, true] {
                        let ran = m.run_views(&[given.view()], RunOptions { profile }).unwrap();
                        for (found, want) in ran.outputs.iter().zip(&want) {
                            let found: Vec<f32> =
                                found.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                            assert_eq!(found.len(), want.len(), "{rows} rows\n{text}");
                            let near = |(f, w): (&f32, &f32)| (f - w).abs() <= 1e-6 * w.abs();
                            assert!(found.iter().zip(want).all(near), "{rows} rows\n{text}");
                        }
                        let told = if profile { parts[usize::from(rows > 100)] } else { 0 };
                        assert_eq!(ran.parts.len(), told, "{rows} rows\n{text}");
                    }
                }
            }
        }
    }
}

/// A turn of a loop of open sizes replaces a row of a carried value in place, after the nodes that
/// read it. If the old value is read later or passed on, the row goes to a copy. What the caller
/// gave stays as it is.
#[test]
fn turns_replace_rows_of_what_they_carry_where_it_lies() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:9"), ("check_races", "true")]));
    // What else the body does, the two values that it passes on, and whether it overwrites what it
    // carries.
    let cases = [
        ("", "%y", "%s", true),
        (
            "%late = Abs(%x) : f32[n,8]\n%t = Add(%y, %late) : f32[n,8]\n%u = Sub(%t, %late) : f32[n,8]",
            "%u",
            "%s",
            false,
        ),
        ("%v = ReduceMax(%x) {axes = [0], keep_dims = false} : f32[8]", "%y", "%v", true),
        ("%v = ReduceMax(%y) {axes = [0], keep_dims = false} : f32[8]", "%y", "%v", true),
    ];
    for (besides, next, most, in_place) in cases {
        // A node that reads the old value stands before the node that writes.
        let (before, after) = if besides.contains("(%x) {axes") { (besides, "") } else { ("", besides) };
        let text = format!(
            "graph @main(%x: f32[n,8], %k: i64[], %s: f32[8]) {{
               %w = While(%k, %x, %s) {{body = @body, cond = @cond}} : i64[], f32[n,8], f32[8]
               return %w#1, %w#2 }}
             graph @cond(%i: i64[], %x: f32[n,8], %s: f32[8]) {{
               %z = Const() {{value = dense<i64[]: 0>}} : i64[]
               %g = Greater(%i, %z) : bool[]
               return %g }}
             graph @body(%i: i64[], %x: f32[n,8], %s: f32[8]) {{
               %one = Const() {{value = dense<i64[]: 1>}} : i64[]
               %axis = Const() {{value = dense<i64[]: 0>}} : i64[]
               %j = Sub(%i, %one) : i64[]
               %two = Const() {{value = dense<i64[2]: 1, 1>}} : i64[2]
               %at = Reshape(%j, %two) : i64[1,1]
               %row = GatherV2(%x, %j, %axis) : f32[8]
               {before}
               %neg = Neg(%row) : f32[8]
               %flat = Const() {{value = dense<i64[2]: 1, 8>}} : i64[2]
               %new = Reshape(%neg, %flat) : f32[1,8]
               %y = TensorScatterUpdate(%x, %at, %new) : f32[n,8]
               {after}
               return %j, {next}, {most} }}"
        );
        let m = compiled(&plain, &text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
        let models = [loaded(&plain, &m, 0, false), loaded(&wild, &m, 0, false), loaded(&plain, &m, 3, false)];
        for (rows, turns) in [(5usize, 5i64), (3, 1), (40, 33), (5, 0)] {
            let x: Vec<f32> = (0..rows * 8).map(|i| ((i * 7 + rows) % 13) as f32 - 6.0).collect();
            let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
            let given = [
                HostTensor::from_bytes(DType::F32, &[rows as u64, 8], &bytes).unwrap(),
                HostTensor::from_bytes(DType::I64, &[], &turns.to_le_bytes()).unwrap(),
                HostTensor::zeroed(DType::F32, &[8]).unwrap(),
            ];
            let views: Vec<_> = given.iter().map(HostTensor::view).collect();
            let negated = |from: usize| -> Vec<f32> {
                x.iter()
                    .enumerate()
                    .map(|(i, v)| if (from..turns as usize).contains(&(i / 8)) { -v } else { *v })
                    .collect()
            };
            let most_of = |x: &[f32]| -> Vec<f32> {
                (0..8).map(|c| x.chunks(8).map(|r| r[c]).fold(f32::NEG_INFINITY, f32::max)).collect()
            };
            let last = match (turns, besides.contains("ReduceMax(%x)"), besides.contains("ReduceMax(%y)")) {
                (1.., true, _) => most_of(&negated(1)),
                (1.., _, true) => most_of(&negated(0)),
                _ => vec![0.0; 8],
            };
            for m in &models {
                for profile in [false, true] {
                    let ran = m.run_views(&views, RunOptions { profile }).unwrap();
                    let f32s = |k: usize| -> Vec<f32> {
                        ran.outputs[k].bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
                    };
                    assert_eq!((f32s(0), f32s(1)), (negated(0), last.clone()), "{rows} rows, {turns} turns\n{text}");
                    assert!(given[0].bytes() == bytes, "{text}");
                    let over = ran.parts.iter().filter(|p| p.model().memory.zero_copy.iter().any(|z| z.overwritten));
                    let told = if profile && in_place { turns as usize } else { 0 };
                    assert_eq!(over.count(), told, "{rows} rows, {turns} turns\n{text}");
                }
            }
        }
    }
}

/// A turn that overwrites what it carries twice, and reads the result of the first write in
/// between, makes both writes in place.
#[test]
fn two_writes_of_a_turn_are_both_done_where_the_value_lies() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:9"), ("check_races", "true")]));
    // A node that reads the result of the first write after the second one needs a copy.
    for (behind, next, in_place) in
        [("", "%z", true), ("%late = Add(%y, %z) : f32[n,8]\n%u = Sub(%late, %y) : f32[n,8]", "%u", false)]
    {
        let text = format!(
            "graph @main(%x: f32[n,8], %k: i64[]) {{
               %w = While(%k, %x) {{body = @body, cond = @cond}} : i64[], f32[n,8]
               return %w#1 }}
             graph @cond(%i: i64[], %x: f32[n,8]) {{
               %z = Const() {{value = dense<i64[]: 0>}} : i64[]
               %g = Greater(%i, %z) : bool[]
               return %g }}
             graph @body(%i: i64[], %x: f32[n,8]) {{
               %one = Const() {{value = dense<i64[]: 1>}} : i64[]
               %axis = Const() {{value = dense<i64[]: 0>}} : i64[]
               %j = Sub(%i, %one) : i64[]
               %two = Const() {{value = dense<i64[2]: 1, 1>}} : i64[2]
               %at = Reshape(%j, %two) : i64[1,1]
               %first = Const() {{value = dense<i64[1,1]: 0>}} : i64[1,1]
               %row = GatherV2(%x, %j, %axis) : f32[8]
               %neg = Neg(%row) : f32[8]
               %flat = Const() {{value = dense<i64[2]: 1, 8>}} : i64[2]
               %new = Reshape(%neg, %flat) : f32[1,8]
               %y = TensorScatterUpdate(%x, %at, %new) : f32[n,8]
               %most = ReduceMax(%y) {{axes = [0], keep_dims = true}} : f32[1,8]
               %z = TensorScatterUpdate(%y, %first, %most) : f32[n,8]
               {behind}
               return %j, {next} }}"
        );
        let m = compiled(&plain, &text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
        for (rows, turns) in [(5usize, 5usize), (3, 1), (40, 33), (5, 0)] {
            let x: Vec<f32> = (0..rows * 8).map(|i| ((i * 7 + rows) % 13) as f32 - 6.0).collect();
            let mut want = x.clone();
            for j in (0..turns).rev() {
                want[j * 8..][..8].iter_mut().for_each(|v| *v = -*v);
                let most: Vec<f32> =
                    (0..8).map(|c| want.chunks(8).map(|r| r[c]).fold(f32::NEG_INFINITY, f32::max)).collect();
                want[..8].copy_from_slice(&most);
            }
            let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
            let given = [
                HostTensor::from_bytes(DType::F32, &[rows as u64, 8], &bytes).unwrap(),
                HostTensor::from_bytes(DType::I64, &[], &(turns as i64).to_le_bytes()).unwrap(),
            ];
            let views: Vec<_> = given.iter().map(HostTensor::view).collect();
            for m in [loaded(&plain, &m, 0, false), loaded(&wild, &m, 0, false), loaded(&plain, &m, 3, false)] {
                for profile in [false, true] {
                    let ran = m.run_views(&views, RunOptions { profile }).unwrap();
                    let f32s = ran.outputs[0].bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
                    assert_eq!(f32s.collect::<Vec<f32>>(), want, "{rows} rows, {turns} turns\n{text}");
                    assert!(given[0].bytes() == bytes, "{text}");
                    // A turn that returns nothing but its counter has written in place.
                    let bare = ran.parts.iter().filter(|p| {
                        let overwritten = p.model().memory.zero_copy.iter().any(|z| z.overwritten);
                        overwritten && p.model().outputs.iter().all(|o| o.desc.shape.rank() == Some(0))
                    });
                    assert_eq!(bare.count(), if profile && in_place { turns } else { 0 }, "{rows} rows\n{text}");
                }
            }
        }
    }
}

/// A value that a loop makes longer in each turn lies in memory with spare room once it is large: a
/// turn writes behind what is there, and returns nothing of that size.
#[test]
fn what_a_loop_makes_longer_grows_in_place() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:9"), ("check_races", "true")]));
    // If a node also reads the value that came in, the value must stay, and nothing grows in place.
    for (besides, more, in_place) in [("", "", true), ("%late = Abs(%x) : f32[n,1024]", ", %late", false)] {
        let shown = if more.is_empty() { "" } else { ", f32[?,1024]" };
        let extra = if more.is_empty() { "" } else { ", %o: f32[o,1024]" };
        let start = if more.is_empty() { "" } else { ", %x" };
        let text = format!(
            "graph @main(%x: f32[n,1024], %k: i64[], %r: f32[1,1024]) {{
               %w = While(%k, %x, %r{start}) {{body = @body, cond = @cond}} : i64[], f32[?,1024], f32[1,1024]{shown}
               return %w#1, %w#2 }}
             graph @cond(%i: i64[], %x: f32[n,1024], %r: f32[1,1024]{extra}) {{
               %z = Const() {{value = dense<i64[]: 0>}} : i64[]
               %g = Greater(%i, %z) : bool[]
               return %g }}
             graph @body(%i: i64[], %x: f32[n,1024], %r: f32[1,1024]{extra}) {{
               %one = Const() {{value = dense<i64[]: 1>}} : i64[]
               %j = Sub(%i, %one) : i64[]
               {besides}
               %all = ConcatD(%x, %r) {{N = 2, concat_dim = 0}} : f32[?,1024]
               %most = ReduceMax(%all) {{axes = [0], keep_dims = true}} : f32[1,1024]
               %unit = Const() {{value = dense<f32[]: 1>}} : f32[]
               %next = Add(%most, %unit) : f32[1,1024]
               return %j, %all, %next{more} }}"
        );
        let m = compiled(&plain, &text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
        for (rows, turns) in [(3usize, 40usize), (20, 3), (30, 1), (1, 0)] {
            let number = |i: usize| ((i * 7 + rows) % 13) as f32 - 6.0;
            let x: Vec<f32> = (0..rows * 1024).map(number).collect();
            let (mut all, mut r) = (x.clone(), (0..1024).map(|i| number(i) * 0.5).collect::<Vec<f32>>());
            let bytes = |v: &[f32]| -> Vec<u8> { v.iter().flat_map(|v| v.to_le_bytes()).collect() };
            let given = [
                HostTensor::from_bytes(DType::F32, &[rows as u64, 1024], &bytes(&x)).unwrap(),
                HostTensor::from_bytes(DType::I64, &[], &(turns as i64).to_le_bytes()).unwrap(),
                HostTensor::from_bytes(DType::F32, &[1, 1024], &bytes(&r)).unwrap(),
            ];
            for _ in 0..turns {
                all.extend(&r);
                let most = |c: usize| all.chunks(1024).map(|r| r[c]).fold(f32::NEG_INFINITY, f32::max);
                r = (0..1024).map(|c| most(c) + 1.0).collect();
            }
            let views: Vec<_> = given.iter().map(HostTensor::view).collect();
            for m in [loaded(&plain, &m, 0, false), loaded(&wild, &m, 0, false), loaded(&plain, &m, 3, false)] {
                for profile in [false, true] {
                    let ran = m.run_views(&views, RunOptions { profile }).unwrap();
                    let f32s = |k: usize| -> Vec<f32> {
                        ran.outputs[k].bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
                    };
                    assert!(f32s(0) == all && f32s(1) == r, "{rows} rows, {turns} turns\n{text}");
                    assert_eq!(&ran.outputs[0].dims[..], [(rows + turns) as u64, 1024]);
                    // In place from the second turn on, and from 64 KB on.
                    let large = (1..turns).filter(|t| (rows + t) * 4096 >= 64 << 10).count();
                    let over = ran.parts.iter().filter(|p| p.model().memory.zero_copy.iter().any(|z| z.overwritten));
                    let told = if profile && in_place { large } else { 0 };
                    assert_eq!(over.count(), told, "{rows} rows, {turns} turns\n{text}");
                }
            }
        }
    }
}

fn f32s(rows: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = rows.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, &[rows.len() as u64 / 1024, 1024], &bytes).unwrap()
}
fn i64_of(v: i64) -> HostTensor {
    HostTensor::from_bytes(DType::I64, &[], &v.to_le_bytes()).unwrap()
}

/// A turn makes a value longer in place and reads the same value as the last turn left it, which
/// lies in the same room.
#[test]
fn what_grows_in_place_is_also_read_as_it_was() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:9"), ("check_races", "true")]));
    let text = "graph @main(%x: f32[n,1024], %o: f32[o,1024], %k: i64[], %r: f32[1,1024]) {
          %w = While(%k, %x, %o, %r, %r) {cond = @cond, body = @body} : i64[], f32[?,1024], f32[?,1024], f32[1,1024], f32[1,1024]
          return %w#1, %w#2, %w#4 }
        graph @cond(%i: i64[], %x: f32[n,1024], %o: f32[o,1024], %r: f32[1,1024], %m: f32[1,1024]) {
          %z = Const() {value = dense<i64[]: 0>} : i64[]
          %g = Greater(%i, %z) : bool[]
          return %g }
        graph @body(%i: i64[], %x: f32[n,1024], %o: f32[o,1024], %r: f32[1,1024], %m: f32[1,1024]) {
          %one = Const() {value = dense<i64[]: 1>} : i64[]
          %j = Sub(%i, %one) : i64[]
          %all = ConcatD(%x, %r) {N = 2, concat_dim = 0} : f32[?,1024]
          %same = Identity(%all) : f32[?,1024]
          %most = ReduceMax(%o) {axes = [0], keep_dims = true} : f32[1,1024]
          %sum = Add(%m, %most) : f32[1,1024]
          return %j, %all, %same, %r, %sum }";
    let m = compiled(&plain, text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
    let x: Vec<f32> = (0..20 * 1024).map(|i| (i % 13) as f32).collect();
    let (o, r): (Vec<f32>, Vec<f32>) = (x[1024..4096].to_vec(), (0..1024).map(|i| (i % 5) as f32).collect());
    let (mut all, mut last, mut sum) = (x.clone(), o.clone(), r.clone());
    for _ in 0..5 {
        let most = |c: usize| last.chunks(1024).map(|r| r[c]).fold(f32::NEG_INFINITY, f32::max);
        sum.iter_mut().enumerate().for_each(|(c, v)| *v += most(c));
        all.extend(&r);
        last.clone_from(&all);
    }
    for m in [loaded(&plain, &m, 0, false), loaded(&wild, &m, 0, false), loaded(&plain, &m, 3, false)] {
        let found = m.run(&[f32s(&x), f32s(&o), i64_of(5), f32s(&r)]).unwrap();
        let wanted = [f32s(&all), f32s(&last), f32s(&sum)];
        assert!(found.iter().zip(&wanted).all(|(a, b)| a.dims == b.dims && a.bytes() == b.bytes()));
    }
}

/// A graph that makes `%x` longer by `%r`. Then, side by side, one loop makes two copies of the
/// result longer, and six loops begin with it, too.
fn side_by_side() -> String {
    let cond = |name: &str, args: &str| {
        format!(
            "graph @{name}({args}) {{
               %z = Const() {{value = dense<i64[]: 0>}} : i64[]
               %g = Greater(%i, %z) : bool[]
               return %g }}\n"
        )
    };
    let (one, two) = (
        "%i: i64[], %x: f32[n,1024], %r: f32[1,1024]",
        "%i: i64[], %x: f32[n,1024], %y: f32[o,1024], %r: f32[1,1024], %s: f32[1,1024]",
    );
    let next = "%one = Const() {value = dense<i64[]: 1>} : i64[]
               %j = Sub(%i, %one) : i64[]
               %p = ConcatD(%x, %r) {N = 2, concat_dim = 0} : f32[?,1024]";
    let (mut loops, mut results, mut graphs) = (String::new(), String::new(), String::new());
    for k in 0..7 {
        graphs += &cond(&format!("go{k}"), one);
        graphs += &format!("graph @turn{k}({one}) {{\n{next}\nreturn %j, %p, %r }}\n");
        if k > 0 {
            let more = if k % 2 == 0 { "r" } else { "s" };
            loops += &format!(
                "%c{k} = While(%k, %a#1, %{more}) {{cond = @go{k}, body = @turn{k}}} : i64[], f32[?,1024], f32[1,1024]\n"
            );
            results += &format!(", %c{k}#1");
        }
    }
    let main = "graph @main(%x: f32[n,1024], %k: i64[], %r: f32[1,1024], %s: f32[1,1024]) {
               %a = While(%k, %x, %r) {cond = @go0, body = @turn0} : i64[], f32[?,1024], f32[1,1024]
               %b = While(%k, %a#1, %a#1, %r, %s) {cond = @goes, body = @both} : \
                    i64[], f32[?,1024], f32[?,1024], f32[1,1024], f32[1,1024]\n";
    let both = format!(
        "graph @both({two}) {{
               {next}
               %q = ConcatD(%y, %s) {{N = 2, concat_dim = 0}} : f32[?,1024]
               return %j, %p, %q, %r, %s }}\n"
    );
    format!("{main}{loops}return %a#1, %b#1, %b#2{results} }}\n{graphs}{}{both}", cond("goes", two))
}

/// Loops that begin with one state, one after the other or at the same time, and a turn that makes
/// it longer twice: each gets its own rows.
#[test]
fn a_state_grows_in_several_ways() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:9"), ("check_races", "true")]));
    let text = side_by_side();
    let m = compiled(&plain, &text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
    let x: Vec<f32> = (0..20 * 1024).map(|i| (i % 13) as f32).collect();
    let [r, s] = [5, 7].map(|n| (0..1024).map(|i| (i % n) as f32).collect::<Vec<f32>>());
    let longer = |v: &[f32], by: &[f32]| f32s(&[v, by, by, by].concat());
    let base = [&x[..], &r, &r, &r].concat();
    let mut want = vec![f32s(&base), longer(&base, &r), longer(&base, &s)];
    want.extend((1..7).map(|k| longer(&base, if k % 2 == 0 { &r } else { &s })));
    for (session, cores) in [(&plain, 0), (&wild, 0), (&plain, 3), (&plain, 8)] {
        let m = loaded(session, &m, cores, false);
        for turn in 0..if long() { 100 } else { 10 } {
            let found = m.run(&[f32s(&x), i64_of(3), f32s(&r), f32s(&s)]).unwrap();
            for (k, (a, b)) in found.iter().zip(&want).enumerate() {
                assert!(a.dims == b.dims && a.bytes() == b.bytes(), "{cores} cores, turn {turn}, output {k}\n{text}");
            }
        }
    }
}
