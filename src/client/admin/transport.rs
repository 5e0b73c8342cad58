//! HTTP/1.1 over TCP: one connection for each request.

use std::fmt;
use std::pin::pin;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;

use super::error::{AdminError, ProblemDetails};
use crate::client::stream::Stream;

/// Largest answer that is taken, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Host and port, and whether TLS is spoken there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    tls: bool,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, AdminError> {
        let wrong = || AdminError::Address(text.to_owned());
        let secured = if cfg!(feature = "tls") { text.strip_prefix("https://") } else { None };
        let rest = secured.or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let wrong_host = host.is_empty() || host.contains(['/', '@', '?', '#', ' ']);
        if wrong_host || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Self { host: rest.to_owned(), tls: secured.is_some() })
    }

    /// The same with TLS.
    #[cfg(feature = "tls")]
    pub(super) fn secured(self) -> Self {
        Self { tls: true, ..self }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.host)
    }
}

/// An answer, whatever it says.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl Answer {
    /// The body of a request that was done; what the broker says if it was not.
    pub(super) fn value<T: DeserializeOwned>(self) -> Result<T, AdminError> {
        self.done()?.json()
    }

    /// The answer to a request that was done; what the broker says if it was not.
    pub(super) fn done(self) -> Result<Self, AdminError> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(AdminError::Problem(self.json::<ProblemDetails>()?))
    }

    /// The body as text, whatever the status.
    pub(super) fn text(self) -> Result<String, AdminError> {
        let status = self.status.as_u16();
        String::from_utf8(self.body.into())
            .map_err(|error| AdminError::Unexpected { status, cause: error.to_string() })
    }

    /// The body, whatever the status.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, AdminError> {
        serde_json::from_slice(&self.body).map_err(|error| AdminError::Unexpected {
            status: self.status.as_u16(),
            cause: error.to_string(),
        })
    }
}

/// Where to ask.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: Address,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<crate::client::TlsOptions>,
}

impl Target {
    async fn dial(&self) -> Result<Stream, AdminError> {
        let address = &self.address;
        let connect = |source| AdminError::Connect { address: address.to_string(), source };
        #[cfg(feature = "tls")]
        if address.tls {
            use crate::client::tls::Unsecured;
            let Some(tls) = &self.tls else { return Err(AdminError::NoCa(address.to_string())) };
            return Stream::secured(&address.host, tls).await.map_err(|error| match error {
                Unsecured::Problem(problem) => {
                    AdminError::Tls { address: address.to_string(), problem }
                }
                Unsecured::Io(source) => connect(source),
            });
        }
        Stream::plain(&address.host).await.map_err(connect)
    }
}

/// What TLS has to do with an error of HTTP, else that the connection broke.
fn broken(address: &Address, error: &(dyn std::error::Error + 'static)) -> AdminError {
    #[cfg(feature = "tls")]
    if address.tls {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let io = error.downcast_ref::<std::io::Error>();
            if let Some(problem) = io.and_then(crate::client::tls::problem_of) {
                return AdminError::Tls { address: address.to_string(), problem };
            }
            cause = error.source();
        }
    }
    AdminError::Broken { address: address.to_string(), cause: error.to_string() }
}

/// Sends a request and takes the whole answer.
pub(super) async fn ask(
    target: &Target,
    authorization: Option<&HeaderValue>,
    method: &str,
    path: &str,
    body: Option<Vec<u8>>,
) -> Result<Answer, AdminError> {
    let address = &target.address;
    let stream = target.dial().await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(address, &error))?;
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, &address.host)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| broken(address, &error))?;
    if let Some(value) = authorization {
        request.headers_mut().insert(AUTHORIZATION, value.clone());
    }
    let exchange = async {
        let response =
            sender.send_request(request).await.map_err(|error| broken(address, &error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| broken(address, &*error))?.to_bytes();
        Ok(Answer { status, body })
    };
    let mut exchange = pin!(exchange);
    let ended = tokio::select! {
        answer = &mut exchange => return answer,
        // Only if it ends before the answer is whole.
        ended = connection => ended,
    };
    if let Err(error) = ended {
        return Err(broken(address, &error));
    }
    // An end that is no error may have a cause all the same, which the request was told.
    let cause = "the connection was closed".to_owned();
    match exchange.await {
        Err(AdminError::Broken { address, .. }) => Err(AdminError::Broken { address, cause }),
        told => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse = |text| Address::parse(text).map(|address| address.to_string()).ok();
        for (text, address) in [
            ("http://127.0.0.1:9093", "http://127.0.0.1:9093"),
            ("localhost:1/", "http://localhost:1"),
            ("[::1]:80", "http://[::1]:80"),
            #[cfg(feature = "tls")]
            ("https://x:1", "https://x:1"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(address));
        }
        for wrong in ["", "x", ":1", "http://x", "ftp://x:1", "http://x:1/y", "u@x:1", "x:99999"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
