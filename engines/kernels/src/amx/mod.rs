//! Tiles: registers of up to sixteen rows of sixty-four bytes, and products of them (Intel AMX).
//!
//! A product adds to a tile C of 32-bit sums what a tile A, rows of which have up to sixty-four
//! bytes of k, and a tile B give. A row of B has a group of k, four bytes or two halves of each of
//! sixteen columns side by side. That is the packed form of matrices of bytes
//! ([`crate::gemm::int8`]) as it is.
//!
//! Kernels are written against [`Tiles`], of which there are two: [`hardware`], on machines that
//! have the instructions and let us use them ([`detect`]), and [`software`], which computes what
//! Intel's manual says they do and on which the kernels are tested everywhere. The instructions are
//! tested everywhere too: tests catch the signal of a machine that lacks them (`emulated`).

/// Whether the machine has tiles, lets the process use them, and computes right with them.
pub(crate) mod detect;
/// The instructions.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod hardware;
/// The instructions where the machine lacks them.
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod emulated;
/// What the instructions do, computed plainly.
pub(crate) mod software;
/// A product of matrices by tiles.
pub(crate) mod block;

use crate::view::Elem;
use half::bf16;

/// Rows of a tile at most.
pub(crate) const ROWS: usize = 16;
/// Bytes of a row at most.
pub(crate) const BYTES: usize = 64;
/// Tiles that there are.
pub(crate) const TILES: usize = 8;

/// Rows and bytes of a row of each tile; neither is 0 in a tile that is used.
pub(crate) type Shapes = [(usize, usize); TILES];

/// Which numbers a product multiplies.
pub(crate) trait Dot {
    /// Numbers of A.
    type A: Elem;
    /// Numbers of B.
    type B: Elem;
    /// Sums.
    type C: Elem;
    /// Which of the instructions.
    const KIND: Kind;
}

/// The products of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unsigned bytes by signed ones.
    UnsignedSigned,
    /// Signed bytes by signed ones.
    Signed,
    /// Signed bytes by unsigned ones.
    SignedUnsigned,
    /// Halves with the exponent of singles, summed in singles.
    Bf16,
}

/// Unsigned bytes by signed ones.
pub(crate) struct UnsignedSigned;
/// Signed bytes by signed ones.
pub(crate) struct Signed;
/// Signed bytes by unsigned ones.
pub(crate) struct SignedUnsigned;
/// Halves with the exponent of singles.
pub(crate) struct Bf16;

impl Dot for UnsignedSigned {
    type A = u8;
    type B = i8;
    type C = i32;
    const KIND: Kind = Kind::UnsignedSigned;
}

impl Dot for Signed {
    type A = i8;
    type B = i8;
    type C = i32;
    const KIND: Kind = Kind::Signed;
}

impl Dot for SignedUnsigned {
    type A = i8;
    type B = u8;
    type C = i32;
    const KIND: Kind = Kind::SignedUnsigned;
}

impl Dot for Bf16 {
    type A = bf16;
    type B = bf16;
    type C = f32;
    const KIND: Kind = Kind::Bf16;
}

/// Eight tiles, given back when this is dropped. Numbers of tiles are parameters, since they are
/// part of the instructions. What memory lacks of a tile is a panic.
pub(crate) trait Tiles: Sized {
    /// Tiles of these shapes, all of them zero. A thread has one set at a time: a second one is a
    /// panic.
    fn configure(shapes: &Shapes) -> Self;
    /// Sets a tile to zero.
    fn zero<const T: usize>(&mut self);
    /// Reads the rows of a tile, which begin `stride` numbers apart.
    fn load<const T: usize, E: Elem>(&mut self, from: &[E], stride: usize);
    /// Writes the rows of a tile, `stride` numbers apart.
    fn store<const T: usize, E: Elem>(&mut self, to: &mut [E], stride: usize);
    /// Adds to tile `C` the product of tile `A` by tile `B`. A row of A has as many groups as B
    /// has rows; B is as wide as C, and C as tall as A.
    fn dot<D: Dot, const C: usize, const A: usize, const B: usize>(&mut self);
}

/// Whether `len` numbers of `size` bytes hold a tile of this shape whose rows are `stride` apart.
#[inline(always)]
fn holds((rows, bytes): (usize, usize), len: usize, size: usize, stride: usize) -> bool {
    rows > 0 && (rows - 1).saturating_mul(stride).saturating_add(bytes / size) <= len
}

#[cfg(test)]
mod tests;
