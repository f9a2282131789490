//! The settings in force: complete, checked, in the types that the parts of the server take.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bugle_broker::{BrokerConfig, EncryptionKey};
use bugle_http::{HttpConfig, ServeConfig, TelemetryConfig};
use bugle_pg::PoolOptions;
use bugle_spool::SpoolOptions;
use bugle_store::Codec;

use super::amount::{Range, Size, Span};
use super::auth::{self, AuthSettings};
use super::raw::{Compression, LogFormat, Raw};
use super::telemetry;
use super::waking::{self, WakingSettings};

/// More threads than this help nobody.
const MOST_THREADS: usize = 1024;

/// Everything the server needs to know.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Address to listen on.
    pub(crate) listen: String,
    /// Listening beyond loopback was asked for.
    pub(crate) insecure: bool,
    /// Who may use the server.
    pub(crate) auth: AuthSettings,
    /// Where messages are kept.
    pub(crate) store: StoreSettings,
    /// Where pushes go during maintenance.
    pub(crate) spool: SpoolOptions,
    /// How other servers are told and heard.
    pub(crate) waking: WakingSettings,
    /// Threads that answer requests.
    pub(crate) worker_threads: usize,
    /// Time between not being ready and not accepting.
    pub(crate) drain_delay: Duration,
    /// Settings of the routes.
    pub(crate) http: HttpConfig,
    /// Settings of the accept loop.
    pub(crate) serve: ServeConfig,
    /// Settings of the broker.
    pub(crate) broker: BrokerConfig,
    /// Where telemetry goes, if anywhere.
    pub(crate) telemetry: Option<TelemetryConfig>,
    /// Settings of the logs.
    pub(crate) log_format: LogFormat,
    /// Level or filter of the logs.
    pub(crate) log_level: String,
}

/// An engine and its settings.
pub(crate) enum StoreSettings {
    /// In a directory.
    Embedded {
        /// The directory.
        dir: PathBuf,
    },
    /// In a database.
    Postgres(PostgresSettings),
}

/// A database and how to use it.
pub(crate) struct PostgresSettings {
    /// Its address, with the password.
    pub(crate) address: String,
    /// Schema for the tables.
    pub(crate) schema: String,
    /// Buckets.
    pub(crate) buckets: u32,
    /// No named statements.
    pub(crate) pooler: bool,
    /// Fewest and most connections.
    pub(crate) connections: (usize, usize),
    /// Partitions are free again before an append is durable.
    pub(crate) early_release: bool,
}

impl std::fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded { dir } => write!(f, "embedded in {}", dir.display()),
            Self::Postgres(PostgresSettings { address, schema, .. }) => {
                write!(f, "{} schema {schema}", redacted(address))
            }
        }
    }
}

impl StoreSettings {
    /// Name of the engine.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Embedded { .. } => "embedded",
            Self::Postgres(_) => "postgres",
        }
    }
}

/// All defaults, as a source that is asked last. Those of the parts are taken from the parts.
fn defaults() -> Raw {
    let (http, serve, broker) = (HttpConfig::default(), ServeConfig::default(), BrokerConfig::default());
    let pool = PoolOptions::default();
    Raw {
        listen: Some("127.0.0.1:6632".into()),
        insecure: Some(false),
        store: Some("embedded".into()),
        data_dir: Some("./bugle-data".into()),
        max_spool: Some(Size(1 << 30)),
        log_format: Some(LogFormat::Text),
        log_level: Some("info".into()),
        max_body: Some(Size(http.max_body)),
        max_body_memory: Some(Size(http.max_body_memory)),
        max_header_bytes: Some(Size(serve.max_header_bytes)),
        max_connections: Some(serve.max_connections),
        max_streams: Some(serve.max_streams),
        first_byte_timeout: Some(Span(serve.first_byte_timeout)),
        header_timeout: Some(Span(serve.header_timeout)),
        body_timeout: Some(Span(http.body_timeout)),
        min_body_rate: Some(Size(http.min_body_rate)),
        answer_timeout: Some(Span(serve.answer_timeout)),
        worker_threads: Some(0),
        drain_delay: Some(Span(Duration::ZERO)),
        shutdown_grace: Some(Span(serve.shutdown_grace)),
        default_timeout: Some(Span(http.default_wait)),
        max_timeout: Some(Span(http.max_wait)),
        pg_schema: Some("bugle".into()),
        pg_buckets: Some(1),
        pg_pooler: Some(false),
        pg_connections: Some(Range(pool.min, pool.max)),
        early_lock_release: Some(false),
        ..broker_defaults(&broker)
    }
}

