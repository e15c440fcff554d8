//! Reserves standard output for the command: what plugins print goes to standard error, so that it
//! never ends up in a document.
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

static OUT: OnceLock<File> = OnceLock::new();
static OUT_FD: AtomicI32 = AtomicI32::new(-1);

/// Takes over standard output: from now on, only [`write()`] reaches it, and everything else that
/// is printed goes to standard error. The binary calls this once, before it opens the first plugin.
pub fn claim() {
    // SAFETY: plain system calls on the standard descriptors; the copy is owned by the file that is
    // made from it.
    unsafe {
        let copy = libc::fcntl(1, libc::F_DUPFD_CLOEXEC, 3);
        if copy < 0 {
            return;
        }
        if OUT.set(File::from_raw_fd(copy)).is_ok() && libc::dup2(2, 1) == 1 {
            OUT_FD.store(copy, Ordering::Release);
        }
    }
}

/// Restores standard output for a second start of the same command. Safe in a signal handler.
pub(crate) fn give_back() {
    let fd = OUT_FD.load(Ordering::Acquire);
    if fd >= 0 {
        // SAFETY: a plain system call.
        unsafe { libc::dup2(fd, 1) };
    }
}

/// Writes all bytes to the command's standard output.
///
/// # Errors
/// Fails like a write to a file.
pub fn write(bytes: &[u8]) -> io::Result<()> {
    match OUT.get() {
        Some(mut f) => f.write_all(bytes),
        None => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
    }
}

static COLLECTED: OnceLock<File> = OnceLock::new();

/// From now on, everything printed to standard output or standard error is kept in memory
/// ([`collected`]). Call [`claim`] first.
pub(crate) fn collect() {
    // SAFETY: plain system calls; the descriptor is owned by the file that is made from it.
    unsafe {
        let fd = libc::memfd_create(c"printed".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return;
        }
        if COLLECTED.set(File::from_raw_fd(fd)).is_ok() {
            libc::dup2(fd, 1);
            libc::dup2(fd, 2);
        }
    }
}

/// Everything that was printed since [`collect`].
pub(crate) fn collected() -> Vec<u8> {
    let Some(f) = COLLECTED.get() else { return Vec::new() };
    let mut all = vec![0; f.metadata().map_or(0, |m| m.len() as usize)];
    let n = std::os::unix::fs::FileExt::read_at(f, &mut all, 0).unwrap_or(0);
    all.truncate(n);
    all
}
