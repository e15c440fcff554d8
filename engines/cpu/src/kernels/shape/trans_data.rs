//! `TransData {src_format, dst_format, groups = 1}`: converts between a plain format (ND, NCHW,
//! NHWC, HWCN) and NC1HWC0, NC1HWC0_C04, FRACTAL_Z or FRACTAL_NZ, or between plain formats. For a
//! blocked format, each axis is padded with zeros to whole blocks, cut into blocks, and the axes
//! are permuted. The way back reverses these steps and needs an output of known size.
use super::moving::{Source, copy_through, with_width};
use crate::args::{Arg, bad, count, filled, int_attr, size, text, view_error};
use crate::op::Op;
use crate::store::types::NUMB;
use ge_kernels::view::Layout;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::{HostTensor, KernelCtx};
use ge_plugin_api::types::{DType, Format};

/// A plain tensor cut into blocks: the block size of each axis, and the order of the cut axes (axis
/// a is 2a, its part within a block 2a + 1).
struct Cut {
    blocks: Vec<usize>,
    order: Vec<usize>,
}

fn letters(f: Format) -> Option<&'static str> {
    match f {
        Format::ND | Format::NCHW => Some("NCHW"),
        Format::NHWC => Some("NHWC"),
        Format::HWCN => Some("HWCN"),
        _ => None,
    }
}

fn cut(from: Format, rank: usize, to: Format, dtype: DType) -> Option<Cut> {
    let c0 = ge_plugin_api::types::format::c0(dtype) as usize;
    let mut blocks = vec![1; rank];
    if to == Format::FRACTAL_NZ {
        let (m, n) = (rank.checked_sub(2)?, rank - 1);
        (blocks[m], blocks[n]) = (16, c0);
        let lead = (0..m).flat_map(|a| [2 * a, 2 * a + 1]);
        return Some(Cut { blocks, order: lead.chain([2 * n, 2 * m, 2 * m + 1, 2 * n + 1]).collect() });
    }
    let own = letters(from).filter(|_| rank == 4)?;
    let axis = |l: char| own.find(l).unwrap_or(0);
    // Capital letters are blocks of the axis, small letters positions within a block.
    let text = match to {
        Format::NC1HWC0 | Format::NC1HWC0_C04 => "NnCHhWwc",
        Format::FRACTAL_Z => "CHhWwNnc",
        Format::NCHW => "NnCcHhWw",
        Format::NHWC => "NnHhWwCc",
        Format::HWCN => "HhWwCcNn",
        _ => return None,
    };
    match to {
        Format::NC1HWC0 => blocks[axis('C')] = c0,
        Format::NC1HWC0_C04 => blocks[axis('C')] = 4,
        Format::FRACTAL_Z => (blocks[axis('C')], blocks[axis('N')]) = (c0, 16),
        _ => {}
    }
    let order = text.chars().map(|l| 2 * axis(l.to_ascii_uppercase()) + usize::from(l.is_lowercase()));
    Some(Cut { blocks, order: order.collect() })
}

