//! Who sends the spans: the attributes that a tracing system files them under.

use std::env;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

use super::traces::SERVICE;

/// Variables that Kubernetes sets where the manifest asks for it (its downward API), and what they say.
const KUBERNETES: &[(&str, &str)] = &[
    ("POD_NAME", "k8s.pod.name"),
    ("POD_NAMESPACE", "k8s.namespace.name"),
    ("POD_UID", "k8s.pod.uid"),
    ("NODE_NAME", "k8s.node.name"),
    ("CONTAINER_NAME", "k8s.container.name"),
];

/// The attributes of this process. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win.
pub(super) fn resource() -> Resource {
    of(&|name| env::var(name).ok().filter(|value| !value.is_empty()), Resource::builder())
}

fn of(
    variable: &dyn Fn(&str) -> Option<String>,
    builder: opentelemetry_sdk::resource::ResourceBuilder,
) -> Resource {
    let set = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let mut set: Vec<String> = set
        .split(',')
        .filter_map(|entry| entry.split_once('='))
        .map(|(key, _)| key.trim().to_owned())
        .collect();
    if variable("OTEL_SERVICE_NAME").is_some() {
        set.push("service.name".to_owned());
    }
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let pid = std::process::id();
    let mut ours = vec![
        KeyValue::new("service.name", SERVICE),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", format!("{node}:{pid}")),
        KeyValue::new("host.name", node),
        KeyValue::new("process.pid", i64::from(pid)),
    ];
    ours.extend(
        KUBERNETES.iter().filter_map(|&(name, key)| Some(KeyValue::new(key, variable(name)?))),
    );
    ours.retain(|attribute| !set.iter().any(|key| key == attribute.key.as_str()));
    builder.with_attributes(ours).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_says_wins() {
        let variable = |name: &str| match name {
            "OTEL_RESOURCE_ATTRIBUTES" => Some("service.version=7, k8s.pod.name=mine".to_owned()),
            "POD_NAME" => Some("hermitmq-0".to_owned()),
            "POD_NAMESPACE" => Some("queues".to_owned()),
            _ => None,
        };
        let resource = of(&variable, Resource::builder_empty());
        let get = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
        assert_eq!(get("service.name").as_deref(), Some("hermitmq"));
        assert_eq!(get("k8s.namespace.name").as_deref(), Some("queues"));
        assert_eq!((get("service.version"), get("k8s.pod.name")), (None, None), "left to it");
        assert!(get("service.instance.id").unwrap().ends_with(&std::process::id().to_string()));
    }
}
