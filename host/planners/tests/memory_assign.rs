//! Tests the offset assigners through their public interface: random problems, reference instances,
//! determinism.

use std::path::{Path, PathBuf};

use ge_planners::memory::check_offsets::check_offsets;
use ge_planners::memory::plan_file::read_buffer_file;
use ge_planners::memory::{
    AssignError, AssignOptions, Block, Buffer, Conflicts, MemoryEffort, Plan, StreamConflicts, StreamUse, Watch,
    assign, assign_blocks,
};
use proptest::prelude::*;

fn long() -> bool {
    std::env::var_os("GE_LONG").is_some_and(|value| value == "1")
}

fn effort(effort: MemoryEffort) -> AssignOptions {
    AssignOptions { effort, memory_priority: true, ..AssignOptions::default() }
}

fn buffers(count: std::ops::Range<usize>, span: u64, align: u64) -> impl Strategy<Value = Vec<Buffer>> {
    let one = (0..span, 1..=span / 3 + 1, 0_u64..5000);
    prop::collection::vec(one, count).prop_map(move |rows| {
        let rows = rows.into_iter().zip(0_u64..);
        rows.map(|((lower, life, size), id)| Buffer { id, lower, upper: lower + life, size, align }).collect()
    })
}

/// Verifies the plan again and checks that the arena is not below the lower bound.
fn prove(blocks: &[Block], plan: &Plan, conflicts: Option<&dyn Conflicts>) {
    check_offsets(blocks, &plan.offsets, plan.arena, conflicts).expect("the plan holds");
    assert!(plan.arena >= plan.lower_bound, "{plan:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if long() { 2000 } else { 60 }))]

    #[test]
    fn random_buffers_are_planned_at_each_effort(
        list in buffers(0..60, 40, 1),
        align in prop::sample::select(vec![1_u64, 32, 512]),
    ) {
        let list: Vec<Buffer> = list.into_iter().map(|one| Buffer { align, ..one }).collect();
        let blocks: Vec<Block> = list.iter().map(Block::from).collect();
        let plan = |level| assign(&list, &effort(level), &Watch::none()).expect("a plan");
        let (fast, normal) = (plan(MemoryEffort::Fast), plan(MemoryEffort::Default));
        prove(&blocks, &fast, None);
        prove(&blocks, &normal, None);
        prop_assert!(normal.arena <= fast.arena);
        prop_assert!(fast.offsets.iter().all(|offset| offset % align == 0));
    }

    #[test]
    fn pins_alignments_and_blocks_without_reuse_hold(
        list in buffers(1..40, 30, 1),
        marks in prop::collection::vec((0_u8..8, prop::sample::select(vec![1_u64, 32, 96, 512])), 40),
    ) {
        let mut pinned_top = 0;
        let blocks: Vec<Block> = list.iter().zip(&marks).map(|(buffer, &(mark, align))| {
            let mut block = Block { align, ..Block::from(buffer) };
            if mark == 0 {
                block.reuse = false;
            }
            if mark == 1 {
                let at = u64::next_multiple_of(pinned_top, align);
                block.fixed = Some(at);
                pinned_top = at + block.size;
            }
            block
        }).collect();
        let plan = assign_blocks(&blocks, None, &effort(MemoryEffort::Default), &Watch::none());
        prove(&blocks, &plan.expect("a plan"), None);
    }

    #[test]
    fn blocks_of_several_streams_share_only_what_the_order_allows(
        rows in prop::collection::vec((0_u32..4, 0_usize..6, 1_u64..4000), 2..40),
        joins in prop::collection::vec((0_usize..40, 0_usize..40), 0..30),
    ) {
        let count = rows.len();
        // Reachability by stream order and joins, in the linear order 0..count.
        let mut reach = vec![vec![false; count]; count];
        for b in 0..count {
            let before: Vec<usize> = (0..b)
                .filter(|&a| rows[a].0 == rows[b].0 || joins.contains(&(a, b)))
                .collect();
            for a in before {
                for row in &mut reach[..=a] {
                    row[b] |= row[a];
                }
                reach[a][b] = true;
            }
        }
        let (blocks, uses): (Vec<Block>, Vec<StreamUse>) = rows.iter().enumerate().map(|(at, row)| {
            let end = (at + row.1).min(count - 1);
            // A reader must come after the producer.
            let end = if reach[at][end] { end } else { at };
            let block = Block {
                id: at as u64, lower: at as u64, upper: end as u64 + 1, size: row.2, align: 512,
                stream: row.0, reuse: true, fixed: None,
            };
            (block, StreamUse { first: vec![at as u32], last: vec![end as u32] })
        }).unzip();
        let order = |a: u32, b: u32| reach[a as usize][b as usize];
        let relation = StreamConflicts::new(&blocks, uses, &order);
        let plan = assign_blocks(&blocks, Some(&relation), &effort(MemoryEffort::Default), &Watch::none());
        prove(&blocks, &plan.expect("a plan"), Some(&relation));
    }
}

#[test]
fn any_number_of_threads_gives_the_same_plan() {
    let list = read_buffer_file(&reference("nasnet_1k.csv")).expect("reference").buffers;
    let plans: Vec<Plan> = [1, 2, 5]
        .into_iter()
        .map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
            pool.install(|| assign(&list, &effort(MemoryEffort::Default), &Watch::none()).expect("a plan"))
        })
        .collect();
    assert_eq!(plans[0], plans[1]);
    assert_eq!(plans[0], plans[2]);
}

