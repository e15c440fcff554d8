//! The search of `parallel:N`. It runs list schedules with many settings, then uses priorities
//! learnt from schedules of the reversed graph, then changes priorities at random, and keeps what
//! the exact cost model finds best. Work is counted in nodes placed, never in time, and random
//! numbers come from a fixed seed, so the plan is the same on every machine.
//!
//! If memory counts, a second search follows: schedules that stay closer to an order with little
//! live memory, that use fewer streams, or that place outputs within a limit as they go, followed
//! by changes aimed at what is live at the peak. The smallest arena is kept that costs at most
//! [`PRICE`] more run time.

use super::Aim;
use super::dag::StreamAssignment;
use super::insert::{Inserting, insert_schedule};
use super::list::{Listed, Setting, list_schedule};
use super::lower::lower;
use super::memory::{PlanOrder, frugal_order, live_sum, peak};
use super::model::{Model, measure};
use super::offsets::offsets;
use super::point::{Point, Random};
use crate::events::transitive::Event;

/// Number of nodes placed by all list schedules of one search, for graphs of up to [`FULL`] nodes.
const STEPS: usize = 1_200_000;
/// Up to this many nodes the search has all its steps; beyond it, they shrink with the third power.
const FULL: usize = 20_000;
/// Up to this many nodes the outputs of every tried plan are placed; beyond it, the greatest live
/// sum in the plan's order stands for its arena.
const MEASURED: usize = 50_000;
/// Up to this many nodes the memory assigners search for places.
const PLACED: usize = 1_400;
/// Number of memory ranges examined in the time that it takes to place a node.
const LOOKS: usize = 24;
/// Additional run time that less memory may cost with `balanced`, in thousandths of the fastest
/// plan.
const PRICE: u64 = 49;
/// How much worse an accepted step of the memory search may be at the beginning, in 1/4096.
const TAU: usize = 16;

/// A plan with its events and its run time.
#[derive(Clone)]
pub(crate) struct Found {
    pub assignment: StreamAssignment,
    pub events: Vec<Event>,
    pub span: u64,
}

struct Search<'m, 'a, const W: usize> {
    m: &'m Model<'a>,
    best: Found,
    left: usize,
    /// Lower bound of the run time.
    bound: u64,
    /// If memory counts: the arena of the best plan, and the run time that it may have.
    memory: Option<(u64, u64)>,
    /// If memory counts: an order of all nodes that keeps little memory live.
    frugal: Vec<u32>,
    /// For the plan whose arena was computed last: the node at its peak, followed by the tensors
    /// that were live then.
    peak: Vec<u32>,
}

/// Finds streams, order and events for the whole graph.
pub(crate) fn search<const W: usize>(m: &Model<'_>, aim: Aim) -> Found {
    let n = m.dag.len();
    let single = StreamAssignment::single(m.dag);
    if n == 0 {
        return Found { assignment: single, events: Vec::new(), span: 0 };
    }
    // Small graphs are soon searched completely; large ones take long for a single placement.
    let steps =
        if n <= FULL { STEPS.min(24 * n * n) } else { (STEPS as f64 * (FULL as f64 / n as f64).powi(3)) as usize };
    // All plain nodes on one stream: every other plan must be better than this.
    let alone = if m.streams == m.plain {
        Found { assignment: single, events: Vec::new(), span: m.dag.work() }
    } else {
        let setting = Setting {
            plain: m.plain.min(1),
            path: 100,
            wait: m.events.pair() / 2,
            look: 8,
            lean: 0,
            ..Setting::default()
        };
        let assignment = list_schedule::<W>(m, &setting, &m.tails(0), &[], &[]).assignment;
        let (events, span) = measure(m, &assignment);
        Found { assignment, events, span }
    };
    let mut s = Search::<W> {
        m,
        best: alone,
        left: steps.max(2 * n),
        bound: m.lower_bound(),
        memory: None,
        frugal: Vec::new(),
        peak: Vec::new(),
    };
    s.inserted();
    let mut points = s.starts();
    points.truncate(3);
    s.learn(&mut points);
    s.shake(points);
    if aim != Aim::Speed && m.dag.nodes.iter().any(|d| d.out_bytes > 0) {
        s.left = (2 * steps).max(3 * n);
        let limit = match aim {
            Aim::Memory => u64::MAX,
            _ => s.best.span.saturating_add(s.best.span / 1000 * PRICE),
        };
        let quickest = s.best.clone();
        s.memory = Some((s.arena(&quickest.assignment), limit));
        s.frugal = frugal_order(m.dag);
        let mean = m.dag.work() / n as u64;
        let points = s.thrifty(mean);
        s.ratchet(mean, s.left / 2);
        s.shake(points);
        // What counts in the end is the size of the arena once the outputs are placed.
        let arena = |f: &Found| offsets(m.dag, &f.assignment).1;
        if quickest.span <= s.best.span && arena(&quickest) <= arena(&s.best) {
            s.best = quickest;
        }
    }
    s.best
}

