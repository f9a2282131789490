//! The routes and their paths: axum does not tell what it was given, and every path must be described (see `openapi`).

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;

use crate::app::App;

/// A router that remembers its paths.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) router: Router<Arc<App>>,
    pub(crate) paths: Vec<&'static str>,
}

impl Table {
    /// One more path.
    pub(crate) fn route(mut self, path: &'static str, methods: MethodRouter<Arc<App>>) -> Self {
        self.paths.push(path);
        Self { router: self.router.route(path, methods), paths: self.paths }
    }
}
