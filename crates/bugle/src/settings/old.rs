//! Environment names of other servers of this protocol: some are aliases, the rest are named in one warning, so that
//! nobody believes a setting to be in force that is not.

use std::time::Duration;

use anyhow::{Result, anyhow};

use super::amount::Span;
use super::raw::{AuthMode, Raw};

/// Reads environment variables; empty counts as unset.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Names that are known and have no effect here. A trailing `*` stands for any rest.
const WITHOUT_EFFECT: &[&str] = &[
    "PORT",
    "HOST",
    "WORKER_ID",
    "NUM_WORKERS",
    "WEBAPP_ROOT",
    "LOG_LEVEL",
    "PG_HOST",
    "PG_PORT",
    "PG_USER",
    "PG_PASSWORD",
    "PG_DB",
    "PG_USE_SSL",
    "PG_SSL_REJECT_UNAUTHORIZED",
    "DB_POOL_SIZE",
    "DB_IDLE_TIMEOUT",
    "DB_CONNECTION_TIMEOUT",
    "DB_STATEMENT_TIMEOUT",
    "DB_LOCK_TIMEOUT",
    "DB_TCP_USER_TIMEOUT_MS",
    "DB_KEEPALIVES_IDLE",
    "DB_KEEPALIVES_INTERVAL",
    "DB_KEEPALIVES_COUNT",
    "LIBQUEEN_INFLIGHT_DEADLINE_MS",
    "DB_THREAD_POOL_SERVICE_THREADS",
    "QUEUE_BACKOFF_CLEANUP_THRESHOLD",
    "RESPONSE_TIMER_INTERVAL_MS",
    "RESPONSE_BATCH_SIZE",
    "RESPONSE_BATCH_MAX",
    "SIDECAR_*",
    "QUEEN_*",
    "RETENTION_BATCH_SIZE",
    "PARTITION_CLEANUP_DAYS",
    "EVICTION_BATCH_SIZE",
    "METRICS_SAMPLE_INTERVAL_MS",
    "METRICS_AGGREGATE_INTERVAL_S",
    "STATS_INTERVAL_MS",
    "STATS_RECONCILE_INTERVAL_MS",
    "STATS_HISTORY_RETENTION_DAYS",
    "PARTITION_LOOKUP_RECONCILE_INTERVAL_MS",
    "PARTITION_LOOKUP_RECONCILE_LOOKBACK_SECONDS",
    "FILE_BUFFER_DIR",
    "FILE_BUFFER_FLUSH_MS",
    "FILE_BUFFER_MAX_BATCH",
    "FILE_BUFFER_EVENTS_PER_FILE",
];

/// What the old names say.
pub(crate) fn read(env: Env<'_>) -> Result<Raw> {
    Ok(Raw {
        default_subscription_mode: env("DEFAULT_SUBSCRIPTION_MODE"),
        default_timeout: millis(env, "DEFAULT_TIMEOUT")?,
        default_batch: number(env, "DEFAULT_BATCH_SIZE")?,
        pop_wait_base: match millis(env, "POP_WAIT_INITIAL_INTERVAL_MS")? {
            Some(base) => Some(base),
            None => millis(env, "POP_WAIT_BASE_INTERVAL_MS")?.or(millis(env, "POLL_INTERVAL_MS")?),
        },
        priority_dispatch: number(env, "USE_PRIORITY_DISPATCH")?,
        poll_worker_count: number(env, "POLL_WORKER_COUNT")?,
        pop_wait_threshold: number(env, "POP_WAIT_BACKOFF_THRESHOLD")?,
        pop_wait_multiplier: number(env, "POP_WAIT_BACKOFF_MULTIPLIER")?,
        pop_wait_max: millis(env, "POP_WAIT_MAX_INTERVAL_MS")?,
        retention_interval: millis(env, "RETENTION_INTERVAL")?,
        eviction_interval: millis(env, "EVICTION_INTERVAL")?,
        metrics_retention: number(env, "METRICS_RETENTION_DAYS")?.map(days),
        encryption_key: env("QUEEN_ENCRYPTION_KEY"),
        ..tokens(env)?
    })
}

/// What the old names say of tokens: nothing, unless they are switched on.
fn tokens(env: Env<'_>) -> Result<Raw> {
    if !switched_on(env("JWT_ENABLED").as_deref()) {
        return Ok(Raw::default());
    }
    Ok(Raw {
        auth: Some(AuthMode::On),
        // Where nothing is said the old default is in force, unless it would refuse the only key there is.
        jwt_algorithm: env("JWT_ALGORITHM").or_else(|| env("JWT_SECRET").map(|_| "HS256".into())),
        jwt_secret: env("JWT_SECRET"),
        jwt_public_key: env("JWT_PUBLIC_KEY"),
        jwt_jwks: env("JWT_JWKS_URL"),
        jwt_jwks_refresh: number(env, "JWT_JWKS_REFRESH_INTERVAL")?.map(|s| Span(Duration::from_secs(s))),
        jwt_jwks_timeout: millis(env, "JWT_JWKS_TIMEOUT_MS")?,
        jwt_issuer: env("JWT_ISSUER"),
        jwt_audience: env("JWT_AUDIENCE"),
        jwt_clock_skew: number(env, "JWT_CLOCK_SKEW")?.map(|s| Span(Duration::from_secs(s))),
        jwt_role_claim: env("JWT_ROLES_CLAIM"),
        jwt_roles_claim: env("JWT_ROLES_ARRAY_CLAIM"),
        jwt_role_admin: env("JWT_ROLE_ADMIN"),
        jwt_role_read_write: env("JWT_ROLE_READ_WRITE"),
        jwt_role_write_only: env("JWT_ROLE_WRITE_ONLY"),
        jwt_role_read_only: env("JWT_ROLE_READ_ONLY"),
        public_paths: env("JWT_SKIP_PATHS"),
        ..Raw::default()
    })
}

