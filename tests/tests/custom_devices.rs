//! Devices that are not processors: what they answer, an operator's functions as their kernels, and what goes wrong.

use std::fs;

use ropeway_tests::cluster::Cluster;
use ropeway_tests::custom::{custom_file, function_table, functions, serve, serve_with};
use ropeway_tests::places::{c_program, kept, ropeway};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

fn run(name: &str, server: &Server, args: &[&str]) -> String {
    Program::remote(c_program(name), server.url()).args(args).run().success().stdout
}

#[test]
fn queries_answer_as_opencl_has_them_for_custom_devices() {
    let server = serve(&function_table());
    let expected = include_str!("../c/custom_queries.expected");
    assert_eq!(run("custom_queries", &server, &["devices"]), expected);
}

#[test]
fn calls_that_they_do_not_support_give_the_codes_of_the_specification() {
    let server = serve(&function_table());
    let expected = "clBuildProgram: -3\nclBuildProgram for all: -3\nclCompileProgram: -3\nclLinkProgram: -16\n\
        clCreateKernel of it: -45\nclCreateProgramWithBinary: -42\nclCreateProgramWithIL: -59\n\
        clBuildProgram of built-in kernels: -59\nclCreateKernel of a name that was not asked for: -46\nkernels: 2\n\
        argument 0: uint* keys, 0x119b, 0\nargument 1: uint count, 0x119e, 0\nlargest global size is unlimited: 1\n\
        a work-group of two: -54\nclCreateImage: -59\nimage formats: 0\nclCreateSampler: -59\nclCreatePipe: -59\n\
        clSVMAlloc: null\nclSetKernelArgSVMPointer: -59\nclCreateSubDevices: -30\na queue on the device: -35\n\
        clEnqueueNativeKernel: -59\nclGetKernelSubGroupInfo: -59\n";
    assert_eq!(run("custom_queries", &server, &["calls"]), expected);
}

#[test]
fn buffers_queues_and_events_are_ordinary_ones() {
    let server = serve(&function_table());
    assert_eq!(run("custom_queries", &server, &["buffers"]), "buffers are right\n");
}

#[test]
fn functions_of_a_library_are_kernels_in_one_context_with_other_devices() {
    let server = serve(&function_table());
    assert_eq!(run("custom_functions", &server, &["run"]), "sorted\n");
}

#[test]
fn what_functions_return_is_the_end_of_their_commands() {
    let server = serve(&function_table());
    let expected = "no such kernel: -30\nnot of this device: -30\nno argument of this index: -49\n\
        a number of another size: -51\na number for a buffer: -51\narguments are missing: -52\n\
        on another device: -45\nmore than there are: -52587\ntold: the function 'sort_u32' returned the error 2\n\
        as many as there are: 0\nfails: -52587\ntold: the function 'fails' returned the error 7\n\
        the library has none: -52586\ntold: /libfunctions-functions.so has no function 'missing'\nand on it goes: 0\n";
    assert_eq!(run("custom_functions", &server, &["errors"]), expected);
}

#[test]
fn a_function_that_crashes_ends_its_session_and_no_other() {
    let server = serve(&function_table());
    let crashed = Program::remote(c_program("custom_functions"), server.url()).args(["crash"]).run();
    assert!(crashed.stdout.starts_with("crashed: -"), "{}", crashed.stdout);
    assert!(crashed.stderr.contains("is lost"), "{}", crashed.stderr);
    assert_eq!(run("custom_functions", &server, &["run"]), "sorted\n");
}

#[test]
fn a_machine_without_opencl_has_its_custom_devices() {
    // Neither a loader nor a driver: a folder of libraries in which the loader's name leads nowhere.
    let folder = kept("no-opencl");
    fs::create_dir_all(&folder).expect("a folder can be made");
    for name in ["libOpenCL.so.1", "libOpenCL.so"] {
        fs::write(folder.join(name), "").expect("a file can be written");
    }
    let server = serve_with(&function_table(), &[("LD_LIBRARY_PATH", folder.to_str().expect("a path in UTF-8"))]);
    assert_eq!(run("custom_queries", &server, &["buffers"]), "buffers are right\n");
    let clinfo = Program::remote("clinfo", server.url()).args(["-l"]).run();
    // It asks for CL_DEVICE_TYPE_ALL, among which custom devices are not.
    assert!(!clinfo.stdout.contains("Device #"), "{}", clinfo.stdout);
}