/// There every call is a commit, and a commit waits for the one before it: fewer and larger ones carry more (docs/decisions/0020).
const CALLS_ON_POSTGRES: Range = Range(1, 8);

/// What was said, and the defaults for the rest. One of them goes by the store.
fn filled(raw: Raw) -> Raw {
    let embedded = raw.store.as_deref().is_none_or(|store| store == "embedded");
    let calls_in_flight = (!embedded).then_some(CALLS_ON_POSTGRES);
    raw.or(Raw { calls_in_flight, ..Raw::default() }).or(defaults())
}

fn broker_defaults(broker: &BrokerConfig) -> Raw {
    Raw {
        default_batch: Some(broker.default_batch),
        max_batch: Some(broker.pop_max_batch),
        autopilot_batch: Some(broker.autopilot_batch),
        autopilot_partitions: Some(broker.autopilot_partitions),
        max_pop_bytes: Some(Size(broker.pop_max_bytes)),
        default_subscription_mode: Some("all".into()),
        max_waiters: Some(broker.max_waiters),
        retention_interval: Some(Span(broker.retention_interval)),
        eviction_interval: Some(Span(broker.eviction_interval)),
        completed_retention: Some(Span(broker.completed_retention)),
        dead_letter_retention: Some(Span(broker.dead_letter_retention)),
        trace_retention: Some(Span(broker.trace_retention)),
        partition_retention: Some(Span(broker.lane_retention)),
        metrics_retention: Some(Span(broker.metrics_retention)),
        metrics_interval: Some(Span(broker.metrics_interval)),
        max_queued: Some(broker.max_queued),
        calls_in_flight: Some(Range(broker.calls_in_flight.0, broker.calls_in_flight.1)),
        priority_dispatch: Some(broker.priority_dispatch),
        max_candidates: Some(broker.max_candidates),
        claim_rounds: Some(broker.claim_rounds),
        dedupe_memory: Some(Size(broker.dedupe_memory)),
        segment_cache: Some(Size(broker.segment_cache)),
        compression: Some(Compression::Off),
        max_cached_partitions: Some(broker.max_cached_lanes),
        ..waking::defaults(broker).or(auth::defaults()).or(telemetry::defaults())
    }
}

/// A setting that must be there, since [`defaults`] was asked.
pub(super) fn get<T>(value: Option<T>, name: &str) -> Result<T> {
    value.with_context(|| format!("{name} has no value"))
}

/// A number that must not be zero.
pub(super) fn positive<T: PartialOrd + Default>(value: Option<T>, name: &str) -> Result<T> {
    let value = get(value, name)?;
    ensure!(value > T::default(), "{name} must be at least 1");
    Ok(value)
}

/// A duration that must not be zero.
pub(super) fn lasting(value: Option<Span>, name: &str) -> Result<Duration> {
    let Span(value) = get(value, name)?;
    ensure!(!value.is_zero(), "{name} must be longer than 0");
    Ok(value)
}

