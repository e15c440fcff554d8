//! Image decoding, resizing, cropping and colour conversion.
