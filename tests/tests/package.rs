//! The Debian package: one program, one library, one .icd file.

use std::fs;

use ropeway_tests::places::{c_program, root};
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn the_package_holds_all_that_a_program_needs() {
    let folder = tempfile::tempdir().unwrap();
    let (debian, unpacked) = (folder.path().join("debian"), folder.path().join("root"));
    let script = Program::here(root().join("packaging/build-deb.sh")).args([&debian]).within(root());
    script.limit(std::time::Duration::from_secs(600)).run().success();
    let package = fs::read_dir(&debian).unwrap().next().unwrap().unwrap().path();
    assert_eq!(package.extension().unwrap(), "deb");
    Program::here("dpkg-deb").args(["-x".as_ref(), package.as_os_str(), unpacked.as_os_str()]).run().success();

    // Where the .icd file says it is, there is a library that works.
    let icd = fs::read_to_string(unpacked.join("etc/OpenCL/vendors/ropeway.icd")).unwrap();
    let library = unpacked.join(icd.trim().trim_start_matches('/'));
    assert!(library.is_file(), "{}", library.display());
    let vendors = folder.path().join("vendors");
    fs::create_dir(&vendors).unwrap();
    fs::write(vendors.join("ropeway.icd"), library.display().to_string()).unwrap();
    let server = Server::start();
    let program = Program::native(c_program("listing"));
    let program = program.env("OCL_ICD_VENDORS", &vendors).env("ROPEWAY_SERVERS", server.url());
    assert_eq!(program.run().success().stdout, "Ropeway: 1 devices (0)\n1 platforms\n");

    // Programs that use its extensions find the header where the other ones of OpenCL are.
    let header =
        Program::here("cc").args(["-fsyntax-only", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-x", "c"]);
    let header = header.args([
        "-DCL_TARGET_OPENCL_VERSION=300".as_ref(),
        unpacked.join("usr/include/CL/cl_ext_ropeway.h").as_os_str(),
    ]);
    header.run().success();
    assert!(unpacked.join("usr/share/doc/ropeway/extensions/cl_ropeway_servers.md").is_file());

    // Nothing sends people to an address that does not exist.
    let control = Program::here("dpkg-deb").args(["-f".as_ref(), package.as_os_str()]).run().success().stdout;
    let wrong = Program::here("grep").args(["-rl".as_ref(), "example[.]invalid".as_ref(), unpacked.as_os_str()]).run();
    assert!(!control.contains("example.invalid"), "{control}");
    assert_eq!((wrong.status.code(), &*wrong.stdout), (Some(1), ""));

    // Draco's adaptor is where the program looks for it, and looks at streams; Draco itself has a package of its own.
    assert!(control.contains("\nSuggests: clinfo, ffmpeg, libdraco"), "{control}");
    let (devices, pack) = (folder.path().join("devices.toml"), folder.path().join("pack"));
    fs::write(&devices, "[[draco]]\nname = 'Point clouds'\n").unwrap();
    fs::write(&pack, [&4_u32.to_ne_bytes()[..], b"none"].concat()).unwrap();
    let args = ["--listen", "tcp://127.0.0.1:0", "--custom", devices.to_str().unwrap()];
    let packed = Server::start_program(&unpacked.join("usr/bin/ropeway"), &args);
    let program = Program::remote(c_program("custom_video"), packed.url());
    let program =
        program.args(["points".as_ref(), pack.as_os_str(), "0".as_ref(), "10".as_ref(), "/dev/null".as_ref()]);
    let said = "0 points: -52582: the point cloud cannot be decoded: it does not begin as Draco's streams do\n";
    assert_eq!(program.run().success().stdout, said);

    let version = Program::native(unpacked.join("usr/bin/ropeway")).args(["--version"]).run().success();
    assert!(version.stdout.starts_with("ropeway "), "{}", version.stdout);
    for page in ["ropeway.1.gz", "ropeway-serve.1.gz", "ropeway-run.1.gz"] {
        assert!(unpacked.join("usr/share/man/man1").join(page).is_file(), "no {page}");
    }
}
