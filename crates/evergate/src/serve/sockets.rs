//! Where clients and operators come in: sockets that were handed over, else sockets of our own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::carriers::Carriers;
use super::handed_over::HandedOver;
use crate::config;
use crate::exit_code::Failure;
use crate::front::listener::{self, Door};
use crate::front::places::Share;
use crate::front::{Face, Front};
use crate::tasks::Tasks;

/// One for clients, and perhaps one for operators.
#[derive(Debug)]
pub(super) struct Sockets {
    mcp: Socket,
    admin: Option<Socket>,
}

#[derive(Debug)]
struct Socket {
    listener: TcpListener,
    address: SocketAddr,
    is_handed_over: bool,
}

/// Unless somebody says otherwise.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

// === impl Sockets ===

impl Sockets {
    /// Listens where the command line says, else the configuration. What was handed over goes before both. Addresses that
    /// others can reach need keys, unless `open_to_all`.
    pub(super) async fn open(
        settings: &config::Gateway,
        listen: Option<SocketAddr>,
        handed_over: HandedOver,
        open_to_all: bool,
    ) -> Result<Self, Failure> {
        let HandedOver { mcp, admin } = handed_over;
        let address = address_of(mcp.as_ref(), listen.or(settings.listen))?;
        let address = address.unwrap_or(DEFAULT_LISTEN);
        let admin_address = address_of(admin.as_ref(), settings.admin_listen)?;
        if !open_to_all {
            for address in [Some(address), admin_address].into_iter().flatten() {
                settings.may_listen_on(address).map_err(Failure::usage)?;
            }
        }
        let mcp = Socket::open(mcp, address).await?;
        let admin = match admin_address {
            Some(address) => Some(Socket::open(admin, address).await?),
            None => None,
        };
        Ok(Self { mcp, admin })
    }

    /// For clients.
    pub(super) fn address(&self) -> SocketAddr {
        self.mcp.address
    }

    /// For operators, if somewhere else.
    pub(super) fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|admin| admin.address)
    }

    /// Accepts until `stop`. The door for clients can be closed before.
    pub(super) fn serve(
        self,
        front: &Arc<Front>,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Result<(Carriers, Door), Failure> {
        let door = |socket: &Socket| Door {
            closed: stop.child_token(),
            is_handed_over: socket.is_handed_over,
        };
        let public = door(&self.mcp);
        let carriers = Carriers::start(&self.mcp.listener, front, tasks, &public)?;
        if let Some(admin) = self.admin {
            let door = door(&admin);
            let listener = tokio::net::TcpListener::from_std(admin.listener)?;
            let (front, share) = (front.clone(), Share::whole());
            tasks.spawn(listener::serve(listener, Face::Admin, front, tasks.clone(), share, door));
        }
        Ok((carriers, public))
    }
}

// === impl Socket ===

impl Socket {
    async fn open(handed_over: Option<TcpListener>, address: SocketAddr) -> Result<Self, Failure> {
        let is_handed_over = handed_over.is_some();
        let listener = match handed_over {
            Some(listener) => listener,
            None => bind(address).await?,
        };
        Ok(Self { address: listener.local_addr()?, listener, is_handed_over })
    }
}

/// Of a socket that was handed over, else what was said.
fn address_of(
    handed_over: Option<&TcpListener>,
    said: Option<SocketAddr>,
) -> Result<Option<SocketAddr>, Failure> {
    Ok(handed_over.map(TcpListener::local_addr).transpose()?.or(said))
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = tokio::net::TcpListener::bind(address).await;
    bound
        .and_then(tokio::net::TcpListener::into_std)
        .map_err(|error| Failure::unavailable(format!("cannot listen on {address}: {error}")))
}
