//! A way to the database that can be cut and mended.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on while whole; ends them all while cut, new ones too.
pub(crate) struct WireCutter {
    address: SocketAddr,
    whole: watch::Sender<bool>,
}

impl WireCutter {
    /// In front of the server that a `postgres://` address names; the address to use instead.
    pub(crate) async fn before(address: &str) -> (Self, String) {
        let rest = address.split_once("://").unwrap().1;
        let place = rest.split(['/', '?']).next().unwrap();
        let host = place.rsplit_once('@').map_or(place, |(_, host)| host).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cutter = Self { address: listener.local_addr().unwrap(), whole: watch::Sender::new(true) };
        let instead = address.replacen(&host, &cutter.address.to_string(), 1);
        tokio::spawn(pass_on(listener, host, cutter.whole.subscribe()));
        (cutter, instead)
    }

    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn pass_on(listener: TcpListener, host: String, whole: watch::Receiver<bool>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let (host, mut whole) = (host.clone(), whole.clone());
        tokio::spawn(async move {
            let through = async {
                let mut far = TcpStream::connect(host).await?;
                copy_bidirectional(&mut near, &mut far).await
            };
            tokio::select! {
                biased;
                _ = whole.wait_for(|whole| !whole) => {}
                _ = through => {}
            }
        });
    }
}
