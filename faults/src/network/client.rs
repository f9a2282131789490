//! Trouble between clients and servers.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::{Load, Terms};

use super::Trouble;
use crate::proxy::{Protocol, Proxy, Weather};
use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// See the module.
pub(crate) struct Client {
    pub(crate) trouble: Trouble,
    pub(crate) engine: Engine,
}

#[async_trait]
impl Scenario for Client {
    fn name(&self) -> &'static str {
        match self.trouble {
            Trouble::Delay => "client-delay",
            Trouble::Cut => "client-cut",
            Trouble::Silence => "client-black-hole",
            Trouble::Trickle => "client-slow-loris",
        }
    }

    fn about(&self) -> &'static str {
        match self.trouble {
            Trouble::Delay => "everything between clients and servers comes up to 150 ms late",
            Trouble::Cut => "connections of clients are cut in the middle of a request or an answer",
            Trouble::Silence => "requests are done, their answers swallowed, connections left half open",
            Trouble::Trickle => "half of the clients' connections pass 7 bytes each 20 ms",
        }
    }

    fn engine(&self) -> Engine {
        self.engine
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let (_database, servers) = stage.cast(self.engine, 2).await?;
        let mut proxies = Vec::new();
        for server in &servers {
            proxies.push(Proxy::before(server.address(), Protocol::Http).await?);
        }
        let urls: Vec<String> = proxies.iter().map(|proxy| format!("http://{}", proxy.address())).collect();
        let load = stage.load(urls.iter().map(String::as_str));
        // Some of what is under way is done after the client has gone.
        let load = Load { settle: Duration::from_secs(1), ..load };
        let mut trial = stage.begin(&load)?;
        while trial.goes_on() {
            trial.traffic(100).await?;
            let proxy = &proxies[stage.rng.usize(..proxies.len())];
            trial.injected += self.trouble(proxy, stage).await;
        }
        for proxy in &proxies {
            proxy.weather(Weather::Clear);
            proxy.release();
        }
        trial.judge(stage, &Terms::default()).await
    }
}

impl Client {
    /// Make it once; how many connections it met.
    async fn trouble(&self, proxy: &Proxy, stage: &mut Stage) -> u64 {
        let while_it_lasts = Duration::from_millis(stage.rng.u64(200..1500));
        match self.trouble {
            Trouble::Delay | Trouble::Trickle => {
                proxy.weather(self.trouble.weather());
                tokio::time::sleep(while_it_lasts).await;
                proxy.weather(Weather::Clear);
                1
            }
            Trouble::Cut => {
                let before = proxy.cuts();
                proxy.cut(stage.rng.u64(1..6));
                tokio::time::sleep(while_it_lasts / 4).await;
                proxy.cuts() - before
            }
            Trouble::Silence => {
                let before = proxy.swallowed();
                proxy.swallow(stage.rng.u64(1..4));
                tokio::time::sleep(while_it_lasts / 2).await;
                proxy.swallowed() - before
            }
        }
    }
}
