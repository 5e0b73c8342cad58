//! What a client is told that gets no answer: problem details (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Media type of problem details.
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Begins the type of every problem; what follows is [`Kind::code`].
const TYPE_PREFIX: &str = "urn:hermitmq:problem:";

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $code:literal, $title:literal;)*) => {
        /// What kind of problem it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind, for the documentation and its test.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The HTTP status.
            pub(super) fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// The end of the problem's type.
            pub(super) fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The same for every problem of the kind.
            fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

kinds! {
    /// The path leads nowhere.
    NotFound = NOT_FOUND, "not-found", "There is nothing at this path";
    /// The path knows other methods.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method-not-allowed", "The path does not know this method";
    /// Who asks could not be established, or has to say who it is.
    Unauthenticated = UNAUTHORIZED, "unauthenticated", "The request needs a token";
    /// Who asks may not.
    Unauthorized = FORBIDDEN, "unauthorized", "The request is not allowed";
    /// A browser sends it for a page of another site.
    CrossSite = FORBIDDEN, "cross-site", "The request comes from another site";
    /// The request is under a name that is not this machine's.
    Misdirected = MISDIRECTED_REQUEST, "misdirected", "The request is not for this listener";
    /// The body is no JSON, or not this one; a parameter or a name is wrong.
    InvalidRequest = BAD_REQUEST, "invalid-request", "The request is not valid";
    /// The body is not announced as JSON.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body must be JSON";
    /// The body or the record is too large.
    TooLarge = PAYLOAD_TOO_LARGE, "too-large", "The request is too large";
    /// The request took too long.
    Timeout = SERVICE_UNAVAILABLE, "timeout", "The request took too long";
    /// There is no such topic.
    UnknownTopic = NOT_FOUND, "unknown-topic", "There is no such topic";
    /// There is no such partition.
    UnknownPartition = NOT_FOUND, "unknown-partition", "The topic has no such partition";
    /// There is no such group.
    UnknownGroup = NOT_FOUND, "unknown-group", "There is no such group";
    /// There is no such connection.
    UnknownConnection = NOT_FOUND, "unknown-connection", "There is no such connection";
    /// Whoever is to do it has too much to do.
    Busy = SERVICE_UNAVAILABLE, "busy", "The broker is too busy";
    /// The topic is there already, or is not as it must be.
    Conflict = CONFLICT, "conflict", "The state of the broker does not allow it";
    /// The broker's own.
    Reserved = FORBIDDEN, "reserved", "The topic belongs to the broker";
    /// A limit is reached.
    LimitReached = CONFLICT, "limit-reached", "A limit of the broker is reached";
    /// The offset is not in the log.
    OutOfRange = BAD_REQUEST, "offset-out-of-range", "The offset is outside the log";
    /// What was asked for is damaged on disk.
    Damaged = INTERNAL_SERVER_ERROR, "damaged", "What was asked for is damaged on disk";
    /// The record was not stored; it may be later.
    NotStored = SERVICE_UNAVAILABLE, "not-stored", "The record was not stored";
    /// The partition takes no more records.
    ReadOnly = CONFLICT, "read-only", "The partition takes no more records";
    /// The broker has not recovered yet.
    Starting = SERVICE_UNAVAILABLE, "starting", "The broker is starting";
    /// The broker is going down.
    ShuttingDown = SERVICE_UNAVAILABLE, "shutting-down", "The broker is going down";
    /// The disk did not take it, or cannot be read.
    Storage = INTERNAL_SERVER_ERROR, "storage", "The disk failed";
    /// The program.
    Internal = INTERNAL_SERVER_ERROR, "internal", "The broker failed";
}

/// A problem, with what is particular about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    kind: Kind,
    detail: String,
    /// The field, parameter or part of the path that is to blame.
    field: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), field: None }
    }

    /// A request that is wrong in one field, parameter or part of the path.
    pub(super) fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Kind::InvalidRequest, detail).of(field)
    }

    /// The HTTP status, and the words for people.
    pub(super) fn said(&self) -> (u16, &str) {
        (self.kind.status().as_u16(), &self.detail)
    }

    /// The same in other words.
    pub(super) fn saying(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Says what is to blame.
    pub(super) fn of(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        let body = Body {
            r#type: format!("{TYPE_PREFIX}{}", self.kind.code()),
            title: self.kind.title(),
            status: status.as_u16(),
            detail: &self.detail,
            field: self.field.as_deref(),
        };
        // Text and numbers: it is always JSON.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response()
    }
}
