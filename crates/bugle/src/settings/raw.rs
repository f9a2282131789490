//! Every setting there is, as it may be said: a flag, an environment variable and a TOML key of the same name.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::amount::{Range, Size, Span};

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Whether credentials are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuthMode {
    /// If there are any to check.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always: refuse to start without any to check.
    On,
}

/// How stored messages are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Compression {
    /// Not at all.
    #[default]
    Off,
    /// Little processor time, less saved.
    Lz4,
    /// More processor time, more saved.
    Zstd,
}

/// One list, from which flags, variables, keys and the merging of sources are made.
macro_rules! raw {
    ($($(#[$meta:meta])* $name:ident: $type:ty, $env:literal;)*) => {
        /// What one source says. `None` = nothing.
        #[derive(Clone, Debug, Default, PartialEq, clap::Args, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub(crate) struct Raw {
            $(
                $(#[$meta])*
                #[arg(long, env = $env, hide_env_values = true)]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub(crate) $name: Option<$type>,
            )*
        }

        impl Raw {
            /// What this source says, and where it is silent, `lower`.
            pub(crate) fn or(self, lower: Self) -> Self {
                Self { $($name: self.$name.or(lower.$name),)* }
            }
        }
    };
}

raw! {
    /// Address to listen on [default: 127.0.0.1:6632]
    ///
    /// Port 0 takes a free port. Beyond loopback authentication is needed, or --insecure.
    #[arg(value_name = "HOST:PORT")]
    listen: String, "BUGLE_LISTEN";
    /// Listen beyond loopback without authentication: anybody who can connect may read and write everything
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    insecure: bool, "BUGLE_INSECURE";
    /// Where messages are kept: `embedded` or a postgres:// address [default: embedded]
    ///
    /// The address takes libpq's sslmode (up to verify-full), sslrootcert, sslcert and sslkey.
    #[arg(value_name = "embedded|postgres://…")]
    store: String, "BUGLE_STORE";
    /// File to read --store from, since an address may carry a password
    #[arg(value_name = "FILE")]
    store_file: PathBuf, "BUGLE_STORE_FILE";
    /// Data directory of the embedded store [default: ./bugle-data]
    #[arg(value_name = "DIR")]
    data_dir: PathBuf, "BUGLE_DATA_DIR";
    /// Directory for pushes that come during maintenance [default: spool in --data-dir, or ./bugle-spool on PostgreSQL]
    ///
    /// Made when it is first needed. Each server needs one of its own, on a disk that survives the server.
    #[arg(value_name = "DIR")]
    spool_dir: PathBuf, "BUGLE_SPOOL_DIR";
    /// Most bytes in it; more pushes are told to come back later [default: 1GiB]
    #[arg(value_name = "SIZE")]
    max_spool: Size, "BUGLE_MAX_SPOOL";
    /// Keys for queues with encryptionEnabled: 64 hex digits, or id:hex,id2:hex2; the first encrypts, all decrypt
    ///
    /// Better given by BUGLE_ENCRYPTION_KEY or a file than as a flag, which other users of the machine can see.
    #[arg(value_name = "KEYS")]
    encryption_key: String, "BUGLE_ENCRYPTION_KEY";
    /// File to read --encryption-key from
    #[arg(value_name = "FILE")]
    encryption_key_file: PathBuf, "BUGLE_ENCRYPTION_KEY_FILE";

    /// Ask for credentials: auto = if there are any to check, off, or on = refuse to start without [default: auto]
    #[arg(help_heading = "Security", value_name = "MODE")]
    auth: AuthMode, "BUGLE_AUTH";
    /// API keys: name:role:key, separated by commas; roles are admin, read-write, write-only and read-only
    ///
    /// Sent as `Authorization: Bearer <key>` or `X-API-Key: <key>`. Better given by a file.
    #[arg(help_heading = "Security", value_name = "KEYS")]
    api_keys: String, "BUGLE_API_KEYS";
    /// File to read --api-keys from, one per line
    #[arg(help_heading = "Security", value_name = "FILE")]
    api_keys_file: PathBuf, "BUGLE_API_KEYS_FILE";
    /// Secret for tokens (JWT) signed with HS256, 32 bytes or more
    #[arg(help_heading = "Security", value_name = "TEXT")]
    jwt_secret: String, "BUGLE_JWT_SECRET";
    /// File to read --jwt-secret from
    #[arg(help_heading = "Security", value_name = "FILE")]
    jwt_secret_file: PathBuf, "BUGLE_JWT_SECRET_FILE";
    /// Public key (PEM) for tokens signed with RS256 or EdDSA
    #[arg(help_heading = "Security", value_name = "PEM")]
    jwt_public_key: String, "BUGLE_JWT_PUBLIC_KEY";
    /// File to read --jwt-public-key from
    #[arg(help_heading = "Security", value_name = "FILE")]
    jwt_public_key_file: PathBuf, "BUGLE_JWT_PUBLIC_KEY_FILE";
    /// Key set (JWKS) for tokens signed with RS256 or EdDSA
    #[arg(help_heading = "Security", value_name = "FILE|URL")]
    jwt_jwks: String, "BUGLE_JWT_JWKS";
    /// How often the key set is read again [default: 1h]
    #[arg(help_heading = "Security", value_name = "DURATION")]
    jwt_jwks_refresh: Span, "BUGLE_JWT_JWKS_REFRESH";
    /// Time for fetching it [default: 5s]
    #[arg(help_heading = "Security", value_name = "DURATION")]
    jwt_jwks_timeout: Span, "BUGLE_JWT_JWKS_TIMEOUT";
    /// Accepted signatures: auto (those there is a key for), HS256, RS256 or EdDSA [default: auto]
    #[arg(help_heading = "Security", value_name = "NAME")]
    jwt_algorithm: String, "BUGLE_JWT_ALGORITHM";
    /// Issuer (iss) that tokens must have
    #[arg(help_heading = "Security", value_name = "TEXT")]
    jwt_issuer: String, "BUGLE_JWT_ISSUER";
    /// Audience (aud) that tokens must have
    #[arg(help_heading = "Security", value_name = "TEXT")]
    jwt_audience: String, "BUGLE_JWT_AUDIENCE";
    /// How far the issuer's clock may be off [default: 30s]
    #[arg(help_heading = "Security", value_name = "DURATION")]
    jwt_clock_skew: Span, "BUGLE_JWT_CLOCK_SKEW";
    /// Refuse tokens that never expire [default: true]
    #[arg(help_heading = "Security", value_name = "BOOL")]
    jwt_require_expiry: bool, "BUGLE_JWT_REQUIRE_EXPIRY";
    /// Claim with one role; dots lead into nested claims [default: role]
    #[arg(help_heading = "Security", value_name = "NAME")]
    jwt_role_claim: String, "BUGLE_JWT_ROLE_CLAIM";
    /// Claim with a list of roles [default: roles]
    #[arg(help_heading = "Security", value_name = "NAME")]
    jwt_roles_claim: String, "BUGLE_JWT_ROLES_CLAIM";
    /// What tokens call administrators [default: admin]
    #[arg(help_heading = "Security", value_name = "NAME")]
    jwt_role_admin: String, "BUGLE_JWT_ROLE_ADMIN";
    /// What they call those who may do all but administration [default: read-write]
    #[arg(help_heading = "Security", value_name = "NAME")]
    jwt_role_read_write: String, "BUGLE_JWT_ROLE_READ_WRITE";
    /// What they call those who may push only [default: write-only]
    #[arg(help_heading = "Security", value_name = "NAME")]
    jwt_role_write_only: String, "BUGLE_JWT_ROLE_WRITE_ONLY";
    /// What they call those who may only look [default: read-only]
    #[arg(help_heading = "Security", value_name = "NAME")]
    jwt_role_read_only: String, "BUGLE_JWT_ROLE_READ_ONLY";
    /// Paths that need no credentials, prefixes if they end with / [default: /,/assets/,/health,/health/,/metrics,/metrics/,/docs,/openapi.json]
    #[arg(help_heading = "Security", value_name = "PATH,…")]
    public_paths: String, "BUGLE_PUBLIC_PATHS";
    /// Certificate chain (PEM); with --tls-key, connections are encrypted
    #[arg(help_heading = "Security", value_name = "FILE")]
    tls_cert: PathBuf, "BUGLE_TLS_CERT";
    /// Private key (PEM) of the certificate
    #[arg(help_heading = "Security", value_name = "FILE")]
    tls_key: PathBuf, "BUGLE_TLS_KEY";
    /// Origins whose web pages may use the server, separated by commas; * is every page
    #[arg(help_heading = "Security", value_name = "ORIGIN,…")]
    cors_origin: String, "BUGLE_CORS_ORIGIN";
    /// Names besides localhost by which a server on loopback may be called, separated by commas
    #[arg(help_heading = "Security", value_name = "HOST,…")]
    allowed_host: String, "BUGLE_ALLOWED_HOST";

    /// Most requests of one caller in a second: 100, or 100/500 for 500 at once; more is a 429 [default: no limit]
    ///
    /// A caller is an API key, the subject of a token, or without credentials the address it comes from. Health, metrics
    /// and the other paths of --public-paths are free.
    #[arg(help_heading = "Limits", value_name = "N[/BURST]")]
    limit_requests: String, "BUGLE_LIMIT_REQUESTS";
    /// Most messages that one caller pushes in a second, written like --limit-requests [default: no limit]
    #[arg(help_heading = "Limits", value_name = "N[/BURST]")]
    limit_messages: String, "BUGLE_LIMIT_MESSAGES";
    /// Most requests of one caller at a time, waiting pops included [default: no limit]
    #[arg(help_heading = "Limits", value_name = "N")]
    limit_in_flight: u32, "BUGLE_LIMIT_IN_FLIGHT";
    /// Limits of single callers in the place of these: name:requests:messages:in-flight, separated by commas; - is no limit
    #[arg(help_heading = "Limits", value_name = "LIST")]
    limit_callers: String, "BUGLE_LIMIT_CALLERS";
    /// File to read --limit-callers from, one per line
    #[arg(help_heading = "Limits", value_name = "FILE")]
    limit_callers_file: PathBuf, "BUGLE_LIMIT_CALLERS_FILE";

    /// Write one line per request [default: false]
    #[arg(help_heading = "Logs", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    access_log: bool, "BUGLE_ACCESS_LOG";
    /// How logs are written [default: text]
    #[arg(help_heading = "Logs", value_name = "FORMAT")]
    log_format: LogFormat, "BUGLE_LOG_FORMAT";
    /// error, warn, info, debug, trace, or a filter like info,bugle_broker=debug [default: info]
    #[arg(help_heading = "Logs", value_name = "LEVEL")]
    log_level: String, "BUGLE_LOG_LEVEL";

    /// Collector of OpenTelemetry to send traces and metrics to, by OTLP over HTTP with protobuf: http://localhost:4318 [default: off]
    ///
    /// Without it OTEL_EXPORTER_OTLP_ENDPOINT counts, as do OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and others for the settings
    /// below; see docs/telemetry.md.
    #[arg(help_heading = "Telemetry", value_name = "URL|off")]
    otlp_endpoint: String, "BUGLE_OTLP_ENDPOINT";
    /// Send spans of requests [default: true]
    #[arg(help_heading = "Telemetry", value_name = "BOOL")]
    otlp_traces: bool, "BUGLE_OTLP_TRACES";
    /// Send metrics [default: true]
    #[arg(help_heading = "Telemetry", value_name = "BOOL")]
    otlp_metrics: bool, "BUGLE_OTLP_METRICS";
    /// Headers for the collector: name=value,name2=value2, values percent-encoded
    ///
    /// Better given by a file than as a flag, which other users of the machine can see.
    #[arg(help_heading = "Telemetry", value_name = "LIST")]
    otlp_headers: String, "BUGLE_OTLP_HEADERS";
    /// File to read --otlp-headers from
    #[arg(help_heading = "Telemetry", value_name = "FILE")]
    otlp_headers_file: PathBuf, "BUGLE_OTLP_HEADERS_FILE";
    /// Time for one request to the collector [default: 10s]
    #[arg(help_heading = "Telemetry", value_name = "DURATION")]
    otlp_timeout: Span, "BUGLE_OTLP_TIMEOUT";
    /// Share of the traces that begin here that are recorded, from 0 to 1; who brings a trace has decided [default: 1]
    #[arg(help_heading = "Telemetry", value_name = "X")]
    otlp_sample_ratio: f64, "BUGLE_OTLP_SAMPLE_RATIO";
    /// How often metrics are sent [default: 1m]
    #[arg(help_heading = "Telemetry", value_name = "DURATION")]
    otlp_metrics_interval: Span, "BUGLE_OTLP_METRICS_INTERVAL";
    /// What the service is called there [default: bugle]
    #[arg(help_heading = "Telemetry", value_name = "NAME")]
    otlp_service_name: String, "BUGLE_OTLP_SERVICE_NAME";
    /// What else is said of it: key=value,key2=value2
    #[arg(help_heading = "Telemetry", value_name = "LIST")]
    otlp_resource: String, "BUGLE_OTLP_RESOURCE";

    /// Most bytes of a request body [default: 64MiB]
    #[arg(help_heading = "HTTP", value_name = "SIZE")]
    max_body: Size, "BUGLE_MAX_BODY";
    /// Most bytes of large request bodies that are here at a time, all together; more is a 429 [default: 512MiB]
    #[arg(help_heading = "HTTP", value_name = "SIZE")]
    max_body_memory: Size, "BUGLE_MAX_BODY_MEMORY";
    /// Most bytes of a request's line and headers, 8KiB or more; more is a 431 [default: 64KiB]
    #[arg(help_heading = "HTTP", value_name = "SIZE")]
    max_header_bytes: Size, "BUGLE_MAX_HEADER_BYTES";
    /// Most connections; over it idle ones are closed, and more wait while all are busy [default: 20000]
    ///
    /// Never more than the limit of file descriptors (ulimit -n, raised as far as it goes) less a reserve of an eighth, 256 at
    /// least.
    #[arg(help_heading = "HTTP", value_name = "N")]
    max_connections: usize, "BUGLE_MAX_CONNECTIONS";
    /// Most requests at a time on one HTTP/2 connection [default: 1024]
    #[arg(help_heading = "HTTP", value_name = "N")]
    max_streams: u32, "BUGLE_MAX_STREAMS";
    /// Time for the first bytes of a connection [default: 30s]
    #[arg(help_heading = "HTTP", value_name = "DURATION")]
    first_byte_timeout: Span, "BUGLE_FIRST_BYTE_TIMEOUT";
    /// Time for the headers of a request, and for an idle connection [default: 75s]
    #[arg(help_heading = "HTTP", value_name = "DURATION")]
    header_timeout: Span, "BUGLE_HEADER_TIMEOUT";
    /// Longest pause inside a request body [default: 30s]
    #[arg(help_heading = "HTTP", value_name = "DURATION")]
    body_timeout: Span, "BUGLE_BODY_TIMEOUT";
    /// Fewest bytes in a second of a request body that comes in pieces, after --body-timeout [default: 1KiB]
    #[arg(help_heading = "HTTP", value_name = "SIZE")]
    min_body_rate: Size, "BUGLE_MIN_BODY_RATE";
    /// Longest time during which a client takes nothing of its answer [default: 30s]
    #[arg(help_heading = "HTTP", value_name = "DURATION")]
    answer_timeout: Span, "BUGLE_ANSWER_TIMEOUT";
    /// Time between /health/ready turning 503 and the end of accepting, for load balancers [default: 0]
    #[arg(help_heading = "HTTP", value_name = "DURATION")]
    drain_delay: Span, "BUGLE_DRAIN_DELAY";
    /// Time for requests in flight when the server stops [default: 10s]
    #[arg(help_heading = "HTTP", value_name = "DURATION")]
    shutdown_grace: Span, "BUGLE_SHUTDOWN_GRACE";

    /// How long a waiting pop waits when it gives no timeout [default: 30s]
    #[arg(help_heading = "Consumers", value_name = "DURATION")]
    default_timeout: Span, "BUGLE_DEFAULT_TIMEOUT";
    /// Longest wait; larger timeouts are cut to it [default: 2m]
    #[arg(help_heading = "Consumers", value_name = "DURATION")]
    max_timeout: Span, "BUGLE_MAX_TIMEOUT";
    /// Messages per pop when it gives no batch [default: 1]
    #[arg(help_heading = "Consumers", value_name = "N")]
    default_batch: u32, "BUGLE_DEFAULT_BATCH";
    /// Most messages per pop; larger batches are cut to it [default: 10000]
    #[arg(help_heading = "Consumers", value_name = "N")]
    max_batch: u32, "BUGLE_MAX_BATCH";
    /// Messages per pop under autopilot [default: 1000]
    #[arg(help_heading = "Consumers", value_name = "N")]
    autopilot_batch: u32, "BUGLE_AUTOPILOT_BATCH";
    /// Partitions per pop under autopilot [default: 16]
    #[arg(help_heading = "Consumers", value_name = "N")]
    autopilot_partitions: u32, "BUGLE_AUTOPILOT_PARTITIONS";
    /// Most bytes of a pop answer; one message is always sent [default: 16MiB]
    #[arg(help_heading = "Consumers", value_name = "SIZE")]
    max_pop_bytes: Size, "BUGLE_MAX_POP_BYTES";
    /// Where new consumer groups start that do not say: all or new [default: all]
    #[arg(help_heading = "Consumers", value_name = "MODE")]
    default_subscription_mode: String, "BUGLE_DEFAULT_SUBSCRIPTION_MODE";
    /// Most pops that wait at a time [default: 100000]
    #[arg(help_heading = "Consumers", value_name = "N")]
    max_waiters: usize, "BUGLE_MAX_WAITERS";

    /// How often retention runs [default: 5m]
    #[arg(help_heading = "Retention", value_name = "DURATION")]
    retention_interval: Span, "BUGLE_RETENTION_INTERVAL";
    /// How often eviction (maxWaitTimeSeconds) runs [default: 1m]
    #[arg(help_heading = "Retention", value_name = "DURATION")]
    eviction_interval: Span, "BUGLE_EVICTION_INTERVAL";
    /// Age at which messages go that every group has read; 0 keeps them [default: 7d]
    #[arg(help_heading = "Retention", value_name = "DURATION")]
    completed_retention: Span, "BUGLE_COMPLETED_RETENTION";
    /// Age at which dead letters go; 0 keeps them [default: 30d]
    #[arg(help_heading = "Retention", value_name = "DURATION")]
    dead_letter_retention: Span, "BUGLE_DEAD_LETTER_RETENTION";
    /// Age at which traces go; 0 keeps them [default: 7d]
    #[arg(help_heading = "Retention", value_name = "DURATION")]
    trace_retention: Span, "BUGLE_TRACE_RETENTION";
    /// Idle time after which empty partitions go; 0 keeps them [default: 30d]
    #[arg(help_heading = "Retention", value_name = "DURATION")]
    partition_retention: Span, "BUGLE_PARTITION_RETENTION";
    /// Age at which the history of traffic (/api/v1/status, /api/v1/analytics) goes; 0 keeps it [default: 7d]
    #[arg(help_heading = "Retention", value_name = "DURATION")]
    metrics_retention: Span, "BUGLE_METRICS_RETENTION";
    /// How often traffic is written into the history, if there was any [default: 1m]
    #[arg(hide = true, value_name = "DURATION")]
    metrics_interval: Span, "BUGLE_METRICS_INTERVAL";

    /// Schema for the tables [default: bugle]
    #[arg(help_heading = "PostgreSQL", value_name = "NAME")]
    pg_schema: String, "BUGLE_PG_SCHEMA";
    /// Buckets to divide the tables into, fixed at the first start: 1, or 64 for a cluster [default: 1]
    #[arg(help_heading = "PostgreSQL", value_name = "N")]
    pg_buckets: u32, "BUGLE_PG_BUCKETS";
    /// The address is a pooler in transaction mode: use no named statements
    #[arg(help_heading = "PostgreSQL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pg_pooler: bool, "BUGLE_PG_POOLER";
    /// Fewest and most connections; load decides [default: 1,16]
    #[arg(help_heading = "PostgreSQL", value_name = "MIN,MAX")]
    pg_connections: Range, "BUGLE_PG_CONNECTIONS";
    /// Let the next append of a partition go on before the one before it is durable; each is answered when it is (docs/tuning.md)
    #[arg(help_heading = "PostgreSQL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    early_lock_release: bool, "BUGLE_EARLY_LOCK_RELEASE";

    /// Tell other servers by NOTIFY what moved, and LISTEN to them [default: true]
    #[arg(help_heading = "Waking", value_name = "BOOL")]
    notify: bool, "BUGLE_NOTIFY";
    /// Address to LISTEN at, if --store leads to a pooler in transaction mode [default: the store's]
    #[arg(help_heading = "Waking", value_name = "postgres://…")]
    listen_store: String, "BUGLE_LISTEN_STORE";
    /// File to read --listen-store from
    #[arg(help_heading = "Waking", value_name = "FILE")]
    listen_store_file: PathBuf, "BUGLE_LISTEN_STORE_FILE";
    /// Address for hints by UDP between servers; off unless given
    #[arg(help_heading = "Waking", value_name = "IP:PORT")]
    udp_listen: String, "BUGLE_UDP_LISTEN";
    /// The other servers' UDP addresses, separated by commas
    #[arg(help_heading = "Waking", value_name = "HOST:PORT,…")]
    udp_peers: String, "BUGLE_UDP_PEERS";
    /// Secret shared by all servers that signs every datagram, 16 bytes or more
    #[arg(help_heading = "Waking", value_name = "TEXT")]
    udp_secret: String, "BUGLE_UDP_SECRET";
    /// File to read --udp-secret from
    #[arg(help_heading = "Waking", value_name = "FILE")]
    udp_secret_file: PathBuf, "BUGLE_UDP_SECRET_FILE";
    /// Name of this server in logs and to its peers [default: the host's name and the port]
    #[arg(help_heading = "Waking", value_name = "NAME")]
    server_name: String, "BUGLE_SERVER_NAME";
    /// Between two looks for what nobody told, while no carrier is healthy [default: 100ms]
    #[arg(help_heading = "Waking", value_name = "DURATION")]
    pop_wait_base: Span, "BUGLE_POP_WAIT_BASE";
    /// The same while the last look found something [default: 50ms]
    #[arg(help_heading = "Waking", value_name = "DURATION")]
    pop_wait_active: Span, "BUGLE_POP_WAIT_ACTIVE";
    /// Looks that find nothing before the interval grows [default: 3]
    #[arg(help_heading = "Waking", value_name = "N")]
    pop_wait_threshold: u32, "BUGLE_POP_WAIT_THRESHOLD";
    /// Factor by which it grows [default: 2]
    #[arg(help_heading = "Waking", value_name = "X")]
    pop_wait_multiplier: f64, "BUGLE_POP_WAIT_MULTIPLIER";
    /// Longest interval while no carrier is healthy [default: 1s]
    #[arg(help_heading = "Waking", value_name = "DURATION")]
    pop_wait_max: Span, "BUGLE_POP_WAIT_MAX";
    /// Interval while a carrier is proven healthy [default: 15s]
    #[arg(help_heading = "Waking", value_name = "DURATION")]
    pop_wait_with_carrier: Span, "BUGLE_POP_WAIT_WITH_CARRIER";
    /// Look for all waiting pops together before any of them claims [default: true]
    #[arg(help_heading = "Waking", value_name = "BOOL")]
    pending_check: bool, "BUGLE_PENDING_CHECK";
    /// At shorter intervals, while few wait, claim without that look [default: 500ms]
    #[arg(help_heading = "Waking", value_name = "DURATION")]
    pending_check_from: Span, "BUGLE_PENDING_CHECK_FROM";
    /// Serve pops that come together by one store call [default: true]
    #[arg(help_heading = "Waking", value_name = "BOOL")]
    pop_batching: bool, "BUGLE_POP_BATCHING";
    /// Accepted and ignored: waiting pops need no workers
    #[arg(help_heading = "Waking", value_name = "N")]
    poll_worker_count: u32, "BUGLE_POLL_WORKER_COUNT";

    /// Most requests queued per verb before 429 is answered [default: 100000]
    #[arg(help_heading = "Tuning", value_name = "N")]
    max_queued: usize, "BUGLE_MAX_QUEUED";
    /// Store calls in flight per verb; load decides, and one that takes long does not count [default: 2,8, or 1,8 on PostgreSQL]
    #[arg(help_heading = "Tuning", value_name = "MIN,MAX")]
    calls_in_flight: Range, "BUGLE_CALLS_IN_FLIGHT";
    /// Threads that answer requests; 0: the machine's cores less one, which is left to the store [default: 0]
    #[arg(help_heading = "Tuning", value_name = "N")]
    worker_threads: usize, "BUGLE_WORKER_THREADS";
    /// Serve woken waiters before new pops [default: true]
    #[arg(help_heading = "Tuning", value_name = "BOOL")]
    priority_dispatch: bool, "BUGLE_PRIORITY_DISPATCH";
    /// Partitions a pop tries in one round [default: 100]
    #[arg(help_heading = "Tuning", value_name = "N")]
    max_candidates: usize, "BUGLE_MAX_CANDIDATES";
    /// Rounds of a pop whose partitions went to others [default: 3]
    #[arg(help_heading = "Tuning", value_name = "N")]
    claim_rounds: usize, "BUGLE_CLAIM_ROUNDS";
    /// Memory for finding duplicates [default: 96MiB]
    #[arg(help_heading = "Tuning", value_name = "SIZE")]
    dedupe_memory: Size, "BUGLE_DEDUPE_MEMORY";
    /// Memory for fresh messages [default: 64MiB]
    #[arg(help_heading = "Tuning", value_name = "SIZE")]
    segment_cache: Size, "BUGLE_SEGMENT_CACHE";
    /// Compress stored messages where it saves room [default: off]
    ///
    /// Messages that are pushed together are compressed together; short and encrypted ones are left alone, and so are those of queues where
    /// it does not pay. All servers on one database must be able to read it before one writes it (docs/tuning.md).
    #[arg(help_heading = "Tuning", value_name = "CODEC")]
    compression: Compression, "BUGLE_COMPRESSION";
    /// Partitions kept in memory [default: 200000]
    #[arg(help_heading = "Tuning", value_name = "N")]
    max_cached_partitions: usize, "BUGLE_MAX_CACHED_PARTITIONS";
}
