//! The layout of a type, written out as flat lists. Two types are the same in every part if their
//! lists are equal, as they are in a host and a library that were built with the same version of
//! this interface.
//!
//! abi_stable's own check is more lenient (a type may have grown) and much slower: it keeps a trace
//! for its report and collects what it has seen in process-wide tables. Types that are equal here
//! pass that check, too; types that differ are left to it.
use crate::types::NumberMap;
use abi_stable::abi_stability::ConstGeneric;
use abi_stable::prefix_type::{FieldAccessibility, FieldConditionality};
use abi_stable::reflection::ModReflMode;
use abi_stable::std_types::{RSlice, RStr, UTypeId};
use abi_stable::type_layout::{
    FieldAccessor, IsExhaustive, LifetimeArrayOrSlice, ReprAttr, TLData, TLDiscriminants, TLField, TLFields,
    TLFunction, TLFunctionQualifiers, TLPrimitive, Tag, TypeLayout,
};
use std::collections::HashMap;

/// Number of types that space is reserved for at the start: as many as the interface has.
const ROOM: usize = 448;

/// The full layout of a type and of all types that it refers to.
#[derive(Default)]
pub struct Layout {
    types: Vec<Type>,
    fields: Vec<Field>,
    functions: Vec<Function>,
    /// Numbers of the types that types and functions refer to outside their fields.
    named: Vec<usize>,
}

/// One type. `before` tells which fields, functions and names in the lists belong to it: how many
/// of each come before its own.
#[derive(PartialEq)]
struct Type {
    name: &'static str,
    package: &'static str,
    version: &'static str,
    size: usize,
    alignment: usize,
    is_nonzero: bool,
    repr: ReprAttr,
    reflection: ModReflMode,
    tag: &'static Tag,
    lifetimes: usize,
    constants: &'static [ConstGeneric],
    kind: Kind,
    before: [usize; 3],
}

#[derive(PartialEq)]
enum Kind {
    Primitive(TLPrimitive),
    Opaque,
    Struct,
    Union,
    Enum(RSlice<'static, u8>, RStr<'static>, IsExhaustive, TLDiscriminants),
    Prefix(u8, FieldConditionality, FieldAccessibility),
}

#[derive(PartialEq)]
struct Field {
    name: &'static str,
    of: usize,
    lifetimes: LifetimeArrayOrSlice<'static>,
    is_function: bool,
    accessor: FieldAccessor,
    functions: usize,
}

#[derive(PartialEq)]
struct Function {
    name: RStr<'static>,
    bound: RStr<'static>,
    parameters: RStr<'static>,
    lifetimes: LifetimeArrayOrSlice<'static>,
    qualifiers: TLFunctionQualifiers,
    returns: Option<usize>,
}

impl Layout {
    /// Writes out the layout of a type. `None` if it refers to a type with extra checks, which only
    /// abi_stable can run.
    pub fn of(root: &'static TypeLayout) -> Option<Layout> {
        let mut w = Walk::new(None);
        w.walk(root)?;
        Some(w.out)
    }

    /// Whether another type has the same layout in every part.
    pub fn is_of(&self, root: &'static TypeLayout) -> bool {
        let mut w = Walk::new(Some(self));
        let all = [self.types.len(), self.fields.len(), self.functions.len(), self.named.len()];
        w.walk(root).is_some() && w.at == all
    }
}

/// The walk through a type: it writes out what it finds, or compares it with `against`.
struct Walk<'l> {
    against: Option<&'l Layout>,
    out: Layout,
    /// How many types, fields, functions and names have been visited so far.
    at: [usize; 4],
    /// Numbers of types by address, and by type id.
    numbers: NumberMap<usize, usize>,
    ids: HashMap<UTypeId, usize>,
    found: Vec<&'static TypeLayout>,
}

/// Appends to a list, or compares with the entry at the same position in the other list; `None` if
/// they differ.
fn say<T: PartialEq>(out: &mut Vec<T>, against: Option<&Vec<T>>, at: &mut usize, what: T) -> Option<()> {
    match against {
        None => out.push(what),
        Some(said) if said.get(*at) == Some(&what) => {}
        Some(_) => return None,
    }
    *at += 1;
    Some(())
}

