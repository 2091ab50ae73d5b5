//! A process that determines by trial what no query reveals about this machine's drivers.
//!
//! OpenCL does not define what is tried here, so a driver may never return from a call, and only the end of the process
//! interrupts that. So no worker tries it: the daemon starts this process, watches its progress, and ends it when it
//! stays at one call for too long.

use std::os::fd::{AsFd, OwnedFd};

use ropeway_custom::file::Declarations;

use crate::handoff::{self, DriverFact, ToDaemon, ToWorker};
use crate::native::{self, Device, Platform};
use crate::objects::Context;
use crate::options::WorkerOptions;
use crate::peers::pre_enqueue;
use crate::warmup::{is_own, refuse_own_library};

/// Tries each driver of which the daemon has no facts yet, and tells it the answers. Returns an exit code.
pub fn run(control: &OwnedFd, options: &WorkerOptions) -> u8 {
    let say = |message: ToDaemon| handoff::say(control.as_fd(), &message, None, true).is_ok();
    let Ok(Some((ToWorker::Drivers(known), _))) = handoff::hear(control.as_fd(), true) else { return 1 };
    let mut known: Vec<String> = known.into_iter().map(|fact: DriverFact| fact.driver).collect();
    let step = |what: &str| {
        // If the daemon is gone, sending the next answer will fail.
        let _ = say(ToDaemon::Step(what.to_owned()));
    };
    // Once: those that follow a process which a driver has ended know some drivers.
    if options.custom.needs_proof() && known.is_empty() {
        step("the trial of custom devices' hardware");
        let proof = prove(&options.custom);
        let is_refuted = proof.is_err();
        if !say(ToDaemon::Proved(proof)) || is_refuted {
            return 1;
        }
    }
    refuse_own_library();
    step("clGetPlatformIDs");
    // A worker, not this process, logs why there is no OpenCL.
    let Ok(platforms) = native::platforms() else { return 0 };
    for platform in platforms.into_iter().filter(|platform| !is_own(*platform)) {
        for device in platform.devices() {
            let driver = device.driver();
            if known.contains(&driver) {
                continue;
            }
            if !say(ToDaemon::Probing(driver.clone())) {
                return 1;
            }
            if !say(ToDaemon::Probed(takes_bytes_late(platform, device, options, &step))) {
                return 1;
            }
            known.push(driver);
        }
    }
    0
}

/// Has the custom devices tried.
fn prove(declared: &Declarations) -> Result<(), String> {
    for kind in declared.clone().kinds()? {
        kind.prove().map_err(|why| format!("the custom device '{}' cannot be had: {why}", kind.name()))?;
    }
    Ok(())
}

/// Determines whether writes read their bytes late; false for a driver on which the trial fails.
fn takes_bytes_late(platform: Platform, device: Device, options: &WorkerOptions, step: &dyn Fn(&str)) -> bool {
    step("clCreateContext");
    let native = native::Context::new(platform, &[device], std::sync::Arc::new(Unheard));
    let context = Context::new(native, vec![(0, device)], options.force_pinned);
    pre_enqueue::probe(&context, step).unwrap_or(false)
}

/// A sink that drops this context's errors.
struct Unheard;

impl native::ErrorSink for Unheard {
    fn report(&self, _text: &str) {}
}
