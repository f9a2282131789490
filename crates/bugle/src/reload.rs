//! SIGHUP: read the settings' sources and files again, and put into force what can change without a restart:
//! certificate and key, API keys, token keys, limits of callers, origins, hosts, the access log and the log level.
//!
//! Settings that cannot be read change nothing; a part that cannot be used stays as it was. Both are told.

use anyhow::{Context, Result, bail, ensure};
use bugle_http::{Gate, GateConfig, Tls};

use crate::logs::Logs;
use crate::settings::{ServeArgs, Settings, Sources, TlsFiles};

/// What can be changed, and where the changes come from.
pub(crate) struct Reload {
    pub(crate) args: ServeArgs,
    pub(crate) logs: Logs,
    pub(crate) gate: Gate,
    pub(crate) tls: Option<Tls>,
    pub(crate) loopback: bool,
}

impl Reload {
    /// Read everything again.
    pub(crate) fn run(&self) {
        let settings = match self.settings() {
            Ok(settings) => settings,
            Err(error) => return failed("settings", &error),
        };
        let level = self.logs.set(&settings.log_level);
        let certificate = self.certificate(settings.auth.tls.as_ref());
        let gate = GateConfig { loopback: self.loopback, ..settings.auth.gate };
        let gate = self.gate.replace(gate).map_err(anyhow::Error::from);
        let mut good = true;
        for (part, outcome) in [("log level", level), ("certificate", certificate), ("authentication", gate)]
        {
            if let Err(error) = outcome {
                good = false;
                failed(part, &error);
            }
        }
        if good {
            tracing::info!("settings and files read again");
        }
    }

    fn settings(&self) -> Result<Settings> {
        let settings = Settings::check(Sources::gather(self.args.clone())?.raw)?;
        let open = self.loopback || settings.insecure;
        ensure!(open || settings.auth.on(), "there would be no authentication any more");
        Ok(settings)
    }

    fn certificate(&self, files: Option<&TlsFiles>) -> Result<()> {
        match (&self.tls, files) {
            (Some(tls), Some(files)) => {
                let (certificate, key) = read_files(files)?;
                tls.replace(&certificate, &key).context("tls-cert, tls-key")
            }
            (None, None) => Ok(()),
            _ => bail!("TLS is switched on and off by a restart only"),
        }
    }
}

fn failed(part: &str, error: &anyhow::Error) {
    tracing::error!(part, error = format!("{error:#}"), "reload failed; what was in force stays in force");
}

/// The certificate and key in these files.
pub(crate) fn read_tls(files: &TlsFiles) -> Result<Tls> {
    let (certificate, key) = read_files(files)?;
    Tls::from_pem(&certificate, &key).context("tls-cert, tls-key")
}

fn read_files(files: &TlsFiles) -> Result<(Vec<u8>, Vec<u8>)> {
    let read = |name: &str, path: &std::path::Path| {
        std::fs::read(path).with_context(|| format!("{name} {}", path.display()))
    };
    Ok((read("tls-cert", &files.certificate)?, read("tls-key", &files.key)?))
}
