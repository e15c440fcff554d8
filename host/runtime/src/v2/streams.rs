//! Streams of a round (004 §4.2): the stream of each launch, and the smallest set of events that
//! keeps their order.
//!
//! Launches come in the order of the plan. Each has a vector clock: the number of launches of every
//! stream that are over when it is over. A launch waits only for launches that its stream does not
//! already know to be over, and never for one that another of its waits implies; so no event can be
//! left out. The same clocks tell which tensors may share memory (`arena.rs`).
use super::graph::Graph;
use crate::stream_pool::MAX_STREAMS;
use ge_plugin_api::device::SocSpec;
use std::collections::HashMap;

/// SQEs for waiting on an event: the wait and the reset (facts 1.2).
const WAIT_SQES: usize = 2;

/// The limits that a SoC sets for a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// SQEs of a normal stream.
    pub(crate) normal: usize,
    /// SQEs of the longest kind of stream.
    pub(crate) longest: usize,
    /// Number of streams that are longer than a normal one.
    pub(crate) huge: usize,
    /// Number of streams.
    pub(crate) streams: usize,
    /// Number of event ids.
    pub(crate) events: usize,
}

impl Limits {
    /// The limits of a SoC. Each stream but the first needs an event that joins it at the end of a
    /// round.
    pub(crate) fn of(soc: &SocSpec) -> Limits {
        let number = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let some = |n: u32| if n == 0 || soc.unlimited_depth { usize::MAX } else { number(n) };
        let huge = if soc.streams_huge > 0 { soc.tasks_huge } else { 0 };
        let streams = if soc.streams_normal == 0 { usize::MAX } else { number(soc.streams_normal) };
        let events = number(soc.max_events);
        Limits {
            normal: some(soc.tasks_normal),
            longest: some(soc.tasks_normal.max(huge)),
            huge: number(soc.streams_huge),
            streams: streams.min(MAX_STREAMS).min(events.saturating_add(1)),
            events,
        }
    }
}

/// A launch on its stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placed {
    /// Index of its stream among those of the round.
    pub(crate) stream: usize,
    /// By stream, the number of launches that are over when this one is over, itself included.
    clock: Vec<u32>,
    /// Launches on other streams that it waits for.
    pub(crate) waits: Vec<u32>,
}

/// The streams of a round.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    limits: Limits,
    /// The logical stream of each, in the order of their first launches.
    pub(crate) logical: Vec<u32>,
    /// SQEs of each stream.
    sqes: Vec<usize>,
    /// The last launch of each stream.
    last: Vec<u32>,
    pub(crate) launches: Vec<Placed>,
    events: usize,
}

impl Streams {
    /// A round without launches.
    pub(crate) fn new(limits: Limits) -> Streams {
        let none = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Streams { limits, logical: none.0, sqes: none.1, last: none.2, launches: none.3, events: 0 }
    }

    /// Puts the next launch on a logical stream, ordered after `deps`. Returns `false` if the round
    /// has no room for it. If the SoC has too few streams or events, several logical streams share
    /// one.
    pub(crate) fn add(&mut self, logical: u32, sqes: usize, deps: &[u32]) -> bool {
        let logical = logical % u32::try_from(self.limits.streams.max(1)).unwrap_or(u32::MAX);
        let found = self.logical.iter().position(|l| *l == logical);
        let stream = found.unwrap_or(self.logical.len());
        let mut placed = self.placed(stream, deps);
        if !self.launches.is_empty() && !self.has_room(&placed, sqes) {
            return false;
        }
        if found.is_none() {
            self.logical.push(logical);
            self.sqes.push(0);
            self.last.push(0);
        }
        placed.clock.resize(self.logical.len().max(placed.clock.len()), 0);
        placed.clock[stream] += 1;
        for a in &placed.waits {
            self.sqes[self.launches[*a as usize].stream] += 1;
        }
        self.sqes[stream] += sqes + WAIT_SQES * placed.waits.len();
        self.events += placed.waits.len();
        self.last[stream] = self.launches.len() as u32;
        self.launches.push(placed);
        true
    }

