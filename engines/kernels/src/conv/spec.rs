//! Sizes of a convolution and what can be wrong with them.
use crate::gemm::{Bias, Epilogue, GemmError};
use crate::view::element_count;
use thiserror::Error;

/// What does not fit in a convolution.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConvError {
    /// A number of channels that the groups do not divide.
    #[error("{what} channels {channels} are not a multiple of {groups} groups")]
    Groups {
        /// Input or output.
        what: &'static str,
        /// Number of channels found.
        channels: usize,
        /// Groups.
        groups: usize,
    },
    /// A stride, dilation, kernel size or number of groups of zero.
    #[error("{what} must not be zero")]
    Zero {
        /// Which number.
        what: &'static str,
    },
    /// The kernel reaches over the padded input.
    #[error("kernel spans {span} but the padded input is {size} on spatial axis {axis}")]
    Kernel {
        /// Spatial axis, 0 to 2.
        axis: usize,
        /// Reach of the kernel.
        span: usize,
        /// Size of the padded input.
        size: usize,
    },
    /// Sizes that no memory can hold.
    #[error("sizes of the convolution overflow")]
    Overflow,
    /// Working memory beyond reason: a far dilated kernel over a wide padding.
    #[error("the convolution needs a copy of {floats} numbers, at most {most} are made")]
    Copy {
        /// Numbers of the copy.
        floats: usize,
        /// The limit.
        most: usize,
    },
    /// More than the layouts of the cube unit have a place for.
    #[error("channels in groups of sixteen take two spatial axes, not transposed, of one group or one channel a group")]
    Cube,
    /// A plan for single precision that is given something else.
    #[error("the plan is for operands and results of single precision")]
    Singles,
    /// A transposed convolution of bytes.
    #[error("a convolution of bytes is not transposed")]
    Transposed,
    /// An operand whose memory begins where its numbers cannot.
    #[error("the memory of {operand} begins in the middle of a number")]
    Misplaced {
        /// Which operand.
        operand: &'static str,
    },
    /// An operand is too short.
    #[error("{operand} has {has} elements, the convolution needs {needs}")]
    Short {
        /// Which operand.
        operand: &'static str,
        /// Elements there are.
        has: usize,
        /// Elements that are reached.
        needs: usize,
    },
    /// A product that does the work.
    #[error(transparent)]
    Product(#[from] GemmError),
}

/// Sizes of a convolution. Fewer than three spatial dimensions are led by ones (stride, dilation
/// and kernel one, pads zero).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvSpec {
    /// Images.
    pub batch: usize,
    /// Groups.
    pub groups: usize,
    /// Channels of the input.
    pub channels_in: usize,
    /// Channels of the output.
    pub channels_out: usize,
    /// Spatial sizes of the input.
    pub input: [usize; 3],
    /// Kernel sizes.
    pub kernel: [usize; 3],
    /// Strides.
    pub stride: [usize; 3],
    /// Dilations.
    pub dilation: [usize; 3],
    /// Padding before each axis.
    pub pad_before: [usize; 3],
    /// Padding after each axis.
    pub pad_after: [usize; 3],
    /// For a transposed convolution, what is added after each output axis; else
    /// `None`. Its weights are `[in, out / groups, kernel]`, a convolution's `[out, in / groups,
    /// kernel]`.
    pub transposed: Option<[usize; 3]>,
}

impl ConvSpec {
    /// A 2-D convolution with one group, stride and dilation of one and no padding.
    pub fn square(batch: usize, channels: [usize; 2], size: usize, kernel: usize) -> ConvSpec {
        ConvSpec {
            batch,
            groups: 1,
            channels_in: channels[0],
            channels_out: channels[1],
            input: [1, size, size],
            kernel: [1, kernel, kernel],
            stride: [1; 3],
            dilation: [1; 3],
            pad_before: [0; 3],
            pad_after: [0; 3],
            transposed: None,
        }
    }

