//! Settings of other programs that documents give: tried by the programs themselves, with a waiting consumer behind them.

use super::reader::{Reader, free_port};
use crate::support::until;

/// A consumer that waits behind the proxy is woken by a push through it, under the name that clients use.
fn waits_behind(reader: &Reader, port: u16) {
    let url = format!("http://127.0.0.1:{port}");
    until("the proxy hands on", || {
        reader.shell(&format!("curl -sf {url}/health -H 'Host: localhost' > /dev/null")).status == 0
    });
    let ran = reader.shell(&format!(
        "curl -sf '{url}/api/v1/pop/queue/behind-{port}?wait=true&timeout=20000' -H 'Host: localhost' & waits=$!
         until curl -sf {url}/api/v1/waiting -H 'Host: localhost' | grep -q behind-{port}; do sleep 0.05; done
         curl -sf {url}/api/v1/push -H 'Host: localhost' -d '{{\"items\":[{{\"queue\":\"behind-{port}\",\"payload\":7}}]}}' > /dev/null
         wait $waits"
    ));
    assert!(ran.ok().contains("\"data\":7"));
}

/// Where the proxy listens and leads to is of the test.
fn here(reader: &Reader, text: &str, port: u16) -> String {
    let server = reader.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    text.replace("8080", &port.to_string()).replace("127.0.0.1:6632", &server)
}

pub(super) fn nginx(reader: &Reader, text: &str) {
    let port = free_port();
    let dir = reader.dir().display().to_string();
    let text = here(reader, text, port).replace("listen ", "listen 127.0.0.1:");
    let whole = format!(
        "daemon off;\npid {dir}/nginx.pid;\nerror_log {dir}/nginx.log;\nevents {{}}\nhttp {{\naccess_log off;\n\
         client_body_temp_path {dir}/b;\nproxy_temp_path {dir}/p;\nfastcgi_temp_path {dir}/f;\nuwsgi_temp_path {dir}/u;\n\
         scgi_temp_path {dir}/s;\n{text}}}\n"
    );
    let file = reader.file("nginx.conf", &whole).display().to_string();
    reader.shell(&format!("PATH=$PATH:/usr/sbin nginx -t -c {file}")).ok();
    let _running = reader.background("/usr/sbin/nginx", &["-c", &file, "-g", "master_process off;"]);
    waits_behind(reader, port);
}

pub(super) fn haproxy(reader: &Reader, text: &str) {
    let port = free_port();
    // Patroni's clients: there is no Patroni here, so its settings are checked and not used.
    let runs = text.contains("127.0.0.1:6632");
    let times = "defaults\n  timeout connect 5s\n  timeout client 150s\n  timeout server 150s\n";
    let whole = format!("{times}{}", here(reader, text, port).replace("bind :", "bind 127.0.0.1:"));
    let file = reader.file("haproxy.cfg", &whole).display().to_string();
    reader.shell(&format!("PATH=$PATH:/usr/sbin haproxy -c -f {file}")).ok();
    if runs {
        let _running = reader.background("/usr/sbin/haproxy", &["-db", "-f", &file]);
        waits_behind(reader, port);
    }
}

/// A PgBouncer as it is written, in front of the test's database; `bugle serve` is tried through it by what follows.
pub(super) fn pools(reader: &Reader, text: &str) {
    let (host, port) = reader.database().split_once(':').unwrap();
    let dir = reader.dir().display();
    // It does not run as root, and then needs a directory of its own.
    let config = text
        .replace("host=db port=5432", &format!("host={host} port={port}"))
        .replace("listen_addr = *", "listen_addr = 127.0.0.1")
        .replace("listen_port = 6432", &format!("listen_port = {}", reader.pooler()))
        .replace("/etc/pgbouncer", &format!("{dir}/pool"));
    assert_eq!(config.matches("127.0.0.1").count(), 2, "{config}");
    let more = format!("{config}unix_socket_dir =\nlogfile = {dir}/pool/log\npidfile = {dir}/pool/pid\n");
    std::fs::create_dir(reader.dir().join("pool")).unwrap();
    let file = reader.file("pool/config.ini", &more).display().to_string();
    reader.file("pool/userlist.txt", "\"bugle\" \"secret\"\n");
    let own = format!("if [ $(id -u) = 0 ]; then chmod a+rx {dir}; chown -R postgres {dir}/pool; fi; id -u");
    let root = reader.shell(&own).ok().trim() == "0";
    let user = ["--reuid=postgres", "--regid=postgres", "--clear-groups", "/usr/sbin/pgbouncer", &file];
    reader.keep(match root {
        true => reader.background("setpriv", &user),
        false => reader.background("/usr/sbin/pgbouncer", &[&file]),
    });
    let port = reader.pooler();
    let ask = format!("PGPASSWORD=secret psql -h 127.0.0.1 -p {port} -U bugle -d bugle -c 'SELECT 1'");
    until("the pooler hands on", || reader.shell(&ask).status == 0);
}

/// Written so that it can be read.
pub(super) fn yaml(reader: &Reader, text: &str) {
    let file = reader.file("settings.yaml", text).display().to_string();
    let parse = format!(
        "/usr/bin/python3 -c 'import sys, yaml; assert isinstance(yaml.safe_load(open(sys.argv[1])), dict)' {file}"
    );
    reader.shell(&parse).ok();
}
