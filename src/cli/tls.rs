//! Flags and variables for TLS, of every command that connects.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use crate::client::{Identity, TlsOptions, Trust};

const TLS_ENV: &str = "HERMITMQ_TLS";
const CA_ENV: &str = "HERMITMQ_TLS_CA";
const CERT_ENV: &str = "HERMITMQ_TLS_CERT";
const KEY_ENV: &str = "HERMITMQ_TLS_KEY";
const SERVER_NAME_ENV: &str = "HERMITMQ_TLS_SERVER_NAME";

/// Whether and how to connect with TLS.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct TlsArgs {
    /// Connect with TLS; each of the following flags means it, too [default: $HERMITMQ_TLS=1]
    #[arg(long)]
    tls: bool,
    /// Who signs the broker's certificate, PEM [default: $HERMITMQ_TLS_CA]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The certificate to connect with, PEM [default: $HERMITMQ_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its key, PEM [default: $HERMITMQ_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The name of the broker's certificate, if it is not the host of the address [default: $HERMITMQ_TLS_SERVER_NAME]
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
}

impl TlsArgs {
    /// The flags, and for those that are not there the environment; `None` if nothing asks for TLS.
    pub(super) fn options(&self) -> Result<Option<TlsOptions>, Failure> {
        self.completed(env)
    }

    /// What connects to the broker whose certificate is in this file, if no CA is named.
    pub(super) fn options_for(&self, cert_file: PathBuf) -> Result<Option<TlsOptions>, Failure> {
        self.completed_for(cert_file, env)
    }

    fn completed_for(
        &self,
        cert_file: PathBuf,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<TlsOptions>, Failure> {
        if self.tls_ca.is_some() || env(CA_ENV).is_some() {
            return self.completed(env);
        }
        let known = |name: &str| {
            env(name).or_else(|| (name == CA_ENV).then(|| cert_file.clone().into_os_string()))
        };
        let options = self.completed(known)?;
        Ok(options.map(|options| TlsOptions { trust: Trust::Exactly(cert_file), ..options }))
    }

    fn completed(
        &self,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<TlsOptions>, Failure> {
        let path =
            |flag: &Option<PathBuf>, name| flag.clone().or_else(|| env(name).map(Into::into));
        let ca = path(&self.tls_ca, CA_ENV);
        let cert = path(&self.tls_cert, CERT_ENV);
        let key = path(&self.tls_key, KEY_ENV);
        let of_env = || env(SERVER_NAME_ENV).map(|name| name.to_string_lossy().into_owned());
        let server_name = self.tls_server_name.clone().or_else(of_env);
        let switched = self.tls || env(TLS_ENV).is_some_and(|value| value == "1");
        if !switched
            && [&ca, &cert, &key].iter().all(|path| path.is_none())
            && server_name.is_none()
        {
            return Ok(None);
        }
        let usage = |text: String| Err(Failure::Usage(text));
        let Some(ca) = ca else {
            let what = "TLS needs the CA that signed the broker's certificate";
            return usage(format!("{what}: --tls-ca FILE, or ${CA_ENV}"));
        };
        let identity = match (cert, key) {
            (Some(cert_file), Some(key_file)) => Some(Identity { cert_file, key_file }),
            (None, None) => None,
            (Some(_), None) => {
                return usage(format!(
                    "a certificate needs its key: --tls-key FILE, or ${KEY_ENV}"
                ));
            }
            (None, Some(_)) => {
                return usage(format!(
                    "a key needs its certificate: --tls-cert FILE, or ${CERT_ENV}"
                ));
            }
        };
        Ok(Some(TlsOptions { trust: Trust::CaFile(ca), identity, server_name }))
    }
}

fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &TlsArgs, env: &[(&str, &str)]) -> Result<Option<TlsOptions>, String> {
        let get = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        args.completed(get).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_certificate_of_a_broker_is_trusted_where_no_ca_is_named() {
        let trust = |args: &TlsArgs, variables: &[(&str, &str)]| {
            let env = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            args.completed_for("broker.pem".into(), env).unwrap().unwrap().trust
        };
        let none = TlsArgs::default();
        assert_eq!(trust(&none, &[]), Trust::Exactly("broker.pem".into()));
        assert_eq!(trust(&none, &[(SERVER_NAME_ENV, "b")]), Trust::Exactly("broker.pem".into()));
        let by_env = Trust::CaFile("a.pem".into());
        assert_eq!(trust(&none, &[(CA_ENV, "a.pem")]), by_env);
        assert_eq!(trust(&none, &[(CA_ENV, "a.pem"), (TLS_ENV, "0")]), by_env);
        let flag = TlsArgs { tls_ca: Some("c.pem".into()), ..TlsArgs::default() };
        assert_eq!(trust(&flag, &[(CA_ENV, "a.pem")]), Trust::CaFile("c.pem".into()));
    }

    #[test]
    fn flags_win_over_the_environment_and_any_of_them_means_tls() {
        let none = TlsArgs::default();
        assert_eq!(of(&none, &[]), Ok(None));
        assert_eq!(of(&none, &[(TLS_ENV, "0")]), Ok(None));
        let by_env = of(&none, &[(CA_ENV, "a.pem"), (SERVER_NAME_ENV, "b")]).unwrap().unwrap();
        assert_eq!(
            (by_env.trust, by_env.server_name),
            (Trust::CaFile("a.pem".into()), Some("b".into()))
        );
        let flags = TlsArgs {
            tls_ca: Some("c.pem".into()),
            tls_cert: Some("d.pem".into()),
            ..TlsArgs::default()
        };
        let both = of(&flags, &[(CA_ENV, "a.pem"), (KEY_ENV, "d.key")]).unwrap().unwrap();
        assert_eq!(both.trust, Trust::CaFile("c.pem".into()));
        let identity = Identity { cert_file: "d.pem".into(), key_file: "d.key".into() };
        assert_eq!(both.identity, Some(identity));
    }

    #[test]
    fn what_is_missing_is_named() {
        let only = TlsArgs { tls: true, ..TlsArgs::default() };
        assert!(of(&only, &[]).unwrap_err().contains("--tls-ca FILE"));
        let no_key = TlsArgs { tls_cert: Some("a".into()), ..TlsArgs::default() };
        assert!(of(&no_key, &[(CA_ENV, "a")]).unwrap_err().contains("--tls-key FILE"));
        assert!(
            of(&only, &[(CA_ENV, "a"), (KEY_ENV, "k")]).unwrap_err().contains("--tls-cert FILE")
        );
    }
}
