//! The thread that answers HTTP: its runtime, its connections, and how much of it one peer may take.

use std::convert::Infallible;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio_rustls::TlsAcceptor;

use super::authorize::Peer;
use super::listener::Listener;
use super::places::{Place, Places};
use super::routes;
use super::state::State;
use crate::broker::is_out_of_descriptors;
use crate::metrics::Metrics;
use crate::tls::{PeerCertificate, Tls, principal};

/// Connections at a time; one more takes the place of one that is silent, or waits.
const CONNECTIONS_MAX: usize = 256;

/// Threads for what may wait for the disk.
const BLOCKING_THREADS_MAX: usize = 16;

/// Longest time for the head of a request, and between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time in which a peer takes nothing of its answers: by then it has no place among the connections any more.
#[cfg(target_os = "linux")]
const TAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after accepting failed for want of something.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Time that the end gives to what is being answered.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The running admin listener.
#[derive(Debug)]
pub struct Admin {
    addr: SocketAddr,
    runtime: Runtime,
}

impl Admin {
    /// Starts to answer: over TLS if there is any, and over nothing else then.
    pub fn start(listener: Listener, state: Arc<State>, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("admin")
            .enable_all()
            .build()?;
        let addr = listener.addr();
        let Listener { socket, hosts, .. } = listener;
        let listener = {
            let _in_runtime = runtime.enter();
            TcpListener::from_std(socket)?
        };
        let metrics = Arc::clone(&state.about.metrics);
        runtime.spawn(accept(listener, tls, routes::router(state, hosts), metrics));
        Ok(Self { addr, runtime })
    }

    /// The address listened on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends it, and what it has not answered by then.
    pub fn stop(self) {
        self.runtime.shutdown_timeout(STOP_TIMEOUT);
    }
}

/// A descriptor to give up when there are none left, so that who waits is answered all the same, one at a time: a probe that gets
/// no answer has a broker ended that serves those who are there.
#[derive(Debug, Clone, Default)]
struct Reserve(Arc<Mutex<Option<File>>>);

impl Reserve {
    fn give_up(&self) {
        *self.0.lock() = None;
    }

    /// Has it again, if it was given up and can be had.
    fn renew(&self) {
        let mut file = self.0.lock();
        if file.is_none() {
            *file = File::open("/dev/null").ok();
        }
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    metrics: Arc<Metrics>,
) {
    let places = Places::new(CONNECTIONS_MAX);
    let reserve = Reserve::default();
    let mut wanting = false;
    loop {
        reserve.renew();
        let mut accepted = listener.accept().await;
        let wants = accepted.as_ref().is_err_and(is_out_of_descriptors);
        if wants {
            metrics.accept_errors.inc();
            reserve.give_up();
            // Without waiting: others would have the descriptor before somebody comes.
            let now = poll_fn(|cx| Poll::Ready(listener.poll_accept(cx))).await;
            let Poll::Ready(now) = now else { continue };
            accepted = now;
        }
        if wants && !wanting {
            tracing::warn!(
                "no descriptors are left: admin connections are accepted one at a time, if at all"
            );
        }
        wanting = wants;
        match accepted {
            Ok((stream, peer)) => {
                let peer = Peer(peer.ip());
                let place = places.take().await;
                let serving = begin(stream, peer, tls.clone(), router.clone(), Arc::clone(&place));
                let reserve = reserve.clone();
                drop(tokio::spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = place.gone() => tracing::debug!("a silent admin connection made room"),
                    }
                    // At once: it is the one that was given up, perhaps.
                    reserve.renew();
                }));
            }
            Err(error) => {
                tracing::debug!(%error, "an admin connection was not accepted");
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}

async fn begin(
    stream: TcpStream,
    peer: Peer,
    tls: Option<Arc<Tls>>,
    router: Router,
    place: Arc<Place>,
) {
    configure(&stream);
    let Some(tls) = tls else { return serve(stream, peer, None, router, place).await };
    let accepting = TlsAcceptor::from(tls.config()).accept(stream).into_fallible();
    match tokio::time::timeout(HEAD_TIMEOUT, accepting).await {
        Ok(Ok(stream)) => {
            let chain = stream.get_ref().1.peer_certificates();
            let name = chain.and_then(<[_]>::first).and_then(|certificate| principal(certificate));
            serve(stream, peer, name.map(PeerCertificate), router, place).await;
        }
        Ok(Err((error, stream))) => {
            tracing::debug!(%error, "the TLS handshake of an admin connection failed");
            drain(stream).await;
        }
        Err(_) => tracing::debug!("the TLS handshake of an admin connection took too long"),
    }
}

/// A socket without these options works, too.
fn configure(stream: &TcpStream) {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    // A window that stays closed counts, too. Keepalive is not needed: no connection is idle for long.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(TAKE_TIMEOUT));
}

/// Reads until the peer closes: closing before it would take back the alert that is on its way to it.
async fn drain(mut stream: TcpStream) {
    let draining = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(STOP_TIMEOUT, draining).await;
}

async fn serve<S>(
    stream: S,
    peer: Peer,
    certificate: Option<PeerCertificate>,
    router: Router,
    place: Arc<Place>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let extensions = request.extensions_mut();
        extensions.insert(peer);
        if let Some(certificate) = &certificate {
            extensions.insert(certificate.clone());
        }
        let (kept, answering) = (place.keep(), router.call(request));
        async move {
            let answer = answering.await?;
            // To the end of the answer.
            Ok::<_, Infallible>(answer.map(|body| {
                body.map_err(move |error| {
                    let _ = &kept;
                    error
                })
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "an admin connection ended");
    }
}
