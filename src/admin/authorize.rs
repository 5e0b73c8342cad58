//! Who asks, and whether it may: before anything is looked up.
//!
//! There are no cookies, and nothing else that a browser sends by itself: a web page of somebody else has no name here. Where the
//! network is what names somebody, the page would have the name of the browser it runs in: so what changes something must not
//! come from another site.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{self, MatchedPath, OriginalUri, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument as _;

use super::hosts::Hosts;
use super::problem::{Kind, Problem};
use super::state::State;
use crate::access::{
    Access, Credentials, Denied, HeldBack, Identity, Operation, Principal, Refused, Resource, Table,
};
use crate::metrics::RefusalKind;
use crate::model::{GroupName, TopicName};
use crate::tls::PeerCertificate;

/// Where messages are stored.
const MESSAGES: &str = "/api/v1/topics/{topic}/partitions/{partition}/messages";

/// What is asked of each request.
#[derive(Debug, Clone)]
pub(super) struct Asks {
    pub(super) state: Arc<State>,
    pub(super) hosts: Hosts,
}

/// Where a request comes from, among its extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// Who has sent a request, among its extensions once it was let in.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    principal: Principal,
    /// It has shown a token or a certificate.
    proven: bool,
    table: Arc<Table>,
    /// Of the table.
    generation: u64,
    access: Arc<Access>,
    peer: IpAddr,
    /// The request, for the log.
    asked: Arc<str>,
}

impl Caller {
    /// Whether it may administer this.
    pub(super) fn sees(&self, resource: Resource<'_>) -> bool {
        self.table.decide(&self.principal, Operation::Admin, &resource).is_allowed()
    }

    /// As [`sees`](Self::sees), with the refusal counted and told.
    pub(super) fn may(&self, resource: Resource<'_>) -> Result<(), Problem> {
        let allowed = self.table.allow(&self.principal, Operation::Admin, resource);
        allowed.map_err(|reason| self.forbidden(&reason))
    }

    /// Whether it may read this topic, as whoever commits an offset of it must; or administer it, which is more.
    pub(super) fn reads(&self, topic: &TopicName) -> bool {
        let topic = Resource::Topic(topic);
        let consumes = || self.table.decide(&self.principal, Operation::Consume, &topic);
        self.sees(topic) || consumes().is_allowed()
    }

    /// As [`reads`](Self::reads), with the refusal counted and told.
    pub(super) fn may_read(&self, topic: &TopicName) -> Result<(), Problem> {
        if self.reads(topic) {
            return Ok(());
        }
        let allowed = self.table.allow(&self.principal, Operation::Consume, Resource::Topic(topic));
        allowed.map_err(|reason| self.forbidden(&reason))
    }

    /// Of the rules and tokens that it was let in by ([`Access::generation`]).
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    fn forbidden(&self, reason: &str) -> Problem {
        // Whoever has shown nothing is asked for something.
        let unknown = self.principal == Principal::anonymous();
        let (kind, problem) = if unknown {
            (RefusalKind::Unauthenticated, Kind::Unauthenticated)
        } else {
            (RefusalKind::Unauthorized, Kind::Unauthorized)
        };
        self.access.refused(&Refused {
            kind,
            principal: Some(&self.principal),
            peer: self.peer,
            asked: &self.asked,
            reason,
        });
        Problem::new(problem, reason)
    }
}

