//! Cutting and merging without plugins: what was cut is put together as it was, and the engines'
//! edits take effect.
use super::*;
use crate::partition::{Round, cut};
use ge_ir::text::{NoFiles, parse, to_string};
use ge_planners::cluster::Fit;
use ge_plugin_api::patch::{Edit, Patch};

fn read(text: &str) -> Model {
    parse(text, "t.ge", &NoFiles).unwrap_or_else(|d| panic!("{}: {text}", d[0].message))
}

/// Cuts by the attribute `_engine`.
fn apart(model: Model) -> Pieces {
    let graphs = model.into_graphs();
    let engines: Vec<Vec<Option<EngineId>>> = graphs
        .iter()
        .map(|g| {
            let number = |n: &ge_ir::Node| n.attrs().str("_engine").and_then(|e| e.parse::<u16>().ok()).map(EngineId);
            g.nodes().map(number).collect()
        })
        .collect();
    let fit = |e: &[Option<EngineId>], a: u32, b: u32| {
        if e[a as usize] == e[b as usize] { Fit::IfDirect } else { Fit::Never }
    };
    let cuts = graphs.iter().zip(&engines).map(|(g, e)| cut::clusters(g, &|a, b| fit(e, a, b))).collect();
    let mut pieces = cut::apart(graphs, cuts, &engines, Round::Atomic);
    // The toolbox of these tests has no engine to name.
    pieces.frames.iter_mut().flat_map(|f| &mut f.pieces).for_each(|p| p.engine = None);
    pieces
}

fn text(m: &Model) -> String {
    to_string(m).expect("prints")
}

/// A random graph with data and control edges, nodes with several outputs, absent inputs, and
/// constants with one reader and with many.
fn random(seed: u64, nodes: usize) -> String {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |n: usize| {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s % n as u64) as usize
    };
    let mut out = format!("graph @g{seed}(%x: f32[2], %y: f32[2]) attributes {{kept = {seed}}} {{\n");
    let mut values = vec!["%x".to_owned(), "%y".to_owned()];
    let mut names = vec!["%x".to_owned()];
    for i in 0..nodes {
        if next(5) == 0 {
            out.push_str(&format!("  %c{i} = Const() {{value = dense<f32[2]: {i} 1>}} : f32[2]\n"));
            values.push(format!("%c{i}"));
            names.push(format!("%c{i}"));
            continue;
        }
        let inputs: Vec<String> =
            (0..1 + next(3))
                .map(|_| {
                    if next(9) == 0 { "_".into() } else { values[values.len() - 1 - next(values.len().min(9))].clone() }
                })
                .collect();
        let mut waits: Vec<String> = (0..next(3)).map(|_| names[next(names.len())].clone()).collect();
        waits.sort();
        waits.dedup();
        let after =
            if waits.is_empty() || next(2) == 0 { String::new() } else { format!(" after({})", waits.join(", ")) };
        let (types, outputs) = match next(3) {
            0 => (": f32[2], f32[2]", vec![format!("%n{i}"), format!("%n{i}#1")]),
            1 if next(4) == 0 => (": ()", vec![]),
            _ => (": f32[2]", vec![format!("%n{i}")]),
        };
        let engine = next(3);
        out.push_str(&format!(
            "  %n{i} = Op{engine}({}) {{_engine = \"{engine}\"}}{after} {types}\n",
            inputs.join(", ")
        ));
        values.extend(outputs);
        names.push(format!("%n{i}"));
    }
    let last = values[values.len() - 1].clone();
    out.push_str(&format!("  return {last}, {}\n}}\n", values[next(values.len())]));
    out
}

#[test]
fn what_was_cut_comes_together_byte_for_byte() {
    let long = std::env::var("GE_LONG").is_ok_and(|v| v == "1");
    let toolbox = Toolbox::bare();
    let mut cuts = 0;
    for seed in 0..if long { 20_000 } else { 400 } {
        let source = random(seed, 1 + (seed as usize * 7) % 60);
        let model = read(&source);
        let before = text(&model);
        let pieces = apart(model);
        cuts += pieces.len();
        for f in &pieces.frames {
            for p in &f.pieces {
                let engines: std::collections::BTreeSet<_> =
                    p.graph.nodes().filter_map(|n| n.attrs().str("_engine")).collect();
                assert!(engines.len() <= 1, "{engines:?}");
            }
        }
        // Through text, as for a dump that is read in again.
        let written = pieces.to_attrs(&toolbox);
        let again = Pieces::from_attrs(read(&text(&written)), &toolbox).expect("reads");
        assert_eq!(text(&again.to_attrs(&toolbox)), text(&written), "seed {seed}");
        assert_eq!(text(&run(again, &toolbox).expect("merges").model), before, "seed {seed}, by text");
        let merged = run(pieces, &toolbox).expect("merges");
        assert!(merged.touched.is_empty());
        assert_eq!(text(&merged.model), before, "seed {seed}");
        assert_eq!(merged.model.difference(&read(&source)), None);
    }
    assert!(cuts > 1000, "{cuts}");
}

#[test]
fn subgraphs_stand_in_topological_order_and_pairs_are_whole() {
    for seed in 0..100 {
        let pieces = apart(read(&random(seed, 40)));
        for f in &pieces.frames {
            let mut ends = std::collections::HashSet::new();
            for p in &f.pieces {
                for n in p.graph.nodes().filter(|n| n.op() == "PlaceHolder") {
                    let data = n.attrs().str("parentOpType").is_some_and(|t| t == "Data" || t == "Const");
                    assert!(data || ends.contains(&n.attrs().int("peerIndex")), "seed {seed}: {}", n.name());
                }
                ends.extend(p.graph.nodes().filter(|n| n.op() == "End").map(|n| n.attrs().int("peerIndex")));
            }
        }
    }
}

