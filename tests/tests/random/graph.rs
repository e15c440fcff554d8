//! Random graphs as trees that can be reduced, and their text.
use std::fmt::Write;

/// A random number generator: a seed gives the same numbers everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n.max(1)
    }
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A value of type `f32[4]`: the input of the graph, or a node of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Val {
    Input,
    Node(usize),
}

/// What a node does; graphs are indices into [`Case::graphs`].
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A constant filled with one number.
    Const(i32),
    /// The value of a variable.
    Variable(usize),
    One(&'static str),
    Two(&'static str),
    /// A reshape to two rows and back.
    View,
    /// Two values, concatenated as many times as there are pairs, and one of the parts of the
    /// result: `(pairs, part)`. This makes values of other sizes than the rest have, and views into
    /// them.
    Parts(usize, usize),
    /// The value as two rows, each multiplied by the matrix of its group. Which group a row is in
    /// is known only at run time: tiling sink.
    Sink,
    /// A sum over the group of ranks, which has one rank here.
    Reduce,
    /// An assignment to a variable, by its name or by the result of the last assignment.
    Assign(&'static str, usize),
    Call(usize),
    If(usize, usize),
    Case(Vec<usize>),
    While(usize, usize),
    For(usize, usize),
}

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub inputs: Vec<Val>,
    /// Control inputs: the nodes that this one waits for.
    pub after: Vec<usize>,
    pub attrs: Vec<(&'static str, String)>,
    pub dead: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub output: Option<Val>,
    /// Further outputs of the root.
    pub more: Vec<Val>,
}

/// A model with the options that it is compiled with.
#[derive(Clone, Debug)]
pub struct Case {
    /// The root graph is the first.
    pub graphs: Vec<Graph>,
    pub options: Vec<(&'static str, String)>,
    /// The SoC: one of [`SOCS`].
    pub soc: &'static str,
}

/// SoCs by name, with what differs from the default one: few tasks on a stream, few streams, few
/// events.
pub const SOCS: &[(&str, &str)] =
    &[("sim", ""), ("short", "tasks_normal = 64"), ("narrow", "streams_normal = 24"), ("eventless", "max_events = 16")];

/// The largest number of variables.
const VARIABLES: usize = 3;

impl Case {
    pub fn random(seed: u64) -> Case {
        let mut r = Random::new(seed);
        let mut c = Case { graphs: vec![Graph::default()], options: Vec::new(), soc: SOCS[0].0 };
        let size = 4 + r.below(12);
        let levels = r.chance(15);
        let labels = r.chance(25);
        c.fill(&mut r, 0, size, if levels { 3 } else { 0 });
        if levels {
            c.levels(&mut r);
        }
        if r.chance(30) {
            c.attached(&mut r);
        }
        if labels {
            for g in 0..c.graphs.len() {
                for n in 0..c.graphs[g].nodes.len() {
                    let computes = matches!(c.graphs[g].nodes[n].kind, Kind::One(_) | Kind::Two(_));
                    if g == 0 && computes && r.chance(40) {
                        let label = ["\"a\"", "\"b\""][r.below(2)].to_owned();
                        c.graphs[g].nodes[n].attrs.push(("_stream_label", label));
                    }
                }
            }
        }
        let pairs: &[(&'static str, &[&str])] = &[
            ("ge.x.event_reuse", &["always", "off"]),
            ("ge.event", &["notify"]),
            ("ge.tiling_schedule_optimize", &["1"]),
            ("ge.streamMaxParallelNum", &["AIcoreEngine:2", "DNN_HCCL:1"]),
            ("ge.hcomParallel", &["true"]),
            ("ge.x.stream_mode", &["parallel:2", "parallel:4"]),
            ("ge.oo.level", &["O1"]),
            ("ge.enableSingleStream", &["true"]),
            ("ge.x.auto_fusion", &["false"]),
            ("ge.optimizationSwitch", &["InlineSubgraphPass:off", "IdentityPass:off"]),
        ];
        for (key, values) in pairs {
            let single = *key == "ge.enableSingleStream" && labels;
            if r.chance(20) && !single {
                c.options.push((key, values[r.below(values.len())].to_owned()));
            }
        }
        if r.chance(25) {
            c.soc = SOCS[1 + r.below(SOCS.len() - 1)].0;
        }
        c
    }

    /// The same case for executor v2, which knows no memory between nodes: without collectives,
    /// tiling sink and work on other streams, with parts of known shape of varying sizes.
    pub fn open(seed: u64) -> Case {
        let mut c = Case { soc: SOCS[0].0, options: Vec::new(), ..Case::random(seed) };
        for n in c.graphs.iter_mut().flat_map(|g| &mut g.nodes) {
            if matches!(n.kind, Kind::Reduce | Kind::Sink) {
                n.kind = Kind::One("Relu");
            }
            n.attrs.clear();
        }
        let limit = ["1", "-1", "4"][(seed % 3) as usize];
        c.options.push(("ge.exec.static_model_ops_lower_limit", limit.to_owned()));
        if seed.is_multiple_of(4) {
            c.options.push(("ge.x.dynamic_multi_stream", "1".to_owned()));
        }
        c
    }

    /// Fills a graph with nodes; graphs at a `depth` above 2 name no other graphs.
    fn fill(&mut self, r: &mut Random, g: usize, size: usize, depth: usize) {
        let sinks = r.chance(70);
        for _ in 0..size {
            let count = self.graphs[g].nodes.len();
            let pick = |r: &mut Random| if r.chance(15) || count == 0 { Val::Input } else { Val::Node(r.below(count)) };
            let inputs: Vec<Val> = (0..2).map(|_| pick(r)).collect();
            let sub = |c: &mut Case, r: &mut Random| {
                c.graphs.push(Graph::default());
                let own = c.graphs.len() - 1;
                let size = 1 + r.below(5);
                c.fill(r, own, size, depth + 1);
                own
            };
            let (kind, arity) = match r.below(if depth < 3 && self.graphs.len() < 9 { 30 } else { 24 }) {
                0 | 1 => (Kind::Const(r.below(7) as i32 - 3), 0),
                2..=6 => (Kind::Variable(r.below(VARIABLES)), 0),
                7..=9 => (Kind::One(["Neg", "Relu", "Identity"][r.below(3)]), 1),
                10..=13 => (Kind::Two(["Add", "Sub", "Maximum", "Minimum"][r.below(4)]), 2),
                14 => (Kind::View, 1),
                15 if sinks && r.chance(60) => (Kind::Sink, 1),
                15 => (Kind::Reduce, 1),
                16 => {
                    let pairs = [1, 1, 3, 70][r.below(4)];
                    (Kind::Parts(pairs, r.below(2 * pairs)), 2)
                }
                17..=23 => (Kind::Assign(["AssignAdd", "AssignSub", "Assign"][r.below(3)], r.below(VARIABLES)), 1),
                24 | 25 => (Kind::Call(sub(self, r)), 1),
                26 | 27 => (Kind::If(sub(self, r), sub(self, r)), 1),
                28 if r.chance(50) => (Kind::Case(vec![sub(self, r), sub(self, r)]), 1),
                28 => (Kind::For(r.below(4), sub(self, r)), 1),
                _ => (Kind::While(r.below(4), sub(self, r)), 1),
            };
            let mut after = Vec::new();
            if count > 0 && arity > 0 && r.chance(25) {
                after.push(r.below(count));
            }
            self.graphs[g].nodes.push(Node {
                kind,
                inputs: inputs[..arity].to_vec(),
                after,
                attrs: Vec::new(),
                dead: false,
            });
        }
        let count = self.graphs[g].nodes.len();
        let any = |r: &mut Random| if count == 0 { Val::Input } else { Val::Node(r.below(count)) };
        self.graphs[g].output = Some(if count == 0 { Val::Input } else { Val::Node(count - 1) });
        if g == 0 {
            self.graphs[0].more = (0..r.below(3)).map(|_| any(r)).collect();
        }
    }

    /// Gives some nodes an attached stream; the inputs that its work reads are one, all, or not
    /// stated.
    fn attached(&mut self, r: &mut Random) {
        for n in self.graphs.iter_mut().flat_map(|g| &mut g.nodes) {
            if !matches!(n.kind, Kind::One("Neg" | "Relu") | Kind::Two(_)) || !r.chance(30) {
                continue;
            }
            let reads = match r.below(3) {
                0 => String::new(),
                1 => format!("_attached_resource_depend_value_list_int = [{}], ", r.below(n.inputs.len())),
                _ => {
                    let all: Vec<String> = (0..n.inputs.len()).map(|i| i.to_string()).collect();
                    format!("_attached_resource_depend_value_list_int = [{}], ", all.join(", "))
                }
            };
            let name = ["s", "t"][r.below(2)];
            let required = r.chance(80);
            n.attrs.push((
                "_attached_stream_info_list",
                format!(
                    "[{{{reads}_attached_resource_name = \"{name}\", _attached_resource_required_flag = {required}}}]"
                ),
            ));
        }
    }

    /// Gives the nodes of the root graph stage levels that rise along the graph.
    fn levels(&mut self, r: &mut Random) {
        let mut level = 0;
        for n in &mut self.graphs[0].nodes {
            if r.chance(25) {
                level += 1;
            }
            if !matches!(n.kind, Kind::Const(_) | Kind::Variable(_)) {
                n.attrs.push(("_stage_level", level.to_string()));
            }
        }
    }

    /// The text form of the model.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut conds = Vec::new();
        for g in 0..self.graphs.len() {
            if g > 0 && !self.is_named(g) {
                continue;
            }
            let index = if self.is_loop_body(g) { "%i: i32[1], " } else { "" };
            writeln!(out, "graph @g{g}({index}%p: bool[1], %k: i32[1], %x: f32[4]) {{").unwrap();
            self.graph_text(g, &mut out, &mut conds);
            out.push_str("}\n");
        }
        for (name, turns) in conds {
            writeln!(out, "graph @{name}(%i: i32[1], %p: bool[1], %k: i32[1], %x: f32[4]) {{").unwrap();
            writeln!(out, "  %n = Const() {{value = dense<i32[1]: {turns}>}} : i32[1]").unwrap();
            out.push_str("  %t = Less(%i, %n) : bool[1]\n  return %t\n}\n");
        }
        out
    }

    fn subs(n: &Node) -> Vec<usize> {
        match &n.kind {
            Kind::Call(a) | Kind::While(_, a) | Kind::For(_, a) => vec![*a],
            Kind::If(a, b) => vec![*a, *b],
            Kind::Case(list) => list.clone(),
            _ => Vec::new(),
        }
    }
    /// Whether a graph that is written names this one.
    fn is_named(&self, g: usize) -> bool {
        (0..self.graphs.len()).any(|p| {
            self.graphs[p].nodes.iter().any(|n| !n.dead && Case::subs(n).contains(&g)) && (p == 0 || self.is_named(p))
        })
    }
    fn is_loop_body(&self, g: usize) -> bool {
        let loops = |n: &Node| matches!(&n.kind, Kind::While(_, b) | Kind::For(_, b) if *b == g);
        self.graphs.iter().any(|o| o.nodes.iter().any(|n| !n.dead && loops(n)))
    }

    fn value(&self, g: usize, v: Val) -> String {
        match v {
            Val::Input => "%x".to_owned(),
            Val::Node(n) => match &self.graphs[g].nodes[n].kind {
                Kind::Variable(v) => format!("%v{v}"),
                Kind::While(..) => format!("%n{g}_{n}#3"),
                Kind::For(..) => format!("%n{g}_{n}#2"),
                Kind::Parts(_, k) => format!("%n{g}_{n}#{k}"),
                _ => format!("%n{g}_{n}"),
            },
        }
    }

    fn graph_text(&self, g: usize, out: &mut String, conds: &mut Vec<(String, usize)>) {
        let graph = &self.graphs[g];
        let live = || graph.nodes.iter().enumerate().filter(|(_, n)| !n.dead);
        for v in 0..VARIABLES {
            let named = live().any(|(_, n)| matches!(&n.kind, Kind::Variable(k) | Kind::Assign(_, k) if *k == v));
            if named {
                let init = [1 + v, 2, 3 * v, 5].map(|x| x.to_string()).join(" ");
                writeln!(out, "  %v{v} = Variable() {{init_value = dense<f32[4]: {init}>}} : f32[4]").unwrap();
            }
        }
        if self.is_loop_body(g) {
            out.push_str("  %one = Const() {value = dense<i32[1]: 1>} : i32[1]\n");
            out.push_str("  %turn = Less(%i, %one) : bool[1]\n  %next = Add(%i, %one) : i32[1]\n");
        }
        let p = if self.is_loop_body(g) { "%turn" } else { "%p" };
        for (i, n) in live() {
            let name = format!("n{g}_{i}");
            let ins: Vec<String> = n.inputs.iter().map(|v| self.value(g, *v)).collect();
            let stated = |extra: &str| {
                let mut all: Vec<String> = n.attrs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
                all.extend((!extra.is_empty()).then(|| extra.to_owned()));
                if all.is_empty() { String::new() } else { format!(" {{{}}}", all.join(", ")) }
            };
            let waits: Vec<String> = n
                .after
                .iter()
                .filter(|a| !graph.nodes[**a].dead && !matches!(graph.nodes[**a].kind, Kind::Variable(_)))
                .map(|a| format!("%n{g}_{a}"))
                .collect();
            let after = if waits.is_empty() { String::new() } else { format!(" after({})", waits.join(", ")) };
            let line = match &n.kind {
                Kind::Variable(_) => continue,
                Kind::Const(c) => format!("Const(){} : f32[4]", stated(&format!("value = dense<f32[4]: splat {c}>"))),
                Kind::One(op) => format!("{op}({}){}{after} : f32[4]", ins[0], stated("")),
                Kind::Two(op) => format!("{op}({}, {}){}{after} : f32[4]", ins[0], ins[1], stated("")),
                Kind::View => {
                    writeln!(out, "  %{name}_v = Reshape({}){}{after} : f32[2,2]", ins[0], stated("shape = [2, 2]"))
                        .unwrap();
                    format!("Reshape(%{name}_v){} : f32[4]", stated("shape = [4]"))
                }
                Kind::Parts(pairs, _) => {
                    let both = stated("concat_dim = 0");
                    let (count, pair) = (2 * pairs, format!("{}, {}", ins[0], ins[1]));
                    let operands = vec![pair; *pairs].join(", ");
                    writeln!(out, "  %{name}_c = ConcatD({operands}){both}{after} : f32[{}]", 4 * count).unwrap();
                    let types = vec!["f32[4]"; count].join(", ");
                    let parts = stated(&format!("num_split = {count}, split_dim = 0"));
                    format!("SplitD(%{name}_c){parts} : {types}")
                }
                Kind::Sink => {
                    writeln!(out, "  %{name}_r = Reshape({}) {{shape = [2, 2]}}{after} : f32[2,2]", ins[0]).unwrap();
                    let weights = "dense<f32[2,2,2]: 1 0 -1 1 0 1 1 -1>";
                    writeln!(out, "  %{name}_w = Const() {{value = {weights}}} : f32[2,2,2]").unwrap();
                    // The input says whether all rows are in the first group or one in each.
                    writeln!(out, "  %{name}_t = Const() {{value = dense<i32[1]: 2>}} : i32[1]").unwrap();
                    writeln!(out, "  %{name}_f = Sub(%{name}_t, %k) : i32[1]").unwrap();
                    writeln!(out, "  %{name}_b = ConcatD(%{name}_f, %k) {{concat_dim = 0}} : i32[2]").unwrap();
                    writeln!(out, "  %{name}_l = Cast(%{name}_b) {{dst_type = i64}} : i64[2]").unwrap();
                    let operands = format!("%{name}_r, %{name}_w, %{name}_l");
                    let attrs = stated("group_list_type = 1");
                    writeln!(out, "  %{name}_g = GroupedMatmul({operands}){attrs} : f32[2,2]").unwrap();
                    format!("Reshape(%{name}_g) {{shape = [4]}} : f32[4]")
                }
                Kind::Reduce => {
                    let attrs = stated("group = \"hccl_world_group\", reduction = \"sum\"");
                    format!("HcomAllReduce({}){attrs}{after} : f32[4]", ins[0])
                }
                Kind::Assign(op, v) => {
                    // Some assignments write by the result of the last one.
                    let last = graph.nodes[..i]
                        .iter()
                        .rposition(|o| !o.dead && matches!(&o.kind, Kind::Assign(_, w) if w == v));
                    let to = last.filter(|l| l % 3 == 0).map_or_else(|| format!("%v{v}"), |l| format!("%n{g}_{l}"));
                    format!("{op}({to}, {}){}{after} : f32[4]", ins[0], stated(""))
                }
                Kind::Call(f) => {
                    format!("PartitionedCall({p}, %k, {}){}{after} : f32[4]", ins[0], stated(&format!("f = @g{f}")))
                }
                Kind::If(a, b) => {
                    let subs = stated(&format!("else_branch = @g{b}, then_branch = @g{a}"));
                    format!("If({p}, {p}, %k, {}){subs}{after} : f32[4]", ins[0])
                }
                Kind::Case(list) => {
                    let named: Vec<String> = list.iter().map(|b| format!("@g{b}")).collect();
                    let subs = stated(&format!("branches = [{}]", named.join(", ")));
                    format!("Case(%k, {p}, %k, {}){subs}{after} : f32[4]", ins[0])
                }
                Kind::While(turns, b) => {
                    writeln!(out, "  %{name}_z = Const() {{value = dense<i32[1]: 0>}} : i32[1]").unwrap();
                    conds.push((format!("c{g}_{i}"), *turns));
                    let subs = stated(&format!("body = @g{b}, cond = @c{g}_{i}"));
                    format!("While(%{name}_z, {p}, %k, {}){subs}{after} : i32[1], bool[1], i32[1], f32[4]", ins[0])
                }
                Kind::For(turns, b) => {
                    for (what, value) in [("s", 0), ("l", *turns), ("d", 1)] {
                        writeln!(out, "  %{name}_{what} = Const() {{value = dense<i32[1]: {value}>}} : i32[1]")
                            .unwrap();
                    }
                    let subs = stated(&format!("body = @g{b}"));
                    let bounds = format!("%{name}_s, %{name}_l, %{name}_d");
                    format!("For({bounds}, {p}, %k, {}){subs}{after} : bool[1], i32[1], f32[4]", ins[0])
                }
            };
            writeln!(out, "  %{name} = {line}").unwrap();
        }
        let first = self.value(g, graph.output.unwrap_or(Val::Input));
        let carried = match self.loop_kind(g) {
            Some("While") => "%next, %p, %k, ".to_owned(),
            Some(_) => "%p, %k, ".to_owned(),
            None => String::new(),
        };
        let more: Vec<String> = graph.more.iter().map(|v| self.value(g, *v)).collect();
        let rest = more.iter().map(|m| format!(", {m}")).collect::<String>();
        writeln!(out, "  return {carried}{first}{rest}").unwrap();
    }

    fn loop_kind(&self, g: usize) -> Option<&'static str> {
        let all = self.graphs.iter().flat_map(|o| &o.nodes).filter(|n| !n.dead);
        all.into_iter().find_map(|n| match &n.kind {
            Kind::While(_, b) if *b == g => Some("While"),
            Kind::For(_, b) if *b == g => Some("For"),
            _ => None,
        })
    }

    /// The case as a file of `tests/random`: SoC and options in the first lines, then the text.
    pub fn file(&self) -> String {
        let mut out = format!("# soc: {}\n", self.soc);
        for (k, v) in &self.options {
            writeln!(out, "# set: {k}={v}").unwrap();
        }
        out + &self.text()
    }

    /// The smallest case that still fails, found by taking away one thing after the other.
    pub fn shrunk(mut self, fails: &dyn Fn(&Case) -> bool) -> Case {
        loop {
            let mut smaller: Vec<Case> = Vec::new();
            for g in 0..self.graphs.len() {
                for n in (0..self.graphs[g].nodes.len()).rev() {
                    if self.graphs[g].nodes[n].dead || (g > 0 && !self.is_named(g)) {
                        continue;
                    }
                    smaller.push(self.without(g, n));
                    if !self.graphs[g].nodes[n].after.is_empty() {
                        let mut c = self.clone();
                        c.graphs[g].nodes[n].after.clear();
                        smaller.push(c);
                    }
                    if !self.graphs[g].nodes[n].attrs.is_empty() {
                        let mut c = self.clone();
                        c.graphs[g].nodes[n].attrs.clear();
                        smaller.push(c);
                    }
                }
            }
            for k in 0..self.graphs[0].more.len() {
                let mut c = self.clone();
                c.graphs[0].more.remove(k);
                smaller.push(c);
            }
            for k in 0..self.options.len() {
                let mut c = self.clone();
                c.options.remove(k);
                smaller.push(c);
            }
            if self.soc != SOCS[0].0 {
                smaller.push(Case { soc: SOCS[0].0, ..self.clone() });
            }
            match smaller.into_iter().find(|c| fails(c)) {
                Some(c) => self = c,
                None => return self,
            }
        }
    }

    /// The case without a node: the readers of the node read its first input, or the graph's input.
    fn without(&self, g: usize, n: usize) -> Case {
        let mut c = self.clone();
        let to = c.graphs[g].nodes[n].inputs.first().copied().unwrap_or(Val::Input);
        c.graphs[g].nodes[n].dead = true;
        let graph = &mut c.graphs[g];
        let all = graph.nodes.iter_mut().flat_map(|o| o.inputs.iter_mut());
        for v in all.chain(graph.output.iter_mut()).chain(graph.more.iter_mut()) {
            if *v == Val::Node(n) {
                *v = to;
            }
        }
        c
    }
}
