//! The certificate the server shows: its own, made on the first start, or the operator's, read again when it changes.
//!
//! In:     two files of PEM; the names under which the server is reached.
//! Out:    [`Identity`], whose configuration of TLS always shows the newest certificate that could be read.
//! Fails:  with a line that names the file; later a bad file changes nothing, and whoever looks hears why.
//! Source: Electrum's wallets trust a self-signed certificate from the first time they see it until it expires.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use crate::kept::write_whole;
use crate::keys::base64;

/// Bytes of a file of certificates or of a key; a chain of four takes 8 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Years until a certificate of ours expires: a wallet that has pinned it asks its user anew then.
const YEARS: i32 = 10;

/// Seconds of an average year.
const YEAR_S: u64 = 31_556_952;

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate and those that vouch for it, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Both are made where neither is there.
    pub are_made: bool,
}

/// What tells one version of both files from another.
type Stamp = [(u64, u64, i64, i64); 2];

/// A certificate in use.
pub struct Identity {
    files: Files,
    shown: Arc<Shown>,
    config: Arc<ServerConfig>,
    seen: Mutex<Option<Stamp>>,
}

/// The certificate shown to the next client.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Identity {
    /// Reads the files, or makes them for a server with these names.
    pub fn open(files: Files, names: &[String], unix_s: u64) -> Result<Identity, String> {
        if files.are_made && !files.certificate.exists() && !files.key.exists() {
            make(&files, names, unix_s)?;
        }
        let provider = Arc::new(ring::default_provider());
        let stamp = stamp(&files);
        let shown = Arc::new(Shown(RwLock::new(Arc::new(read(&files, &provider)?))));
        let unusable = |error: rustls::Error| format!("TLS cannot be set up: {error}");
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&TLS13, &TLS12]).map_err(unusable)?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(shown.clone());
        // Sessions are taken up again by tickets the client keeps, so that they cost us no memory.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Ticketer::new().map_err(unusable)?;
        config.send_tls13_tickets = 1;
        Ok(Identity { files, shown, config: Arc::new(config), seen: Mutex::new(Some(stamp)) })
    }

    /// The configuration for new connections; it stays the same when the certificate changes.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Reads the files again where they have changed; true where another certificate is shown from now on.
    pub fn look(&self) -> Result<bool, String> {
        let now = stamp(&self.files);
        if self.seen.lock().unwrap_or_else(PoisonError::into_inner).replace(now) == Some(now) {
            return Ok(false);
        }
        let new = read(&self.files, self.config.crypto_provider())?;
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(true)
    }
}

fn stamp(files: &Files) -> Stamp {
    [&files.certificate, &files.key].map(|path| {
        fs::metadata(path).map_or((0, 0, 0, 0), |data| (data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
    })
}

fn failed(path: &Path, why: impl Debug) -> String {
    format!("{}: {why:?}", path.display())
}

fn read(files: &Files, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let bytes = |path: &Path| {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(bytes)
    };
    let certificates = CertificateDer::pem_slice_iter(&bytes(&files.certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| failed(&files.certificate, error))?;
    if certificates.is_empty() {
        return Err(format!("{}: holds no certificate in PEM", files.certificate.display()));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes(&files.key)?).map_err(|error| failed(&files.key, error))?;
    CertifiedKey::from_der(certificates, key, provider)
        .map_err(|error| format!("{} and {} cannot be used: {error}", files.certificate.display(), files.key.display()))
}

/// Makes a key and a certificate signed with it.
fn make(files: &Files, names: &[String], unix_s: u64) -> Result<(), String> {
    let unusable = |error: rcgen::Error| format!("no certificate can be made: {error}");
    let key = KeyPair::generate().map_err(unusable)?;
    let mut all = names.to_vec();
    all.push("localhost".to_owned());
    let mut params = CertificateParams::new(all.clone()).map_err(unusable)?;
    params.distinguished_name.push(DnType::CommonName, all[0].clone());
    let year = i32::try_from(1970 + unix_s / YEAR_S).unwrap_or(9_000).min(9_000);
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + YEARS, 1, 1);
    let certificate = params.self_signed(&key).map_err(unusable)?;
    let written = |path: &Path, text: String, mode| {
        write_whole(path, text.as_bytes(), mode).map_err(|error| format!("{}: {error}", path.display()))
    };
    // The key first: a certificate without its key would never be made again.
    written(&files.key, pem("PRIVATE KEY", key.serialized_der()), 0o600)?;
    written(&files.certificate, pem("CERTIFICATE", certificate.der()), 0o644)
}

/// Text of RFC 7468.
fn pem(label: &str, bytes: &[u8]) -> String {
    let digits = base64::encode(bytes);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in digits.as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).expect("base 64 is ASCII"));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder of its own for each test.
    fn files(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("assay-certificate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Files { certificate: folder.join("c.pem"), key: folder.join("k.pem"), are_made: true }
    }

    fn shown(identity: &Identity) -> Vec<u8> {
        identity.shown.0.read().unwrap().cert[0].to_vec()
    }

    #[test]
    fn it_is_made_once_and_its_key_is_secret() {
        let files = files("made");
        let identity = Identity::open(files.clone(), &["electrum.example".to_owned()], 1_790_000_000).unwrap();
        let mode = fs::metadata(&files.key).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let again = Identity::open(files.clone(), &[], 0).unwrap();
        assert_eq!(shown(&identity), shown(&again));
        let has = |text: &str| shown(&identity).windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has("electrum.example") && has("localhost"));
        assert!(has("250101000000Z") && has("360101000000Z"), "from last year on, for ten years");
        assert!(!identity.look().unwrap());
        fs::remove_file(&files.key).unwrap();
        let error = Identity::open(files.clone(), &[], 0).err().expect("half of it is not made anew");
        assert!(error.contains("k.pem"), "{error}");
        fs::remove_dir_all(files.key.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_changed_file_is_read_and_a_bad_one_changes_nothing() {
        let (one, two) = (files("changed"), files("other"));
        let identity = Identity::open(one.clone(), &[], 1_790_000_000).unwrap();
        let other = Identity::open(two.clone(), &[], 1_790_000_000).unwrap();
        let first = shown(&identity);
        fs::copy(&two.certificate, &one.certificate).unwrap();
        let error = identity.look().unwrap_err();
        assert!(error.contains("cannot be used"), "a certificate whose key is another's: {error}");
        assert_eq!(shown(&identity), first);
        assert!(!identity.look().unwrap(), "said once");
        fs::copy(&two.key, &one.key).unwrap();
        assert!(identity.look().unwrap());
        assert_eq!(shown(&identity), shown(&other));
        for (path, text, word) in [
            (&one.certificate, "", "no certificate"),
            (&one.certificate, "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n", "c.pem"),
            (&one.key, "nothing", "k.pem"),
        ] {
            let before = fs::read(path).unwrap();
            fs::write(path, text).unwrap();
            let error = identity.look().unwrap_err();
            assert!(error.contains(word), "{error}");
            fs::write(path, before).unwrap();
            let _ = identity.look();
            assert_eq!(shown(&identity), shown(&other));
        }
        [&one, &two].iter().for_each(|files| fs::remove_dir_all(files.key.parent().unwrap()).unwrap());
    }
}
