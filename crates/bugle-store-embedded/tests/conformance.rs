//! The suite that every engine passes, on this one: with its defaults, and with files so small that it rotates, seals,
//! checkpoints and reclaims all the time while nothing is in the cache.
#![allow(clippy::unwrap_used)]

use bugle_store::conformance::Subject;
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore};

async fn open(adjust: impl FnOnce(&mut EmbeddedOptions)) -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let mut options = EmbeddedOptions::new(dir.path().join("data"));
    options.file_size = 1 << 20;
    adjust(&mut options);
    let store = EmbeddedStore::open(options).unwrap();
    (store, Box::new(dir))
}

mod usual {
    use super::*;

    async fn store() -> Subject {
        open(|_| {}).await
    }

    bugle_store::conformance!(store);
}

mod tiny_files {
    use super::*;

    async fn store() -> Subject {
        open(|options| {
            options.file_size = 32 << 10;
            options.checkpoint_every = 48 << 10;
            options.cache_bytes = 0;
        })
        .await
    }

    bugle_store::conformance!(store);
}