/// What a server says that does not start with this file.
fn refused(file: &str) -> String {
    let outcome = Program::native(ropeway()).args(["serve", "--listen", "tcp://127.0.0.1:0", "--custom", file]).run();
    assert!(!outcome.status.success(), "{}", outcome.stderr);
    outcome.stderr
}

#[test]
fn a_file_with_an_error_is_refused_in_one_sentence() {
    let library = functions().display().to_string();
    let table = |rest: &str| format!("[[functions]]\nname = \"f\"\nlibrary = \"{library}\"\n{rest}");
    let kernel = |arguments: &str| {
        table(&format!("kernel = [{{ name = \"lab.f\", symbol = \"f\", arguments = [{arguments}] }}]"))
    };
    let cases = [
        (String::new(), "it declares no device"),
        ("[[functions]]\nname = 5".to_owned(), "invalid type"),
        ("[[toaster]]\n".to_owned(), "unknown field"),
        (table(""), "missing field"),
        (table("kernel = []"), "it has no [[functions.kernel]]"),
        (kernel("\"float *x\""), "the argument 'float *x' is unclear"),
        (kernel("").replace("lab.f", "ropeway.f"), "is no name for a kernel"),
        (kernel("").replace(&library, "/nowhere/lib.so"), "the library /nowhere/lib.so is not there"),
        (kernel("").replace(&library, "lib.so"), "must be given with its whole path"),
    ];
    for (text, expected) in cases {
        let file = custom_file(&text);
        let told = refused(file.to_str().expect("UTF-8"));
        assert!(told.contains(expected) && told.contains(".toml"), "{text}: {told}");
    }
    let told = refused("/nowhere.toml");
    assert!(told.contains("cannot read /nowhere.toml"), "{told}");
}

/// Seeds of `custom_random`; ROPEWAY_SEEDS=FIRST-LAST names others.
fn seeds() -> std::ops::RangeInclusive<u64> {
    let named = std::env::var("ROPEWAY_SEEDS").ok();
    let parsed = named
        .as_deref()
        .and_then(|text| text.split_once('-'))
        .map(|(first, last)| (first.parse().expect("the first seed"), last.parse().expect("the last seed")));
    parsed.map_or(1..=12, |(first, last)| first..=last)
}

#[test]
fn commands_at_random_on_ordinary_and_custom_devices_of_three_servers() {
    at_random(&[]);
}

/// As on devices with memory of their own: not those of the custom devices, whose memory always is the host's.
#[test]
fn commands_at_random_through_pinned_memory() {
    at_random(&["--force-pinned"]);
}

fn at_random(args: &[&str]) {
    let file = custom_file(&function_table());
    let args = [&["--listen", "tcp://127.0.0.1:0", "--custom", file.to_str().expect("a path in UTF-8")], args].concat();
    let servers: Vec<_> = (0..3).map(|_| Server::start_with(&args, &[])).collect();
    let urls = servers.iter().map(Server::url).collect::<Vec<_>>().join(",");
    for seed in seeds() {
        let outcome = Program::remote(c_program("custom_random"), &urls).args([&seed.to_string(), "400"]).run();
        assert_eq!(outcome.stdout, "as in the model\n", "seed {seed}\n{}", outcome.stderr);
    }
}

#[test]
fn what_counts_goes_from_server_to_server_and_nothing_to_the_client() {
    const SIZE: u64 = 4_000_000;
    const ROUNDS: u64 = 10;
    let file = custom_file(&function_table());
    let args = ["--custom", file.to_str().expect("a path in UTF-8")];
    let Some(cluster) = Cluster::with(2, 0, &args) else { return };
    for contents in [8000, 1_600_000] {
        let args = [SIZE, contents, ROUNDS].map(|number| number.to_string());
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let (rounds, outcome) = cluster.measured(cluster.program("custom_content", &args));
        assert_eq!(outcome.stdout, "contents are right\n", "{}", outcome.stderr);
        // Half of what counted for the custom device: the content sizes of its result.
        rounds.expect_between(ROUNDS * contents / 2, ROUNDS * 3000);
        assert!(rounds.client() < ROUNDS * 4000, "{rounds:?}");
    }
}
