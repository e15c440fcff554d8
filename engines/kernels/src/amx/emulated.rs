//! Emulation of the tile instructions on machines without them, for tests.
//!
//! Such a machine raises a signal for each of these instructions. A handler decodes the instruction
//! from its bytes, by the encodings of Intel's manual, and executes it. So what [`super::hardware`]
//! emits is tested everywhere: instructions, tiles, addresses and strides, shapes. A machine that
//! has tiles and may use them executes the instructions itself.
use super::hardware::Hardware;
use super::software::{Tile, multiply};
use super::{BYTES, Dot, Kind, ROWS, Shapes, TILES, Tiles, detect};
use crate::view::Elem;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Once;

/// The hardware's tiles, either real or emulated by the handler.
pub(crate) struct Emulated(Hardware);

impl Tiles for Emulated {
    fn configure(shapes: &Shapes) -> Emulated {
        static READY: Once = Once::new();
        READY.call_once(|| {
            // Requests permission where the machine has tiles. Without it only some of the
            // instructions would raise a signal, and the handler would not know the shapes.
            detect::found();
            // SAFETY: the structure is fully initialised, and the handler accesses only its
            // thread's memory and what the instruction refers to.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_illegal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
                assert_eq!(libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()), 0);
            }
        });
        // SAFETY: the machine has tiles, or the handler emulates them.
        Emulated(unsafe { Hardware::configure_unasked(shapes) })
    }
    fn zero<const T: usize>(&mut self) {
        self.0.zero::<T>();
    }
    fn load<const T: usize, E: Elem>(&mut self, from: &[E], stride: usize) {
        self.0.load::<T, E>(from, stride);
    }
    unsafe fn load_from<const T: usize, E: Elem>(&mut self, from: *const E, stride: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.load_from::<T, E>(from, stride) }
    }
    unsafe fn load_once<const T: usize, E: Elem>(&mut self, from: *const E, stride: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.load_once::<T, E>(from, stride) }
    }
    fn store<const T: usize, E: Elem>(&mut self, to: &mut [E], stride: usize) {
        self.0.store::<T, E>(to, stride);
    }
    fn dot<D: Dot, const C: usize, const A: usize, const B: usize>(&mut self) {
        self.0.dot::<D, C, A, B>();
    }
}

/// The emulated tiles of a thread.
struct Held {
    configured: bool,
    shapes: Shapes,
    tiles: [Tile; TILES],
}

const NONE: Held = Held { configured: false, shapes: [(0, 0); TILES], tiles: [[[0; BYTES]; ROWS]; TILES] };

thread_local! {
    static HELD: UnsafeCell<Held> = const { UnsafeCell::new(NONE) };
}

/// Aborts the process, because a signal handler must not panic.
fn refuse(why: &str, bytes: &[u8]) -> ! {
    eprintln!("an instruction that the test does not know ({why}): {bytes:02x?}");
    std::process::abort()
}

/// General registers, indexed by their number in an instruction.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