    /// A task on `stream` after `deps`: what it waits for, and its clock after the waits.
    fn placed(&self, stream: usize, deps: &[u32]) -> Placed {
        let own = self.last.get(stream).map(|l| &self.launches[*l as usize].clock);
        let mut clock = own.cloned().unwrap_or_default();
        let at = |a: u32| &self.launches[a as usize];
        // Of each stream only the latest launch; the others are before it.
        let mut latest: Vec<u32> = Vec::new();
        for a in deps.iter().copied().filter(|a| at(*a).stream != stream && !at(*a).is_known(&clock)) {
            match latest.iter_mut().find(|b| at(**b).stream == at(a).stream) {
                Some(b) => *b = a.max(*b),
                None => latest.push(a),
            }
        }
        let implied = |a: u32| latest.iter().any(|b| *b != a && at(a).is_known(&at(*b).clock));
        let mut waits: Vec<u32> = latest.iter().copied().filter(|a| !implied(*a)).collect();
        waits.sort_unstable();
        for a in &waits {
            let other = &at(*a).clock;
            clock.resize(clock.len().max(other.len()), 0);
            clock.iter_mut().zip(other).for_each(|(c, o)| *c = (*c).max(*o));
        }
        clock.resize(clock.len().max(stream + 1), 0);
        Placed { stream, clock, waits }
    }

    /// Whether streams and events suffice for one more launch and the end of the round, which is on
    /// one of the streams and waits for at most all the others.
    fn has_room(&self, placed: &Placed, sqes: usize) -> bool {
        let many = self.logical.len().max(placed.stream + 1);
        let used = |s: usize| {
            let records = placed.waits.iter().filter(|a| self.launches[**a as usize].stream == s).count();
            let own = if s == placed.stream { sqes + WAIT_SQES * placed.waits.len() } else { 0 };
            let end = 1 + WAIT_SQES * (many - 1);
            self.sqes.get(s).copied().unwrap_or(0) + records + own + end
        };
        let longer = (0..many).filter(|s| used(*s) > self.limits.normal).count();
        (0..many).all(|s| used(s) <= self.limits.longest)
            && longer <= self.limits.huge
            && self.events + placed.waits.len() + many - 1 <= self.limits.events
    }

    /// The stream on which the round ends: the main stream (facts 1.13) if it is used, otherwise
    /// that of the last launch.
    pub(crate) fn of_end(&self) -> usize {
        let main = self.logical.iter().position(|l| *l == 0);
        main.unwrap_or_else(|| self.launches.last().map_or(0, |l| l.stream))
    }
    /// The launches that the end of the round waits for: the last ones of the other streams.
    pub(crate) fn end(&self) -> Vec<u32> {
        self.placed(self.of_end(), &self.last).waits
    }
    /// Number of events of the round, including those of its end.
    pub(crate) fn events(&self) -> usize {
        if self.launches.is_empty() { 0 } else { self.events + self.end().len() }
    }
    /// Whether a stream has more SQEs than a normal one.
    pub(crate) fn is_huge(&self, stream: usize) -> bool {
        let end = self.end();
        let records = end.iter().filter(|a| self.launches[**a as usize].stream == stream).count();
        let own = if stream == self.of_end() { 1 + WAIT_SQES * end.len() } else { 0 };
        self.limits.longest > self.limits.normal && self.sqes[stream] + records + own > self.limits.normal
    }

