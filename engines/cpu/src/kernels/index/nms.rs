//! `NonMaxSuppression` (`plugins/ops/src/select.rs`): the boxes with the greatest scores that do
//! not overlap each other too much.
use crate::args::{Arg, bad, filled, int_attr, put_i64};
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX};
use ge_kernels::view::{Elem, lines};
use ge_kernels::{multiversion, with_kind};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Corners of a box in ascending order.
fn corners(b: [f32; 4], center: bool) -> [f32; 4] {
    if center {
        let (x, y, w, h) = (b[0], b[1], b[2] / 2.0, b[3] / 2.0);
        return [y - h, x - w, y + h, x + w];
    }
    [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])]
}

/// Boxes that are compared with one box at a time.
const TOGETHER: usize = 8;

/// Boxes that were kept, a list for each corner and their areas. The lists are filled up with boxes
/// without an area, which overlap nothing.
#[derive(Default)]
struct Kept {
    blocks: Vec<[[f32; TOGETHER]; 5]>,
    len: usize,
}

impl Kept {
    fn push(&mut self, b: [f32; 4]) {
        let (block, place) = (self.len / TOGETHER, self.len % TOGETHER);
        if place == 0 {
            self.blocks.push([[0.0; TOGETHER]; 5]);
        }
        for (list, v) in self.blocks[block].iter_mut().zip([b[0], b[1], b[2], b[3], area(b)]) {
            list[place] = v;
        }
        self.len += 1;
    }
    fn clear(&mut self) {
        self.blocks.clear();
        self.len = 0;
    }
}

#[inline(always)]
fn area(b: [f32; 4]) -> f32 {
    (b[2] - b[0]) * (b[3] - b[1])
}

multiversion! {
    /// Whether the intersection over union of a box and one of those that were kept exceeds a
    /// limit, or is not a number. Each step is in single precision: corners are often integers, and
    /// then a limit such as 0.7 is met exactly as a single. Boxes without an area overlap nothing.
    fn exceeds(kept: &[[[f32; TOGETHER]; 5]], b: [f32; 4], limit: f32) -> bool {
        let own = area(b);
        for [top, left, bottom, right, areas] in kept {
            let mut over = 0u32;
            for k in 0..TOGETHER {
                let (h, w) = (bottom[k].min(b[2]) - top[k].max(b[0]), right[k].min(b[3]) - left[k].max(b[1]));
                let none = (h <= 0.0) | (w <= 0.0) | (areas[k] <= 0.0) | (own <= 0.0);
                let overlap = if none { 0.0 } else { h * w / (areas[k] + own - h * w) };
                let fits = overlap <= limit;
                over |= u32::from(!fits);
            }
            if over != 0 {
                return true;
            }
        }
        false
    }
}

/// Candidates from the greatest score on, and from the first one of equal scores. They are sorted
/// part by part, because the best few are often all that is wanted.
#[derive(Default)]
struct Best {
    /// A number for each score, the less the greater the score is, and the place of its box.
    all: Vec<(i64, usize)>,
    /// Number of candidates that are sorted, and of those that were taken.
    sorted: usize,
    taken: usize,
}

impl Best {
    /// Lists the scores above a limit.
    fn list<T: Elem>(&mut self, scores: &[T], least: Option<f64>) {
        let mut found = 0;
        self.all.resize(scores.len(), (0, 0));
        // Each score is written, and the next one overwrites it unless it is above the limit: a
        // jump that depends on the score is often mispredicted.
        for (k, s) in scores.iter().enumerate() {
            let s = s.to_f64();
            self.all[found] = (descending(s), k);
            found += usize::from(least.is_none_or(|l| s > l));
        }
        self.all.truncate(found);
        (self.sorted, self.taken) = (0, 0);
    }
    /// The place of the next candidate. `few` is about the number that will be wanted.
    fn next(&mut self, few: usize) -> Option<usize> {
        if self.taken == self.sorted {
            let part = self.sorted.max(few).max(FEW).min(self.all.len() - self.sorted);
            let rest = &mut self.all[self.sorted..];
            if part < rest.len() {
                rest.select_nth_unstable(part);
            }
            rest[..part].sort_unstable();
            self.sorted += part;
        }
        let found = self.all.get(self.taken).map(|c| c.1);
        self.taken += 1;
        found
    }
}

/// Least number of candidates that are sorted at a time.
const FEW: usize = 64;

/// A number that is the less the greater a score is, in the order of all doubles.
fn descending(score: f64) -> i64 {
    let bits = score.to_bits() as i64;
    !(bits ^ ((bits >> 63) as u64 >> 1) as i64)
}

