//! Settings of the system's allocator, which otherwise keeps what a busy server has freed.
//!
//! Bodies and segments come and go in sizes of 10 KB to some MB. With its defaults glibc raises the size from which it maps
//! memory separately to that of the largest block ever freed, after which such blocks fragment its heaps. Fixed
//! thresholds and one arena per core keep resident memory at what is in use, at no cost in time (docs/decisions/0004).

/// Fix the thresholds. Called once, before there are threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn tune() {
    const MIB: libc::c_int = 1 << 20;
    let cores = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 1024) as libc::c_int);
    // SAFETY: mallopt has no preconditions; it is called before other threads exist, as its manual asks for.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, cores);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MIB);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MIB);
    }
}

/// Other allocators keep their own settings.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn tune() {}
