//! Random stream graphs: every legal schedule gives the same bits, and the removal of a needed
//! event is always detected.
use crate::support::*;
use ge_plugin_api::task::TaskType as T;
use ge_sim::careful::next_random;
use ge_sim::context::Context;

struct Graph {
    streams: u32,
    /// Stream and inputs (earlier nodes) of each node.
    nodes: Vec<(u32, Vec<usize>)>,
    /// An event for each edge between streams, as (from, to).
    events: Vec<(usize, usize)>,
}

fn random(seed: u64) -> Graph {
    let mut s = seed;
    let mut pick = |n: u64| next_random(&mut s) % n;
    let streams = 1 + pick(5) as u32;
    let count = 5 + pick(40) as usize;
    let mut nodes: Vec<(u32, Vec<usize>)> = Vec::new();
    let mut events = Vec::new();
    for k in 0..count {
        // The first nodes make sure that each stream has a task.
        let stream = if k < streams as usize { k as u32 } else { pick(u64::from(streams)) as u32 };
        let mut inputs: Vec<usize> =
            if k == 0 { vec![] } else { (0..pick(4)).map(|_| pick(k as u64) as usize).collect() };
        inputs.sort_unstable();
        inputs.dedup();
        for &i in &inputs {
            if nodes[i].0 != stream {
                events.push((i, k));
            }
        }
        nodes.push((stream, inputs));
    }
    Graph { streams, nodes, events }
}

impl Graph {
    fn net<'a>(&self, context: &'a Context) -> Net<'a> {
        let mut n = net(context, self.streams as usize, self.events.len() as u32 + self.streams - 1);
        for (k, (stream, inputs)) in self.nodes.iter().enumerate() {
            for (e, _) in self.events.iter().enumerate().filter(|(_, (_, to))| *to == k) {
                n.task(T::EVENT_WAIT, *stream, &[e as i64], &[]);
            }
            let args: Vec<_> = inputs.iter().map(|i| words(FEATURES, *i as u64, 1)).collect();
            n.mix(&format!("n{k}"), *stream, &args, words(FEATURES, k as u64, 1), k as u64);
            n.task(T::MEMCPY_ASYNC, *stream, &[], &[words(FEATURES, k as u64, 1), words(OUTPUT, k as u64, 1)]);
            for (e, _) in self.events.iter().enumerate().filter(|(_, (from, _))| *from == k) {
                n.task(T::EVENT_RECORD, *stream, &[e as i64], &[]);
            }
        }
        // All streams join before the end.
        for s in 1..self.streams {
            let e = self.events.len() as i64 + i64::from(s) - 1;
            n.task(T::EVENT_RECORD, s, &[e], &[]);
            n.task(T::EVENT_WAIT, 0, &[e], &[]);
        }
        n.task(T::END_GRAPH, 0, &[], &[]);
        n
    }
    fn expected(&self) -> Vec<u64> {
        let mut v: Vec<u64> = Vec::new();
        for (k, (_, inputs)) in self.nodes.iter().enumerate() {
            v.push(inputs.iter().fold(k as u64, |a, i| mix(a, v[*i])));
        }
        v
    }
    /// Whether the order of an event's two nodes is also implied without the event.
    fn implied(&self, event: usize) -> bool {
        let (from, to) = self.events[event];
        let mut before = vec![false; self.nodes.len()];
        before[to] = true;
        for k in (0..self.nodes.len()).rev() {
            before[k] |= (k + 1..self.nodes.len()).any(|l| {
                before[l]
                    && (self.nodes[k].0 == self.nodes[l].0
                        || self.events.iter().enumerate().any(|(e, x)| e != event && *x == (k, l)))
            });
        }
        before[from]
    }
}

fn budget(short: u64, long: u64) -> u64 {
    if std::env::var_os("GE_LONG").is_some() { long } else { short }
}

#[test]
fn every_legal_schedule_gives_the_same_bits() {
    for seed in 0..budget(60, 3000) {
        let g = random(seed);
        let want = g.expected();
        let run = |options: &[(&str, &str)]| {
            let context = device(options);
            let model = g.net(&context).build().unwrap();
            for _ in 0..2 {
                let mut m = memory();
                let r = model
                    .execute(&m.bases(), false)
                    .unwrap_or_else(|e| panic!("seed {seed} {options:?}: {}", text(&e)));
                assert_eq!(m.output[..want.len()], want[..], "seed {seed} {options:?}");
                assert_eq!(r.launches, want.len() as u64);
            }
        };
        run(&[]);
        run(&[("time", "model")]);
        for s in 0..4 {
            run(&[("schedule", &format!("random:{s}")), ("check_races", "true")]);
        }
        let delay = format!("delay:{}", seed % 7);
        run(&[("fault", &delay)]);
    }
}

#[test]
fn an_event_that_is_needed_is_missed_and_no_other() {
    let mut needed = 0;
    for seed in 0..budget(30, 1000) {
        let g = random(seed);
        for e in 0..g.events.len() {
            let fault = format!("drop_event:{e}");
            let context =
                device(&[("check_races", "true"), ("fault", &fault), ("schedule", &format!("random:{seed}"))]);
            let result = g.net(&context).build().unwrap().execute(&memory().bases(), false);
            assert_eq!(result.is_ok(), g.implied(e), "seed {seed} event {e}: {:?}", result.err().map(|e| text(&e)));
            needed += usize::from(!g.implied(e));
        }
    }
    assert!(needed > 100, "{needed}");
}

#[test]
fn a_lost_record_is_a_deadlock() {
    for seed in 0..budget(20, 500) {
        let g = random(seed);
        for e in 0..g.events.len() {
            let fault = format!("lose_record:{e}");
            let context = device(&[("fault", &fault)]);
            let t = failure(g.net(&context).build().unwrap().execute(&memory().bases(), false));
            assert!(t.contains("deadlock") && t.contains(&format!("for event {e}; recorded by node")), "{t}");
        }
    }
}
