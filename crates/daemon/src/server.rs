//! The server's loop: one thread that waits for all events at once and never blocks on a single client.
//!
//! The same thread starts the workers, which ask the kernel to kill them when the thread that started them ends.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ropeway_discovery::Announcer;
use ropeway_protocol::handshake::{Hello, Opening, Part, Purpose, encode_opening, features};
use ropeway_protocol::limits;
use ropeway_transport::nearby::Inbox;
use ropeway_transport::tls::{self, PublicKey};
use ropeway_transport::{Endpoint, GuestMemory, GuestPart, Link, Listener, PartPlace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, info, warn};

use crate::access::{Guests, LocalUsers, Machines, Shares, State};
use crate::audit::{Audit, Event, Who};
use crate::folders::Folders;
use crate::handshake::Step;
use crate::lending::{BrokerTime, Lending, LendingOptions};
use crate::line::{self, Line};
use crate::openings::{Opened, Openings};
use crate::pool::{Client, Guest, Pool};
use crate::probe::Prober;
use crate::rooms::Rooms;
use crate::stop::StopSignal;
use crate::turns::Turns;
use crate::worker::host_name;
use crate::{ServeError, ServeOptions, listen, memory, notify};

/// How long sessions have to end when the server is asked to.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// What clients without a lease are told by a server whose devices are lent.
const ONLY_LEASES: &str = "its devices are lent by a broker; get a lease there, as with `ropeway run --broker`";

/// The answer to who wants to go over UCX where nobody asked for that.
const NO_UCX: &str =
    "it takes no sessions over UCX there; reach it by another address, or start it with --listen ucx://";

/// How often the server looks whether a client's time is over.
const LOOK: Duration = Duration::from_millis(500);

/// How long the server accepts no connection after the system failed to accept one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until SIGTERM or SIGINT.
///
/// Prints a line `listening on URL` on standard output for each socket once clients can connect, and `ready` once the
/// pool of warm workers is full for the first time.
///
/// # Errors
/// A [`ServeError`] when it cannot begin, or cannot go on.
pub fn serve(options: &ServeOptions) -> Result<(), ServeError> {
    let stop = StopSignal::catch(options.ends_with_input)
        .map_err(|error| ServeError::System("catch the signals that end it", error))?;
    raise_file_limit();
    let listeners = listen::open(options)?;
    let may_be_plain: Vec<bool> =
        listeners.iter().map(|listener| listen::may_be_plain(listener.endpoint(), options)).collect();
    let time = Arc::new(BrokerTime::default());
    let clock = time.clone();
    let clock: tls::Clock = Arc::new(move || clock.now());
    let authority = options.lending.as_ref().and_then(LendingOptions::authority).map(|key| (key, clock));
    let guests = options
        .state
        .as_deref()
        .map(|folder| Guests::open(State::open(folder)?, options.certificates.as_ref(), authority))
        .transpose();
    let guests = guests.map_err(ServeError::State)?;
    let lending = options.lending.clone().zip(guests.as_ref()).zip(options.state.as_deref());
    let lending = lending
        .map(|((lending, guests), state)| Lending::start(lending, (&guests.key(), state), &listeners, time.clone()))
        .transpose();
    let lending = lending.map_err(|error| ServeError::System("begin to look for the broker", error))?;
    let mut worker = options.worker.clone();
    if let Some(key) = guests.as_ref().and_then(Guests::key_to_tell) {
        // It may begin with a hyphen.
        worker.args.push(format!("--peer-key={}", key.text()).into());
    }
    let session_memory = options.session_memory.unwrap_or_else(memory::default_limit);
    let audit = Audit::to(options.audit.clone())
        .map_err(|error| ServeError::System("write to the audit log (--audit-log)", error))?;
    let inbox = Inbox::open();
    if let Err(error) = &inbox {
        warn!(%error, "clients that come over a loopback address cannot share memory with it");
    }
    let openings = Openings::new(audit.clone(), inbox.ok());
    let rooms = Rooms::open(options, session_memory)?;
    if rustix::process::geteuid().is_root() && options.worker_user.is_none() {
        info!(
            "workers are root's, as this server is, but without its capabilities; give them a user of their own (--worker-user)"
        );
    }
    let mut guest_memory = GuestMemory::default();
    for (path, sessions) in &options.guest_memory {
        guest_memory.add(path, *sessions).map_err(|error| ServeError::GuestMemory(path.clone(), error))?;
    }
    let now = Instant::now();
    let mut server = Server {
        listeners,
        stop,
        pool: Pool::new(worker, options.warm, session_memory, audit.clone(), now)
            .with_rooms(rooms.clone())
            .with_streams(&options.streams),
        prober: Prober::new(&options.worker, rooms.clone(), options.needs_proof),
        max_sessions: options.max_sessions,
        guests,
        lending,
        counts_are_old: false,
        takes_others: options.certificates.is_some() || options.lending.is_some(),
        folders: rooms.folders,
        shares: Shares::default(),
        turns: None,
        audit,
        local_users: options.local_users.clone(),
        machines: options.machines.clone(),
        guest_memory,
        takes_ucx: options.listen.iter().any(|endpoint| matches!(endpoint, Endpoint::Ucx { .. })),
        look_at: now,
        may_be_plain,
        openings,
        line: Line::new(now),
        clients: 0,
        accept_after: now,
        announced: false,
    };
    server.name_clients();
    for listener in &server.listeners {
        say(&format!("listening on {}", listener.endpoint()));
    }
    notify::notify("READY=1");
    // It goes, with a good-bye, before anything else when this returns.
    let _announcer = options.announce.as_deref().and_then(|name| announce(name, &server.listeners));
    server.run()
}