/// Lets a request in or not, and tells of those that change something.
pub(super) async fn guard(
    extract::State(Asks { state, hosts }): extract::State<Asks>,
    path: MatchedPath,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes && is_cross_site(request.headers()) {
        let detail = "the request comes from a page of another site";
        return Problem::new(Kind::CrossSite, detail).into_response();
    }
    if path.as_str() == "/metrics" && state.about.metrics_open {
        return next.run(request).await;
    }
    let shown = Shown::by(&request);
    let caller = match authenticate(&state.about.access, shown).await {
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    // First: whoever may nothing without a token is asked for one, under whichever name.
    if let Err(problem) = authorize(&caller, path.as_str(), params) {
        return challenged(problem.into_response(), None);
    }
    // A page could have given this listener a name of its own, and then come from the same site. Where nobody is asked who he is
    // other programs come under names that are known to the network alone: there it is the page that counts.
    let counts = caller.table.has_rules() || is_from_plain_page(request.headers());
    if !caller.proven && counts && !hosts.are_own(request.headers()) {
        let detail = "without a token the host header must be an address, localhost or the name in admin.listen";
        return Problem::new(Kind::Misdirected, detail).of("host").into_response();
    }
    request.extensions_mut().insert(caller.clone());
    let stores = path.as_str() == MESSAGES;
    let response = if changes {
        run_to_end(Told { caller, stores, status: None }, request, next).await
    } else {
        next.run(request).await
    };
    // Some are refused once it is known what they are about.
    challenged(response, None)
}

/// Answers a request that changes something, and tells of it. It goes on when whoever asked leaves, so that its outcome is known.
async fn run_to_end(told: Told, request: Request, next: Next) -> Response {
    let running = async move {
        // The whole of it: it is dropped here.
        let mut told = told;
        let response = next.run(request).await;
        told.status = Some(response.status());
        response
    };
    tokio::spawn(running.in_current_span()).await.unwrap_or_else(|error| {
        tracing::error!(%error, "an administrative request failed");
        Problem::new(Kind::Internal, "the request failed; the log says more").into_response()
    })
}

fn authorize(
    caller: &Caller,
    path: &str,
    params: Result<RawPathParams, RawPathParamsRejection>,
) -> Result<(), Problem> {
    let params = match params {
        Ok(params) => params,
        Err(RawPathParamsRejection::MissingPathParams(_)) => return caller.may(Resource::Broker),
        Err(error) => return Err(Problem::new(Kind::InvalidRequest, error.body_text())),
    };
    let named = |wanted: &str| params.iter().find(|(name, _)| *name == wanted).map(|(_, it)| it);
    let named = (named("topic").map(TopicName::parse), named("group").map(GroupName::parse));
    match named {
        (Some(Ok(topic)), _) => caller.may(Resource::Topic(&topic)),
        (_, Some(Ok(group))) => caller.may(Resource::Group(&group)),
        // The names are wrong, or for whoever lists and creates to look at.
        (Some(Err(_)), _) | (_, Some(Err(_))) => caller.may_some(),
        _ if ["/api/v1/topics", "/api/v1/groups"].contains(&path) => caller.may_some(),
        _ => caller.may(Resource::Broker),
    }
}

impl Caller {
    fn may_some(&self) -> Result<(), Problem> {
        if self.table.may_some(&self.principal, Operation::Admin) {
            return Ok(());
        }
        self.may(Resource::Broker)
    }
}

/// What a request shows of who has sent it.
struct Shown {
    token: Result<Option<Vec<u8>>, &'static str>,
    certificate: Option<Arc<str>>,
    /// Always there: the listener puts it in.
    address: Option<IpAddr>,
    asked: Arc<str>,
}

impl Shown {
    fn by(request: &Request) -> Self {
        let peer = request.extensions().get::<Peer>();
        let certificate = request.extensions().get::<PeerCertificate>();
        // The whole of it, not what is left below the point where this is mounted.
        let original = request.extensions().get::<OriginalUri>();
        let path = original.map_or(request.uri(), |OriginalUri(uri)| uri).path();
        Self {
            token: bearer(request.headers()).map(|token| token.map(<[u8]>::to_vec)),
            certificate: certificate.map(|PeerCertificate(name)| Arc::clone(name)),
            address: peer.map(|Peer(address)| *address),
            asked: format!("{} {path}", request.method()).into(),
        }
    }
}

async fn authenticate(access: &Arc<Access>, shown: Shown) -> Result<Caller, Box<Response>> {
    let Shown { token, certificate, address, asked } = shown;
    let Some(address) = address else {
        // Nobody is taken for somebody else.
        let detail = "where the request comes from is not known";
        return Err(Box::new(Problem::new(Kind::Internal, detail).into_response()));
    };
    let refuse = |reason: &str, wrong: Wrong| {
        access.refused(&Refused {
            kind: RefusalKind::Unauthenticated,
            principal: None,
            peer: address,
            asked: &asked,
            reason,
        });
        let problem = Problem::new(Kind::Unauthenticated, reason);
        Box::new(challenged(problem.into_response(), Some(wrong)))
    };
    let token = token.map_err(|reason| refuse(reason, Wrong::Request))?;
    // In this order: a table that comes in between is one that the number does not name.
    let (generation, table) = (access.generation(), access.table());
    match identify(&table, token, certificate, address).await {
        Ok(Identity { principal, proven, .. }) => {
            let access = Arc::clone(access);
            Ok(Caller { principal, proven, table, generation, access, peer: address, asked })
        }
        Err(error) => Err(refuse(&error.to_string(), Wrong::Token)),
    }
}

async fn identify(
    table: &Arc<Table>,
    token: Option<Vec<u8>>,
    certificate: Option<Arc<str>>,
    address: IpAddr,
) -> Result<Identity, Denied> {
    let credentials =
        Credentials { token: token.as_deref(), certificate: certificate.as_deref(), address };
    if let Some(found) = table.authenticate_now(&credentials) {
        return found;
    }
    // Hashing takes a while: others are answered meanwhile.
    let table = Arc::clone(table);
    let hashed = tokio::task::spawn_blocking(move || {
        let certificate = certificate.as_deref();
        table.authenticate(&Credentials { token: token.as_deref(), certificate, address })
    });
    hashed.await.unwrap_or(Err(Denied::Token))
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, &'static str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err("the header authorization stands twice");
    }
    let value = value.as_bytes().trim_ascii();
    let (scheme, token) = value.split_at(value.iter().position(|b| *b == b' ').unwrap_or(0));
    if scheme.eq_ignore_ascii_case(b"bearer") && !token.trim_ascii().is_empty() {
        return Ok(Some(token.trim_ascii()));
    }
    Err("the header authorization must be Bearer and a token")
}