impl<const W: usize> Search<'_, '_, W> {
    /// Schedules and evaluates one setting. Returns `None` if the steps are spent or nothing can be
    /// gained. The cost is the run time, or the arena with a penalty for run time beyond its limit.
    fn try_one(&mut self, setting: Setting, tail: &[u64], leans: &[u32]) -> Option<(u64, Listed)> {
        let n = self.m.dag.len();
        if self.left < n || (self.memory.is_none() && self.best.span <= self.bound) {
            return None;
        }
        self.left -= n;
        let listed = list_schedule::<W>(self.m, &setting, tail, leans, &self.frugal);
        self.left = self.left.saturating_sub(listed.looked / LOOKS);
        let (events, span) = measure(self.m, &listed.assignment);
        let cost = self.keep(&listed, events, span);
        Some((cost, listed))
    }

    fn arena(&mut self, a: &StreamAssignment) -> u64 {
        if a.order.len() > MEASURED {
            // This is accurate enough, and linear.
            self.peak.clear();
            return live_sum(self.m.dag, &a.order);
        }
        // The more nodes, the more ranges the arena has at once.
        let each = if a.order.len() > FULL { 8 } else { 2 };
        self.left = self.left.saturating_sub(each * a.order.len());
        let found = peak(self.m.dag, a, &PlanOrder::new(self.m.dag, a));
        self.peak = found.tensors;
        // If the assigners place the tensors in the end, the live sum tells more than the arena
        // from placement in order.
        if a.order.len() > PLACED { found.arena } else { found.arena / 4 + found.held / 4 * 3 }
    }

    /// Keeps the plan if it is better; among equals, the one with fewer streams. Returns its cost.
    fn keep(&mut self, listed: &Listed, events: Vec<Event>, span: u64) -> u64 {
        let a = &listed.assignment;
        if let Some((least, limit)) = self.memory {
            // Far beyond the limit, the arena tells nothing.
            if span / 5 > limit / 4 {
                return u64::MAX;
            }
            let arena = self.arena(a);
            if span <= limit {
                if (arena, span) < (least, self.best.span) {
                    self.best = Found { assignment: a.clone(), events, span };
                    self.memory = Some((arena, limit));
                }
                return arena;
            }
            let beyond = (span - limit) as f64 / limit as f64;
            return (arena as f64 * (1.0 + 4.0 * beyond)) as u64;
        }
        let used = |a: &StreamAssignment| {
            let mut seen = vec![false; self.m.streams as usize];
            a.stream.iter().for_each(|s| seen[*s as usize] = true);
            seen.iter().filter(|s| **s).count()
        };
        let best = &self.best;
        if span < best.span || (span == best.span && used(a) < used(&best.assignment)) {
            self.best = Found { assignment: a.clone(), events, span };
        }
        span
    }

    /// N, and successive halves down to 2.
    fn widths(&self) -> Vec<u32> {
        let mut widths = vec![self.m.plain];
        while let Some(w) = widths.last().copied().filter(|w| *w > 2) {
            widths.push(w.div_ceil(2));
        }
        widths
    }

