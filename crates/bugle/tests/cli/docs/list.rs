//! What differs between a reader's machine and a test's: the one list. A command that is neither here nor runs as it is written
//! fails the test, and so does an entry that is no longer used.

/// A part of a block that is run in another form.
pub(super) struct Instead {
    pub(super) file: &'static str,
    pub(super) written: &'static str,
    /// `{server}`, `{dir}`, `{pg}` (host and port) and `{pooler}` are those of the test.
    pub(super) run: &'static str,
    pub(super) why: &'static str,
}

/// A command that is not run.
pub(super) struct NotRun {
    pub(super) file: &'static str,
    /// How the block or the command in a sentence begins.
    pub(super) begins: &'static str,
    pub(super) why: &'static str,
}

const fn instead(file: &'static str, written: &'static str, run: &'static str, why: &'static str) -> Instead {
    Instead { file, written, run, why }
}

const fn not_run(file: &'static str, begins: &'static str, why: &'static str) -> NotRun {
    NotRun { file, begins, why }
}

const PORT: &str = "the test's server has a port of its own";
const HOST: &str = "the test's database is on this machine, at a port of its own";
const PLACE: &str = "nothing outside of the test's directory is touched";

pub(super) const INSTEAD: &[Instead] = &[
    instead("README.md", "http://127.0.0.1:6632", "{server}", PORT),
    instead("README.md", "$PWD/target/release:", "", "the test's program is in the path"),
    instead("README.md", "--exec 'cat' ", "--exec 'cat' --limit 1 ", "a reader ends it by Ctrl-C"),
    instead("README.md", "bugle top ", "bugle top --once ", "a reader ends it by q"),
    instead("README.md", "0.0.0.0:6632", "0.0.0.0:0", PORT),
    instead("docs/concepts.md", "http://127.0.0.1:6632", "{server}", PORT),
    instead("docs/consuming.md", "http://127.0.0.1:6632", "{server}", PORT),
    instead("docs/telemetry.md", "http://127.0.0.1:6632", "{server}", PORT),
    instead("docs/backup.md", "http://127.0.0.1:6632", "{server}", PORT),
    instead("docs/backup.md", "/backup/", "{dir}/", PLACE),
    instead(
        "docs/backup.md",
        "/var/lib/bugle/data",
        "{dir}/new",
        "a backup is a data directory without a server",
    ),
    instead("docs/backup.md", "@db/", "@{pg}/", HOST),
    instead("docs/backup.md", "-h db", "-h 127.0.0.1", HOST),
    instead(
        "docs/postgres.md",
        "@db/bugle?sslmode=verify-full",
        "@{pg}/bugle?sslmode=prefer",
        "the test's database has no certificate; tls.rs of bugle-pg tests those",
    ),
    instead("docs/postgres.md", "@db/", "@{pg}/", HOST),
    instead("docs/postgres.md", "@pooler:6432", "@{pooler}", HOST),
    instead(
        "docs/high-availability.md",
        "10.0.0.10:5432,10.0.0.11:5432,10.0.0.12:5432",
        "127.0.0.1:1,{pg},127.0.0.1:2",
        "of three hosts two are away",
    ),
    instead("docs/high-availability.md", "bugle:…@", "bugle:secret@", "a password must be one"),
    instead(
        "docs/high-availability.md",
        "&sslmode=verify-full&sslrootcert=/etc/bugle/ca.pem",
        "&sslmode=prefer",
        "the test's database has no certificate",
    ),
    instead("docs/proxies.md", "--drain-delay 10s", "--drain-delay 1s", "ten seconds are long"),
];

pub(super) const NOT_RUN: &[NotRun] = &[
    not_run("README.md", "cargo deb", "installs and builds for minutes; `cargo xtask packages` does it"),
    not_run(
        "docs/guarantees.md",
        "cargo xtask faults",
        "goes on for minutes; the suite `faults` runs a short round of it",
    ),
    not_run(
        "README.md",
        "cargo run --release -- serve",
        "builds for minutes; the test's server is the same program",
    ),
    not_run(
        "deploy/README.md",
        "docker ",
        "needs Docker's daemon, which test machines do not have; `cargo xtask packages` follows the file by hand",
    ),
    not_run(
        "docs/telemetry.md",
        "docker network create",
        "needs Docker's daemon; tests/blackbox/telemetry.rs has a collector of its own",
    ),
    not_run("deploy/README.md", "dpkg --", "`cargo xtask packages` does it in a Debian of its own"),
    not_run(
        "deploy/README.md",
        "cargo deb",
        "installs and builds for minutes; `cargo xtask packages` does it",
    ),
    not_run("docs/platforms.md", "cargo build --release", "builds for minutes"),
    not_run("docs/high-availability.md", "apt-get install", "`cargo xtask faults` installs and runs them"),
];
