//! The start of a program that gets its server from a broker, beside one that is given it by name.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ropeway_tests::wait_for;

use super::house::{House, devices};
use crate::median::median;
use crate::orders::{ANSWER, monotonic};
use crate::server::{BETWEEN_CLIENTS, Server};
use crate::setup::Bench;
use crate::table::{Reach, Row};

const FIGURE: &str = "lending: `ropeway run` to first queue, with a lease";

/// Measures the row, if it is wanted; a failure becomes its error.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    if !FIGURE.contains(&bench.only) {
        return Vec::new();
    }
    say(FIGURE);
    let row = |native, ropeway, reach, rule| Row::without_floor(FIGURE, "ms", ropeway, native, reach, rule);
    vec![match measure(bench) {
        Ok((named, leased)) => {
            row(Some(named), Ok(leased), Reach::AtMost(named + 5.0), "named + 5; \"native\" is a server given by name")
        }
        Err(why) => row(None, Err(why), Reach::Stated, ""),
    }]
}

/// Medians with a server that is named by its ticket, and with one that the broker lends, turn by turn.
fn measure(bench: &Bench) -> Result<(f64, f64), String> {
    let house = House::start(bench, "start")?;
    let state = |name: &str| bench.folder.path().join(name);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let registers = house.ticket("server", &["--registers"])?;
    let (own, lent) = (state("start-own"), state("start-lent"));
    let named = Server::start_encrypted(&bench.ropeway, &bench.native, &own)?;
    let lending = ["--listen", "tls://127.0.0.1:0", "--state", &text(&lent), "--broker", &registers];
    let _lending = Server::start_just(&bench.ropeway, &bench.native, &lending)?;
    let broker = house.ticket("client", &[])?;
    let mut watcher = house.connect(&broker)?;
    let is_there = wait_for("the server at the broker", Duration::from_secs(20), || {
        Some(devices(&mut watcher)).filter(|listed| listed.as_ref().is_ok_and(|listed| !listed.is_empty()))
    });
    is_there?;
    let made = Command::new(&bench.ropeway)
        .args(["ticket", "new", "bench", "--state", &text(&own), "--host", &format!("127.0.0.1:{}", named.port)])
        .output();
    let made = made.map_err(|error| format!("no ticket: {error}"))?;
    let ticket = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    std::thread::sleep(Duration::from_secs(1));
    let (mut by_name, mut by_lease) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(11) {
        for (args, times) in
            [(&["--server", &ticket][..], &mut by_name), (&["--broker", &broker, "--want", "1 device"], &mut by_lease)]
        {
            std::thread::sleep(BETWEEN_CLIENTS);
            times.push(start_up(bench, args)?);
        }
    }
    Ok((median(&mut by_name), median(&mut by_lease)))
}

/// Milliseconds from just before `ropeway run` is started until its program has its first queue.
fn start_up(bench: &Bench, args: &[&str]) -> Result<f64, String> {
    let itself = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut command = bench.native.command(&bench.ropeway);
    command.arg("run").args(args).args(["--only", "--"]).arg(itself);
    command.args(["child", "start", "", &monotonic().to_string()]);
    let output = command.output().map_err(|error| format!("`ropeway run` cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let figure = said.lines().find_map(|line| line.strip_prefix(ANSWER)?.parse().ok());
    figure.ok_or_else(|| format!("no first queue: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