/// The source of a poll event.
#[derive(Clone, Copy)]
enum Source {
    Stop,
    Listener(usize),
    Pending(u64),
    Refused(u64),
    Waiting(u64),
    Control(u32),
    Exit(u32),
    Prober,
    ProberExit,
    Guests,
    Lending,
    Certificates,
    Memory,
}

struct Server {
    listeners: Vec<Listener>,
    stop: StopSignal,
    pool: Pool,
    prober: Prober,
    max_sessions: usize,
    /// The clients that are known; none on a server that serves this machine in plain text alone.
    guests: Option<Guests>,
    /// The broker's side of lending, where a broker lends the devices.
    lending: Option<Lending>,
    /// Whether the broker may have to hear of sessions that have begun or ended.
    counts_are_old: bool,
    /// Whether clients come that the rules do not name: with certificates, or with leases of a broker.
    takes_others: bool,
    /// Where clients' caches are.
    folders: Option<Folders>,
    /// What all sessions of a client have together.
    shares: Shares,
    /// Who decides whose turn it is, if there ever was somebody with a weight.
    turns: Option<Turns>,
    /// Where refusals are written down.
    audit: Audit,
    /// The users of this machine that Unix sockets are for.
    local_users: Option<LocalUsers>,
    /// The virtual machines that vsocks are for.
    machines: Machines,
    /// What is shared with virtual machines.
    guest_memory: GuestMemory,
    /// Whether sessions may go over UCX.
    takes_ucx: bool,
    /// When to look next whether a client's time is over.
    look_at: Instant,
    /// Whether connections of each listener may be in plain text.
    may_be_plain: Vec<bool>,
    /// Connections whose opening is not over.
    openings: Openings,
    /// Clients without a worker.
    line: Line,
    /// The number of clients that have said hello since the server's start.
    clients: u64,
    accept_after: Instant,
    announced: bool,
}

