//! Variables of models of open sizes, through the real binary and the session: they behave as in
//! static models.
use ge::options::OptionMap;
use ge::session::{Session, SessionOptions, import};
use ge_compiler::pipeline::Silent;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;
use ge_runtime::RunOptions;
use ge_tests::{expect_code, root};
use std::path::Path;

/// The sum over any number of rows is added to a variable of two numbers.
const COUNT: &str = "graph @main(%x: f32[N,2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %axes = Const() {value = dense<i64[1]: 0>} : i64[1]
  %s = ReduceSum(%x, %axes) {keep_dims = false} : f32[2]
  %before = Neg(%v) : f32[2]
  %a = AssignAdd(%v, %s) : f32[2]
  %y = Add(%x, %a) : f32[N,2]
  return %y, %before
}";

fn lines(dir: &Path, args: &[&str]) -> Vec<String> {
    let out = expect_code(dir, 0, args);
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_variable_goes_on_from_size_to_size() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("m.ge"), COUNT).unwrap();
    expect_code(dir, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let run = |x: &str, more: &[&str]| lines(dir, &[&["run", "m.om", "--input", x], more].concat());
    let first = run("x=[[1,1],[1,1],[1,1]]", &["--save-variables", "v.safetensors"]);
    assert_eq!(first, ["y: f32[3,2] = 14 24 14 24 14 24", "before: f32[2] = -10 -20"]);
    let on = ["--restore-variables", "v.safetensors", "--save-variables", "v.safetensors"];
    assert_eq!(run("x=[[1,1]]", &on), ["y: f32[1,2] = 15 25", "before: f32[2] = -13 -23"]);
    let chance = ["--device-option", "schedule=random:5", "--device-option", "check_races=true"];
    assert_eq!(run("x=[[1,1]]", &[&on[..], &chance].concat()), ["y: f32[1,2] = 16 26", "before: f32[2] = -14 -24"]);
    // Steps of one loaded model, and the variables that they leave.
    let steps = ["run", "m.om", "--random", "1", "--steps", "3", "--outputs", "o", "--save-variables", "s.safetensors"];
    expect_code(dir, 0, &[&steps[..], &["--restore-variables", "v.safetensors"]].concat());
    let [a, b] = ["step0", "step1"].map(|s| std::fs::read(dir.join("o").join(s).join("output_1.npy")).unwrap());
    assert_ne!(a, b, "the second step begins with what the first one left");
    let told = lines(dir, &["inspect", "m.om", "--what", "exec"]);
    assert!(told.iter().any(|l| l == "variable v: f32[2], a run keeps `a` in it"), "{told:?}");
    assert!(lines(dir, &["inspect", "m.om"]).iter().any(|l| l.trim() == "variables: 512 bytes"));
}

#[test]
fn an_assignment_that_does_not_fit_is_refused_by_name_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = "graph @main(%x: f32[N]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %a = Assign(%v, %x) : f32[2]
  %b = AssignSub(%v, %x) : f32[2]
  %y = Abs(%v) : f32[2]
  return %y
}";
    std::fs::write(dir.join("m.ge"), text).unwrap();
    expect_code(dir, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    assert_eq!(lines(dir, &["run", "m.om", "--input", "x=[3,4]"]), ["y: f32[2] = 0 0"]);
    let said = String::from_utf8(expect_code(dir, 1, &["run", "m.om", "--input", "x=[1,2,3]"]).stderr).unwrap();
    assert!(["`a`", "Assign", "[3]"].iter().all(|w| said.contains(w)), "{said}");
}

