//! The tile instructions as Intel's manual specifies them, in plain loops. They are the reference
//! for the hardware, and the machine on which kernels are tested.
//!
//! Sums of bytes wrap at 32 bits. For halves, the products with even and with odd positions in k
//! are summed separately, each by fused multiply-adds starting from zero. The two sums are added,
//! and the total is added to C. Everything is rounded to nearest even; inputs and results below the
//! smallest normal number become zero.
use super::{BYTES, Dot, Kind, ROWS, Shapes, TILES, Tiles, holds};
use crate::view::{Elem, as_bytes, as_bytes_mut};

/// A tile as rows of bytes.
pub(crate) type Tile = [[u8; BYTES]; ROWS];

/// Eight tiles in memory.
pub(crate) struct Software {
    shapes: Shapes,
    tiles: Box<[Tile; TILES]>,
}

/// The four bytes of a column or a group.
fn four(tile: &Tile, row: usize, at: usize) -> [u8; 4] {
    tile[row].as_chunks::<4>().0[at]
}

/// Replaces subnormal numbers by zero with the same sign.
fn flushed(v: f32) -> f32 {
    if v.is_subnormal() { 0f32.copysign(v) } else { v }
}

/// The two halves of a group as singles.
fn halves(four: [u8; 4]) -> [f32; 2] {
    let [a, b, c, d] = four;
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])].map(|v| flushed(f32::from_bits(u32::from(v) << 16)))
}

fn multiply_add(a: f32, b: f32, sum: f32) -> f32 {
    flushed(a.mul_add(b, flushed(sum)))
}

impl Tiles for Software {
    fn configure(shapes: &Shapes) -> Software {
        assert!(shapes.iter().all(|&(rows, bytes)| rows <= ROWS && bytes <= BYTES && bytes.is_multiple_of(4)));
        Software { shapes: *shapes, tiles: Box::new([[[0; BYTES]; ROWS]; TILES]) }
    }

    fn zero<const T: usize>(&mut self) {
        self.tiles[T] = [[0; BYTES]; ROWS];
    }

    fn load<const T: usize, E: Elem>(&mut self, from: &[E], stride: usize) {
        let (rows, bytes) = self.shapes[T];
        assert!(holds(self.shapes[T], from.len(), size_of::<E>(), stride));
        self.zero::<T>();
        for (r, row) in self.tiles[T][..rows].iter_mut().enumerate() {
            let from = &from[r * stride..][..bytes / size_of::<E>()];
            row[..bytes].copy_from_slice(as_bytes(from));
        }
    }

    unsafe fn load_from<const T: usize, E: Elem>(&mut self, from: *const E, stride: usize) {
        let (rows, bytes) = self.shapes[T];
        let len = (rows - 1) * stride + bytes / size_of::<E>();
        // SAFETY: the caller guarantees that the rows can be read, and rows of this crate's kernels
        // are parts of one slice.
        self.load::<T, E>(unsafe { std::slice::from_raw_parts(from, len) }, stride);
    }

    fn store<const T: usize, E: Elem>(&mut self, to: &mut [E], stride: usize) {
        let (rows, bytes) = self.shapes[T];
        assert!(holds(self.shapes[T], to.len(), size_of::<E>(), stride));
        for (r, row) in self.tiles[T][..rows].iter().enumerate() {
            let to = &mut to[r * stride..][..bytes / size_of::<E>()];
            as_bytes_mut(to).copy_from_slice(&row[..bytes]);
        }
    }

    fn dot<D: Dot, const C: usize, const A: usize, const B: usize>(&mut self) {
        let ((m, n), (rows, k), (deep, wide)) = (self.shapes[C], self.shapes[A], self.shapes[B]);
        assert!(m == rows && n == wide && k == 4 * deep && C != A && C != B && A != B);
        let (a, b) = (self.tiles[A], self.tiles[B]);
        multiply(D::KIND, [m, deep, n / 4], &a, &b, &mut self.tiles[C]);
    }
}

/// Adds the product of `a` and `b` to `c`: `m` rows, `deep` groups, `n` columns.
pub(crate) fn multiply(kind: Kind, [m, deep, n]: [usize; 3], a: &Tile, b: &Tile, c: &mut Tile) {
    for i in 0..m {
        for j in 0..n {
            let sum = four(c, i, j);
            let groups = (0..deep).map(|g| (four(a, i, g), four(b, g, j)));
            let sum = match kind {
                Kind::Bf16 => {
                    let mut apart = [0f32; 2];
                    for (a, b) in groups {
                        let (a, b) = (halves(a), halves(b));
                        apart = [0, 1].map(|q| multiply_add(a[q], b[q], apart[q]));
                    }
                    let both = flushed(apart[0] + apart[1]);
                    flushed(flushed(f32::from_le_bytes(sum)) + both).to_le_bytes()
                }
                kind => {
                    let signed = |v: u8| i32::from(v as i8);
                    let product = |a: u8, b: u8| match kind {
                        Kind::UnsignedSigned => i32::from(a) * signed(b),
                        Kind::SignedUnsigned => signed(a) * i32::from(b),
                        _ => signed(a) * signed(b),
                    };
                    let mut all = i32::from_le_bytes(sum);
                    for (a, b) in groups {
                        for (a, b) in a.into_iter().zip(b) {
                            all = all.wrapping_add(product(a, b));
                        }
                    }
                    all.to_le_bytes()
                }
            };
            c[i].as_chunks_mut::<4>().0[j] = sum;
        }
    }
}
