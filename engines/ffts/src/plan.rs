//! A plan: which numbers of the input form a line, the length of its transform, and which numbers
//! of the output it fills.
//!
//! All operators are lines over two counters `a` and `b`. Line (a, b) reads `read` items from
//! `a·in_a + b·in_b` in steps of `in_step`, pads them with zeros or cuts them to `n`, transforms
//! them, and writes `write` bins from `a·out_a + b·out_b` in steps of `out_step`. Positions count
//! numbers, not complex pairs. Semantics: ONNX DFT-20 and STFT-17; RFFT and IRFFT as the prototypes
//! in `plugins/ops` define them.
use ge_plugin_api::types::{DType, TensorDesc};
use ge_plugin_api::view::Node;

/// The operators of the engine.
pub const OPS: [&str; 4] = ["DFT", "RFFT", "IRFFT", "STFT"];
/// Maximum length of a transform.
pub const MOST: u64 = 1 << 26;
/// First word of a kernel binary: name and format version.
const MAGIC: u64 = u64::from_le_bytes(*b"GEFFT\0\0\x01");
/// Number of words of an encoded plan.
const WORDS: usize = 18;

/// A plan of transforms; see the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of values of the slow counter `a`.
    pub count_a: u64,
    /// Number of values of the fast counter `b`.
    pub count_b: u64,
    /// Distance in the input between the beginnings of lines with consecutive `a`.
    pub in_a: u64,
    /// Distance in the input between the beginnings of lines with consecutive `b`.
    pub in_b: u64,
    /// Distance between items in the input.
    pub in_step: u64,
    /// Number of items that a line reads.
    pub read: u64,
    /// Length of the transform.
    pub n: u64,
    /// Number of bins that a line writes.
    pub write: u64,
    /// Distance in the output between the beginnings of lines with consecutive `a`.
    pub out_a: u64,
    /// Distance in the output between the beginnings of lines with consecutive `b`.
    pub out_b: u64,
    /// Distance between bins in the output.
    pub out_step: u64,
    /// Whether an item is a complex pair.
    pub in_complex: bool,
    /// Whether a bin is a complex pair.
    pub out_complex: bool,
    /// Whether the transform is inverse, divided by its length.
    pub inverse: bool,
    /// Whether the input is the first half of a conjugate-symmetric spectrum.
    pub half: bool,
    /// Index of the input that holds the window; 0 if there is none.
    pub window: u64,
    /// Element type of input and output.
    pub dtype: DType,
}

type Answer<T> = Result<T, String>;

fn sizes(d: Option<&TensorDesc>, what: &str) -> Answer<Vec<u64>> {
    let d = d.ok_or_else(|| format!("{what} is missing"))?;
    d.shape.sizes().ok_or_else(|| format!("shape {} of {what} is not known", d.shape))
}
fn product(d: &[u64]) -> Answer<u64> {
    d.iter().try_fold(1u64, |a, b| a.checked_mul(*b)).ok_or_else(|| format!("shape {d:?} is too large"))
}
fn times(a: u64, b: u64) -> Answer<u64> {
    a.checked_mul(b).ok_or_else(|| "shape is too large".to_owned())
}
fn pair(size: u64, what: &str) -> Answer<bool> {
    match size {
        1 => Ok(false),
        2 => Ok(true),
        n => Err(format!("last dimension of {what} is {n}, it takes 1 (real) or 2 (complex)")),
    }
}
fn scalar(node: &Node<'_>, i: usize, what: &str) -> Answer<Option<i64>> {
    if node.input_desc(i).is_none() {
        return Ok(None);
    }
    let v = node.const_input(i).and_then(|c| c.to_i64(1)).and_then(|v| v.first().copied());
    v.map(Some).ok_or_else(|| format!("input {i} `{what}` is not a constant number"))
}
fn length(n: i64, what: &str) -> Answer<u64> {
    u64::try_from(n)
        .ok()
        .filter(|n| (1..=MOST).contains(n))
        .ok_or_else(|| format!("{what} is {n}, it takes 1 to {MOST}"))
}

