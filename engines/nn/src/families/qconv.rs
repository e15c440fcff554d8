//! `QLinearConv` of images (ONNX's attributes): bytes less their zero points, summed in 32 bits, scaled, rounded half to even and
//! saturated. Patches of x become rows of bytes; the filter is packed once a unit of work.
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::gemm::int8::{GemmInt8, correct, pack_int8, packed_int8_len};
use ge_kernels::view::{Elem, Kind, Out};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

const BYTES: &[Kind] = &[Kind::I8, Kind::U8];
/// Output places of a unit of work.
const PLACES: usize = 1024;
/// Places whose patches stand in memory at once.
const PATCHES: usize = 64;

struct QConv {
    /// Types of x, the filter and y.
    kinds: [Kind; 3],
    batch: usize,
    groups: usize,
    channels: [usize; 2],
    input: [usize; 2],
    output: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    pad: [usize; 2],
    bias: bool,
}

fn pair(sig: &Sig, key: &str) -> Answer<[usize; 2]> {
    match sig.attrs.ints(key) {
        None | Some([]) => Ok([1, 1]),
        Some(&[a, b]) if (1..1 << 30).contains(&a) && (1..1 << 30).contains(&b) => Ok([a as usize, b as usize]),
        Some(v) => Err(format!("attribute `{key}` is {v:?}")),
    }
}

/// The kernel of a convolution of bytes.
///
/// # Errors
/// Types, shapes or attributes that it does not take, in words.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kinds = [sig.kind_in(0, BYTES)?, sig.kind_in(3, BYTES)?, sig.kind_in(7, BYTES)?];
    let (x, w, y) = (sig.input(0)?, sig.input(3)?, sig.output(0)?);
    let (&[batch, c, ih, iw], &[o, cg, kh, kw], &[yn, yo, oh, ow]) =
        (x.shape.as_slice(), w.shape.as_slice(), y.shape.as_slice())
    else {
        return Err(format!("x is {:?}, it takes images", x.shape));
    };
    let groups =
        usize::try_from(sig.int("group", 1)).ok().filter(|g| *g > 0).ok_or("attribute `group` is not above zero")?;
    if cg.checked_mul(groups) != Some(c) || o % groups != 0 || yn != batch || yo != o || kh == 0 || kw == 0 {
        return Err(format!("filter {:?} and output {:?} for x {:?} in {groups} groups", w.shape, y.shape, x.shape));
    }
    for (i, most) in [(1, 1), (2, 1), (4, o), (5, o), (6, 1), (7, 1)] {
        let n = sig.input(i)?.count();
        if n != 1 && n != most {
            return Err(format!("input {i} has {n} numbers, it takes 1 or {most}"));
        }
    }
    for i in [1, 4, 6] {
        sig.kind_in(i, &[Kind::F32])?;
    }
    if sig.input(2)?.kind != Some(kinds[0]) || sig.input(5)?.kind != Some(kinds[1]) || y.kind != Some(kinds[2]) {
        return Err("a zero point has another type than its numbers".into());
    }
    let bias = match sig.opt_input(8) {
        None => false,
        Some(b) if b.count() == o && b.kind == Some(Kind::I32) => true,
        Some(b) => return Err(format!("input 8 is {} {:?}, it takes i32 [{o}]", b.dtype, b.shape)),
    };
    let (stride, dilation) = (pair(sig, "strides")?, pair(sig, "dilations")?);
    let (input, output, kernel) = ([ih, iw], [oh, ow], [kh, kw]);
    let mut pad = [0; 2];
    for d in 0..2 {
        // What the window spans over the padded input must give the output's size.
        let span = (kernel[d] - 1).checked_mul(dilation[d]).and_then(|v| v.checked_add(1)).ok_or("sizes overflow")?;
        let reach = (output[d].max(1) - 1).checked_mul(stride[d]).and_then(|v| v.checked_add(span));
        let total = reach.ok_or("sizes overflow")?.saturating_sub(input[d]);
        let (begin, end) = match sig.text("auto_pad", "NOTSET") {
            "VALID" => (0, 0),
            "SAME_UPPER" => (total / 2, total - total / 2),
            "SAME_LOWER" => (total - total / 2, total / 2),
            _ => match sig.attrs.ints("pads") {
                None | Some([]) => (0, 0),
                Some(p) if p.len() == 4 && p.iter().all(|p| (0..1 << 30).contains(p)) => {
                    (p[d] as usize, p[d + 2] as usize)
                }
                Some(p) => return Err(format!("attribute `pads` is {p:?}")),
            },
        };
        let room = (input[d].saturating_add(begin).saturating_add(end)).checked_sub(span);
        if room.map(|r| r / stride[d] + 1) != Some(output[d]) {
            return Err(format!("output 0 is {:?}, the window gives another size", y.shape));
        }
        pad[d] = begin;
    }
    Ok(Box::new(QConv { kinds, batch, groups, channels: [c, o], input, output, kernel, stride, dilation, pad, bias }))
}

/// Bytes as the product takes them: unsigned on the left (128 more), signed on the right (128 less).
fn zeros<T: Elem>(v: &[T], by: i32) -> Vec<i32> {
    v.iter().map(|z| z.to_i64() as i32 + by).collect()
}

impl QConv {
    fn places(&self) -> usize {
        self.output[0] * self.output[1]
    }
    fn blocks(&self) -> usize {
        self.places().div_ceil(PLACES)
    }

