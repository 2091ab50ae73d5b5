//! The examples of the edge: a point cloud that is sorted and painted elsewhere, with the same picture.

use std::path::PathBuf;
use std::process::Command;

use ropeway_tests::net::Net;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::{notes, places};

/// A stream that has been made.
struct Cloud {
    path: PathBuf,
    most: String,
    /// Points of all frames together.
    points: u64,
}

impl Cloud {
    /// So many frames with so many points at the most; `None` where there is no Draco.
    fn or_skip(most: usize, frames: usize) -> Option<Self> {
        let make = places::examples().join("make_cloud");
        if !make.exists() {
            notes::skipped("there is no Draco; libdraco-dev has it");
            return None;
        }
        let path = places::kept("streams").join(format!("{most}-{frames}-{}.frames", std::process::id()));
        let made = Command::new(make).arg(&path).args([most.to_string(), frames.to_string()]).output();
        let made = made.expect("it was built");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let said = String::from_utf8(made.stdout).expect("it prints text");
        let points = said.split("at the most, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        Some(Self { path, most: most.to_string(), points: points.expect("it says how many points there are") })
    }

    /// The arguments of a program that reads it, behind the mode.
    fn read<'a>(&'a self, frames: &'a str) -> [&'a str; 6] {
        let path = self.path.to_str().expect("a path of text");
        ["--stream", path, "--most", &self.most, "--frames", frames]
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn pointcloud() -> PathBuf {
    places::examples().join("pointcloud")
}

/// Each frame's pixels and its order, all at the client's own device.
fn local(cloud: &Cloud, frames: &str, more: &[&str]) -> String {
    let program = Program::native(pointcloud()).args(["local"]).args(cloud.read(frames));
    program.args(["--hashes", "--check"]).args(more).run().success().stdout
}

#[test]
fn a_device_paints_the_same_in_bands_and_in_tiles() {
    let Some(cloud) = Cloud::or_skip(6000, 24) else { return };
    let bands = local(&cloud, "24", &["--paint", "bands"]);
    assert_eq!(bands.lines().filter(|line| line.ends_with(", order right")).count(), 24, "{bands}");
    assert!(!bands.contains(" 0 pixels painted"), "{bands}");
    let mut hashes: Vec<_> = bands.lines().map(|line| line.split(", ").nth(1)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 24, "pictures that should move are the same: {bands}");
    assert_eq!(local(&cloud, "24", &["--paint", "tiles"]), bands, "left: in tiles, right: in bands");
}

/// Positions go to the device that sorts, the order comes back, and nothing else but what the commands take.
#[test]
fn what_another_server_sorts_is_painted_as_if_sorted_here() {
    let Some(cloud) = Cloud::or_skip(20_000, 24) else { return };
    let Some(net) = Net::or_skip(2) else { return };
    let server = Server::start_on(net.host(1), &[], &[]);
    let program = || {
        let program =
            Program::beside_local(pointcloud(), server.url()).args(["sort", "--own", "Portable", "--offload"]);
        program.args(["Ropeway"]).args(cloud.read("24")).args(["--hashes"]).on(net.host(0))
    };
    let checked = program().args(["--check"]).run().success();
    assert_eq!(checked.stdout, local(&cloud, "24", &[]), "left: sorted at the server, right: all local");
    // The same where the server paints, too, which sends the picture without loss.
    let paint = Program::beside_local(pointcloud(), server.url()).args(["paint", "--offload", "Ropeway"]);
    let painted = paint.args(cloud.read("24")).args(["--hashes", "--check"]).on(net.host(0)).run().success();
    assert_eq!(painted.stdout, checked.stdout, "left: painted at the server, right: all local");
    let before = net.host(0).traffic();
    let outcome = program().run().success();
    let went = net.host(0).traffic() - before;
    eprintln!("{} points: {went:?}; {}", cloud.points, outcome.stderr);
    // Connecting, the kernels' source and 24 frames of 26 commands; headers of packets.
    let framing = 200_000 + went.resent * 1514;
    for (name, bytes, least) in [("up", went.bytes_out, 6 * cloud.points), ("down", went.bytes_in, 4 * cloud.points)] {
        assert!((least..=least + least / 25 + framing).contains(&bytes), "{bytes} bytes went {name}, not {least}");
    }
}
