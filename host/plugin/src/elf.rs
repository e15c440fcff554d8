//! Inspects an ELF file before it is opened: class, machine, segments within the file, dynamic
//! tables that the system's loader can follow, the manifest section, the build id. No code of the
//! library runs, and none of its bytes are trusted.
//!
//! The system's loader follows the tables of a damaged library into unmapped memory and ends the
//! process (a truncated file causes SIGBUS inside dlopen). Everything that it follows blindly is
//! therefore checked here first.
use ge_plugin_api::Result;
use ge_plugin_api::abi::root::MANIFEST_SECTION;
use ge_plugin_api::diagnostic::Diagnostic;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian as LE, pod};
use std::path::Path;

/// What is known of a library that may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf<'a> {
    /// Bytes of the manifest section.
    pub manifest: &'a [u8],
    /// The linker's build id in hex; empty if there is none.
    pub build_id: String,
}

/// The ELF number of this process's machine.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
/// Maximum number of entries of a dynamic table.
const MAX_SYMBOLS: u64 = 1 << 24;

fn machine_name(m: u16) -> String {
    match m {
        elf::EM_X86_64 => "x86_64".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_386 => "i386".into(),
        elf::EM_ARM => "arm".into(),
        elf::EM_RISCV => "riscv".into(),
        elf::EM_PPC64 => "ppc64".into(),
        elf::EM_S390 => "s390".into(),
        n => format!("machine {n}"),
    }
}

/// Inspects the bytes of a library.
///
/// # Errors
/// Returns `GE-E0504` (not an ELF library, truncated or damaged), `GE-E0505` (another machine) or
/// `GE-E0506` (no manifest).
pub fn inspect<'a>(path: &Path, data: &'a [u8]) -> Result<Elf<'a>> {
    let shown = path.display();
    let damaged = |what: String| {
        Diagnostic::error(format!("`{shown}` is cut or damaged: {what}"))
            .help("copy or build the library again")
            .raise(ge_codes::NOT_A_LIBRARY)
    };
    if data.get(..4) != Some(&elf::ELFMAG[..]) {
        let what = if data.is_empty() {
            "it is empty".to_owned()
        } else if data.iter().take(256).all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
            "it is a text file".to_owned()
        } else {
            format!("it starts with {:02x?}", &data[..data.len().min(4)])
        };
        return Err(Diagnostic::error(format!("`{shown}` is not a library: {what}"))
            .found(what, "an ELF shared library")
            .help("let the entry's `path` name a library (libge_NAME.so)")
            .raise(ge_codes::NOT_A_LIBRARY));
    }
    if let (Some(&class), Some(&order)) = (data.get(4), data.get(5)) {
        let other = |what: &str| {
            Diagnostic::error(format!("`{shown}` is for another machine: {what}"))
                .found(what, format!("64-bit little-endian {}", machine_name(MACHINE)))
                .help(format!("build the plugin for {}", machine_name(MACHINE)))
                .raise(ge_codes::OTHER_MACHINE)
        };
        match (class, order) {
            (elf::ELFCLASS64, elf::ELFDATA2LSB) => {}
            (elf::ELFCLASS32, _) => return Err(other("a 32-bit library")),
            (elf::ELFCLASS64, elf::ELFDATA2MSB) => return Err(other("big-endian")),
            _ => return Err(damaged("its ELF class is unknown".into())),
        }
    }
    let header: &FileHeader64<LE> =
        pod::from_bytes(data).map_err(|()| damaged("it ends within the ELF header".into()))?.0;
    let machine = header.e_machine(LE);
    if machine != MACHINE {
        return Err(Diagnostic::error(format!(
            "`{shown}` is built for {}, this machine is {}",
            machine_name(machine),
            machine_name(MACHINE)
        ))
        .found(machine_name(machine), machine_name(MACHINE))
        .help(format!("build the plugin for {}", machine_name(MACHINE)))
        .raise(ge_codes::OTHER_MACHINE));
    }
    if header.e_type(LE) != elf::ET_DYN {
        return Err(damaged(format!("ELF type {} is no shared library", header.e_type(LE))));
    }
    let image = Image::new(data, header).map_err(damaged)?;
    image.check_dynamic().map_err(damaged)?;
    let sections = header.sections(LE, data).map_err(|_| damaged("its section table is beyond its end".into()))?;
    let mut manifest = None;
    for s in sections.iter() {
        if sections.section_name(LE, s).is_ok_and(|n| n == MANIFEST_SECTION.as_bytes()) {
            manifest = Some(s.data(LE, data).map_err(|_| damaged("its manifest is beyond its end".into()))?);
        }
    }
    let Some(manifest) = manifest else {
        return Err(Diagnostic::error(format!(
            "`{shown}` is a library, but no plugin of ge: it has no section {MANIFEST_SECTION}"
        ))
        .help("a plugin's crate has one `ge_plugin!` and crate-type = [\"cdylib\"]")
        .raise(ge_codes::NOT_A_PLUGIN));
    };
    Ok(Elf { manifest, build_id: image.build_id() })
}