/// Steps of optimizers write several variables; branches, calls and loops write them by name and
/// through their arguments. Parts of known shape do the same as those of unknown shape.
#[test]
fn branches_loops_calls_and_optimizers_write_variables() {
    let text = "graph @main(%x: f32[N,2], %p: bool[1]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %m = Variable() {init_value = dense<f32[2]: 0 0>} : f32[2]
  %lr = Const() {value = dense<f32[1]: 0.5>} : f32[1]
  %axes = Const() {value = dense<i64[1]: 0>} : i64[1]
  %s = ReduceSum(%x, %axes) {keep_dims = false} : f32[2]
  %w = ApplyMomentum(%v, %m, %lr, %s, %lr) : f32[2], f32[2]
  %y = If(%p, %x) {else_branch = @else, then_branch = @then} : f32[N,2]
  %i = Const() {value = dense<i32[1]: 0>} : i32[1]
  %l = While(%i, %y) {body = @body, cond = @cond} : i32[1], f32[N,2]
  %c = PartitionedCall(%v, %x) {f = @add} : f32[N,2]
  %z = Mul(%l#1, %v) : f32[N,2]
  return %z, %w#1, %c
}
graph @then(%x: f32[N,2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %k = Const() {value = dense<f32[2]: 100 100>} : f32[2]
  %a = Assign(%v, %k) : f32[2]
  %y = Add(%x, %a) : f32[N,2]
  return %y
}
graph @else(%x: f32[N,2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %y = Sub(%x, %v) : f32[N,2]
  return %y
}
graph @cond(%i: i32[1], %y: f32[N,2]) {
  %n = Const() {value = dense<i32[1]: 3>} : i32[1]
  %t = Less(%i, %n) : bool[1]
  return %t
}
graph @body(%i: i32[1], %y: f32[N,2]) {
  %m = Variable() {init_value = dense<f32[2]: 0 0>} : f32[2]
  %one = Const() {value = dense<i32[1]: 1>} : i32[1]
  %next = Add(%i, %one) : i32[1]
  %f = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %a = AssignAdd(%m, %f) : f32[2]
  %z = Add(%y, %a) : f32[N,2]
  return %next, %z
}
graph @add(%r: f32[2], %x: f32[N,2]) {
  %f = Const() {value = dense<f32[2]: 1 1>} : f32[2]
  %a = AssignAdd(%r, %f) : f32[2]
  %y = Add(%x, %a) : f32[N,2]
  return %y
}";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("m.ge"), text).unwrap();
    let closed = text.replace('N', "2");
    std::fs::write(dir.join("closed.ge"), closed).unwrap();
    for p in ["p=[0]", "p=[1]"] {
        let given = ["--input", "x=[[1,1],[2,3]]", "--input", p];
        let want = lines(dir, &[&["run", "closed.ge", "--save-variables", "want.safetensors"], &given[..]].concat());
        for limit in ["-1", "1", "4"] {
            let limit = format!("ge.exec.static_model_ops_lower_limit={limit}");
            expect_code(dir, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", &limit]);
            for chance in [&[][..], &["--device-option", "schedule=random:2", "--device-option", "check_races=true"]] {
                let run = [&["run", "m.om", "--save-variables", "v.safetensors"], &given[..], chance].concat();
                assert_eq!(lines(dir, &run), want, "{p} {limit}");
                let [found, kept] =
                    ["v", "want"].map(|f| std::fs::read(dir.join(f).with_extension("safetensors")).unwrap());
                assert_eq!(found, kept, "{p} {limit}");
            }
        }
    }
}

/// A loop has its own copy of what it carries. The condition and the body each overwrite what they
/// are given; a node that reads it after the write gets what was written, and the loop sees only
/// what the body returns.
#[test]
fn graphs_of_loops_write_over_what_they_are_given() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%i: f32[N], %n: f32[N]) {
  %w = While(%i, %n) {cond = @cond, body = @body} : f32[N], f32[N]
  return %w#0, %w#1, %i
}
graph @cond(%a: f32[N], %b: f32[N]) {
  %limit = Const() {value = dense<f32[]: splat 100>} : f32[]
  %ten = Const() {value = dense<f32[2]: splat 10>} : f32[2]
  %up = AssignAdd(%a, %ten) : f32[N]
  %t = Add(%a, %b) : f32[N]
  %s = ReduceSumD(%t) {axes = [0], keep_dims = false} : f32[]
  %c = Less(%s, %limit) : bool[]
  return %c
}
graph @body(%a: f32[N], %b: f32[N]) {
  %one = Const() {value = dense<f32[]: splat 1>} : f32[]
  %old = Neg(%a) : f32[N]
  %more = Add(%a, %one) : f32[N]
  %d = Assign(%a, %more) : f32[N]
  %e = Add(%b, %a) : f32[N]
  %f = Sub(%e, %old) : f32[N]
  return %d, %f
}";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "open.om", "-q"]);
    std::fs::write(d.join("closed.ge"), text.replace("[N]", "[2]")).unwrap();
    expect_code(d, 0, &["compile", "closed.ge", "-o", "closed.om", "-q"]);
    // The same steps in plain arithmetic.
    let (i, mut b) = ([1.0, 2.0], [0.0, 0.5]);
    let mut a = i;
    while (0..2).map(|k| a[k] + 10.0 + b[k]).sum::<f64>() < 100.0 {
        for k in 0..2 {
            let old = -a[k];
            a[k] += 1.0;
            b[k] = b[k] + a[k] - old;
        }
    }
    let want = [a, b, i].map(|v| format!("f32[2] = {} {}", v[0], v[1]));
    for om in ["open.om", "closed.om"] {
        for schedule in ["fifo", "random:5"] {
            let schedule = format!("schedule={schedule}");
            let chance = ["--device-option", &schedule, "--device-option", "check_races=true"];
            let found = lines(d, &[&["run", om, "--input", "i=[1,2]", "--input", "n=[0,0.5]"], &chance[..]].concat());
            let found: Vec<&str> = found.iter().filter_map(|l| l.split_once(": ")).map(|l| l.1).collect();
            assert_eq!(found, want, "{om}");
        }
    }
}

/// Graphs that the graphs of a loop call, branches among them, overwrite what the loop carries: a
/// node that reads it after the call gets what was written.
#[test]
fn graphs_that_loops_call_write_over_what_these_carry() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let up = |name: &str| {
        format!(
            "graph @{name}(%x: f32[N], %y: f32[N]) {{
  %ten = Const() {{value = dense<f32[2]: splat 10>}} : f32[2]
  %u = AssignAdd(%x, %ten) : f32[N]
  %v = Add(%u, %y) : f32[N]
  return %v
}}
"
        )
    };
    let text = "graph @main(%i: f32[N], %n: f32[N]) {
  %w = While(%i, %n) {cond = @cond, body = @body} : f32[N], f32[N]
  return %w#0, %w#1, %i
}
graph @cond(%a: f32[N], %b: f32[N]) {
  %limit = Const() {value = dense<f32[]: splat 300>} : f32[]
  %t = PartitionedCall(%a, %b) {f = @up1} : f32[N]
  %u = Add(%a, %t) : f32[N]
  %s = ReduceSumD(%u) {axes = [0], keep_dims = false} : f32[]
  %c = Less(%s, %limit) : bool[]
  return %c
}
graph @body(%a: f32[N], %b: f32[N]) {
  %zero = Const() {value = dense<f32[]: splat 0>} : f32[]
  %old = Neg(%a) : f32[N]
  %g = PartitionedCall(%b, %a) {f = @twice} : f32[N]
  %s = ReduceSumD(%b) {axes = [0], keep_dims = false} : f32[]
  %p = Less(%s, %zero) : bool[]
  %h = If(%p, %a, %g) {then_branch = @up2, else_branch = @same} : f32[N]
  %e = Add(%b, %a) : f32[N]
  %f = Sub(%e, %old) : f32[N]
  %k = Add(%f, %h) : f32[N]
  return %a, %k
}
graph @twice(%y: f32[N], %x: f32[N]) {
  %u = PartitionedCall(%x, %y) {f = @up3} : f32[N]
  %v = PartitionedCall(%x, %u) {f = @up4} : f32[N]
  %z = Sub(%v, %x) : f32[N]
  return %z
}
graph @same(%x: f32[N], %y: f32[N]) {
  return %y
}
"
    .to_owned()
        + &["up1", "up2", "up3", "up4"].map(up).concat();
    std::fs::write(d.join("m.ge"), &text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "open.om", "-q"]);
    std::fs::write(d.join("closed.ge"), text.replace("[N]", "[2]")).unwrap();
    expect_code(d, 0, &["compile", "closed.ge", "-o", "closed.om", "-q"]);
    // The same steps in plain arithmetic.
    let add = |x: &mut [f64; 2], y: [f64; 2]| {
        *x = x.map(|v| v + 10.0);
        [x[0] + y[0], x[1] + y[1]]
    };
    let (mut a, mut b, mut turns) = ([1.0, 2.0], [-60.0, -60.5], 0);
    loop {
        let mut own = a;
        let told = add(&mut own, b);
        if own.iter().chain(&told).sum::<f64>() >= 300.0 {
            break;
        }
        let old = a;
        let u = add(&mut a, b);
        let v = add(&mut a, u);
        let g = [v[0] - a[0], v[1] - a[1]];
        let h = if b.iter().sum::<f64>() < 0.0 { add(&mut a, g) } else { g };
        b = [0, 1].map(|k| b[k] + a[k] + old[k] + h[k]);
        turns += 1;
    }
    assert!(turns > 1);
    let want = [a, b, [1.0, 2.0]].map(|v| format!("f32[2] = {} {}", v[0], v[1]));
    for om in ["open.om", "closed.om"] {
        for schedule in ["fifo", "random:5", "random:6"] {
            let schedule = format!("schedule={schedule}");
            let chance = ["--device-option", &schedule, "--device-option", "check_races=true"];
            let found =
                lines(d, &[&["run", om, "--input", "i=[1,2]", "--input", "n=[-60,-60.5]"], &chance[..]].concat());
            let found: Vec<&str> = found.iter().filter_map(|l| l.split_once(": ")).map(|l| l.1).collect();
            assert_eq!(found, want, "{om}");
        }
    }
}

