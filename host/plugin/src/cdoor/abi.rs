//! The structures of `plugin-c/ge_plugin.h`, field by field; a test compares them with the header.
//!
//! Structures of a plugin begin with their size and only grow: `read` takes as many bytes of one as
//! exist, and missing fields are zero.
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

/// Major version of the header that this host supports.
pub(super) const MAJOR: u32 = 1;
/// Minor version of the header that this host supports.
pub(super) const MINOR: u32 = 1;
/// Maximum number of dimensions of a [`Desc`].
pub(super) const MAX_RANK: usize = 16;
/// The rank of a tensor whose rank is unknown.
pub(super) const NO_RANK: u32 = u32::MAX;

/// A pointer to something that only the host looks into.
pub(super) type Opaque = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub data: *const u8,
    pub size: usize,
}
impl Text {
    pub fn of(s: &str) -> Text {
        Text { data: s.as_ptr(), size: s.len() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub node: u32,
    pub output: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Desc {
    pub dtype: u32,
    pub rank: u32,
    pub dims: [i64; MAX_RANK],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Arg {
    pub kind: u32,
    pub index: u32,
    pub bytes: u64,
    pub desc: Desc,
}

/// A structure of a plugin whose first field is its size.
///
/// # Safety
/// The type is `repr(C)`, its first field is a `usize`, and zero bytes are a valid value.
pub(super) unsafe trait Sized1: Copy {
    /// Name of the structure in the header.
    const NAME: &'static str;
    /// Size in bytes in the first version of the header: no plugin has less.
    const LEAST: usize;
}

/// Reads a structure of a plugin.
///
/// # Safety
/// `at` is null, or points to a structure that is as long as its first field says, or whose first
/// field is less than `LEAST`.
pub(super) unsafe fn read<T: Sized1>(at: *const T) -> Result<T, String> {
    if at.is_null() {
        return Err(format!("`{}` is null", T::NAME));
    }
    // SAFETY: by contract at least the size field exists.
    let size = unsafe { *(at as *const usize) };
    if size < T::LEAST || size > 1 << 16 {
        return Err(format!("`{}` says that it has {size} bytes, it has at least {}", T::NAME, T::LEAST));
    }
    let mut out = MaybeUninit::<T>::zeroed();
    // SAFETY: by contract `size` bytes can be read; zero bytes are a valid value (contract of the
    // trait).
    unsafe {
        std::ptr::copy_nonoverlapping(at as *const u8, out.as_mut_ptr() as *mut u8, size.min(size_of::<T>()));
        Ok(out.assume_init())
    }
}

/// `Name = "its name in the header" { fields }`. `then field` names the first field that a later
/// minor version appended: every plugin has at least the fields before it.
macro_rules! sized {
    (@least $name:ident) => { size_of::<$name>() };
    (@least $name:ident $more:ident) => { std::mem::offset_of!($name, $more) };
    ($($name:ident = $text:literal $(then $more:ident)? { $($field:ident: $t:ty,)* })*) => {$(
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(super) struct $name { $(pub $field: $t,)* }
        // SAFETY: repr(C), the size comes first, and all fields are numbers, pointers or optional
        // functions.
        unsafe impl Sized1 for $name {
            const NAME: &'static str = $text;
            const LEAST: usize = sized!(@least $name $($more)?);
        }
        #[cfg(test)]
        impl $name {
            /// Name, size, and the name and offset of each field, as
            /// `the_header_has_these_structures` compares them.
            pub fn layout() -> (&'static str, usize, Vec<(&'static str, usize)>) {
                ($text, size_of::<$name>(), vec![$((stringify!($field), std::mem::offset_of!($name, $field)),)*])
            }
        }
    )*};
}

sized! {
    Launch = "ge_launch" then stream {
        size: usize,
        kernel: *const c_char,
        r#type: u32,
        blocks: u32,
        tiling_key: u64,
        tiling: *const u8,
        tiling_size: usize,
        args: *const c_char,
        stream: u32,
    }
    Attached = "ge_attached" {
        size: usize,
        name: *const c_char,
        reuse_key: *const c_char,
        depend_value_inputs: *const u32,
        n_depend_value_inputs: usize,
        required: i32,
        force_reuse: i32,
    }
    Block = "ge_block" {
        size: usize,
        index: u32,
        count: u32,
        tiling_key: u64,
        tiling: *const u8,
        tiling_size: usize,
        args: *const *mut u8,
        bytes: *const u64,
        n_args: usize,
        scratch: *mut u8,
    }
    Kernel = "ge_kernel" {
        size: usize,
        run: Option<unsafe extern "C" fn(*const c_void, *const Block, Opaque) -> i32>,
        state: *mut c_void,
        drop: Option<unsafe extern "C" fn(*mut c_void)>,
        access: *const u32,
        n_access: usize,
        scratch_bytes: u64,
    }
    Engine = "ge_engine" {
        size: usize,
        name: *const c_char,
        cost: u32,
        op_types: *const *const c_char,
        n_op_types: usize,
        self_: *mut c_void,
        supports: Option<unsafe extern "C" fn(*mut c_void, Opaque, Opaque) -> i32>,
        params: Option<unsafe extern "C" fn(*mut c_void, Opaque, Opaque, Opaque) -> i32>,
        compile: Option<unsafe extern "C" fn(*mut c_void, Opaque, Opaque, Opaque) -> i32>,
        tasks: Option<unsafe extern "C" fn(*mut c_void, Opaque, Text, Opaque, Opaque) -> i32>,
        time_ns: Option<unsafe extern "C" fn(*mut c_void, Opaque) -> u64>,
        load: Option<unsafe extern "C" fn(*mut c_void, Opaque, *mut Kernel, Opaque) -> i32>,
    }
    Param = "ge_param" {
        size: usize,
        name: *const c_char,
        kind: u32,
        types: *const u32,
        n_types: usize,
        group: *const c_char,
    }
    Attr = "ge_attr" {
        size: usize,
        name: *const c_char,
        kind: u32,
        required: i32,
        value_int: i64,
        value_float: f64,
        value_text: *const c_char,
    }
    Op = "ge_op" {
        size: usize,
        name: *const c_char,
        inputs: *const *const Param,
        n_inputs: usize,
        outputs: *const *const Param,
        n_outputs: usize,
        attrs: *const *const Attr,
        n_attrs: usize,
        flags: u64,
        self_: *mut c_void,
        infer: Option<unsafe extern "C" fn(*mut c_void, Opaque, Opaque, Opaque) -> i32>,
    }
    Mapping = "ge_mapping" {
        size: usize,
        framework: *const c_char,
        domain: *const c_char,
        op: *const c_char,
        since: u32,
        until: u32,
        self_: *mut c_void,
        map: Option<unsafe extern "C" fn(*mut c_void, Opaque, Opaque, Opaque) -> i32>,
    }
    Pass = "ge_pass" {
        size: usize,
        name: *const c_char,
        help: *const c_char,
        stage: u32,
        level: u32,
        self_: *mut c_void,
        run: Option<unsafe extern "C" fn(*mut c_void, Opaque, Opaque, Opaque) -> i32>,
    }
    Choice = "ge_option" {
        size: usize,
        name: *const c_char,
        help: *const c_char,
        kind: u32,
        least: i64,
        most: i64,
        choices: *const *const c_char,
        n_choices: usize,
        value_int: i64,
        value_float: f64,
        value_text: *const c_char,
    }
    Frontend = "ge_frontend" {
        size: usize,
        framework: *const c_char,
        self_: *mut c_void,
        recognises: Option<unsafe extern "C" fn(*mut c_void, Opaque) -> i32>,
        import: Option<unsafe extern "C" fn(*mut c_void, Opaque, Opaque, Opaque) -> i32>,
    }
    Plugin = "ge_plugin" then options {
        size: usize,
        major: u32,
        minor: u32,
        engines: *const *const Engine,
        n_engines: usize,
        ops: *const *const Op,
        n_ops: usize,
        mappings: *const *const Mapping,
        n_mappings: usize,
        passes: *const *const Pass,
        n_passes: usize,
        options: *const *const Choice,
        n_options: usize,
        start: Option<unsafe extern "C" fn(Opaque, Opaque) -> i32>,
        frontends: *const *const Frontend,
        n_frontends: usize,
    }
}

/// A text of the plugin; empty for null.
///
/// # Safety
/// `at` is null or points to a text that ends with a zero byte.
pub(super) unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// Maximum number of elements of a list of a plugin.
const MOST: usize = 1 << 16;

/// A list of the plugin; `what` names it in errors.
///
/// # Safety
/// `at` points to `n` values, or is null.
pub(super) unsafe fn list<'a, T>(at: *const T, n: usize, what: &str) -> Result<&'a [T], String> {
    if n == 0 {
        return Ok(&[]);
    }
    if at.is_null() || n > MOST {
        return Err(format!("the list of {what} is null, or has {n} entries"));
    }
    // SAFETY: by contract.
    Ok(unsafe { std::slice::from_raw_parts(at, n) })
}

/// Version of the header that this host supports, as manifests of C plugins state it.
pub(crate) fn version() -> semver::Version {
    semver::Version::new(u64::from(MAJOR), u64::from(MINOR), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ge_pass` in a later minor version.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        now: Pass,
        more: *const c_char,
    }
    // SAFETY: as for the structures above; the additional field may be missing.
    unsafe impl Sized1 for Later {
        const NAME: &'static str = "ge_pass";
        const LEAST: usize = size_of::<Pass>();
    }

    /// The sizes that libraries built with header 1.0 have.
    #[test]
    fn no_structure_asks_for_more_than_its_first_version_has() {
        let least =
            [Launch::LEAST, Plugin::LEAST, Engine::LEAST, Kernel::LEAST, Op::LEAST, Mapping::LEAST, Pass::LEAST];
        assert_eq!(least, [56, 80, 96, 56, 88, 56, 48]);
    }

    #[test]
    fn a_structure_of_an_older_header_is_read_as_far_as_it_goes() {
        let mut old = Pass {
            size: size_of::<Pass>(),
            name: c"P".as_ptr(),
            help: std::ptr::null(),
            stage: 1,
            level: 2,
            self_: std::ptr::null_mut(),
            run: None,
        };
        // SAFETY: the structure is as long as it says.
        let read_later = |at: &Pass| unsafe { read::<Later>(at as *const Pass as *const Later) };
        let later = read_later(&old).unwrap();
        assert!(later.more.is_null() && (later.now.stage, later.now.level) == (1, 2));
        // SAFETY: the name ends with a zero byte.
        assert_eq!(unsafe { text(later.now.name) }, "P");
        for size in [0, 8, size_of::<Pass>() - 1, 1 << 20] {
            old.size = size;
            assert!(read_later(&old).is_err(), "{size}");
        }
    }
}