impl Settings {
    /// Check what was said and fill in the rest.
    pub(crate) fn check(raw: Raw) -> Result<Self> {
        let raw = filled(raw);
        let store = store(&raw)?;
        Ok(Self {
            waking: WakingSettings::check(&raw)?,
            auth: AuthSettings::check(&raw)?,
            telemetry: telemetry::check(&raw)?,
            http: HttpConfig {
                max_body: positive(raw.max_body.map(|size| size.0), "max-body")?,
                body_timeout: lasting(raw.body_timeout, "body-timeout")?,
                min_body_rate: positive(raw.min_body_rate.map(|size| size.0), "min-body-rate")?,
                max_body_memory: positive(raw.max_body_memory.map(|size| size.0), "max-body-memory")?,
                default_wait: lasting(raw.default_timeout, "default-timeout")?,
                max_wait: lasting(raw.max_timeout, "max-timeout")?,
                engine: store.name().into(),
                ..HttpConfig::default()
            },
            serve: ServeConfig {
                max_connections: positive(raw.max_connections, "max-connections")?,
                max_streams: positive(raw.max_streams, "max-streams")?,
                first_byte_timeout: lasting(raw.first_byte_timeout, "first-byte-timeout")?,
                header_timeout: lasting(raw.header_timeout, "header-timeout")?,
                max_header_bytes: header_bytes(&raw)?,
                answer_timeout: lasting(raw.answer_timeout, "answer-timeout")?,
                shutdown_grace: get(raw.shutdown_grace, "shutdown-grace")?.0,
                ..ServeConfig::default()
            },
            broker: broker(&raw)?,
            spool: spool(&raw, &store)?,
            store,
            listen: get(raw.listen, "listen")?,
            insecure: get(raw.insecure, "insecure")?,
            worker_threads: worker_threads(get(raw.worker_threads, "worker-threads")?)?,
            drain_delay: get(raw.drain_delay, "drain-delay")?.0,
            log_format: get(raw.log_format, "log-format")?,
            log_level: get(raw.log_level, "log-level")?,
        })
    }

    /// The settings in force as a TOML file, secrets left out.
    pub(crate) fn show(raw: Raw) -> Result<String> {
        let mut raw = filled(raw);
        raw.store = raw.store.map(|store| redacted(&store));
        raw.listen_store = raw.listen_store.map(|store| redacted(&store));
        raw.encryption_key = raw.encryption_key.map(|_| "<redacted>".into());
        raw.udp_secret = raw.udp_secret.map(|_| "<redacted>".into());
        auth::redact(&mut raw);
        telemetry::redact(&mut raw);
        Ok(toml::to_string(&raw)?)
    }
}

/// How many threads answer requests.
fn worker_threads(asked: usize) -> Result<usize> {
    ensure!(asked <= MOST_THREADS, "worker-threads must be at most {MOST_THREADS}");
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(if asked == 0 { cores().saturating_sub(1).clamp(1, MOST_THREADS) } else { asked })
}

fn store(raw: &Raw) -> Result<StoreSettings> {
    let store = get(raw.store.as_deref(), "store")?;
    if store == "embedded" {
        return Ok(StoreSettings::Embedded { dir: get(raw.data_dir.clone(), "data-dir")? });
    }
    if !store.starts_with("postgres://") && !store.starts_with("postgresql://") {
        bail!("store must be `embedded` or begin with postgres://");
    }
    let Range(least, most) = get(raw.pg_connections, "pg-connections")?;
    let schema = get(raw.pg_schema.clone(), "pg-schema")?;
    ensure!(!schema.is_empty(), "pg-schema must not be empty");
    Ok(StoreSettings::Postgres(PostgresSettings {
        address: store.to_owned(),
        schema,
        buckets: positive(raw.pg_buckets, "pg-buckets")?,
        pooler: get(raw.pg_pooler, "pg-pooler")?,
        connections: (least, most),
        early_release: get(raw.early_lock_release, "early-lock-release")?,
    }))
}

/// What is read at once goes by this too, so it cannot be very small.
fn header_bytes(raw: &Raw) -> Result<usize> {
    let Size(bytes) = get(raw.max_header_bytes, "max-header-bytes")?;
    ensure!(bytes >= 8 << 10, "max-header-bytes must be at least 8KiB");
    Ok(bytes)
}

fn spool(raw: &Raw, store: &StoreSettings) -> Result<SpoolOptions> {
    let own = match store {
        StoreSettings::Embedded { dir } => dir.join("spool"),
        StoreSettings::Postgres(_) => "./bugle-spool".into(),
    };
    let max = positive(raw.max_spool.map(|size| size.0), "max-spool")?;
    let options = SpoolOptions::new(raw.spool_dir.clone().unwrap_or(own));
    Ok(SpoolOptions { max_bytes: max as u64, ..options })
}

