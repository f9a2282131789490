//! The allocator of the whole program: mimalloc. A request allocates some twenty times, in sizes from a few bytes to the 8 KiB that a
//! connection reads into, on a thread that is not always the one that frees; docs/decisions/0004 has what others cost.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
