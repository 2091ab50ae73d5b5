//! Images of containers, made by hand of programs of this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::run;

/// The libraries that a program or library loads, but the kernel's.
fn libraries(file: &Path) -> BTreeSet<PathBuf> {
    let output = Command::new("ldd").arg(file).output().expect("ldd is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// An image that is to be made.
pub struct Image<'a> {
    /// Its name, behind `localhost/`.
    pub name: &'a str,
    /// Its tag.
    pub tag: &'a str,
    /// What its containers run.
    pub entry: &'a str,
    /// Files of this machine, and where they are in the image; what they load is put beside them.
    pub files: &'a [(PathBuf, String)],
    /// A library that is given to its containers: what that loads is in the image.
    pub given: Option<&'a Path>,
}

impl Image<'_> {
    /// Makes it; returns its file.
    pub fn make(&self, folder: &Path) -> PathBuf {
        let place = folder.join(self.name);
        let root = place.join("root");
        let put = |from: &Path, to: PathBuf| {
            fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder can be made");
            fs::copy(from, to).expect("a file can be copied");
        };
        for (file, to) in self.files {
            put(file, root.join(to));
        }
        let loading = self.files.iter().map(|(file, _)| file.as_path()).chain(self.given);
        for library in loading.flat_map(libraries) {
            put(&library, root.join(library.strip_prefix("/").expect("it is absolute")));
        }
        for folder in ["tmp", "etc", "run", "var", "dev", "proc", "sys", "opt"] {
            fs::create_dir_all(root.join(folder)).expect("a folder can be made");
        }
        let layer = place.join("layer.tar");
        run(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&layer).arg("."));
        let digest = sum(&layer);
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {"Entrypoint": [self.entry], "Cmd": ["1000000"], "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        let tag = format!("localhost/{}:{}", self.name, self.tag);
        let manifest = json!([{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]);
        fs::write(place.join("config.json"), config.to_string()).expect("a file can be written");
        fs::write(place.join("manifest.json"), manifest.to_string()).expect("a file can be written");
        let image = folder.join(format!("{}.tar", self.name));
        let parts = ["config.json", "manifest.json", "layer.tar"];
        run(Command::new("tar").arg("-C").arg(&place).arg("-cf").arg(&image).args(parts));
        image
    }
}

fn sum(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().expect("sha256sum is there");
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().expect("it prints a sum").to_owned()
}