#[test]
fn what_a_condition_writes_is_there_in_the_body_and_behind_the_loop() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[N]) {
  %i = Const() {value = dense<i32[1]: 0>} : i32[1]
  %v = Variable() {init_value = dense<i32[1]: 9>} : i32[1]
  %l = While(%i, %x) {body = @body, cond = @cond} : i32[1], f32[N]
  %k = Neg(%v) : i32[1]
  return %l#0, %l#1, %k
}
graph @cond(%i: i32[1], %y: f32[N]) {
  %v = Variable() {init_value = dense<i32[1]: 9>} : i32[1]
  %a = AssignSub(%v, %i) : i32[1]
  %t = Less(%i, %a) : bool[1]
  return %t
}
graph @body(%i: i32[1], %y: f32[N]) {
  %one = Const() {value = dense<i32[1]: 1>} : i32[1]
  %next = Add(%i, %one) : i32[1]
  %v = Variable() {init_value = dense<i32[1]: 9>} : i32[1]
  %r = Cast(%v) {dst_type = f32} : f32[1]
  %z = Add(%y, %r) : f32[N]
  return %next, %z
}";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "open.om", "-q"]);
    expect_code(d, 0, &["compile", "m.ge", "-o", "static.om", "-q", "--input-shape", "x:2"]);
    // The condition leaves 9, 8, 6 and 3, and 3 is not less than 3: the body adds 9, 8 and 6.
    let want = ["l:0: i32[1] = 3", "l:1: f32[2] = 24 25", "k: i32[1] = -3"];
    let same = |l: &[String]| l.iter().map(|l| l.split_once(' ').map_or("", |l| l.1).to_owned()).collect::<Vec<_>>();
    let want = same(&want.map(str::to_owned));
    for om in ["open.om", "static.om"] {
        let args = ["run", om, "--input", "x=[1,2]", "--save-variables", "v.safetensors", "-q"];
        assert_eq!(same(&lines(d, &args)), want, "{om}");
        let on = ["--restore-variables", "v.safetensors", "--device-option", "check_races=true"];
        // It begins at 3 and subtracts 0, 1 and 2: 3, 2 and 0.
        let next = same(&lines(d, &[&args[..], &on].concat()));
        assert_eq!(next, same(&["_ i32[1] = 2", "_ f32[2] = 6 7", "_ i32[1] = 0"].map(str::to_owned)), "{om}");
    }
}

