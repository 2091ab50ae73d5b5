//! The examples of the edge: a point cloud that is sorted and painted elsewhere, with the same picture.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use ropeway_tests::custom::custom_file;
use ropeway_tests::net::{Net, Traffic};
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
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = places::kept("streams").join(format!("{}-{number}.frames", std::process::id()));
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

/// Bytes that a mode's 24 frames have put on the links: the client's, and what the stream's server has sent.
struct Went {
    client: Traffic,
    source: Traffic,
    picture: u64,
}

/// The stream's server decodes, the other one sorts and paints: the picture is the same, and what goes where is what the mode says.
#[test]
fn a_streams_server_decodes_for_another_one() {
    const FRAMES: u64 = 24;
    const PICTURE: u64 = 8 + 3072 * (8 + 128);
    let Some(cloud) = Cloud::or_skip(20_000, 24) else { return };
    let adaptor = places::ropeway().with_file_name("libropeway-draco.so");
    assert!(adaptor.is_file(), "{} is not there: `make draco` builds it", adaptor.display());
    let Some(net) = Net::or_skip(3) else { return };
    let devices = format!(
        "[[source]]\nname = 'Cloud'\nfile = '{}'\nformat = 'frames'\nloop = true\n\n[[draco]]\nname = 'Draco'\n",
        cloud.path.display()
    );
    let file = custom_file(&devices);
    let painter = Server::start_on(net.host(1), &[], &[]);
    let source = Server::start_on(net.host(2), &["--custom", file.to_str().expect("a path of text")], &[]);
    let servers = format!("{},{}", painter.url(), source.url());
    let program = |mode| {
        let program = Program::remote(pointcloud(), &servers).args([mode, "--offload", "Ropeway"]);
        program.args(["--most", &cloud.most, "--frames", "24", "--hashes"]).on(net.host(0))
    };
    let expected = local(&cloud, "24", &[]);
    let went = |mode| {
        // The first run compiles the kernels.
        assert_eq!(program(mode).args(["--check"]).run().success().stdout, expected, "left: {mode}, right: all local");
        let before = [net.host(0).traffic(), net.host(2).traffic()];
        let outcome = program(mode).run().success();
        let (client, source) = (net.host(0).traffic() - before[0], net.host(2).traffic() - before[1]);
        let picture =
            outcome.stderr.split("a picture has ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        eprintln!("{mode}: client {client:?}, source {source:?}; {}", outcome.stderr);
        Went { client, source, picture: picture.expect("it says how large a picture is") }
    };
    let bounded = |what: &str, bytes: u64, least: u64, resent: u64| {
        // Connecting, the kernels' source, 24 frames of some 40 commands; headers of packets.
        let framing = 250_000 + resent * 1514;
        assert!((least..=least + least / 25 + framing).contains(&bytes), "{bytes} bytes went {what}, not {least}");
    };
    let most = cloud.most.parse::<u64>().expect("a number");
    let (peer, size) = (went("peer"), went("size"));
    bounded("to the client (peer)", peer.client.bytes_in, FRAMES * PICTURE, peer.client.resent);
    bounded("from server to server (peer)", peer.source.bytes_out, FRAMES * most * 16, peer.source.resent);
    bounded("to the client (size)", size.client.bytes_in, FRAMES * size.picture, size.client.resent);
    bounded("from server to server (size)", size.source.bytes_out, cloud.points * 16, size.source.resent);
    bounded("from the client (peer)", peer.client.bytes_out, 0, peer.client.resent);
    bounded("from the client (size)", size.client.bytes_out, 0, size.client.resent);
    assert!(size.picture < PICTURE / 3 && cloud.points < FRAMES * most / 3, "there is nothing to save");
}

/// What two cameras see: H.264 files, which are gone when dropped.
struct Scenes([PathBuf; 2]);

impl Scenes {
    const FRAMES: usize = 40;
    const SIZE: (usize, usize) = (1280, 720);

    fn make() -> Self {
        let file = |name: &str| places::kept("streams").join(format!("{}-{name}.h264", std::process::id()));
        let this = Self([file("gate"), file("yard")]);
        let frames = Self::FRAMES.to_string();
        let script = places::root().join("examples/camera/scenes.sh");
        let made = Command::new(script).args(&this.0).arg(frames).output().expect("there is a shell");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        this
    }

    /// How many cells of 8 x 8 pixels differ from the frame before, as the ffmpeg program decodes them; frame by frame.
    fn moving(&self, camera: usize) -> Vec<usize> {
        let (width, height) = Self::SIZE;
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-loglevel", "error", "-f", "h264", "-i"]).arg(&self.0[camera]);
        let output = ffmpeg.args(["-pix_fmt", "nv12", "-f", "rawvideo", "-"]).output().expect("there is ffmpeg");
        let frames: Vec<_> = output.stdout.chunks_exact(width * height * 3 / 2).collect();
        assert_eq!(frames.len(), Self::FRAMES, "{}", String::from_utf8_lossy(&output.stderr));
        let differs = |now: &[u8], then: &[u8], cell: usize| {
            let (x, y) = (cell % (width / 8) * 8, cell / (width / 8) * 8);
            let places = (0..64).map(|pixel| (y + pixel / 8) * width + x + pixel % 8);
            places.map(|at| u32::from(now[at].abs_diff(then[at]))).sum::<u32>() > 10 * 64
        };
        let cells = width * height / 64;
        let moving = |i: usize| (0..cells).filter(|cell| differs(frames[i], frames[i - 1], *cell)).count();
        [0].into_iter().chain((1..frames.len()).map(moving)).collect()
    }
}

impl Drop for Scenes {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Each camera's server decodes and compares, a third one merges, and a few bytes of each frame come to the client.
#[test]
fn cameras_are_watched_by_their_servers() {
    let Some(net) = Net::or_skip(4) else { return };
    let scenes = Scenes::make();
    let mut servers: Vec<_> = scenes
        .0
        .iter()
        .zip(1..)
        .map(|(scene, host)| {
            let devices = format!(
                "[[source]]\nname = 'Camera {host}'\nfile = '{}'\nformat = 'h264'\nloop = true\n\n[[decoder]]\nname = \
                 'Decoder'\ncodecs = ['h264']\nthreads = 1\n",
                scene.display()
            );
            let file = custom_file(&devices);
            Server::start_on(net.host(host), &["--custom", file.to_str().expect("a path of text")], &[])
        })
        .collect();
    servers.push(Server::start_on(net.host(3), &[], &[]));
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let run = |args: &[&str]| {
        let program = Program::remote(places::examples().join("camera"), &urls.join(",")).args(args);
        program.on(net.host(0)).run().success()
    };
    let frames = Scenes::FRAMES.to_string();
    let said = run(&["--frames", &frames]).stdout;
    assert_eq!(run(&["--frames", &frames, "--batch", "8"]).stdout, said, "left: in batches, right: frame by frame");
    let expected = [scenes.moving(0), scenes.moving(1)];
    assert!(expected.iter().all(|camera| camera[1..].iter().all(|cells| *cells > 0)), "nothing moves: {expected:?}");
    for (number, line) in said.lines().enumerate() {
        let cells = expected.each_ref().map(|camera| camera[number]);
        let numbers = line.split(' ').skip(2).filter_map(|word| word.parse().ok());
        assert_eq!(numbers.collect::<Vec<usize>>(), cells, "{line}");
    }
    assert_eq!(said.lines().count(), Scenes::FRAMES, "{said}");
    // What further frames cost, of which each is two frames of 720p. The scenes begin again meanwhile.
    let went = |frames: &str, batch: &str| {
        let before = net.host(0).traffic();
        run(&["--frames", frames, "--batch", batch, "--quiet"]);
        net.host(0).traffic() - before
    };
    for (batch, most) in [("1", 4000), ("8", 2600)] {
        let (few, many) = (went("80", batch), went("400", batch));
        let bytes = many.bytes().saturating_sub(few.bytes()) / 320;
        eprintln!("{bytes} bytes for two frames of 720p, in batches of {batch}: {few:?}, {many:?}");
        assert!((80..=most + 1514 * many.resent / 320).contains(&bytes), "{bytes} bytes of each two frames");
    }
}
