//! The exact counts that the client library prints at exit (`ROPEWAY_STATS=1`).

/// The traffic of a program's links.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Writes to a socket.
    pub batches: u64,
    /// Times that the application waited for an answer.
    pub round_trips: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

impl Stats {
    /// Finds them in what a program wrote to standard error.
    ///
    /// # Panics
    /// When they are not there.
    pub fn of(stderr: &str) -> Self {
        let line = stderr.lines().rfind(|line| line.contains("round_trips="));
        let line = line.unwrap_or_else(|| panic!("no counts in:\n{stderr}"));
        let count = |name: &str| {
            let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
            let value = pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok());
            value.unwrap_or_else(|| panic!("no {name} in: {line}"))
        };
        Self {
            messages_sent: count("messages_sent"),
            messages_received: count("messages_received"),
            batches: count("batches"),
            round_trips: count("round_trips"),
            bytes_sent: count("bytes_sent"),
            bytes_received: count("bytes_received"),
        }
    }
}
