//! Requests into values, and what is wrong with them into problems: the body, the parameters, the parts of the path.

use axum::body::{self, Body};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};
use super::routes;
use crate::model::{GroupName, PartitionId, TopicName, limits, nearest};

/// A body of JSON.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // A web page cannot send this type to another site without asking it first.
        if !is_json(&request) {
            let detail = "the header content-type must be application/json";
            return Err(Problem::new(Kind::UnsupportedMediaType, detail));
        }
        parse(&read(request.into_body()).await?).map(Self)
    }
}

/// The value that a body is. No input is too strange for it.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde would take a list for the fields in their order, too.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        let detail = "the body is wrong: it must be one JSON object";
        return Err(Problem::new(Kind::InvalidRequest, detail));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.inner().to_string());
        match (path.as_str(), unknown(&cause)) {
            (_, Some((name, detail))) => Problem::invalid(name, detail),
            ("." | "?", None) => {
                Problem::new(Kind::InvalidRequest, format!("the body is wrong: {cause}"))
            }
            (path, None) => Problem::invalid(path, cause),
        }
    })?;
    json.end().map_err(|error| {
        Problem::new(Kind::InvalidRequest, format!("the body is wrong: {error}"))
    })?;
    Ok(value)
}

/// The name that serde does not know, and what to say of it. The names that it knows are in its message alone.
fn unknown(cause: &str) -> Option<(&str, String)> {
    let (name, rest) = cause.strip_prefix("unknown field `")?.split_once("`, expected ")?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let detail = match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("there is no such name; did you mean {nearest}?"),
        None => format!("there is no such name; there are {}", known.join(", ")),
    };
    Some((name, detail))
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer is no JSON");
                Problem::new(Kind::Internal, "the answer could not be written").into_response()
            }
        }
    }
}

fn is_json(request: &Request) -> bool {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

async fn read(body: Body) -> Result<body::Bytes, Problem> {
    // Whoever asked may be told already that it takes too long, while this goes on.
    let reading = body::to_bytes(body, limits::ADMIN_BODY_BYTES_MAX);
    let read = tokio::time::timeout(routes::REQUEST_TIMEOUT, reading).await;
    read.map_err(|_| routes::late())?.map_err(|error| {
        let is_length = |error: &(dyn std::error::Error + 'static)| {
            error.to_string().contains("length limit exceeded")
        };
        let cause: &(dyn std::error::Error + 'static) = &error;
        if is_length(cause) || cause.source().is_some_and(is_length) {
            let max = limits::ADMIN_BODY_BYTES_MAX;
            return Problem::new(Kind::TooLarge, format!("the body has more than {max} bytes"));
        }
        Problem::new(Kind::InvalidRequest, format!("the body could not be read: {error}"))
    })
}

/// The parameters behind the `?`.
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(QueryRejection::FailedToDeserializeQueryString(error)) => {
                let text = error.body_text();
                let cause = text.rsplit_once("query string: ").map_or(&*text, |(_, cause)| cause);
                Err(Problem::new(Kind::InvalidRequest, format!("a parameter is wrong: {cause}")))
            }
            Err(other) => Err(Problem::new(Kind::InvalidRequest, other.body_text())),
        }
    }
}

/// The parts of the path that are not fixed.
pub(super) struct PathParts<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParts<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path: Result<Path<T>, PathRejection> = Path::from_request_parts(parts, state).await;
        path.map(|Path(parts)| Self(parts))
            .map_err(|error| Problem::new(Kind::InvalidRequest, error.body_text()))
    }
}

/// A topic that a path names.
pub(super) fn topic(name: &str) -> Result<TopicName, Problem> {
    TopicName::parse(name).map_err(|error| Problem::invalid("topic", error.to_string()))
}

/// A group that a path names.
pub(super) fn group(name: &str) -> Result<GroupName, Problem> {
    GroupName::parse(name).map_err(|error| Problem::invalid("group", error.to_string()))
}

/// A partition that a path names.
pub(super) fn partition(number: &str) -> Result<PartitionId, Problem> {
    let wrong = |_| {
        let detail = format!("{number:?} is no partition's number: 0 to {}", u32::MAX);
        Problem::invalid("partition", detail)
    };
    number.parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_does_not_know_is_named() {
        let cause = "unknown field `retention_hour`, expected one of `cleanup`, `retention_hours` at line 1 column 17";
        let detail = "there is no such name; did you mean retention_hours?";
        assert_eq!(unknown(cause), Some(("retention_hour", detail.to_owned())));
        let cause = "unknown field `x`, expected `topic` or `to` at line 1 column 4";
        let detail = "there is no such name; there are topic, to";
        assert_eq!(unknown(cause), Some(("x", detail.to_owned())));
        assert_eq!(unknown("invalid type: null, expected u32"), None);
    }
}
