//! `/openapi.json`: this interface in the words of OpenAPI. `tests/admin/openapi.rs` compares it with what is answered.

use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;

const DESCRIPTION: &str = include_str!("openapi.json");

/// `GET /openapi.json`
pub(super) async fn get() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(CONTENT_TYPE, "application/json")], DESCRIPTION)
}
