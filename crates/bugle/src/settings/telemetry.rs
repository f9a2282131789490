//! Where traces and metrics are sent: our own settings, and below them OpenTelemetry's environment variables.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bugle_http::TelemetryConfig;
use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::amount::Span;
use super::checked::{get, hostname, lasting};
use super::old::Env;
use super::raw::Raw;

/// Paths of the two signals under the endpoint.
const TRACES: &str = "v1/traces";
const METRICS: &str = "v1/metrics";

pub(super) fn defaults() -> Raw {
    Raw {
        otlp_traces: Some(true),
        otlp_metrics: Some(true),
        otlp_timeout: Some(Span(Duration::from_secs(10))),
        otlp_sample_ratio: Some(1.0),
        otlp_metrics_interval: Some(Span(Duration::from_secs(60))),
        otlp_service_name: Some("bugle".into()),
        ..Raw::default()
    }
}

/// Without what may be a secret.
pub(super) fn redact(raw: &mut Raw) {
    raw.otlp_headers = raw.otlp_headers.take().map(|_| "<redacted>".into());
    raw.otlp_endpoint = raw.otlp_endpoint.take().map(|endpoint| super::checked::redacted(&endpoint));
}

/// Check what was said. `None`: nothing is sent.
pub(super) fn check(raw: &Raw) -> Result<Option<TelemetryConfig>> {
    let ratio = get(raw.otlp_sample_ratio, "otlp-sample-ratio")?;
    ensure!((0.0..=1.0).contains(&ratio), "otlp-sample-ratio must be between 0 and 1");
    let timeout = lasting(raw.otlp_timeout, "otlp-timeout")?;
    let metrics_interval = lasting(raw.otlp_metrics_interval, "otlp-metrics-interval")?;
    let headers = headers(raw.otlp_headers.as_deref().unwrap_or_default())?;
    let resource = resource(raw)?;
    let Some(endpoint) = raw.otlp_endpoint.as_deref().filter(|text| !matches!(*text, "" | "off")) else {
        return Ok(None);
    };
    let (traces, metrics) = (get(raw.otlp_traces, "otlp-traces")?, get(raw.otlp_metrics, "otlp-metrics")?);
    let to = |wanted: bool, path| if wanted { address(endpoint, path).map(Some) } else { Ok(None) };
    let (traces, metrics) = (to(traces, TRACES)?, to(metrics, METRICS)?);
    Ok(Some(TelemetryConfig { traces, metrics, headers, timeout, ratio, metrics_interval, resource }))
}

/// Complaints do not quote it: an address may carry credentials.
fn address(endpoint: &str, path: &str) -> Result<Uri> {
    let wrong = "otlp-endpoint must be `off` or an address like http://localhost:4318";
    let uri: Uri = format!("{}/{path}", endpoint.trim_end_matches('/')).parse().context(wrong)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        bail!(wrong);
    }
    ensure!(!endpoint.contains('@'), "otlp-endpoint: give credentials by otlp-headers");
    Ok(uri)
}

/// `name=value,name2=value2`, values percent-encoded where they need to be. Complaints never quote a value.
fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let pairs = pairs(text).context("otlp-headers")?;
    pairs
        .into_iter()
        .enumerate()
        .map(|(at, (name, value))| {
            let name = HeaderName::try_from(name).ok();
            let value = HeaderValue::try_from(value).ok();
            let (Some(name), Some(mut value)) = (name, value) else {
                bail!("otlp-headers: header {} cannot be sent", at + 1);
            };
            value.set_sensitive(true);
            Ok((name, value))
        })
        .collect()
}

/// What sends: the name of the service last, since it stands for itself.
fn resource(raw: &Raw) -> Result<Vec<(String, String)>> {
    let said = pairs(raw.otlp_resource.as_deref().unwrap_or_default()).context("otlp-resource")?;
    let mut all: Vec<(String, String)> = vec![
        ("service.version".into(), env!("CARGO_PKG_VERSION").into()),
        ("host.name".into(), hostname()),
        ("telemetry.sdk.name".into(), "bugle".into()),
        ("telemetry.sdk.language".into(), "rust".into()),
        ("telemetry.sdk.version".into(), env!("CARGO_PKG_VERSION").into()),
    ];
    all.retain(|(key, _)| said.iter().all(|(said, _)| said != key));
    all.extend(said);
    let name = get(raw.otlp_service_name.clone(), "otlp-service-name")?;
    let named = all.iter().any(|(key, _)| key == "service.name");
    if !named || Some(&name) != defaults().otlp_service_name.as_ref() {
        all.retain(|(key, _)| key != "service.name");
        all.push(("service.name".into(), name));
    }
    Ok(all)
}

fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .enumerate()
        .map(|(at, part)| {
            let (key, value) = part.split_once('=').with_context(|| format!("part {} has no =", at + 1))?;
            let value = percent_decode_str(value.trim()).decode_utf8();
            let value = value.with_context(|| format!("part {} is not UTF-8", at + 1))?;
            ensure!(!key.trim().is_empty(), "part {} has no name", at + 1);
            Ok((key.trim().to_owned(), value.into_owned()))
        })
        .collect()
}

/// What OpenTelemetry's own variables say. As its specification wants it, values that cannot be read count as unset.
pub(super) fn environment(env: Env<'_>) -> Raw {
    if env("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Raw::default();
    }
    let millis = |name: &str| {
        let number = env(name).and_then(|text| text.trim().parse().ok()).filter(|ms| *ms > 0);
        number.map(|ms| Span(Duration::from_millis(ms)))
    };
    let switched_off = |name: &str| env(name).filter(|exporter| exporter == "none").map(|_| false);
    Raw {
        otlp_endpoint: env("OTEL_EXPORTER_OTLP_ENDPOINT").filter(|_| speaks(env)),
        otlp_headers: env("OTEL_EXPORTER_OTLP_HEADERS"),
        otlp_timeout: millis("OTEL_EXPORTER_OTLP_TIMEOUT"),
        otlp_metrics_interval: millis("OTEL_METRIC_EXPORT_INTERVAL"),
        otlp_traces: switched_off("OTEL_TRACES_EXPORTER"),
        otlp_metrics: switched_off("OTEL_METRICS_EXPORTER"),
        otlp_sample_ratio: sampler(env),
        otlp_service_name: env("OTEL_SERVICE_NAME"),
        otlp_resource: env("OTEL_RESOURCE_ATTRIBUTES"),
        ..Raw::default()
    }
}

/// Whether the endpoint of the environment is one for us.
fn speaks(env: Env<'_>) -> bool {
    env("OTEL_EXPORTER_OTLP_PROTOCOL").is_none_or(|protocol| protocol == "http/protobuf")
}

/// What the operator should know about these variables.
pub(super) fn warning(env: Env<'_>) -> Option<String> {
    (env("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() && !speaks(env)).then(|| {
        "OTEL_EXPORTER_OTLP_ENDPOINT is not used: OTEL_EXPORTER_OTLP_PROTOCOL is not http/protobuf, which is what is spoken here; \
         give otlp-endpoint"
            .into()
    })
}