const CHAIN: &str = r#"graph @m(%x: f32[2]) {
  %a = Op0(%x) {_engine = "0"} : f32[2]
  %b = Op1(%a) {_engine = "1"} : f32[2]
  %c = Op1(%b) {_engine = "1"} : f32[2]
  %d = Op0(%c) {_engine = "0"} after(%a) : f32[2]
  return %d
}
"#;

/// Edits one subgraph as its engine would.
fn edit(pieces: &mut Pieces, k: usize, f: impl FnOnce(&Graph, &mut Patch)) {
    let p = &mut pieces.frames[0].pieces[k];
    let mut patch = Patch::starting_at(p.graph.next_id());
    f(&p.graph, &mut patch);
    let mut m = Model::from_graphs(vec![std::mem::take(&mut p.graph)]).expect("one");
    let done = m.apply(0, patch.into_edits().into()).expect("legal");
    p.touched.extend(done.added.iter().chain(&done.touched).map(|(_, id)| *id));
    p.graph = m.into_graphs().remove(0);
}

#[test]
fn what_an_engine_has_fused_takes_its_place() {
    let mut pieces = apart(read(CHAIN));
    assert_eq!(pieces.len(), 3);
    edit(&mut pieces, 1, |g, patch| {
        let (b, c) = (g.find("b").expect("b"), g.find("c").expect("c"));
        let fused = patch.add("Fused", "c", b.inputs(), c.outputs().to_vec(), Default::default());
        // A new node that nothing reads.
        patch.add("Op1", "more", b.inputs(), c.outputs().to_vec(), Default::default());
        patch.replace_uses(c.value(0), ValueRef::new(fused, 0));
        patch.remove(c.id());
        patch.remove(b.id());
    });
    let merged = run(pieces, &Toolbox::bare()).expect("merges").model;
    let want = r#"graph @m(%x: f32[2]) {
  %a = Op0(%x) {_engine = "0"} : f32[2]
  %d = Op0(%c_1) {_engine = "0"} after(%a) : f32[2]
  return %d
}
"#;
    let found = text(&merged);
    let kept: Vec<&str> = found.lines().filter(|l| !l.contains("Fused") && !l.contains("more")).collect();
    assert_eq!(kept, want.lines().collect::<Vec<_>>(), "{found}");
    let at = |w: &str| found.find(w).unwrap_or_else(|| panic!("no {w}: {found}"));
    assert!(at("= Fused(%a)") < at("%d = ") && at("%more = Op1(%a)") < at("return"), "{found}");
}

#[test]
fn an_end_that_reads_another_placeholder_is_looked_through() {
    let mut pieces = apart(read(CHAIN));
    // The middle subgraph does nothing any more: its End reads its own PlaceHolder.
    edit(&mut pieces, 1, |g, patch| {
        let (b, c) = (g.find("b").expect("b"), g.find("c").expect("c"));
        let holder = b.input(0).expect("reads");
        patch.replace_uses(c.value(0), holder);
        patch.remove(c.id());
        patch.remove(b.id());
    });
    let merged = run(pieces, &Toolbox::bare()).expect("merges").model;
    assert!(text(&merged).contains("%d = Op0(%a) {_engine = \"0\"} after(%a)"), "{}", text(&merged));
}

#[test]
fn an_end_taken_away_is_told_by_name() {
    let mut pieces = apart(read(CHAIN));
    edit(&mut pieces, 1, |g, patch| {
        let end = g.nodes().find(|n| n.op() == "End").expect("an End");
        patch.remove(end.id());
    });
    let Err(e) = run(pieces, &Toolbox::bare()) else { panic!("merged") };
    let e = e.into_error();
    assert!(e.to_string().contains("`@m_sub_2` stands for `c`"), "{e}");
}

#[test]
fn a_subgraph_becomes_one_node_with_a_body() {
    let mut pieces = apart(read(
        r#"graph @m(%x: f32[2]) {
  %a = Op0(%x) {_engine = "0"} : f32[2]
  %b = Op1(%a) {_engine = "1"} after(%a) : f32[2]
  %c = Op1(%b) {_engine = "1"} : f32[2]
  %d = Op0(%c, %b) {_engine = "0"} : f32[2]
  return %d, %c
}
"#,
    ));
    edit(&mut pieces, 1, |_, patch| {
        let attr = |key: &str, value: ge_ir::AttrValue| Edit::SetGraphAttr(ge_ir::Attr { key: Key::new(key), value });
        patch.push(attr("_composite_node", "FftsPlus".into()));
        patch.push(attr("_slices", 4i64.into()));
    });
    let merged = run(pieces, &Toolbox::bare()).expect("merges").model;
    assert_eq!(
        text(&merged),
        r#"graph @m(%x: f32[2]) {
  %a = Op0(%x) {_engine = "0"} : f32[2]
  %m_sub_1 = FftsPlus(%a) {f = @m_sub_1} after(%a) : f32[2], f32[2]
  %d = Op0(%m_sub_1, %m_sub_1#1) {_engine = "0"} : f32[2]
  return %d, %m_sub_1
}
graph @m_sub_1(%PlaceHolder_1: f32[2]) attributes {_slices = 4, no_need_partition = true} {
  %b = Op1(%PlaceHolder_1) {_engine = "1"} : f32[2]
  %c = Op1(%b) {_engine = "1"} : f32[2]
  return %c, %b
}
"#
    );
    // The body is not cut again.
    let pieces = apart(merged);
    assert!(pieces.frames[1].pieces.is_empty());
}
