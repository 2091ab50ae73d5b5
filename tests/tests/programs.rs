//! Programs that use OpenCL in every way that this release forwards: the same output natively and through Ropeway.

use std::fs;
use std::path::Path;

use ropeway_tests::compare::same;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn vector_addition() {
    same("vector_add");
}

#[test]
fn events() {
    same("events");
}

#[test]
fn each_time_of_a_command_is_its_own() {
    assert_eq!(same("profiling").stdout, "0 of the times were wrong\n");
}

#[test]
fn more_reads_wait_than_a_session_has_threads() {
    same("held_reads");
}

#[test]
fn mapping() {
    same("mapping");
}

#[test]
fn transfers() {
    let outcome = same("transfers");
    assert!(!outcome.stdout.contains("WRONG"), "{}", outcome.stdout);
}

#[test]
fn programs_and_kernels() {
    same("programs");
}

/// The programs that PoCL has compiled into its cache: one folder for each source with its options.
fn compiled_in(cache: &Path) -> Vec<String> {
    let folders = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let programs = folders(cache).flat_map(|one| folders(&one).collect::<Vec<_>>());
    let mut names: Vec<_> = programs
        .filter(|program| program.join("program.bc").is_file())
        .map(|program| program.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_new_source_is_compiled_once_with_the_options_of_the_application() {
    let caches = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder can be made"));
    let [native, remote] = caches.each_ref().map(|cache| cache.path().to_str().expect("its name is text"));
    Program::native(c_program("vector_add")).env("POCL_CACHE_DIR", native).run().success();
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0"], &[("POCL_CACHE_DIR", remote)]);
    Program::remote(c_program("vector_add"), server.url()).run().success();
    let compiled = compiled_in(native.as_ref());
    assert_eq!(compiled.len(), 1, "{compiled:?}");
    assert_eq!(compiled_in(remote.as_ref()), compiled);
}

#[test]
fn threads() {
    same("threads");
}

#[test]
fn a_thousand_threads_wait_at_the_same_time() {
    let each = |call: &str| format!("{call}: 1000 of 1000 threads\n");
    assert_eq!(same("many_waits").stdout, ["clFinish", "clWaitForEvents", "clEnqueueReadBuffer"].map(each).concat());
}

#[test]
fn what_a_kernel_prints_comes_out_of_the_program() {
    let says = |number: u32| format!("kernel says {number} and a text\n");
    let expected = format!("{}{}read\n{}read\n", says(42), says(43), says(44));
    assert_eq!(same("kernel_printf").stdout, expected);
}

#[test]
fn a_unix_socket_is_as_good() {
    let server = Server::start_unix();
    Program::remote(c_program("vector_add"), server.url()).run().success();
    Program::remote(c_program("transfers"), server.url()).run().success();
}

#[test]
fn a_child_after_fork_gets_errors_and_its_parent_is_unharmed() {
    for server in [Server::start(), Server::start_unix()] {
        let outcome = Program::remote(c_program("forked"), server.url()).run().success();
        let child = "child: finish 1, read 1, launch 1, context 1, in time 1\n";
        assert_eq!(outcome.stdout, format!("{child}parent: right, child ended with 0\n"), "{}", outcome.stderr);
    }
}

/// No thread of the library's takes a signal that is meant for the program.
#[test]
fn signals_are_the_programs() {
    let servers = [Server::start(), Server::start()];
    let urls = format!("{},{}", servers[0].url(), servers[1].url());
    for peers in ["on", "off"] {
        let program = Program::remote(c_program("signals"), &urls).env("ROPEWAY_PEERS", peers);
        assert_eq!(program.run().success().stdout, "right\n");
    }
}

#[test]
fn two_servers_are_listed_side_by_side() {
    let (first, second) = (Server::start(), Server::start_unix());
    let both = format!("{},{}", first.url(), second.url());
    let listed = Program::remote(c_program("listing"), &both).run().success();
    assert_eq!(listed.stdout, "Ropeway: 2 devices (0)\n1 platforms\n");
    let listed = Program::remote(c_program("listing"), &both).env("ROPEWAY_PLATFORMS", "per-platform").run().success();
    let named = listed.stdout.matches("Portable Computing Language [").count();
    assert_eq!(named, 2, "{}", listed.stdout);
}

#[test]
fn local_platforms_stay_beside_ropeways() {
    let server = Server::start();
    let listed = Program::beside_local(c_program("listing"), server.url()).run().success();
    for platform in ["Ropeway: 1 devices (0)\n", "Portable Computing Language: 1 devices (0)\n", "2 platforms\n"] {
        assert!(listed.stdout.contains(platform), "{}", listed.stdout);
    }
}

#[test]
fn two_servers_compute_side_by_side() {
    let (first, second) = (Server::start(), Server::start());
    let both = format!("{},{}", first.url(), second.url());
    let outcome = Program::remote(c_program("two_devices"), &both).run().success();
    assert_eq!(outcome.stdout, "both are right\none context of both: 0\n", "{}", outcome.stderr);
}
