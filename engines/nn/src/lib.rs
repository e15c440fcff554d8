//! AIcoreEngine and VectorEngine: the fast kernels.