    /// Whether launch `a` is over before launch `b` begins under every schedule.
    pub(crate) fn is_before(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.launches[a as usize], &self.launches[b as usize]);
        let at = a.clock[a.stream];
        let known = b.clock.get(a.stream).copied().unwrap_or(0);
        if a.stream == b.stream { at < known } else { at <= known }
    }
    /// Whether launch `a` is over before any launch from `next` on begins. `heads` is the last
    /// earlier launch of each stream.
    pub(crate) fn is_over_for_all(&self, a: u32, next: u32, heads: &[Option<u32>]) -> bool {
        let knows = |h: u32| self.launches[a as usize].is_known(&self.launches[h as usize].clock);
        let mut going = heads.iter().zip(&self.last).filter(|(_, last)| **last >= next);
        going.all(|(head, _)| head.is_some_and(knows))
    }
}

impl Placed {
    /// Whether the launch is over according to a clock.
    fn is_known(&self, clock: &[u32]) -> bool {
        clock.get(self.stream).is_some_and(|c| *c >= self.clock[self.stream])
    }
}

/// The launches that must precede the values and nodes of a round.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// The launch that makes each value; for a view, that of the viewed value.
    made: Vec<Option<u32>>,
    /// The launch of each node.
    launch: Vec<Option<u32>>,
    /// Number of launches.
    launches: u32,
    /// Launches that must precede a node without a launch because of control edges.
    controls: HashMap<u32, Vec<u32>>,
    /// The same for the values of such a node.
    values: HashMap<u32, Vec<u32>>,
}

