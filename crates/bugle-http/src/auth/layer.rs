//! The gate before all routes: names the request, checks where it comes from and whose it is, and tells the logs.
//!
//! It stands outside the router, in the connection's own service, so that it sees every request, boxes nothing, and a
//! waiting pop keeps no more of its request than before. What it decides without waiting it decides before there is a
//! future; only a token is checked inside one.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use http::header::{self, AUTHORIZATION, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tracing::instrument::Instrumented;
use tracing::{Instrument, Span};

use super::AuthError;
use super::callers::{CallerLimits, Callers, Inside, Who};
use super::keys::ApiKeys;
use super::origin::{foreign_fetch, local, named_hosts, on_list, same};
use super::roles::{Caller, Level, Peer, Rule, listed, rule};
use super::token::{Denied, JwtConfig, Tokens};
use crate::access::Record;
use crate::aside::{all_aside, may_be_long};
use crate::edge::Edge;
use crate::error::{Failure, caught};
use crate::request_id::{RequestId, TraceIds, X_REQUEST_ID};
use crate::telemetry::{Recording, Telemetry};
use crate::trace_headers;

/// Settings of the gate. Default: open to everybody but the pages of other sites.
#[derive(Clone, Debug, Default)]
pub struct GateConfig {
    /// Tokens are accepted.
    pub jwt: Option<JwtConfig>,
    /// These keys are accepted. Without tokens and keys there is no authentication.
    pub api_keys: ApiKeys,
    /// Paths that need no credentials: exact, or prefixes if they end with `/`.
    pub public_paths: Vec<String>,
    /// Origins whose pages may use the server; `*` is everybody.
    pub cors_origins: Vec<String>,
    /// The listener is on loopback: only its own names and `allowed_hosts` are accepted as `Host`.
    pub loopback: bool,
    /// Further names, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Write one line per request.
    pub access_log: bool,
    /// What each caller may have; paths that need no credentials are free of it.
    pub limits: CallerLimits,
}

/// The gate. Copies are one gate.
#[derive(Clone, Default)]
pub struct Gate {
    policy: Arc<RwLock<Arc<Policy>>>,
    /// Kept when the settings are replaced.
    callers: Arc<Callers>,
    /// The same.
    telemetry: Telemetry,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    /// Check the settings and build the gate. Needs a runtime if there is a key set.
    pub fn open(config: GateConfig) -> Result<Self, AuthError> {
        let policy = Arc::new(RwLock::new(Arc::new(Policy::open(config, None)?)));
        Ok(Self { policy, callers: Arc::default(), telemetry: Telemetry::default() })
    }