/// Copies the overlap of two row-major tensors of equal rank; the rest of the second stays
/// unchanged.
fn overlap(width: usize, from: &[u8], have: &[usize], to: &mut [u8], room: &[usize]) -> Result<()> {
    let part: Vec<usize> = have.iter().zip(room).map(|(a, b)| *a.min(b)).collect();
    let (run, rows) = part.split_last().map_or((1, &[][..]), |(r, l)| (*r, l));
    let at = |shape: &[usize], place: &[usize]| {
        place.iter().zip(shape).fold(0, |f, (i, n)| f * n + i) * shape.last().copied().unwrap_or(1) * width
    };
    let mut place = vec![0; rows.len()];
    for _ in 0..count(rows)? {
        let (f, t) = (at(have, &place), at(room, &place));
        to[t..t + run * width].copy_from_slice(&from[f..f + run * width]);
        for (i, n) in place.iter_mut().zip(rows).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    Ok(())
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let named = |key: &str| {
        let name = text(ctx, key, "");
        Format::from_name(name).ok_or_else(|| bad(format!("attribute `{key}`"), name, "a format"))
    };
    let (from, to) = (named("src_format")?, named("dst_format")?);
    if int_attr(ctx, "groups", 1) != 1 {
        return Err(bad("attribute `groups`", int_attr(ctx, "groups", 1), 1));
    }
    let unknown = || bad("formats", format!("{from} {:?} to {to}", x.shape), "a plain format and another one");
    let width = Source::of(&x)?.width;
    if letters(from).is_some() {
        let c = cut(from, x.rank(), to, x.dtype).ok_or_else(unknown)?;
        let room: Vec<usize> = x.shape.iter().zip(&c.blocks).map(|(n, b)| n.div_ceil(*b) * b).collect();
        let split: Vec<usize> = room.iter().zip(&c.blocks).flat_map(|(n, b)| [n / b, *b]).collect();
        let mut padded = filled(count(&room)? * width, 0u8)?;
        if x.len > 0 {
            overlap(width, x.bytes(), &x.shape, &mut padded, &room)?;
        }
        let l = Layout::contiguous(&split).and_then(|l| l.permute(&c.order)).map_err(view_error)?;
        return copy_through(ctx, 0, &shape_in(to, l.shape()), &Source::owned(padded, width), &l);
    }
    let sizes = ctx.output_dims(0).ok_or_else(|| bad("sizes of output 0", "nothing", "known sizes"))?;
    let shape = sizes.iter().map(|&d| size("output 0", d as i64)).collect::<Result<Vec<_>>>()?;
    let c = letters(to).and_then(|_| cut(to, shape.len(), from, x.dtype)).ok_or_else(unknown)?;
    let room: Vec<usize> = shape.iter().zip(&c.blocks).map(|(n, b)| n.div_ceil(*b) * b).collect();
    let split: Vec<usize> = room.iter().zip(&c.blocks).flat_map(|(n, b)| [n / b, *b]).collect();
    let turned: Vec<usize> = c.order.iter().map(|&a| split[a]).collect();
    if shape_in(from, &turned) != x.shape {
        return Err(bad("input 0", format!("{:?}", x.shape), format!("{:?}", shape_in(from, &turned))));
    }
    let mut back = vec![0; c.order.len()];
    c.order.iter().enumerate().for_each(|(i, &a)| back[a] = i);
    let l = Layout::contiguous(&turned).and_then(|l| l.permute(&back)).map_err(view_error)?;
    // The blocks in plain order, followed by the positions within them.
    let mut whole = HostTensor::zeroed(x.dtype, &room.iter().map(|&d| d as u64).collect::<Vec<_>>())?;
    {
        let from = Source::of(&x)?;
        let nest = ge_kernels::view::Nest::new(l.shape(), [&l]);
        with_width!(width, N => {
            let (items, out) = (from.items::<N>(), whole.bytes_mut().as_chunks_mut::<N>().0);
            let mut at = 0;
            nest.each_run_in(0..out.len(), |[p], n, [s]| {
                for (i, o) in out[at..at + n].iter_mut().enumerate() {
                    *o = items[(p + i as isize * s) as usize];
                }
                at += n;
            });
        });
    }
    let bytes = crate::args::out_bytes(ctx, 0, &shape)?;
    if bytes.is_empty() { Ok(()) } else { overlap(width, whole.bytes(), &room, bytes, &shape) }
}

/// The shape of a format after cutting and permuting; axes that are written as one are merged.
fn shape_in(format: Format, cut: &[usize]) -> Vec<usize> {
    match (format, cut) {
        (Format::NC1HWC0 | Format::NC1HWC0_C04, &[n, _, c1, h, _, w, _, c0]) => vec![n, c1, h, w, c0],
        (Format::FRACTAL_Z, &[c1, h, _, w, _, n1, n0, c0]) => vec![c1 * h * w, n1, n0, c0],
        (Format::FRACTAL_NZ, _) if cut.len() >= 4 => {
            let (lead, tail) = cut.split_at(cut.len() - 4);
            lead.iter().step_by(2).chain(tail).copied().collect()
        }
        _ => cut.iter().step_by(2).copied().collect(),
    }
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("TransData", run, &[NUMB]).gives(&[NUMB])];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, refusal, t};
    use ge_plugin_api::kernel::{HostTensor, KernelCtx};
    use ge_plugin_api::types::{DType, Format};

    fn change(x: &HostTensor, from: &str, to: &str, sizes: &[u64]) -> Vec<f32> {
        let attrs = attrs(&[("src_format", from.into()), ("dst_format", to.into())]);
        let mut c = KernelCtx::new("TransData", "n", &attrs, vec![Some(x.view())], &[DType::F32]);
        let mut out = HostTensor::zeroed(DType::F32, sizes).unwrap();
        c.give_output(0, DType::F32, sizes.to_vec(), out.bytes_mut());
        super::run(&mut c).unwrap();
        out.view().values::<f32>().unwrap().to_vec()
    }
    fn count(dims: &[u64]) -> HostTensor {
        let n = dims.iter().product::<u64>();
        t(dims, &(1..=n).map(|v| v as f32).collect::<Vec<_>>())
    }

    #[test]
    fn blocks_hold_what_the_definition_says() {
        // f32 has blocks of eight channels; element (n, c, h, w) is at (n, c / 8, h, w, c % 8).
        let x = count(&[2, 9, 2, 3]);
        let y = change(&x, "NCHW", "NC1HWC0", &[2, 2, 2, 3, 8]);
        for (i, v) in y.iter().enumerate() {
            let (n, c1, h, w, c0) = (i / 96, i / 48 % 2, i / 24 % 2, i / 8 % 3, i % 8);
            let c = c1 * 8 + c0;
            let want = if c < 9 { (((n * 9 + c) * 2 + h) * 3 + w + 1) as f32 } else { 0.0 };
            assert_eq!(*v, want, "{i}");
        }
        // Filters: (n, c, h, w) at ((c / 8 * H + h) * W + w, n / 16, n % 16, c % 8).
        let z = change(&x, "NCHW", "FRACTAL_Z", &[12, 1, 16, 8]);
        for (i, v) in z.iter().enumerate() {
            let (first, n, c0) = (i / 128, i / 8 % 16, i % 8);
            let (c, h, w) = (first / 6 * 8 + c0, first / 3 % 2, first % 3);
            let want = if n < 2 && c < 9 { (((n * 9 + c) * 2 + h) * 3 + w + 1) as f32 } else { 0.0 };
            assert_eq!(*v, want, "{i}");
        }
        // Matrices: (b, m, n) at (b, n / 8, m / 16, m % 16, n % 8).
        let x = count(&[2, 3, 10]);
        let y = change(&x, "ND", "FRACTAL_NZ", &[2, 2, 1, 16, 8]);
        for (i, v) in y.iter().enumerate() {
            let (b, n, m) = (i / 256, i / 128 % 2 * 8 + i % 8, i / 8 % 16);
            let want = if m < 3 && n < 10 { ((b * 3 + m) * 10 + n + 1) as f32 } else { 0.0 };
            assert_eq!(*v, want, "{i}");
        }
    }

    #[test]
    fn the_way_back_gives_what_was() {
        let plain: [(&str, [u64; 4]); 3] = [("NCHW", [2, 9, 2, 3]), ("NHWC", [2, 2, 3, 9]), ("HWCN", [2, 3, 9, 2])];
        for (from, dims) in plain {
            let x = count(&dims);
            for (to, blocked) in [("NC1HWC0", &[2u64, 2, 2, 3, 8][..]), ("FRACTAL_Z", &[12, 1, 16, 8])] {
                let y = t(blocked, &change(&x, from, to, blocked));
                assert_eq!(change(&y, to, from, &dims), x.view().values::<f32>().unwrap(), "{from} {to}");
            }
        }
        let x = count(&[17, 9]);
        let y = t(&[2, 2, 16, 8], &change(&x, "ND", "FRACTAL_NZ", &[2, 2, 16, 8]));
        assert_eq!(change(&y, "FRACTAL_NZ", "ND", &[17, 9]), x.view().values::<f32>().unwrap());
        let y = change(&count(&[1, 2, 1, 3]), "NCHW", "NHWC", &[1, 1, 3, 2]);
        assert_eq!(y, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }

    #[test]
    fn half_types_have_blocks_of_sixteen() {
        let x = t(&[1, 3], &[1.0f32, 2.0, 3.0]);
        let half = call("Cast", &[Some(&x)], &attrs(&[("dst_type", DType::F16.into())]), &[DType::F16]).unwrap();
        let list = attrs(&[("src_format", "ND".into()), ("dst_format", "FRACTAL_NZ".into())]);
        let y = call("TransData", &[Some(&half[0])], &list, &[DType::F16]).unwrap();
        assert_eq!(y[0].view().dims, [1, 1, 16, 16]);
        assert_eq!(y[0].bytes()[..6], half[0].bytes()[..]);
        assert!(y[0].bytes()[6..].iter().all(|b| *b == 0));
        assert_eq!(Format::FRACTAL_NZ.name(), "FRACTAL_NZ");
    }

    #[test]
    fn what_cannot_be_is_told() {
        let x = count(&[2, 3]);
        let said = refusal("TransData", &[&x], &[("src_format", "NCHW".into()), ("dst_format", "NC1HWC0".into())]);
        assert!(said.contains("formats"), "{said}");
        let said = refusal("TransData", &[&x], &[("src_format", "FRACTAL_NZ".into()), ("dst_format", "ND".into())]);
        assert!(said.contains("sizes of output 0"), "{said}");
    }
}