impl Plan {
    /// Makes the plan of a node.
    ///
    /// # Errors
    /// Returns a message if the engine does not support the node.
    pub fn of_node(node: &Node<'_>) -> Answer<Plan> {
        let x = node.input_desc(0).ok_or("input 0 is missing")?;
        let dtype = x.dtype;
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(format!("input 0 is {dtype}, it takes f32, f64"));
        }
        if node.outputs().first().is_none_or(|o| o.dtype != dtype) {
            return Err("output 0 is of another type than input 0".into());
        }
        let (x, y) = (sizes(Some(x), "input 0")?, sizes(node.outputs().first(), "output 0")?);
        let mut p = match node.op() {
            "DFT" => dft(node, &x)?,
            "RFFT" => rfft(node, &x)?,
            "IRFFT" => irfft(node, &x)?,
            "STFT" => stft(node, &x)?,
            other => return Err(format!("no transform is called {other}")),
        };
        p.dtype = dtype;
        let (made, wanted) = (p.out_numbers().ok_or("shape is too large")?, product(&y)?);
        if p.lines() > 0 && made != wanted {
            return Err(format!("output 0 has {wanted} elements, the transform makes {made}"));
        }
        Ok(p)
    }
    /// Number of lines.
    pub fn lines(&self) -> u64 {
        self.count_a.saturating_mul(self.count_b)
    }
    /// Approximate number of elementary operations of all lines.
    pub fn work(&self) -> u64 {
        let log = u64::from(64 - self.n.leading_zeros());
        self.lines().saturating_mul(self.n).saturating_mul(5 * log)
    }
    /// Count of numbers that all lines write; `None` if it overflows.
    fn out_numbers(&self) -> Option<u64> {
        self.count_a.checked_mul(self.count_b)?.checked_mul(self.write)?.checked_mul(1 + u64::from(self.out_complex))
    }
    /// One past the last number of the input, or of the output, that a line accesses; `None` if it
    /// overflows.
    pub fn reach(&self, output: bool) -> Option<u64> {
        if self.lines() == 0 {
            return Some(0);
        }
        let (a, b, step, n, complex) = if output {
            (self.out_a, self.out_b, self.out_step, self.write, self.out_complex)
        } else {
            (self.in_a, self.in_b, self.in_step, self.read, self.in_complex)
        };
        if n == 0 {
            return Some(0);
        }
        let begin = (self.count_a - 1).checked_mul(a)?.checked_add((self.count_b - 1).checked_mul(b)?)?;
        begin.checked_add((n - 1).checked_mul(step)?)?.checked_add(1 + u64::from(complex))
    }
    /// Encodes the plan as a kernel binary.
    pub fn encode(&self) -> Vec<u8> {
        let words: [u64; WORDS] = [
            MAGIC,
            self.count_a,
            self.count_b,
            self.in_a,
            self.in_b,
            self.in_step,
            self.read,
            self.n,
            self.write,
            self.out_a,
            self.out_b,
            self.out_step,
            u64::from(self.in_complex),
            u64::from(self.out_complex),
            u64::from(self.inverse),
            u64::from(self.half),
            self.window,
            u64::from(self.dtype.code()),
        ];
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }
    /// Decodes a kernel binary; `None` if it is not an encoded plan or exceeds a limit.
    pub fn decode(bytes: &[u8]) -> Option<Plan> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let w: Vec<u64> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
        if w.len() != WORDS || w[0] != MAGIC || w[12..16].iter().any(|f| *f > 1) {
            return None;
        }
        let dtype = [DType::F32, DType::F64].into_iter().find(|t| u64::from(t.code()) == w[17])?;
        let p = Plan {
            count_a: w[1],
            count_b: w[2],
            in_a: w[3],
            in_b: w[4],
            in_step: w[5],
            read: w[6],
            n: w[7],
            write: w[8],
            out_a: w[9],
            out_b: w[10],
            out_step: w[11],
            in_complex: w[12] == 1,
            out_complex: w[13] == 1,
            inverse: w[14] == 1,
            half: w[15] == 1,
            window: w[16],
            dtype,
        };
        let bins_fit = p.write <= p.n && (p.read <= p.n);
        ((1..=MOST).contains(&p.n) && bins_fit).then_some(p)
    }
}

