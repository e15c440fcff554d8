//! FFTS+ task graphs and Fourier transforms.
