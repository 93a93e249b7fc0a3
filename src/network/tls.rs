//! Certificate and key of a server, read and tried when it starts: one that could not serve says so then.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate that a server shows, and the key to it. Its `Debug` shows nothing of the key.
#[derive(Debug, Clone)]
pub struct Tls {
    pub(super) server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads a certificate, with those that vouch for it behind it, and its key, both in PEM.
    ///
    /// # Errors
    /// One sentence that names the file, when one cannot be read or holds nothing of the kind, when others may read the
    /// key, or when the two do not belong together.
    pub fn read(cert: &Path, key: &Path) -> Result<Self, String> {
        let (shown_cert, shown_key) = (cert.display(), key.display());
        let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|why| format!("the certificate {shown_cert} cannot be read: {why}"))?;
        if certs.is_empty() {
            return Err(format!("{shown_cert} holds no certificate: one in PEM is expected"));
        }
        if others_may_read(key) {
            return Err(format!("the key {shown_key} may be read or written by others; `chmod 600 {shown_key}`"));
        }
        let key =
            PrivateKeyDer::from_pem_file(key).map_err(|why| format!("the key {shown_key} cannot be read: {why}"))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let mut server = builder
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .with_no_client_auth()
            .with_single_cert(certs, key)
            .map_err(|why| format!("{shown_cert} and {shown_key} cannot be used together: {why}"))?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { server: Arc::new(server) })
    }
}

/// Returns whether anybody but its owner may read or write the file; a file that is not there is nobody's.
#[must_use]
pub fn others_may_read(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};

    use super::*;

    const CERT: &str = include_str!("../../fixtures/tls/cert.pem");
    const KEY: &str = include_str!("../../fixtures/tls/key.pem");
    const OTHER_KEY: &str = include_str!("../../fixtures/tls/other-key.pem");

    fn read(cert: &str, key: &str, mode: u32) -> Result<Tls, String> {
        let folder = tempfile::tempdir().unwrap();
        let (cert_file, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert_file, cert).unwrap();
        std::fs::write(&key_file, key).unwrap();
        set_permissions(&key_file, Permissions::from_mode(mode)).unwrap();
        let shown = format!("{}/", folder.path().display());
        Tls::read(&cert_file, &key_file).map_err(|why| why.replace(&shown, ""))
    }

    #[test]
    fn a_certificate_and_its_key_are_read() {
        assert!(read(CERT, KEY, 0o600).is_ok());
        assert!(read(CERT, KEY, 0o400).is_ok());
    }

    #[test]
    fn what_cannot_serve_is_named() {
        for (cert, key, mode, why) in [
            (CERT, KEY, 0o640, "the key key.pem may be read or written by others; `chmod 600 key.pem`"),
            (CERT, OTHER_KEY, 0o600, "cert.pem and key.pem cannot be used together: "),
            ("nothing", KEY, 0o600, "cert.pem holds no certificate"),
            (KEY, KEY, 0o600, "cert.pem holds no certificate"),
            (CERT, "nothing", 0o600, "the key key.pem cannot be read: "),
            (CERT, CERT, 0o600, "the key key.pem cannot be read: "),
        ] {
            let refused = read(cert, key, mode).unwrap_err();
            assert!(refused.starts_with(why) && !refused.contains('\n'), "{refused}");
        }
        let missing = Path::new("/no/such/file.pem");
        assert!(
            Tls::read(missing, missing).unwrap_err().starts_with("the certificate /no/such/file.pem cannot be read")
        );
    }
}
