//! Gathers what all sources say: flags before environment before file before old names before those of OpenTelemetry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::raw::Raw;
use super::{old, telemetry};

/// Arguments of `bugle serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// TOML file with settings, named as the flags are
    #[arg(long, env = "BUGLE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the settings in force, without secrets, and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(flatten)]
    raw: Raw,
}

/// What was said, with one word for each setting.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The settings.
    pub(crate) raw: Raw,
    /// What the operator should know about old names.
    pub(crate) warning: Option<String>,
}

impl Sources {
    /// Gather. Flags and the environment were read by clap already.
    pub(crate) fn gather(args: ServeArgs) -> Result<Self> {
        let file = args.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        let set = set.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let warnings: Vec<String> = old::warning(set).into_iter().chain(telemetry::warning(&env)).collect();
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        // Secrets become plain values before sources are merged: a file named by a flag beats a value in the environment's
        // file, and so on.
        let raw = secrets(args.raw)?.or(secrets(file)?).or(old::read(&env)?).or(telemetry::environment(&env));
        Ok(Self { raw, warning })
    }

    /// Where each setting that was said comes from, by its name. `is_flag` tells flags from environment variables, which clap
    /// has put together.
    pub(crate) fn origins(
        args: ServeArgs,
        is_flag: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, String>> {
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut origins = BTreeMap::new();
        // The lowest source first: those that win write over it.
        for name in names(telemetry::environment(&env))? {
            origins.insert(name, "environment, OpenTelemetry's name".to_owned());
        }
        for name in names(old::read(&env)?)? {
            origins.insert(name, "environment, an older name".to_owned());
        }
        if let Some(path) = &args.config {
            for name in names(secrets(read_file(path)?)?)? {
                origins.insert(name, format!("file {}", path.display()));
            }
        }
        for name in names(secrets(args.raw)?)? {
            let source = if is_flag(&name) { "flag" } else { "environment" };
            origins.insert(name, source.to_owned());
        }
        Ok(origins)
    }
}

/// What a source says anything about.
fn names(raw: Raw) -> Result<Vec<String>> {
    Ok(toml::Table::try_from(raw)?.into_iter().map(|(name, _)| name).collect())
}

fn read_file(path: &Path) -> Result<Raw> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("config file {shown}"))?;
    toml::from_str(&text).with_context(|| format!("config file {shown}"))
}

/// Replace the `*-file` settings of one source by what the files say.
fn secrets(mut raw: Raw) -> Result<Raw> {
    let Raw {
        store,
        store_file,
        encryption_key,
        encryption_key_file,
        listen_store,
        listen_store_file,
        udp_secret,
        udp_secret_file,
        api_keys,
        api_keys_file,
        jwt_secret,
        jwt_secret_file,
        jwt_public_key,
        jwt_public_key_file,
        limit_callers,
        limit_callers_file,
        otlp_headers,
        otlp_headers_file,
        ..
    } = &mut raw;
    for (name, value, file) in [
        ("store", store, store_file),
        ("encryption-key", encryption_key, encryption_key_file),
        ("listen-store", listen_store, listen_store_file),
        ("udp-secret", udp_secret, udp_secret_file),
        ("api-keys", api_keys, api_keys_file),
        ("jwt-secret", jwt_secret, jwt_secret_file),
        ("jwt-public-key", jwt_public_key, jwt_public_key_file),
        ("limit-callers", limit_callers, limit_callers_file),
        ("otlp-headers", otlp_headers, otlp_headers_file),
    ] {
        let Some(path) = file.take() else { continue };
        if value.is_some() {
            bail!("{name} and {name}-file are both set; one is enough");
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{name}-file {}", path.display()))?;
        *value = Some(text.trim().to_owned());
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::amount::{Range, Size, Span};
    use std::time::Duration;

    fn file(text: &str) -> Result<Raw> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bugle.toml");
        std::fs::write(&path, text).unwrap();
        read_file(&path)
    }

    #[test]
    fn a_file_uses_the_names_of_the_flags() {
        let raw = file("listen = '0.0.0.0:1'\nmax-body = 1000\nheader-timeout = '5s'\npg-connections = [2, 4]\npg-pooler = true")
            .unwrap();
        assert_eq!(raw.listen.as_deref(), Some("0.0.0.0:1"));
        assert_eq!(raw.max_body, Some(Size(1000)));
        assert_eq!(raw.header_timeout, Some(Span(Duration::from_secs(5))));
        assert_eq!((raw.pg_connections, raw.pg_pooler), (Some(Range(2, 4)), Some(true)));
    }

    #[test]
    fn a_file_with_an_unknown_name_or_a_wrong_value_is_refused() {
        assert!(format!("{:#}", file("listn = 'x'").unwrap_err()).contains("listn"));
        assert!(format!("{:#}", file("max-body = 'big'").unwrap_err()).contains("no size"));
    }

    #[test]
    fn secrets_are_read_from_files_and_not_given_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "abc\n").unwrap();
        let raw = Raw { encryption_key_file: Some(path.clone()), ..Raw::default() };
        assert_eq!(secrets(raw).unwrap().encryption_key.as_deref(), Some("abc"));
        let twice = Raw { store: Some("embedded".into()), store_file: Some(path), ..Raw::default() };
        assert_eq!(
            secrets(twice).unwrap_err().to_string(),
            "store and store-file are both set; one is enough"
        );
    }

    #[test]
    fn the_first_source_wins_field_by_field() {
        let high = Raw { listen: Some("a".into()), ..Raw::default() };
        let low = Raw { listen: Some("b".into()), max_batch: Some(3), ..Raw::default() };
        let both = high.or(low);
        assert_eq!((both.listen.as_deref(), both.max_batch), (Some("a"), Some(3)));
    }
}
