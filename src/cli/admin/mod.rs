//! `hermitmq topic` and `hermitmq group`: administering a broker that runs.

mod args;
mod confirm;
mod groups;
mod topics;

use crate::client::admin::{AdminClient, AdminError};

use super::failure::{Failure, causes};
use super::runtime;

pub(super) use args::{GroupCommand, Target, TopicCommand};
pub(super) use groups::run as run_group;
pub(super) use topics::run as run_topic;

/// Who asks the admin listener.
pub(super) fn client(target: &Target) -> Result<AdminClient, Failure> {
    let (address, tls) = target.address()?;
    let mut admin = AdminClient::new(&address).map_err(|error| failed(&error))?;
    if let Some(tls) = tls {
        admin = admin.with_tls(tls);
    }
    if let Some(token) = target.token.find()? {
        admin = admin.with_token(&token).map_err(|error| failed(&error))?;
    }
    Ok(admin)
}

/// Asks the admin listener for something, and waits for the answer.
fn ask<T>(
    target: &Target,
    asked: impl AsyncFnOnce(&AdminClient) -> Result<T, AdminError>,
) -> Result<T, Failure> {
    let admin = client(target)?;
    runtime::value_of(async { asked(&admin).await.map_err(|error| failed(&error)) })
}

/// What the broker calls a wrong request was typed wrong.
fn failed(error: &AdminError) -> Failure {
    match error {
        AdminError::Address(_) | AdminError::NoCa(_) | AdminError::Token => {
            Failure::Usage(causes(error))
        }
        AdminError::Problem(problem) if problem.kind() == "invalid-request" => {
            Failure::Usage(causes(error))
        }
        AdminError::Connect { .. } => Failure::Runtime(format!(
            "{}; is the broker running, and is this its admin listener (admin.listen)?",
            causes(error)
        )),
        _ => Failure::Runtime(causes(error)),
    }
}
