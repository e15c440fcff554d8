//! Numeric library shared by the engines: views, matrix products, element-wise loops, reductions.