    /// Runs the portfolio of settings and returns the best points, best first.
    fn starts(&mut self) -> Vec<Point> {
        let m = self.m;
        let pair = m.events.pair();
        let look = if m.dag.len() > 50_000 { 4 } else { 16 };
        let tails = if pair == 0 { vec![m.tails(0)] } else { vec![m.tails(pair / 2), m.tails(pair)] };
        let paths: &[u64] = &[100, 700, 20, 300, 1000];
        let waits: &[u64] = if pair == 0 { &[0] } else { &[4, 8, 2, 0, 16] };
        let mut points: Vec<Point> = Vec::new();
        for plain in self.widths() {
            let here = waits.iter().flat_map(|wait| paths.iter().map(move |path| (*wait, *path)));
            for (k, (wait, path)) in here.enumerate() {
                let setting = Setting { plain, path, wait: wait * pair / 8, look, ..Setting::default() };
                let tail = &tails[k % tails.len()];
                let Some((cost, _)) = self.try_one(setting, tail, &[]) else { return points };
                add(&mut points, Point { setting, tail: tail.clone(), leans: Vec::new(), cost, peak: Vec::new() });
                // A width that is far behind does not catch up.
                if k + 1 == paths.len() && points[0].setting.plain != plain && cost / 11 > points[0].cost / 10 {
                    break;
                }
            }
        }
        points
    }

    /// Tries all settings as long as `until` steps are left; returns the best points, best first.
    fn first(&mut self, all: impl Iterator<Item = (Setting, Vec<u64>)>, until: usize) -> Vec<Point> {
        let mut out: Vec<Point> = Vec::new();
        for (setting, tail) in all {
            let Some((cost, _)) = self.try_one(setting, &tail, &[]).filter(|_| self.left >= until) else { break };
            add(&mut out, Point { setting, tail, leans: Vec::new(), cost, peak: Vec::new() });
        }
        out
    }

    /// Tries schedules that stay closer and closer to an order with little live memory, that use
    /// fewer streams, and that place outputs within a limit as they go.
    fn thrifty(&mut self, mean: u64) -> Vec<Point> {
        let m = self.m;
        let n = m.dag.len() as u64;
        let tails = m.tails(m.events.pair() / 2);
        let longest = tails.iter().copied().max().unwrap_or(0);
        let mut rank = vec![0u64; m.dag.len()];
        for (&v, k) in self.frugal.iter().zip(0u64..) {
            rank[v as usize] = n - k;
        }
        // `share` is the weight of the frugal order in a priority, in 1/8.
        let mixed = |share: u64| -> Vec<u64> {
            let by_order = |r: u64| (u128::from(longest) * u128::from(r) / u128::from(n)) as u64;
            tails.iter().zip(&rank).map(|(&t, &r)| t / 8 * (8 - share) + by_order(r) / 8 * share).collect()
        };
        let least = live_sum(m.dag, &self.frugal);
        // An average output weighs as much as the run time of an average node.
        let bytes = m.dag.nodes.iter().map(|d| d.out_bytes).fold(0u64, u64::saturating_add) / n;
        let even = (u128::from(mean) * 1024 / u128::from(bytes.max(1))) as u64;
        let mut widths = self.widths();
        widths.push(1);
        let mut loose = Vec::new();
        for &plain in &widths {
            for share in [8, 4, 0, 2] {
                for weight in [even / 2, 0, even * 2, even / 8] {
                    for (wait, path, look) in [(mean / 2, 100, 8), (mean / 8, 700, 4), (mean * 2, 300, 16)] {
                        let wait = wait + m.events.pair() / 4;
                        loose.push((Setting { plain, path, wait, look, bytes: weight, ..Setting::default() }, share));
                    }
                }
            }
        }
        // All plain streams, with a limit on the arena.
        let most = self.memory.map_or(least, |(arena, _)| arena).max(least);
        let mut capped = Vec::new();
        for share in [0, 8] {
            for part in [8, 5, 3, 10, 0] {
                for (wait, path, look) in [(mean / 8, 300, 16), (0, 100, 8), (mean / 2, 700, 16)] {
                    let wait = wait + m.events.pair() / 4;
                    let cap = least + (most - least) / 16 * part;
                    capped.push((Setting { plain: m.plain, path, wait, look, cap, ..Setting::default() }, share));
                }
            }
        }
        // Neither group may use all steps, and none are spent on limits if the result already fits
        // where one stream does.
        let all = self.left;
        let mut points = self.first(loose.into_iter().map(|(s, share)| (s, mixed(share))), all / 2);
        self.ratchet(mean, all / 3);
        if self.memory.is_some_and(|(arena, _)| arena > least) {
            points.append(&mut self.first(capped.into_iter().map(|(s, share)| (s, mixed(share))), self.left / 2));
            points.sort_by_key(|p| p.cost);
        }
        points
    }