    /// Writes the patch of an output place: `[channel][row][column]` of the filter, zero points where x has nothing.
    fn patch(&self, x: &[u8], image: usize, first: usize, place: usize, zero: u8, to: &mut [u8]) {
        let [kh, kw] = self.kernel;
        let (oy, ox) = (place / self.output[1], place % self.output[1]);
        let plane = self.input[0] * self.input[1];
        let mut at = 0;
        for c in 0..self.channels[0] / self.groups {
            let x = &x[(image * self.channels[0] + first + c) * plane..][..plane];
            for ky in 0..kh {
                let iy = (oy * self.stride[0] + ky * self.dilation[0]).wrapping_sub(self.pad[0]);
                for kx in 0..kw {
                    let ix = (ox * self.stride[1] + kx * self.dilation[1]).wrapping_sub(self.pad[1]);
                    let inside = iy < self.input[0] && ix < self.input[1];
                    to[at] = if inside { x[iy * self.input[1] + ix] } else { zero };
                    at += 1;
                }
            }
        }
    }

    fn unit<Y: Elem>(
        &self,
        unit: usize,
        x: &[u8],
        w: &[i8],
        io: &Io<'_, '_>,
        zero: [i32; 2],
        zw: &[i32],
    ) -> Result<()> {
        let (image, block) = (unit / self.blocks(), unit % self.blocks());
        let (group, image) = (image % self.groups, image / self.groups);
        let (cg, og) = (self.channels[0] / self.groups, self.channels[1] / self.groups);
        let k = cg * self.kernel[0] * self.kernel[1];
        let w = &w[group * og * k..][..og * k];
        let mut packed = vec![0i8; packed_int8_len(k, og)];
        pack_int8(w, k, og, 1, k, &mut packed);
        let columns: Vec<i32> = w.chunks_exact(k.max(1)).map(|r| r.iter().map(|v| i32::from(*v)).sum()).collect();
        let own = |all: &[i32]| if all.len() == 1 { all.to_vec() } else { all[group * og..][..og].to_vec() };
        let zw = own(zw);
        let (sx, sw, sy) = (io.input::<f32>(1)?[0], io.input::<f32>(4)?, io.input::<f32>(6)?[0]);
        let bias = if self.bias { io.input::<i32>(8)? } else { &[] };
        let (low, high) = if Y::KIND == Kind::U8 { (0.0, 255.0) } else { (-128.0, 127.0) };
        let end = ((block + 1) * PLACES).min(self.places());
        let (mut rows, mut sums) = (vec![0u8; PATCHES * k], vec![0i32; PATCHES * og]);
        let mut line = [Y::from_i64(0); PATCHES];
        for start in (block * PLACES..end).step_by(PATCHES) {
            let m = PATCHES.min(end - start);
            for i in 0..m {
                self.patch(x, image, group * cg, start + i, zero[0] as u8, &mut rows[i * k..(i + 1) * k]);
            }
            let g = GemmInt8 { m, n: og, k, a_row: k };
            g.run(0..g.units(), &rows, &packed, &mut Out::new(&mut sums));
            for i in 0..m {
                let row_sum = rows[i * k..(i + 1) * k].iter().map(|v| i32::from(*v)).sum();
                correct(&mut sums[i * og..(i + 1) * og], zero[0], &columns, &zw, row_sum, k);
            }
            io.output::<Y, ()>(0, |out| {
                for j in 0..og {
                    let o = group * og + j;
                    let scale = sx * sw[if sw.len() == 1 { 0 } else { o }] / sy;
                    let b = bias.get(o).copied().unwrap_or(0);
                    for (i, to) in line[..m].iter_mut().enumerate() {
                        let v = f64::from(sums[i * og + j].wrapping_add(b)) * f64::from(scale);
                        *to = Y::from_i64((v.round_ties_even() + f64::from(zero[1])).clamp(low, high) as i64);
                    }
                    let at = (image * self.channels[1] + o) * self.places() + start;
                    out.part(at, m).copy_from_slice(&line[..m]);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Kernel for QConv {
    fn units(&self) -> usize {
        self.batch * self.groups * self.blocks()
    }

    fn work(&self) -> u64 {
        let k = self.channels[0] / self.groups * self.kernel[0] * self.kernel[1];
        (self.batch * self.channels[1]) as u64 * (self.places() as u64).saturating_mul(k as u64) / 16
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let wrong = || Error::internal("type of a convolution of bytes");
        let (mut held_x, mut held_w) = (Vec::new(), Vec::new());
        let (x, zx): (&[u8], i32) = if self.kinds[0] == Kind::U8 {
            (io.input::<u8>(0)?, zeros(io.input::<u8>(2)?, 0)[0])
        } else {
            held_x.extend(io.input::<i8>(0)?.iter().map(|v| (*v as u8) ^ 0x80));
            (&held_x, zeros(io.input::<i8>(2)?, 128)[0])
        };
        let (w, zw): (&[i8], Vec<i32>) = if self.kinds[1] == Kind::I8 {
            (io.input::<i8>(3)?, zeros(io.input::<i8>(5)?, 0))
        } else {
            held_w.extend(io.input::<u8>(3)?.iter().map(|v| (*v ^ 0x80) as i8));
            (&held_w, zeros(io.input::<u8>(5)?, -128))
        };
        with_kind!(self.kinds[2], [I8, U8], Y => {
            let zy = zeros(io.input::<Y>(7)?, 0)[0];
            units.into_iter().try_for_each(|u| self.unit::<Y>(u, x, w, io, [zx, zy], &zw))
        }, else Err(wrong()))
    }
}