/// A segment as it will be mapped.
struct Load {
    address: u64,
    file: u64,
    file_size: u64,
    memory_size: u64,
    writable: bool,
}

struct Image<'a> {
    data: &'a [u8],
    header: &'a FileHeader64<LE>,
    loads: Vec<Load>,
    dynamic: Option<(u64, u64)>,
}

type Check<T> = core::result::Result<T, String>;

impl<'a> Image<'a> {
    fn new(data: &'a [u8], header: &'a FileHeader64<LE>) -> Check<Image<'a>> {
        let headers =
            header.program_headers(LE, data).map_err(|_| "its program headers are beyond its end".to_owned())?;
        let len = data.len() as u64;
        let (mut loads, mut dynamic): (Vec<Load>, _) = (Vec::new(), None);
        let mut relro_or_note = Vec::new();
        for h in headers {
            let (file, file_size) = (h.p_offset(LE), h.p_filesz(LE));
            let (address, memory_size) = (h.p_vaddr(LE), h.p_memsz(LE));
            let within = file.checked_add(file_size).is_some_and(|end| end <= len);
            match h.p_type(LE) {
                elf::PT_LOAD => {
                    if !within {
                        return Err(format!("a segment needs {} bytes, it has {len}", file.saturating_add(file_size)));
                    }
                    let align = h.p_align(LE).max(1);
                    if file_size > memory_size
                        || address.checked_add(memory_size).is_none_or(|end| end > 1 << 40)
                        || !align.is_power_of_two()
                        || align > 1 << 30
                        || address % align != file % align
                        || address % 4096 != file % 4096
                    {
                        return Err("a segment's addresses make no sense".into());
                    }
                    if loads.last().is_some_and(|l: &Load| l.address + l.memory_size > address) {
                        return Err("its segments overlap".into());
                    }
                    if h.p_flags(LE) & (elf::PF_W | elf::PF_X) == elf::PF_W | elf::PF_X {
                        return Err("a segment is writable and executable".into());
                    }
                    loads.push(Load {
                        address,
                        file,
                        file_size,
                        memory_size,
                        writable: h.p_flags(LE) & elf::PF_W != 0,
                    });
                }
                elf::PT_DYNAMIC => {
                    if !within {
                        return Err("its dynamic table is beyond its end".into());
                    }
                    dynamic = Some((address, file_size));
                }
                elf::PT_TLS => {
                    if !within || file_size > memory_size || memory_size > 1 << 30 || h.p_align(LE) > 1 << 20 {
                        return Err("its thread-local segment makes no sense".into());
                    }
                    relro_or_note.push((address, file_size));
                }
                elf::PT_GNU_RELRO => relro_or_note.push((address, 0)),
                elf::PT_NOTE | elf::PT_GNU_EH_FRAME if !within => return Err("a table is beyond its end".into()),
                _ => {}
            }
        }
        if loads.is_empty() {
            return Err("it has nothing to load".into());
        }
        let image = Image { data, header, loads, dynamic };
        for (address, size) in relro_or_note {
            if !image.mapped(address, size) {
                return Err("a table lies outside its segments".into());
            }
        }
        Ok(image)
    }

    /// Whether a range lies within the memory of one segment.
    fn mapped(&self, address: u64, size: u64) -> bool {
        self.loads
            .iter()
            .any(|l| address >= l.address && address.checked_add(size).is_some_and(|e| e <= l.address + l.memory_size))
    }

    /// The writable segment that contains a range.
    fn writable(&self, address: u64, size: u64) -> Option<&Load> {
        self.loads.iter().find(|l| {
            l.writable
                && address >= l.address
                && address.checked_add(size).is_some_and(|e| e <= l.address + l.memory_size)
        })
    }

    /// The file contents of an address range.
    fn bytes(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        let l = self.loads.iter().find(|l| {
            address >= l.address && address.checked_add(size).is_some_and(|e| e <= l.address + l.file_size)
        })?;
        let at = usize::try_from(l.file + (address - l.address)).ok()?;
        self.data.get(at..at.checked_add(usize::try_from(size).ok()?)?)
    }

    fn word(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(address, 4)?.try_into().ok()?))
    }

    /// Checks everything that the system's loader follows without checking.
    fn check_dynamic(&self) -> Check<()> {
        let (address, size) = self.dynamic.ok_or("it has no dynamic table")?;
        let table = self.bytes(address, size).ok_or("its dynamic table lies outside its segments")?;
        let mut entries = Vec::new();
        let mut ended = false;
        for e in table.chunks_exact(16) {
            let (tag, value) = e.split_at(8);
            let tag = u64::from_le_bytes(tag.try_into().map_err(|_| "dynamic table")?);
            let value = u64::from_le_bytes(value.try_into().map_err(|_| "dynamic table")?);
            if tag == u64::from(elf::DT_NULL) {
                ended = true;
                break;
            }
            entries.push((tag, value));
        }
        if !ended {
            return Err("its dynamic table has no end".into());
        }
        let get = |tag: u32| entries.iter().find(|e| e.0 == u64::from(tag)).map(|e| e.1);
        let strings = match (get(elf::DT_STRTAB), get(elf::DT_STRSZ)) {
            (Some(a), Some(n)) => self.bytes(a, n).filter(|s| s.last() == Some(&0)),
            _ => None,
        }
        .ok_or("its string table lies outside it")?;
        for (tag, value) in &entries {
            if [elf::DT_NEEDED, elf::DT_SONAME, elf::DT_RPATH, elf::DT_RUNPATH].iter().any(|t| u64::from(*t) == *tag) {
                let text = usize::try_from(*value)
                    .ok()
                    .and_then(|v| strings.get(v..))
                    .and_then(|s| s.split(|b| *b == 0).next());
                if !text.is_some_and(|t| !t.is_empty() && t.iter().all(|b| b.is_ascii_graphic() || *b == b' ')) {
                    return Err("a name in its dynamic table is damaged".into());
                }
            }
            // A damaged tag could become one that the loader follows as an address.
            if *tag >= 38 && *tag < 0x6000_0000 {
                return Err("its dynamic table has an unknown entry".into());
            }
        }
        if get(elf::DT_SYMENT).is_some_and(|n| n != 24) || get(elf::DT_RELAENT).is_some_and(|n| n != 24) {
            return Err("its tables have entries of another size".into());
        }
        let symtab = get(elf::DT_SYMTAB).ok_or("it has no symbol table")?;
        let symbols = self.check_hash(get(elf::DT_GNU_HASH), get(elf::DT_HASH))?;
        let mut most_used = self.check_relocations(get(elf::DT_RELA), get(elf::DT_RELASZ))?;
        if let Some(kind) = get(elf::DT_PLTREL) {
            if kind != u64::from(elf::DT_RELA) {
                return Err("its jump table is of another kind".into());
            }
            most_used = most_used.max(self.check_relocations(get(elf::DT_JMPREL), get(elf::DT_PLTRELSZ))?);
        }
        let count = symbols.max(most_used.saturating_add(1));
        self.check_symbols(symtab, count, strings)?;
        for (a, n) in [(elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ), (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ)] {
            if let Some(at) = get(a) {
                let size = get(n).unwrap_or(u64::MAX);
                if size % 8 != 0 || !self.mapped(at, size) {
                    return Err("its table of start-up functions lies outside it".into());
                }
            }
        }
        for tag in [elf::DT_INIT, elf::DT_FINI] {
            if get(tag).is_some_and(|a| !self.mapped(a, 1)) {
                return Err("its start-up function lies outside it".into());
            }
        }
        self.check_versions(get(elf::DT_VERSYM), get(elf::DT_VERNEED), get(elf::DT_VERNEEDNUM), count, strings)
    }

    /// Checks the hash tables and returns the number of symbols that they reach.
    fn check_hash(&self, gnu: Option<u64>, old: Option<u64>) -> Check<u64> {
        const BAD: &str = "its hash table is damaged";
        let mut count = 0u64;
        if let Some(at) = old {
            let (buckets, chain) = (self.word(at).ok_or(BAD)?, self.word(at + 4).ok_or(BAD)?);
            let words = self.bytes(at + 8, (u64::from(buckets) + u64::from(chain)) * 4).ok_or(BAD)?;
            if words.chunks_exact(4).any(|w| w.try_into().is_ok_and(|w| u32::from_le_bytes(w) >= chain)) {
                return Err(BAD.into());
            }
            count = u64::from(chain);
        }
        if let Some(at) = gnu {
            let w = |i: u64| self.word(at + i * 4).map(u64::from);
            let (buckets, first) = (w(0).ok_or(BAD)?, w(1).ok_or(BAD)?);
            let (bloom, shift) = (w(2).ok_or(BAD)?, w(3).ok_or(BAD)?);
            if buckets == 0 || !bloom.is_power_of_two() || shift > 63 || buckets > MAX_SYMBOLS || bloom > MAX_SYMBOLS {
                return Err(BAD.into());
            }
            let bucket_at = at + 16 + bloom * 8;
            let chain_at = bucket_at + buckets * 4;
            self.bytes(at, 16 + bloom * 8 + buckets * 4).ok_or(BAD)?;
            for b in 0..buckets {
                let mut s = u64::from(self.word(bucket_at + b * 4).ok_or(BAD)?);
                if s == 0 {
                    continue;
                }
                if s < first {
                    return Err(BAD.into());
                }
                // A chain ends at a word whose lowest bit is set.
                loop {
                    let hash = self.word(chain_at + (s - first) * 4).ok_or(BAD)?;
                    count = count.max(s + 1);
                    if hash & 1 == 1 {
                        break;
                    }
                    s += 1;
                }
            }
        }
        Ok(count)
    }

    /// Checks a relocation table: places in writable memory, known kinds, targets in the library.
    /// Returns the highest symbol index that it uses.
    fn check_relocations(&self, at: Option<u64>, size: Option<u64>) -> Check<u64> {
        const BAD: &str = "its relocations are damaged";
        let Some(at) = at else { return Ok(0) };
        let size = size.ok_or(BAD)?;
        if size % 24 != 0 {
            return Err(BAD.into());
        }
        let mut most = 0u64;
        // Nearly every relocation makes a pointer in the same segment, and into the same segment,
        // as the one before it. These are the first and last address of both segments.
        let (mut home, mut target) = ((u64::MAX, 0), (u64::MAX, 0));
        let within = |range: (u64, u64), x: u64| range.0 <= x && x <= range.1;
        let (words, _) = self.bytes(at, size).ok_or(BAD)?.as_chunks::<8>();
        for &[place, info, addend] in words.as_chunks::<3>().0 {
            let (place, info) = (u64::from_le_bytes(place), u64::from_le_bytes(info));
            let addend = u64::from_le_bytes(addend);
            if info == u64::from(RELOC_RELATIVE) && within(home, place) && within(target, addend) {
                continue;
            }
            let (symbol, kind) = (info >> 32, (info & 0xffff_ffff) as u32);
            most = most.max(symbol);
            let bytes = if kind == RELOC_TLSDESC { 16 } else { 8 };
            let segment = self.writable(place, bytes).ok_or(BAD)?;
            if !RELOC_KINDS.contains(&kind) || symbol > MAX_SYMBOLS {
                return Err(BAD.into());
            }
            // A pointer to one past the end of a segment is legal.
            if kind == RELOC_RELATIVE || kind == RELOC_IRELATIVE {
                let end = |l: &Load| l.address + l.memory_size;
                let into = self.loads.iter().find(|l| within((l.address, end(l)), addend)).ok_or(BAD)?;
                home = (segment.address, end(segment) - 8);
                target = (into.address, end(into));
            }
        }
        Ok(most)
    }

    fn check_symbols(&self, at: u64, count: u64, strings: &[u8]) -> Check<()> {
        const BAD: &str = "its symbol table is damaged";
        if count > MAX_SYMBOLS {
            return Err(BAD.into());
        }
        for s in self.bytes(at, count * 24).ok_or(BAD)?.chunks_exact(24) {
            let name = u32::from_le_bytes([s[0], s[1], s[2], s[3]]) as usize;
            let section = u16::from_le_bytes([s[6], s[7]]);
            let value = s[8..16].try_into().map_or(0, u64::from_le_bytes);
            let kind = s[4] & 0xf;
            let text = strings.get(name..).and_then(|t| t.split(|b| *b == 0).next());
            if !text.is_some_and(|t| t.iter().all(u8::is_ascii_graphic)) {
                return Err(BAD.into());
            }
            let placed = section != elf::SHN_UNDEF && section != elf::SHN_ABS && kind != elf::STT_TLS;
            if placed && !self.loads.iter().any(|l| value >= l.address && value <= l.address + l.memory_size) {
                return Err(BAD.into());
            }
        }
        Ok(())
    }

    /// Checks the version tables: each required file and version has a name, and offsets move
    /// forward.
    fn check_versions(
        &self,
        versym: Option<u64>,
        need: Option<u64>,
        files: Option<u64>,
        symbols: u64,
        strings: &[u8],
    ) -> Check<()> {
        const BAD: &str = "its version table is damaged";
        if let Some(at) = versym {
            self.bytes(at, symbols * 2).ok_or(BAD)?;
        }
        let Some(mut at) = need else { return Ok(()) };
        let named = |offset: u32| {
            strings.get(offset as usize..).and_then(|s| s.split(|b| *b == 0).next()).is_some_and(|s| !s.is_empty())
        };
        for _ in 0..files.ok_or(BAD)?.min(1024) {
            let head = self.bytes(at, 16).ok_or(BAD)?;
            let short = |i: usize| u16::from_le_bytes([head[i], head[i + 1]]);
            let long = |b: &[u8], i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
            if short(0) != 1 || !named(long(head, 4)) {
                return Err(BAD.into());
            }
            let mut aux = at + u64::from(long(head, 8));
            for i in 0..short(2) {
                let a = self.bytes(aux, 16).ok_or(BAD)?;
                if !named(long(a, 8)) {
                    return Err(BAD.into());
                }
                let next = long(a, 12);
                if next == 0 && i + 1 != short(2) {
                    return Err(BAD.into());
                }
                aux += u64::from(next);
            }
            let next = long(head, 12);
            if next == 0 {
                break;
            }
            at += u64::from(next);
        }
        Ok(())
    }

    /// The linker's build id in hex; empty if there is none.
    fn build_id(&self) -> String {
        let Ok(headers) = self.header.program_headers(LE, self.data) else { return String::new() };
        for h in headers {
            let Ok(Some(mut notes)) = h.notes(LE, self.data) else { continue };
            while let Ok(Some(n)) = notes.next() {
                if n.name() == elf::ELF_NOTE_GNU && n.n_type(LE) == elf::NT_GNU_BUILD_ID {
                    return n.desc().iter().map(|b| format!("{b:02x}")).collect();
                }
            }
        }
        String::new()
    }
}

