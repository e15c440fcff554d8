//! Elements that need no alignment: bytes that are moved together.
use super::elem::{Elem, Kind, sealed};
use super::num::Num;

/// An element of two, four or eight bytes at any address. Kernels that only move elements take
/// neighbours that stay together as one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Bytes<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Bytes<N> {
    fn default() -> Bytes<N> {
        Bytes([0; N])
    }
}

macro_rules! bytes {
    ($($n:literal, $t:ident, $kind:ident;)+) => {$(
        impl sealed::Sealed for Bytes<$n> {}
        impl Elem for Bytes<$n> {
            const KIND: Kind = Kind::$kind;
            fn to_num(self) -> Num {
                $t::from_ne_bytes(self.0).to_num()
            }
            fn from_num(n: Num) -> Self {
                Bytes($t::from_num(n).to_ne_bytes())
            }
        }
    )+};
}
bytes! {
    2, u16, U16;
    4, u32, U32;
    8, u64, U64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::cast_slice;

    #[test]
    fn they_may_be_anywhere_and_are_numbers_of_their_size() {
        let x: Vec<u8> = (0..17).collect();
        assert_eq!(
            cast_slice::<Bytes<8>>(&x[1..]).unwrap(),
            [Bytes([1, 2, 3, 4, 5, 6, 7, 8]), Bytes([9, 10, 11, 12, 13, 14, 15, 16])]
        );
        assert_eq!(Bytes::<4>::from_i64(-2).to_i64(), i64::from(u32::from_i64(-2)));
        assert_eq!(size_of::<Bytes<2>>(), Bytes::<2>::KIND.size());
    }
}
