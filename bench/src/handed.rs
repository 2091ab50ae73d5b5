//! Measures, without Ropeway, the cost of starting a kernel in one program after a kernel in another has ended: two
//! plain OpenCL programs, whose kernels wait for user events, notify each other over a TCP connection. No scheme
//! between servers can cost less.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use crate::opencl::{Error, Event, Result};
use crate::orders::{answer, follow};
use crate::process::{Probe, Side};
use crate::work;

/// The size in bytes of the message that says that a kernel has ended: the same as Ropeway's.
const MESSAGE: usize = 24;

/// Both programs.
pub struct Handed {
    first: Probe,
    second: Probe,
}

impl Handed {
    /// Starts both, each with its environment.
    ///
    /// # Errors
    /// The error of one of them.
    pub fn start([one, other]: [Side; 2]) -> std::result::Result<Self, String> {
        let mut first = one.spawn("handed", "", false)?;
        let port = first.answer()?;
        let second = other.spawn("handed", &port, false)?;
        Ok(Self { first, second })
    }

    /// Measures the average time, in microseconds, from the end of a kernel to the end of the next one in the other
    /// program, over `count` kernels in each. Takes the better of two ways to learn of an end: a callback, and a thread
    /// that waits.
    ///
    /// # Errors
    /// The error of one of them.
    pub fn measure(&mut self, count: usize) -> std::result::Result<f64, String> {
        let mut best = f64::INFINITY;
        for way in ["called", "waiting"] {
            let order = format!("{way} {count}");
            self.second.ask(&order)?;
            best = best.min(self.first.ask(&order)?);
        }
        Ok(best)
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::wrong(format!("the other program: {error}"))
}

/// Runs one of the two programs. The first reports the port on which it waits; the second is given that port.
pub fn run(filter: &str, port: &str) -> Result<()> {
    let (link, is_first) = match port.parse::<u16>() {
        Ok(port) => (TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(broken)?, false),
        Err(_) => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
            answer(&format!("{}", listener.local_addr().map_err(broken)?.port()));
            (listener.accept().map_err(broken)?.0, true)
        }
    };
    link.set_nodelay(true).map_err(broken)?;
    let (device, context, queue) = work::first_queue(filter)?;
    let kernel = context.program(&device, "kernel void noop(void) {}")?.kernel("noop")?;
    let link = Arc::new(link);
    follow(|way, count, _| {
        let gates = (0..count).map(|_| context.user_event()).collect::<Result<Vec<_>>>()?;
        let ends = gates.iter().map(|gate| queue.launch_after(&kernel, Some(gate))).collect::<Result<Vec<_>>>()?;
        let is_called = way == "called";
        for end in ends.iter().filter(|_| is_called) {
            let link = Arc::clone(&link);
            // A failed send is ignored: the loss of the other program is noticed where its messages are read.
            end.on_end(move || drop(tell(&link)))?;
        }
        queue.flush()?;
        let chain = Chain { link: Arc::clone(&link), gates, waited: if is_called { Vec::new() } else { ends } };
        if is_first {
            return chain.begin();
        }
        // The order is answered at once: the parent then gives the first program its order.
        std::thread::spawn(move || chain.go_on());
        Ok(0.0)
    });
    Ok(())
}

fn tell(mut link: &TcpStream) -> std::io::Result<()> {
    link.write_all(&[1; MESSAGE])
}

fn hear(mut link: &TcpStream) -> Result<()> {
    link.read_exact(&mut [0; MESSAGE]).map_err(broken)
}

/// One program's kernels: the events that they wait for, and the ends that a thread must wait for.
struct Chain {
    link: Arc<TcpStream>,
    gates: Vec<Event>,
    waited: Vec<Event>,
}

impl Chain {
    /// Releases one kernel after the other, each when the other program reports an end.
    fn go_on(&self) -> Result<()> {
        std::thread::scope(|scope| {
            scope.spawn(|| self.waited.iter().try_for_each(|end| end.wait().ok().and(tell(&self.link).ok())));
            self.gates.iter().try_for_each(|gate| hear(&self.link).and_then(|()| gate.set()))
        })
    }

    /// Does the same from the beginning; returns the microseconds for each kernel of both programs.
    fn begin(mut self) -> Result<f64> {
        let count = self.gates.len();
        let first = self.gates.remove(0);
        let begin = Instant::now();
        first.set()?;
        self.go_on()?;
        // The end of the other program's last kernel.
        hear(&self.link)?;
        Ok(begin.elapsed().as_secs_f64() * 1e6 / (2 * count) as f64)
    }
}
