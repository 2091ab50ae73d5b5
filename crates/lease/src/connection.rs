//! A connection to a broker, for clients and servers: it waits in the thread that calls.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_transport::{Endpoint, Link, Pass, Sender as _};

use crate::messages::{Ask, BEAT_MS, LENGTH, Lease, LeaseAsk, SILENCE_MS, Tell, VERSION, decode, encode, length};

/// The port of a broker whose address names none.
pub const DEFAULT_PORT: u16 = 7591;

/// How long one of several brokers has to answer.
const ATTEMPT: Duration = Duration::from_secs(2);

/// After so many attempts, no broker is asked that only others have named.
const MAX_TRIED: usize = 16;

/// How long one look for a message lasts, where there is no end to waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before all brokers of a pool are asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a broker cannot be used, or not any more: one sentence for a person.
#[derive(Debug)]
pub enum BrokerError {
    /// It could not be reached, or the connection has ended: others may be tried, or this one again.
    Unreachable(String),
    /// It refuses.
    Refused(String),
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BrokerError {}

impl BrokerError {
    /// The broker's answer is to another question.
    pub fn strange() -> Self {
        let why = "the broker's answer is to another question; install the same release of Ropeway on both";
        Self::Refused(why.to_owned())
    }
}

/// A connection whose broker has said welcome.
#[derive(Debug)]
pub struct Connection {
    link: Link,
    broker: Endpoint,
    /// What has come of the next message.
    begun: Vec<u8>,
    /// When the broker was last heard.
    heard: Instant,
    /// When it last heard something from here.
    said: Instant,
    /// The broker's time, in milliseconds since 1970, and when it was heard.
    time: Option<(Instant, u64)>,
    /// The name of this client's ticket.
    user: String,
}

/// What a broker answers first.
enum Answer {
    /// It leads.
    Welcome(Box<Connection>),
    /// The one with this address does.
    Elsewhere(String),
}

/// The broker with this address that has the pass of another one.
fn at(address: &str, other: &Endpoint) -> Option<Endpoint> {
    let Endpoint::Tls { pass, .. } = other else { return None };
    match format!("tls://{address}").parse() {
        Ok(Endpoint::Tls { host, port, .. }) => Some(Endpoint::Tls { host, port, pass: pass.clone() }),
        _ => None,
    }
}

impl Connection {
    /// Connects to the one of these brokers that leads their pool. While none does, or one that was named does not
    /// answer and others may take its place, it goes on trying until `timeout` is over.
    ///
    /// # Errors
    /// Why none can be used.
    pub fn open(brokers: &[Endpoint], program: &str, timeout: Duration) -> Result<Self, BrokerError> {
        let deadline = Instant::now() + timeout;
        let mut last = BrokerError::Unreachable("no broker is named".to_owned());
        loop {
            let mut brokers = brokers.to_vec();
            let mut is_pool = brokers.len() > 1;
            let mut tried = 0;
            while let Some(broker) = brokers.get(tried).cloned() {
                tried += 1;
                // One that is cut off must not keep this from asking the others.
                let limit = if is_pool { timeout.min(ATTEMPT) } else { timeout };
                match Self::to(&broker, program, limit) {
                    Ok(Answer::Welcome(connection)) => return Ok(*connection),
                    Ok(Answer::Elsewhere(leader)) => {
                        is_pool = true;
                        last = BrokerError::Unreachable(format!("the broker {broker} stands by, and {leader} leads"));
                        // It has the same key and the same clients.
                        let leader = at(&leader, &broker).filter(|leader| !brokers.contains(leader));
                        brokers.extend(leader.filter(|_| tried < MAX_TRIED));
                    }
                    Err(refused @ BrokerError::Refused(_)) => return Err(refused),
                    Err(error) => last = error,
                }
            }
            if !is_pool || Instant::now() + PAUSE >= deadline {
                return Err(last);
            }
            thread::sleep(PAUSE);
        }
    }

