//! The loops of element-wise operators. One or two inputs are walked together with the output, in
//! lines of neighbouring elements without index arithmetic, several elements at a time.
use crate::args::{Arg, out, view_error};
use crate::par;
use ge_kernels::view::{Elem, Layout, Nest, broadcast_shapes, lines};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Elements of an operand that is not contiguous are copied to a line this many at a time.
pub const BLOCK: usize = 512;

/// `y = f(x)`, with the shape of x.
pub fn map<S: Elem, D: Elem>(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, f: impl Fn(S) -> D + Sync) -> Result<()> {
    let v = x.values::<S>()?;
    par::chunks(out::<D>(ctx, 0, &x.shape)?, par::GRAIN, |start, part| {
        lines::map(part, &v[start..], &f);
        Ok(())
    })
}

/// `y = f(a, b)`, both broadcast.
pub fn zip<S: Elem, Q: Elem, D: Elem>(
    ctx: &mut KernelCtx<'_>,
    a: &Arg<'_>,
    b: &Arg<'_>,
    f: impl Fn(S, Q) -> D + Sync,
) -> Result<()> {
    zip_lines::<S, Q, D>(ctx, a, b, |y, a, b| lines::zip(y, a, b, &f))
}

/// Like [`zip`], with a function of lines of equal length: output, first and second input.
pub fn zip_lines<S: Elem, Q: Elem, D: Elem>(
    ctx: &mut KernelCtx<'_>,
    a: &Arg<'_>,
    b: &Arg<'_>,
    f: impl Fn(&mut [D], &[S], &[Q]) + Sync,
) -> Result<()> {
    zip_values(ctx, (a, a.values()?), (b, b.values()?), &f)
}

/// A function that computes a line of the output from lines of equal length of both inputs.
pub type Lines<'f, S, Q, D> = &'f (dyn Fn(&mut [D], &[S], &[Q]) + Sync);

/// Like [`zip_lines`], over values that replace the elements of the inputs one for one. It is
/// compiled once for each choice of types.
pub fn zip_values<S: Elem, Q: Elem, D: Elem>(
    ctx: &mut KernelCtx<'_>,
    (a, va): (&Arg<'_>, &[S]),
    (b, vb): (&Arg<'_>, &[Q]),
    f: Lines<'_, S, Q, D>,
) -> Result<()> {
    let shape = broadcast_shapes(&a.shape, &b.shape).map_err(view_error)?;
    let (la, lb) = (a.broadcast(&shape)?, b.broadcast(&shape)?);
    zip_layouts(ctx, (&la, va), (&lb, vb), f)
}

/// Like [`zip_lines`], over slices with layouts of the output's shape.
pub fn zip_layouts<S: Item, Q: Item, D: Elem>(
    ctx: &mut KernelCtx<'_>,
    (la, va): (&Layout, &[S]),
    (lb, vb): (&Layout, &[Q]),
    f: Lines<'_, S, Q, D>,
) -> Result<()> {
    let nest = Nest::new(la.shape(), [la, lb]);
    par::chunks(out::<D>(ctx, 0, la.shape())?, par::GRAIN, |start, part| {
        let range = start..start + part.len();
        if nest.run() < SHORT && nest.runs() > 1 {
            gathered(&nest, range, part, (va, vb), f);
            return Ok(());
        }
        let (mut room_a, mut room_b) = (Line::new(), Line::new());
        let mut at = 0;
        nest.each_run_in(range, |[pa, pb], n, [sa, sb]| {
            let mut o = &mut part[at..at + n];
            at += n;
            // If both are contiguous, the whole run is one line.
            let most = if (sa, sb) == (1, 1) { n } else { BLOCK };
            let mut done = 0;
            while !o.is_empty() {
                let (line, rest) = o.split_at_mut(most.min(o.len()));
                let skip = |p: isize, s: isize| p + done as isize * s;
                let len = line.len();
                f(line, room_a.of(va, skip(pa, sa), sa, len), room_b.of(vb, skip(pb, sb), sb, len));
                done += len;
                o = rest;
            }
        });
        Ok(())
    })
}

/// Elements of lines: tensor elements, or pairs of numbers.
pub trait Item: Copy + Default + Sync {}
impl<T: Copy + Default + Sync> Item for T {}

/// Runs shorter than this are gathered into lines before anything is computed.
const SHORT: usize = 16;

fn gathered<S: Item, Q: Item, D: Elem>(
    nest: &Nest<2>,
    range: std::ops::Range<usize>,
    part: &mut [D],
    (va, vb): (&[S], &[Q]),
    f: Lines<'_, S, Q, D>,
) {
    let (mut a, mut b) = ([S::default(); BLOCK], [Q::default(); BLOCK]);
    let mut start = range.start;
    for line in part.chunks_mut(BLOCK) {
        let mut at = 0;
        nest.each_run_in(start..start + line.len(), |[pa, pb], n, [sa, sb]| {
            for i in 0..n {
                a[at + i] = va[(pa + i as isize * sa) as usize];
                b[at + i] = vb[(pb + i as isize * sb) as usize];
            }
            at += n;
        });
        start += line.len();
        f(line, &a[..at], &b[..at]);
    }
}

/// Working memory for a part of an operand that is not contiguous.
struct Line<T> {
    room: [T; BLOCK],
    /// The position of the element that fills the room, and how much of the room it fills.
    filled: Option<(isize, usize)>,
}

impl<T: Item> Line<T> {
    fn new() -> Line<T> {
        Line { room: [T::default(); BLOCK], filled: None }
    }
    /// `len` elements from position `at` on, `stride` apart.
    fn of<'a>(&'a mut self, v: &'a [T], at: isize, stride: isize, len: usize) -> &'a [T] {
        match stride {
            1 => return &v[at as usize..at as usize + len],
            0 => {
                if self.filled.is_none_or(|(of, n)| of != at || n < len) {
                    self.room[..len].fill(v[at as usize]);
                    self.filled = Some((at, len));
                }
            }
            _ => {
                self.filled = None;
                let places = (0..len as isize).map(|i| (at + i * stride) as usize);
                self.room.iter_mut().zip(places).for_each(|(o, p)| *o = v[p]);
            }
        }
        &self.room[..len]
    }
}
