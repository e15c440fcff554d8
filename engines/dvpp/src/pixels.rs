//! Operations on pictures in memory: resizing, cropping, colour conversion. Rows are stored from
//! the top, pixels are interleaved, and each value has 8 bits.
use std::fmt;

/// Order and meaning of the values of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma by ITU-R BT.601.
    Gray,
    /// Luma and two colour differences by BT.601, full range (as in JPEG).
    Yuv,
    /// The form that cameras use: `H` rows of luma, then `H/2` rows of pairs of colour differences,
    /// one pair for each four pixels.
    Nv12,
}

const NAMES: [(&str, Colour); 5] = [
    ("RGB", Colour::Rgb),
    ("BGR", Colour::Bgr),
    ("Grayscale", Colour::Gray),
    ("YUV", Colour::Yuv),
    ("NV12", Colour::Nv12),
];

impl Colour {
    /// The names of all colours, in order of declaration.
    pub const ALL: [&'static str; 5] = ["RGB", "BGR", "Grayscale", "YUV", "NV12"];

    /// The colour with this name.
    pub fn parse(name: &str) -> Option<Colour> {
        NAMES.iter().find(|n| n.0 == name).map(|n| n.1)
    }
    /// Shape of a picture with this many rows and pixels per row; `None` if it cannot have this
    /// form (NV12 needs even sides).
    pub fn shape(self, height: u64, width: u64) -> Option<[u64; 3]> {
        Some(match self {
            Colour::Nv12 if !height.is_multiple_of(2) || !width.is_multiple_of(2) => return None,
            Colour::Nv12 => [height.checked_add(height / 2)?, width, 1],
            Colour::Gray => [height, width, 1],
            _ => [height, width, 3],
        })
    }
    /// Rows and pixels per row of a picture of this shape; `None` if no picture has it.
    pub fn sides(self, shape: [u64; 3]) -> Option<(u64, u64)> {
        let height = if self == Colour::Nv12 { shape[0] / 3 * 2 } else { shape[0] };
        (self.shape(height, shape[1]) == Some(shape)).then_some((height, shape[1]))
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|n| n.1 == *self).map_or("", |n| n.0))
    }
}

/// Sizes of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Number of rows.
    pub h: usize,
    /// Pixels per row.
    pub w: usize,
    /// Values per pixel.
    pub c: usize,
}

impl Sides {
    fn row(self) -> usize {
        self.w * self.c
    }
}

/// For each output position along a side: the two input positions around it, and the weight of the
/// second one (half-pixel centres).
fn between(from: usize, to: usize) -> Vec<(usize, usize, f64)> {
    let scale = from as f64 / to as f64;
    let one = |i: usize| {
        let at = ((i as f64 + 0.5) * scale - 0.5).clamp(0.0, (from - 1) as f64);
        let low = at.floor() as usize;
        (low, (low + 1).min(from - 1), at - low as f64)
    };
    (0..to).map(one).collect()
}

/// Resizes `x` into `y`, by bilinear interpolation or by the nearest pixel. Does nothing if a
/// picture is empty.
pub fn resize(x: &[u8], from: Sides, y: &mut [u8], to: Sides, nearest: bool) {
    if from.h == 0 || from.w == 0 || to.h == 0 || to.w == 0 {
        return;
    }
    let place = |i: usize, from: usize, to: usize| (((2 * i + 1) * from) / (2 * to)).min(from - 1);
    let (rows, columns) = (between(from.h, to.h), between(from.w, to.w));
    for (i, line) in y.chunks_exact_mut(to.row()).enumerate() {
        for (j, pixel) in line.chunks_exact_mut(to.c).enumerate() {
            if nearest {
                let at = place(i, from.h, to.h) * from.row() + place(j, from.w, to.w) * from.c;
                pixel.copy_from_slice(&x[at..at + from.c]);
                continue;
            }
            let ((t, b, v), (l, r, u)) = (rows[i], columns[j]);
            for (k, out) in pixel.iter_mut().enumerate() {
                let value = |row: usize, column: usize| f64::from(x[row * from.row() + column * from.c + k]);
                let top = value(t, l) * (1.0 - u) + value(t, r) * u;
                let bottom = value(b, l) * (1.0 - u) + value(b, r) * u;
                *out = (top * (1.0 - v) + bottom * v).round() as u8;
            }
        }
    }
}

/// Copies the part of `x` that begins at row `top` and pixel `left` into `y`.
pub fn crop(x: &[u8], from: Sides, (top, left): (usize, usize), y: &mut [u8], to: Sides) {
    for (i, line) in y.chunks_exact_mut(to.row().max(1)).enumerate() {
        let at = (top + i) * from.row() + left * from.c;
        line.copy_from_slice(&x[at..at + to.row()]);
    }
}

fn round(v: f64) -> u8 {
    v.round().clamp(0.0, 255.0) as u8
}
fn to_yuv([r, g, b]: [u8; 3]) -> [u8; 3] {
    let (r, g, b) = (f64::from(r), f64::from(g), f64::from(b));
    let y = 0.299 * r + 0.587 * g + 0.114 * b;
    [round(y), round((b - y) / 1.772 + 128.0), round((r - y) / 1.402 + 128.0)]
}
fn from_yuv([y, u, v]: [u8; 3]) -> [u8; 3] {
    let (y, u, v) = (f64::from(y), f64::from(u) - 128.0, f64::from(v) - 128.0);
    let (r, b) = (y + 1.402 * v, y + 1.772 * u);
    [round(r), round((y - 0.299 * r - 0.114 * b) / 0.587), round(b)]
}

