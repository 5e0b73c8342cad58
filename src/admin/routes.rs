//! Which path and method is answered by what.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tracing::Instrument as _;

use super::authorize::Asks;
use super::hosts::{self, Hosts};
use super::problem::{Kind, Problem};
use super::state::State;
use super::{api, authorize, dashboard, health, metrics};
use crate::telemetry;

/// Longest time from the head of a request to the head of its answer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Everything that the admin listener answers.
pub(super) fn router(state: Arc<State>, hosts: Hosts) -> Router {
    // Probes, and whatever else stands here without it, are for everybody.
    let asks = Asks { state: Arc::clone(&state), hosts: hosts.clone() };
    let guard = middleware::from_fn_with_state(asks, authorize::guard);
    Router::new()
        .route("/", get(dashboard::index))
        .route("/dashboard/{file}", get(dashboard::file))
        .route("/livez", get(health::live))
        .route("/startupz", get(health::started))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::scrape).route_layer(guard.clone()))
        .nest(
            "/api/v1",
            // Whoever may not ask is told that, and nothing of what was asked.
            api::router().route_layer(middleware::from_fn(known_parameters)).route_layer(guard),
        )
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(hosts, hosts::guard))
        .layer(middleware::from_fn(within_time))
        .layer(middleware::from_fn(traced))
        .with_state(state)
}

/// The lists that take parameters.
const LISTS: [&str; 2] =
    ["/api/v1/connections", "/api/v1/topics/{topic}/partitions/{partition}/messages"];

/// Only lists that are read take parameters. One that is meant for something else is refused: `DELETE /topics/t?dry_run=true` would do more
/// than was asked.
async fn known_parameters(path: MatchedPath, request: Request, next: Next) -> Response {
    let (method, uri) = (request.method(), request.uri());
    let looks = matches!(*method, Method::GET | Method::HEAD) && LISTS.contains(&path.as_str());
    let query = uri.query().unwrap_or_default();
    if query.is_empty() || looks {
        return next.run(request).await;
    }
    let name = query.split(['=', '&']).next().unwrap_or_default();
    Problem::invalid(name, format!("{method} {} takes no parameters", uri.path())).into_response()
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(Kind::NotFound, format!("there is nothing at {}", uri.path()))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(Kind::MethodNotAllowed, format!("{} does not know {method}", uri.path()))
}

/// Gives a request its span, in the trace that its `traceparent` names.
fn traced(request: Request, next: Next) -> impl Future<Output = Response> + Send {
    let (method, path) = (request.method(), request.uri().path());
    let span = tracing::debug_span!(
        "admin_request",
        otel.name = %method,
        otel.kind = "server",
        http.request.method = %method,
        url.path = path,
        http.response.status_code = tracing::field::Empty,
    );
    let parent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    if let Some(parent) = parent {
        telemetry::join(&span, parent);
    }
    async move {
        let response = next.run(request).instrument(span.clone()).await;
        span.record("http.response.status_code", response.status().as_u16());
        response
    }
}

/// What is said of a request that takes too long.
pub(super) fn late() -> Problem {
    let detail = format!("there is no answer after {} s", REQUEST_TIMEOUT.as_secs());
    Problem::new(Kind::Timeout, detail)
}

/// Ends a request that takes too long, and has no answer kept anywhere that does not say so itself.
async fn within_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await;
    let mut response = answer.unwrap_or_else(|_| late().into_response());
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}
