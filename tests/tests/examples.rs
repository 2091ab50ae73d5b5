//! The examples run natively and over several servers, at small sizes, and print and draw the same.

use std::fs;

use ropeway_tests::net::Net;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use ropeway_tests::{notes, places, python};

/// Runs an example natively on three devices and on the devices of three servers, with these arguments behind the
/// picture's name; gives what both have printed.
fn same(name: &str, sizes: &[&str]) -> String {
    let (program, script) = match name.strip_suffix(".py") {
        Some(_) => (python::interpreter(), Some(places::root().join("examples").join(name))),
        None => (places::examples().join(name), None),
    };
    let run = |side: &str, program: Program| {
        let picture = places::kept("pictures").join(format!("{name}-{side}-{}.png", std::process::id()));
        let outcome = program.args(&script).args([&picture]).args(sizes).run().success();
        let drawn = fs::read(&picture).expect("it has drawn a picture");
        fs::remove_file(&picture).expect("it was just read");
        (outcome.stdout, drawn)
    };
    let (printed, drawn) = run("native", Program::native(&program).env("POCL_DEVICES", "pthread pthread pthread"));
    assert!(drawn.starts_with(b"\x89PNG"), "{name} draws no PNG");
    let servers = [Server::start(), Server::start(), Server::start()];
    let urls = servers.each_ref().map(|server| server.url().to_owned()).join(",");
    let (remotely_printed, remotely_drawn) = run("servers", Program::remote(&program, &urls));
    assert_eq!(remotely_printed, printed, "left: through Ropeway, right: native");
    assert!(remotely_drawn == drawn, "{name} draws something else natively");
    printed
}

#[test]
fn mandelbrot_over_three_servers() {
    let printed = same("mandelbrot_devices", &["301", "200", "500"]);
    assert_eq!(printed, "301x200 pixels on 3 devices\n");
}

#[test]
fn matrix_product_over_three_servers() {
    let printed = same("matrix_product", &["192"]);
    assert_eq!(printed, "192x192 on 3 devices: right\n");
}

#[test]
fn pipeline_over_two_servers() {
    let printed = same("pipeline", &["9"]);
    assert!(printed.ends_with("9 frames: 5.3 of 37.7 MB count\n"), "{printed}");
}

#[test]
fn tomography_over_three_servers() {
    let printed = same("tomography.py", &["48", "40000", "1"]);
    assert!(printed.starts_with("40000 events, 48x48 pixels, 8 subsets, on 3 devices\n"), "{printed}");
}

/// The program that the others are compared with, where MPI is installed.
#[test]
fn mandelbrot_with_mpi() {
    let program = places::examples().join("mandelbrot_mpi");
    if !program.exists() {
        notes::skipped("there is no MPI compiler; openmpi-bin and libopenmpi-dev have one");
        return;
    }
    let draw = |command: Program, name: &str, before: &[&str]| {
        let picture = places::kept("pictures").join(format!("{name}-{}.png", std::process::id()));
        let command = command.args(before).args([&places::examples().join(name), &picture]);
        command.args(["301", "200", "500"]).run().success();
        let drawn = fs::read(&picture).expect("it has drawn a picture");
        fs::remove_file(&picture).expect("it was just read");
        drawn
    };
    let started = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"];
    let with_mpi = draw(Program::native("mpirun"), "mandelbrot_mpi", &started);
    assert!(with_mpi == draw(Program::native("env"), "mandelbrot_devices", &[]), "the pictures differ");
}

/// The drawing of the speed-up: not how fast it is, but that all draw the same.
#[test]
fn the_speed_up_is_drawn() {
    places::examples();
    let figure = places::kept("pictures").join(format!("speedup-{}.svg", std::process::id()));
    let script = places::root().join("examples/speedup.py");
    let small = ["--most", "2", "--size", "64", "48", "10", "--share", "100"];
    let program = Program::native("/usr/bin/python3").args([&script, &figure]).args(small);
    let outcome = program.env("CARGO_TARGET_DIR", places::target()).run().success();
    assert_eq!(outcome.stdout.lines().count(), 3, "{}", outcome.stdout);
    assert!(fs::read_to_string(&figure).expect("it has drawn").contains("servers, one context"));
    fs::remove_file(&figure).expect("it was just read");
}

/// With `cl_pocl_content_size`, only what counts goes from one server to the other: 5.3 of 37.7 MB.
#[test]
fn only_the_content_goes_from_server_to_server() {
    let Some(net) = Net::or_skip(3) else { return };
    let servers = [Server::start_on(net.host(1), &[], &[]), Server::start_on(net.host(2), &[], &[])];
    let urls = servers.each_ref().map(|server| server.url().to_owned()).join(",");
    let picture = places::kept("pictures").join(format!("content-{}.png", std::process::id()));
    let program = Program::remote(places::examples().join("pipeline"), &urls).args([picture.as_os_str(), "9".as_ref()]);
    let outcome = program.on(net.host(0)).run().success();
    fs::remove_file(&picture).expect("it was just drawn");
    assert!(outcome.stderr.contains("with cl_pocl_content_size"), "{}", outcome.stderr);
    let client = net.host(0).traffic().bytes();
    let between = net.host(1).traffic().bytes_out.saturating_sub(client);
    eprintln!("{between} bytes between the servers, {client} at the client");
    assert!(between < 8_000_000, "{between} bytes went between the servers");
    // The last picture, and no frame.
    assert!(client < 2_000_000, "{client} bytes went over the client's link");
}
