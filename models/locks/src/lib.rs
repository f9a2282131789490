//! `parking_lot` as far as Bugle uses it, on locks that the models' scheduler knows: taking and leaving one are moments at
//! which anybody else may come first.

use std::fmt;
use std::ops::{Deref, DerefMut};

use shuttle::sync;

/// A lock that is never poisoned.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// While it lives the lock is held.
pub struct MutexGuard<'a, T: ?Sized>(sync::MutexGuard<'a, T>);

impl<T> Mutex<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Wait for it and take it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().unwrap_or_else(sync::PoisonError::into_inner))
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

/// A lock for many readers or one writer.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Wait until nobody writes.
    pub fn read(&self) -> impl Deref<Target = T> + '_ {
        self.0.read().unwrap_or_else(sync::PoisonError::into_inner)
    }

    /// Wait until nobody else reads or writes.
    pub fn write(&self) -> impl DerefMut<Target = T> + '_ {
        self.0.write().unwrap_or_else(sync::PoisonError::into_inner)
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}
