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

/// Makes an image with these programs, and what the libraries that are given to its containers load; returns its file.
pub fn make(folder: &Path, name: &str, programs: &[&Path], given: &[&Path]) -> PathBuf {
    let place = folder.join(name);
    let root = place.join("root");
    let put = |from: &Path, to: PathBuf| {
        fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder can be made");
        fs::copy(from, to).expect("a file can be copied");
    };
    for program in programs {
        put(program, root.join("bin").join(program.file_name().expect("it has a name")));
    }
    for library in programs.iter().chain(given).flat_map(|file| libraries(file)) {
        put(&library, root.join(library.strip_prefix("/").expect("it is absolute")));
    }
    for folder in ["tmp", "etc", "run", "dev", "proc", "sys", "opt"] {
        fs::create_dir_all(root.join(folder)).expect("a folder can be made");
    }
    let layer = place.join("layer.tar");
    run(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&layer).arg("."));
    let digest = sum(&layer);
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest =
        json!([{"Config": "config.json", "RepoTags": [format!("localhost/{name}:1")], "Layers": ["layer.tar"]}]);
    fs::write(place.join("config.json"), config.to_string()).expect("a file can be written");
    fs::write(place.join("manifest.json"), manifest.to_string()).expect("a file can be written");
    let image = folder.join(format!("{name}.tar"));
    run(Command::new("tar").arg("-C").arg(&place).arg("-cf").arg(&image).args([
        "config.json",
        "manifest.json",
        "layer.tar",
    ]));
    image
}

fn sum(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().expect("sha256sum is there");
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().expect("it prints a sum").to_owned()
}
