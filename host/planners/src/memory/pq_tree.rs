//! A PQ-tree over the memory that is live at one instant: all vertical orders that are consistent
//! with what happened before. Each node is a band of memory of fixed height and records the blocks
//! that were in it, so that the tree at the end of time can be unfolded into offsets.
//!
//! Children of a `P` node may be in any order; those of a `Q` node are in a fixed order or its
//! reverse. `Tree::replace` makes a marked set of leaves contiguous, as far as the orders allow,
//! and puts new leaves in their place. Source: Booth, Lueker, "Testing for the consecutive ones
//! property … using PQ-tree algorithms" (1976); here without their linear-time bookkeeping, because
//! a tree has no more leaves than there are live blocks.

use std::cell::Cell;
use std::rc::Rc;

/// Greatest depth of a tree; beyond it the packing gives up.
const DEEPEST: usize = 256;

/// What was in a band: a block, or all of an earlier list.
#[derive(Debug, Clone, Copy)]
enum What {
    Block(u32),
    List(usize),
}

/// Something that was `at` units above the bottom of a band, upside down if `mirrored`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    what: What,
    at: u64,
    height: u64,
    mirrored: bool,
}

/// Lists of entries with shared tails. A tree holds only the heads, so that it can be copied
/// cheaply.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<(Entry, Option<usize>)>,
}

type Past = Option<usize>;

impl Log {
    fn push(&mut self, past: Past, entry: Entry) -> Past {
        self.entries.push((entry, past));
        Some(self.entries.len() - 1)
    }

    fn push_list(&mut self, past: Past, list: Past, at: u64, height: u64) -> Past {
        match list {
            Some(head) => self.push(past, Entry { what: What::List(head), at, height, mirrored: false }),
            None => past,
        }
    }

    fn mirrored(&mut self, list: Past, height: u64) -> Past {
        let head = list?;
        self.push(None, Entry { what: What::List(head), at: 0, height, mirrored: true })
    }

