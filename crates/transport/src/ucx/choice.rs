//! Which of UCX's transports a link uses, and how.

use std::ffi::OsString;

/// They reach into other processes, their memory or their descriptors, which a worker's sandbox forbids on both sides:
/// nobody may look into a worker, and it into nobody. UCX would find that out when it is too late.
const FORBIDDEN: [&str; 4] = ["cma", "knem", "xpmem", "posix"];

/// Settings of the library that are not as it would have them. What the environment says goes first, as far as it can work.
#[derive(Debug, Default)]
pub(super) struct Choice {
    transports: String,
    devices: Option<&'static str>,
    /// From how many bytes on a message is announced, and fetched by the receiver, rather than sent.
    announced_from: Option<&'static str>,
}

impl Choice {
    /// For a link whose socket is over a loopback address or not, in this process's environment.
    pub(super) fn new(is_loopback: bool) -> Self {
        let mut adapters = std::fs::read_dir("/sys/class/infiniband").into_iter().flatten();
        Self::of(is_loopback || adapters.next().is_none(), is_loopback, |name| std::env::var_os(name))
    }

    /// As if the environment asked for these transports, over a loopback address.
    #[cfg(test)]
    pub(super) fn among(transports: &str) -> Self {
        Self::of(true, true, |name| (name == "UCX_TLS").then(|| transports.into()))
    }

    fn of(is_without_rdma: bool, is_loopback: bool, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let given = env("UCX_TLS").and_then(|given| given.into_string().ok());
        // Who listens for this machine alone does so with UCX's sockets, too.
        let devices = (is_loopback && env("UCX_NET_DEVICES").is_none()).then_some("lo");
        // Without RDMA, nobody fetches: each message would cost round trips, and a step of the sender's that may not be there.
        let announced_from = (is_without_rdma && env("UCX_RNDV_THRESH").is_none()).then_some("inf");
        Self { transports: transports(given.as_deref().unwrap_or("all")), devices, announced_from }
    }

    /// Names and values.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let devices = self.devices.map(|devices| ("NET_DEVICES", devices));
        let fixed = [
            ("TLS", self.transports.as_str()),
            // The link's socket says whether the other process is there.
            ("KEEPALIVE_INTERVAL", "inf"),
        ];
        let announced_from = self.announced_from.map(|bytes| ("RNDV_THRESH", bytes));
        fixed.into_iter().chain(devices).chain(announced_from)
    }
}

/// A list of transports without those that cannot work.
fn transports(given: &str) -> String {
    let all = || format!("^{}", FORBIDDEN.join(","));
    if let Some(without) = given.strip_prefix('^') {
        return format!("{},{without}", all());
    }
    let mut list: Vec<&str> = Vec::new();
    for one in given.split(',') {
        match one {
            "all" => return all(),
            "shm" | "sm" => list.push("sysv"),
            one if FORBIDDEN.contains(&one) => {}
            one => list.push(one),
        }
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_among_what_can_work() {
        let all = "^cma,knem,xpmem,posix";
        for (given, expected) in [
            ("all", all),
            ("^tcp", "^cma,knem,xpmem,posix,tcp"),
            ("tcp,self", "tcp,self"),
            ("shm,self", "sysv,self"),
            ("rc,cma,sysv", "rc,sysv"),
        ] {
            assert_eq!(transports(given), expected, "{given}");
        }
        let settings = |is_loopback| {
            let choice = Choice::of(is_loopback, is_loopback, |_| None);
            choice.settings().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(settings(false)[0], format!("TLS={all}"));
        for setting in ["NET_DEVICES=lo", "RNDV_THRESH=inf"] {
            assert!(settings(true).contains(&setting.to_owned()) && !settings(false).contains(&setting.to_owned()));
        }
    }
}
