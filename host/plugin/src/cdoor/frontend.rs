//! Front ends of C plugins as the host's objects, and the host functions that only front ends and
//! mappings call.
use super::abi::{self, Desc, Opaque, Text, Value};
use super::host::{
    Building, Failure, Key, builder_set, bytes, desc_of, desc_to_c, lend, of, put, show, value_of, value_to_c, values,
};
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::frontend::{FileRef, ForeignNode, Frontend, GraphBuilder, ImportOptions};
use ge_plugin_api::types::{AttrValue, Blob, ConstTensor, DType, Shape, TensorDesc, ValueRef};
use ge_plugin_api::{Error, Result};

/// A front end with all its mandatory functions.
pub(super) struct CFrontend {
    framework: String,
    table: abi::Frontend,
}
// SAFETY: the header requires functions that several threads can call at once; the tables live
// forever.
unsafe impl Send for CFrontend {}
// SAFETY: as above.
unsafe impl Sync for CFrontend {}

impl CFrontend {
    /// # Safety
    /// `at` must be a front end as the header declares it.
    pub unsafe fn new(at: *const abi::Frontend) -> std::result::Result<CFrontend, String> {
        // SAFETY: by contract.
        let (table, framework) = unsafe {
            let table = abi::read(at)?;
            (table, abi::text(table.framework))
        };
        for (f, there) in [("recognises", table.recognises.is_some()), ("import", table.import.is_some())] {
            if !there {
                return Err(format!("front end `{framework}` has no function `{f}`"));
            }
        }
        Ok(CFrontend { framework, table })
    }
}

/// `ge_file`: a file that is being recognised or imported.
struct File<'f> {
    file: &'f FileRef,
    options: Option<&'f ImportOptions>,
}

impl Frontend for CFrontend {
    fn framework(&self) -> String {
        self.framework.clone()
    }
    fn recognises(&self, file: &FileRef) -> bool {
        let lent = File { file, options: None };
        // SAFETY: the function and its arguments are as the header declares them.
        self.table.recognises.is_some_and(|f| unsafe { f(self.table.self_, show(&lent)) } != 0)
    }
    fn import(&self, file: &FileRef, options: &ImportOptions, builder: &mut GraphBuilder<'_>) -> Result<()> {
        let f = self.table.import.ok_or_else(|| Error::new(ErrorKind::PLUGIN, "it has no function `import`"))?;
        let lent = File { file, options: Some(options) };
        let mut building = Building::new(builder, String::new());
        let mut failure = Failure::default();
        // SAFETY: as in `recognises`.
        let code = unsafe { f(self.table.self_, show(&lent), lend(&mut building), lend(&mut failure)) };
        failure.result(code)?;
        let results = building.results;
        builder.outputs(&results);
        Ok(())
    }
}