    fn to(broker: &Endpoint, program: &str, timeout: Duration) -> Result<Answer, BrokerError> {
        let deadline = Instant::now() + timeout;
        let link = Link::connect(broker, timeout).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => BrokerError::Refused(format!("cannot use the broker {broker}: {error}")),
            _ => BrokerError::Unreachable(format!("cannot reach the broker {broker}: {error}")),
        })?;
        let now = Instant::now();
        let broker = broker.clone();
        let mut connection =
            Self { link, broker, begun: Vec::new(), heard: now, said: now, time: None, user: String::new() };
        let release = env!("CARGO_PKG_VERSION").to_owned();
        connection.say(&Ask::Hello { version: VERSION, release, program: program.to_owned() })?;
        loop {
            match connection.next_by(deadline)? {
                Some(Tell::Welcome { user, .. }) => {
                    connection.user = user;
                    return Ok(Answer::Welcome(Box::new(connection)));
                }
                Some(Tell::Elsewhere { leader }) => return Ok(Answer::Elsewhere(leader)),
                Some(Tell::Refused { why }) => {
                    let broker = &connection.broker;
                    return Err(BrokerError::Refused(format!("the broker {broker} refuses: {why}")));
                }
                Some(_) => {}
                None => return Err(connection.lost("it takes connections and says nothing")),
            }
        }
    }

    /// The name of this client's ticket, as the broker knows it.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The broker's address with its key, which signs leases.
    pub fn broker(&self) -> &Endpoint {
        &self.broker
    }

    /// The broker's key, as the ticket says; none over a Unix socket.
    pub fn key(&self) -> Option<ropeway_transport::tls::PublicKey> {
        self.broker.pass().and_then(Pass::server)
    }

    /// The broker's time, in milliseconds since 1970, and when it was heard.
    pub fn time(&self) -> Option<(Instant, u64)> {
        self.time
    }

    /// The connection's socket, to wait for several things at once; a message may have come already.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Says something.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn say(&mut self, ask: &Ask) -> Result<(), BrokerError> {
        let bytes = encode(ask).map_err(BrokerError::Refused)?;
        self.said = Instant::now();
        self.link.send_all(&mut [IoSlice::new(&bytes)]).map_err(|error| self.lost(&error.to_string()))
    }

    /// Says something, and waits for the answer, which is the next message but notices of leases, up to `timeout`.
    ///
    /// # Errors
    /// The connection has ended; it refuses.
    pub fn ask(&mut self, ask: &Ask, timeout: Duration) -> Result<Tell, BrokerError> {
        self.say(ask)?;
        let deadline = Instant::now() + timeout;
        loop {
            match self.next_by(deadline)? {
                Some(Tell::Refused { why }) => return Err(BrokerError::Refused(why)),
                Some(Tell::Notice { .. } | Tell::Ended { .. } | Tell::Renewed { .. })
                    if !matches!(ask, Ask::Renew { .. } | Ask::Attach { .. }) => {}
                Some(tell) => return Ok(tell),
                None => return Err(self.lost("it gives no answer")),
            }
        }
    }

    /// Asks for devices and waits for them until `deadline`, if there is one; `None` when the broker has not answered by
    /// then. `waits` hears each time how many requests are before this one, and what it waits for.
    ///
    /// # Errors
    /// The connection has ended; it refuses.
    pub fn obtain(
        &mut self,
        ask: LeaseAsk,
        deadline: Option<Instant>,
        mut waits: impl FnMut(u32, &str),
    ) -> Result<Option<Lease>, BrokerError> {
        self.say(&Ask::Lease(ask))?;
        loop {
            let soon = Instant::now() + PATIENCE;
            match self.next_by(deadline.map_or(soon, |deadline| deadline.min(soon)))? {
                Some(Tell::Granted(lease)) => return Ok(Some(*lease)),
                Some(Tell::Refused { why }) => return Err(BrokerError::Refused(why)),
                Some(Tell::Waiting { before, why }) => waits(before, &why),
                None if deadline.is_some_and(|deadline| deadline <= Instant::now()) => return Ok(None),
                _ => {}
            }
        }
    }

    /// The next message; `None` when none has come by `deadline`. Says meanwhile that this end is still there.
    ///
    /// # Errors
    /// The connection has ended, or the broker is silent.
    pub fn next_by(&mut self, deadline: Instant) -> Result<Option<Tell>, BrokerError> {
        let (beat, silence) = (Duration::from_millis(BEAT_MS), Duration::from_millis(SILENCE_MS));
        loop {
            match self.read() {
                Ok(Some(Tell::Beat { at_ms })) => {
                    self.time = Some((Instant::now(), at_ms));
                    continue;
                }
                Ok(Some(tell)) => return Ok(Some(tell)),
                Ok(None) => {}
                Err(error) => return Err(self.lost(&error.to_string())),
            }
            let now = Instant::now();
            if now.duration_since(self.heard) > silence {
                return Err(self.lost("it is silent"));
            }
            if now >= self.said + beat {
                self.say(&Ask::Beat)?;
            }
            if now >= deadline {
                return Ok(None);
            }
            let until = deadline.min(self.said + beat).min(self.heard + silence + Duration::from_millis(1));
            let wait = self.link.wait_readable(Some(until.saturating_duration_since(now)));
            wait.map_err(|error| self.lost(&error.to_string()))?;
        }
    }

    /// A whole message, if one is there.
    fn read(&mut self) -> io::Result<Option<Tell>> {
        loop {
            let wanted = match self.begun.first_chunk::<LENGTH>() {
                None => LENGTH,
                Some(len) => LENGTH + length(*len).map_err(io::Error::other)?,
            };
            let have = self.begun.len();
            if have == wanted && have > LENGTH {
                let tell = decode(&self.begun[LENGTH..]).map_err(io::Error::other);
                self.begun.clear();
                return tell.map(Some);
            }
            self.begun.resize(wanted, 0);
            let read = self.link.try_recv(&mut self.begun[have..]);
            self.begun.truncate(have + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it has closed the connection")),
                Ok(_) => self.heard = Instant::now(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn lost(&self, why: &str) -> BrokerError {
        BrokerError::Unreachable(format!("the broker {} is lost: {why}", self.broker))
    }
}
