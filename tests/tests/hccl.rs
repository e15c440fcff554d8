//! Collectives and transfers: `ge compile` and `ge run --ranks` must equal plain arithmetic in rank
//! order, bit for bit.
use std::path::Path;

/// Runs `ge`, checks its exit code and returns its stderr.
fn expect_code(dir: &Path, code: i32, args: &[&str]) -> String {
    String::from_utf8_lossy(&ge_tests::expect_code(dir, code, args).stderr).into_owned()
}

/// Writes f32 values as a one-dimensional `.npy` file.
fn write(path: &Path, v: &[f32]) {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", v.len());
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut b = b"\x93NUMPY\x01\x00".to_vec();
    b.extend_from_slice(&(header.len() as u16).to_le_bytes());
    b.extend_from_slice(header.as_bytes());
    v.iter().for_each(|x| b.extend_from_slice(&x.to_le_bytes()));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, b).unwrap();
}

fn read(path: &Path) -> Vec<f32> {
    let b = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let header = u16::from_le_bytes([b[8], b[9]]) as usize;
    b[10 + header..].chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// Values whose sums depend on the order of addition.
fn input(rank: usize, n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 + rank * 101) % 97) as f32 * 0.1 + 1e7 * ((rank + i) % 3) as f32 - 1e7).collect()
}

/// A compiled graph with one input.
struct Case(tempfile::TempDir);

impl Case {
    fn new(text: &str) -> Case {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.ge"), text).unwrap();
        expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
        Case(dir)
    }

    /// Runs the graph on this many ranks with `n` values each, then again with `check_races` and
    /// with another schedule, which must give the same. Returns every rank's output.
    fn run(&self, ranks: usize, n: usize) -> Vec<Vec<f32>> {
        let dir = self.0.path();
        let place = |base: &str, r: usize| {
            let base = dir.join(base);
            if ranks == 1 { base } else { base.join(format!("rank{r}")) }
        };
        (0..ranks).for_each(|r| write(&place("in", r).join("input_0.npy"), &input(r, n)));
        let ranks_text = ranks.to_string();
        let args = ["run", "m.om", "--ranks", &ranks_text, "--inputs", "in", "--outputs", "out", "-q"];
        expect_code(dir, 0, &args);
        let outputs = || (0..ranks).map(|r| read(&place("out", r).join("output_0.npy"))).collect::<Vec<_>>();
        let got = outputs();
        let schedule = format!("schedule=random:{}", ranks * 7 + n);
        expect_code(dir, 0, &[&args[..], &["--device-option", "check_races=true"]].concat());
        assert_same(&outputs(), &got, "with check_races");
        expect_code(dir, 0, &[&args[..], &["--device-option", &schedule]].concat());
        assert_same(&outputs(), &got, &schedule);
        got
    }
}

fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|x| x.to_bits()).collect()
}

fn assert_same(got: &[Vec<f32>], want: &[Vec<f32>], what: &str) {
    assert_eq!(got.len(), want.len());
    for (r, (g, w)) in got.iter().zip(want).enumerate() {
        assert_eq!(bits(g), bits(w), "rank {r} of {}, {what}", got.len());
    }
}

fn reduced(ranks: usize, n: usize, f: fn(f32, f32) -> f32) -> Vec<f32> {
    let mut sum = input(0, n);
    for r in 1..ranks {
        sum.iter_mut().zip(input(r, n)).for_each(|(a, b)| *a = f(*a, b));
    }
    sum
}

/// An all-reduce for a group of any size: it has no `rank_size`.
fn all_reduce(n: usize, reduction: &str) -> String {
    format!(
        "graph @main(%x: f32[{n}]) {{\n  %s = HcomAllReduce(%x) {{reduction = \"{reduction}\"}} : f32[{n}]\n  return %s\n}}\n"
    )
}

