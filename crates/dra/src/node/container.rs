//! What containers get: Ropeway's library, its .icd file and the tickets of their claims, by the Container Device
//! Interface (CDI 0.6.0), which container runtimes read.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::gone;

/// The library's folder in a container.
const LIBRARY_FOLDER: &str = "/opt/ropeway";

/// The file by which the loader finds it, where both of them look.
const ICD: &str = "/etc/OpenCL/vendors/ropeway.icd";

/// The folder of all claims in a container.
const CLAIMS: &str = "/run/ropeway/claims";

/// The library, as it lies on the node for containers.
#[derive(Clone, Debug)]
pub struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Copies the library into a folder of its own among these. Containers of an earlier release go on with theirs.
    pub fn new(folders: &Path, library: &Path) -> io::Result<Self> {
        let contents = fs::read(library)?;
        let folder = folders.join(&blake3::hash(&contents).to_hex()[..16]);
        if folder.is_dir() {
            return Ok(Self { folder });
        }
        DirBuilder::new().recursive(true).mode(0o755).create(folders)?;
        let fresh = folders.join(format!(".{}", std::process::id()));
        gone(fs::remove_dir_all(&fresh))?;
        DirBuilder::new().mode(0o755).create(&fresh)?;
        let put = |name: &str, contents: &[u8], mode| {
            let path = fresh.join(name);
            fs::write(&path, contents)?;
            fs::set_permissions(path, Permissions::from_mode(mode))
        };
        put("libropeway.so", &contents, 0o755)?;
        put("ropeway.icd", format!("{LIBRARY_FOLDER}/libropeway.so\n").as_bytes(), 0o644)?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o755))?;
        fs::rename(&fresh, &folder)?;
        Ok(Self { folder })
    }
}

/// The folder in which the container runtime looks for specifications.
#[derive(Clone, Debug)]
pub struct Cdi {
    folder: PathBuf,
    driver: String,
}

impl Cdi {
    /// One that exists, or is made.
    pub fn open(folder: &Path, driver: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), driver: driver.to_owned() })
    }

    /// The name by which kubelet tells the container runtime of a claim.
    pub fn id(&self, uid: &str) -> String {
        format!("{}/claim={uid}", self.driver)
    }

    /// Says what the containers of a claim get.
    pub fn write(&self, uid: &str, tickets: &Path, library: &Installed) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&self.specification(uid, tickets, library))?;
        // Runtimes read what ends with .json.
        let fresh = self.folder.join(format!(".{}-{uid}", self.driver));
        fs::write(&fresh, text)?;
        fs::rename(fresh, self.file(uid))
    }

    /// Takes that back.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        gone(fs::remove_file(self.file(uid)))
    }

    fn file(&self, uid: &str) -> PathBuf {
        self.folder.join(format!("{}-claim-{uid}.json", self.driver))
    }

    fn specification(&self, uid: &str, tickets: &Path, library: &Installed) -> Value {
        let mount = |from: &Path, to: &str| json!({"hostPath": from, "containerPath": to, "options": ["ro", "bind", "nosuid", "nodev"]});
        let edits = json!({
            // Servers that the image names are not to be used beside the claim's.
            "env": [format!("ROPEWAY_HOSTFILE={CLAIMS}"), "ROPEWAY_SERVERS="],
            "mounts": [
                mount(&library.folder, LIBRARY_FOLDER),
                mount(&library.folder.join("ropeway.icd"), ICD),
                // A container with several claims has a folder for each.
                mount(tickets, &format!("{CLAIMS}/{uid}")),
            ],
        });
        json!({
            "cdiVersion": "0.6.0",
            "kind": format!("{}/claim", self.driver),
            "devices": [{"name": uid, "containerEdits": edits}],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_get_the_library_and_the_tickets() {
        let place = tempfile::tempdir().unwrap();
        let library = place.path().join("libropeway.so");
        fs::write(&library, "first").unwrap();
        let folders = place.path().join("libraries");
        let installed = Installed::new(&folders, &library).unwrap();
        assert_eq!(fs::read(installed.folder.join("libropeway.so")).unwrap(), b"first");
        let icd = fs::read_to_string(installed.folder.join("ropeway.icd")).unwrap();
        assert_eq!(icd, "/opt/ropeway/libropeway.so\n");
        assert_eq!(Installed::new(&folders, &library).unwrap().folder, installed.folder);
        fs::write(&library, "second").unwrap();
        assert_ne!(Installed::new(&folders, &library).unwrap().folder, installed.folder);
        assert_eq!(fs::read(installed.folder.join("libropeway.so")).unwrap(), b"first", "who has it keeps it");

        let cdi = Cdi::open(&place.path().join("cdi"), "ropeway.io").unwrap();
        cdi.write("0f-1", Path::new("/claims/0f-1/tickets"), &installed).unwrap();
        let file = place.path().join("cdi/ropeway.io-claim-0f-1.json");
        let read: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(read["kind"], "ropeway.io/claim");
        assert_eq!(cdi.id("0f-1"), "ropeway.io/claim=0f-1");
        let device = &read["devices"][0];
        assert_eq!(device["name"], "0f-1");
        let edits = &device["containerEdits"];
        assert_eq!(edits["env"], json!(["ROPEWAY_HOSTFILE=/run/ropeway/claims", "ROPEWAY_SERVERS="]));
        let mounts: Vec<_> = edits["mounts"].as_array().unwrap().iter().map(|mount| &mount["containerPath"]).collect();
        assert_eq!(mounts, ["/opt/ropeway", ICD, "/run/ropeway/claims/0f-1"]);
        assert!(edits["mounts"].as_array().unwrap().iter().all(|mount| mount["options"][0] == "ro"));
        cdi.remove("0f-1").unwrap();
        cdi.remove("0f-1").unwrap();
        assert_eq!(fs::read_dir(place.path().join("cdi")).unwrap().count(), 0);
    }
}