extern "C" fn on_illegal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system provides the registers of the thread, and its next instruction can be
    // read. No tile instruction is longer than ten bytes, and more code follows it. Nothing else
    // uses the thread's tiles while the handler runs.
    let (registers, bytes, held) = unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize] as *const [u8; 10];
        (registers, *at, HELD.with(|h| &mut *h.get()))
    };
    let [first, flags, more, op, modrm, ..] = bytes;
    if first != 0xc4 || flags & 31 != 2 || more & 0x84 != 0 || flags & 0x80 == 0 {
        refuse("prefix", &bytes);
    }
    let (second, prefix) = (usize::from(!more >> 3 & 15), more & 3);
    let (mode, reg, rm) = (modrm >> 6, usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    let value = |n: usize| registers[REGISTERS[n] as usize] as usize;
    let high = |bit: u8| usize::from(flags & bit == 0) * 8;
    let mut len = 5;
    let (mut address, mut stride) = (0, 0);
    if mode != 3 {
        if rm == 4 {
            let sib = bytes[5];
            len += 1;
            let (index, base) = (usize::from(sib >> 3 & 7) + high(0x40), usize::from(sib & 7) + high(0x20));
            if sib & 7 == 5 && mode == 0 {
                refuse("no base", &bytes);
            }
            address = value(base);
            stride = if index == 4 { 0 } else { value(index) << (sib >> 6) };
        } else if mode == 0 && rm == 5 {
            refuse("address by the next instruction", &bytes);
        } else {
            address = value(rm + high(0x20));
        }
        let far = match mode {
            1 => i32::from(bytes[len] as i8),
            2 => i32::from_le_bytes([bytes[len], bytes[len + 1], bytes[len + 2], bytes[len + 3]]),
            _ => 0,
        };
        len += [0, 1, 4][usize::from(mode)];
        address = address.wrapping_add_signed(far as isize);
    }
    if !held.configured && op != 0x49 || mode != 3 && op == 0x4b && rm != 4 {
        refuse("tiles without shapes, or rows without a stride", &bytes);
    }
    match (op, prefix, mode == 3) {
        (0x49, 0, false) => *held = configured(address + stride).unwrap_or_else(|| refuse("shapes", &bytes)),
        (0x49, 0, true) if modrm == 0xc0 => *held = NONE,
        (0x49, 3, true) if held.configured => held.tiles[reg] = [[0; BYTES]; ROWS],
        (0x4b, 1 | 3, false) => held.tiles[reg] = loaded(held.shapes[reg], address, stride),
        (0x4b, 2, false) => stored(held.shapes[reg], &held.tiles[reg], address, stride),
        (0x5e | 0x5c, _, true) => {
            let kind = match (op, prefix) {
                (0x5e, 1) => Kind::UnsignedSigned,
                (0x5e, 2) => Kind::SignedUnsigned,
                (0x5e, 3) => Kind::Signed,
                (0x5c, 2) => Kind::Bf16,
                _ => refuse("kind of product", &bytes),
            };
            let ((m, n), (rows, k), (deep, wide)) = (held.shapes[reg], held.shapes[rm], held.shapes[second & 7]);
            if second > 7
                || m != rows
                || n != wide
                || k != 4 * deep
                || m == 0
                || reg == rm
                || reg == second
                || rm == second
            {
                refuse("tiles of a product", &bytes);
            }
            let (a, b) = (held.tiles[rm], held.tiles[second]);
            multiply(kind, [m, deep, n / 4], &a, &b, &mut held.tiles[reg]);
        }
        _ => refuse("operation", &bytes),
    }
    registers[libc::REG_RIP as usize] += len as i64;
}

/// Reads the operand of `ldtilecfg`: the palette, bytes that must be zero, the bytes per row of
/// sixteen tiles, of which only eight exist, and their row counts. `None` if it is invalid.
fn configured(address: usize) -> Option<Held> {
    // SAFETY: the instruction's operand is sixty-four readable bytes.
    let c = unsafe { *(address as *const [u8; 64]) };
    let shapes = std::array::from_fn(|t| {
        (usize::from(c[48 + t]), usize::from(u16::from_le_bytes([c[16 + 2 * t], c[17 + 2 * t]])))
    });
    let right = |&(rows, bytes): &(usize, usize)| rows <= ROWS && bytes <= BYTES && (rows == 0) == (bytes == 0);
    let none = c[1..16].iter().chain(&c[32..48]).chain(&c[56..]).all(|v| *v == 0);
    (c[0] == 1 && none && shapes.iter().all(right)).then_some(Held { configured: true, shapes, ..NONE })
}

fn loaded((rows, bytes): (usize, usize), address: usize, stride: usize) -> Tile {
    let mut tile = [[0; BYTES]; ROWS];
    for (r, row) in tile[..rows].iter_mut().enumerate() {
        // SAFETY: the instruction's operand is rows that can be read.
        let from = unsafe { std::slice::from_raw_parts((address + r * stride) as *const u8, bytes) };
        row[..bytes].copy_from_slice(from);
    }
    tile
}

fn stored((rows, bytes): (usize, usize), tile: &Tile, address: usize, stride: usize) {
    for (r, row) in tile[..rows].iter().enumerate() {
        // SAFETY: the instruction's operand is rows that can be written.
        let to = unsafe { std::slice::from_raw_parts_mut((address + r * stride) as *mut u8, bytes) };
        to.copy_from_slice(&row[..bytes]);
    }
}