/// What is wrong with what a request shows of who has sent it.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    /// The header.
    Request,
    Token,
}

/// The answer to a request that was not let in: whoever has shown nothing is told what would help.
fn challenged(mut response: Response, wrong: Option<Wrong>) -> Response {
    if response.status() == StatusCode::UNAUTHORIZED {
        let challenge = match wrong {
            Some(Wrong::Token) => r#"Bearer realm="hermitmq", error="invalid_token""#,
            Some(Wrong::Request) => r#"Bearer realm="hermitmq", error="invalid_request""#,
            None => r#"Bearer realm="hermitmq""#,
        };
        let value = HeaderValue::from_static(challenge);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// Whether a browser sends it for a page of another site. Other programs send none of these headers.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text("origin") else { return false };
    let authority = origin.split_once("://").map_or("?", |(_, authority)| authority);
    text("host").is_none_or(|host| !host.eq_ignore_ascii_case(authority))
}

/// Whether a browser sends it for a page that came without TLS: nothing shows then that the name in it is that of whoever it
/// leads to. Browsers say where a request comes from with all that changes something, not with what only reads.
fn is_from_plain_page(headers: &HeaderMap) -> bool {
    headers.get("origin").is_some_and(|origin| !origin.as_bytes().starts_with(b"https://"))
}

/// A line for whoever audits what was done, when it is dropped: an end of the broker before the answer does not go untold.
struct Told {
    caller: Caller,
    /// It stores messages.
    stores: bool,
    /// `None` while there is no answer: what was asked for may be done or not.
    status: Option<StatusCode>,
}

impl Told {
    /// Each change is told. But messages come as often as somebody has some, and what was refused has changed nothing: of those
    /// there may be no end, and the log is not to fill a disk. `None` for one that is not told.
    fn held_back(&self) -> Option<HeldBack> {
        let Caller { access, principal, .. } = &self.caller;
        if self.stores || self.status.is_some_and(|status| status.is_client_error()) {
            access.administered(principal)
        } else {
            Some(HeldBack::default())
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let Some(held_back) = self.held_back() else { return };
        let told = |count: u64| (count > 0).then_some(count);
        let Caller { principal, peer, asked, .. } = &self.caller;
        tracing::info!(
            target: "hermitmq::audit",
            %principal,
            %peer,
            action = &**asked,
            status = self.status.map(|status| status.as_u16()),
            done = self.status.map(|status| status.is_success()),
            outcome = self.status.is_none().then_some("unknown"),
            held_back = told(held_back.like_it),
            held_back_of_others = told(held_back.others),
            "administered"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn tokens_are_found_in_their_header() {
        let bearer = |value| {
            let headers = headers(&[("authorization", value)]);
            bearer(&headers).map(|token| token.map(<[u8]>::to_vec))
        };
        assert_eq!(bearer("Bearer abc"), Ok(Some(b"abc".to_vec())));
        assert_eq!(bearer("bearer  abc "), Ok(Some(b"abc".to_vec())));
        for wrong in ["Basic abc", "Bearer", "Bearer ", "abc", ""] {
            assert!(bearer(wrong).is_err(), "{wrong}");
        }
    }

    /// The audit log, without what the test is not about.
    fn told(status: Option<StatusCode>) -> String {
        told_of(1, false, status)
    }

    /// The same of so many requests that store messages or not.
    fn told_of(requests: usize, stores: bool, status: Option<StatusCode>) -> String {
        let (reader, writer) = std::io::pipe().unwrap();
        let log =
            tracing_subscriber::fmt().with_writer(std::sync::Mutex::new(writer)).with_ansi(false);
        tracing::subscriber::with_default(log.finish(), || {
            let access = Arc::new(Access::open(Arc::default()));
            let (table, peer) = (access.table(), IpAddr::from([127, 0, 0, 1]));
            let (principal, asked) = (Principal::anonymous(), "DELETE /api/v1/topics/t".into());
            let caller =
                Caller { principal, proven: false, table, generation: 0, access, peer, asked };
            for _ in 0..requests {
                drop(Told { caller: caller.clone(), stores, status });
            }
        });
        let lines = std::io::read_to_string(reader).unwrap();
        lines
            .lines()
            .map(|line| line.split_once("topics/t\"").unwrap().1.trim())
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn each_change_is_told_and_of_what_has_no_end_only_so_much() {
        let lines = |stores, status| told_of(300, stores, Some(status)).lines().count();
        assert_eq!(lines(false, StatusCode::NO_CONTENT), 300);
        assert_eq!(lines(false, StatusCode::INTERNAL_SERVER_ERROR), 300);
        assert_eq!(lines(false, StatusCode::NOT_FOUND), 10);
        assert_eq!(lines(true, StatusCode::OK), 10);
    }

    #[test]
    fn who_goes_down_before_the_answer_says_so() {
        assert_eq!(told(Some(StatusCode::NO_CONTENT)), "status=204 done=true");
        assert_eq!(told(Some(StatusCode::CONFLICT)), "status=409 done=false");
        assert_eq!(told(None), "outcome=\"unknown\"");
    }

    #[test]
    fn pages_of_other_sites_are_told_from_everything_else() {
        for (list, cross) in [
            (&[("host", "localhost:9093")][..], false),
            (&[("host", "localhost:9093"), ("origin", "http://localhost:9093")], false),
            (&[("host", "localhost:9093"), ("origin", "http://localhost:8000")], true),
            (&[("host", "localhost:9093"), ("origin", "https://example.org")], true),
            (&[("host", "localhost:9093"), ("origin", "null")], true),
            (&[("host", "a"), ("sec-fetch-site", "same-origin"), ("origin", "https://b")], false),
            (&[("host", "a"), ("sec-fetch-site", "none")], false),
            (&[("host", "a"), ("sec-fetch-site", "cross-site")], true),
            (&[("host", "a"), ("sec-fetch-site", "same-site"), ("origin", "http://a")], true),
        ] {
            assert_eq!(is_cross_site(&headers(list)), cross, "{list:?}");
        }
    }

    #[test]
    fn a_page_that_came_with_tls_has_the_name_it_shows() {
        for (list, plain) in [
            (&[("host", "hermitmq.svc:9093")][..], false),
            (&[("host", "evil.example:9093"), ("origin", "http://evil.example:9093")], true),
            (&[("host", "a"), ("origin", "null")], true),
            (&[("host", "a"), ("origin", "https://a"), ("sec-fetch-site", "same-origin")], false),
        ] {
            assert_eq!(is_from_plain_page(&headers(list)), plain, "{list:?}");
        }
    }
}
