//! One end of a stream over UCX: a worker of its own, with one endpoint to the other side's worker, and memory from
//! which all messages are sent. Every call of the library is in here and in `library`.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_void};
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::choice::Choice;
use super::library::{
    API, Api, BUSY, Begun, CLOSE_BY_FORCE, EndpointParams, FAILURE_OF_NOBODY, FAILURE_OF_PEER, FEATURE_TAG,
    FEATURE_WAKEUP, IN_PROGRESS, MAP_ALLOCATE, MapAttributes, MapParams, OK, OP_FLAGS, OP_MEMORY, Params,
    RequestParams, Status, THREADS_ONE_AT_A_TIME, TagInfo, UNREACHABLE, WorkerParams, api,
};
use super::sleeper::Sleeper;

/// The most bytes of one message.
pub(super) const MESSAGE: usize = 256 << 10;

/// Messages under way at once. Together they are what the other side may have unread.
const MESSAGES: usize = 8;

/// Bytes that may be under way or unread.
pub(super) const WINDOW: u64 = (MESSAGE * MESSAGES) as u64;

/// The bytes of a message that says how much was read.
const NOTE: usize = 8;

/// How long the end of a port may take that has something under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the library may take to end receives whose sender is gone. It ends no receive of a message in pieces some of
/// which have come.
const LAST_CHANCE: Duration = Duration::from_millis(200);

/// How long a message may take that has been announced.
const STALLED: Duration = Duration::from_secs(20);

/// How long a message usually takes.
const BRIEF: Duration = Duration::from_millis(1);

/// So few bytes the system takes at once. Of more, some may stay with the library though their operation has ended, until
/// somebody goes on with them.
const SAFE: u64 = 64 << 10;

/// All messages of one kind carry the same number, which only the two ends know.
const WHOLE_TAG: u64 = u64::MAX;

/// A place in the memory that messages are sent from.
type Place = usize;

/// What the library has not ended yet, with the place that it reads from.
struct UnderWay {
    request: *mut c_void,
    uses: Uses,
}

/// What memory of the port an operation uses.
enum Uses {
    Nothing,
    /// It sends from here.
    Place(Place),
    /// It receives here what says how much the other side has read.
    Note(Box<[u8; NOTE]>),
}

/// A message that has been announced, or has come.
struct Message {
    handle: *mut c_void,
    len: usize,
}

/// How the numbers of messages are given out: each side says which it wants to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tags {
    /// Of bytes.
    pub(super) bytes: u64,
    /// Of what says how many bytes were read.
    pub(super) read: u64,
}

/// See the module. One thread at a time has it.
pub(super) struct Port {
    api: &'static Api,
    context: *mut c_void,
    worker: *mut c_void,
    endpoint: *mut c_void,
    /// What messages are sent from: its handle, and where it is.
    memory: (*mut c_void, *mut u8),
    /// Whether the library tells of a failure of the other side, and then ends what is under way.
    tells_of_failure: bool,
    /// A receive has not ended whose memory has other owners now: the library is not called any more, and so does not write
    /// there.
    is_abandoned: bool,
    /// The failure that the library has reported.
    failure: Box<AtomicI8>,
    free: Vec<Place>,
    under_way: Vec<UnderWay>,
    arrived: VecDeque<Message>,
    own: Tags,
    other: Tags,
    /// Bytes given to the library, and those that the other side has read.
    sent: u64,
    acknowledged: u64,
    /// Who waits for messages, and who for room.
    pub(super) reader: Sleeper,
    pub(super) writer: Sleeper,
    /// Bytes received, and those of which the other side knows.
    received: u64,
    told: u64,
}

// SAFETY: UCX's objects may be used by any thread, one at a time (its mode "serialized"), and the rest is this value's
// alone.
unsafe impl Send for Port {}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("sent", &self.sent).field("received", &self.received).finish_non_exhaustive()
    }
}

