//! The system's allocator, with a note of the largest piece that each thread asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Noted;

fn note(size: usize) {
    // At the very end of a thread there is nothing to note it in any more, and nobody who asks.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: everything is done by the system's allocator, with the layouts that were given.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Noted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Noted = Noted;

/// The largest piece since [`forget`].
pub(crate) fn largest() -> usize {
    LARGEST.get()
}

/// Begin anew.
pub(crate) fn forget() {
    LARGEST.set(0);
}