    /// The same gate, with requests traced.
    #[must_use]
    pub fn traced(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Put other settings in force for requests that come from now on. On an error the old ones stay.
    pub fn replace(&self, config: GateConfig) -> Result<(), AuthError> {
        let policy = Arc::new(Policy::open(config, Some(&self.policy()))?);
        *self.policy.write().unwrap_or_else(std::sync::PoisonError::into_inner) = policy;
        Ok(())
    }

    /// The counters of what happens before a route.
    pub fn edge(&self) -> Edge {
        self.callers.edge()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Answer a request: refuse it, or have `router` answer it.
    pub(crate) fn pass(
        &self,
        door: Door,
        mut request: Request<Body>,
        router: &TowerToHyperService<Router>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        let policy = self.policy();
        let id = RequestId::of(request.headers());
        let context = trace_headers::of(request.headers());
        let recording = self.telemetry.begin(&mut request, context.as_deref());
        let trace = match &recording {
            Some(own) => Some(TraceIds { trace_id: own.trace_id, span_id: own.span_id }),
            None => context.map(|caller| TraceIds { trace_id: caller.trace_id, span_id: caller.parent_id }),
        };
        let span = id.span(trace.as_ref());
        let rule = rule(request.method(), request.uri().path());
        let record = (policy.config.access_log || rule.audit.is_some()).then(|| {
            Box::new(Record::begin(
                &mut request,
                (&id, trace),
                door.peer,
                rule.audit,
                policy.config.access_log,
            ))
        });
        let subject = record.as_ref().map(|record| record.subject.clone());
        let know = move |caller: &Caller| {
            if let (Some(known), Some(subject)) = (&caller.subject, subject) {
                let _ = subject.set(known.clone());
            }
        };
        // Only who waits is ever asked for; for all others it would be a needless word.
        let waits = rule.level == Level::ReadWrite && request.method() == Method::GET;
        if waits && request.uri().query().is_some_and(|query| query.contains("wait=")) {
            request.extensions_mut().insert(Peer(door.peer));
        }
        let mut after =
            After { id, record, origin: policy.welcome_origin(request.headers()), inside: None, recording };
        let way: Way<_> = match policy.admit(door, &request, rule) {
            Step::Refuse(response) => Either::Left(ready(response)),
            Step::Public => answered(router, request, span),
            Step::Open => match self.count(&policy, None, door, &mut request) {
                Ok(inside) => {
                    after.inside = inside;
                    answered(router, request, span)
                }
                Err(refused) => Either::Left(ready(refused.into_response())),
            },
            Step::Known(caller) => {
                know(&caller);
                match self.count(&policy, caller.subject.as_ref(), door, &mut request) {
                    Ok(inside) => {
                        after.inside = inside;
                        request.extensions_mut().insert(caller);
                        answered(router, request, span)
                    }
                    Err(refused) => Either::Left(ready(refused.into_response())),
                }
            }
            Step::Token(token) => {
                let (router, gate) = (router.clone(), self.clone());
                let checked = async move {
                    let caller = policy.check(token, rule.level).await;
                    let caller = match caller {
                        Ok(caller) => caller,
                        Err(refused) => return *refused,
                    };
                    know(&caller);
                    let inside = gate.count(&policy, caller.subject.as_ref(), door, &mut request);
                    drop((policy, gate));
                    let _inside = match inside {
                        Ok(inside) => inside,
                        Err(refused) => return refused.into_response(),
                    };
                    request.extensions_mut().insert(caller);
                    if may_be_long(request.uri().path()) {
                        return Box::pin(all_aside(caught(router.call(request)))).await;
                    }
                    caught(router.call(request)).await
                };
                Either::Right(Either::Right(checked.instrument(span).boxed()))
            }
        };
        way.map(move |response| Ok(after.finish(response)))
    }

    /// Count a request of a caller, if anybody has limits.
    fn count(
        &self,
        policy: &Policy,
        subject: Option<&Bytes>,
        door: Door,
        request: &mut Request<Body>,
    ) -> Result<Option<Box<Inside>>, Failure> {
        if !policy.limited {
            return Ok(None);
        }
        let pass = self.callers.enter(&policy.config.limits, Who::new(subject, door.peer.ip()))?;
        if let Some(allowance) = pass.allowance {
            request.extensions_mut().insert(allowance);
        }
        Ok(pass.inside)
    }
}

type Way<F> = Either<Ready<Response>, Either<Instrumented<F>, BoxFuture<'static, Response>>>;

/// Have `router` answer a request.
fn answered(
    router: &TowerToHyperService<Router>,
    request: Request<Body>,
    span: Span,
) -> Way<impl Future<Output = Response> + Send + use<>> {
    let long = may_be_long(request.uri().path());
    let answer = caught(router.call(request)).instrument(span);
    Either::Right(if long { Either::Right(all_aside(answer).boxed()) } else { Either::Left(answer) })
}

/// Where a request came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    pub(crate) peer: SocketAddr,
    pub(crate) tls: bool,
}

/// What is left to do when there is an answer.
struct After {
    id: RequestId,
    record: Option<Box<Record>>,
    /// The origin to name in the answer, so that the browser shows it to its page.
    origin: Option<HeaderValue>,
    /// Counted among the caller's requests until then.
    inside: Option<Box<Inside>>,
    /// Sent when it is dropped, also if there is never an answer.
    recording: Option<Box<Recording>>,
}

impl After {
    fn finish(self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, self.id.into_header());
        if let Some(origin) = self.origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.append(header::VARY, HeaderValue::from_static("origin"));
            let exposed = HeaderValue::from_static("x-request-id, retry-after, bugle-store");
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        drop(self.inside);
        if let Some(recording) = self.recording {
            recording.answered(response.status());
        }
        match self.record {
            Some(record) => record.answered(response),
            None => response,
        }
    }
}

/// What to do with a request.
enum Step {
    Refuse(Response),
    /// Nobody asks who it is, nor how often.
    Public,
    /// Nobody asks who it is.
    Open,
    Known(Caller),
    /// It depends on this token.
    Token(String),
}

/// The settings in force, prepared.
#[derive(Default)]
struct Policy {
    config: GateConfig,
    tokens: Option<Tokens>,
    /// Somebody has limits.
    limited: bool,
}

