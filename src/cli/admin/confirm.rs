//! Asking before something is gone.

use std::io::{self, IsTerminal as _, Write as _};

use crate::cli::failure::Failure;

/// Goes on if the operator says so: by `--yes`, or on a terminal when asked.
pub(super) fn confirm(yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("{what}: this cannot be undone; --yes does it")));
    }
    let mut stderr = io::stderr().lock();
    let cannot = |error: io::Error| Failure::runtime("cannot ask", &error);
    write!(stderr, "{what}: this cannot be undone. Go on? [y/N] ").map_err(cannot)?;
    stderr.flush().map_err(cannot)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(cannot)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Runtime("nothing was done".to_owned())),
    }
}
