//! Takes some pieces apart and puts them together in another way, by chance, as long as that leaves
//! fewer pieces or less waste. One wrong union keeps all pieces around it from the right ones: where
//! pieces are left over, one of those beside them is wrong.

use super::super::problem::Problem;
use super::super::separate::Dice;
use super::pieces::{Made, Pieces};
use super::unite;

/// What a piece costs that is left, in parts of a million of all memory and time.
const PIECE: u64 = 50;
/// Limits of the unions of one try, as those of all pieces.
const LIMITS: [u64; 4] = [10_000, 60_000, 200_000, 400_000];
/// Pieces that begin or end at one instant which one try looks at.
const MOST_AT_ONCE: usize = 20;
/// Pieces whose copy counts as one step.
const COPIED: u64 = 64;
/// Steps of a try beyond its unions.
const TRY: u64 = 100;

/// How bad a list of pieces is: how many are left over, and how much of them is idle.
fn cost(pieces: &Pieces, problem: &Problem) -> u64 {
    let all = u128::from(problem.bound) * u128::from(pieces.times.last().copied().unwrap_or(1));
    let whole = pieces.whole();
    let idle: u128 = whole.iter().map(|&piece| pieces.idle(piece)).sum();
    let idle = u64::try_from(idle * 1_000_000 / all.max(1)).unwrap_or(u64::MAX / 2);
    idle + whole.len() as u64 * PIECE
}

/// Tries until `most_steps` are taken or one piece is left.
pub(super) fn retry(pieces: &mut Pieces, problem: &Problem, most_steps: u64, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut least = cost(pieces, problem);
    let mut steps = 0;
    while steps < most_steps {
        let whole = pieces.whole();
        if whole.len() < 2 {
            break;
        }
        let mut other = pieces.clone();
        let instants = loosen(&mut other, whole[dice.below(whole.len())], &mut dice);
        steps += TRY + pieces.all.len() as u64 / COPIED;
        for limit in LIMITS {
            steps += unite(&mut other, limit, instants.clone(), Some(&mut dice));
        }
        let now = cost(&other, problem);
        if now <= least {
            least = now;
            *pieces = other;
        }
    }
}

/// Takes apart some of the whole pieces around one of them as far as anything in them is idle, and
/// gives the instants at which that changes something.
fn loosen(pieces: &mut Pieces, first: u32, dice: &mut Dice) -> Vec<u32> {
    let mut near = vec![first];
    for _ in 0..1 + dice.below(2) {
        for at in 0..near.len() {
            let piece = *pieces.of(near[at]);
            for instant in [piece.lower, piece.upper] {
                let lists = [&pieces.begins[instant as usize], &pieces.ends[instant as usize]];
                near.extend(lists.into_iter().flatten().take(MOST_AT_ONCE));
            }
        }
        near.sort_unstable();
        near.dedup();
    }
    let mut instants = Vec::new();
    let kept = 1 + dice.below(4);
    while let Some(piece) = near.pop() {
        let before = *pieces.of(piece);
        instants.extend([before.lower, before.upper]);
        if dice.below(4) < kept {
            continue;
        }
        if matches!(before.made, Made::Block(_)) {
            pieces.shrink(piece);
            instants.push(pieces.of(piece).upper);
        } else if pieces.idle(piece) * 1000 >= before.content {
            pieces.dissolve(piece);
            near.extend(before.made.parts());
        }
    }
    instants.sort_unstable();
    instants.dedup();
    instants
}

#[cfg(test)]
mod tests {
    use super::super::planted::{HEIGHT, planted};
    use super::super::unite;
    use super::{cost, retry};
    use crate::memory::problem::{Problem, narrow};
    use crate::memory::tiling::pieces::Pieces;

    #[test]
    fn tries_leave_fewer_pieces_and_every_block_in_one_of_them() {
        let blocks = planted(600, 74, 3);
        let problem = Problem::new(&blocks, true).expect("a problem");
        let mut pieces = Pieces::new(&problem);
        let everywhere = (0..narrow(pieces.times.len())).collect();
        unite(&mut pieces, 10_000, everywhere, None);
        let (count, before) = (pieces.whole().len(), cost(&pieces, &problem));
        retry(&mut pieces, &problem, 200_000, 1);
        assert!(pieces.whole().len() * 3 < count * 2 && cost(&pieces, &problem) < before);
        let mut blocks_left = vec![0; problem.len()];
        let mut inside = pieces.whole();
        while let Some(piece) = inside.pop() {
            let parts = pieces.of(piece).made.parts();
            if parts.is_empty() {
                blocks_left[piece as usize] += 1;
            }
            inside.extend(parts);
        }
        assert!(blocks_left.iter().all(|&count| count == 1));
        assert!(pieces.whole().iter().all(|&piece| pieces.of(piece).size <= 2 * HEIGHT));
    }
}
