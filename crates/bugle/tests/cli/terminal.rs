//! A pseudo-terminal: what a person would see, and what a person would type.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::until;

/// A command that runs in a terminal; killed when dropped.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Start a command in a terminal of 80 columns and 24 lines.
    pub(crate) fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave: OwnedFd =
            File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into();
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave)
            .spawn()
            .unwrap();
        // The command holds the other end, so that reading ends when it has ended.
        drop(command);
        let master = File::from(master);
        let (mut reading, shown) = (master.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let all = shown.clone();
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = reading.read(&mut piece) {
                all.lock().unwrap().extend_from_slice(&piece[..read]);
            }
        });
        Self { child, master, shown, reader: Some(reader) }
    }

    /// Everything shown so far, as it was sent.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Wait until this is shown.
    pub(crate) fn until_shown(&self, text: &str) {
        until(&format!("{text:?} shown"), || self.shown().contains(text));
    }

    /// Type.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Send a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Wait for the end: the exit status, and everything that was shown.
    pub(crate) fn end(mut self) -> (i32, String) {
        let mut status = None;
        until("the command ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        // Nobody has the other end any more, so that reading comes to its end too.
        self.reader.take().unwrap().join().unwrap();
        (status.unwrap().code().unwrap_or(-1), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
