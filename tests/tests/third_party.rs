//! Programs of other people, unmodified, from Debian: clinfo, clpeak, hashcat.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

const MINUTES: Duration = Duration::from_secs(60);

/// Properties that differ from the native ones, and why.
const OWN_PROPERTIES: &[(&str, &[&str])] = &[
    ("the platform is Ropeway", &["CL_PLATFORM_"]),
    (
        "images are not in this release",
        &[
            "CL_DEVICE_IMAGE",
            "CL_DEVICE_MAX_SAMPLERS",
            "CL_DEVICE_MAX_READ_IMAGE_ARGS",
            "CL_DEVICE_MAX_WRITE_IMAGE_ARGS",
            "CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS",
        ],
    ),
    ("sub-devices are not in this release", &["CL_DEVICE_PARTITION_"]),
    ("the host's memory is another machine's", &["CL_DEVICE_HOST_UNIFIED_MEMORY", "CL_DEVICE_SVM_CAPABILITIES"]),
    ("native kernels are functions of the host", &["CL_DEVICE_EXECUTION_CAPABILITIES"]),
    ("built-in kernels are not in this release", &["CL_DEVICE_BUILT_IN_KERNELS"]),
    (
        "extensions and features whose functions are not in this release are not offered",
        &[
            "CL_DEVICE_EXTENSIONS",
            "CL_DEVICE_OPENCL_C_FEATURES",
            "CL_DEVICE_COMMAND_BUFFER_",
            "CL_DEVICE_SPIR_VERSIONS",
        ],
    ),
];

/// The device's properties by `clinfo --raw`: property and value, one each line.
fn properties(listing: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let (name, value) = line[line.find("CL_")?..].split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    listing.lines().filter_map(line).collect()
}

#[test]
fn clinfo_lists_the_same_device() {
    let server = Server::start();
    let list = |program: Program| program.args(["-l", "--raw"]).run().success().stdout;
    let native = list(Program::native("clinfo"));
    let remote = list(Program::remote("clinfo", server.url()));
    // 0: platform
    // 0.0: device
    let device = |text: &str| text.lines().find_map(|line| line.strip_prefix("0.0: ")).map(str::to_owned);
    assert!(device(&native).is_some(), "{native}");
    assert_eq!(device(&remote), device(&native), "{remote}");
}

#[test]
fn clinfo_finds_the_same_properties() {
    let server = Server::start();
    let list = |program: Program| program.args(["--raw"]).run().success().stdout;
    let native = properties(&list(Program::native("clinfo")));
    let remote = properties(&list(Program::remote("clinfo", server.url())));
    let own = |name: &str| OWN_PROPERTIES.iter().any(|(_, own)| own.iter().any(|start| name.starts_with(start)));
    let mut differences = Vec::new();
    for (name, value) in native.iter().filter(|(name, _)| !own(name)) {
        match remote.iter().find(|(its, _)| its == name) {
            Some((_, its)) if its == value => {}
            Some((_, its)) => differences.push(format!("{name}: native '{value}', through Ropeway '{its}'")),
            None => differences.push(format!("{name}: native '{value}', through Ropeway missing")),
        }
    }
    assert!(native.len() > 80, "clinfo printed only {} properties", native.len());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn clpeak_finishes_with_every_figure() {
    let figures = |output: &str| {
        let names = output.lines().filter_map(|line| line.split_once(" : ")).map(|(name, _)| name.trim().to_owned());
        names.collect::<Vec<_>>()
    };
    let native = Program::native("clpeak").limit(6 * MINUTES).run().success();
    let server = Server::start();
    let remote = Program::remote("clpeak", server.url()).limit(6 * MINUTES).run().success();
    eprintln!("native:\n{}\nthrough Ropeway:\n{}", native.stdout, remote.stdout);
    assert!(figures(&native.stdout).len() > 30, "{}", native.stdout);
    assert_eq!(figures(&remote.stdout), figures(&native.stdout));
}

/// MD5 of words that the rules make of those in the list.
const HASHES: &[(&str, &str)] = &[
    ("e5d7cffe25654f7e3a1e334118c71549", "correct"),
    ("38069b4eb64e325cb7ac65bd641b2188", "Horse"),
    ("e7c95b9f481a57ec7378cad3e3c54515", "battery1"),
    ("15311f10d093d9d2e10ee351bb9f4674", "yawepor"),
];

/// The passwords that hashcat found, sorted.
fn attack(program: Program) -> Vec<String> {
    let home = program.home().to_owned();
    let write = |name: &str, lines: &mut dyn Iterator<Item = &str>| {
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        fs::write(home.join(name), text).unwrap();
        home.join(name)
    };
    let hashes = write("hashes", &mut HASHES.iter().map(|(hash, _)| *hash));
    let words = write("words", &mut ["correct", "horse", "battery", "staple", "ropeway"].into_iter());
    let found = home.join("found");
    // PoCL is a CPU device, which hashcat takes only when it is forced to.
    let options = ["-m", "0", "-a", "0", "-O", "-D", "1", "--force", "--potfile-disable", "--quiet", "-r"];
    let program = program
        .args(options)
        .args([Path::new("/usr/share/hashcat/rules/best64.rule"), Path::new("-o"), &found, &hashes, &words])
        .limit(5 * MINUTES);
    let outcome = program.within_home().run().success();
    let mut lines: Vec<_> = outcome.file("found").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// hashcat in a folder of its own, with those of its kernels that it needs here.
fn copied_hashcat(to: &Path) -> std::path::PathBuf {
    let from = Path::new("/usr/share/hashcat");
    for shared in ["modules", "rules", "tunings", "hashcat.hcstat2"] {
        std::os::unix::fs::symlink(from.join(shared), to.join(shared)).unwrap();
    }
    fs::create_dir(to.join("OpenCL")).unwrap();
    for entry in fs::read_dir(from.join("OpenCL")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let of_another_hash = name.starts_with('m') && name.as_bytes()[1].is_ascii_digit();
        if !of_another_hash || name.starts_with("m00000") || name.starts_with("m00400") {
            fs::copy(from.join("OpenCL").join(&name), to.join("OpenCL").join(&name)).unwrap();
        }
    }
    fs::copy("/usr/bin/hashcat", to.join("hashcat")).unwrap();
    to.join("hashcat")
}

#[test]
fn hashcat_finds_the_passwords() {
    let mut expected: Vec<_> = HASHES.iter().map(|(hash, word)| format!("{hash}:{word}")).collect();
    expected.sort();
    assert_eq!(attack(Program::native("hashcat")), expected);
    let server = Server::start();
    // Its kernels name what they include with macros. A worker cannot read temporary files, as another machine could not.
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(attack(Program::remote(copied_hashcat(folder.path()), server.url())), expected);
}