    /// Spatial sizes of the output.
    ///
    /// # Errors
    /// `Zero`, `Kernel` and `Overflow`.
    pub fn output(&self) -> Result<[usize; 3], ConvError> {
        let mut out = [0; 3];
        for (axis, o) in out.iter_mut().enumerate() {
            let (k, s, d) = (self.kernel[axis], self.stride[axis], self.dilation[axis]);
            for (what, v) in [("kernel size", k), ("stride", s), ("dilation", d)] {
                if v == 0 {
                    return Err(ConvError::Zero { what });
                }
            }
            let span = (k - 1).checked_mul(d).and_then(|v| v.checked_add(1)).ok_or(ConvError::Overflow)?;
            let pads = self.pad_before[axis].checked_add(self.pad_after[axis]).ok_or(ConvError::Overflow)?;
            *o = match self.transposed {
                None => {
                    let size = self.input[axis].checked_add(pads).ok_or(ConvError::Overflow)?;
                    if span > size {
                        return Err(ConvError::Kernel { axis, span, size });
                    }
                    (size - span) / s + 1
                }
                Some(extra) => {
                    let full = (self.input[axis].max(1) - 1)
                        .checked_mul(s)
                        .and_then(|v| v.checked_add(span)?.checked_add(extra[axis]))
                        .ok_or(ConvError::Overflow)?;
                    full.checked_sub(pads).ok_or(ConvError::Kernel { axis, span: pads, size: full })?
                }
            };
        }
        Ok(out)
    }

    /// Checks that the numbers agree and that all sizes can be addressed.
    ///
    /// # Errors
    /// Any but `Short`.
    pub fn check(&self) -> Result<(), ConvError> {
        if self.groups == 0 {
            return Err(ConvError::Zero { what: "number of groups" });
        }
        for (what, channels) in [("input", self.channels_in), ("output", self.channels_out)] {
            if !channels.is_multiple_of(self.groups) {
                return Err(ConvError::Groups { what, channels, groups: self.groups });
            }
        }
        let out = self.output()?;
        let [a, b, c] = self.input;
        let [x, y, z] = out;
        let [k, l, m] = self.kernel;
        let (ci, co) = (self.channels_in, self.channels_out);
        let padded =
            |axis: usize| self.input[axis].checked_add(self.pad_before[axis])?.checked_add(self.pad_after[axis]);
        let p = [padded(0), padded(1), padded(2)].map(|v| v.unwrap_or(usize::MAX));
        for shape in
            [[self.batch, ci, a, b, c], [self.batch, co, x, y, z], [ci, co, k, l, m], [1, ci, p[0], p[1], p[2]]]
        {
            let n = element_count(&shape).map_err(|_| ConvError::Overflow)?;
            u32::try_from(n / self.batch.max(1)).map_err(|_| ConvError::Overflow)?;
        }
        Ok(())
    }

    /// Multiply-adds of the whole convolution, whose output has so many places an image.
    pub(crate) fn work(&self, places: usize) -> u64 {
        let per_output = (self.channels_in / self.groups * self.taps()) as u64;
        let outputs = (self.batch as u64 * self.channels_out as u64).saturating_mul(places as u64);
        outputs.saturating_mul(per_output)
    }

    /// Elements that are read and written: input, weights and output.
    pub(crate) fn moved(&self, places: usize) -> u64 {
        let of = |sizes: &[usize]| sizes.iter().fold(1, |a: u64, &b| a.saturating_mul(b as u64));
        let [z, y, x] = self.input;
        let weights = of(&[self.channels_out, self.channels_in / self.groups.max(1), self.taps()]);
        let ends = of(&[self.batch, self.channels_in, z, y, x]).saturating_add(weights);
        ends.saturating_add(of(&[self.batch, self.channels_out, places]))
    }

    /// Checks the lengths of the operands and of the result: the input has `x` elements, the output
    /// `out` of so many places an image, and the weights, by their name, so many of those they need.
    ///
    /// # Errors
    /// `Short`, naming the operand.
    pub(crate) fn check_lengths<T>(
        &self,
        (x, out): (usize, usize),
        weights: (&'static str, usize, usize),
        places: usize,
        epilogue: &Epilogue<'_, T>,
    ) -> Result<(), ConvError> {
        let need = |operand, has: usize, needs: usize| {
            if has < needs { Err(ConvError::Short { operand, has, needs }) } else { Ok(()) }
        };
        let total = self.batch * self.channels_out * places;
        need("input", x, self.batch * self.channels_in * self.input.iter().product::<usize>())?;
        need(weights.0, weights.1, weights.2)?;
        need("output", out, total)?;
        if let Bias::PerRow(b) | Bias::PerColumn(b) = epilogue.bias {
            need("bias", b.len(), self.channels_out)?;
        }
        epilogue.residual.map_or(Ok(()), |(r, _)| need("residual", r.len(), total))
    }

    /// Taps of the kernel.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }
}
