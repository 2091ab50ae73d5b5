//! An organisation's authority, whose certificates `openssl` makes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// An authority, and the folder with all that it has issued.
pub struct Authority {
    folder: TempDir,
}

/// A certificate and its key.
pub struct Issued {
    /// The certificate, as PEM.
    pub certificate: PathBuf,
    /// The private key, which only its owner may read.
    pub key: PathBuf,
}

impl Authority {
    /// The lab's, anew each time.
    pub fn new() -> Self {
        Self::named("/O=Lab/CN=The lab's authority")
    }

    /// One with this subject, in openssl's notation.
    pub fn named(subject: &str) -> Self {
        let authority = Self { folder: tempfile::tempdir().expect("a temporary folder can be made") };
        let subject = ["-subj", subject, "-days", "30"];
        authority
            .openssl(&[&["req", "-x509"][..], &NEW_KEY, &["-keyout", "ca.key", "-out", "ca.pem"], &subject].concat());
        authority
    }

    /// Its own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Issues one to `subject`, in openssl's notation, with other names or none, for so many days from now on.
    pub fn issue(&self, file: &str, subject: &str, other_names: &str, days: i32) -> Issued {
        let names = |end: &str| format!("{file}.{end}");
        let (key, request, certificate, extensions) = (names("key"), names("csr"), names("pem"), names("ext"));
        let other_names =
            if other_names.is_empty() { String::new() } else { format!("subjectAltName={other_names}\n") };
        fs::write(self.folder.path().join(&extensions), format!("basicConstraints=CA:FALSE\n{other_names}"))
            .expect("a file can be written");
        self.openssl(&[&["req"][..], &NEW_KEY, &["-keyout", &key, "-out", &request, "-subj", subject]].concat());
        let days = days.to_string();
        let by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", &extensions, "-days", &days];
        self.openssl(&[&["x509", "-req", "-in", &request, "-out", &certificate][..], &by].concat());
        let key = self.folder.path().join(key);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
        Issued { certificate: self.folder.path().join(certificate), key }
    }

    /// Revokes certificates, and writes the list of all that are.
    pub fn revoke(&self, issued: &[&Issued]) -> PathBuf {
        for (name, contents) in [("index.txt", ""), ("crlnumber", "01\n"), ("ca.cnf", LISTS)] {
            let file = self.folder.path().join(name);
            if !file.exists() {
                fs::write(file, contents).expect("a file can be written");
            }
        }
        for issued in issued {
            self.openssl(&["ca", "-config", "ca.cnf", "-revoke", text(&issued.certificate)]);
        }
        self.openssl(&["ca", "-config", "ca.cnf", "-gencrl", "-out", "crl.new"]);
        let list = self.folder.path().join("crl.pem");
        fs::rename(self.folder.path().join("crl.new"), &list).expect("a file can be replaced");
        list
    }

    fn openssl(&self, args: &[&str]) {
        let made = Command::new("openssl").args(args).current_dir(self.folder.path()).output().expect("openssl starts");
        assert!(made.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&made.stderr));
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// How an authority writes its lists of what is revoked.
const LISTS: &str = "[ca]
default_ca = lab
[lab]
database = index.txt
crlnumber = crlnumber
certificate = ca.pem
private_key = ca.key
default_md = sha256
default_crl_days = 30
crl_extensions = list
[list]
authorityKeyIdentifier = keyid:always
";

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/// A file's name, as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("its name is text")
}
