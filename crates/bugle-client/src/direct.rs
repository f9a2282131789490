//! Routes of the API that have no words of their own here, read and written as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::Error;
use crate::transport::{Call, encoded};

impl Client {
    /// Read a route: `path` are the parts of its path, `query` what is asked. An answer without a body reads as `null`, so
    /// an `Option` takes it. As every read, it is tried again while servers are busy or away.
    ///
    /// ```no_run
    /// # async fn example(client: bugle_client::Client) -> Result<(), bugle_client::Error> {
    /// let overview: serde_json::Value = client.read_json(&["api", "v1", "resources", "overview"], &[]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_json<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Error> {
        let answer = self.transport.call(&Call::get(spelled(path, query))).await?;
        if answer.is_empty() {
            return serde_json::from_str("null").map_err(|e| Error::Answer(e.into()));
        }
        answer.json()
    }

    /// Send `body` to a route by POST. Like a push it may be sent again when an answer was lost, so it must be something that
    /// can be done twice.
    pub async fn send_json<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.transport.ask(&Call::post(spelled(path, &[]), body)?).await
    }

    /// The server's counters and gauges, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, Error> {
        let answer = self.transport.call(&Call::get("/metrics/prometheus")).await?;
        Ok(String::from_utf8_lossy(answer.bytes()).into_owned())
    }
}

fn spelled(path: &[&str], query: &[(&str, &str)]) -> String {
    let mut text: String = path.iter().map(|part| format!("/{}", encoded(part))).collect();
    for (index, (name, value)) in query.iter().enumerate() {
        let join = if index == 0 { '?' } else { '&' };
        text.push_str(&format!("{join}{}={}", encoded(name), encoded(value)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_values_cannot_leave_their_places() {
        assert_eq!(spelled(&["api", "a/b"], &[]), "/api/a%2Fb");
        assert_eq!(spelled(&["x"], &[("q", "a&b=c"), ("n", "1")]), "/x?q=a%26b%3Dc&n=1");
    }
}
