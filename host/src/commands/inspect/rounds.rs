//! `--svg FILE --what exec`: draws what the executor decides about a model of unknown shapes. Each
//! graph has a block with its rounds from left to right. Lanes show what is computed while a round
//! is planned, views, the launches of each stream, and what the host does.
use super::svg::{LANE, WIDTH, colour, escape, lane_named, name_in};
use ge_model::CompiledModel;
use ge_runtime::v2::describe::{Exec, Round, Rounds, Step};
use std::fmt::Write;

const LEFT: f64 = 110.0;
const HEAD: f64 = 30.0;
/// Largest width of a step.
const WIDEST: f64 = 150.0;
/// Narrower steps have no name.
const NAMED: f64 = 24.0;

/// Draws the rounds of all graphs.
pub(super) fn draw(m: &CompiledModel, e: &Exec) -> String {
    let mut out = String::new();
    let mut top = HEAD + 10.0;
    for g in &e.main {
        top += block(g, top, &mut out);
    }
    let steps: usize =
        e.main.iter().flat_map(|g| &g.rounds).map(|r| lanes_of(r).map(<[Step]>::len).iter().sum::<usize>()).sum();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" font-family=\"sans-serif\" font-size=\"10\">\n\
         <text x=\"10\" y=\"18\" font-size=\"14\">{} for {}: {} graphs, {steps} steps, executor {}</text>\n{out}</svg>\n",
        escape(&m.name),
        escape(&m.soc.name),
        e.main.len(),
        e.executor.name()
    )
}

/// The steps of a round, in the order in which they are done.
fn lanes_of(r: &Round) -> [&[Step]; 4] {
    [&r.planned, &r.views, &r.device, &r.host]
}

/// Draws one graph below `top`; returns its height.
fn block(g: &Rounds, top: f64, out: &mut String) -> f64 {
    let mut streams: Vec<u32> = g.rounds.iter().flat_map(|r| r.streams.iter().copied()).collect();
    streams.sort_unstable();
    streams.dedup();
    let launches: Vec<String> = match streams.as_slice() {
        [] | [_] => vec!["launches".into()],
        many => many.iter().map(|s| format!("stream {s}")).collect(),
    };
    let names: Vec<String> =
        ["while planning", "views"].map(str::to_owned).into_iter().chain(launches).chain(["host".into()]).collect();
    let count: usize = g.rounds.iter().flat_map(|r| lanes_of(r).map(<[Step]>::len)).sum();
    let width = ((WIDTH - LEFT - 20.0) / count.max(1) as f64).min(WIDEST);
    let told = if g.told { " (a condition that a run tells by itself)" } else { "" };
    let turned = if g.turned { " (in a loop)" } else { "" };
    let _ =
        writeln!(out, "<text x=\"10\" y=\"{}\" font-size=\"12\">{}{told}{turned}</text>", top + 14.0, escape(&g.graph));
    let lane = |k: usize| top + HEAD + k as f64 * LANE;
    for (k, name) in names.iter().enumerate() {
        out.push_str(&lane_named(name, LEFT, lane(k)));
    }
    let mut left = LEFT;
    for (k, r) in g.rounds.iter().enumerate() {
        let _ = writeln!(
            out,
            "<line x1=\"{left:.2}\" x2=\"{left:.2}\" y1=\"{}\" y2=\"{}\" stroke=\"#888\"/><text x=\"{:.2}\" y=\"{}\">round {k}</text>",
            top + 20.0,
            lane(names.len()),
            left + 3.0,
            top + 27.0
        );
        for (kind, list) in lanes_of(r).into_iter().enumerate() {
            for s in list {
                let at = match kind {
                    0 | 1 => kind,
                    2 => 2 + s.stream.and_then(|s| streams.iter().position(|o| *o == s)).unwrap_or(0),
                    _ => names.len() - 1,
                };
                step(s, (left, lane(at), width), out);
                left += width;
            }
        }
    }
    HEAD + names.len() as f64 * LANE + 20.0
}

fn step(s: &Step, (left, top, width): (f64, f64, f64), out: &mut String) {
    let waits = if s.waits { ", behind the launches" } else { "" };
    let _ = writeln!(
        out,
        "<rect x=\"{left:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"><title>{} {}: {}{waits}</title></rect>",
        (width - 1.0).max(0.5),
        LANE - 6.0,
        colour(&s.op),
        escape(&s.op),
        escape(&s.node),
        escape(&s.by)
    );
    if width > NAMED {
        out.push_str(&name_in(&s.node, (left, top, width)));
    }
}
