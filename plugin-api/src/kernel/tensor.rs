//! Tensors of host kernels: as they cross the ABI, lent for reading or writing, and owned.
use super::Plain;
use crate::abi::{RVec, StableAbi};
use crate::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use crate::types::{DType, Scalar};

/// A tensor as it crosses the ABI: element type, sizes and memory.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawTensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: crate::abi::erase::RawSlice<u64>,
    /// First byte.
    pub data: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

/// An input of a host kernel.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: &'a [u64],
    /// Contents; 64-byte aligned if the host or the device allocated them.
    pub bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// The elements as type `T`.
    /// # Errors
    /// Returns `failed` if the tensor has another element type, or `internal` if the bytes are not
    /// aligned for `T`.
    pub fn values<T: Scalar + Plain>(&self) -> Result<&'a [T]> {
        if T::DTYPE != self.dtype {
            return Err(Error::failed(format!("found {}, expected {}", self.dtype, T::DTYPE)));
        }
        self.plain()
    }
    /// The bytes as plain numbers of type `T`, whatever the element type is. Trailing bytes that do
    /// not fill a `T` are left out.
    /// # Errors
    /// Returns `internal` if the bytes are not aligned for `T`.
    pub fn plain<T: Plain>(&self) -> Result<&'a [T]> {
        if self.bytes.is_empty() {
            return Ok(&[]);
        }
        if self.bytes.as_ptr().align_offset(align_of::<T>()) != 0 {
            return Err(Error::internal("tensor bytes are not aligned"));
        }
        // SAFETY: aligned, the length is rounded down to whole elements, and Plain types have no
        // invalid bit patterns.
        Ok(unsafe { core::slice::from_raw_parts(self.bytes.as_ptr() as *const T, self.bytes.len() / size_of::<T>()) })
    }
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product::<u64>() as usize
    }
}

/// An output of a host kernel.
pub struct TensorMut<'a> {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: Vec<u64>,
    /// Bytes to write.
    pub bytes: &'a mut [u8],
}

impl TensorMut<'_> {
    /// The elements as type `T`, for writing.
    /// # Errors
    /// Returns `failed` if the output has another element type, or `internal` if the bytes are not
    /// aligned for `T`.
    pub fn values<T: Scalar + Plain>(&mut self) -> Result<&mut [T]> {
        if T::DTYPE != self.dtype {
            return Err(Error::failed(format!("output is {}, expected {}", self.dtype, T::DTYPE)));
        }
        self.plain()
    }
    /// The bytes as plain numbers of type `T`, for writing, whatever the element type is. Trailing
    /// bytes that do not fill a `T` are left out.
    /// # Errors
    /// Returns `internal` if the bytes are not aligned for `T`.
    pub fn plain<T: Plain>(&mut self) -> Result<&mut [T]> {
        if self.bytes.is_empty() {
            return Ok(&mut []);
        }
        if self.bytes.as_ptr().align_offset(align_of::<T>()) != 0 {
            return Err(Error::internal("tensor bytes are not aligned"));
        }
        // SAFETY: as `TensorView::plain`, and the bytes are borrowed mutably.
        Ok(unsafe {
            core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr() as *mut T, self.bytes.len() / size_of::<T>())
        })
    }
}

/// A tensor that a host kernel allocated; its memory is 64-byte aligned.
/// # Examples
/// ```
/// use ge_plugin_api::kernel::HostTensor;
/// use ge_plugin_api::types::DType;
///
/// let mut t = HostTensor::zeroed(DType::F32, &[2, 3])?;
/// t.bytes_mut()[..4].copy_from_slice(&1.5f32.to_le_bytes());
/// assert_eq!(t.view().values::<f32>()?[..2], [1.5, 0.0]);
/// # Ok::<(), ge_plugin_api::Error>(())
/// ```
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct HostTensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: RVec<u64>,
    /// Memory in units of 64 bytes; only the first `len` bytes are used.
    store: RVec<Line>,
    len: u64,
}

#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, StableAbi)]
struct Line([u64; 8]);

/// The error for a tensor of `len` bytes that no memory holds.
fn no_memory(dtype: DType, dims: &[u64], len: u64) -> Error {
    Diagnostic::error(format!("no memory for {dtype}{dims:?} ({len} bytes)"))
        .help("give smaller inputs, or let the process have more memory")
        .of(ErrorKind::FAILED)
}

impl HostTensor {
    /// A zeroed tensor.
    /// # Errors
    /// Returns `failed` if the size overflows, the type of its elements has no fixed width, or there
    /// is not enough memory.
    pub fn zeroed(dtype: DType, dims: &[u64]) -> Result<HostTensor> {
        let count = crate::types::Shape::of(dims).count();
        if (count, dtype) == (Some(0), DType::STRING) {
            return HostTensor::from_bytes(dtype, dims, &crate::types::bytes_of_strings::<&str>(&[]));
        }
        let len = count
            .and_then(|c| if c == 0 { Some(0) } else { dtype.bytes_of(c) })
            .ok_or_else(|| Error::failed(format!("a tensor {dtype}{dims:?} has no size")))?;
        HostTensor::with_len(dtype, dims, len)
    }
    /// A zeroed tensor of `len` bytes, for types without a fixed width (strings).
    /// # Errors
    /// Returns `failed` if there is not enough memory.
    pub fn with_len(dtype: DType, dims: &[u64], len: u64) -> Result<HostTensor> {
        let lines = usize::try_from(len.div_ceil(64)).map_err(|_| Error::failed("tensor too large"))?;
        let mut v: Vec<Line> = Vec::new();
        v.try_reserve_exact(lines).map_err(|_| no_memory(dtype, dims, len))?;
        v.resize(lines, Line([0; 8]));
        Ok(HostTensor { dtype, dims: dims.into(), store: v.into(), len })
    }
    /// A tensor with a copy of `bytes`.
    /// # Errors
    /// Returns `failed` if there is not enough memory.
    pub fn from_bytes(dtype: DType, dims: &[u64], bytes: &[u8]) -> Result<HostTensor> {
        let mut t = HostTensor::with_len(dtype, dims, bytes.len() as u64)?;
        t.bytes_mut().copy_from_slice(bytes);
        Ok(t)
    }
    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `store` holds at least `len` bytes (with_len); every byte is a valid u8.
        unsafe { core::slice::from_raw_parts(self.store.as_ptr() as *const u8, self.len as usize) }
    }
    /// The contents, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`; borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.store.as_mut_ptr() as *mut u8, self.len as usize) }
    }
    /// A read-only view of the tensor.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, dims: &self.dims, bytes: self.bytes() }
    }
}
