//! `/groups`: listing, describing, resetting and deleting them.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::{Extension, extract};
use serde::Serialize;

use crate::access::Resource;
use crate::admin::authorize::Caller;
use crate::admin::extract::{self as parts, Json, PathParts};
use crate::admin::problem::Problem;
use crate::admin::refusals::of_group;
use crate::admin::state::State;
use crate::broker::{GroupDescription, GroupReset, GroupSummary, ResetStep};

#[derive(Debug, Serialize)]
pub(super) struct Groups {
    groups: Vec<GroupSummary>,
}

#[derive(Debug, Serialize)]
pub(super) struct Reset {
    /// Whether this is only what would be done.
    dry_run: bool,
    steps: Vec<ResetStep>,
}

/// `GET /groups`
pub(super) async fn list(
    extract::State(state): extract::State<Arc<State>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Groups>, Problem> {
    let sees = move |group: &GroupSummary| caller.sees(Resource::Group(&group.name));
    state
        .with_broker(move |broker| {
            let groups = broker.groups().into_iter().filter(sees).collect();
            Ok(Json(Groups { groups }))
        })
        .await
}

/// `GET /groups/{group}`
pub(super) async fn describe(
    extract::State(state): extract::State<Arc<State>>,
    Extension(caller): Extension<Caller>,
    PathParts(group): PathParts<String>,
) -> Result<Json<GroupDescription>, Problem> {
    let group = parts::group(&group)?;
    state
        .with_broker(move |broker| {
            let described = broker.describe_group(&group).map_err(|error| of_group(&error));
            described.map(|GroupDescription { name, consumers, mut offsets }| {
                // The others are not told of.
                offsets.retain(|offset| caller.reads(&offset.topic));
                Json(GroupDescription { name, consumers, offsets })
            })
        })
        .await
}

/// `POST /groups/{group}/reset`
pub(super) async fn reset(
    extract::State(state): extract::State<Arc<State>>,
    Extension(caller): Extension<Caller>,
    PathParts(group): PathParts<String>,
    Json(reset): Json<GroupReset>,
) -> Result<Json<Reset>, Problem> {
    let group = parts::group(&group)?;
    caller.may_read(&reset.topic)?;
    let dry_run = reset.dry_run;
    let steps = state
        .with_broker(move |broker| {
            broker.reset_group(&group, &reset).map_err(|error| of_group(&error))
        })
        .await?;
    Ok(Json(Reset { dry_run, steps }))
}

/// `DELETE /groups/{group}`
pub(super) async fn delete(
    extract::State(state): extract::State<Arc<State>>,
    Extension(caller): Extension<Caller>,
    PathParts(group): PathParts<String>,
) -> Result<StatusCode, Problem> {
    let group = parts::group(&group)?;
    state
        .with_broker(move |broker| {
            let described = broker.describe_group(&group).map_err(|error| of_group(&error))?;
            // Each of these offsets is forgotten: that needs what committing it did.
            let mut offsets = described.offsets.iter();
            offsets.try_for_each(|offset| caller.may_read(&offset.topic)).map_err(|refused| {
                // The log alone tells which.
                refused.saying("the group has offsets of topics that you may not consume")
            })?;
            broker.delete_group(&group).map_err(|error| of_group(&error))
        })
        .await
        .map(|()| StatusCode::NO_CONTENT)
}