fn switched_on(value: Option<&str>) -> bool {
    value.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "1"))
}

/// The one warning about names in `set` that do nothing here, if there are any.
pub(crate) fn warning(set: impl Iterator<Item = (String, String)>) -> Option<String> {
    let (mut idle, mut auth, mut enabled) = (Vec::new(), Vec::new(), None);
    for (name, value) in set {
        if name == "JWT_ENABLED" {
            enabled = Some(value);
        } else if name.starts_with("JWT_") {
            auth.push(name);
        } else if name != "QUEEN_ENCRYPTION_KEY" && WITHOUT_EFFECT.iter().any(|known| matches(known, &name)) {
            idle.push(name);
        }
    }
    idle.sort();
    auth.sort();
    let idle = (!idle.is_empty()).then(|| format!("set but without effect here: {}", idle.join(", ")));
    let unused = !auth.is_empty() && !switched_on(enabled.as_deref());
    let auth =
        unused.then(|| format!("set but without effect while JWT_ENABLED is not true: {}", auth.join(", ")));
    match (idle, auth) {
        (None, None) => None,
        (idle, auth) => Some(idle.into_iter().chain(auth).collect::<Vec<_>>().join("; ")),
    }
}

fn matches(known: &str, name: &str) -> bool {
    known.strip_suffix('*').map_or(known == name, |prefix| name.starts_with(prefix))
}

fn number<T: std::str::FromStr>(env: Env<'_>, name: &str) -> Result<Option<T>> {
    let Some(text) = env(name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| anyhow!("{name} cannot be read"))
}

fn days(days: u32) -> Span {
    Span(Duration::from_secs(u64::from(days) * 86_400))
}

fn millis(env: Env<'_>, name: &str) -> Result<Option<Span>> {
    Ok(number(env, name)?.map(|ms| Span(Duration::from_millis(ms))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_read_in_their_own_units() {
        let env = |name: &str| match name {
            "DEFAULT_TIMEOUT" => Some("5000".into()),
            "RETENTION_INTERVAL" => Some("2000".into()),
            "DEFAULT_BATCH_SIZE" => Some("7".into()),
            "METRICS_RETENTION_DAYS" => Some("90".into()),
            "POP_WAIT_BACKOFF_MULTIPLIER" => Some("2.5".into()),
            _ => None,
        };
        let raw = read(&env).unwrap();
        assert_eq!(raw.default_timeout, Some(Span(Duration::from_secs(5))));
        assert_eq!(raw.retention_interval, Some(Span(Duration::from_secs(2))));
        assert_eq!((raw.default_batch, raw.pop_wait_multiplier), (Some(7), Some(2.5)));
        assert_eq!(raw.metrics_retention, Some(Span(Duration::from_secs(90 * 86_400))));
        let error = read(&|name| (name == "EVICTION_INTERVAL").then(|| "soon".into())).unwrap_err();
        assert_eq!(error.to_string(), "EVICTION_INTERVAL cannot be read");
    }

    #[test]
    fn names_without_effect_are_told_in_one_warning() {
        let told = |names: &[&str]| warning(names.iter().map(|n| ((*n).to_owned(), "true".to_owned())));
        assert_eq!(told(&["PATH", "DEFAULT_TIMEOUT", "QUEEN_ENCRYPTION_KEY", "BUGLE_LISTEN"]), None);
        let text = told(&["SIDECAR_POOL_SIZE", "PG_HOST", "QUEEN_UDP_PEERS", "JWT_SECRET", "HOME"]).unwrap();
        assert!(
            text.starts_with("set but without effect here: PG_HOST, QUEEN_UDP_PEERS, SIDECAR_POOL_SIZE; ")
        );
        assert!(text.contains("while JWT_ENABLED is not true") && text.ends_with("JWT_SECRET"), "{text}");
        assert_eq!(told(&["JWT_ENABLED", "JWT_SECRET"]), None);
    }

    #[test]
    fn tokens_are_asked_for_when_switched_on() {
        let env = |name: &str| match name {
            "JWT_ENABLED" => Some("true".to_owned()),
            "JWT_SECRET" => Some("s3cret".into()),
            "JWT_CLOCK_SKEW" => Some("7".into()),
            "JWT_JWKS_TIMEOUT_MS" => Some("1500".into()),
            "JWT_ROLE_ADMIN" => Some("boss".into()),
            _ => None,
        };
        let raw = read(&env).unwrap();
        assert_eq!((raw.auth, raw.jwt_secret.as_deref()), (Some(AuthMode::On), Some("s3cret")));
        assert_eq!(raw.jwt_algorithm.as_deref(), Some("HS256"));
        assert_eq!(raw.jwt_clock_skew, Some(Span(Duration::from_secs(7))));
        assert_eq!(raw.jwt_jwks_timeout, Some(Span(Duration::from_millis(1500))));
        assert_eq!(raw.jwt_role_admin.as_deref(), Some("boss"));
        let off = read(&|name| if name == "JWT_ENABLED" { Some("false".into()) } else { env(name) }).unwrap();
        assert_eq!(off, Raw::default());
    }
}
