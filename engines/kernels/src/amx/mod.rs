//! Tiles: registers of up to sixteen rows of sixty-four bytes, and their products (Intel AMX).
//!
//! A product of tiles A and B is added to a tile C of 32-bit sums. Rows of A hold up to sixty-four
//! bytes along k. A row of B holds, for each of sixteen columns, one group of k: four bytes or two
//! halves. That is exactly the packed format of matrices of bytes ([`crate::gemm::int8`]).
//!
//! Kernels are written against [`Tiles`], which has two implementations: [`hardware`], on machines
//! that have the instructions and let the process use them ([`detect`]), and [`software`], which
//! computes what Intel's manual specifies. Tests run the kernels on the latter everywhere. They
//! also run the instructions everywhere, by catching the signal of machines that lack them
//! (`emulated`).

/// Whether the machine has tiles, lets the process use them, and computes correctly with them.
pub(crate) mod detect;
/// Tiles in hardware.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod hardware;
/// The hardware instructions, emulated on machines that lack them.
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod emulated;
/// A plain implementation of what the instructions do.
pub(crate) mod software;
/// A product of matrices with tiles.
pub(crate) mod block;

use crate::view::Elem;
use half::bf16;

/// Maximum number of rows of a tile.
pub(crate) const ROWS: usize = 16;
/// Maximum number of bytes of a row.
pub(crate) const BYTES: usize = 64;
/// Number of tiles.
pub(crate) const TILES: usize = 8;

/// Rows, and bytes per row, of each tile. Neither may be 0 for a tile that is used.
pub(crate) type Shapes = [(usize, usize); TILES];

/// The number types of a product.
pub(crate) trait Dot {
    /// Element type of A.
    type A: Elem;
    /// Element type of B.
    type B: Elem;
    /// Type of the sums.
    type C: Elem;
    /// The instruction for these types.
    const KIND: Kind;
}

/// The kinds of products of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unsigned bytes times signed bytes.
    UnsignedSigned,
    /// Signed bytes times signed bytes.
    Signed,
    /// Signed bytes times unsigned bytes.
    SignedUnsigned,
    /// bf16 halves, summed in single precision.
    Bf16,
}

/// Unsigned bytes times signed bytes.
pub(crate) struct UnsignedSigned;
/// Signed bytes times signed bytes.
pub(crate) struct Signed;
/// Signed bytes times unsigned bytes.
pub(crate) struct SignedUnsigned;
/// bf16 halves, summed in single precision.
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

/// Eight tiles, released on drop. Tile numbers are const parameters because they are part of the
/// instructions. Methods panic if a slice is too short for a tile.
pub(crate) trait Tiles: Sized {
    /// Configures tiles of these shapes. Their contents start as zero. A thread can have only one
    /// set at a time; a second one panics.
    fn configure(shapes: &Shapes) -> Self;
    /// Sets a tile to zero.
    fn zero<const T: usize>(&mut self);
    /// Loads the rows of a tile, which begin `stride` numbers apart.
    fn load<const T: usize, E: Elem>(&mut self, from: &[E], stride: usize);
    /// Like [`Tiles::load`], without the check of the length.
    ///
    /// # Safety
    /// The rows of the tile must be readable.
    unsafe fn load_from<const T: usize, E: Elem>(&mut self, from: *const E, stride: usize);
    /// Like [`Tiles::load_from`], for rows that are not read again soon: they need not stay in the
    /// first-level cache.
    ///
    /// # Safety
    /// As for [`Tiles::load_from`].
    unsafe fn load_once<const T: usize, E: Elem>(&mut self, from: *const E, stride: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.load_from::<T, E>(from, stride) }
    }
    /// Stores the rows of a tile, `stride` numbers apart.
    fn store<const T: usize, E: Elem>(&mut self, to: &mut [E], stride: usize);
    /// Adds the product of tiles `A` and `B` to tile `C`. A row of A must have as many groups as B
    /// has rows; B must be as wide as C, and C as tall as A.
    fn dot<D: Dot, const C: usize, const A: usize, const B: usize>(&mut self);
}

/// Whether `len` numbers of `size` bytes can hold a tile of this shape with rows `stride` apart.
#[inline(always)]
fn holds((rows, bytes): (usize, usize), len: usize, size: usize, stride: usize) -> bool {
    rows > 0 && (rows - 1).saturating_mul(stride).saturating_add(bytes / size) <= len
}

#[cfg(test)]
mod tests;
