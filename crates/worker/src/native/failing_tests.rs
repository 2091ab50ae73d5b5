//! Events that fail at the same time, on the machine's OpenCL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ropeway_abi as cl;

use super::failing::{user_event_made, user_event_set};
use super::{Context, ErrorSink, Memory, Part, Queue, UserEvent, Waits, platforms};

struct Unheard;

impl ErrorSink for Unheard {
    fn report(&self, _text: &str) {}
}

/// With PoCL, this aborted within a few thousand rounds as long as both could fail at once.
#[test]
fn commands_wait_for_two_events_that_fail_at_once() {
    let Some(platform) = platforms().ok().and_then(|platforms| platforms.into_iter().next()) else { return };
    let Some(&device) = platform.devices().first() else { return };
    let context = Context::new(platform, &[device], Arc::new(Unheard)).unwrap();
    let memory = Memory::buffer(&context, cl::CL_MEM_READ_WRITE, 64, None).unwrap();
    let bytes = [0_u8; 64];
    let part = Part::Bytes { offset: 0, size: 64 };
    let fail = |event: &UserEvent| {
        let _ = event.set(cl::CL_OUT_OF_RESOURCES);
        user_event_set();
    };
    for round in 0..4000_u32 {
        let gates = [(); 2].map(|()| {
            user_event_made();
            UserEvent::new(&context).unwrap()
        });
        let queue = Queue::new(&context, device, 0).unwrap();
        // In order, the later ones wait for both.
        let enqueue = |n: usize| {
            let gate = Waits::one(gates[n % 2].event());
            // SAFETY: the bytes live longer than the commands, whose ends are waited for below.
            unsafe { queue.write(&memory, &part, bytes.as_ptr(), &gate, true) }.unwrap().unwrap()
        };
        let commands: Vec<_> = (0..4).map(enqueue).collect();
        queue.flush().unwrap();
        let both = AtomicUsize::new(0);
        let fail_with_the_other = |number: u32, gate: &UserEvent| {
            both.fetch_add(1, Ordering::SeqCst);
            while both.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            // One a little after the other, by more and less.
            (0..(round * (7 + number)) % 400).for_each(|_| std::hint::spin_loop());
            fail(gate);
        };
        thread::scope(|scope| {
            scope.spawn(|| fail_with_the_other(1, &gates[1]));
            fail_with_the_other(0, &gates[0]);
        });
        for command in commands {
            assert!(command.end() < 0);
        }
    }
}
