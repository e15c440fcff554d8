//! Bands of images. The units of a kernel are ordered by band, and threads claim units from either
//! end, so each core works on its own part of the image. If successive kernels divide their images
//! at the same row, a core finds most of what it reads in its own caches, because it has written it.
//! With units of channels alone, half of it would come from the caches of another core.
//!
//! Bands pay only if they are long. The cache lines at their edge (those of the rows that both
//! bands read, and the one that both write) cost much more than a line of a long run does.

/// Number of bands of an image.
const BANDS: usize = 2;
/// Fewest positions of an image for which bands pay.
const LEAST: usize = 512;
/// Fewest rows of a band.
const ROWS: usize = 4;

/// Rows of a band of an image of `height` by `width` positions: half of them, or all if the image is
/// small or if there are several images, which the threads then divide among themselves.
pub(crate) fn rows(images: usize, [height, width]: [usize; 2]) -> usize {
    let pays = images == 1 && height >= BANDS * ROWS && height.saturating_mul(width) >= LEAST;
    if pays { height.div_ceil(BANDS) } else { height.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_images_are_cut_in_the_middle() {
        assert_eq!([rows(1, [28, 28]), rows(1, [25, 30]), rows(1, [112, 112])], [14, 13, 56]);
        assert_eq!([rows(1, [14, 14]), rows(1, [2, 900]), rows(2, [28, 28]), rows(1, [0, 0])], [14, 2, 28, 1]);
    }
}