impl<'l> Walk<'l> {
    fn new(against: Option<&'l Layout>) -> Walk<'l> {
        Walk {
            against,
            out: Layout::default(),
            at: [0; 4],
            numbers: NumberMap::with_capacity_and_hasher(ROOM, Default::default()),
            ids: HashMap::with_capacity(ROOM),
            found: Vec::with_capacity(ROOM),
        }
    }

    /// Visits all types in the order in which they are found, because types may refer to each other
    /// in cycles. `None` if something differs or has extra checks that only abi_stable can run.
    fn walk(&mut self, root: &'static TypeLayout) -> Option<()> {
        self.number(root);
        let mut next = 0;
        while let Some(t) = self.found.get(next).copied() {
            next += 1;
            self.one(t)?;
        }
        Some(())
    }

    /// The number of a type: how many types were found before it. A library may describe one type
    /// at several addresses, so an address that is new is looked up by type id.
    fn number(&mut self, t: &'static TypeLayout) -> usize {
        let address = core::ptr::from_ref(t).addr();
        if let Some(number) = self.numbers.get(&address) {
            return *number;
        }
        let next = self.found.len();
        let number = *self.ids.entry(t.get_utypeid()).or_insert(next);
        if number == next {
            self.found.push(t);
        }
        self.numbers.insert(address, number);
        number
    }

    fn name(&mut self, t: &'static TypeLayout) -> Option<()> {
        let number = self.number(t);
        say(&mut self.out.named, self.against.map(|l| &l.named), &mut self.at[3], number)
    }

    fn one(&mut self, t: &'static TypeLayout) -> Option<()> {
        if t.extra_checks().is_some() {
            return None;
        }
        let [_, fields, functions, named] = self.at;
        let generics = t.generics();
        generics.type_params().iter().try_for_each(|p| self.name(p()))?;
        self.fields(t.phantom_fields())?;
        let kind = match t.data() {
            TLData::Primitive(p) => Kind::Primitive(p),
            TLData::Opaque => Kind::Opaque,
            TLData::Struct { fields } => {
                self.fields(fields)?;
                Kind::Struct
            }
            TLData::Union { fields } => {
                self.fields(fields)?;
                Kind::Union
            }
            TLData::Enum(e) => {
                self.fields(e.fields)?;
                Kind::Enum(e.field_count, e.variant_names, e.exhaustiveness, e.discriminants)
            }
            TLData::PrefixType(p) => {
                self.fields(p.fields)?;
                Kind::Prefix(p.first_suffix_field, p.conditional_prefix_fields, p.accessible_fields)
            }
        };
        let (package, version) = t.item_info().package_and_version();
        let said = Type {
            name: t.name(),
            package,
            version,
            size: t.size(),
            alignment: t.alignment(),
            is_nonzero: t.is_nonzero(),
            repr: t.repr_attr(),
            reflection: t.mod_refl_mode(),
            tag: t.tag(),
            lifetimes: generics.lifetime_count(),
            constants: generics.const_params(),
            kind,
            before: [fields, functions, named],
        };
        say(&mut self.out.types, self.against.map(|l| &l.types), &mut self.at[0], said)
    }

    fn fields(&mut self, fields: TLFields) -> Option<()> {
        if fields.is_empty() {
            return Some(());
        }
        fields.iter().try_for_each(|f| self.field(f))
    }

    fn field(&mut self, f: TLField) -> Option<()> {
        let functions = f.function_range();
        if !functions.is_empty() {
            functions.iter().try_for_each(|f| self.function(f))?;
        }
        let said = Field {
            name: f.name(),
            of: self.number(f.layout()),
            lifetimes: f.lifetime_indices(),
            is_function: f.is_function(),
            accessor: f.field_accessor(),
            functions: functions.len(),
        };
        say(&mut self.out.fields, self.against.map(|l| &l.fields), &mut self.at[1], said)
    }

    fn function(&mut self, f: TLFunction) -> Option<()> {
        f.param_type_layouts.iter().try_for_each(|p| self.name(p()))?;
        let said = Function {
            name: f.name,
            bound: f.bound_lifetimes,
            parameters: f.param_names,
            lifetimes: f.paramret_lifetime_indices,
            qualifiers: f.fn_qualifs,
            returns: f.return_type_layout().map(|r| self.number(r())),
        };
        say(&mut self.out.functions, self.against.map(|l| &l.functions), &mut self.at[2], said)
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;
    use crate::abi::root::PluginRef;
    use crate::abi::{RVec, StableAbi};
    use abi_stable::type_layout::TypeLayout;

    fn same(a: &'static TypeLayout, b: &'static TypeLayout) -> bool {
        Layout::of(a).expect("no checks of its own").is_of(b)
    }

    /// Declares modules with types of the same names but different fields.
    macro_rules! variants {
        ($($name:ident { $($body:tt)* })*) => {
            $(mod $name {
                use super::*;
                #[allow(dead_code)]
                #[derive(StableAbi)]
                #[repr(C)]
                pub struct Part { $($body)* }
                #[allow(dead_code)]
                #[derive(StableAbi)]
                #[repr(C)]
                pub struct Whole { pub parts: RVec<Part>, pub call: extern "C" fn(&Part, u32) -> u64 }
            })*
        };
    }
    variants! {
        plain { pub a: u32, pub b: u32 }
        again { pub a: u32, pub b: u32 }
        renamed { pub a: u32, pub c: u32 }
        swapped { pub b: u32, pub a: u32 }
        signed { pub a: u32, pub b: i32 }
        wider { pub a: u32, pub b: u64 }
        longer { pub a: u32, pub b: u32, pub c: u32 }
        called { pub a: u32, pub b: u32, pub f: extern "C" fn(u8) }
        called_otherwise { pub a: u32, pub b: u32, pub f: extern "C" fn(i8) }
    }

    #[test]
    fn the_interface_is_the_same_as_itself() {
        let all = <PluginRef as StableAbi>::LAYOUT;
        assert!(same(all, all));
    }

    #[test]
    fn a_difference_in_any_type_that_is_named_counts() {
        let plain = <plain::Whole as StableAbi>::LAYOUT;
        assert!(same(plain, <again::Whole as StableAbi>::LAYOUT));
        for (what, other) in [
            ("renamed", <renamed::Whole as StableAbi>::LAYOUT),
            ("swapped", <swapped::Whole as StableAbi>::LAYOUT),
            ("signed", <signed::Whole as StableAbi>::LAYOUT),
            ("wider", <wider::Whole as StableAbi>::LAYOUT),
            ("longer", <longer::Whole as StableAbi>::LAYOUT),
            ("called", <called::Whole as StableAbi>::LAYOUT),
            ("called_otherwise", <called_otherwise::Whole as StableAbi>::LAYOUT),
        ] {
            assert!(!same(plain, other) && !same(other, plain), "{what}");
        }
        let called = <called::Whole as StableAbi>::LAYOUT;
        assert!(same(called, called));
        assert!(!same(called, <called_otherwise::Whole as StableAbi>::LAYOUT));
    }
}
