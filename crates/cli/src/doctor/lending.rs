//! Whether the broker can be asked, and for what.

use ropeway_client::config::{Config, FILE_NAME};
use ropeway_lease::want::Want;

use super::Findings;
use crate::broker::{Pool, pool};
use crate::places::filled;

/// Checks the broker that is configured, if one is.
pub(super) fn check(findings: &mut Findings, config: &Config) {
    let named = config.wanted.as_ref().and_then(|wanted| wanted.broker.clone());
    if config.wanted.is_none() && filled("ROPEWAY_BROKER").is_none() {
        return;
    }
    if let Some(wanted) = &config.wanted {
        match wanted.want.parse::<Want>() {
            Ok(want) => findings.ok("wanted of the broker", &want.to_string()),
            Err(why) => findings.failed(
                "wanted of the broker",
                &why,
                &format!("correct ROPEWAY_WANT, or `want` in {FILE_NAME}; docs/sharing.md says what can be wanted"),
            ),
        }
    }
    match pool(named.as_deref()) {
        Ok(Pool { user, servers, devices: 0 }) => findings.failed(
            "broker",
            &format!("it knows '{user}', and has {servers} servers and no device"),
            "start `ropeway serve --broker` with a ticket that was made with --registers on each server",
        ),
        Ok(Pool { user, servers, devices }) => {
            let some = |count, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
            let has = format!("{} on {}", some(devices, "device"), some(servers, "server"));
            findings.ok("broker", &format!("it knows '{user}', and has {has}"));
        }
        Err(why) => findings.failed(
            "broker",
            &why.to_string(),
            "check that `ropeway broker` runs there, and ask who runs it for a ticket if it refuses",
        ),
    }
}
