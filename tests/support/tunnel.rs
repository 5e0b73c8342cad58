//! Clients without TLS at a broker with it: what comes in on a plain port goes out encrypted. So every client of these tests can
//! be one with TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use super::certificates::{Authority, Identity};

/// A port that leads to a broker; closed, with all that goes through it, when dropped.
#[derive(Debug)]
pub struct Tunnel {
    addr: SocketAddr,
    _runtime: Runtime,
}

impl Tunnel {
    /// Trusts `ca`, with a certificate of its own or without, in any version.
    pub fn to(broker: SocketAddr, ca: &Authority, identity: Option<&Identity>) -> Self {
        Self::with(broker, config(ca, identity, rustls::ALL_VERSIONS))
    }

    pub fn with(broker: SocketAddr, config: ClientConfig) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, broker, TlsConnector::from(Arc::new(config))));
        Self { addr, _runtime: runtime }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

async fn serve(listener: TcpListener, broker: SocketAddr, connector: TlsConnector) {
    while let Ok((mut near, _)) = listener.accept().await {
        let connector = connector.clone();
        tokio::spawn(async move {
            near.set_nodelay(true).ok()?;
            let far = TcpStream::connect(broker).await.ok()?;
            far.set_nodelay(true).ok()?;
            let mut far = connector.connect(localhost(), far).await.ok()?;
            tokio::io::copy_bidirectional(&mut near, &mut far).await.ok()
        });
    }
}

/// What a client of rustls goes by.
pub fn config(
    ca: &Authority,
    identity: Option<&Identity>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    }
}

/// A connection of rustls over a blocking socket, its handshake not begun.
pub fn connection(
    broker: SocketAddr,
    config: ClientConfig,
) -> rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream> {
    connection_over(std::net::TcpStream::connect(broker).unwrap(), config)
}

/// The same over a socket that is connected.
pub fn connection_over(
    socket: std::net::TcpStream,
    config: ClientConfig,
) -> rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream> {
    socket.set_read_timeout(Some(super::HANG)).unwrap();
    socket.set_write_timeout(Some(super::HANG)).unwrap();
    let session = rustls::ClientConnection::new(Arc::new(config), localhost()).unwrap();
    rustls::StreamOwned::new(session, socket)
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}