impl Server {
    fn run(&mut self) -> Result<(), ServeError> {
        loop {
            self.give_workers();
            let mut now = Instant::now();
            self.expire(now);
            let started = self.pool.refill(self.line.len(), now);
            if self.pool.can_serve() {
                self.prober.start(now);
            }
            self.announce();
            if let Some(why) = self.prober.refutation() {
                let why = why.to_owned();
                self.end();
                return Err(ServeError::Custom(why));
            }
            self.report();
            now = Instant::now();
            let timeout = if started {
                Some(Duration::ZERO)
            } else {
                self.deadline(now).map(|deadline| deadline.saturating_duration_since(now))
            };
            for source in self.wait(timeout)? {
                match source {
                    Source::Stop => {
                        if self.stop.take() {
                            self.end();
                            return Ok(());
                        }
                    }
                    Source::Listener(index) => self.accept(index),
                    Source::Pending(key) => self.advance(key),
                    Source::Memory => {
                        if let Some(key) = self.openings.take_memory() {
                            self.advance(key);
                        }
                    }
                    Source::Refused(key) => self.openings.drain(key),
                    Source::Waiting(number) => self.leaves(number),
                    Source::Control(pid) => {
                        self.pool.hear(pid);
                        self.offer();
                    }
                    Source::Exit(pid) => {
                        self.pool.reap(pid, Instant::now());
                        self.counts_are_old = true;
                        self.expect_peers();
                    }
                    Source::Prober => {
                        if self.prober.hear(Instant::now()) {
                            self.pool.learn(self.prober.facts());
                        }
                    }
                    Source::Guests => {
                        if self.guests.as_ref().is_some_and(Guests::reread) {
                            self.name_clients();
                            self.show_out(false);
                        }
                    }
                    Source::Certificates => {
                        if self.guests.as_mut().is_some_and(Guests::reread_certificates) {
                            self.show_out(true);
                        }
                    }
                    Source::Lending => {
                        if let Some(lending) = &self.lending {
                            lending.heard();
                        }
                        self.show_out(false);
                        self.counts_are_old = true;
                    }
                    Source::ProberExit => {
                        if self.prober.reap(Instant::now()) {
                            self.pool.learn(self.prober.facts());
                        }
                    }
                }
            }
        }
    }

