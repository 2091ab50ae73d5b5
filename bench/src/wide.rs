//! Bulk transfers over TCP itself, beside a stream between plain programs whose memory is as cold: over loopback, and
//! between two machines of a network, which are network namespaces.

use ropeway_tests::net::{Host, Net};
use ropeway_tests::proxy::{Fault, Proxy};

use crate::median::median;
use crate::process::{Probe, Side};
use crate::server::Server;
use crate::servers::MISSING;
use crate::setup::Bench;
use crate::table::{Reach, Row};

const MIB: usize = 1 << 20;

/// Which way, how often in a row, and how many MiB.
const TRANSFERS: [(&str, usize, usize); 4] = [("write", 8, 16), ("read", 8, 16), ("write", 1, 256), ("read", 1, 256)];

/// Measures the rows that are wanted; a failure becomes their error.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let loopback = group(bench, say, "over TCP", |wanted| {
        let server = Server::start(&bench.ropeway, &bench.native)?;
        measure(bench, None, &server, "tcp://127.0.0.1:0", wanted)
    });
    let network = group(bench, say, "between two machines", |wanted| {
        let net = Net::new(2).map_err(|why| format!("{MISSING}{why}"))?;
        let server = Server::start_at(&bench.ropeway, &bench.native, net.host(1));
        let far = format!("tcp://{}:0", net.host(1).address());
        measure(bench, Some([net.host(0), net.host(1)]), &server?, &far, wanted)
    });
    [loopback, network, lanes(bench, say)].concat()
}

/// What somebody on the way lets pass of each connection, in bytes a second.
const RATE: u64 = 100_000_000;

/// How many sockets a link has there.
const SOCKETS: [usize; 3] = [1, 2, 4];

fn bounded(sockets: usize) -> String {
    let plural = if sockets == 1 { "" } else { "s" };
    format!("100 MB/s for each connection: write of 64 MB over {sockets} socket{plural}")
}

/// Links of several sockets, where each connection is bounded on the way: by a proxy.
fn lanes(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    let wanted: Vec<_> = SOCKETS.into_iter().filter(|sockets| bounded(*sockets).contains(&bench.only)).collect();
    let Some(first) = wanted.first() else { return Vec::new() };
    say(&bounded(*first));
    let measured = || -> Result<Vec<f64>, String> {
        let server = Server::start(&bench.ropeway, &bench.native)?;
        let address = server.url().trim_start_matches("tcp://").to_owned();
        let proxy = Proxy::to(&address, Fault::RateUp(RATE));
        let probes = SOCKETS.map(|sockets| {
            let mut side = bench.remote.clone();
            side.use_server(&format!("shm:off,sockets:{sockets},{}", proxy.url()));
            ready(side.spawn("work", "", false)?)
        });
        let mut figures: [Vec<f64>; SOCKETS.len()] = Default::default();
        let mut probes: Vec<Probe> = probes.into_iter().collect::<Result<_, _>>()?;
        for _ in 0..bench.rounds(5) {
            for (probe, figures) in probes.iter_mut().zip(&mut figures) {
                figures.push(probe.ask(&format!("write 1 {}", 64 * MIB))?);
            }
        }
        Ok(figures.iter_mut().map(|figures| median(figures)).collect())
    };
    let figures = measured();
    let row = |sockets: &usize| {
        let at = SOCKETS.iter().position(|one| one == sockets).unwrap_or(0);
        let (ropeway, reach, rule) = match &figures {
            Ok(all) if *sockets > 1 => {
                let least = 0.9 * *sockets as f64 * all[0];
                (Ok(all[at]), Reach::AtLeast(least), format!("0.9 of {sockets} times one"))
            }
            Ok(all) => (Ok(all[at]), Reach::Stated, String::new()),
            Err(why) => (Err(why.clone()), Reach::Stated, String::new()),
        };
        Row { figure: bounded(*sockets), unit: "MB/s", native: None, ropeway, floor: None, reach, rule }
    };
    wanted.iter().map(row).collect()
}

type Figures = Vec<[f64; 2]>;

fn group(
    bench: &Bench,
    say: &dyn Fn(&str),
    over: &str,
    measured: impl FnOnce(&[(&str, usize, usize)]) -> Result<Figures, String>,
) -> Vec<Row> {
    let figure = |(way, _, size): &(&str, usize, usize)| format!("{over}: {way} of {size} MB");
    let wanted: Vec<_> = TRANSFERS.into_iter().filter(|one| figure(one).contains(&bench.only)).collect();
    let Some(first) = wanted.first() else { return Vec::new() };
    say(&figure(first));
    let figures = measured(&wanted);
    let row = |(at, one): (usize, &_)| {
        let (ropeway, floor, reach) = match &figures {
            Ok(figures) => {
                let [ropeway, floor] = figures[at];
                (Ok(ropeway), Some(floor), Reach::AtLeast(0.95 * floor))
            }
            Err(why) if why.starts_with(MISSING) => (Err(why.clone()), None, Reach::NotOffered),
            Err(why) => (Err(why.clone()), None, Reach::Stated),
        };
        Row { figure: figure(one), unit: "MB/s", native: None, ropeway, floor, reach, rule: "0.95 stream".into() }
    };
    wanted.iter().enumerate().map(row).collect()
}

/// Ropeway's figures and the stream's, turn by turn.
fn measure(
    bench: &Bench,
    hosts: Option<[&Host; 2]>,
    server: &Server,
    far: &str,
    wanted: &[(&str, usize, usize)],
) -> Result<Figures, String> {
    let [near_host, far_host] = hosts.map_or([None; 2], |hosts| hosts.map(Some));
    let mut far_side: Side = bench.native.clone();
    far_side.filter = far.to_owned();
    let mut far_end = far_side.spawn_at(far_host, "floor", "", false)?;
    let port = far_end.answer()?;
    let mut near_side: Side = bench.native.clone();
    near_side.filter = format!("{}{port}", far.trim_end_matches('0'));
    let mut stream = ready(near_side.spawn_at(near_host, "cold", "", false)?)?;
    let mut side = bench.remote.clone();
    side.use_server(&format!("shm:off,{}", server.url()));
    let mut ropeway = ready(side.spawn_at(near_host, "work", "", false)?)?;
    let mut figures = Vec::new();
    for (way, count, size) in wanted {
        let order = format!("{way} {count} {}", size * MIB);
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for round in 0..bench.rounds(9) {
            // The order changes, so that neither always follows the other.
            if round % 2 == 0 {
                floor.push(stream.ask(&order)?);
            }
            ours.push(ropeway.ask(&order)?);
            if round % 2 == 1 {
                floor.push(stream.ask(&order)?);
            }
        }
        figures.push([median(&mut ours), median(&mut floor)]);
    }
    Ok(figures)
}

fn ready(mut probe: Probe) -> Result<Probe, String> {
    probe.answer()?;
    Ok(probe)
}