impl Port {
    /// A worker without an endpoint, over the transports of `choice`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the library is not there; a sentence of what it said.
    pub(super) fn open(choice: &Choice, own: Tags) -> io::Result<Self> {
        let api = api()?;
        let mut port = Self {
            api,
            context: null_mut(),
            worker: null_mut(),
            endpoint: null_mut(),
            memory: (null_mut(), null_mut()),
            tells_of_failure: true,
            is_abandoned: false,
            failure: Box::default(),
            free: (0..MESSAGES).rev().collect(),
            under_way: Vec::new(),
            arrived: VecDeque::new(),
            own,
            other: Tags { bytes: 0, read: 0 },
            sent: 0,
            acknowledged: 0,
            reader: Sleeper::new()?,
            writer: Sleeper::new()?,
            received: 0,
            told: 0,
        };
        let params = Params { field_mask: Params::FEATURES, features: FEATURE_TAG | FEATURE_WAKEUP, rest: [0; 8] };
        let mut config = null_mut();
        // SAFETY: no prefix and no file are named; the function writes one pointer.
        port.check("read its settings", unsafe { (api.ucp_config_read)(null(), null(), &raw mut config) })?;
        for (name, value) in choice.settings() {
            let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else { continue };
            // SAFETY: the settings were just read, and both strings end with a zero. A setting that this release does
            // not know is as good as none.
            unsafe { (api.ucp_config_modify)(config, name.as_ptr(), value.as_ptr()) };
        }
        // SAFETY: the parameters are of the type that the version of the interface has, and outlive the call.
        let made = unsafe { (api.ucp_init_version)(API.0, API.1, &raw const params, config, &raw mut port.context) };
        // SAFETY: the settings are used no more.
        unsafe { (api.ucp_config_release)(config) };
        port.check("begin", made)?;
        let params =
            WorkerParams { field_mask: WorkerParams::THREAD_MODE, thread_mode: THREADS_ONE_AT_A_TIME, rest: [0; 23] };
        // SAFETY: the context was just made; the parameters outlive the call.
        let made = unsafe { (api.ucp_worker_create)(port.context, &raw const params, &raw mut port.worker) };
        port.check("make a worker", made)?;
        port.map()?;
        Ok(port)
    }

    /// Has the library make and register the memory that messages are sent from: once, for all of them.
    fn map(&mut self) -> io::Result<()> {
        let params = MapParams {
            field_mask: MapParams::LENGTH | MapParams::FLAGS,
            address: null_mut(),
            length: MESSAGE * MESSAGES,
            flags: MAP_ALLOCATE,
            rest: [0; 3],
        };
        // SAFETY: the context lives as long as this value; the parameters outlive the call.
        let made = unsafe { (self.api.ucp_mem_map)(self.context, &raw const params, &raw mut self.memory.0) };
        self.check("make memory", made)?;
        let mut about = MapAttributes { field_mask: MapAttributes::ADDRESS, address: null_mut(), rest: [0; 2] };
        // SAFETY: the memory was just made; the function writes the fields that are asked for.
        let asked = unsafe { (self.api.ucp_mem_query)(self.memory.0, &raw mut about) };
        self.check("say where its memory is", asked)?;
        self.memory.1 = about.address.cast();
        Ok(())
    }

    fn check(&self, what: &str, status: Status) -> io::Result<()> {
        if status == OK { Ok(()) } else { Err(self.error(what, status)) }
    }

    fn error(&self, what: &str, status: Status) -> io::Error {
        // SAFETY: the function knows all numbers, and returns text that stays where it is.
        let text = unsafe { CStr::from_ptr((self.api.ucs_status_string)(status)) };
        io::Error::other(format!("UCX cannot {what}: {}", text.to_string_lossy()))
    }