impl Behind {
    /// The state before anything of a graph is launched.
    pub(crate) fn new(graph: &Graph) -> Behind {
        Behind {
            made: vec![None; graph.values()],
            launch: vec![None; graph.nodes.len()],
            launches: 0,
            controls: HashMap::new(),
            values: HashMap::new(),
        }
    }
    /// The launches that must precede a node.
    pub(crate) fn of(&self, graph: &Graph, node: u32) -> Vec<u32> {
        let reads = graph.nodes[node as usize].inputs.iter().flatten();
        let mut out: Vec<u32> = reads.filter_map(|v| self.made[*v as usize]).collect();
        out.extend(self.by_controls(graph, node));
        out.sort_unstable();
        out.dedup();
        out
    }
    /// The launches that must precede a node, apart from those that make its inputs.
    fn by_controls(&self, graph: &Graph, node: u32) -> Vec<u32> {
        let n = &graph.nodes[node as usize];
        let mut out: Vec<u32> =
            n.inputs.iter().flatten().filter_map(|v| self.values.get(v)).flatten().copied().collect();
        for c in &n.controls {
            out.extend(self.launch[*c as usize]);
            out.extend(self.controls.get(c).into_iter().flatten());
        }
        out
    }
    /// Records that a value is a view of another value's memory.
    pub(crate) fn shows(&mut self, v: u32, root: u32) {
        if let Some(launch) = self.made[root as usize] {
            self.made[v as usize] = Some(launch);
        }
    }
    /// Records that a node is the next launch.
    pub(crate) fn launched(&mut self, graph: &Graph, node: u32) {
        let launch = Some(self.launches);
        self.launches += 1;
        self.launch[node as usize] = launch;
        graph.nodes[node as usize].outputs.iter().for_each(|v| self.made[*v as usize] = launch);
    }
    /// Records that a node is done without a launch; `shows` is the value that its outputs view.
    pub(crate) fn done(&mut self, graph: &Graph, node: u32, shows: Option<u32>) {
        let n = &graph.nodes[node as usize];
        if let Some(root) = shows {
            n.outputs.iter().for_each(|v| self.shows(*v, root));
        }
        let behind = self.by_controls(graph, node);
        if !behind.is_empty() {
            self.values.extend(n.outputs.iter().map(|v| (*v, behind.clone())));
            self.controls.insert(node, behind);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn chance(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        }
    }
    const NO_LIMITS: Limits =
        Limits { normal: usize::MAX, longest: usize::MAX, huge: 0, streams: MAX_STREAMS, events: usize::MAX >> 1 };

    /// A round of random launches, and the launches that each must follow.
    pub(crate) struct Drawn {
        pub(crate) streams: Streams,
        pub(crate) deps: Vec<Vec<u32>>,
        tasks: Vec<usize>,
    }
    pub(crate) fn drawn(next: &mut dyn FnMut(u64) -> u64, wide: u64, limits: Limits) -> Drawn {
        let mut out = Drawn { streams: Streams::new(limits), deps: Vec::new(), tasks: Vec::new() };
        let (many, near) = (1 + next(24), 1 + next(24));
        for k in 0..many {
            let mut deps: Vec<u32> =
                (0..next(4)).filter(|_| k > 0).map(|_| (k - 1 - next(near.min(k))) as u32).collect();
            deps.sort_unstable();
            deps.dedup();
            let tasks = 1 + next(3) as usize;
            if !out.streams.add(next(wide) as u32, tasks, &deps) {
                break;
            }
            out.deps.push(deps);
            out.tasks.push(tasks);
        }
        out
    }

    /// The recording and the waiting launch of each event; the end of the round is numbered after
    /// all launches.
    fn events(s: &Streams) -> Vec<(usize, usize)> {
        let own = s.launches.iter().enumerate().flat_map(|(k, p)| p.waits.iter().map(move |a| (*a as usize, k)));
        own.chain(s.end().into_iter().map(|a| (a as usize, s.launches.len()))).collect()
    }
    /// The full order given by streams and events, computed over all paths by brute force.
    pub(crate) fn closure(s: &Streams, events: &[(usize, usize)]) -> Vec<Vec<bool>> {
        let stream: Vec<usize> = s.launches.iter().map(|p| p.stream).chain([s.of_end()]).collect();
        let n = stream.len();
        let mut before: Vec<Vec<bool>> =
            (0..n).map(|a| (0..n).map(|b| a < b && stream[a] == stream[b]).collect()).collect();
        events.iter().for_each(|(a, b)| before[*a][*b] = true);
        for via in 0..n {
            for a in 0..n {
                for b in 0..n {
                    before[a][b] |= before[a][via] && before[via][b];
                }
            }
        }
        before
    }
    fn holds(d: &Drawn, events: &[(usize, usize)]) -> bool {
        let before = closure(&d.streams, events);
        let end = d.deps.len();
        (0..end).all(|b| before[b][end] && d.deps[b].iter().all(|a| before[*a as usize][b]))
    }

    #[test]
    fn every_dependency_is_ordered_and_no_event_can_be_left_out() {
        let mut next = chance(1);
        let mut most = 0;
        for _ in 0..3000 {
            let wide = 1 + next(6);
            let d = drawn(&mut next, wide, NO_LIMITS);
            let all = events(&d.streams);
            assert_eq!(
                (all.len(), all.is_empty()),
                (d.streams.events(), d.streams.logical.len() == 1 || all.is_empty())
            );
            assert!(holds(&d, &all), "{:?} {:?}", d.streams, d.deps);
            for left_out in 0..all.len() {
                let fewer: Vec<_> = all.iter().enumerate().filter(|(k, _)| *k != left_out).map(|(_, e)| *e).collect();
                assert!(!holds(&d, &fewer), "{:?} {:?}: {:?}", d.streams, d.deps, all[left_out]);
            }
            // The clocks agree with the paths.
            let before = closure(&d.streams, &all);
            for (a, b) in (0..d.deps.len()).flat_map(|a| (0..d.deps.len()).map(move |b| (a, b))) {
                assert_eq!(d.streams.is_before(a as u32, b as u32), before[a][b], "{:?} {a} {b}", d.streams);
            }
            most = most.max(all.len());
        }
        assert!(most > 10);
    }

    #[test]
    fn streams_and_events_of_a_round_are_within_the_limits() {
        let mut next = chance(2);
        let (mut full, mut huge) = (0, 0);
        for _ in 0..3000 {
            let normal = 8 + next(12) as usize;
            let huge_streams = next(3) as usize;
            let longest = if huge_streams > 0 { normal + next(9) as usize } else { normal };
            let events = next(9) as usize;
            let streams = (1 + next(5) as usize).min(events + 1);
            let limits = Limits { normal, longest, huge: huge_streams, streams, events };
            let (wide, before) = (1 + next(7), next(1 << 20));
            let d = drawn(&mut chance(before), wide, limits);
            full += usize::from(d.deps.len() < drawn(&mut chance(before), wide, NO_LIMITS).deps.len());
            let s = &d.streams;
            let mut used = vec![0; s.logical.len()];
            s.launches.iter().zip(&d.tasks).for_each(|(p, n)| used[p.stream] += n);
            used[s.of_end()] += 1;
            let all = super::tests::events(s);
            for (a, b) in &all {
                used[s.launches[*a].stream] += 1;
                used[s.launches.get(*b).map_or(s.of_end(), |p| p.stream)] += 2;
            }
            assert!(all.len() <= events && used.len() <= streams && holds(&d, &all), "{s:?}");
            assert!(used.iter().all(|n| *n <= longest), "{used:?} {limits:?}");
            let longer = used.iter().filter(|n| **n > normal).count();
            assert!(longer <= huge_streams, "{used:?} {limits:?}");
            assert!((0..used.len()).all(|k| s.is_huge(k) == (used[k] > normal)), "{used:?} {limits:?}");
            huge += longer;
        }
        assert!(full > 100 && huge > 10, "{full} {huge}");
    }

    #[test]
    fn one_stream_has_as_many_tasks_as_before_and_no_event() {
        let mut s = Streams::new(Limits { normal: 7, longest: 7, ..NO_LIMITS });
        assert!(s.add(0, 3, &[]) && s.add(0, 3, &[0]) && !s.add(0, 1, &[]));
        assert_eq!((s.events(), s.is_huge(0)), (0, false));
        // A single launch that is too long is left for the device to refuse.
        assert!(Streams::new(Limits { normal: 7, longest: 7, ..NO_LIMITS }).add(0, 9, &[]));
        // Without events there is only one stream.
        let soc = SocSpec { tasks_normal: 7, streams_normal: 4, max_events: 0, ..SocSpec::default() };
        let mut s = Streams::new(Limits::of(&soc));
        assert!((0..5).all(|k| s.add(k, 1, &[])) && s.logical == [0]);
    }

    #[test]
    fn what_a_node_without_a_task_waits_for_its_readers_wait_for() {
        let node = |inputs: &[u32], output: u32, controls: &[u32]| super::super::graph::Node {
            name: String::new(),
            op: ge_plugin_api::types::Key::new("Neg"),
            kind: super::super::graph::Kind::Operator,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![output],
            controls: controls.to_vec(),
            attrs: Default::default(),
            descs: Vec::new(),
            graphs: Vec::new(),
            part: None,
            flags: 0,
            value_inputs: Vec::new(),
            written: Vec::new(),
        };
        // 1 is a view of value 0; 2 is computed by the plan after 0; 3 reads the view; 4 reads the
        // result of 2.
        let nodes =
            vec![node(&[9], 0, &[]), node(&[0], 1, &[]), node(&[9], 2, &[0]), node(&[1], 3, &[]), node(&[2], 4, &[])];
        let graph = Graph {
            name: String::new(),
            nodes,
            inputs: Vec::new(),
            outputs: Vec::new(),
            variables: Vec::new(),
            keeps: Vec::new(),
            constants: vec![None; 10],
            fixed: vec![None; 10],
            firsts: Vec::new(),
            wanted: vec![false; 10],
            positions: Vec::new(),
            readers: vec![Vec::new(); 10],
            streams: vec![0; 5],
        };
        let mut b = Behind::new(&graph);
        assert!(b.of(&graph, 0).is_empty());
        b.launched(&graph, 0);
        b.done(&graph, 1, Some(0));
        b.done(&graph, 2, None);
        assert_eq!((b.of(&graph, 3), b.of(&graph, 4)), (vec![0], vec![0]));
    }
}