fn sampler(env: Env<'_>) -> Option<f64> {
    match env("OTEL_TRACES_SAMPLER")?.as_str() {
        "always_on" | "parentbased_always_on" => Some(1.0),
        "always_off" | "parentbased_always_off" => Some(0.0),
        "traceidratio" | "parentbased_traceidratio" => {
            let ratio: f64 = env("OTEL_TRACES_SAMPLER_ARG")?.trim().parse().ok()?;
            (0.0..=1.0).contains(&ratio).then_some(ratio)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<String> {
        Some(text.into())
    }

    fn checked(raw: Raw) -> Result<Option<TelemetryConfig>> {
        check(&raw.or(defaults()))
    }

    fn value<'a>(config: &'a TelemetryConfig, key: &str) -> Vec<&'a str> {
        config.resource.iter().filter(|(k, _)| k == key).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn nothing_is_sent_unless_told_where() {
        for endpoint in [None, text(""), text("off")] {
            assert!(checked(Raw { otlp_endpoint: endpoint, ..Raw::default() }).unwrap().is_none());
        }
        let raw = Raw { otlp_endpoint: text("http://c:4318/"), otlp_metrics: Some(false), ..Raw::default() };
        let config = checked(raw).unwrap().unwrap();
        assert_eq!(config.traces.as_ref().unwrap(), "http://c:4318/v1/traces");
        assert_eq!((config.metrics.as_ref(), config.ratio), (None, 1.0));
        assert_eq!(value(&config, "service.name"), ["bugle"]);
        assert_eq!(value(&config, "service.version"), [env!("CARGO_PKG_VERSION")]);
    }

    #[test]
    fn what_was_said_of_the_resource_counts() {
        let of = |name: Option<String>, resource: &str| {
            let raw = Raw {
                otlp_endpoint: text("http://c:4318"),
                otlp_service_name: name,
                otlp_resource: text(resource),
                ..Raw::default()
            };
            checked(raw).unwrap().unwrap()
        };
        let config = of(None, "service.name=shop, host.name=h%2C1,");
        assert_eq!(
            (value(&config, "service.name"), value(&config, "host.name")),
            (vec!["shop"], vec!["h,1"])
        );
        let config = of(text("till"), "service.name=shop");
        assert_eq!(value(&config, "service.name"), ["till"]);
    }

    #[test]
    fn nonsense_is_refused_by_name_without_its_value() {
        let endpoint = || text("http://c:4318");
        for (raw, word) in [
            (Raw { otlp_endpoint: text("s3cret"), ..Raw::default() }, "otlp-endpoint"),
            (Raw { otlp_endpoint: text("grpc://s3cret:4317"), ..Raw::default() }, "otlp-endpoint"),
            (Raw { otlp_endpoint: text("http://me:s3cret@c"), ..Raw::default() }, "otlp-endpoint"),
            (
                Raw { otlp_endpoint: endpoint(), otlp_headers: text("s3cret"), ..Raw::default() },
                "otlp-headers",
            ),
            (
                Raw { otlp_endpoint: endpoint(), otlp_headers: text("a b=s3cret"), ..Raw::default() },
                "otlp-headers",
            ),
            (Raw { otlp_sample_ratio: Some(1.5), ..Raw::default() }, "otlp-sample-ratio"),
            (
                Raw { otlp_metrics_interval: Some(Span(Duration::ZERO)), ..Raw::default() },
                "otlp-metrics-interval",
            ),
        ] {
            let error = format!("{:#}", checked(raw).unwrap_err());
            assert!(error.contains(word) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn headers_are_not_shown() {
        let mut raw = Raw {
            otlp_endpoint: text("http://c:4318"),
            otlp_headers: text("authorization=Bearer%20s3cret"),
            ..Raw::default()
        };
        let config = checked(raw.clone()).unwrap().unwrap();
        assert_eq!(config.headers[0].1, "Bearer s3cret");
        assert!(!format!("{config:?}").contains("s3cret"));
        redact(&mut raw);
        assert!(!format!("{raw:?}").contains("s3cret"));
    }

    #[test]
    fn the_variables_of_opentelemetry_are_read() {
        let env = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => text("http://c:4318"),
            "OTEL_SERVICE_NAME" => text("shop"),
            "OTEL_TRACES_SAMPLER" => text("parentbased_traceidratio"),
            "OTEL_TRACES_SAMPLER_ARG" => text("0.25"),
            "OTEL_METRICS_EXPORTER" => text("none"),
            "OTEL_EXPORTER_OTLP_TIMEOUT" => text("2000"),
            "OTEL_METRIC_EXPORT_INTERVAL" => text("soon"),
            _ => None,
        };
        let raw = environment(&env);
        assert_eq!(
            (raw.otlp_endpoint.as_deref(), raw.otlp_sample_ratio),
            (Some("http://c:4318"), Some(0.25))
        );
        assert_eq!((raw.otlp_traces, raw.otlp_metrics), (None, Some(false)));
        assert_eq!((raw.otlp_timeout, raw.otlp_metrics_interval), (Some(Span(Duration::from_secs(2))), None));
        assert_eq!((raw.otlp_service_name.as_deref(), warning(&env)), (Some("shop"), None));
        let disabled = |name: &str| if name == "OTEL_SDK_DISABLED" { text("TRUE") } else { env(name) };
        assert_eq!(environment(&disabled), Raw::default());
        let grpc = |name: &str| if name == "OTEL_EXPORTER_OTLP_PROTOCOL" { text("grpc") } else { env(name) };
        assert_eq!(environment(&grpc).otlp_endpoint, None);
        assert!(warning(&grpc).unwrap().contains("http/protobuf"));
    }
}
