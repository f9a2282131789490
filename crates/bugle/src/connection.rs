//! Which server a command talks to, and in whose name. Shared by all commands that are clients of the API.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bugle_client::{Client, ClientBuilder, RetryPolicy};
use clap::Args;

/// Somebody waits at a terminal: a server that is not there is told soon.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Where the server is, and the credential.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// The server
    #[arg(
        long,
        env = "BUGLE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:6632",
        help_heading = "Server"
    )]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) credential: CredentialArgs,
}

/// What proves who asks.
#[derive(Clone, Debug, Args)]
pub(crate) struct CredentialArgs {
    /// API key or token; better given by the environment or a file than as a flag
    #[arg(long, env = "BUGLE_API_KEY", hide_env_values = true, value_name = "KEY", help_heading = "Server")]
    api_key: Option<String>,
    /// File to read --api-key from
    #[arg(
        long,
        env = "BUGLE_API_KEY_FILE",
        value_name = "FILE",
        conflicts_with = "api_key",
        help_heading = "Server"
    )]
    api_key_file: Option<PathBuf>,
    /// Certificate authorities (PEM) to trust instead of the machine's
    #[arg(long, env = "BUGLE_CA", value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,
}

impl ConnectionArgs {
    /// A client that gives up soon.
    pub(crate) fn client(&self) -> Result<Client> {
        self.credential.client(&self.server)
    }

    /// A client to be set up further.
    pub(crate) fn builder(&self) -> Result<ClientBuilder> {
        self.credential.builder(&self.server)
    }
}

impl CredentialArgs {
    /// A client of the server at `url` that gives up soon.
    pub(crate) fn client(&self, url: &str) -> Result<Client> {
        let retry = RetryPolicy::new(ATTEMPTS, FIRST_PAUSE, LONGEST_PAUSE);
        Ok(self.builder(url)?.retry(retry).build()?)
    }

    /// A client of the server at `url`, to be set up further.
    pub(crate) fn builder(&self, url: &str) -> Result<ClientBuilder> {
        let mut builder = Client::builder(url);
        let key = match (&self.api_key, &self.api_key_file) {
            (Some(key), _) => Some(key.clone()),
            (None, Some(path)) => {
                let text =
                    fs::read_to_string(path).with_context(|| format!("api-key-file {}", path.display()))?;
                Some(text.trim().to_owned())
            }
            (None, None) => None,
        };
        if let Some(key) = key {
            builder = builder.api_key(key);
        }
        if let Some(path) = &self.ca {
            let pem = fs::read(path).with_context(|| format!("ca {}", path.display()))?;
            builder = builder.certificate_authority(pem);
        }
        Ok(builder)
    }
}
