//! Benchmarks of the compile stages and kernels.