    /// Writes the offsets of all blocks in the list of a band whose bottom is at 0.
    fn unfold(&self, list: Past, height: u64, offsets: &mut [u64]) {
        let mut stack = vec![(list, 0_u64, height, false)];
        while let Some((list, bottom, height, upside_down)) = stack.pop() {
            let Some(head) = list else { continue };
            let (entry, next) = self.entries[head];
            stack.push((next, bottom, height, upside_down));
            let at = if upside_down { bottom + height - entry.at - entry.height } else { bottom + entry.at };
            match entry.what {
                What::Block(block) => offsets[block as usize] = at,
                What::List(inner) => {
                    stack.push((Some(inner), at, entry.height, upside_down ^ entry.mirrored));
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Empty,
    Partial,
    Full,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Memory of a live block, or free memory.
    Leaf {
        key: u32,
        block: Option<u32>,
    },
    P(Children),
    /// Its children, and what was in it since it got an order; the latter is mirrored when the
    /// order is reversed.
    Q(Children, Past),
}

/// Shared by copies of a tree until one of them changes, which makes copies cheap.
type Children = Rc<Vec<Tree>>;

/// A node of the tree: a band of memory.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    kind: Kind,
    /// Height in units.
    pub(super) height: u64,
    /// What was in the band before the node was made.
    past: Past,
    /// Result of the last [`Tree::mark`].
    label: Cell<Label>,
}

/// A leaf as callers see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    pub(super) key: u32,
    pub(super) height: u64,
    pub(super) free: bool,
}

/// Children of a partial node, in order: empty ones first, full ones last.
struct Sequence {
    items: Vec<Tree>,
    /// Entries that are mirrored when the order is reversed.
    own: Vec<Entry>,
    /// Entries that are not mirrored.
    fixed: Past,
    height: u64,
}

impl Sequence {
    fn reverse(&mut self, log: &mut Log) {
        self.items.reverse();
        for item in &mut self.items {
            item.past = log.mirrored(item.past, item.height);
        }
        for entry in &mut self.own {
            entry.at = self.height - entry.at - entry.height;
            entry.mirrored = !entry.mirrored;
        }
    }
}

/// Children of an ordered node that is being built.
#[derive(Default)]
struct Row {
    items: Vec<Tree>,
    own: Past,
    height: u64,
}

impl Row {
    fn push(&mut self, item: Tree) {
        self.height += item.height;
        self.items.push(item);
    }

    fn splice(&mut self, sequence: Sequence, log: &mut Log) {
        let bottom = self.height;
        self.own = log.push_list(self.own, sequence.fixed, bottom, sequence.height);
        for entry in sequence.own {
            self.own = log.push(self.own, Entry { at: entry.at + bottom, ..entry });
        }
        for item in sequence.items {
            self.push(item);
        }
    }

    /// Replaces the full items, which are adjacent, by one node.
    fn replace(self, log: &mut Log, make: Make<'_>) -> (Vec<Tree>, Past) {
        let mut items = Vec::with_capacity(self.items.len());
        let mut full = Vec::new();
        let mut place = None;
        for item in self.items {
            if item.label.get() == Label::Full {
                place.get_or_insert(items.len());
                full.push(item);
            } else {
                items.push(item);
            }
        }
        if let Some(place) = place {
            items.insert(place, remake(full, log, make));
        }
        (items, self.own)
    }
}

/// Makes the replacement of the removed leaves from the past of their band and its height.
type Make<'a> = &'a dyn Fn(Past, u64) -> Tree;

/// Replaces the `full` nodes by one node that records everything that was in them.
fn remake(full: Vec<Tree>, log: &mut Log, make: Make<'_>) -> Tree {
    let (mut past, mut height) = (None, 0);
    for item in &full {
        past = item.remember(past, height, log);
        height += item.height;
    }
    make(past, height)
}

fn group(mut items: Vec<Tree>, label: Label) -> Option<Tree> {
    if items.len() > 1 {
        let node = Tree::any_order(items, None);
        node.label.set(label);
        return Some(node);
    }
    items.pop()
}

impl Tree {
    /// Makes a leaf: memory of a block, or free memory.
    pub(super) fn leaf(key: u32, block: Option<u32>, height: u64) -> Self {
        Self { kind: Kind::Leaf { key, block }, height, past: None, label: Cell::new(Label::Empty) }
    }

    /// Makes a node whose children may be in any order.
    fn any_order(children: Vec<Self>, past: Past) -> Self {
        let height = children.iter().map(|child| child.height).sum();
        Self { kind: Kind::P(Rc::new(children)), height, past, label: Cell::new(Label::Empty) }
    }

    /// Makes a node over `leaves` (at least one) in any order, with the past of their band.
    pub(super) fn over(mut leaves: Vec<Self>, past: Past) -> Self {
        match leaves.pop() {
            Some(mut leaf) if leaves.is_empty() => {
                leaf.past = past;
                leaf
            }
            Some(leaf) => {
                leaves.push(leaf);
                Self::any_order(leaves, past)
            }
            None => Self::any_order(Vec::new(), past),
        }
    }

    /// Combines both bands, in any order.
    pub(super) fn beside(self, other: Self) -> Self {
        Self::any_order(vec![self, other], None)
    }

    fn children(&self) -> &[Self] {
        match &self.kind {
            Kind::Leaf { .. } => &[],
            Kind::P(children) | Kind::Q(children, _) => children,
        }
    }

    /// Adds everything that is or was in the band to a list, `at` units above its bottom.
    fn remember(&self, past: Past, at: u64, log: &mut Log) -> Past {
        let mut past = log.push_list(past, self.past, at, self.height);
        match &self.kind {
            Kind::Leaf { block: Some(block), .. } => {
                let what = What::Block(*block);
                past = log.push(past, Entry { what, at, height: self.height, mirrored: false });
            }
            Kind::Leaf { block: None, .. } => {}
            Kind::Q(_, own) => past = log.push_list(past, *own, at, self.height),
            Kind::P(_) => {}
        }
        let mut bottom = at;
        for child in self.children() {
            past = child.remember(past, bottom, log);
            bottom += child.height;
        }
        past
    }

    /// Writes the offsets of all blocks that are or were in the tree.
    pub(super) fn unfold(&self, log: &mut Log, offsets: &mut [u64]) {
        let past = self.remember(None, 0, log);
        log.unfold(past, self.height, offsets);
    }

    /// Collects all leaves from bottom to top.
    pub(super) fn leaves(&self, into: &mut Vec<Leaf>) {
        if let Kind::Leaf { key, block } = self.kind {
            into.push(Leaf { key, height: self.height, free: block.is_none() });
        }
        for child in self.children() {
            child.leaves(into);
        }
    }

    /// Ends the blocks in the sorted list `ended`; their leaves stay as free memory.
    pub(super) fn end(&mut self, ended: &[u32], log: &mut Log) {
        let height = self.height;
        match &mut self.kind {
            Kind::Leaf { block, .. } => {
                if let Some(over) = block.filter(|block| ended.binary_search(block).is_ok()) {
                    *block = None;
                    let what = What::Block(over);
                    self.past = log.push(self.past, Entry { what, at: 0, height, mirrored: false });
                }
            }
            Kind::P(children) | Kind::Q(children, _) => {
                for at in 0..children.len() {
                    if children[at].holds(ended) {
                        Rc::make_mut(children)[at].end(ended, log);
                    }
                }
            }
        }
    }

    /// Whether the band contains any block of the sorted list.
    fn holds(&self, blocks: &[u32]) -> bool {
        match &self.kind {
            Kind::Leaf { block, .. } => block.is_some_and(|block| blocks.binary_search(&block).is_ok()),
            Kind::P(children) | Kind::Q(children, _) => children.iter().any(|child| child.holds(blocks)),
        }
    }

    /// Cuts the free leaf `key` into a part of `low` units and the rest, in any order. The parts
    /// must stay adjacent only if something was in all of the leaf before, or if its neighbours
    /// have an order.
    pub(super) fn cut(&mut self, key: u32, low: u64, keys: (u32, u32)) {
        let halves = |height: u64| [Self::leaf(keys.0, None, low), Self::leaf(keys.1, None, height - low)];
        match &mut self.kind {
            Kind::Leaf { key: own, .. } if *own == key => {
                *self = Self::any_order(halves(self.height).into(), self.past);
            }
            Kind::Leaf { .. } => {}
            Kind::P(children) => {
                let fresh = children.iter().position(|child| {
                    child.past.is_none() && matches!(child.kind, Kind::Leaf { key: own, .. } if own == key)
                });
                if let Some(at) = fresh {
                    let children = Rc::make_mut(children);
                    let whole = children.swap_remove(at);
                    children.extend(halves(whole.height));
                    return;
                }
                for child in Rc::make_mut(children) {
                    child.cut(key, low, keys);
                }
            }
            Kind::Q(children, _) => {
                for child in Rc::make_mut(children) {
                    child.cut(key, low, keys);
                }
            }
        }
    }

    /// Adds the keys of free leaves that must join the leaves of the sorted `keys` to make these
    /// contiguous, as far as the tree shows directly: leaves in bands that contain nothing else,
    /// and leaves that an order keeps between them.
    pub(super) fn between(&self, keys: &[u32], into: &mut Vec<u32>) {
        self.between_below(keys, 0, into);
    }

    /// Whether the band contains leaves of `keys`, and whether it contains live blocks.
    fn between_below(&self, keys: &[u32], depth: usize, into: &mut Vec<u32>) -> (bool, bool) {
        if let Kind::Leaf { key, block } = self.kind {
            return (keys.binary_search(&key).is_ok(), block.is_some());
        }
        if depth > DEEPEST {
            return (false, true);
        }
        let (mut any, mut live) = (false, false);
        let mut ended: Vec<usize> = Vec::new();
        let before = into.len();
        for (at, child) in self.children().iter().enumerate() {
            let (child_any, child_live) = child.between_below(keys, depth + 1, into);
            any |= child_any;
            live |= child_live;
            if child_any {
                ended.push(at);
            }
        }
        let take = |children: &[Self], into: &mut Vec<u32>| {
            let mut leaves = Vec::new();
            for child in children {
                child.leaves(&mut leaves);
            }
            let free = leaves.iter().filter(|leaf| leaf.free && keys.binary_search(&leaf.key).is_err());
            into.extend(free.map(|leaf| leaf.key));
        };
        if any && !live {
            into.truncate(before);
            take(self.children(), into);
        } else if let (Kind::Q(children, _), [first, .., last]) = (&self.kind, ended.as_slice()) {
            take(&children[first + 1..*last], into);
            into.sort_unstable();
            into.dedup();
        }
        (any, live)
    }

    /// Marks the leaves of the sorted `keys` for [`Tree::replace`] and returns the number of nodes
    /// visited; `None` if the tree is too deep or contains none of the leaves.
    pub(super) fn mark(&self, keys: &[u32]) -> Option<u64> {
        let mut nodes = 0;
        (self.mark_below(keys, 0, &mut nodes)? != Label::Empty).then_some(nodes)
    }

    /// Makes the marked leaves contiguous and replaces them by the result of `make`. Returns `None`
    /// if no order allows it.
    pub(super) fn replace(self, log: &mut Log, make: Make<'_>) -> Option<Self> {
        self.replace_marked(log, make, 0)
    }

    fn mark_below(&self, keys: &[u32], depth: usize, nodes: &mut u64) -> Option<Label> {
        if depth > DEEPEST {
            return None;
        }
        *nodes += 1;
        self.label.set(match &self.kind {
            Kind::Leaf { key, .. } => {
                if keys.binary_search(key).is_ok() {
                    Label::Full
                } else {
                    Label::Empty
                }
            }
            Kind::P(children) | Kind::Q(children, _) => {
                let (mut full, mut empty) = (0, 0);
                let count = children.len();
                for child in children.iter() {
                    match child.mark_below(keys, depth + 1, nodes)? {
                        Label::Full => full += 1,
                        Label::Empty => empty += 1,
                        Label::Partial => {}
                    }
                }
                if full == count {
                    Label::Full
                } else if empty == count {
                    Label::Empty
                } else {
                    Label::Partial
                }
            }
        });
        Some(self.label.get())
    }

    /// A number that is equal for trees with the same orders of the same memory.
    pub(super) fn fingerprint(&self) -> u64 {
        let mix = |value: u64| {
            let value = (value ^ value >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (value ^ value >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
        };
        match &self.kind {
            Kind::Leaf { block: Some(block), .. } => mix(u64::from(*block) * 4 + 1),
            Kind::Leaf { block: None, .. } => mix(self.height.wrapping_mul(4).wrapping_add(2)),
            Kind::P(children) => {
                let sum = children.iter().fold(3, |sum: u64, child| sum.wrapping_add(child.fingerprint()));
                mix(sum)
            }
            Kind::Q(children, _) => {
                let line = |up: u64, child: &Self| mix(up.wrapping_add(child.fingerprint()));
                let up = children.iter().fold(5, line);
                let down = children.iter().rev().fold(5, line);
                mix(up.wrapping_add(down))
            }
        }
    }

    fn replace_marked(self, log: &mut Log, make: Make<'_>, depth: usize) -> Option<Self> {
        if self.label.get() == Label::Full {
            return Some(remake(vec![self], log, make));
        }
        let touched = self.children().iter().filter(|child| child.label.get() != Label::Empty).count();
        let Self { kind, height, past, .. } = self;
        let kind = match kind {
            Kind::Leaf { .. } => return None,
            Kind::P(mut children) if touched == 1 => {
                descend(Rc::make_mut(&mut children).as_mut_slice(), log, make, depth)?;
                Kind::P(children)
            }
            Kind::Q(mut children, own) if touched == 1 => {
                descend(Rc::make_mut(&mut children).as_mut_slice(), log, make, depth)?;
                Kind::Q(children, own)
            }
            Kind::P(children) => return replace_in_p(Rc::unwrap_or_clone(children), past, log, make),
            Kind::Q(children, own) => replace_in_q(Rc::unwrap_or_clone(children), own, log, make)?,
        };
        Some(Self { kind, height, past, label: Cell::new(Label::Empty) })
    }

    /// Arranges the children of a partial node: empty ones first, full ones last.
    fn line_up(self, log: &mut Log) -> Option<Sequence> {
        let Self { kind, height, past, label } = self;
        let mut own = Vec::new();
        let mut row = Row::default();
        match kind {
            Kind::Leaf { .. } => return None,
            Kind::P(children) => {
                let (mut empty, mut partial, mut full) = (Vec::new(), None, Vec::new());
                for child in Rc::unwrap_or_clone(children) {
                    match child.label.get() {
                        Label::Empty => empty.push(child),
                        Label::Full => full.push(child),
                        Label::Partial if partial.is_none() => partial = Some(child),
                        Label::Partial => return None,
                    }
                }
                if let Some(node) = group(empty, Label::Empty) {
                    row.push(node);
                }
                if let Some(partial) = partial {
                    nest(&mut row, &mut own, partial.line_up(log)?);
                }
                for child in full {
                    row.push(child);
                }
            }
            Kind::Q(children, mut lay) => {
                let mut children = Rc::unwrap_or_clone(children);
                let falls = children.first().is_some_and(|child| child.label.get() == Label::Full)
                    || children.last().is_some_and(|child| child.label.get() == Label::Empty);
                if falls {
                    children.reverse();
                    for child in &mut children {
                        child.past = log.mirrored(child.past, child.height);
                    }
                    lay = log.mirrored(lay, height);
                }
                if let Some(head) = lay {
                    own.push(Entry { what: What::List(head), at: 0, height, mirrored: false });
                }
                let mut reached = Label::Empty;
                for child in children {
                    match (reached, child.label.get()) {
                        (Label::Empty, Label::Empty) | (_, Label::Full) => {
                            reached = child.label.get();
                            row.push(child);
                        }
                        (Label::Empty, Label::Partial) => {
                            reached = Label::Full;
                            nest(&mut row, &mut own, child.line_up(log)?);
                        }
                        _ => return None,
                    }
                }
            }
        }
        debug_assert_eq!((row.height, label.get()), (height, Label::Partial));
        Some(Sequence { items: row.items, own, fixed: past, height })
    }
}

/// Inserts the children of a partial child among those of its parent.
fn nest(row: &mut Row, own: &mut Vec<Entry>, inner: Sequence) {
    let bottom = row.height;
    if let Some(head) = inner.fixed {
        let what = What::List(head);
        own.push(Entry { what, at: bottom, height: inner.height, mirrored: false });
    }
    own.extend(inner.own.into_iter().map(|entry| Entry { at: entry.at + bottom, ..entry }));
    for item in inner.items {
        row.push(item);
    }
}

fn descend(children: &mut [Tree], log: &mut Log, make: Make<'_>, depth: usize) -> Option<()> {
    let child = children.iter_mut().find(|child| child.label.get() != Label::Empty)?;
    let inner = std::mem::replace(child, Tree::leaf(0, None, 0));
    *child = inner.replace_marked(log, make, depth + 1)?;
    Some(())
}

fn replace_in_p(children: Vec<Tree>, past: Past, log: &mut Log, make: Make<'_>) -> Option<Tree> {
    let (mut empty, mut partial, mut full) = (Vec::new(), Vec::new(), Vec::new());
    for child in children {
        match child.label.get() {
            Label::Empty => empty.push(child),
            Label::Full => full.push(child),
            Label::Partial => partial.push(child),
        }
    }
    if partial.is_empty() {
        empty.push(remake(full, log, make));
        return Some(Tree::any_order(empty, past));
    }
    if partial.len() > 2 {
        return None;
    }
    let mut row = Row::default();
    let upper = if partial.len() == 2 { partial.pop() } else { None };
    if let Some(lower) = partial.pop() {
        row.splice(lower.line_up(log)?, log);
    }
    for child in full {
        row.push(child);
    }
    if let Some(upper) = upper {
        let mut sequence = upper.line_up(log)?;
        sequence.reverse(log);
        row.splice(sequence, log);
    }
    let height = row.height;
    let (items, own) = row.replace(log, make);
    let node = Tree { kind: Kind::Q(Rc::new(items), own), height, past: None, label: Cell::new(Label::Empty) };
    if empty.is_empty() {
        return Some(Tree { past, ..node });
    }
    empty.push(node);
    Some(Tree::any_order(empty, past))
}

fn replace_in_q(children: Vec<Tree>, own: Past, log: &mut Log, make: Make<'_>) -> Option<Kind> {
    let mut row = Row { own, ..Row::default() };
    // 0: below the full children, 1: among them, 2: above them.
    let mut stage = 0;
    for child in children {
        match (child.label.get(), stage) {
            (Label::Empty, 0 | 2) => row.push(child),
            (Label::Empty, _) => {
                stage = 2;
                row.push(child);
            }
            (Label::Full, 0 | 1) => {
                stage = 1;
                row.push(child);
            }
            (Label::Partial, 0) => {
                stage = 1;
                row.splice(child.line_up(log)?, log);
            }
            (Label::Partial, 1) => {
                stage = 2;
                let mut sequence = child.line_up(log)?;
                sequence.reverse(log);
                row.splice(sequence, log);
            }
            _ => return None,
        }
    }
    let (items, own) = row.replace(log, make);
    Some(Kind::Q(Rc::new(items), own))
}
