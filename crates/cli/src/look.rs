//! `ropeway look`: looks for servers on the local network on behalf of a program's client library, which therefore need
//! not know multicast DNS.

use std::time::Duration;

use ropeway_client::discover::Found;

use crate::failure::Failure;

/// Looks for `milliseconds`, and prints a line for each server, or a line that says why it cannot look.
pub fn look(milliseconds: u64) -> Result<(), Failure> {
    match ropeway_discovery::look(Duration::from_millis(milliseconds)) {
        Ok(found) => {
            for ropeway_discovery::Found { name, host, addresses, port, .. } in found {
                println!("{}", Found { name, host, addresses, port }.to_line());
            }
        }
        Err(error) => println!("cannot look: {error}"),
    }
    Ok(())
}
