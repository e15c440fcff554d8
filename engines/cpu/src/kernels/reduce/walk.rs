//! The loops of a reduction. Neighbouring axes that are all kept, or all reduced, are merged. The
//! two innermost groups form lines that are folded, or accumulated, several elements at a time.
use ge_kernels::view::lines;

/// Lines shorter than this are processed directly.
const SHORT: usize = 32;

/// The merged axes of a reduction.
pub struct Walk {
    /// Size of each outer group and its stride in the output; stride 0 if it is reduced.
    outer: Vec<(usize, usize)>,
    /// Number of lines for each step of the outer groups.
    rows: usize,
    /// Number of elements of a line.
    run: usize,
    /// Whether each line is reduced to one element; otherwise the lines are combined into one.
    folds: bool,
    /// Number of elements of the input.
    elements: usize,
}

impl Walk {
    /// Plans the reduction of a shape over the axes `over`.
    pub fn new(shape: &[usize], over: &[usize]) -> Walk {
        let elements = if shape.contains(&0) { 0 } else { shape.iter().product() };
        if elements == 0 {
            return Walk { outer: Vec::new(), rows: 0, run: 0, folds: true, elements };
        }
        let mut groups: Vec<(usize, bool)> = Vec::new();
        for (axis, &size) in shape.iter().enumerate().filter(|(_, size)| **size != 1) {
            let goes = over.contains(&axis);
            match groups.last_mut() {
                Some(last) if last.1 == goes => last.0 *= size,
                _ => groups.push((size, goes)),
            }
        }
        let (run, folds) = groups.pop().unwrap_or((1, true));
        let rows = groups.pop().map_or(1, |g| g.0);
        let mut stride = if folds { rows } else { run };
        let mut outer = Vec::new();
        for &(size, goes) in groups.iter().rev() {
            outer.push((size, if goes { 0 } else { stride }));
            stride *= if goes { 1 } else { size };
        }
        outer.reverse();
        Walk { outer, rows, run, folds, elements }
    }

    /// Calls `visit(position, elements)` for every line, in order. The position is that of the
    /// output element that the line is reduced to or, if it is not reduced, of its first output
    /// element.
    fn lines(&self, mut visit: impl FnMut(usize, std::ops::Range<usize>)) {
        if self.elements == 0 {
            return;
        }
        let mut index = vec![0usize; self.outer.len()];
        let (mut at, mut from) = (0, 0);
        while from < self.elements {
            for row in 0..self.rows {
                visit(at + if self.folds { row } else { 0 }, from..from + self.run);
                from += self.run;
            }
            for (i, &(size, stride)) in index.iter_mut().zip(&self.outer).rev() {
                *i += 1;
                at += stride;
                if *i < size {
                    break;
                }
                at -= size * stride;
                *i = 0;
            }
        }
    }

    /// Combines every element of `x` with the state at its position in `y`.
    /// `fold(position, state, line)` returns the state after a whole line;
    /// `update(position, states, line)` updates the states from a position on with a line of as
    /// many elements.
    pub fn each<S: Copy, A: Copy>(
        &self,
        x: &[S],
        y: &mut [A],
        fold: impl Fn(usize, A, &[S]) -> A,
        update: impl Fn(usize, &mut [A], &[S]),
    ) {
        self.lines(|at, from| {
            let line = &x[from];
            if self.folds {
                y[at] = fold(at, y[at], line);
            } else {
                update(at, &mut y[at..at + line.len()], line);
            }
        });
    }

    /// `o[i] = f(x[i], y[position of i])`: every element with the state at its position.
    pub fn map<S: Copy, A: Copy, D: Copy>(&self, x: &[S], y: &[A], o: &mut [D], f: impl Fn(S, A) -> D) {
        self.lines(|at, from| {
            let (o, x) = (&mut o[from.clone()], &x[from]);
            match (self.folds, x.len() < SHORT) {
                (true, true) => o.iter_mut().zip(x).for_each(|(o, x)| *o = f(*x, y[at])),
                (true, false) => lines::map(o, x, |x| f(x, y[at])),
                (false, true) => o.iter_mut().zip(x).zip(&y[at..]).for_each(|((o, x), y)| *o = f(*x, *y)),
                (false, false) => lines::zip(o, x, &y[at..], &f),
            }
        });
    }