#[test]
fn all_reduce_goes_in_rank_order_in_any_group() {
    let reductions: [(&str, fn(f32, f32) -> f32); 4] =
        [("sum", |a, b| a + b), ("max", f32::max), ("min", f32::min), ("prod", |a, b| a * b)];
    for (name, f) in reductions {
        let one = Case::new(&all_reduce(64, name));
        for ranks in [1, 2, 3, 8] {
            let want = vec![reduced(ranks, 64, f); ranks];
            assert_same(&one.run(ranks, 64), &want, name);
        }
    }
    // 30,001 values are handled in two halves.
    for ranks in [3, 8] {
        let text = all_reduce(30_001, "sum").replace("\"sum\"", &format!("\"sum\", rank_size = {ranks}"));
        let want = vec![reduced(ranks, 30_001, |a, b| a + b); ranks];
        assert_same(&Case::new(&text).run(ranks, 30_001), &want, "two halves");
    }
}

#[test]
fn gather_scatter_and_exchange_put_parts_in_rank_order() {
    for ranks in [2usize, 5, 8] {
        let (n, each) = (40 * ranks, 40);
        let graph = |op: &str, more: &str, out: usize| {
            let text = format!(
                "graph @main(%x: f32[{n}]) {{\n  %g = {op}(%x) {{rank_size = {ranks}{more}}} : f32[{out}]\n  return %g\n}}\n"
            );
            Case::new(&text).run(ranks, n)
        };
        let all: Vec<f32> = (0..ranks).flat_map(|r| input(r, n)).collect();
        assert_same(&graph("HcomAllGather", "", n * ranks), &vec![all; ranks], "gather");
        let sum = reduced(ranks, n, |a, b| a + b);
        let parts: Vec<Vec<f32>> = sum.chunks(each).map(<[f32]>::to_vec).collect();
        assert_same(&graph("HcomReduceScatter", ", reduction = \"sum\"", each), &parts, "scatter");
        let exchanged: Vec<Vec<f32>> = (0..ranks)
            .map(|r| (0..ranks).flat_map(|s| input(s, n)[r * each..(r + 1) * each].to_vec()).collect())
            .collect();
        assert_same(&graph("HcomAllToAll", "", n), &exchanged, "exchange");
    }
}

#[test]
fn broadcast_sends_the_roots_input() {
    let one =
        Case::new("graph @main(%x: f32[64]) {\n  %g = HcomBroadcast(%x) {root_rank = 1} : f32[64]\n  return %g\n}\n");
    for ranks in [2, 7] {
        assert_same(&one.run(ranks, 64), &vec![input(1, 64); ranks], "broadcast");
    }
    // A group that lacks that rank is refused.
    let e = expect_code(one.0.path(), 2, &["run", "m.om", "--random", "1", "-q"]);
    assert!(e.contains("root_rank is 1, the group has 1"), "{e}");
}

/// A pipeline over three ranks: each adds its own values and sends the sum to the next. Some
/// receives stand before the sends whose data they take.
const PIPELINE: &str = "graph @main(%x: f32[64]) {
  %r1 = HcomReceive() {sr_tag = 1, src_rank = 0, shape = [64], dtype = f32} : f32[64]
  %back = HcomReceive() {sr_tag = 3, src_rank = 2, shape = [64], dtype = f32} : f32[64]
  %s1 = HcomSend(%x) {sr_tag = 1, dest_rank = 1} : ()
  %a1 = Add(%r1, %x) : f32[64]
  %s2 = HcomSend(%a1) {sr_tag = 2, dest_rank = 2} : ()
  %r2 = HcomReceive() {sr_tag = 2, src_rank = 1, shape = [64], dtype = f32} : f32[64]
  %a2 = Add(%r2, %x) : f32[64]
  %s3 = HcomSend(%a2) {sr_tag = 3, dest_rank = 0} : ()
  %y = Add(%back, %r1) : f32[64]
  return %y
}
";

