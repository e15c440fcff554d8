//! Codes that cross the ABI boundary: open sets of small numbers with names, so that the newer side
//! may know more of them.

/// Declares an open code type: a number with named constants, `name()`, `from_name()` and `ALL`.
///
/// Expansion: a `repr(transparent)` struct over the integer with one associated constant per row.
/// An unknown number is a legal value that prints as `#n`.
#[macro_export]
#[doc(hidden)]
macro_rules! open_code {
    ($(#[$m:meta])* $vis:vis struct $name:ident: $int:ty { $($(#[$vm:meta])* $id:ident = $num:literal $text:literal),+ $(,)? }) => {
        $(#[$m])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, $crate::abi::StableAbi)]
        $vis struct $name(pub $int);
        impl $name {
            $($(#[$vm])* pub const $id: Self = Self($num);)+
            /// Every code that this version knows, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$id),+];
            /// The name as texts, files and messages write it; `None` for a code that this version
            /// does not know.
            pub fn known_name(self) -> Option<&'static str> {
                match self.0 { $($num => Some($text),)+ _ => None }
            }
            /// The name; `?` for a code that this version does not know.
            pub fn name(self) -> &'static str { self.known_name().unwrap_or("?") }
            /// The code with a name; `None` if this version does not know the name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$id),)+ _ => None }
            }
            /// The code with a number; `None` if this version does not know it.
            pub fn from_code(code: $int) -> Option<Self> { Self(code).known_name().map(|_| Self(code)) }
            /// The number itself.
            pub const fn code(self) -> $int { self.0 }
        }
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.known_name() { Some(n) => f.pad(n), None => write!(f, "#{}", self.0) }
            }
        }
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { write!(f, "{self}") }
        }
    };
}