    /// Starting from the best plan, repeatedly schedules the same order and streams, as far as
    /// possible, with a slightly lower memory limit, as long as that helps and `until` steps are
    /// left.
    fn ratchet(&mut self, mean: u64, until: usize) {
        let tries =
            [(984, 8, 4), (984, 1, 16), (960, 8, 16), (996, 8, 4), (930, 2, 8), (960, 0, 8), (984, 0, 16), (996, 2, 8)];
        'again: loop {
            let Some((least, _)) = self.memory else { return };
            let from = self.point(mean);
            for (cut, lean, look) in tries {
                let cap = (u128::from(least) * cut / 1000) as u64;
                let setting = Setting { lean: mean * lean / 8, look, cap, ..from.setting };
                let Some(_) = self.try_one(setting, &from.tail, &from.leans).filter(|_| self.left >= until) else {
                    return;
                };
                if self.memory.is_some_and(|(now, _)| now < least) {
                    continue 'again;
                }
            }
            return;
        }
    }

    /// Alternates forward and backward schedules by insertion, starting from the plain paths.
    fn inserted(&mut self) {
        let m = self.m;
        let n = m.dag.len();
        let reversed = m.dag.reversed();
        let back = m.backwards(&reversed);
        let pair = m.events.pair();
        let waits: &[u64] = if pair == 0 { &[0] } else { &[2, 6] };
        let rounds = if n > 5000 { 3 } else { 8 };
        for &wait in waits {
            let s = Inserting { plain: m.plain, wait: wait * pair / 8 };
            let mut tail = m.tails(pair / 2);
            let mut sends: Vec<u32> = vec![0; n];
            let mut last = u64::MAX;
            for round in 0..rounds {
                if self.best.span <= self.bound || self.left < 8 * n {
                    return;
                }
                self.left -= 8 * n;
                let ahead = insert_schedule(m, &s, &tail, &sends);
                let (events, span) = measure(m, &ahead.assignment);
                if pair > 0 {
                    sends = vec![0; n];
                    for e in &events {
                        sends[e.send as usize] += 1;
                    }
                }
                self.keep(&ahead, events, span);
                if round > 2 && span >= last {
                    break;
                }
                last = span;
                tail = insert_schedule(&back, &s, &ahead.end, &vec![0; n]).end;
            }
        }
    }

    /// Alternates forward and backward schedules: the end of a node in one is its priority in the
    /// other.
    fn learn(&mut self, points: &mut [Point]) {
        let reversed = self.m.dag.reversed();
        let back = self.m.backwards(&reversed);
        let n = self.m.dag.len();
        for point in points {
            let mut tail = point.tail.clone();
            let setting = point.setting;
            for _ in 0..4 {
                let Some((cost, ahead)) = self.try_one(setting, &tail, &[]) else { return };
                if cost < point.cost {
                    *point = Point { setting, tail: tail.clone(), leans: Vec::new(), cost, peak: Vec::new() };
                }
                if self.left < n {
                    return;
                }
                self.left -= n;
                tail = list_schedule::<W>(&back, &setting, &ahead.end, &[], &[]).end;
            }
        }
    }

    /// Starting from the best points, randomly changes the priorities of some nodes, the preferred
    /// streams of some, and one weight.
    fn shake(&mut self, mut points: Vec<Point>) {
        let m = self.m;
        let mut rng = Random(0x9e37_79b9_7f4a_7c15);
        points.truncate(3);
        let mean = m.dag.work() / m.dag.len().max(1) as u64;
        // The best plan itself: its order as priorities and its streams as preferences.
        points.push(self.point_of_best(mean));
        let mut region: Vec<u32> = Vec::new();
        let all = self.left.max(1);
        for round in 0usize.. {
            points.sort_by_key(|p| p.cost);
            let at = if round % 3 == 0 { rng.below(points.len() as u64) as usize } else { 0 };
            let mut p = points[at].clone();
            let aimed = !p.peak.is_empty() && rng.below(4) > 0;
            if aimed {
                lower(m, &mut p, &mut rng, mean);
            }
            if !aimed && !p.leans.is_empty() && rng.below(4) > 0 {
                // A few connected nodes move to another stream.
                for _ in 0..=rng.below(3) {
                    let to = rng.below(u64::from(p.setting.plain)) as u32;
                    let size = 1 + rng.below(12) as usize;
                    region.clear();
                    region.push(rng.below(m.dag.len() as u64) as u32);
                    while region.len() < size {
                        let v = region[rng.below(region.len() as u64) as usize];
                        let (before, behind) = (m.dag.pred.row(v), m.dag.succ.row(v));
                        let k = rng.below((before.len() + behind.len()).max(1) as u64) as usize;
                        match before.iter().chain(behind).nth(k) {
                            Some(&w) => region.push(w),
                            None => break,
                        }
                    }
                    region.iter().for_each(|&v| p.leans[v as usize] = to);
                }
            }
            if !aimed && (p.leans.is_empty() || rng.below(2) == 0) {
                let amount = [8, 32, 128, 512][rng.below(4) as usize];
                let share = [2, 8, 32, 128][rng.below(4) as usize];
                for t in &mut p.tail {
                    if rng.below(share) == 0 {
                        let change = rng.below(2 * amount + 1) as i64 - amount as i64;
                        *t = t.saturating_add_signed((*t as i64 / 1024).saturating_mul(change));
                    }
                }
            }
            let s = &mut p.setting;
            let factor = [512, 800, 1300, 2048][rng.below(4) as usize];
            match rng.below(if aimed {
                60
            } else if self.memory.is_some() {
                14
            } else {
                12
            }) {
                0 => s.path = (s.path * factor / 1024).clamp(5, 4000),
                1 => s.wait = (s.wait * factor / 1024).min(100 * mean),
                2 => s.look = [1, 2, 4, 8, 16, 24][rng.below(6) as usize],
                3 => s.bytes = (s.bytes * factor / 1024).min(1 << 30),
                4 => s.lean = (s.lean * factor / 1024).min(100 * mean),
                12 | 13 => s.cap = s.cap / 64 * [56, 61, 63, 65, 67, 72][rng.below(6) as usize],
                _ => {}
            }
            let Some((cost, _)) = self.try_one(p.setting, &p.tail, &p.leans) else { return };
            p.cost = cost;
            p.peak.clone_from(&self.peak);
            // A slightly worse result is also accepted, but less and less so.
            let tau = if self.memory.is_some() { TAU * self.left / all } else { 0 };
            let worse = (points[at].cost / 4096).saturating_mul(tau as u64);
            if cost <= points[at].cost.saturating_add(worse) {
                points[at] = p;
            }
        }
    }

    /// A point at which the list schedule gives the best plan, or one close to it.
    fn point_of_best(&mut self, mean: u64) -> Point {
        let mut point = self.point(mean);
        point.cost = self.try_one(point.setting, &point.tail, &point.leans).map_or(u64::MAX, |(cost, _)| cost);
        point.peak.clone_from(&self.peak);
        point
    }

    /// A point with the best plan's order as priorities and its streams as preferences; its cost is
    /// unknown.
    fn point(&self, mean: u64) -> Point {
        let m = self.m;
        let n = m.dag.len() as u64;
        let mut tail = vec![0u64; m.dag.len()];
        for (&v, k) in self.best.assignment.order.iter().zip(0u64..) {
            tail[v as usize] = (n - k) * mean.max(1);
        }
        let setting = Setting {
            plain: m.plain,
            path: 300,
            wait: m.events.pair() / 4,
            look: 4,
            lean: mean,
            cap: self.memory.map_or(0, |m| m.0),
            ..Setting::default()
        };
        Point { setting, tail, leans: self.best.assignment.stream.clone(), cost: u64::MAX, peak: self.peak.clone() }
    }
}

/// Adds a point and keeps the best few, best first.
fn add(points: &mut Vec<Point>, point: Point) {
    points.push(point);
    points.sort_by_key(|p| p.cost);
    points.truncate(8);
}