fn run_nms(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (boxes, scores) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    boxes.need_rank(3, 3)?;
    let [b, n, four] = [boxes.shape[0], boxes.shape[1], boxes.shape[2]];
    if four != 4 || scores.rank() != 3 || scores.shape[0] != b || scores.shape[2] != n {
        return Err(bad(
            "inputs boxes and scores",
            format!("{:?} and {:?}", boxes.shape, scores.shape),
            "[B, N, 4] and [B, C, N]",
        ));
    }
    let most = Arg::opt(ctx, 2)?.map_or(Ok(0), |a| a.int())?.max(0) as usize;
    let iou = Arg::opt(ctx, 3)?.map_or(Ok(0.0), |a| a.scalar())? as f32;
    let least = Arg::opt(ctx, 4)?.map(|a| a.scalar()).transpose()?;
    let center = int_attr(ctx, "center_point_box", 0) == 1;
    let mut singles = filled(boxes.len, 0f32)?;
    with_kind!(boxes.kind()?, T => lines::map(&mut singles, boxes.values::<T>()?, |v: T| v.to_f64() as f32));
    let classes = scores.shape[1];
    let rects = singles.as_chunks::<4>().0;
    let (mut out, mut kept, mut best) = (Vec::new(), Kept::default(), Best::default());
    with_kind!(scores.kind()?, T => {
        for (row, scores) in scores.values::<T>()?.chunks_exact(n.max(1)).enumerate() {
            let (i, c) = (row / classes, row % classes);
            best.list(scores, least);
            kept.clear();
            while kept.len < most {
                let Some(k) = best.next(most.saturating_mul(2)) else { break };
                let own = corners(rects[i * n + k], center);
                if !exceeds(&kept.blocks, own, iou) {
                    kept.push(own);
                    out.extend([i as i64, c as i64, k as i64]);
                }
            }
        }
    });
    put_i64(ctx, 0, &[out.len() / 3, 3], &out)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("NonMaxSuppression", run_nms, &[FLOAT, FLOAT, INDEX, FLOAT, FLOAT]).gives(&[INDEX])];

#[cfg(test)]
mod tests {
    use super::{Best, corners};
    use crate::testing::{attrs, call, t};
    use ge_kernels::simd::{Level, with_level};
    use ge_plugin_api::types::DType;

    /// Intersection over union of two boxes.
    fn overlap(a: &[f32; 4], b: &[f32; 4]) -> f32 {
        let area = |r: &[f32; 4]| (r[2] - r[0]) * (r[3] - r[1]);
        let (h, w) = (a[2].min(b[2]) - a[0].max(b[0]), a[3].min(b[3]) - a[1].max(b[1]));
        if h <= 0.0 || w <= 0.0 || area(a) <= 0.0 || area(b) <= 0.0 {
            return 0.0;
        }
        h * w / (area(a) + area(b) - h * w)
    }

    /// The boxes that a plain loop over all sorted candidates keeps.
    fn plain(rects: &[[f32; 4]], scores: &[f32], most: usize, iou: f32, least: Option<f32>) -> Vec<usize> {
        let mut order: Vec<usize> = (0..scores.len()).filter(|&k| least.is_none_or(|l| scores[k] > l)).collect();
        order.sort_by(|p, q| scores[*q].total_cmp(&scores[*p]).then(p.cmp(q)));
        let mut kept: Vec<usize> = Vec::new();
        for k in order {
            if kept.len() < most && kept.iter().all(|&j| overlap(&rects[j], &rects[k]) <= iou) {
                kept.push(k);
            }
        }
        kept
    }

    #[test]
    fn any_number_of_boxes_gives_what_a_plain_loop_gives() {
        for n in [0usize, 1, 2, 9, 63, 64, 65, 500] {
            let v = |i: usize| (i * i * 37 % 1009) as f32 / 10.0;
            let mut boxes: Vec<f32> =
                (0..2 * n).flat_map(|i| [v(i), v(i + 7), v(i) + v(3 * i) / 4.0, v(i + 7) + v(5 * i) / 4.0]).collect();
            let mut scores: Vec<f32> = (0..6 * n).map(|i| (i * 61 % 97) as f32 / 97.0 - 0.2).collect();
            if n > 8 {
                // Boxes without an area, with corners that are not finite, and odd scores.
                boxes[4..8].fill(3.0);
                (boxes[8], boxes[15], boxes[17]) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
                (scores[3], scores[4], scores[5], scores[6]) = (f32::NAN, f32::INFINITY, -0.0, 0.0);
            }
            for center in [false, true] {
                let rects: Vec<[f32; 4]> = boxes.as_chunks().0.iter().map(|b| corners(*b, center)).collect();
                for (most, iou, least) in [
                    (0i64, 0.5f32, None),
                    (3, 0.5, Some(0.1f32)),
                    (1000, 0.0, None),
                    (1000, 1.0, Some(-1.0)),
                    (70, 0.2, None),
                    (9, -1.0, None),
                ] {
                    let mut want: Vec<i64> = Vec::new();
                    for row in 0..6 {
                        let own = &rects[row / 3 * n..][..n];
                        let kept = plain(own, &scores[row * n..][..n], most as usize, iou, least);
                        want.extend(kept.iter().flat_map(|k| [row as i64 / 3, row as i64 % 3, *k as i64]));
                    }
                    let inputs = [
                        t(&[2, n as u64, 4], &boxes),
                        t(&[2, 3, n as u64], &scores),
                        t(&[1], &[most]),
                        t(&[1], &[iou]),
                        t(&[1], &[least.unwrap_or(0.0)]),
                    ];
                    let mut inputs: Vec<_> = inputs.iter().map(Some).collect();
                    inputs.truncate(if least.is_none() { 4 } else { 5 });
                    let given = attrs(&[("center_point_box", i64::from(center).into())]);
                    for level in Level::available() {
                        let made =
                            with_level(level, || call("NonMaxSuppression", &inputs, &given, &[DType::I64]).unwrap());
                        assert_eq!(
                            made[0].view().values::<i64>().unwrap(),
                            want,
                            "{level:?}, {n} boxes, {most}, {iou}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn candidates_come_from_the_greatest_score_on() {
        for n in [0usize, 1, 64, 65, 129, 1000] {
            let scores: Vec<f32> = (0..n).map(|i| (i * 37 % 50) as f32 - 25.0).collect();
            let mut best = Best::default();
            best.list(&scores, None);
            let mut want: Vec<usize> = (0..n).collect();
            want.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            let found: Vec<usize> = std::iter::from_fn(|| best.next(1)).collect();
            assert_eq!(found, want);
        }
    }
}
