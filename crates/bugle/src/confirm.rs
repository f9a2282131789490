//! Asks before something is destroyed: whoever wants it types the name of the thing.

use std::io::{IsTerminal, Write, stderr, stdin};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::ending::End;
use crate::output::plain;

/// The flag that answers beforehand.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
}

impl ConfirmArgs {
    /// Ask at a terminal whether `what` shall happen; the answer is `name`. Where nobody can be asked, it must have been said.
    pub(crate) fn ask(self, what: &str, name: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !stdin().is_terminal() || !stderr().is_terminal() {
            bail!(End::Usage(format!("this would {}; say --yes if that is meant", plain(what))));
        }
        let mut asked = stderr();
        write!(asked, "This will {}.\nType {} to go on: ", plain(what), plain(name))
            .context("standard error")?;
        asked.flush().context("standard error")?;
        let mut typed = String::new();
        stdin().read_line(&mut typed).context("standard input")?;
        if typed.trim_end_matches(['\r', '\n']) == name {
            return Ok(());
        }
        bail!("not confirmed; nothing was changed")
    }
}