/// Pixel `(i, j)` as red, green, blue.
fn rgb(x: &[u8], colour: Colour, h: usize, w: usize, i: usize, j: usize) -> [u8; 3] {
    let at = i * w + j;
    let three = || [x[at * 3], x[at * 3 + 1], x[at * 3 + 2]];
    match colour {
        Colour::Rgb => three(),
        Colour::Bgr => {
            let [b, g, r] = three();
            [r, g, b]
        }
        Colour::Gray => [x[at]; 3],
        Colour::Yuv => from_yuv(three()),
        Colour::Nv12 => {
            let pair = h * w + i / 2 * w + j / 2 * 2;
            from_yuv([x[at], x[pair], x[pair + 1]])
        }
    }
}

/// Converts a picture of `h` rows and `w` pixels per row from one colour to another. `x` and `y`
/// must have the sizes of the two forms.
pub fn convert(x: &[u8], from: Colour, y: &mut [u8], to: Colour, h: usize, w: usize) {
    for i in 0..h {
        for j in 0..w {
            let (p, at) = (rgb(x, from, h, w, i, j), i * w + j);
            match to {
                Colour::Rgb => y[at * 3..at * 3 + 3].copy_from_slice(&p),
                Colour::Bgr => y[at * 3..at * 3 + 3].copy_from_slice(&[p[2], p[1], p[0]]),
                Colour::Yuv => y[at * 3..at * 3 + 3].copy_from_slice(&to_yuv(p)),
                Colour::Gray | Colour::Nv12 => y[at] = to_yuv(p)[0],
            }
            // Four pixels share the mean of their colour differences.
            if to == Colour::Nv12 && i % 2 == 0 && j % 2 == 0 {
                let four = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| to_yuv(rgb(x, from, h, w, i + a, j + b)));
                let mean = |k: usize| round(four.iter().map(|q| f64::from(q[k])).sum::<f64>() / 4.0);
                let pair = h * w + i / 2 * w + j;
                (y[pair], y[pair + 1]) = (mean(1), mean(2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shapes_belong_to_the_colours() {
        for (name, (said, colour)) in Colour::ALL.into_iter().zip(NAMES) {
            assert_eq!((name, Colour::parse(name), colour.to_string().as_str()), (said, Some(colour), name));
            let shape = colour.shape(6, 8).expect("even sides");
            assert_eq!(colour.sides(shape), Some((6, 8)), "{name}");
        }
        assert_eq!((Colour::Nv12.shape(5, 8), Colour::Nv12.sides([8, 8, 1]), Colour::parse("HSV")), (None, None, None));
    }

    #[test]
    fn resizing_keeps_flat_pictures_and_meets_values_by_hand() {
        let s = |h, w| Sides { h, w, c: 1 };
        let mut y = [0; 8];
        resize(&[0, 100], s(1, 2), &mut y, s(1, 8), false);
        // Centres at -0.375, -0.125, 0.125 … of the distance between the two pixels.
        assert_eq!(y, [0, 0, 13, 38, 63, 88, 100, 100]);
        resize(&[0, 100], s(1, 2), &mut y, s(1, 8), true);
        assert_eq!(y, [0, 0, 0, 0, 100, 100, 100, 100]);
        let mut y = [0; 4];
        resize(
            &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160],
            s(4, 4),
            &mut y,
            s(2, 2),
            false,
        );
        assert_eq!(y, [35, 55, 115, 135]);
        let mut y = [0; 7 * 5 * 3];
        resize(&[77; 4 * 9 * 3], Sides { h: 4, w: 9, c: 3 }, &mut y, Sides { h: 7, w: 5, c: 3 }, false);
        assert!(y.iter().all(|v| *v == 77));
    }

    #[test]
    fn a_crop_is_the_rectangle_asked_for() {
        let x: Vec<u8> = (0..4 * 5 * 3).collect();
        let mut y = [0; 2 * 2 * 3];
        crop(&x, Sides { h: 4, w: 5, c: 3 }, (1, 2), &mut y, Sides { h: 2, w: 2, c: 3 });
        assert_eq!(y, [21, 22, 23, 24, 25, 26, 36, 37, 38, 39, 40, 41]);
    }

    #[test]
    fn colours_go_there_and_back() {
        // Primaries by BT.601: luma 76.245, 149.685, 29.07.
        assert_eq!([[255, 0, 0], [0, 255, 0], [0, 0, 255]].map(to_yuv), [[76, 85, 255], [150, 44, 21], [29, 255, 107]]);
        for p in [[0, 0, 0], [255, 255, 255], [12, 200, 99], [250, 3, 128]] {
            let back = from_yuv(to_yuv(p));
            assert!(p.iter().zip(back).all(|(a, b)| a.abs_diff(b) <= 2), "{p:?} {back:?}");
        }
        let x: Vec<u8> = (0..4 * 6 * 3).map(|i| (i * 3 % 251) as u8).collect();
        for colour in [Colour::Bgr, Colour::Yuv] {
            let (mut there, mut back) = (vec![0; x.len()], vec![0; x.len()]);
            convert(&x, Colour::Rgb, &mut there, colour, 4, 6);
            convert(&there, colour, &mut back, Colour::Rgb, 4, 6);
            assert!(x.iter().zip(&back).all(|(a, b)| a.abs_diff(*b) <= 3), "{colour}");
        }
        // A uniform picture loses nothing when four pixels share their colour.
        let flat: Vec<u8> = [200, 60, 90].repeat(4 * 6);
        let (mut nv12, mut back) = (vec![0; 36], vec![0; 72]);
        convert(&flat, Colour::Rgb, &mut nv12, Colour::Nv12, 4, 6);
        convert(&nv12, Colour::Nv12, &mut back, Colour::Rgb, 4, 6);
        assert!(flat.iter().zip(&back).all(|(a, b)| a.abs_diff(*b) <= 2));
    }
}
