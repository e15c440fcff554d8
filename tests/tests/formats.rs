//! Layouts end to end: random graphs of convolutions with other operators between them give the
//! same numbers in the formats of the cube unit as in plain ones. Launches on the device cost so
//! little that every saving is taken.
use ge_tests::{expect_code, models};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// A small random number generator: a seed gives the same numbers everywhere.
struct Chance(u64);
impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A value: its name, and its channels, height and width.
type Image = (String, [usize; 3]);

struct Net {
    chance: Chance,
    text: String,
    dtype: &'static str,
    batch: usize,
    images: Vec<Image>,
    next: usize,
}

impl Net {
    fn of(&self, [c, h, w]: [usize; 3]) -> String {
        format!("{}[{},{c},{h},{w}]", self.dtype, self.batch)
    }

    fn line(&mut self, op: &str, inputs: &str, attrs: &str, dims: [usize; 3]) -> Image {
        self.next += 1;
        let name = format!("%n{}", self.next);
        let gives = self.of(dims);
        writeln!(self.text, "  {name} = {op}({inputs}) {{{attrs}}} : {gives}").unwrap();
        (name, dims)
    }

    /// A constant whose numbers are small enough for sums of many of them.
    fn constant(&mut self, dims: &[usize]) -> String {
        self.next += 1;
        let n = dims.iter().product::<usize>();
        let values: Vec<String> =
            (0..n).map(|_| format!("{}", (self.chance.below(65) as f64 - 32.0) / 128.0)).collect();
        let (name, t) = (format!("%n{}", self.next), format!("{}{dims:?}", self.dtype));
        writeln!(self.text, "  {name} = Const() {{value = dense<{t}: {}>}} : {t}", values.join(" ")).unwrap();
        name
    }

    fn convolution(&mut self) -> Image {
        let (x, [c, h, w]) = self.chance.pick(&self.images);
        let depthwise = self.chance.below(3) == 0;
        let groups = if depthwise { c } else { 1 };
        let o = if depthwise { c } else { self.chance.pick(&[8, 16, 16, 24, 32, 48]) };
        let k = self.chance.pick(&[1, 3]);
        let stride = if h > 4 && w > 4 { self.chance.pick(&[1, 1, 2]) } else { 1 };
        let filter = self.constant(&[o, c / groups, k, k]);
        let pad = k / 2;
        let size = |n: usize| (n + 2 * pad - k) / stride + 1;
        let dims = [o, size(h), size(w)];
        let mut inputs = format!("{x}, {filter}");
        let bias = self.chance.below(2) == 0;
        if bias {
            inputs += &format!(", {}", self.constant(&[o]));
        }
        let attrs = format!("groups = {groups}, pads = [{pad},{pad},{pad},{pad}], strides = [1,1,{stride},{stride}]");
        let beside: Vec<Image> = self.images.iter().filter(|i| i.1 == dims).cloned().collect();
        if bias && self.chance.below(2) == 0 {
            let act = self.chance.pick(&["relu", "sigmoid", "tanh"]);
            if !beside.is_empty() && self.chance.below(2) == 0 {
                inputs += &format!(", {}", self.chance.pick(&beside).0);
            }
            return self.line("FusedConv", &inputs, &format!("activation = \"{act}\", {attrs}"), dims);
        }
        self.line("Conv2D", &inputs, &attrs, dims)
    }

    fn step(&mut self) {
        let (x, dims) = self.chance.pick(&self.images);
        let [c, h, w] = dims;
        let same: Vec<Image> = self.images.iter().filter(|i| i.1 == dims).cloned().collect();
        let beside: Vec<Image> = self.images.iter().filter(|i| i.1[1..] == dims[1..]).cloned().collect();
        let made = match self.chance.below(9) {
            0..=2 => self.convolution(),
            3 => {
                let op = self.chance.pick(&["Relu", "Swish", "Sigmoid", "Tanh", "Abs"]);
                self.line(op, &x, "", dims)
            }
            4 => {
                let op = self.chance.pick(&["Add", "Mul", "Maximum", "Sub"]);
                let y = self.chance.pick(&same).0;
                self.line(op, &format!("{x}, {y}"), "", dims)
            }
            5 if h >= 4 && w >= 4 => {
                let op = self.chance.pick(&["MaxPoolV3", "AvgPoolV2"]);
                let attrs = "ksize = [1,1,2,2], strides = [1,1,2,2]";
                self.line(op, &x, attrs, [c, h / 2, w / 2])
            }
            6 => {
                let (y, [d, ..]) = self.chance.pick(&beside);
                let axis = self.chance.pick(&["1", "-3"]);
                let attrs = format!("N = 2, concat_dim = {axis}");
                self.line("ConcatD", &format!("{x}, {y}"), &attrs, [c + d, h, w])
            }
            7 => {
                // One number for each channel, by which the channel is scaled.
                let op = self.chance.pick(&["GlobalAveragePool", "GlobalMaxPool"]);
                let (s, _) = self.line(op, &x, "", [c, 1, 1]);
                self.line("Mul", &format!("{x}, {s}"), "", dims)
            }
            _ => {
                let by = self.constant(&[]);
                let op = self.chance.pick(&["Mul", "Add"]);
                self.line(op, &format!("{x}, {by}"), "", dims)
            }
        };
        if made.1[0] <= 64 {
            self.images.push(made);
        }
    }
}

