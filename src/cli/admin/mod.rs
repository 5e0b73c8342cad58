//! `hermitmq topic` and `hermitmq group`: administering a broker that runs.

mod args;
mod confirm;
mod groups;
mod topics;

use crate::client::TlsOptions;
use crate::client::admin::{AdminClient, AdminError};

use super::failure::Failure;
use super::runtime;

pub(super) use args::{GroupCommand, Target, TopicCommand};
pub(super) use groups::run as run_group;
pub(super) use topics::run as run_topic;

/// Who asks the admin listener.
pub(super) fn client(target: &Target) -> Result<AdminClient, Failure> {
    let (address, tls) = target.address()?;
    let admin = client_at(&address, tls)?;
    match target.token.find()? {
        Some(token) => admin.with_token(&token).map_err(|error| Failure::admin(&error)),
        None => Ok(admin),
    }
}

/// The same without a token, of a listener whose address is known. TLS is for one that is not said to do without.
pub(super) fn client_at(address: &str, tls: Option<TlsOptions>) -> Result<AdminClient, Failure> {
    let admin = AdminClient::new(address).map_err(|error| Failure::admin(&error))?;
    Ok(match tls.filter(|_| !address.starts_with("http:")) {
        Some(tls) => admin.with_tls(tls),
        None => admin,
    })
}

/// Asks the admin listener for something, and waits for the answer.
fn ask<T>(
    target: &Target,
    asked: impl AsyncFnOnce(&AdminClient) -> Result<T, AdminError>,
) -> Result<T, Failure> {
    let admin = client(target)?;
    runtime::value_of(async { asked(&admin).await.map_err(|error| Failure::admin(&error)) })
}
