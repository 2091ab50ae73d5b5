//! Applications and libraries of others on top of OpenCL, unmodified: OpenCV, ffmpeg, CLBlast, clFFT. All of them run
//! on PoCL, and through Ropeway they compute the same, bit for bit.

use std::path::Path;

use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;
use ropeway_tests::{places, python};

/// The output of a program natively and through Ropeway, after a check that it is the same.
fn same(program: impl AsRef<Path>, prepare: impl Fn(Program) -> Program) -> Outcome {
    let program = program.as_ref();
    let native = prepare(Program::native(program)).run().success();
    let server = Server::start();
    let remote = prepare(Program::remote(program, server.url())).run().success();
    assert_eq!(remote.stdout, native.stdout, "left: through Ropeway, right: native; {}", remote.stderr);
    remote
}

#[test]
fn opencv_computes_the_same() {
    let script = places::root().join("tests/python/opencv.py");
    // Of its own accord OpenCV takes no device that is a CPU.
    let outcome = same(python::interpreter(), |program| program.args([&script]).env("OPENCV_OPENCL_DEVICE", ":CPU:"));
    assert!(outcome.stdout.starts_with("OpenCL True device "), "{}", outcome.stdout);
    assert_eq!(outcome.stdout.lines().count(), 13, "{}", outcome.stdout);
}

/// The checksum of each frame that comes out of these filters.
fn ffmpeg(inputs: &[&str], filters: &str) {
    let outcome = same("ffmpeg", |program| {
        let device = ["-hide_banner", "-loglevel", "error", "-init_hw_device", "opencl=cl", "-filter_hw_device", "cl"];
        let inputs = inputs.iter().flat_map(|input| ["-f", "lavfi", "-i", *input]);
        program.args(device).args(inputs).args(["-filter_complex", filters, "-f", "framemd5", "-"])
    });
    let frames = outcome.stdout.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(frames, 4, "{}", outcome.stdout);
}

const PICTURES: &str = "testsrc=size=320x240:rate=4:duration=1";

#[test]
fn ffmpeg_filters_give_the_same_frames() {
    let filters = "avgblur_opencl=3,unsharp_opencl,transpose_opencl,sobel_opencl";
    ffmpeg(&[PICTURES], &format!("format=yuv420p,hwupload,{filters},hwdownload,format=yuv420p"));
}

#[test]
fn ffmpeg_lays_the_same_frames_over_each_other() {
    let small = "color=red:size=64x48:rate=4:duration=1";
    let uploads = "[0]format=yuv420p,hwupload[below];[1]format=yuv420p,hwupload[above]";
    let overlay = "[below][above]overlay_opencl=20:30,hwdownload,format=yuv420p";
    ffmpeg(&[PICTURES, small], &format!("{uploads};{overlay}"));
}

/// CLBlast's own tests, which compare with a BLAS for the CPU.
#[test]
fn clblast_passes_its_own_tests() {
    for routine in ["clblast_test_xaxpy", "clblast_test_xdot"] {
        let outcome = same(routine, |program| program);
        let failed = outcome.stdout.lines().filter(|line| line.contains(" failed") && !line.contains(" 0 failed"));
        // "   0 test(s) failed" ends each precision's list.
        let failed: Vec<_> = failed.filter(|line| !line.trim_start().starts_with("0 test(s)")).collect();
        assert!(failed.is_empty() && outcome.stdout.contains("Pass rate"), "{failed:?}\n{}", outcome.stdout);
    }
}

/// clFFT's own program, which looks at the result of a transform whose result is known.
#[test]
fn clfft_transforms() {
    let clients: [&[&str]; 3] = [&["-x", "64", "-y", "32"], &["-x", "1000", "--double"], &["-x", "128", "-o", "--inv"]];
    for args in clients {
        let outcome = same("clFFT-client", |program| program.args(args).within_home());
        assert!(outcome.stdout.contains("*PASS*"), "{args:?}: {}", outcome.stdout);
    }
}
