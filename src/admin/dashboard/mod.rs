//! The dashboard: pages for a browser, in the binary. They know nothing that `/api/v1` does not tell them.
//!
//! `assets` is what the browser gets: one page, one style sheet, and modules of plain JavaScript that no tool has to build.
//! The policy lets a page load its own files and ask its own API, and nothing else: what a record, a key or a client's name
//! holds cannot run, wherever it is shown.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::{Kind, Problem};

/// What the pages may load, and from where.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                                       connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Told with every file.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // It may be kept, and is asked for each time: another version of the broker has other files under the same names.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The page that loads the others.
const INDEX: &str = "index.html";

/// A file for the browser.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
}

macro_rules! assets {
    ($($name:literal: $media_type:literal,)*) => {
        &[$(Asset {
            name: $name,
            media_type: $media_type,
            content: include_str!(concat!("assets/", $name)),
        },)*]
    };
}

const ASSETS: &[Asset] = assets! {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "app.js": "text/javascript; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "chart.js": "text/javascript; charset=utf-8",
    "config.js": "text/javascript; charset=utf-8",
    "connections.js": "text/javascript; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "format.js": "text/javascript; charset=utf-8",
    "groups.js": "text/javascript; charset=utf-8",
    "messages.js": "text/javascript; charset=utf-8",
    "overview.js": "text/javascript; charset=utf-8",
    "topic.js": "text/javascript; charset=utf-8",
    "topics.js": "text/javascript; charset=utf-8",
    "ui.js": "text/javascript; charset=utf-8",
};

/// `GET /`
pub(super) async fn index(headers: HeaderMap) -> Result<Response, Problem> {
    answer(INDEX, &headers)
}

/// `GET /dashboard/{file}`
pub(super) async fn file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let asset = ASSETS.iter().find(|asset| asset.name == name).ok_or_else(|| {
        Problem::new(Kind::NotFound, format!("there is no file {name} of the dashboard"))
    })?;
    let tag = asset.tag();
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let known = known.filter_map(|value| value.to_str().ok()).flat_map(|tags| tags.split(','));
    let is_known =
        known.map(|known| known.trim().trim_start_matches("W/")).any(|known| known == tag);
    let head = (HEADERS, [(header::ETAG, tag)]);
    Ok(if is_known {
        (StatusCode::NOT_MODIFIED, head).into_response()
    } else {
        (head, [(header::CONTENT_TYPE, asset.media_type)], asset.content).into_response()
    })
}

impl Asset {
    /// Names this content of the file: the same in every process of this program.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.content.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(name: &str, known: Option<&str>) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(known) = known {
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
        }
        answer(name, &headers).into_response()
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let first = get("app.js", None);
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("\"other\", W/{tag}")] {
            assert_eq!(get("app.js", Some(&known)).status(), StatusCode::NOT_MODIFIED, "{known}");
        }
        assert_eq!(get("style.css", Some(&tag)).status(), StatusCode::OK);
        assert_eq!(get("mod.rs", None).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn every_answer_says_what_the_page_may_do() {
        for asset in ASSETS {
            let answer = get(asset.name, None);
            for (name, value) in &HEADERS {
                assert_eq!(answer.headers()[name], value, "{}", asset.name);
            }
        }
    }

    #[test]
    fn no_file_needs_what_the_policy_forbids() {
        for Asset { name, content, .. } in ASSETS {
            let address = |scheme: &str| content.matches(scheme).count();
            // The names of the XML vocabularies are addresses that nobody fetches.
            let vocabulary = content.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(address("http://") - vocabulary + address("https://"), 0, "{name}");
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!content.contains(word), "{name} has {word}");
            }
            for word in ["style=\"", " onclick=", "<style"] {
                assert!(!content.contains(word), "{name} has {word}");
            }
        }
    }

    #[test]
    fn each_check_of_the_broker_has_its_words() {
        let made = include_str!("../health.rs").split("Check::required(").skip(1);
        let mut made: Vec<_> =
            made.filter_map(|rest| rest.trim_start().split('"').nth(1)).collect();
        let map = include_str!("assets/overview.js").split_once("const CHECKS = {\n").unwrap().1;
        let lines = map.lines().take_while(|line| *line != "};");
        let mut known: Vec<_> =
            lines.filter_map(|line| Some(line.trim().split_once(':')?.0)).collect();
        // The liveness of the reactors is looked at twice.
        made.sort_unstable();
        made.dedup();
        known.sort_unstable();
        assert_eq!(made, known);
    }

    #[test]
    fn what_the_files_import_is_there() {
        let files =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/admin/dashboard/assets"));
        let mut files: Vec<_> = files
            .unwrap()
            .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let mut served: Vec<_> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        served.sort();
        assert_eq!(files, served);
        for Asset { name, content, .. } in ASSETS {
            let imports =
                content.split("from './").skip(1).chain(content.split("\"/dashboard/").skip(1));
            for import in imports.filter_map(|rest| rest.split(['\'', '"']).next()) {
                assert!(files.iter().any(|file| file == import), "{name} wants {import}");
            }
        }
    }
}
