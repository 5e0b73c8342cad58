//! Which path and method is answered by what.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::hosts::{self, Hosts};
use super::problem::{Kind, Problem};
use super::state::State;
use super::{api, health, metrics};

/// Longest time from the head of a request to the head of its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Everything that the admin listener answers.
pub(super) fn router(state: Arc<State>, hosts: Hosts) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/startupz", get(health::started))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::scrape))
        .nest("/api/v1", api::router())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(hosts, hosts::guard))
        .layer(middleware::from_fn(within_time))
        .with_state(state)
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(Kind::NotFound, format!("there is nothing at {}", uri.path()))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(Kind::MethodNotAllowed, format!("{} does not know {method}", uri.path()))
}

/// Ends a request that takes too long, and has no answer kept anywhere.
async fn within_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await;
    let mut response = answer.unwrap_or_else(|_| {
        let detail = format!("there is no answer after {} s", REQUEST_TIMEOUT.as_secs());
        Problem::new(Kind::Timeout, detail).into_response()
    });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