fn graph(seed: u64) -> String {
    let mut n = Net {
        chance: Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed),
        text: String::new(),
        dtype: "f16",
        batch: 1,
        images: Vec::new(),
        next: 0,
    };
    (n.dtype, n.batch) = (n.chance.pick(&["f16", "f16", "bf16"]), n.chance.pick(&[1, 2]));
    let dims = [n.chance.pick(&[3, 16, 28, 32]), n.chance.pick(&[6, 14, 28]), n.chance.pick(&[5, 28])];
    let x = n.of(dims);
    n.images.push(("%x".into(), dims));
    // `Tanh` first, so that all later numbers stay near one.
    let (first, _) = n.line("Tanh", "%x", "", dims);
    n.images = vec![(first, dims)];
    (0..n.chance.pick(&[8, 12, 20])).for_each(|_| n.step());
    let outs = [n.images.last().unwrap().0.clone(), n.images[n.images.len() / 2].0.clone()];
    format!("graph @main(%x: {x}) {{\n{}  return {}, {}\n}}\n", n.text, outs[0], outs[1])
}

/// A device whose launches cost almost nothing.
const SOC: &str = "name = \"Quick\"\nbase = \"Ascend910B\"\ntask_launch_ns = 1\naic_cores = 1\n";

fn nodes(dir: &Path, om: &str) -> Vec<Value> {
    let said: Value = serde_json::from_slice(&expect_code(dir, 0, &["inspect", om, "--json"]).stdout).unwrap();
    let graphs = said["graphs"].as_array().unwrap().clone();
    graphs.into_iter().flat_map(|g| g["nodes"].as_array().unwrap().clone()).collect()
}

fn in_format(nodes: &[Value], format: &str) -> usize {
    nodes.iter().filter(|n| n["outputs"][0]["format"] == format).count()
}

#[test]
fn random_graphs_give_the_same_numbers_in_the_formats_of_the_cube_unit() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("quick.toml"), SOC).unwrap();
    let cases = if std::env::var_os("GE_LONG").is_some() { 400 } else { 16 };
    let mut laid = 0;
    for seed in 0..cases {
        std::fs::write(d.join("m.ge"), graph(seed)).unwrap();
        let compile = ["compile", "m.ge", "--soc", "quick.toml", "-q", "-o"];
        let modes: [&[&str]; 2] = [&[], &["--set", "ge.x.stream_mode=parallel:3"]];
        let streams = modes[seed as usize % 2];
        expect_code(d, 0, &[&compile[..], &["n.om"], streams].concat());
        expect_code(
            d,
            0,
            &[&compile[..], &["p.om", "--set", "ge.optimizationSwitch=RefineRunningFormat:off"]].concat(),
        );
        let found = nodes(d, "n.om");
        laid += usize::from(in_format(&found, "NC1HWC0") > 0);
        assert_eq!(in_format(&nodes(d, "p.om"), "NC1HWC0"), 0);
        let _ = std::fs::remove_dir_all(d.join("o"));
        expect_code(d, 0, &["run", "p.om", "--random", "7", "--outputs", "o", "-q"]);
        let races = ["--device-option", "check_races=true"];
        let run = ["run", "n.om", "--random", "7", "--expect", "o", "--rtol", "4e-2", "--atol", "6e-2", "-q"];
        let out = ge_tests::ge(d, &[&run[..], &races].concat());
        assert!(out.status.success(), "seed {seed}: {}\n{}", String::from_utf8_lossy(&out.stderr), graph(seed));
    }
    assert!(laid * 3 > cases as usize, "{laid} of {cases} graphs have values in NC1HWC0");
}

#[test]
fn a_model_of_convolutions_changes_layout_at_its_ends_alone() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let model = models().join("mobilenet_v2.onnx").display().to_string();
    expect_code(d, 0, &["compile", &model, "-o", "m.om", "--soc", "Ascend910B", "-q"]);
    let found = nodes(d, "m.om");
    let changes = found.iter().filter(|n| n["type"] == "TransData").count();
    let (grouped, filters) = (in_format(&found, "NC1HWC0"), in_format(&found, "FRACTAL_Z"));
    assert!(changes <= 2 && grouped > 45 && filters > 30, "{changes} changes, {grouped} values, {filters} filters");
    let set = models().join("mobilenet_v2/s0");
    let (inputs, expect) = (set.display().to_string(), set.join("expect").display().to_string());
    expect_code(
        d,
        0,
        &["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--rtol", "5e-2", "--atol", "5e-2", "-q"],
    );
}