    /// Where the other side reaches this worker.
    ///
    /// # Errors
    /// What the library said.
    pub(super) fn address(&self) -> io::Result<Vec<u8>> {
        let (mut address, mut len) = (null_mut(), 0);
        // SAFETY: the worker lives as long as this value; the function writes a pointer and a length.
        let got = unsafe { (self.api.ucp_worker_get_address)(self.worker, &raw mut address, &raw mut len) };
        self.check("say where it is", got)?;
        // SAFETY: that many bytes are there until the address is released, which is next.
        let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), len) }.to_vec();
        // SAFETY: the address is this worker's, and used no more.
        unsafe { (self.api.ucp_worker_release_address)(self.worker, address) };
        Ok(bytes)
    }

    /// Makes the endpoint, to the worker at `address`.
    ///
    /// # Errors
    /// What the library said: an address of no transport that is here.
    pub(super) fn connect(&mut self, address: &[u8], other: Tags) -> io::Result<()> {
        unsafe extern "C" fn failed(failure: *mut c_void, _endpoint: *mut c_void, status: Status) {
            // SAFETY: this is `failure` of the port, which outlives its worker.
            unsafe { &*failure.cast::<AtomicI8>() }.store(status, Ordering::Release);
        }
        // The library trusts the lengths in it; what lies behind it is at least not other memory.
        let mut padded = address.to_vec();
        padded.resize(address.len() + 4096, 0);
        let mut params = EndpointParams {
            field_mask: EndpointParams::ADDRESS | EndpointParams::FAILURE_MODE | EndpointParams::ON_FAILURE,
            address: padded.as_ptr().cast(),
            failure_mode: FAILURE_OF_PEER,
            on_failure: Some(failed),
            failure_argument: (&raw const *self.failure).cast_mut().cast(),
            rest: [0; 8],
        };
        // UCX's shared memory does not tell of the other side's failure before version 1.14. The link's socket does, and
        // nothing but this process's own steps moves bytes there.
        for mode in [FAILURE_OF_PEER, FAILURE_OF_NOBODY] {
            (params.failure_mode, self.tells_of_failure) = (mode, mode == FAILURE_OF_PEER);
            // SAFETY: the worker lives as long as this value, and the parameters outlive the call.
            let made = unsafe { (self.api.ucp_ep_create)(self.worker, &raw const params, &raw mut self.endpoint) };
            if made != UNREACHABLE || mode == FAILURE_OF_NOBODY {
                self.check("reach the other side", made)?;
                break;
            }
        }
        self.other = other;
        Ok(())
    }

    /// The descriptor that tells of events after [`Self::arm`].
    ///
    /// # Errors
    /// What the library said.
    pub(super) fn events(&self) -> io::Result<BorrowedFd<'_>> {
        let mut fd: RawFd = -1;
        // SAFETY: the worker lives as long as this value; the function writes one number.
        let got = unsafe { (self.api.ucp_worker_get_efd)(self.worker, &raw mut fd) };
        self.check("tell of events", got)?;
        // SAFETY: the descriptor is open as long as the worker, which this value owns.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Goes on with all that is under way, and wakes whom that concerns; returns whether anything came of it.
    ///
    /// # Errors
    /// The failure that the library has reported; [`ErrorKind::InvalidData`] when the other side says what cannot be.
    pub(super) fn progress(&mut self) -> io::Result<bool> {
        let went_on = self.go_on();
        if went_on.is_err() || self.has_arrived() {
            self.reader.wake();
        }
        if went_on.is_err() || self.has_room() {
            self.writer.wake();
        }
        went_on
    }

    fn go_on(&mut self) -> io::Result<bool> {
        if self.is_left() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        // SAFETY: the worker lives as long as this value.
        let busy = unsafe { (self.api.ucp_worker_progress)(self.worker) } != 0;
        self.collect()?;
        while let Some(message) = self.probe(self.own.bytes) {
            if message.len > MESSAGE {
                return Err(io::Error::new(ErrorKind::InvalidData, "a message is longer than messages are"));
            }
            self.arrived.push_back(message);
        }
        while let Some(message) = self.probe(self.own.read) {
            self.receive_note(&message)?;
        }
        match self.failure.load(Ordering::Acquire) {
            OK => Ok(busy),
            failure => Err(self.error("go on", failure)),
        }
    }

    /// Begins to receive what says how much the other side has read.
    fn receive_note(&mut self, message: &Message) -> io::Result<()> {
        if message.len != NOTE {
            return Err(impossible());
        }
        let mut note = Box::new([0; NOTE]);
        // SAFETY: the box is kept until the receive has ended.
        match unsafe { self.receive(message, note.as_mut_ptr()) }? {
            Some(request) => self.under_way.push(UnderWay { request, uses: Uses::Note(note) }),
            None => self.take_note(*note)?,
        }
        Ok(())
    }

    fn take_note(&mut self, note: [u8; NOTE]) -> io::Result<()> {
        let read = u64::from_le_bytes(note);
        if read > self.sent || read < self.acknowledged {
            return Err(impossible());
        }
        self.acknowledged = read;
        Ok(())
    }

    fn probe(&self, tag: u64) -> Option<Message> {
        let mut info = TagInfo::default();
        // SAFETY: the worker lives as long as this value; the function writes the info. The message is taken out, and
        // received later.
        let handle = unsafe { (self.api.ucp_tag_probe_nb)(self.worker, tag, WHOLE_TAG, 1, &raw mut info) };
        (!handle.is_null()).then_some(Message { handle, len: info.length })
    }

    /// Takes back the memory of what has ended.
    fn collect(&mut self) -> io::Result<()> {
        let mut at = 0;
        while at < self.under_way.len() {
            let Some(status) = ended(self.api, self.under_way[at].request) else {
                at += 1;
                continue;
            };
            match self.under_way.swap_remove(at).uses {
                Uses::Nothing => {}
                Uses::Place(place) => self.free.push(place),
                Uses::Note(note) if status == OK => self.take_note(*note)?,
                Uses::Note(_) => {}
            }
            if status != OK {
                self.failure.store(status, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Whether something is under way. Shared memory gives no event when there is room for more of it.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether all goes its way without further steps of this side.
    pub(super) fn is_settled(&self) -> bool {
        self.under_way.is_empty() && self.sent - self.acknowledged < SAFE
    }

    /// Whether a message has come.
    pub(super) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// The length of the next message.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.arrived.front().map(|message| message.len)
    }

    /// Whether a message can be sent.
    pub(super) fn has_room(&self) -> bool {
        self.sent - self.acknowledged < WINDOW && !self.free.is_empty()
    }

    /// Bytes that the other side says that it has read.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Asks to be told of events; `false`: there are some already.
    ///
    /// # Errors
    /// What the library said.
    pub(super) fn arm(&mut self) -> io::Result<bool> {
        if self.is_abandoned {
            return Err(ErrorKind::BrokenPipe.into());
        }
        // SAFETY: the worker lives as long as this value.
        match unsafe { (self.api.ucp_worker_arm)(self.worker) } {
            OK => Ok(true),
            BUSY => Ok(false),
            status => Err(self.error("wait", status)),
        }
    }

    /// Sends the beginning of `bytes` as one message; returns how much that was, 0 where there is no room.
    ///
    /// # Errors
    /// What the library said.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let unread = self.sent - self.acknowledged;
        let len = bytes.len().min(MESSAGE).min(WINDOW.saturating_sub(unread) as usize);
        if len == 0 {
            return Ok(0);
        }
        let sent = self.send_message(&bytes[..len], self.other.bytes)?;
        self.sent += sent as u64;
        Ok(sent)
    }

    fn send_message(&mut self, bytes: &[u8], tag: u64) -> io::Result<usize> {
        if self.endpoint.is_null() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let Some(place) = self.free.pop() else { return Ok(0) };
        let (memory, start) = self.memory;
        // SAFETY: the place is one of the MESSAGES in the memory, of MESSAGE bytes each, and free: neither the library
        // nor anybody else uses it.
        let from = unsafe {
            let from = start.add(place * MESSAGE);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), from, bytes.len());
            from
        };
        let params = RequestParams { op_attr_mask: OP_MEMORY, memory, ..RequestParams::plain() };
        // SAFETY: the endpoint is there until it is closed. The bytes stay until the request has ended: only then does
        // the place become free, and the memory goes after the worker.
        let begun =
            unsafe { (self.api.ucp_tag_send_nbx)(self.endpoint, from.cast(), bytes.len(), tag, &raw const params) };
        match begun.begun() {
            Begun::Done => self.free.push(place),
            Begun::Request(request) => self.under_way.push(UnderWay { request, uses: Uses::Place(place) }),
            Begun::Failed(status) => {
                self.free.push(place);
                return Err(self.error("send", status));
            }
        }
        Ok(bytes.len())
    }

    /// Asks the library to say when all that was sent has arrived, which it does in time, with further
    /// [`Self::progress`].
    ///
    /// # Errors
    /// What the library said.
    fn flush(&mut self) -> io::Result<()> {
        if self.endpoint.is_null() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let params = RequestParams::plain();
        // SAFETY: the endpoint is there until it is closed.
        match unsafe { (self.api.ucp_ep_flush_nbx)(self.endpoint, &raw const params) }.begun() {
            Begun::Done => {}
            Begun::Request(request) => self.under_way.push(UnderWay { request, uses: Uses::Nothing }),
            Begun::Failed(status) => return Err(self.error("send", status)),
        }
        Ok(())
    }

    /// Before this side waits: tells the other one how much was read, if that is more than it may be unsure of.
    ///
    /// # Errors
    /// What the library said.
    pub(super) fn tell_all(&mut self) -> io::Result<()> {
        self.tell(SAFE)
    }

    /// Tells the other side how much was read, if those are so many bytes more than it knows of.
    fn tell(&mut self, least: u64) -> io::Result<()> {
        if self.received - self.told >= least && self.send_message(&self.received.to_le_bytes(), self.other.read)? > 0 {
            self.told = self.received;
        }
        Ok(())
    }

    /// Receives `message`; returns what is to be asked whether that has ended, if it has not.
    ///
    /// # Safety
    /// As many bytes as the message has can be written from `into` on until the receive [has ended](ended).
    unsafe fn receive(&mut self, message: &Message, into: *mut u8) -> io::Result<Option<*mut c_void>> {
        let params = RequestParams::plain();
        // SAFETY: the message was taken out by a probe, and is received once; the caller vouches for the memory.
        let begun = unsafe {
            (self.api.ucp_tag_msg_recv_nbx)(self.worker, into.cast(), message.len, message.handle, &raw const params)
        };
        match begun.begun() {
            Begun::Done => Ok(None),
            Begun::Request(request) => Ok(Some(request)),
            Begun::Failed(status) => Err(self.error("receive", status)),
        }
    }

    /// Ends the endpoint, and with it all that is under way.
    pub(super) fn close(&mut self) {
        let endpoint = std::mem::replace(&mut self.endpoint, null_mut());
        // Another one ends with the worker.
        if endpoint.is_null() || !self.tells_of_failure {
            return;
        }
        let params = RequestParams { op_attr_mask: OP_FLAGS, flags: CLOSE_BY_FORCE, ..RequestParams::plain() };
        // SAFETY: the endpoint is used no more.
        if let Begun::Request(request) = unsafe { (self.api.ucp_ep_close_nbx)(endpoint, &raw const params) }.begun() {
            self.under_way.push(UnderWay { request, uses: Uses::Nothing });
        }
    }

    /// Lets what was sent arrive, for at most `patience`.
    pub(super) fn finish(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        // What does not go is lost with the link.
        let _ = self.flush();
        while !self.under_way.is_empty() && self.progress().is_ok() && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }

    /// Whether what was under way is to be left as it is: nothing ends it, and nothing goes on with it any more.
    fn is_left(&self) -> bool {
        self.is_abandoned || self.endpoint.is_null() && !self.tells_of_failure
    }

    /// Leaves everything as it is, for as long as this process lives.
    fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// What the library still uses stays.
    fn leak(&mut self) {
        std::mem::take(&mut self.under_way).into_iter().for_each(|one| std::mem::forget(one.uses));
        std::mem::forget(std::mem::take(&mut self.failure));
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.is_abandoned {
            return self.leak();
        }
        self.close();
        let deadline = Instant::now() + PATIENCE;
        while !self.worker.is_null() && !self.under_way.is_empty() && !self.is_left() {
            if Instant::now() > deadline {
                return self.leak();
            }
            // SAFETY: the worker is there.
            unsafe { (self.api.ucp_worker_progress)(self.worker) };
            // What the other side says no longer matters.
            let _ = self.collect();
        }
        // SAFETY: each is used no more, and is destroyed after what is made of it.
        unsafe {
            if !self.worker.is_null() {
                (self.api.ucp_worker_destroy)(self.worker);
            }
            if !self.memory.0.is_null() {
                (self.api.ucp_mem_unmap)(self.context, self.memory.0);
            }
            if !self.context.is_null() {
                (self.api.ucp_cleanup)(self.context);
            }
        }
    }
}

