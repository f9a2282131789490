//! The reference store: everything in maps behind one lock, nothing durable. For tests and for reading.

/// The reference store.
#[derive(Debug, Default)]
pub struct MemoryStore;
