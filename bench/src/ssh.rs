//! A server that is reached through ssh.

use ropeway_tests::sshd::Sshd;

use crate::median::median;
use crate::process::Side;
use crate::server::BETWEEN_CLIENTS;
use crate::setup::Bench;
use crate::table::{Reach, Row};

const FIGURE: &str = "through ssh: process start to first queue, second program";

/// The real ssh server that is started for the figure.
const SSHD: &str = "/usr/sbin/sshd";

/// Measures the row, if it is wanted; a failure becomes its error.
pub fn rows(bench: &Bench, say: &dyn Fn(&str)) -> Vec<Row> {
    if !FIGURE.contains(&bench.only) {
        return Vec::new();
    }
    say(FIGURE);
    let row = |native, ropeway, reach, rule| Row::without_floor(FIGURE, "ms", ropeway, native, reach, rule);
    if !std::path::Path::new(SSHD).exists() {
        return vec![row(None, Err(format!("{SSHD} is not installed")), Reach::NotOffered, "")];
    }
    vec![match measure(bench) {
        Ok((plain, through)) => {
            let reach = Reach::AtMost(plain + 15.0);
            row(Some(plain), Ok(through), reach, "plain + 15; \"native\" is plain")
        }
        Err(why) => row(None, Err(why), Reach::Stated, ""),
    }]
}

/// Medians over plain TCP and through a tunnel that a program before has opened, turn by turn.
fn measure(bench: &Bench) -> Result<(f64, f64), String> {
    let variables: Vec<_> =
        bench.native.environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let sshd = Sshd::start_of(&bench.ropeway, &variables);
    let mut side: Side = bench.remote.clone();
    side.use_server(&sshd.url());
    let further = [
        ("XDG_RUNTIME_DIR", sshd.file("client").into_os_string()),
        ("ROPEWAY_SSH", sshd.ssh().into()),
        ("ROPEWAY_SSH_KEEP", "30".into()),
        ("ROPEWAY_BINARY", bench.ropeway.clone().into_os_string()),
        ("ROPEWAY_CONNECT_TIMEOUT", "20".into()),
    ];
    side.environment.extend(further);
    side.start_up()?;
    let (mut plain, mut through) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(11) {
        for (side, times) in [(&bench.remote, &mut plain), (&side, &mut through)] {
            std::thread::sleep(BETWEEN_CLIENTS);
            times.push(side.start_up()?);
        }
    }
    Ok((median(&mut plain), median(&mut through)))
}