/// How a request has ended, which is freed then; `None`: it has not.
fn ended(api: &Api, request: *mut c_void) -> Option<Status> {
    // SAFETY: whoever has the request passes it here until it has ended, and not again.
    let status = unsafe { (api.ucp_request_check_status)(request) };
    (status != IN_PROGRESS).then(|| {
        // SAFETY: as above.
        unsafe { (api.ucp_request_free)(request) };
        status
    })
}

fn impossible() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the other side has read what it was not sent")
}

/// The port, for a moment.
pub(super) fn lock(port: &Mutex<Port>) -> MutexGuard<'_, Port> {
    port.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives the messages that have come and that `into` has room for; returns how many bytes that is. Gives others their
/// turn at the port, and asks `is_over`, which hears how long it has waited, whether to give up.
///
/// # Errors
/// What the library said; [`ErrorKind::TimedOut`] for a message that was announced and does not come.
pub(super) fn read(port: &Mutex<Port>, into: &mut [u8], is_over: impl Fn(Duration) -> bool) -> io::Result<usize> {
    let (mut filled, mut receiving, mut outcome) = (0, Vec::new(), Ok(()));
    {
        let mut port = lock(port);
        if port.is_abandoned {
            return Err(ErrorKind::BrokenPipe.into());
        }
        while let Some(message) = port.arrived.pop_front_if(|message| message.len <= into.len() - filled) {
            // SAFETY: this function does not return before all receives have ended.
            match unsafe { port.receive(&message, into[filled..].as_mut_ptr()) } {
                Ok(request) => receiving.extend(request),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            filled += message.len;
        }
    }
    let begun = Instant::now();
    let mut closed = None;
    while !receiving.is_empty() {
        let mut port = lock(port);
        let went_on = port.progress();
        let api = port.api;
        receiving.retain(|request| match ended(api, *request) {
            None => true,
            Some(OK) => false,
            Some(status) => {
                outcome = Err(port.error("receive", status));
                false
            }
        });
        if receiving.is_empty() {
            break;
        }
        if let Err(error) = went_on {
            outcome = Err(error);
        } else if begun.elapsed() > STALLED {
            outcome = Err(io::Error::new(ErrorKind::TimedOut, "a message over UCX was announced, and does not come"));
        } else if begun.elapsed() > BRIEF && is_over(begun.elapsed()) {
            outcome = Err(ErrorKind::BrokenPipe.into());
        }
        if outcome.is_err() {
            port.close();
            if port.is_left() {
                break;
            }
            if closed.get_or_insert_with(Instant::now).elapsed() > LAST_CHANCE {
                port.abandon();
                break;
            }
        }
        drop(port);
        if begun.elapsed() > BRIEF {
            std::thread::yield_now();
        }
    }
    outcome?;
    let mut port = lock(port);
    port.received += filled as u64;
    port.tell(WINDOW / 4)?;
    Ok(filled)
}