// SAFETY of all functions below: as for the functions in `host.rs`.
pub(super) unsafe extern "C" fn file_bytes(f: Opaque, size: *mut usize) -> *const u8 {
    // SAFETY: see above.
    let found = unsafe { of::<File<'_>>(f) }.map_or(&[][..], |f| f.file.bytes.as_slice());
    // SAFETY: see above.
    unsafe { put(Some(found.len()), size) };
    found.as_ptr()
}
pub(super) unsafe extern "C" fn file_path(f: Opaque) -> Text {
    // SAFETY: see above.
    Text::of(unsafe { of::<File<'_>>(f) }.map_or("", |f| f.file.path.as_str()))
}
pub(super) unsafe extern "C" fn file_shape(f: Opaque, input: Key, out: *mut Desc) -> i32 {
    // SAFETY: see above.
    let (f, input) = unsafe { (of::<File<'_>>(f), abi::text(input)) };
    let shapes = f.and_then(|f| f.options).map_or(&[][..], |o| o.input_shapes.as_slice());
    let found = shapes.iter().find(|s| s.name.as_str() == input).map(|s| {
        let shape = if s.unranked { Shape::unranked() } else { Shape::from_i64(&s.dims) };
        desc_to_c(&TensorDesc::new(DType::UNKNOWN, shape))
    });
    // SAFETY: see above.
    unsafe { put(found, out) }
}
pub(super) unsafe extern "C" fn builder_open(b: Opaque, path: Key, size: *mut usize) -> *const u8 {
    // SAFETY: see above.
    let (b, path) = unsafe { (of::<Building<'_, '_>>(b), abi::text(path)) };
    let Some((b, blob)) = b.and_then(|b| b.builder.open_relative(&path).ok().map(|blob| (b, blob))) else {
        return std::ptr::null();
    };
    let (at, len) = (blob.as_slice().as_ptr(), blob.as_slice().len());
    b.opened.push(blob);
    // SAFETY: see above; the bytes live as long as the import.
    unsafe { put(Some(len), size) };
    at
}

pub(super) unsafe extern "C" fn foreign_text(n: Opaque, key: Key, out: *mut Text) -> i32 {
    // SAFETY: see above.
    unsafe { put(of::<ForeignNode>(n).and_then(|n| n.attrs.str(abi::text(key).as_str())).map(Text::of), out) }
}
pub(super) unsafe extern "C" fn foreign_ints(n: Opaque, key: Key, out: *mut *const i64, count: *mut usize) -> i32 {
    // SAFETY: see above.
    unsafe {
        let found = of::<ForeignNode>(n).and_then(|n| n.attrs.get(abi::text(key).as_str())?.as_ints());
        let Some(list) = found else { return 0 };
        put(Some(list.len()), count) & put(Some(list.as_ptr()), out)
    }
}
pub(super) unsafe extern "C" fn builder_set_ints(b: Opaque, of: Value, key: Key, at: *const i64, n: usize) {
    // SAFETY: see above.
    if let Ok(list) = unsafe { abi::list(at, n, "values") } {
        // SAFETY: see above.
        unsafe { builder_set(b, of, key, AttrValue::Ints(list.into())) }
    }
}
pub(super) unsafe extern "C" fn builder_named(
    b: Opaque,
    op: Key,
    name: Key,
    inputs: *const Value,
    n: usize,
    outputs: u32,
) -> Value {
    // SAFETY: see above.
    let made = unsafe { of::<Building<'_, '_>>(b) }.and_then(|b| {
        // SAFETY: see above.
        let (op, name, inputs) = unsafe { (abi::text(op), abi::text(name), values(inputs, n)) };
        let node = b.builder.node(&op).name(&name).inputs(&inputs);
        node.build_n(outputs.clamp(1, 1 << 16) as usize).first().copied()
    });
    value_to_c(made.unwrap_or(ValueRef::ABSENT))
}
pub(super) unsafe extern "C" fn builder_constant(
    b: Opaque,
    name: Key,
    desc: *const Desc,
    at: *const u8,
    n: usize,
) -> Value {
    // SAFETY: see above.
    let made = unsafe {
        of::<Building<'_, '_>>(b).zip(desc.as_ref()).and_then(|(b, d)| {
            let d = desc_of(d);
            let tensor = ConstTensor::new(d.dtype, &d.shape.sizes()?, Blob::copy_of(&bytes(at, n)))?;
            Some(b.builder.constant(&abi::text(name), tensor))
        })
    };
    value_to_c(made.unwrap_or(ValueRef::ABSENT))
}
pub(super) unsafe extern "C" fn builder_input(b: Opaque, name: Key, desc: *const Desc) -> Value {
    // SAFETY: see above.
    let made = unsafe { of::<Building<'_, '_>>(b).zip(desc.as_ref()) }.map(|(b, d)| {
        b.inputs += 1;
        // SAFETY: see above.
        b.builder.data(&unsafe { abi::text(name) }, b.inputs - 1, desc_of(d))
    });
    value_to_c(made.unwrap_or(ValueRef::ABSENT))
}
pub(super) unsafe extern "C" fn builder_result(b: Opaque, name: Key, value: Value) {
    // SAFETY: see above.
    if let Some(b) = unsafe { of::<Building<'_, '_>>(b) } {
        // SAFETY: see above.
        b.results.push((unsafe { abi::text(name) }, value_of(value)));
    }
}