    /// Like [`Walk::each`], with one function of a state and an element, which must agree with
    /// `join`. Lines are folded in sixteen states ([`lines::fold_lanes`]) that begin with `start`.
    pub fn by<S: Copy, A: Copy>(
        &self,
        x: &[S],
        y: &mut [A],
        start: A,
        f: impl Fn(A, S) -> A,
        join: impl Fn(A, A) -> A,
    ) {
        self.each(
            x,
            y,
            |_, state, line| match line.len() < SHORT {
                true => line.iter().fold(state, |s, e| f(s, *e)),
                false => join(state, lines::fold_lanes(line, start, &f, &join)),
            },
            |_, states, line| match line.len() < SHORT {
                true => states.iter_mut().zip(line).for_each(|(s, e)| *s = f(*s, *e)),
                false => lines::update(states, line, &f),
            },
        );
    }

    /// Like [`Walk::by`], for integers, whose sums, products and extremes do not depend on the
    /// order: the compiler chooses how many elements to process at a time.
    pub fn in_any_order<S: Copy, A: Copy>(&self, x: &[S], y: &mut [A], f: impl Fn(A, S) -> A) {
        self.each(
            x,
            y,
            |_, state, line| match line.len() < SHORT {
                true => line.iter().fold(state, |s, e| f(s, *e)),
                false => lines::fold(line, state, &f),
            },
            |_, states, line| match line.len() < SHORT {
                true => states.iter_mut().zip(line).for_each(|(s, e)| *s = f(*s, *e)),
                false => lines::update(states, line, &f),
            },
        );
    }

    /// Like [`Walk::by`], with a function of the state, the element and the value given for its
    /// position.
    pub fn by_place<S: Copy, A: Copy, P: Copy>(
        &self,
        (x, given): (&[S], &[P]),
        y: &mut [A],
        start: A,
        f: impl Fn(A, S, P) -> A,
        join: impl Fn(A, A) -> A,
    ) {
        self.each(
            x,
            y,
            |at, state, line| {
                let own = given[at];
                join(state, lines::fold_lanes(line, start, |s, e| f(s, e, own), &join))
            },
            |at, states, line| lines::update_by(states, line, &given[at..], &f),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_comes_to_its_place_once() {
        let shapes: [&[usize]; 7] = [&[], &[5], &[3, 40], &[40, 3], &[2, 3, 1, 37], &[2, 1, 3, 4, 5], &[3, 0, 2]];
        for shape in shapes {
            for set in 0..1u32 << shape.len() {
                let over: Vec<usize> = (0..shape.len()).filter(|a| set >> a & 1 == 1).collect();
                let n: usize = shape.iter().product();
                let x: Vec<i64> = (0..n as i64).map(|i| i * i + 1).collect();
                let walk = Walk::new(shape, &over);
                let kept = shape.iter().enumerate().filter(|(a, _)| !over.contains(a)).map(|(_, d)| *d);
                let mut want = vec![0; kept.clone().product()];
                for (i, v) in x.iter().enumerate() {
                    let (mut rest, mut at, mut step) = (i, 0, 1);
                    for (a, &d) in shape.iter().enumerate().rev() {
                        if !over.contains(&a) {
                            at += rest % d * step;
                            step *= d;
                        }
                        rest /= d;
                    }
                    want[at] += v;
                }
                let mut got = vec![0; want.len()];
                walk.by(&x, &mut got, 0, |s, e| s + e, |a, b| a + b);
                assert_eq!(got, want, "{shape:?} over {over:?}");
                got.fill(0);
                walk.in_any_order(&x, &mut got, |s, e| s + e);
                assert_eq!(got, want, "{shape:?} over {over:?}");
                // What is subtracted by position comes back by position.
                let mut less = vec![0; n];
                walk.map(&x, &want, &mut less, |x, sum| (n as i64) * x - sum);
                let mut again = vec![0; want.len()];
                walk.by_place((&less, &want), &mut again, 0, |s, e, sum| s + e + sum, |a, b| a + b);
                let whole: Vec<i64> = want.iter().map(|w| w * n as i64).collect();
                assert_eq!(again, whole, "{shape:?} over {over:?}");
            }
        }
    }
}