#[test]
fn wrong_blocks_are_refused_by_name() {
    let block = |id, lower, upper, size| Block::from(&Buffer { id, lower, upper, size, align: 512 });
    let plan = |blocks: &[Block]| assign_blocks(blocks, None, &AssignOptions::default(), &Watch::none());
    assert_eq!(plan(&[block(5, 3, 3, 8)]), Err(AssignError::EmptyLife { id: 5, lower: 3, upper: 3 }));
    assert_eq!(plan(&[block(6, 0, 1, u64::MAX)]), Err(AssignError::TooLarge { id: 6 }));
    assert_eq!(plan(&[Block { align: 0, ..block(7, 0, 1, 8) }]), Err(AssignError::ZeroAlign { id: 7 }));
    let pin = |id, at| Block { fixed: Some(at), ..block(id, 0, 2, 1024) };
    assert_eq!(plan(&[pin(1, 0), pin(2, 512)]), Err(AssignError::PinnedOverlap { first: 1, second: 2 }));
    assert_eq!(plan(&[pin(3, 100)]), Err(AssignError::PinnedUnaligned { id: 3, offset: 100, align: 512 }));
}

fn reference(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../../tests/reference/planning/memory").join(name)
}

/// Plans a reference instance and returns arena / lower bound in parts per 10,000, rounded up.
fn ratio(name: &str, level: MemoryEffort) -> u64 {
    let list = read_buffer_file(&reference(name)).expect("reference").buffers;
    let options = AssignOptions { effort: level, ..AssignOptions::default() };
    let plan = assign(&list, &options, &Watch::none()).expect("a plan");
    let blocks: Vec<Block> = list.iter().map(Block::from).collect();
    prove(&blocks, &plan, None);
    (plan.arena * 10_000).div_ceil(plan.lower_bound)
}

#[test]
fn networks_stay_within_the_figures_of_the_fast_level() {
    assert_eq!(ratio("mobilenet_v2.csv", MemoryEffort::Fast), 10_000);
    assert_eq!(ratio("mha_transformer.csv", MemoryEffort::Fast), 10_000);
    for (name, most) in [("moe_10k.csv", 10_001), ("layered_50k.csv.gz", 10_176)] {
        let found = ratio(name, MemoryEffort::Fast);
        assert!(found <= most, "{name}: {found} of 10,000, at most {most} expected");
    }
}

#[test]
fn exact_hand_overs_are_packed_without_waste() {
    for name in ["planted_150.csv", "planted_300.csv"] {
        assert_eq!(ratio(name, MemoryEffort::Default), 10_000, "{name}");
    }
    for name in ["A", "C", "E"] {
        let file = format!("minimalloc/{name}.1048576.csv");
        assert_eq!(ratio(&file, MemoryEffort::Default), 10_000, "{name}");
    }
}

#[test]
fn networks_meet_the_bound_at_the_highest_effort() {
    for name in ["nasnet_1k.csv", "moe_10k.csv"] {
        assert_eq!(ratio(name, MemoryEffort::Max), 10_000, "{name}");
    }
    for effort in [MemoryEffort::Default, MemoryEffort::Max] {
        assert_eq!(ratio("layered_50k.csv.gz", effort), 10_000, "{effort:?}");
    }
}

#[test]
fn hard_instances_are_solved_within_their_capacity() {
    for name in ["A", "C", "E", "G", "J"] {
        let path = reference(&format!("minimalloc/{name}.1048576.csv"));
        let list = read_buffer_file(&path).expect("reference").buffers;
        let options =
            AssignOptions { effort: MemoryEffort::Max, capacity: Some(1_048_576), ..AssignOptions::default() };
        let plan = assign(&list, &options, &Watch::none()).expect("a plan");
        assert!(plan.arena <= 1_048_576, "{name}: {}", plan.arena);
    }
    if long() {
        assert!(ratio("planted_2000.csv", MemoryEffort::Max) <= 10_100);
    }
}