#[test]
fn what_is_sent_arrives_at_the_rank_that_receives() {
    let one = Case::new(PIPELINE);
    for ranks in [3usize, 8] {
        let x = |r: usize| input(r, 64);
        let add = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f32>>();
        let zeros = vec![0f32; 64];
        let sum = add(&add(&x(0), &x(1)), &x(2));
        let mut want = vec![zeros.clone(); ranks];
        want[0] = add(&sum, &zeros);
        want[1] = add(&zeros, &x(0));
        assert_same(&one.run(ranks, 64), &want, "pipeline");
    }
    let e = expect_code(one.0.path(), 2, &["run", "m.om", "--ranks", "2", "--random", "1", "-q"]);
    assert!(e.contains("rank is 2, the group has 2"), "{e}");
}

#[test]
fn half_a_transfer_is_refused_by_name() {
    let refused = |text: &str, why: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.ge"), text).unwrap();
        let e = expect_code(dir.path(), 3, &["compile", "m.ge", "-o", "m.om", "-q"]);
        assert!(e.contains(why), "{e}");
        assert!(!dir.path().join("m.om").exists());
    };
    refused(
        "graph @main(%x: f32[4]) {\n  %s = HcomSend(%x) {sr_tag = 1, dest_rank = 1} : ()\n  return %x\n}\n",
        "no HcomReceive with sr_tag 1",
    );
    refused(&PIPELINE.replace("sr_tag = 2, src_rank", "sr_tag = 9, src_rank"), "no HcomSend with sr_tag 9");
    let other = PIPELINE.replace(
        "src_rank = 2, shape = [64], dtype = f32} : f32[64]",
        "src_rank = 2, shape = [2, 32], dtype = f32} : f32[2,32]",
    );
    refused(&other.replace("%y = Add(%back, %r1)", "%y = Add(%r1, %r1)"), "sends f32[64]");
    refused(
        "graph @main() {\n  %r = HcomReceive() {sr_tag = 1, src_rank = 0, shape = [4], dtype = f32} : f32[4]\n  %s = HcomSend(%r) {sr_tag = 1, dest_rank = 1} : ()\n  return %r\n}\n",
        "depends on",
    );
}

#[test]
fn another_number_of_ranks_is_refused() {
    let text = all_reduce(64, "sum").replace("\"sum\"", "\"sum\", rank_size = 2");
    let one = Case::new(&text);
    let dir = one.0.path();
    for ranks in ["1", "3"] {
        let e = expect_code(dir, 2, &["run", "m.om", "--ranks", ranks, "--random", "1", "-q"]);
        assert!(e.contains("made for 2 rank"), "{e}");
    }
    expect_code(dir, 2, &["bench", "m.om", "-q"]);
    expect_code(dir, 0, &["run", "m.om", "--ranks", "2", "--random", "1", "-q"]);
    // The error names the rank that lacks an input.
    write(&dir.join("in/rank0/input_0.npy"), &input(0, 64));
    let e = expect_code(dir, 2, &["run", "m.om", "--ranks", "2", "--inputs", "in", "-q"]);
    assert!(e.contains("rank1"), "{e}");
}

