//! Point clouds by Draco's own encoder, decoded beside Draco's own decoder. The adaptor is built for the test.

mod common;

use std::fmt::Write;
use std::path::Path;

use common::claims::peak;
use common::{Folder, path, run};
use ropeway_codec::{Draco, Kind, Points};

/// Builds the adaptor, as `make draco` does.
fn draco(folder: &Folder) -> Draco {
    let library = folder.file("libropeway-draco.so");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("draco/build.sh");
    run(path(&script), &[path(&library)], &[]);
    Draco::at(&library).expect("the adaptor")
}

/// A cloud on a wave, as a PLY file: x, y and z, and red, green and blue.
fn ply(count: usize, coloured: bool) -> String {
    let mut text = format!("ply\nformat ascii 1.0\nelement vertex {count}\n");
    text += "property float x\nproperty float y\nproperty float z\n";
    if coloured {
        text += "property uchar red\nproperty uchar green\nproperty uchar blue\n";
    }
    text += "end_header\n";
    for number in 0..count {
        let (x, y) = ((number % 100) as f32 / 10.0, (number / 100) as f32 / 10.0);
        write!(text, "{x} {y} {}", (x + y).sin()).expect("text");
        if coloured {
            write!(text, " {} {} {}", number % 256, number / 100 % 256, 200).expect("text");
        }
        text.push('\n');
    }
    text
}

