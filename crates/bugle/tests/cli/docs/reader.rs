//! A reader's machine: a directory, a server, a database of PostgreSQL, a shell.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use bugle_pg::testdb::{self, PrivateServer};

use super::documents::{Block, Document};
use super::list::INSTEAD;
use crate::support::{On, Ran, Server};

/// A `bugle serve` of a document must come up, and go down in order when it is told to; one that only prints ends by itself.
const SERVES: &str = r#"
bugle() {
  if [ "${1-}" != serve ]; then command bugle "$@"; return; fi
  : > served # emptied before the next one starts, or it would be taken for ready by what the last one said
  command bugle "$@" > served & local pid=$!
  until grep -q 'is ready at' served; do kill -0 $pid 2> /dev/null || { wait $pid; return; }; sleep 0.02; done
  kill -TERM $pid
  wait $pid
}
"#;

/// See the module.
pub(super) struct Reader {
    server: Server,
    other: Server,
    /// Held until the reader is done.
    _places: [On; 2],
    database: Option<PrivateServer>,
    pooler: u16,
    kept: Mutex<Vec<Background>>,
}

impl Reader {
    /// With a server on `on`, and a PostgreSQL of its own for what says that it uses one.
    pub(super) async fn new(on: On, of: &Document) -> Self {
        let wants = |block: &Block| block.language == "sql" || block.text.contains("postgres://");
        let database =
            if of.blocks().iter().any(wants) { Some(testdb::private_server().await) } else { None };
        let other = On::embedded();
        let (server, to) = (on.start(), other.start());
        Self {
            server,
            other: to,
            _places: [on, other],
            database,
            pooler: free_port(),
            kept: Mutex::default(),
        }
    }

    pub(super) fn url(&self) -> &str {
        self.server.url()
    }

    pub(super) fn dir(&self) -> &Path {
        self.server.dir()
    }

    /// Host and port of the database.
    pub(super) fn database(&self) -> &str {
        let address = self.database.as_ref().expect("a database").address();
        address.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap()
    }

    pub(super) fn pooler(&self) -> u16 {
        self.pooler
    }

    /// A block as it is run here.
    pub(super) fn here(&self, file: &str, text: &str) -> String {
        let mut text = text.to_owned();
        for entry in INSTEAD.iter().filter(|entry| entry.file == file) {
            if !text.contains(entry.written) {
                continue;
            }
            let mut run = entry.run.replace("{server}", self.url());
            run = run.replace("{dir}", &self.dir().display().to_string());
            run = run.replace("{pooler}", &format!("127.0.0.1:{}", self.pooler));
            if run.contains("{pg}") {
                run = run.replace("{pg}", self.database());
            }
            text = text.replace(entry.written, &run);
        }
        text
    }

    /// Run lines of a shell.
    pub(super) fn shell(&self, lines: &str) -> Ran {
        let program = Path::new(env!("CARGO_BIN_EXE_bugle")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.current_dir(self.dir()).args(["-euo", "pipefail", "-c", &format!("{SERVES}{lines}")]);
        shell.env("PATH", &path).env("BUGLE_SERVER", self.url()).env("NEW_SERVER", self.other.url());
        // What a reader has in the environment; a server that a document starts has a port of its own.
        shell.env("KEY", "").env("BUGLE_LISTEN", "127.0.0.1:0").env("BUGLE_LOG_LEVEL", "warn");
        if self.database.is_some() {
            let (host, port) = self.database().split_once(':').unwrap();
            shell.env("PGHOST", host).env("PGPORT", port).env("PGUSER", "postgres");
        }
        Ran::of(shell, "")
    }

    /// Run statements, as the database's superuser.
    pub(super) fn sql(&self, statements: &str) -> Ran {
        let mut psql = Command::new("psql");
        psql.args(["-v", "ON_ERROR_STOP=1", "-X", "-d", self.database.as_ref().unwrap().address()]);
        Ran::of(psql, statements)
    }

    /// Run a program that an interpreter is given as its input.
    pub(super) fn interpret(&self, interpreter: &[&str], program: &str) -> Ran {
        let mut command = Command::new(interpreter[0]);
        command.args(&interpreter[1..]).env("BUGLE_SERVER", self.url()).current_dir(self.dir());
        Ran::of(command, program)
    }

    /// A file in the reader's directory.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir().join(name);
        std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes())).unwrap();
        path
    }

    /// Something that goes on until this is dropped, with its output in a file.
    pub(super) fn background(&self, program: &str, args: &[&str]) -> Background {
        let log = std::fs::File::create(self.dir().join("background.log")).unwrap();
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let started = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
        Background(started)
    }

    /// Let it go on for what follows in the document.
    pub(super) fn keep(&self, running: Background) {
        self.kept.lock().unwrap().push(running);
    }
}

/// A running program.
pub(super) struct Background(std::process::Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