/// A rectangle of `height` KiB and `span` instants that is cut into about `count` buffers. The
/// largest piece is always cut next: across, along, or sometimes into five pieces around a middle
/// one. Afterwards one in seven ends earlier or is smaller than its piece, by at most a third. A
/// plan of `height` exists.
fn planted(count: usize, span: u64, height: u64, seed: u64) -> Vec<Buffer> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut roll = move |below: u64| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % below.max(1)
    };
    // Area, followed by begin, end, bottom and top.
    let mut pieces = std::collections::BinaryHeap::from([(span * height, [0, span, 0, height])]);
    let mut whole = Vec::new();
    while pieces.len() + whole.len() < count {
        let Some((_, [from, to, low, high])) = pieces.pop() else { break };
        let (life, size) = (to - from, high - low);
        let mut cut = |length: u64| (length * (15 + roll(70)) / 100).clamp(1, (length - 1).max(1));
        let parts = if life >= 10 && size >= 10 && cut(100) < 22 {
            let (left, right) = (from + life * 3 / 10, from + life * 7 / 10);
            let (lower, upper) = (low + size * 3 / 10, low + size * 6 / 10);
            vec![
                [from, right, low, lower],
                [right, to, low, upper],
                [left, to, upper, high],
                [from, left, lower, high],
                [left, right, lower, upper],
            ]
        } else if life > 1 && (size == 1 || cut(100) < 50) {
            let at = from + cut(life);
            vec![[from, at, low, high], [at, to, low, high]]
        } else if size > 1 {
            let at = low + cut(size);
            vec![[from, to, low, at], [from, to, at, high]]
        } else {
            whole.push([from, to, low, high]);
            continue;
        };
        pieces.extend(parts.into_iter().map(|part| ((part[1] - part[0]) * (part[3] - part[2]), part)));
    }
    whole.extend(pieces.into_sorted_vec().into_iter().map(|(_, piece)| piece));
    let mut buffer = |(id, [from, to, low, high]): (u64, [u64; 4])| {
        let (mut upper, mut size) = (to, high - low);
        match roll(14) {
            0 => upper -= roll((to - from) / 3 + 1),
            1 => size -= roll(size / 3 + 1),
            _ => {}
        }
        Buffer { id, lower: from, upper, size: size * 1024, align: 512 }
    };
    (0..).zip(whole).map(&mut buffer).collect()
}

#[test]
fn planted_packings_with_little_waste_are_found_nearly_whole() {
    let found: Vec<u64> = (1..=4)
        .map(|seed| {
            let list = planted(600, 1_000_000, 16_384, seed);
            let plan = assign(&list, &AssignOptions::default(), &Watch::none()).expect("a plan");
            let blocks: Vec<Block> = list.iter().map(Block::from).collect();
            prove(&blocks, &plan, None);
            (plan.arena * 10_000).div_ceil(plan.lower_bound)
        })
        .collect();
    assert!(found.iter().all(|&ratio| ratio <= 10_800), "{found:?}");
    assert_eq!(ratio("planted_2000.csv", MemoryEffort::Default), 10_000);
}

/// A network of about `count` nodes between a first and a last node, each with one output.
/// Repeatedly, an edge gets a node in the middle or a parallel path through a new node. Nodes run
/// in the order in which they become ready, depth first.
fn series_parallel(count: usize, seed: u64) -> Vec<Buffer> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut roll = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).expect("31 bits") % below
    };
    let mut edges = vec![(0, 1)];
    for node in 2..count {
        let at = roll(edges.len());
        let (from, to) = edges[at];
        if roll(2) == 0 {
            edges[at].1 = node;
        } else {
            edges.push((from, node));
        }
        edges.push((node, to));
    }
    let (mut after, mut waits) = (vec![Vec::new(); count], vec![0; count]);
    for &(from, to) in &edges {
        after[from].push(to);
        waits[to] += 1;
    }
    let (mut ready, mut place, mut next) = (vec![0], vec![0; count], 0);
    while let Some(node) = ready.pop() {
        (place[node], next) = (next, next + 1);
        for &other in &after[node] {
            waits[other] -= 1;
            if waits[other] == 0 {
                ready.push(other);
            }
        }
    }
    let last = |node: usize| after[node].iter().map(|&other| place[other]).max().unwrap_or(place[node]) + 1;
    let mut buffer = |node: usize| {
        let size = 1024 * (1 + roll(1024) as u64);
        Buffer { id: node as u64, lower: place[node], upper: last(node), size, align: 512 }
    };
    (0..count).map(&mut buffer).collect()
}

#[test]
fn series_parallel_networks_meet_the_bound_or_nearly() {
    for seed in 1..=3 {
        let list = series_parallel(5000, seed);
        let blocks: Vec<Block> = list.iter().map(Block::from).collect();
        let options = AssignOptions { effort: MemoryEffort::Max, ..AssignOptions::default() };
        let plan = assign(&list, &options, &Watch::none()).expect("a plan");
        prove(&blocks, &plan, None);
        let ratio = (plan.arena * 10_000).div_ceil(plan.lower_bound);
        assert!(ratio <= 10_010, "seed {seed}: {ratio} of 10,000");
    }
}

#[test]
fn a_pin_above_the_bound_ends_the_search() {
    let block = |id, lower, upper, size| Block::from(&Buffer { id, lower, upper, size, align: 512 });
    let mut blocks: Vec<Block> = (0..12).map(|id| block(id, id % 5, id % 5 + 3, 512 * (id % 4 + 1))).collect();
    blocks.push(Block { fixed: Some(512 * 400), ..block(12, 0, 2, 512) });
    for level in [MemoryEffort::Default, MemoryEffort::Max] {
        let plan = assign_blocks(&blocks, None, &effort(level), &Watch::none()).expect("a plan");
        assert_eq!(plan.arena, 512 * 401);
    }
}
