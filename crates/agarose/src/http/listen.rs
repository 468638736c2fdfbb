//! The socket itself: where it lies, who may use it.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream, unix::SocketAddr};

use crate::places;

/// The name that a socket has until it may be used.
const FRESH: &str = "agarose.sock.new";

/// The daemon's socket. Only its user and root are served.
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
    uid: u32,
}

impl Listener {
    /// Binds the socket of a data directory in place of a stale one. To be called by the holder of the
    /// directory's lock and by nobody else.
    pub(crate) fn bind(dir: &Path) -> io::Result<Self> {
        let fresh = dir.join(FRESH);
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (address, _open) = places::socket_address(dir, FRESH)?;
        let listener = UnixListener::bind(address)?;
        // It gets its name only when nobody else can open it any more.
        fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
        let path = dir.join(places::SOCKET);
        fs::rename(&fresh, &path)?;
        let uid = fs::metadata(&path)?.uid();
        Ok(Self { listener, path, uid })
    }

    /// The path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn serves(&self, stream: &UnixStream) -> bool {
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == self.uid || peer.uid() == 0 => true,
            Ok(peer) => {
                tracing::warn!(uid = peer.uid(), "a connection of another user was refused");
                false
            }
            Err(error) => {
                tracing::warn!(%error, "a connection that does not say whose it is was refused");
                false
            }
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) if self.serves(&stream) => return (stream, address),
                Ok(_) => {}
                Err(error) => {
                    // Out of descriptors, most likely: others have to end first.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_by_one_that_only_its_owner_can_open() {
        let dir = tempfile::tempdir().unwrap();
        drop(Listener::bind(dir.path()).unwrap());
        let listener = Listener::bind(dir.path()).unwrap();
        assert_eq!(fs::metadata(listener.path()).unwrap().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(listener.path()).await.is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