fn broker(raw: &Raw) -> Result<BrokerConfig> {
    let Range(least, most) = get(raw.calls_in_flight, "calls-in-flight")?;
    Ok(BrokerConfig {
        default_batch: positive(raw.default_batch, "default-batch")?,
        autopilot_batch: positive(raw.autopilot_batch, "autopilot-batch")?,
        autopilot_partitions: positive(raw.autopilot_partitions, "autopilot-partitions")?,
        default_subscription_mode: subscription_mode(raw.default_subscription_mode.as_deref())?,
        pop_max_bytes: positive(raw.max_pop_bytes.map(|size| size.0), "max-pop-bytes")?,
        pop_max_batch: positive(raw.max_batch, "max-batch")?,
        max_waiters: get(raw.max_waiters, "max-waiters")?,
        max_queued: positive(raw.max_queued, "max-queued")?,
        calls_in_flight: (least, most),
        priority_dispatch: get(raw.priority_dispatch, "priority-dispatch")?,
        pop_batching: get(raw.pop_batching, "pop-batching")?,
        floor: waking::floor(raw)?,
        max_candidates: positive(raw.max_candidates, "max-candidates")?,
        claim_rounds: positive(raw.claim_rounds, "claim-rounds")?,
        dedupe_memory: get(raw.dedupe_memory, "dedupe-memory")?.0,
        segment_cache: get(raw.segment_cache, "segment-cache")?.0,
        compression: match get(raw.compression, "compression")? {
            Compression::Off => None,
            Compression::Lz4 => Some(Codec::Lz4),
            Compression::Zstd => Some(Codec::Zstd),
        },
        max_cached_lanes: positive(raw.max_cached_partitions, "max-cached-partitions")?,
        retention_interval: lasting(raw.retention_interval, "retention-interval")?,
        eviction_interval: lasting(raw.eviction_interval, "eviction-interval")?,
        completed_retention: get(raw.completed_retention, "completed-retention")?.0,
        dead_letter_retention: get(raw.dead_letter_retention, "dead-letter-retention")?.0,
        trace_retention: get(raw.trace_retention, "trace-retention")?.0,
        lane_retention: get(raw.partition_retention, "partition-retention")?.0,
        metrics_retention: get(raw.metrics_retention, "metrics-retention")?.0,
        metrics_interval: lasting(raw.metrics_interval, "metrics-interval")?,
        hostname: hostname(),
        vitals: bugle_http::vitals,
        encryption_keys: raw.encryption_key.as_deref().map(keys).transpose()?.unwrap_or_default(),
    })
}

/// What the machine calls itself.
pub(crate) fn hostname() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("bugle").to_owned()
}

/// The protocol's rule: `new` and `new-only` mean new, everything else means all.
fn subscription_mode(mode: Option<&str>) -> Result<String> {
    Ok(match get(mode, "default-subscription-mode")? {
        "new" | "new-only" => "new".into(),
        _ => String::new(),
    })
}

/// `hex`, or `id:hex,id2:hex2`. Complaints never quote a key.
fn keys(text: &str) -> Result<Vec<EncryptionKey>> {
    let mut keys: Vec<EncryptionKey> = Vec::new();
    for (at, part) in text.split(',').map(str::trim).enumerate() {
        let (id, digits) = part.split_once(':').unwrap_or(("default", part));
        ensure!(!id.is_empty() && id.len() <= 255, "encryption-key: key {} has no usable id", at + 1);
        ensure!(keys.iter().all(|key| key.id != id), "encryption-key: two keys have the id {id:?}");
        let mut key = [0; 32];
        hex::decode_to_slice(digits, &mut key)
            .map_err(|_| anyhow::anyhow!("encryption-key: key {} is not 64 hex digits", at + 1))?;
        keys.push(EncryptionKey { id: id.into(), key });
    }
    Ok(keys)
}

