//! Benchmark figures of one session over loopback TCP, for people: `cargo test --release -p ropeway-worker --test
//! figures -- --ignored --nocapture`.

mod support;

use std::time::Instant;

use ropeway_protocol::ids::{EventId, KernelId, MemoryId, QueueId, TransferId};
use ropeway_protocol::messages::*;
use support::{Worker, command, on};

#[test]
fn worker_process() {
    support::be_worker();
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the median time of `count` runs, in microseconds.
fn middle(count: usize, mut run: impl FnMut(usize)) -> f64 {
    median(
        (0..count)
            .map(|n| {
                let start = Instant::now();
                run(n);
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect(),
    )
}

#[test]
#[ignore = "prints figures, checks nothing"]
fn figures() {
    let how = std::env::var("FIGURES_HOW").unwrap_or_default();
    let worker = Worker::start(&how);
    let mut client = worker.connect_tcp();
    client.begin(0).buffer(1, 256 << 20);
    let built = client.build(1, "kernel void empty() {}  kernel void one(global int *p) { p[0] = 1; }");
    assert_eq!(built.status, 0, "{:?}", built.devices);
    client.kernel(1, 1, "empty");
    client.finish(1);

    println!("ping                      {:9.2} us", middle(3000, |_| client.call(&Ping { answer: 0 }).unwrap()));
    println!(
        "finish                    {:9.2} us",
        middle(3000, |_| {
            client.finish(1);
        })
    );
    println!(
        "kernel + finish           {:9.2} us",
        middle(5000, |_| {
            client.launch(on(1), 1, 1);
            client.finish(1);
        })
    );
    println!(
        "kernel with event + wait  {:9.2} us",
        middle(3000, |n| {
            let event = n as u64 + 1;
            client.launch(command(1, Some(event), &[]), 1, 1);
            client.wait(&[event]);
            client.post(&ReleaseEvent { event: EventId(event) });
        })
    );
    client.notes.done.clear();
    println!(
        "4-byte read               {:9.2} us",
        middle(3000, |n| {
            client.read(1, 1, 0, 4, n as u64);
        })
    );
    println!(
        "4-byte write + finish     {:9.2} us",
        middle(3000, |_| {
            client.post_tail(&WriteBuffer { command: on(1), buffer: MemoryId(1), offset: 0 }, &[1; 4]);
            client.finish(1);
        })
    );
    for (name, count, batch) in [("1 each", 200_000, 64), ("in batches of 256", 400_000, 256)] {
        let start = Instant::now();
        for n in 0..count {
            client.launch(on(1), 1, 1);
            if n % batch == batch - 1 {
                client.send();
            }
        }
        client.finish(1);
        println!("kernels {name:18}{:9.0} k/s", count as f64 / start.elapsed().as_secs_f64() / 1e3);
    }
    client.post(&CreateQueue {
        queue: QueueId(2),
        context: ropeway_protocol::ids::ContextId(1),
        device: 0,
        properties: 1,
        priority: 0,
        throttle: 0,
    });
    let hops = 2000u64;
    let chain = middle(5, |n| {
        let first = 1_000_000 + n as u64 * hops;
        for hop in 0..hops {
            let waits: &[u64] = if hop == 0 { &[] } else { &[first + hop - 1] };
            client.launch(command(2, Some(first + hop), waits), 1, 1);
        }
        client.finish(2);
        for hop in 0..hops {
            client.post(&ReleaseEvent { event: EventId(first + hop) });
        }
    });
    println!("event chain               {:9.2} us/hop", chain / hops as f64);
    client.notes.done.clear();

    for size in [256usize << 10, 1 << 20, 16 << 20, 256 << 20] {
        let data = vec![3u8; size];
        let rounds = if size > 100 << 20 { 5 } else { 21 };
        let gb = |us: f64| size as f64 / us / 1e3;
        let write = middle(rounds, |n| {
            if size > 256 << 10 {
                client.write_large(on(1), 1, 10_000 + (size + n) as u64, &data);
            } else {
                client.send_tail(&WriteBuffer { command: on(1), buffer: MemoryId(1), offset: 0 }, &data);
            }
            client.finish(1);
        });
        let mut into = vec![0; size];
        let read = middle(rounds, |n| {
            let transfer = TransferId(20_000_000_000 + (size + n) as u64);
            client.notes.into = Some((transfer, std::mem::take(&mut into)));
            client.post(&ReadBuffer { command: on(1), buffer: MemoryId(1), offset: 0, size: size as u64, transfer });
            client.until(|notes| notes.into_filled == size);
            client.notes.into_filled = 0;
            into = client.notes.into.take().unwrap().1;
        });
        println!("{:6} KiB  write + finish {:6.2} GB/s   read {:6.2} GB/s", size >> 10, gb(write), gb(read));
    }
    println!(
        "create + release kernel   {:9.2} us",
        middle(1, |_| {
            for n in 0..10_000u64 {
                client.kernel(100 + n, 1, "one").post(&ReleaseKernel { kernel: KernelId(100 + n) });
            }
            client.call(&Ping { answer: 0 }).unwrap();
        }) / 10_000.0
    );
}