#[test]
fn a_concat_behind_gathers_of_two_ranks_copies_nothing() {
    // Document 000, 2.2: the gathers write into the memory of the concat.
    let case = Case::new(
        "graph @main(%x: f32[64]) {
  %r = Relu(%x) : f32[64]
  %a = HcomAllGather(%x) {group = \"hccl_world_group\", rank_size = 2} : f32[128]
  %b = HcomAllGather(%r) {group = \"hccl_world_group\", rank_size = 2} : f32[128]
  %c = ConcatD(%a, %b) {N = 2, concat_dim = 0} : f32[256]
  %y = Relu(%c) : f32[256]
  return %y
}",
    );
    let out = ge_tests::expect_code(case.0.path(), 0, &["inspect", "m.om", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let nodes = doc["graphs"][0]["nodes"].as_array().unwrap();
    let node = |name: &str| nodes.iter().find(|n| n["name"] == name).unwrap();
    assert_eq!(node("c")["no_task"], true);
    assert!(nodes.iter().all(|n| n["type"] != "Identity"), "{nodes:?}");
    let tasks = doc["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|t| t["node"] != "c" && t["type"] != "MEMCPY_ASYNC"), "{tasks:?}");
    let kernels: Vec<&str> =
        tasks.iter().filter(|t| t["type"] == "KERNEL").filter_map(|t| t["node"].as_str()).collect();
    assert_eq!(kernels, ["r", "y"], "two kernels of the graph's own, no copy");
    let at = |name: &str| node(name)["outputs"][0]["offset"].as_u64().unwrap();
    assert_eq!((at("a"), at("b")), (at("c"), at("c") + 512));
    let positive = |v: Vec<f32>| v.into_iter().map(|v| v.max(0.0)).collect::<Vec<f32>>();
    let both = [positive(input(0, 64)), positive(input(1, 64))].concat();
    let want = [both.clone(), both].concat();
    assert_same(&case.run(2, 64), &[want.clone(), want], "no copy");
}

#[test]
fn streams_that_follow_a_collective_are_counted() {
    let text = "graph @main(%x: f32[64]) {
  %a = HcomAllReduce(%x) {reduction = \"sum\", used_stream_num = 2} : f32[64]
  %b = HcomAllReduce(%a) {reduction = \"max\", used_stream_num = 3} : f32[64]
  %r = Relu(%b) : f32[64]
  return %r
}";
    let case = Case::new(text);
    let out = ge_tests::expect_code(case.0.path(), 0, &["inspect", "m.om", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let streams = &doc["streams"];
    // Both collectives are on one stream and use the same followers, one after the other.
    assert_eq!(streams["hccl_followed"], 3, "{streams}");
    let items = streams["logical_items"].as_array().unwrap();
    let of = |name: &str| items.iter().find(|i| i["nodes"].as_array().unwrap().iter().any(|n| n == name)).unwrap();
    assert_eq!((&of("b")["hccl_followed"], &of("r")["hccl_followed"]), (&3.into(), &0.into()));
}

/// A collective is several tasks on the device. An UPDATE and the profile refer to tasks by number,
/// and these are the numbers of the model's tasks.
#[test]
fn tasks_behind_a_collective_keep_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%k: i32[1], %x: f32[2,2]) {
  %c = HcomAllReduce(%x) {reduction = \"sum\"} : f32[2,2]
  %w = Const() {value = dense<f32[2,2,2]: 1 0 -1 1 0 1 1 -1>} : f32[2,2,2]
  %t = Const() {value = dense<i32[1]: 2>} : i32[1]
  %f = Sub(%t, %k) : i32[1]
  %b = ConcatD(%f, %k) {concat_dim = 0} : i32[2]
  %l = Cast(%b) {dst_type = i64} : i64[2]
  %g = GroupedMatmul(%c, %w, %l) {group_list_type = 1} : f32[2,2]
  return %g
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", "ge.tiling_schedule_optimize=1"]);
    let run = ["run", "m.om", "--input", "k=[1]", "--input", "x=[[1,2],[3,4]]", "--outputs", "out", "-q"];
    expect_code(d, 0, &[&run[..], &["--profile", "p.json"]].concat());
    let bytes = std::fs::read(d.join("out/output_0.npy")).unwrap();
    let found: Vec<f32> =
        bytes[bytes.len() - 16..].chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    // The first row times the first matrix, the second row times the second.
    assert_eq!(found, [-1.0, 2.0, 4.0, -1.0]);
    let profile: serde_json::Value = serde_json::from_slice(&std::fs::read(d.join("p.json")).unwrap()).unwrap();
    let events: Vec<_> = profile["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect();
    let of = |kind: &str| -> Vec<&str> {
        events.iter().filter(|e| e["args"]["type"] == kind).filter_map(|e| e["args"]["node"].as_str()).collect()
    };
    assert!(of("HCCL").len() > 1 && of("HCCL").iter().all(|n| *n == "c"), "{events:?}");
    assert_eq!((of("UPDATE"), of("PREPROCESS_KERNEL")), (vec!["g"], vec!["g"]), "{events:?}");
    assert!(of("KERNEL").contains(&"g"), "{events:?}");
}

/// Two ranks: rank 0 sends, rank 1 answers; each program orders its halves in its own way.
#[test]
fn halves_may_name_each_other_and_those_of_other_pairs() {
    let receive = "shape = [64], dtype = f32} ";
    let after = format!(
        "graph @main(%x: f32[64]) {{\n  %s1 = HcomSend(%x) {{sr_tag = 1, dest_rank = 1}} : ()\n  %r1 = HcomReceive() \
         {{sr_tag = 1, src_rank = 0, {receive}after(%s1) : f32[64]\n  return %r1\n}}\n"
    );
    let pairs = |a: u8, b: u8| {
        format!(
            "graph @main(%x: f32[64]) {{\n  %s1 = HcomSend(%x) {{sr_tag = {a}, dest_rank = 1}} : ()\n  %r1 = HcomReceive() \
             {{sr_tag = {a}, src_rank = 0, {receive}: f32[64]\n  %n = Neg(%x) : f32[64]\n  %s2 = HcomSend(%n) {{sr_tag = \
             {b}, dest_rank = 0}} after(%r1) : ()\n  %r2 = HcomReceive() {{sr_tag = {b}, src_rank = 1, {receive}after(%s1) \
             : f32[64]\n  %y = Add(%r1, %r2) : f32[64]\n  return %y\n}}\n"
        )
    };
    let forward = |a: u8, b: u8| {
        format!(
            "graph @main(%x: f32[64]) {{\n  %s1 = HcomSend(%x) {{sr_tag = {a}, dest_rank = 1}} : ()\n  %r1 = HcomReceive() \
             {{sr_tag = {a}, src_rank = 0, {receive}: f32[64]\n  %s2 = HcomSend(%r1) {{sr_tag = {b}, dest_rank = 0}} : \
             ()\n  %r2 = HcomReceive() {{sr_tag = {b}, src_rank = 1, {receive}: f32[64]\n  return %r2\n}}\n"
        )
    };
    let (x0, minus): (Vec<f32>, Vec<f32>) = (input(0, 64), input(1, 64).iter().map(|v| -v).collect());
    let zeros = vec![0f32; 64];
    assert_same(&Case::new(&after).run(2, 64), &[zeros.clone(), x0.clone()], "a receive after its send");
    for (a, b) in [(1, 2), (2, 1)] {
        let plus = |v: &[f32]| v.iter().map(|v| v + 0.0).collect::<Vec<f32>>();
        assert_same(&Case::new(&pairs(a, b)).run(2, 64), &[plus(&minus), plus(&x0)], "two pairs");
    }
    for (a, b) in [(1, 2), (2, 1), (3, 3)] {
        assert_same(&Case::new(&forward(a, b)).run(2, 64), &[x0.clone(), zeros.clone()], "what came goes on");
    }
}

#[test]
fn pairs_that_wait_for_each_other_are_refused_by_their_names() {
    let text = "graph @main(%x: f32[64]) {
  %r1 = HcomReceive() {sr_tag = 1, src_rank = 0, shape = [64], dtype = f32} : f32[64]
  %a = Add(%r1, %x) : f32[64]
  %s2 = HcomSend(%a) {sr_tag = 2, dest_rank = 0} : ()
  %r2 = HcomReceive() {sr_tag = 2, src_rank = 1, shape = [64], dtype = f32} : f32[64]
  %b = Add(%r2, %x) : f32[64]
  %s1 = HcomSend(%b) {sr_tag = 1, dest_rank = 1} : ()
  return %a, %b
}
";
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.ge"), text).unwrap();
    let e = expect_code(dir.path(), 3, &["compile", "m.ge", "-o", "m.om", "-q"]);
    assert!(["`s1`", "`r1`", "`s2`", "`r2`", "wait for"].iter().all(|w| e.contains(w)), "{e}");
}