    /// Waits until a source has an event, or until `timeout`.
    fn wait(&self, timeout: Option<Duration>) -> Result<Vec<Source>, ServeError> {
        let mut sources: Vec<(Source, BorrowedFd<'_>)> = vec![(Source::Stop, self.stop.as_fd())];
        // Before those who connect: they may have been added a moment ago.
        if let Some(guests) = &self.guests {
            sources.push((Source::Guests, guests.as_fd()));
            sources.extend(guests.certificates().map(|watch| (Source::Certificates, watch)));
        }
        sources.extend(self.lending.as_ref().map(|lending| (Source::Lending, lending.as_fd())));
        if Instant::now() >= self.accept_after {
            sources.extend(self.listeners.iter().enumerate().map(|(i, l)| (Source::Listener(i), l.as_fd())));
        }
        sources.extend(self.openings.inbox().map(|inbox| (Source::Memory, inbox)));
        sources.extend(self.openings.pending().map(|(key, fd)| (Source::Pending(key), fd)));
        sources.extend(self.openings.refused().map(|(key, fd)| (Source::Refused(key), fd)));
        sources.extend(self.line.sockets().map(|(number, fd)| (Source::Waiting(number), fd)));
        for (pid, worker) in self.pool.workers() {
            if worker.is_heard() {
                sources.push((Source::Control(pid), worker.control()));
            }
            sources.push((Source::Exit(pid), worker.exit()));
        }
        if let Some((control, exit)) = self.prober.sockets() {
            sources.extend(control.map(|control| (Source::Prober, control)));
            sources.push((Source::ProberExit, exit));
        }
        let mut fds: Vec<PollFd<'_>> = sources
            .iter()
            .map(|(source, fd)| {
                // Bytes that a client sends after its hello are for its worker; while the client waits here, only the
                // connection's end matters.
                let flags = if matches!(source, Source::Waiting(_)) { PollFlags::RDHUP } else { PollFlags::IN };
                PollFd::from_borrowed_fd(*fd, flags)
            })
            .collect();
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs().cast_signed(), tv_nsec: t.subsec_nanos().into() });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ServeError::System("wait for its sockets", error.into())),
        }
        Ok(sources
            .iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|((source, _), _)| *source)
            .collect())
    }

    /// Returns the next time at which something must be done even without a socket event.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        [
            self.openings.deadline(),
            self.line.deadline(),
            self.prober.deadline(),
            self.pool.deadline(self.line.len()),
            (self.accept_after > now).then_some(self.accept_after),
            self.guests.is_some().then_some(self.look_at).filter(|_| self.pool.sessions() > 0),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Ends everything whose time is up.
    fn expire(&mut self, now: Instant) {
        self.openings.expire(now);
        self.pool.kill_hanging(now);
        self.pool.watch_memory(now);
        self.prober.expire(now);
        if now >= self.look_at {
            self.show_out(false);
            self.counts_are_old = true;
            self.look_at = now + LOOK;
        }
        for client in self.line.expired(now) {
            let text = format!(
                "in {} s it had no worker for this client: {}; the server's log says more",
                line::MOST.as_secs(),
                self.pool.standing(now)
            );
            self.refuse_client(client, &text);
        }
        for client in self.line.beat(|| self.pool.standing(now), now) {
            log_leaving(&client);
        }
    }

    /// Accepts one connection.
    fn accept(&mut self, index: usize) {
        match self.listeners[index].accept() {
            Ok(link) => {
                let key = self.openings.begin(link, self.may_be_plain[index], Instant::now());
                // The hello is usually there already.
                self.advance(key);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            Err(error) => {
                warn!(%error, endpoint = %self.listeners[index].endpoint(), "cannot accept a connection");
                self.accept_after = Instant::now() + ACCEPT_PAUSE;
            }
        }
    }

    /// Reads more of a hello.
    fn advance(&mut self, key: u64) {
        let door = self.guests.as_ref().map(Guests::door);
        let Some(Opened { mut link, peer, client, step }) = self.openings.advance(key, door) else { return };
        let proved = self.guests.as_ref().zip(client);
        let proved = proved.map(|(guests, client)| (guests.key_of(&client), client));
        let name = proved.as_ref().and_then(|(key, client)| {
            self.guests.as_ref().and_then(|guests| guests.name_of(key)).or_else(|| client.name.clone())
        });
        let user = link.peer_user();
        let who = Who { client: name, user: user.as_ref().map(|user| user.user), address: peer };
        match step {
            Step::Wait | Step::Drop(_) => {}
            Step::Refuse(text) => self.refuse(link, &who, &text),
            Step::Hello(hello) => {
                if let (Some(allowed), Some(user)) = (&self.local_users, &user)
                    && let Err(text) = allowed.admit(user)
                {
                    return self.refuse(link, &who, &text);
                }
                if let Some(Err(text)) = link.peer_machine().map(|machine| self.machines.admit(machine)) {
                    return self.refuse(link, &who, &text);
                }
                if hello.features & features::UCX != 0 && (!self.takes_ucx || link.is_encrypted()) {
                    return self.refuse(link, &who, NO_UCX);
                }
                let is_client = hello.purpose == Purpose::Commands;
                if is_client && self.lending.is_some() && proved.is_none() {
                    return self.refuse(link, &who, ONLY_LEASES);
                }
                let guest = proved.as_ref().filter(|_| is_client);
                let guest = match guest.map(|(key, client)| self.welcome(*key, client)).transpose() {
                    Ok(guest) => guest,
                    Err(text) => return self.refuse(link, &who, &text),
                };
                let client = who.client.or_else(|| guest.as_ref().map(|guest| guest.name.clone()));
                let who = Who { client, ..who };
                let key = proved.map(|(key, _)| key);
                self.clients += u64::from(is_client);
                let number = self.clients;
                let part = if is_client { self.share_with_guest(&mut link, &hello, number) } else { None };
                self.admit(Box::new(Client { link, who, key, guest, hello: Box::new(hello), part, number }));
            }
        }
    }

    /// Gives a client in a virtual machine a part of a device's memory, and tells it so, if it sees one of ours and there
    /// is a part left.
    fn share_with_guest(&self, link: &mut Link, hello: &Hello, client: u64) -> Option<Arc<GuestPart>> {
        let devices = hello.devices.get(..hello.devices.len().min(limits::MAX_MEMORY_DEVICES))?;
        if link.is_encrypted() || link.memory().is_some() {
            return None;
        }
        let part = self.guest_memory.take(devices, link)?;
        let PartPlace { at, len, mark } = part.place();
        let frame = encode_opening(Opening::Part, &Part { device: part.device(), at, len, mark });
        // A fresh connection has room for so little.
        if link.try_send(&frame).ok()? != frame.len() {
            return None;
        }
        // From here on the client counts on it.
        if let Err(error) = link.give_part(&part) {
            warn!(client, %error, "a part of a virtual machine's memory cannot be given to a worker");
            link.shutdown();
        }
        debug!(client, file = %part.path().display(), at, len, "goes through a virtual machine's memory");
        Some(Arc::new(part))
    }

    /// Who the client is to which this key belongs, if it may begin a session.
    ///
    /// # Errors
    /// Why not: one sentence.
    fn welcome(&mut self, key: PublicKey, client: &tls::Client) -> Result<Guest, String> {
        let guests = self.guests.as_ref().ok_or("it knows no clients")?;
        let (lease, name, rules) = match (&self.lending, &client.lease) {
            (Some(lending), Some(lease)) => {
                let (lease, name, rules) = lending.admit(lease, key)?;
                (Some(lease), name, rules)
            }
            (Some(_), None) => return Err(ONLY_LEASES.to_owned()),
            (None, _) => {
                let (name, rules) = guests.admit(&key, client.name.as_deref(), SystemTime::now())?;
                (None, name, rules)
            }
        };
        self.counts_are_old |= lease.is_some();
        // The certificates may have been read again since the handshake began.
        client.certified.as_ref().map_or(Ok(()), |certified| guests.door().check(certified))?;
        let sessions = self.pool.sessions_of(&key) + self.line.waiting_of(&key);
        if let Some(most) = rules.sessions
            && sessions >= most as usize
        {
            return Err(format!(
                "'{name}' has {sessions} sessions there already, and may have {most}; try again later"
            ));
        }
        let has_share = rules.allowance.memory.is_some() || rules.allowance.objects.is_some();
        let share = has_share.then(|| self.shares.share_for(&key)).transpose();
        let share =
            share.map_err(|error| format!("it cannot watch the limits of '{name}' in one more session: {error}"))?;
        let turns = rules.weight.map(|weight| self.turns_for(key, weight)).transpose();
        let turns = turns.map_err(|error| format!("it cannot give '{name}' turns on its devices: {error}"))?;
        let certified = client.certified.clone();
        let (share, turns) = (share.map(Arc::new), turns.map(Arc::new));
        Ok(Guest { key, certified, lease, name, rules, share, turns })
    }

    /// A place among those who take turns, for a session of the client with this key and weight.
    fn turns_for(&mut self, key: PublicKey, weight: u32) -> io::Result<OwnedFd> {
        let turns = match self.turns.take() {
            Some(turns) => turns,
            None => Turns::start()?,
        };
        self.turns.insert(turns).join(key, weight)
    }

    /// Lets in the peers of all sessions that there are now, and no others.
    fn expect_peers(&self) {
        if let Some(guests) = &self.guests {
            guests.expect_peers(self.pool.peers_keys());
        }
    }

    /// Tells the folders whom the rules name: what is kept of others goes.
    fn name_clients(&self) {
        if let (Some(guests), Some(folders)) = (&self.guests, &self.folders) {
            folders.rules_name(&guests.keys(), !self.takes_others);
        }
    }

    /// Ends the sessions of those who may not be here any more. A certificate stays good until the files say otherwise,
    /// and is looked at again only `with_certificates`.
    fn show_out(&mut self, with_certificates: bool) {
        let Some(guests) = &self.guests else { return };
        let now = SystemTime::now();
        let lending = self.lending.as_ref();
        let reason = |guest: &Guest| {
            if let (Some(lending), Some(lease)) = (lending, guest.lease) {
                return lending.ended(lease);
            }
            let certified = guest.certified.as_ref();
            let name = certified.map(|_| guest.name.as_str());
            let refused = guests.admit(&guest.key, name, now).err();
            refused
                .or_else(|| certified.filter(|_| with_certificates).and_then(|shown| guests.door().check(shown).err()))
        };
        self.pool.end_sessions_of(reason);
        for (client, why) in self.line.dismiss(reason) {
            self.refuse_client(*client, &why);
        }
    }

    /// Tells the broker's side which devices there are, once a worker has said so.
    fn offer(&mut self) {
        if let Some(lending) = &self.lending
            && let Some(devices) = self.pool.take_devices()
        {
            lending.offer(devices);
            // Before anybody gets a worker: some may hold leases on devices that are others now.
            self.show_out(false);
        }
    }

    /// Tells it how many sessions leases have, where that may have changed.
    fn report(&mut self) {
        if !std::mem::take(&mut self.counts_are_old) {
            return;
        }
        if let Some(lending) = &self.lending {
            let mut sessions: BTreeMap<_, Vec<_>> = BTreeMap::new();
            // Those who wait in line have no number yet, and nothing busy.
            let waiting = self.line.leases().map(|lease| (lease, 0, 0.0));
            for (lease, session, seconds) in self.pool.leases().chain(waiting) {
                sessions.entry(lease).or_default().push((session, seconds));
            }
            lending.report(sessions);
        }
    }

    /// Gives a client a worker, now or as soon as there is one.
    fn admit(&mut self, client: Box<Client>) {
        if let Purpose::Peer { session, .. } | Purpose::Lane { session, .. } = client.hello.purpose {
            match self.pool.hand_on(session, &client) {
                Ok(()) => debug!(peer = %client.who.address, session = %format_args!("{:016x}", session.0), "joins"),
                Err(text) => self.refuse_client(*client, &text),
            }
            return;
        }
        if self.pool.sessions() + self.line.len() >= self.max_sessions {
            let text = format!(
                "it serves {} sessions already, which is its limit (--max-sessions); try again later",
                self.max_sessions
            );
            self.refuse_client(*client, &text);
            return;
        }
        let result = if self.line.is_empty() { self.pool.serve(client) } else { Err(client) };
        self.expect_peers();
        if let Err(client) = result {
            let now = Instant::now();
            self.pool.missed(now);
            let (number, before) = (client.number, self.line.len());
            match self.line.join(client, &self.pool.standing(now), now) {
                Ok(()) => info!(client = number, before, "a client waits for a worker"),
                Err(client) => log_leaving(&client),
            }
        }
    }

    /// Handles a client that leaves before it had a worker.
    fn leaves(&mut self, number: u64) {
        if let Some(client) = self.line.leave(number) {
            log_leaving(&client);
        }
    }

    /// Gives warm workers to those who wait.
    fn give_workers(&mut self) {
        if !self.line.is_empty() {
            self.line.serve(|client| self.pool.serve(client));
            self.expect_peers();
        }
        if self.pool.is_broken() {
            for client in self.line.dissolve() {
                self.refuse_client(*client, "its workers cannot start; the server's log says why");
            }
        }
    }

    fn refuse_client(&mut self, client: Client, text: &str) {
        self.refuse(client.link, &client.who, text);
    }

    fn refuse(&mut self, link: Link, who: &Who, text: &str) {
        warn!(peer = who.address, "connection refused: {text}");
        self.audit.write(&Event::Refused { who, reason: text });
        self.openings.refuse(link, text);
    }

    /// Announces, once, that clients will start fast from now on.
    fn announce(&mut self) {
        if !self.announced && self.pool.is_full() && self.prober.is_done() {
            self.announced = true;
            say("ready");
            notify::notify("STATUS=Workers are warm.");
            info!("workers are warm");
        }
    }

    /// Stops the server in bounded time.
    fn end(&mut self) {
        info!(sessions = self.pool.sessions(), "stopping");
        notify::notify("STOPPING=1");
        // From here on there are no new clients, and the files of Unix sockets are removed.
        self.listeners.clear();
        self.openings.close();
        for client in self.line.dissolve() {
            self.refuse_client(*client, "the server is stopping");
        }
        let stop = &self.stop;
        self.pool.stop(STOP_LIMIT, || stop.take());
        info!("stopped");
    }
}

fn log_leaving(client: &Client) {
    info!(client = client.number, peer = %client.who.address, "a client leaves before it had a worker");
}

/// Announces the server on the local network. Failure to announce does not stop the server.
fn announce(name: &str, listeners: &[Listener]) -> Option<Announcer> {
    match Announcer::new(name, &host_name(), listeners.iter().map(Listener::endpoint)) {
        Ok(announcer) => {
            info!(name, "announcing on the local network");
            Some(announcer)
        }
        Err(error) => {
            warn!(%error, "cannot announce this server");
            None
        }
    }
}

/// Prints a line for the scripts that started the server. A missing reader is no reason to end.
fn say(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Raises the limit of open files: each session takes three descriptors here, and the usual soft limit of 1024 is meant
/// for programs that use select.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        warn!(%error, "cannot raise the limit of open files");
    }
}
