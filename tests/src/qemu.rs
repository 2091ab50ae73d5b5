//! A virtual machine of QEMU's, with a shared memory device and a network of its own, in which programs run. Its processor
//! is emulated, so that it runs on any machine.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{places, wait_for};

/// How long a guest may take to boot, and each of its steps, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Where a guest reaches this machine's loopback address.
pub const HOST: &str = "10.0.2.2";

/// What begins the lines that say how a step ended.
const OUTCOME: &str = "outcome of step ";

/// The folder of `scripts/guest.sh`.
fn folder() -> PathBuf {
    places::target().join("e2e/guest")
}

/// Why no guest can be booted here, if none can.
pub fn missing() -> Option<&'static str> {
    let has =
        |program: &str| ["/usr/bin", "/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(program).exists());
    if !has("qemu-system-x86_64") || !has("busybox") || !has("cpio") {
        return Some("QEMU, busybox or cpio is not installed (packages qemu-system-x86, busybox-static, cpio)");
    }
    (!folder().join("modules.order").exists()).then_some("there is no kernel for guests (scripts/guest.sh)")
}

/// What guests have in them: these programs, with their libraries, and the client library.
pub struct Image {
    folder: TempDir,
}

impl Image {
    /// Packs it.
    ///
    /// # Panics
    /// When something cannot be read or written.
    pub fn new(programs: &[PathBuf]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let script = r#"
            cd "$1" && mkdir -p root/bin root/dev root/proc root/sys root/tmp root/lib64 root/lib && cd root
            guest=$2 library=$3
            shift 3
            cp -L "$(command -v busybox)" bin/busybox
            for name in sh cat mount insmod ifconfig poweroff sleep sync; do ln -s busybox bin/$name; done
            cp -r "$guest/modules" "$guest/modules.order" .
            cp -L "$@" bin/
            cp -L "$library" lib/
            strip bin/ropeway lib/libropeway.so
            echo /lib/libropeway.so >ropeway.icd
            for file in "$@" "$library"; do ldd "$file"; done | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u |
                while read -r file; do cp -L "$file" lib/; done
            cp -L /lib64/ld-linux-x86-64.so.2 lib64/
        "#;
        let mut command = Command::new("sh");
        command.args(["-ec", script, "sh"]).arg(folder.path()).arg(self::folder()).arg(places::library());
        let packed = command.args(programs).stdin(Stdio::null()).output().expect("there is a shell");
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        Self { folder }
    }

    /// Boots a guest with this memory for its device, which runs these steps, each a few lines of shell, one after the
    /// other.
    ///
    /// # Panics
    /// When something cannot be written or started.
    pub fn boot(&self, memory: &Path, steps: &[&str]) -> Guest {
        let path = |name: &str| self.folder.path().join(name);
        let mut init = File::create(path("root/init")).expect("it can be written");
        let begin = "#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
export PATH=/bin HOME=/tmp LD_LIBRARY_PATH=/lib OCL_ICD_VENDORS=/ropeway.icd
for module in $(cat /modules.order); do insmod /modules/$module; done
ifconfig lo 127.0.0.1 up; ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
";
        init.write_all(begin.as_bytes()).expect("it can be written");
        for (number, step) in steps.iter().enumerate() {
            write!(init, "(set -e\n{step}\n)\necho \"{OUTCOME}{number}: $?\"\n").expect("it can be written");
        }
        init.write_all(b"poweroff -f\n").expect("it can be written");
        drop(init);
        let pack = "chmod 755 root/init && cd root && find . | cpio -o -H newc --quiet | gzip -1 >../image";
        let packed = Command::new("sh").args(["-ec", pack]).current_dir(self.folder.path()).status();
        assert!(packed.is_ok_and(|status| status.success()), "the image cannot be packed");
        let console = path("console");
        let size = fs::metadata(memory).expect("it is there").len();
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1G"])
            .args(["-display", "none", "-no-reboot", "-nodefaults", "-append", "console=ttyS0 quiet panic=-1"])
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .arg("-kernel")
            .arg(self::folder().join("kernel"))
            .arg("-initrd")
            .arg(path("image"))
            .arg("-object")
            .arg(format!("memory-backend-file,id=shared,share=on,size={size},mem-path={}", memory.display()))
            .args(["-device", "ivshmem-plain,memdev=shared"])
            .args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
        let child = command.stdin(Stdio::null()).spawn().expect("QEMU can be started");
        Guest { child, console }
    }
}

/// A running guest; it is killed when dropped.
pub struct Guest {
    child: Child,
    console: PathBuf,
}

impl Guest {
    /// What it has printed so far.
    pub fn console(&self) -> String {
        let mut text = Vec::new();
        // It is there as soon as QEMU runs.
        let _ = File::open(&self.console).and_then(|mut file| file.read_to_end(&mut text));
        String::from_utf8_lossy(&text).replace('\r', "")
    }

    /// Waits until it has printed this.
    ///
    /// # Panics
    /// With all that it printed, when it does not, or ends before.
    pub fn until(&mut self, text: &str) {
        wait_for(&format!("'{text}' of a guest"), LIMIT, || {
            let ended = self.child.try_wait().expect("it is our child");
            let printed = self.console();
            assert!(ended.is_none() || printed.contains(text), "it ended: {printed}");
            printed.contains(text).then_some(())
        });
    }

    /// Waits until all of so many steps have succeeded.
    ///
    /// # Panics
    /// With all that it printed, when one has not.
    pub fn until_steps(&mut self, steps: usize) {
        for step in 0..steps {
            let outcome = format!("{OUTCOME}{step}: ");
            self.until(&outcome);
            assert!(self.console().contains(&format!("{outcome}0")), "{}", self.console());
        }
    }

    /// Pulls its plug.
    pub fn kill(self) {}
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- console of a guest ---\n{}", self.console());
        }
    }
}