fn session() -> Session {
    let plugins = Some(root().join("plugins.toml"));
    Session::new(SessionOptions { plugins, ..SessionOptions::default() }).unwrap()
}

fn floats(dims: &[u64], values: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}

fn numbers(t: &HostTensor) -> Vec<f32> {
    t.bytes().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn compiled(s: &Session, text: &str) -> ge_model::CompiledModel {
    let graph = import::parse_text(Path::new("m.ge"), text.as_bytes()).unwrap();
    s.compile("m", graph, &OptionMap::default(), &Silent).unwrap().model
}

/// A static model and one of open sizes share a variable; runs of several threads take turns.
#[test]
fn models_of_a_session_and_runs_of_many_threads_share_a_variable() {
    let s = session();
    let open = s.load(compiled(&s, COUNT)).unwrap();
    let fixed = s.load(compiled(&s, &COUNT.replace("[N,2]", "[1,2]"))).unwrap();
    let rows = |n: usize| floats(&[n as u64, 2], &vec![1.0; 2 * n]);
    open.run(&[rows(3)]).unwrap();
    fixed.run(&[rows(1)]).unwrap();
    let out = open.run(&[rows(2)]).unwrap();
    assert_eq!(numbers(&out[1]), [-14.0, -24.0]);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (open, fixed, rows) = (&open, &fixed, &rows);
            scope.spawn(move || {
                for k in 0..25 {
                    if (t + k) % 5 == 0 {
                        fixed.run(&[rows(1)]).unwrap();
                    } else {
                        open.run(&[rows(1 + (t + k) % 3)]).unwrap();
                    }
                }
            });
        }
    });
    let sum: usize =
        (0..4).flat_map(|t| (0..25).map(move |k| if (t + k) % 5 == 0 { 1 } else { 1 + (t + k) % 3 })).sum();
    let held = s.variables().read("v").unwrap();
    assert_eq!(numbers(&held), [16.0 + sum as f32, 26.0 + sum as f32]);
}