fn dft(node: &Node<'_>, x: &[u64]) -> Answer<Plan> {
    let r = x.len();
    if r < 2 {
        return Err(format!("input 0 has rank {r}, it takes 2 or more"));
    }
    let in_complex = pair(x[r - 1], "input 0")?;
    let axis = match scalar(node, 2, "axis")? {
        Some(a) => a,
        None => node.int("axis").unwrap_or(-2),
    };
    let at = if axis < 0 { axis.checked_add(r as i64).unwrap_or(-1) } else { axis };
    let at = usize::try_from(at).ok().filter(|a| *a < r - 1);
    let at = at.ok_or_else(|| format!("axis {axis} is not one before the last of {r}"))?;
    let (inverse, onesided) = (node.flag("inverse"), node.flag("onesided"));
    let half = inverse && onesided;
    if onesided && !inverse && in_complex {
        return Err("onesided of a complex input".into());
    }
    if half && !in_complex {
        return Err("onesided inverse of a real input".into());
    }
    let given = scalar(node, 1, "dft_length")?;
    let n = match given {
        Some(n) => length(n, "dft_length")?,
        None if half => length(x[at].saturating_sub(1).saturating_mul(2).min(MOST + 1) as i64, "dft_length")?,
        None => length(x[at].min(MOST + 1) as i64, "dft_length")?,
    };
    let (before, inner) = (product(&x[..at])?, product(&x[at + 1..r - 1])?);
    let write = if onesided && !inverse { n / 2 + 1 } else { n };
    let (cin, cout) = (1 + u64::from(in_complex), if half { 1 } else { 2 });
    Ok(Plan {
        count_a: before,
        count_b: inner,
        in_a: times(times(x[at], inner)?, cin)?,
        in_b: cin,
        in_step: times(inner, cin)?,
        read: x[at].min(if half { n / 2 + 1 } else { n }),
        n,
        write,
        out_a: times(times(write, inner)?, cout)?,
        out_b: cout,
        out_step: times(inner, cout)?,
        in_complex,
        out_complex: !half,
        inverse,
        half,
        ..Plan::default()
    })
}

fn rfft(node: &Node<'_>, x: &[u64]) -> Answer<Plan> {
    let (&last, before) = x.split_last().ok_or("input 0 is a scalar")?;
    let n = length(node.int("n").unwrap_or(last.min(MOST + 1) as i64), "n")?;
    let write = n / 2 + 1;
    Ok(Plan {
        count_a: product(before)?,
        count_b: 1,
        in_a: last,
        in_step: 1,
        read: last.min(n),
        n,
        write,
        out_a: 2 * write,
        out_step: 2,
        out_complex: true,
        ..Plan::default()
    })
}

fn irfft(node: &Node<'_>, x: &[u64]) -> Answer<Plan> {
    let [before @ .., m, 2] = x else {
        return Err(format!("input 0 has shape {x:?}, it takes [..., bins, 2]"));
    };
    let n = length(node.int("n").unwrap_or(m.saturating_sub(1).saturating_mul(2).min(MOST + 1) as i64), "n")?;
    Ok(Plan {
        count_a: product(before)?,
        count_b: 1,
        in_a: times(*m, 2)?,
        in_step: 2,
        read: (*m).min(n / 2 + 1),
        n,
        write: n,
        out_a: n,
        out_step: 1,
        in_complex: true,
        inverse: true,
        half: true,
        ..Plan::default()
    })
}

fn stft(node: &Node<'_>, x: &[u64]) -> Answer<Plan> {
    let (batch, len, in_complex) = match x {
        [b, l] => (*b, *l, false),
        [b, l, c] => (*b, *l, pair(*c, "input 0")?),
        _ => return Err(format!("input 0 has rank {}, it takes 2 or 3", x.len())),
    };
    let step = length(scalar(node, 1, "frame_step")?.ok_or("input 1 `frame_step` is missing")?, "frame_step")?;
    let window = match node.input_desc(2) {
        Some(w) if Some(w.dtype) != node.input_desc(0).map(|d| d.dtype) => {
            return Err(format!("input 2 `window` is {}, of another type than input 0", w.dtype));
        }
        Some(w) => match sizes(Some(w), "input 2")?[..] {
            [n] => Some(n),
            _ => return Err(format!("input 2 `window` has shape {}, it takes one axis", w.shape)),
        },
        None => None,
    };
    let n = match (scalar(node, 3, "frame_length")?, window) {
        (Some(n), _) => length(n, "frame_length")?,
        (None, Some(w)) => length(w.min(MOST + 1) as i64, "window length")?,
        (None, None) => return Err("neither a window nor a frame length is given".into()),
    };
    if window.is_some_and(|w| w != n) {
        return Err(format!("window has {} values, a frame {n}", window.unwrap_or(0)));
    }
    let onesided = node.attr("onesided").and_then(|a| a.as_bool()).unwrap_or(true);
    if onesided && in_complex {
        return Err("onesided of a complex input".into());
    }
    let frames = if len < n { 0 } else { (len - n) / step + 1 };
    let (cin, write) = (1 + u64::from(in_complex), if onesided { n / 2 + 1 } else { n });
    Ok(Plan {
        count_a: batch,
        count_b: frames,
        in_a: times(len, cin)?,
        in_b: times(step, cin)?,
        in_step: cin,
        read: n,
        n,
        write,
        out_a: times(times(frames, write)?, 2)?,
        out_b: times(write, 2)?,
        out_step: 2,
        in_complex,
        out_complex: true,
        window: if window.is_some() { 2 } else { 0 },
        ..Plan::default()
    })
}
