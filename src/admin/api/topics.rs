//! `/topics`: listing, describing, creating, altering and deleting them.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::{Extension, extract};
use serde::Serialize;

use crate::access::Resource;
use crate::admin::authorize::Caller;
use crate::admin::extract::{self as parts, Json, PathParts};
use crate::admin::problem::Problem;
use crate::admin::refusals::of_topic;
use crate::admin::state::State;
use crate::broker::{TopicChange, TopicDescription, TopicOptions, TopicSummary};

#[derive(Debug, Serialize)]
pub(super) struct Topics {
    topics: Vec<TopicSummary>,
}

/// `GET /topics`
pub(super) async fn list(
    extract::State(state): extract::State<Arc<State>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Topics>, Problem> {
    let sees = move |topic: &TopicSummary| caller.sees(Resource::Topic(&topic.name));
    state
        .with_broker(move |broker| {
            let topics = broker.topics().into_iter().filter(sees).collect();
            Ok(Json(Topics { topics }))
        })
        .await
}

/// `POST /topics`
pub(super) async fn create(
    extract::State(state): extract::State<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Json(options): Json<TopicOptions>,
) -> Result<(StatusCode, Json<TopicDescription>), Problem> {
    caller.may(Resource::Topic(&options.name))?;
    let created = move |broker: &crate::broker::Broker| {
        broker.create_topic(options).map_err(|error| of_topic(&error))
    };
    Ok((StatusCode::CREATED, Json(state.with_broker(created).await?)))
}

/// `GET /topics/{topic}`
pub(super) async fn describe(
    extract::State(state): extract::State<Arc<State>>,
    PathParts(topic): PathParts<String>,
) -> Result<Json<TopicDescription>, Problem> {
    let topic = parts::topic(&topic)?;
    state
        .with_broker(move |broker| broker.describe_topic(&topic).map_err(|error| of_topic(&error)))
        .await
        .map(Json)
}

/// `PATCH /topics/{topic}`
pub(super) async fn alter(
    extract::State(state): extract::State<Arc<State>>,
    PathParts(topic): PathParts<String>,
    Json(change): Json<TopicChange>,
) -> Result<Json<TopicDescription>, Problem> {
    let topic = parts::topic(&topic)?;
    state
        .with_broker(move |broker| {
            broker.alter_topic(&topic, change).map_err(|error| of_topic(&error))
        })
        .await
        .map(Json)
}

/// `DELETE /topics/{topic}`
pub(super) async fn delete(
    extract::State(state): extract::State<Arc<State>>,
    PathParts(topic): PathParts<String>,
) -> Result<StatusCode, Problem> {
    let topic = parts::topic(&topic)?;
    state
        .with_broker(move |broker| broker.delete_topic(&topic).map_err(|error| of_topic(&error)))
        .await
        .map(|()| StatusCode::NO_CONTENT)
}