/// A gear and the model for sizes of no gear share one variable.
#[test]
fn gears_and_sizes_of_no_gear_share_a_variable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("m.ge"), COUNT).unwrap();
    let gears = ["compile", "m.ge", "-o", "m.om", "-q", "--dim", "N=1,2"];
    let (one, two, three) = ("x=[[1,1]]", "x=[[1,1],[1,1]]", "x=[[1,1],[1,1],[1,1]]");
    let hybrid = [(one, "-10 -20"), (three, "-11 -21"), (two, "-14 -24"), (one, "-16 -26")];
    let sealed = [(two, "-10 -20"), (one, "-12 -22"), (two, "-13 -23")];
    for (more, runs) in [(&["--set", "compileHybridMode=1"][..], &hybrid[..]), (&[], &sealed)] {
        expect_code(dir, 0, &[&gears[..], more].concat());
        let mut restore: &[&str] = &[];
        for (x, before) in runs {
            let run = [&["run", "m.om", "--input", x, "--save-variables", "v.safetensors"], restore].concat();
            assert_eq!(lines(dir, &run)[1], format!("before: f32[2] = {before}"), "{x}");
            restore = &["--restore-variables", "v.safetensors"];
        }
    }
}

/// Only `run_mut` writes to memory that a caller lends for writing.
#[test]
fn lent_memory_is_written_where_shapes_are_unknown() {
    let s = session();
    let text = "graph @main(%x: f32[N,2]) {
  %r = RefData() {index = 1} : f32[2]
  %axes = Const() {value = dense<i64[1]: 0>} : i64[1]
  %s = ReduceSum(%x, %axes) {keep_dims = false} : f32[2]
  %a = AssignAdd(%r, %s) : f32[2]
  %y = Add(%x, %a) : f32[N,2]
  return %y
}";
    let m = s.load(compiled(&s, text)).unwrap();
    let mut inputs = [floats(&[2, 2], &[1.0; 4]), floats(&[2], &[5.0, 6.0])];
    assert_eq!(numbers(&m.run(&inputs).unwrap()[0]), [8.0, 9.0, 8.0, 9.0]);
    assert_eq!(numbers(&inputs[1]), [5.0, 6.0]);
    m.run_mut(&mut inputs, RunOptions::default()).unwrap();
    assert_eq!(numbers(&inputs[1]), [7.0, 8.0]);
    let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
    assert_eq!(m.run_views(&views, RunOptions::default()).unwrap().outputs.len(), 1);
}