/// A PLY file's points and colours.
fn parse(ply: &[u8]) -> (Vec<f32>, Vec<u8>) {
    let head = b"end_header\n";
    let end = ply.windows(head.len()).position(|window| window == head).expect("a head") + head.len();
    let text = String::from_utf8_lossy(&ply[..end]).into_owned();
    assert!(text.contains("format binary_little_endian"), "{text}");
    let count: usize = text
        .split("element vertex ")
        .nth(1)
        .expect("points")
        .lines()
        .next()
        .expect("a line")
        .parse()
        .expect("a number");
    let coloured = text.contains("property uchar red");
    let size = if text.contains("alpha") {
        16
    } else if coloured {
        15
    } else {
        12
    };
    let (mut points, mut colours) = (Vec::new(), Vec::new());
    for vertex in ply[end..].chunks_exact(size).take(count) {
        points.extend(vertex[..12].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        if coloured {
            colours.extend(&vertex[12..15]);
            colours.push(*vertex.get(15).unwrap_or(&255));
        }
    }
    assert_eq!(points.len(), count * 3);
    (points, colours)
}

/// What Draco's encoder makes of a cloud, and what its decoder makes of that.
fn encoded(folder: &Folder, count: usize, coloured: bool, how: &[&str]) -> (Vec<u8>, Vec<f32>, Vec<u8>) {
    let (cloud, chunk, again) = (folder.file("cloud.ply"), folder.file("cloud.drc"), folder.file("again.ply"));
    std::fs::write(&cloud, ply(count, coloured)).expect("a file");
    run("draco_encoder", &[&["-point_cloud", "-i", path(&cloud), "-o", path(&chunk)], how].concat(), &[]);
    run("draco_decoder", &["-i", path(&chunk), "-o", path(&again)], &[]);
    let (points, colours) = parse(&std::fs::read(&again).expect("a file"));
    (std::fs::read(&chunk).expect("a file"), points, colours)
}

#[test]
fn points_are_those_of_dracos_own_decoder() {
    let folder = Folder::new();
    let draco = draco(&folder);
    // In the order in which they were encoded, exactly; quantised; and as a tree.
    for how in [&["-cl", "0", "-qp", "0"][..], &["-cl", "0", "-qp", "12"], &["-cl", "10", "-qp", "11"]] {
        for (count, coloured) in [(1, true), (5000, true), (5000, false)] {
            let (chunk, points, colours) = encoded(&folder, count, coloured, how);
            let mut xyz = vec![f32::NAN; count * 3 + 4];
            let mut rgba = vec![0xA5; count * 4 + 4];
            let decoded = draco.decode_points(&chunk, &mut xyz[..count * 3], Some(&mut rgba[..count * 4]));
            assert_eq!(decoded, Ok(Points { count, coloured }), "{how:?}");
            assert!(xyz[..count * 3] == points, "{how:?}: {count} points");
            let white = vec![255; count * 4];
            assert!(rgba[..count * 4] == *if coloured { &colours } else { &white }, "{how:?}: {count} colours");
            assert!(xyz[count * 3..].iter().all(|value| value.is_nan()) && rgba[count * 4..] == [0xA5; 4]);
            // Without colours, and into more than it takes.
            let mut alone = vec![f32::NAN; count * 3 + 100];
            assert_eq!(draco.decode_points(&chunk, &mut alone, None), Ok(Points { count, coloured }));
            assert!(alone[..count * 3] == points && alone[count * 3..].iter().all(|value| value.is_nan()));
        }
    }
    let (_, exact, _) = encoded(&folder, 300, false, &["-cl", "0", "-qp", "0"]);
    let written = ply(300, false);
    let lines = written.lines().skip_while(|line| *line != "end_header").skip(1);
    let source: Vec<f32> =
        lines.flat_map(|line| line.split(' ').map(|number| number.parse().expect("a number"))).collect();
    assert_eq!(exact, source, "Draco's decoder gives what went in");
}

#[test]
fn buffers_that_are_too_small_are_left_alone() {
    let folder = Folder::new();
    let draco = draco(&folder);
    for how in [["-cl", "0"], ["-cl", "10"]] {
        let (chunk, ..) = encoded(&folder, 1000, true, &how);
        for (floats, bytes) in [(2999, 4000), (3000, 3999), (0, 0), (3, 4000)] {
            let (mut xyz, mut rgba) = (vec![7.0; floats], vec![7; bytes]);
            let error = draco.decode_points(&chunk, &mut xyz, Some(&mut rgba)).expect_err("too small");
            assert_eq!(error.kind(), Kind::BufferTooSmall);
            let room = (floats / 3).min(bytes / 4);
            assert_eq!(
                error.to_string(),
                format!("the point cloud has 1000 points, and the buffers have room for {room}")
            );
            assert!(xyz.iter().all(|value| *value == 7.0) && rgba.iter().all(|value| *value == 7));
        }
    }
}

/// Where the number of points stands in a stream without metadata: behind "DRACO", version, type, method and flags.
const COUNT_AT: usize = 11;

#[test]
fn a_claim_of_too_many_points_takes_no_memory() {
    let folder = Folder::new();
    let draco = draco(&folder);
    for how in [["-cl", "0"], ["-cl", "10"]] {
        let (mut chunk, ..) = encoded(&folder, 1000, true, &how);
        assert_eq!(chunk[COUNT_AT..COUNT_AT + 4], 1000_u32.to_le_bytes());
        let (mut xyz, mut rgba) = (vec![0.0; 30_000], vec![0; 40_000]);
        let before = peak();
        for (claim, kind) in [
            (i32::MAX as u32, Kind::BufferTooSmall),
            (10_001, Kind::BufferTooSmall),
            (u32::MAX, Kind::BadStream),
            (1 << 31, Kind::BadStream),
        ] {
            chunk[COUNT_AT..COUNT_AT + 4].copy_from_slice(&claim.to_le_bytes());
            let error = draco.decode_points(&chunk, &mut xyz, Some(&mut rgba)).expect_err("too many");
            assert!(error.kind() == kind || error.kind() == Kind::BufferTooSmall, "{claim}: {error}");
        }
        // As many as there is room for, and none of them there: an error or some points, within bounds.
        chunk[COUNT_AT..COUNT_AT + 4].copy_from_slice(&10_000_u32.to_le_bytes());
        drop(draco.decode_points(&chunk, &mut xyz, Some(&mut rgba)));
        assert!(peak() - before < 64 << 20, "{} MiB more", (peak() - before) >> 20);
        chunk[COUNT_AT..COUNT_AT + 4].copy_from_slice(&1000_u32.to_le_bytes());
        assert_eq!(draco.decode_points(&chunk, &mut xyz, None).map(|points| points.count), Ok(1000), "it goes on");
    }
}

#[test]
fn what_is_no_point_cloud_is_refused_with_a_sentence() {
    let folder = Folder::new();
    let draco = draco(&folder);
    let (chunk, ..) = encoded(&folder, 1000, true, &["-cl", "7"]);
    let (mut xyz, mut rgba) = (vec![0.0; 3000], vec![0; 4000]);
    let mut refused = |chunk: &[u8]| {
        let error = draco.decode_points(chunk, &mut xyz, Some(&mut rgba)).expect_err("no point cloud");
        assert_eq!(error.kind(), Kind::BadStream);
        error.to_string()
    };
    let beginning = "the point cloud cannot be decoded: it does not begin as Draco's streams do";
    assert_eq!(refused(&[]), beginning);
    assert_eq!(refused(b"no point cloud"), beginning);
    assert_eq!(refused(&chunk[..5]), beginning);
    for length in (11..chunk.len() - 1).step_by(7) {
        assert_eq!(
            refused(&chunk[..length]),
            "the point cloud cannot be decoded: it is broken, or cut short",
            "{length} bytes"
        );
    }
    let triangle = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n\
                    element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n";
    std::fs::write(folder.file("mesh.ply"), triangle).expect("a file");
    run("draco_encoder", &["-i", path(&folder.file("mesh.ply")), "-o", path(&folder.file("mesh.drc"))], &[]);
    let mesh = std::fs::read(folder.file("mesh.drc")).expect("a file");
    assert_eq!(refused(&mesh), "the point cloud cannot be decoded: it is a mesh; encode it as a point cloud");
}

/// Bytes changed at random: an answer of any kind, and nothing written behind the ends.
#[test]
fn broken_streams_stay_within_bounds() {
    let folder = Folder::new();
    let draco = draco(&folder);
    let mut random = 1_u64;
    let mut next = move |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for how in [["-cl", "0"], ["-cl", "10"]] {
        let (whole, ..) = encoded(&folder, 200, true, &how);
        let (mut xyz, mut rgba) = (vec![f32::NAN; 600 + 100], vec![0xA5; 800 + 100]);
        for _ in 0..3000 {
            let mut chunk = whole.clone();
            for _ in 0..=next(4) {
                let at = next(chunk.len());
                chunk[at] = next(256) as u8;
            }
            drop(draco.decode_points(&chunk, &mut xyz[..600], Some(&mut rgba[..800])));
            assert!(xyz[600..].iter().all(|value| value.is_nan()) && rgba[800..].iter().all(|byte| *byte == 0xA5));
        }
    }
}

#[test]
fn a_machine_without_the_adaptor_says_what_to_do() {
    let error = Draco::at(Path::new("/nowhere/libropeway-draco.so")).err().expect("no adaptor");
    assert_eq!(error.kind(), Kind::NoLibrary);
    let sentence = error.to_string();
    assert!(
        sentence.starts_with("no decoder for Draco's point clouds on this machine (/nowhere/libropeway-draco.so: "),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("build libropeway-draco.so with `make draco` and put it beside the program ropeway"),
        "{sentence}"
    );
}