impl Policy {
    fn open(config: GateConfig, before: Option<&Self>) -> Result<Self, AuthError> {
        let old = before.and_then(|before| before.tokens.as_ref());
        let tokens = config.jwt.clone().map(|jwt| Tokens::open(jwt, old)).transpose()?;
        Ok(Self { limited: config.limits.any(), config, tokens })
    }

    /// The request's origin, if its pages may use the server.
    fn welcome_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if self.config.cors_origins.is_empty() {
            return None;
        }
        let origin = headers.get(ORIGIN)?.to_str().ok()?;
        // A copy, so that the other headers need not be kept.
        on_list(origin, &self.config.cors_origins).then(|| HeaderValue::from_str(origin).ok())?
    }

    fn admit(&self, door: Door, request: &Request<Body>, rule: Rule) -> Step {
        let headers = request.headers();
        if self.config.loopback && !named_hosts(request).all(|host| local(host, &self.config.allowed_hosts)) {
            return Step::Refuse(forbidden("Host not allowed"));
        }
        if rule.level != Level::ReadOnly || !matches!(*request.method(), Method::GET | Method::HEAD) {
            if !self.origin_allowed(door, request) {
                return Step::Refuse(forbidden("Origin not allowed"));
            }
            let asked = header::ACCESS_CONTROL_REQUEST_METHOD;
            if *request.method() == Method::OPTIONS
                && headers.contains_key(ORIGIN)
                && headers.contains_key(asked)
            {
                return Step::Refuse(preflight());
            }
        }
        let open = self.tokens.is_none() && self.config.api_keys.is_empty();
        if (!open || self.limited) && listed(&self.config.public_paths, request.uri().path()) {
            return Step::Public;
        }
        if open {
            return Step::Open;
        }
        self.identify(headers, rule.level)
    }

    /// Whether the request may change something, as far as browsers are concerned. Programs name no origin.
    fn origin_allowed(&self, door: Door, request: &Request<Body>) -> bool {
        let Some(origin) = request.headers().get(ORIGIN) else { return !foreign_fetch(request.headers()) };
        let Ok(origin) = origin.to_str() else { return false };
        on_list(origin, &self.config.cors_origins)
            || named_hosts(request).next().is_some_and(|host| same(origin, host, door.tls))
    }

    fn identify(&self, headers: &HeaderMap, level: Level) -> Step {
        let presented = match (headers.get("x-api-key"), headers.get(AUTHORIZATION)) {
            (Some(key), _) => return self.by_key(key.as_bytes(), level),
            (None, Some(text)) => bearer(text.as_bytes()),
            (None, None) => return Step::Refuse(unauthorized("Authentication required", false)),
        };
        match std::str::from_utf8(presented) {
            Ok(token) if self.tokens.is_some() && self.config.api_keys.find(presented).is_none() => {
                Step::Token(token.to_owned())
            }
            _ => self.by_key(presented, level),
        }
    }

    fn by_key(&self, key: &[u8], level: Level) -> Step {
        match self.config.api_keys.find(key) {
            None => Step::Refuse(unauthorized("Invalid API key", true)),
            Some(caller) if !caller.permissions.allow(level) => {
                Step::Refuse(forbidden("Insufficient permissions"))
            }
            Some(caller) => Step::Known(caller.clone()),
        }
    }

    async fn check(&self, token: String, level: Level) -> Result<Caller, Box<Response>> {
        let verified = match &self.tokens {
            Some(tokens) => tokens.verify(&token).await,
            None => Err(Denied("Authentication required")),
        };
        match verified {
            Err(Denied(reason)) => Err(Box::new(unauthorized(reason, true))),
            Ok(caller) if !caller.permissions.allow(level) => {
                Err(Box::new(forbidden("Insufficient permissions")))
            }
            Ok(caller) => Ok(caller),
        }
    }
}

/// What follows `Bearer `; existing clients may send the bare token.
fn bearer(text: &[u8]) -> &[u8] {
    match text.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"bearer ") => rest.trim_ascii(),
        _ => text.trim_ascii(),
    }
}

fn forbidden(reason: &'static str) -> Response {
    Failure::new(StatusCode::FORBIDDEN, reason).into_response()
}

fn unauthorized(reason: &'static str, invalid: bool) -> Response {
    let mut response = Failure::new(StatusCode::UNAUTHORIZED, reason).into_response();
    let how = if invalid { "Bearer error=\"invalid_token\"" } else { "Bearer" };
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(how));
    response
}

/// The answer to a browser that asks before it lets a page do something. Which page, [`After`] says.
fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "content-type, authorization, x-api-key, x-request-id, traceparent, tracestate",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "3600"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
