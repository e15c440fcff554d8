//! Sizes of a convolution and the errors they can cause.
use crate::gemm::{Bias, Epilogue, GemmError};
use crate::view::element_count;
use thiserror::Error;

/// Reasons why a convolution cannot be planned or run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConvError {
    /// The number of groups does not divide the number of channels.
    #[error("{what} channels {channels} are not a multiple of {groups} groups")]
    Groups {
        /// `"input"` or `"output"`.
        what: &'static str,
        /// Number of channels.
        channels: usize,
        /// Number of groups.
        groups: usize,
    },
    /// A stride, dilation, kernel size or number of groups is zero.
    #[error("{what} must not be zero")]
    Zero {
        /// Name of the number that is zero.
        what: &'static str,
    },
    /// The dilated kernel is larger than the padded input.
    #[error("kernel spans {span} but the padded input is {size} on spatial axis {axis}")]
    Kernel {
        /// Spatial axis, 0 to 2.
        axis: usize,
        /// Extent of the dilated kernel.
        span: usize,
        /// Size of the padded input.
        size: usize,
    },
    /// The padding of a transposed convolution takes away more than its whole output.
    #[error("the padding takes {pads} from an output of {size} on spatial axis {axis}")]
    Padding {
        /// Spatial axis, 0 to 2.
        axis: usize,
        /// Padding before and after.
        pads: usize,
        /// Size of the output without padding.
        size: usize,
    },
    /// The sizes are too large to be addressed.
    #[error("sizes of the convolution overflow")]
    Overflow,
    /// A unit needs too much working memory, for example for a far dilated kernel over wide
    /// padding.
    #[error("the convolution needs a copy of {floats} numbers, at most {most} are made")]
    Copy {
        /// Elements that the copy needs.
        floats: usize,
        /// Most elements that a copy may have.
        most: usize,
    },
    /// The layouts of the cube unit have no place for this convolution.
    #[error("channels in groups of sixteen take two spatial axes, not transposed, of one group or one channel a group")]
    Cube,
    /// A plan for single precision was given operands or results of another type.
    #[error("the plan is for operands and results of single precision")]
    Singles,
    /// A convolution of bytes is transposed, which is not supported.
    #[error("a convolution of bytes is not transposed")]
    Transposed,
    /// The memory of an operand is not aligned for its elements.
    #[error("the memory of {operand} begins in the middle of a number")]
    Misplaced {
        /// Name of the operand.
        operand: &'static str,
    },
    /// An operand is too short.
    #[error("{operand} has {has} elements, the convolution needs {needs}")]
    Short {
        /// Name of the operand.
        operand: &'static str,
        /// Elements that the operand has.
        has: usize,
        /// Elements that the convolution needs.
        needs: usize,
    },
    /// An error of a matrix product inside the convolution.
    #[error(transparent)]
    Product(#[from] GemmError),
}

/// Sizes of a convolution. The axes are depth, height and width. With fewer than three spatial
/// dimensions the leading axes are ones (stride, dilation and kernel one, pads zero).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvSpec {
    /// Number of images.
    pub batch: usize,
    /// Number of groups; it must divide both numbers of channels.
    pub groups: usize,
    /// Number of input channels, of all groups.
    pub channels_in: usize,
    /// Number of output channels, of all groups.
    pub channels_out: usize,
    /// Spatial sizes of the input.
    pub input: [usize; 3],
    /// Kernel sizes, at least one.
    pub kernel: [usize; 3],
    /// Strides, at least one.
    pub stride: [usize; 3],
    /// Dilations, at least one.
    pub dilation: [usize; 3],
    /// Padding at the start of each axis.
    pub pad_before: [usize; 3],
    /// Padding at the end of each axis.
    pub pad_after: [usize; 3],
    /// `None` for an ordinary convolution. For a transposed one, the size added at the end of each
    /// output axis. The weights of a transposed convolution are `[in, out / groups, kernel]`, those
    /// of an ordinary one `[out, in / groups, kernel]`.
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
    /// Returns `Zero`, `Kernel`, `Padding` or `Overflow`.
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
                    full.checked_sub(pads).ok_or(ConvError::Padding { axis, pads, size: full })?
                }
            };
        }
        Ok(out)
    }

    /// Checks that the sizes agree and that all elements can be addressed.
    ///
    /// # Errors
    /// Returns `Groups`, `Zero`, `Kernel`, `Padding` or `Overflow`.
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
        let count = |shape: &[usize]| element_count(shape).map_err(|_| ConvError::Overflow);
        count(&[self.batch, ci, a, b, c])?;
        count(&[self.batch, co, x, y, z])?;
        for shape in [[1, ci, a, b, c], [1, co, x, y, z], [ci, co, k, l, m], [1, ci, p[0], p[1], p[2]]] {
            u32::try_from(count(&shape)?).map_err(|_| ConvError::Overflow)?;
        }
        Ok(())
    }

    /// Multiply-adds of the whole convolution if each output image has `places` positions.
    pub(crate) fn work(&self, places: usize) -> u64 {
        let per_output = (self.channels_in / self.groups * self.taps()) as u64;
        let outputs = (self.batch as u64 * self.channels_out as u64).saturating_mul(places as u64);
        outputs.saturating_mul(per_output)
    }

    /// Elements read and written (input, weights and output) if each output image has `places`
    /// positions.
    pub(crate) fn moved(&self, places: usize) -> u64 {
        let of = |sizes: &[usize]| sizes.iter().fold(1, |a: u64, &b| a.saturating_mul(b as u64));
        let [z, y, x] = self.input;
        let weights = of(&[self.channels_out, self.channels_in / self.groups.max(1), self.taps()]);
        let ends = of(&[self.batch, self.channels_in, z, y, x]).saturating_add(weights);
        ends.saturating_add(of(&[self.batch, self.channels_out, places]))
    }

    /// Checks the lengths of the operands and of the result. The input has `x` elements and the
    /// output `out`, with `places` positions per image. `weights` holds the name of the weights,
    /// the number of elements they have and the number they need.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
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

    /// Number of taps: the product of the kernel sizes.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }
}