#[cfg(not(target_arch = "aarch64"))]
const RELOC_KINDS: &[u32] = &[
    elf::R_X86_64_64,
    elf::R_X86_64_GLOB_DAT,
    elf::R_X86_64_JUMP_SLOT,
    elf::R_X86_64_RELATIVE,
    elf::R_X86_64_DTPMOD64,
    elf::R_X86_64_DTPOFF64,
    elf::R_X86_64_TPOFF64,
    elf::R_X86_64_TLSDESC,
    elf::R_X86_64_IRELATIVE,
];
#[cfg(not(target_arch = "aarch64"))]
const RELOC_RELATIVE: u32 = elf::R_X86_64_RELATIVE;
#[cfg(not(target_arch = "aarch64"))]
const RELOC_IRELATIVE: u32 = elf::R_X86_64_IRELATIVE;
#[cfg(not(target_arch = "aarch64"))]
const RELOC_TLSDESC: u32 = elf::R_X86_64_TLSDESC;
#[cfg(target_arch = "aarch64")]
const RELOC_KINDS: &[u32] = &[
    elf::R_AARCH64_ABS64,
    elf::R_AARCH64_GLOB_DAT,
    elf::R_AARCH64_JUMP_SLOT,
    elf::R_AARCH64_RELATIVE,
    elf::R_AARCH64_TLS_DTPMOD,
    elf::R_AARCH64_TLS_DTPREL,
    elf::R_AARCH64_TLS_TPREL,
    elf::R_AARCH64_TLSDESC,
    elf::R_AARCH64_IRELATIVE,
];
#[cfg(target_arch = "aarch64")]
const RELOC_RELATIVE: u32 = elf::R_AARCH64_RELATIVE;
#[cfg(target_arch = "aarch64")]
const RELOC_IRELATIVE: u32 = elf::R_AARCH64_IRELATIVE;
#[cfg(target_arch = "aarch64")]
const RELOC_TLSDESC: u32 = elf::R_AARCH64_TLSDESC;
