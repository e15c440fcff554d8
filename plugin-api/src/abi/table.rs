//! One declaration for an object that crosses the ABI boundary: its function table, the functions
//! that the plugin's library puts into the table, and the methods with which the host calls them.
use super::{RResult, RVec, guard, guard_value};
use crate::abi::erase::RawSlice;
use crate::diagnostic::{Error, Result};

/// An argument that the host passes; it crosses the ABI boundary as `R`.
///
/// # Safety
/// `hold` must accept what `lend` returns.
pub unsafe trait Lend<R> {
    /// The argument as the plugin sees it.
    type Held;
    /// Converts the host's argument into the form that crosses.
    fn lend(self) -> R;
    /// Converts what crossed into the plugin's argument.
    ///
    /// # Safety
    /// `raw` must come from `lend`, and what was lent must be alive and unchanged during the call.
    unsafe fn hold(raw: R) -> Self::Held;
}

// SAFETY: the value itself crosses.
unsafe impl<T> Lend<T> for T {
    type Held = T;
    fn lend(self) -> T {
        self
    }
    unsafe fn hold(raw: T) -> T {
        raw
    }
}
// SAFETY: a reference crosses as a pointer.
unsafe impl<'a, T> Lend<*const T> for &'a T {
    type Held = &'a T;
    fn lend(self) -> *const T {
        self
    }
    unsafe fn hold(raw: *const T) -> &'a T {
        // SAFETY: guaranteed by the caller.
        unsafe { &*raw }
    }
}
// SAFETY: a slice crosses as its pointer and its length.
unsafe impl<'a, T> Lend<RawSlice<T>> for &'a [T] {
    type Held = &'a [T];
    fn lend(self) -> RawSlice<T> {
        RawSlice::of(self)
    }
    unsafe fn hold(raw: RawSlice<T>) -> &'a [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { raw.get() }
    }
}
// SAFETY: a string crosses as its bytes, which are UTF-8.
unsafe impl<'a> Lend<RawSlice<u8>> for &'a str {
    type Held = &'a str;
    fn lend(self) -> RawSlice<u8> {
        RawSlice::of(self.as_bytes())
    }
    unsafe fn hold(raw: RawSlice<u8>) -> &'a str {
        // SAFETY: guaranteed by the caller.
        unsafe { core::str::from_utf8_unchecked(raw.get()) }
    }
}
// SAFETY: a list crosses with its ownership.
unsafe impl<T> Lend<RVec<T>> for Vec<T> {
    type Held = Vec<T>;
    fn lend(self) -> RVec<T> {
        self.into()
    }
    unsafe fn hold(raw: RVec<T>) -> Vec<T> {
        raw.into()
    }
}

/// The result of a method; it crosses the ABI boundary as `R`. No panic crosses.
pub trait Outcome<R> {
    /// Plugin side: the result of `f`, or the outcome of a panic in `what`.
    fn guarded(what: &str, f: impl FnOnce() -> Self) -> R;
    /// Host side: restores the result from what crossed.
    fn back(raw: R) -> Self;
}
impl<T, R: Into<T>> Outcome<RResult<R, Error>> for Result<T>
where
    T: Into<R>,
{
    fn guarded(what: &str, f: impl FnOnce() -> Self) -> RResult<R, Error> {
        guard(what, || f().map(Into::into))
    }
    fn back(raw: RResult<R, Error>) -> Self {
        raw.into_result().map(Into::into)
    }
}
impl Outcome<u64> for u64 {
    fn guarded(_: &str, f: impl FnOnce() -> u64) -> u64 {
        guard_value(0, f)
    }
    fn back(raw: u64) -> u64 {
        raw
    }
}
impl Outcome<bool> for bool {
    fn guarded(_: &str, f: impl FnOnce() -> bool) -> bool {
        guard_value(false, f)
    }
    fn back(raw: bool) -> bool {
        raw
    }
}