/// An address without its password, wherever in it that stands.
pub(super) fn redacted(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    // The last @ ends the credentials: a password may contain one that nobody escaped.
    let place = match place.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:<redacted>@{host}"),
            None => place.to_owned(),
        },
        None => place.to_owned(),
    };
    let query = query.map(|query| {
        let words = query.split('&').map(|word| match word.split_once('=') {
            Some((name, _)) if name.contains("password") => format!("{name}=<redacted>"),
            _ => word.to_owned(),
        });
        format!("?{}", words.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{place}{}", query.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn problem(raw: Raw) -> String {
        Settings::check(raw).unwrap_err().to_string()
    }

    #[test]
    fn nothing_said_means_the_defaults_of_the_parts() {
        let settings = Settings::check(Raw::default()).unwrap();
        let (http, broker) = (HttpConfig::default(), BrokerConfig::default());
        assert_eq!(settings.listen, "127.0.0.1:6632");
        assert_eq!(settings.http.max_body, http.max_body);
        assert_eq!(settings.broker.retention_interval, broker.retention_interval);
        assert_eq!(settings.broker.default_subscription_mode, broker.default_subscription_mode);
        assert_eq!(settings.http.engine, "embedded");
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        assert_eq!(problem(Raw { max_body: Some(Size(0)), ..Raw::default() }), "max-body must be at least 1");
        let never = Some(Span(Duration::ZERO));
        assert_eq!(
            problem(Raw { retention_interval: never, ..Raw::default() }),
            "retention-interval must be longer than 0"
        );
        assert!(
            problem(Raw { store: Some("mysql://x".into()), ..Raw::default() }).starts_with("store must be")
        );
    }

    #[test]
    fn the_spool_lies_beside_the_embedded_store_unless_told_otherwise() {
        let dir = |raw| Settings::check(raw).unwrap().spool.dir;
        let data_dir = Some("/d".into());
        assert_eq!(dir(Raw { data_dir, ..Raw::default() }), PathBuf::from("/d/spool"));
        let store = Some("postgres://x".into());
        assert_eq!(dir(Raw { store: store.clone(), ..Raw::default() }), PathBuf::from("./bugle-spool"));
        let spool_dir = Some("/s".into());
        assert_eq!(dir(Raw { store, spool_dir: spool_dir.clone(), ..Raw::default() }), PathBuf::from("/s"));
        assert_eq!(dir(Raw { spool_dir, ..Raw::default() }), PathBuf::from("/s"));
        assert_eq!(
            problem(Raw { max_spool: Some(Size(0)), ..Raw::default() }),
            "max-spool must be at least 1"
        );
    }

    #[test]
    fn on_postgres_one_call_is_in_flight_unless_told_otherwise() {
        let calls = |raw| Settings::check(raw).unwrap().broker.calls_in_flight;
        let store: Option<String> = Some("postgres://x".into());
        assert_eq!(calls(Raw::default()), BrokerConfig::default().calls_in_flight);
        assert_eq!(calls(Raw { store: store.clone(), ..Raw::default() }), (1, 8));
        assert_eq!(calls(Raw { store, calls_in_flight: Some(Range(3, 4)), ..Raw::default() }), (3, 4));
    }

    #[test]
    fn keys_are_read_with_and_without_ids() {
        assert_eq!(keys(HEX).unwrap()[0].id, "default");
        let two = keys(&format!("new:{HEX}, old:{HEX}")).unwrap();
        assert_eq!(two.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["new", "old"]);
        assert_eq!(two[0].key[31], 0x1f);
        for bad in ["", "secret", "a:secret", &HEX[2..], &format!("a:{HEX},a:{HEX}"), &format!(":{HEX}")] {
            let error = keys(bad).unwrap_err().to_string();
            assert!(!error.contains("secret") && !error.contains(&HEX[2..]), "{error}");
        }
    }

    #[test]
    fn what_is_printed_has_no_secrets() {
        let raw = Raw {
            store: Some("postgres://me:s3cret@p:w@host:5432/db?sslmode=require&password=s3cret".into()),
            listen_store: Some("postgres://me:s3cret@direct/db".into()),
            udp_listen: Some("127.0.0.1:0".into()),
            udp_peers: Some("127.0.0.1:1".into()),
            udp_secret: Some("s3cret-s3cret-s3cret".into()),
            encryption_key: Some(HEX.into()),
            ..Raw::default()
        };
        let shown = Settings::show(raw.clone()).unwrap();
        assert!(
            shown.contains("postgres://me:<redacted>@host:5432/db?sslmode=require&password=<redacted>"),
            "{shown}"
        );
        let settings = format!("{:?}", Settings::check(raw).unwrap());
        for secret in ["s3cret", HEX, "p:w"] {
            assert!(!shown.contains(secret) && !settings.contains(secret));
        }
        assert_eq!(redacted("postgres://me@host/db"), "postgres://me@host/db");
        assert_eq!(redacted("embedded"), "embedded");
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let shown = Settings::show(Raw::default()).unwrap();
        assert_eq!(toml::from_str::<Raw>(&shown).unwrap(), defaults());
    }
}