/// Declares an object that crosses the ABI boundary.
///
/// ```text
/// abi_object! {
///     /// What the object is.
///     object EngineObject of dyn Engine;
///     /// Its table.
///     table EngineTable, EngineTableRef;
///     /// Whether it takes a node.
///     call supports(node: &Node<'_> => RawNodeRef) -> Result<Support> => RResult<Support, Error>
///         = |e| Ok(e.supports(&node));
/// }
/// ```
/// An argument is declared as `name: type in the host => type that crosses` ([`Lend`]), and a
/// result likewise ([`Outcome`]). The last part is the plugin's side, an expression over the
/// arguments as the plugin holds them. `call` also generates the host's method; `raw` leaves that
/// to the file. `[last_prefix_field]` marks the last method of version 1.0; methods after it are
/// appended ones, and `raw`.
///
/// Expansion: the prefix table, a static table whose functions run under the guard, and the
/// carrier. The carrier is a `repr(C)` struct with the maker's pointer and table and with the
/// host's methods. The maker's library drops it, and it is `Send` and `Sync` as the trait requires.
/// The types of a method are written nowhere else.
macro_rules! abi_object {
    (
        $(#[$om:meta])* object $object:ident of dyn $tr:ident;
        $(#[$tm:meta])* table $table:ident, $table_ref:ident;
        $(
            $(#[$m:meta])* $([$mark:ident])? $kind:ident $name:ident
            ($($arg:ident: $ty:ty => $raw:ty),* $(,)?) -> $out:ty => $out_raw:ty = |$e:ident| $body:expr;
        )+
    ) => {
        $(#[$tm])*
        #[repr(C)]
        #[derive($crate::abi::StableAbi)]
        #[sabi(kind(Prefix(prefix_ref = $table_ref)))]
        #[sabi(missing_field(option))]
        pub struct $table {
            /// Drops the object behind the pointer.
            pub drop: unsafe extern "C" fn(*const ()),
            $(
                $(#[$m])*
                $(#[sabi($mark)])?
                pub $name: unsafe extern "C" fn(*const () $(, $raw)*) -> $out_raw,
            )+
        }
        const _: () = {
            static TABLE: &$crate::abi::WithMetadata<$table> = &$crate::abi::WithMetadata::new($table {
                drop: {
                    unsafe extern "C" fn call(p: *const ()) {
                        // SAFETY: this is the carrier's own pointer, and it is dropped once.
                        unsafe { $crate::abi::erase::drop_object::<dyn $tr>(p) }
                    }
                    call
                },
                $($name: {
                    unsafe extern "C" fn call(p: *const () $(, $arg: $raw)*) -> $out_raw {
                        // SAFETY: the host calls a table only with the pointer that belongs to it
                        // and with arguments that live during the call.
                        let $e: &dyn $tr = unsafe { $crate::abi::erase::object::<dyn $tr>(p) };
                        $(
                            // SAFETY: as above.
                            let $arg = unsafe { <$ty as $crate::abi::table::Lend<$raw>>::hold($arg) };
                        )*
                        <$out as $crate::abi::table::Outcome<$out_raw>>::guarded(
                            concat!(stringify!($tr), "::", stringify!($name)),
                            || $body,
                        )
                    }
                    call
                },)+
            });
            impl $object {
                /// The table of all objects that this library makes.
                #[allow(dead_code)]
                pub(crate) fn own_table() -> $table_ref {
                    $table_ref(TABLE.static_as_prefix())
                }
            }
        };
        $(#[$om])*
        #[repr(C)]
        #[derive($crate::abi::StableAbi)]
        pub struct $object { ptr: *const (), table: $table_ref }
        // SAFETY: the object behind the pointer is a `Box<dyn Trait>` whose trait requires Send and
        // Sync.
        unsafe impl Send for $object {}
        // SAFETY: as above.
        unsafe impl Sync for $object {}
        impl Drop for $object {
            fn drop(&mut self) {
                // SAFETY: `ptr` came from `from_box` of the library that `table` belongs to, and is
                // dropped once.
                unsafe { (self.table.drop())(self.ptr) }
            }
        }
        impl core::fmt::Debug for $object {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { f.write_str(stringify!($object)) }
        }
        /// The pointer and the table belong together, and what is lent lives during the call;
        /// therefore all methods are safe.
        impl $object {
            /// Wraps an object of this library into its carrier.
            pub fn from_box(object: Box<dyn $tr>) -> Self {
                Self { ptr: Box::into_raw(Box::new(object)) as *const (), table: Self::own_table() }
            }
            #[allow(dead_code)]
            pub(crate) fn ptr(&self) -> *const () { self.ptr }
            #[allow(dead_code)]
            pub(crate) fn table(&self) -> $table_ref { self.table }
            $($crate::abi::table::abi_method! {
                $kind; $(#[$m])* $name ($($arg: $ty => $raw),*) -> $out => $out_raw
            })+
        }
    };
}
pub(crate) use abi_object;

/// Generates the host's method for one function of a table.
macro_rules! abi_method {
    (raw; $($rest:tt)*) => {};
    (call; $(#[$m:meta])* $name:ident ($($arg:ident: $ty:ty => $raw:ty),*) -> $out:ty => $out_raw:ty) => {
        $(#[$m])*
        pub fn $name(&self $(, $arg: $ty)*) -> $out {
            // SAFETY: see the doc comment of the impl.
            let raw = unsafe { (self.table().$name())(self.ptr() $(, $crate::abi::table::Lend::lend($arg))*) };
            $crate::abi::table::Outcome::<$out_raw>::back(raw)
        }
    };
}
pub(crate) use abi_method;
