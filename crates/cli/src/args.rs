//! The command line, declared once: parsing, help, completions and man pages come from here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::broker::parse_broker;
use clap::{Args, Parser, Subcommand};
use ropeway_broker::store::EtcdAddress;
use ropeway_daemon::access::{MAX_WEIGHT, Machine, parse_size, parse_time};
use ropeway_daemon::worker::{DeviceSelector, Wall};
use ropeway_dra::names::MAX_SHARES;
use ropeway_lease::grant::LeaseId;
use ropeway_lease::want::Want;
use ropeway_transport::Endpoint;

/// OpenCL devices of other machines, as if they were in this one.
#[derive(Parser, Debug)]
#[command(name = "ropeway", version, propagate_version = true, disable_help_subcommand = true)]
#[command(after_help = "Servers to use are configured by ROPEWAY_SERVERS, ROPEWAY_HOSTFILE or ropeway.toml; \
    `ropeway doctor` says what is in effect.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Offer this machine's OpenCL devices to clients
    #[command(after_help = "ROPEWAY_LOG sets how much is logged on standard error: off, error, warn, info or debug.\n\
        Other machines reach a server that listens on tls://0.0.0.0:7590, with a ticket:\n  \
        ropeway ticket new NAME")]
    Serve(Box<ServeArgs>),
    /// Run a program with Ropeway's devices
    Run(RunArgs),
    /// List servers and their devices, with latency and bandwidth of each link
    Devices(DevicesArgs),
    /// Make, list and revoke tickets, by which clients on other machines may use this machine's server
    Ticket(TicketArgs),
    /// Lend the devices of servers to clients: who wants some gets a lease on them, or waits
    #[command(after_help = "Servers and users need tickets of the broker, made on its machine:\n  \
        ropeway ticket new --state DIR --host BROKER:7591 --registers rack7   for `ropeway serve --broker TICKET`\n  \
        ropeway ticket new --state DIR --host BROKER:7591 alice               for `ropeway run --broker TICKET`")]
    Broker(BrokerArgs),
    /// Give pods of a Kubernetes cluster devices of a broker (Dynamic Resource Allocation)
    Dra(DraArgs),
    /// Get, list, renew and release leases on devices that a broker lends
    Lease(LeaseArgs),
    /// List the requests that wait for devices at a broker
    Queue(AskArgs),
    /// Keep a ticket, so that the server's name suffices from now on
    Join(JoinArgs),
    /// Check the installation, the configuration and every server, and say what to do
    Doctor(DoctorArgs),
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder; made when missing
        folder: PathBuf,
    },
    /// Start a server for the program that starts this (`local:`)
    #[command(hide = true)]
    Local(LocalArgs),
    /// Hold a lease for the program that starts this (`ROPEWAY_WANT`)
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Keep a way to a server that ssh starts, for the program that starts this (`ssh://`)
    #[command(hide = true)]
    Tunnel(TunnelArgs),
    /// Look for servers on the local network, for the program that starts this (`auto`)
    #[command(hide = true)]
    Look {
        /// For how long
        milliseconds: u64,
    },
    /// Serve one session (started by `ropeway serve`)
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Where to listen: tls://host:port (port 0: any free one), tcp://host:port, unix:/path or vsock://:port; may be
    /// given several times [default: sockets passed by systemd, else tcp://127.0.0.1:7590]
    #[arg(long = "listen", value_name = "URL")]
    pub listen: Vec<Endpoint>,

    /// Serve through ssh: listen only on a Unix socket in a private folder, which is named on standard output, and end
    /// with standard input. Programs with `ssh://` servers start this
    #[arg(long, conflicts_with_all = ["listen", "plaintext_network", "state", "allow_user", "allow_group", "allow_cid", "ivshmem", "announce"])]
    pub stdio: bool,

    /// Listen also where other machines can connect, without encryption and without asking who they are
    #[arg(long)]
    pub plaintext_network: bool,

    /// Folder for this server's key and its clients, for encrypted connections
    /// [default: $STATE_DIRECTORY, $XDG_STATE_HOME/ropeway or ~/.local/state/ropeway, where other machines can connect]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// This server's certificate, as PEM, with those of the authorities in between: clients with a certificate of
    /// --client-ca come in, too, on the same ports as those with tickets
    #[arg(long, value_name = "FILE", requires_all = ["key", "client_ca"], conflicts_with = "stdio")]
    pub certificate: Option<PathBuf>,

    /// The certificate's private key, as PEM; nobody else may read the file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,

    /// Certificates of the authorities that issue those of clients, as PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub client_ca: Option<PathBuf>,

    /// Lists of the clients' certificates that are revoked, as PEM, one of each authority: sessions of who has one end.
    /// This file and those of the other three options are read again when they are replaced
    #[arg(long, value_name = "FILE", requires = "client_ca")]
    pub client_crl: Option<PathBuf>,

    /// Offer devices that are not processors as well, which this file declares: streams, codecs, functions of shared libraries
    /// (docs/edge.md)
    #[arg(long, value_name = "FILE")]
    pub custom: Option<PathBuf>,

    /// File to which one line of JSON is added for each session's beginning and end, and for each client that is
    /// refused
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,

    /// User of this machine who may use the Unix sockets, by name or number; may be given several times. Root and this
    /// server's own user always may [default: whoever can open the socket]
    #[arg(long, value_name = "USER")]
    pub allow_user: Vec<String>,

    /// Group of users who may use the Unix sockets, by name or number; may be given several times
    #[arg(long, value_name = "GROUP")]
    pub allow_group: Vec<String>,

    /// Virtual machine that may come in over vsock, by its CID, or 'any'; may be given several times. Without it, only
    /// this machine and, for a virtual machine, its host may
    #[arg(long, value_name = "CID")]
    pub allow_cid: Vec<Machine>,

    /// File behind a shared memory device (QEMU's ivshmem-plain) of a virtual machine on this machine: sessions of programs in
    /// it go through that memory, N at the same time [default: 4]; may be given several times (docs/links.md)
    #[arg(long, value_name = "FILE[,sessions=N]", value_parser = parse_guest_memory)]
    pub ivshmem: Vec<(PathBuf, u64)>,

    /// Announce this server on the local network (mDNS), under this name [default name: the machine's]
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    pub announce: Option<Option<String>>,

    /// Worker processes to keep ready, so that clients start at once; more are kept after a burst of clients
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub warm: u16,

    /// Most sessions at one time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_sessions: u32,

    /// Most bytes of this machine's main memory that one session may take; K, M and G are understood; a session that
    /// takes more ends [default: three quarters of the memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub session_host_memory: Option<u64>,

    /// Lend the devices through this broker, and show them only to who has a lease: its ticket that is for servers, or
    /// its name after `ropeway join`; several, where several brokers lend together, with commas between them
    #[arg(long, value_name = "TICKET", value_delimiter = ',', value_parser = parse_broker, conflicts_with_all = ["stdio", "plaintext_network"])]
    pub broker: Vec<Endpoint>,

    /// This server's name in the broker's lists [default: the machine's]
    #[arg(long, value_name = "NAME", requires = "broker")]
    pub name: Option<String>,

    /// Where clients reach this server, as the broker tells them: host[:port]
    /// [default: where it listens, or this machine's name where that is everywhere]
    #[arg(long, value_name = "HOST", requires = "broker")]
    pub address: Option<String>,

    /// Most processes and threads of one session, where the server can give it a control group
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(64..))]
    pub session_tasks: u64,

    #[command(flatten)]
    pub worker: WorkerArgs,
}

/// Options that `serve` passes on to its workers.
#[derive(Args, Debug)]
pub struct WorkerArgs {
    /// Folder for programs that clients sent, so that they need not send them again
    /// [default: programs in $CACHE_DIRECTORY, $XDG_CACHE_HOME/ropeway or ~/.cache/ropeway]
    #[arg(long, value_name = "DIR", overrides_with = "program_cache")]
    pub program_cache: Option<PathBuf>,

    /// Run workers as this user, where the server is root's; their caches are then below /var/cache/ropeway
    #[arg(long, value_name = "NAME")]
    pub worker_user: Option<String>,

    /// A worker's own folder, where it has one
    #[arg(long, hide = true)]
    pub folder: Option<PathBuf>,

    /// A worker's own control group in a hierarchy of these
    #[arg(long, hide = true)]
    pub group: Vec<PathBuf>,

    /// Most bytes in the program cache; K, M and G are understood
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub program_cache_size: u64,

    /// Most bytes of buffers that one session may have [default: what the devices give]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub session_memory: Option<u64>,

    /// Where other servers reach this one, if not where clients do: tcp://host[:port] or unix:/path
    #[arg(long, value_name = "URL")]
    pub peer_address: Option<Endpoint>,

    /// The server's public key
    #[arg(long, hide = true)]
    pub peer_key: Option<String>,

    /// Let kernels and drivers do all that this user can, or leave off parts of their sandbox: files, calls, rights and
    /// groups
    #[arg(long, value_name = "PART", num_args = 0..=1, require_equals = true, value_delimiter = ',', default_missing_value = "files,calls,rights,groups")]
    pub no_sandbox: Vec<Wall>,

    /// Tell the server what the devices say of themselves
    #[arg(long, hide = true)]
    pub describe: bool,

    /// Let sessions go over UCX, for which the sandbox lets the worker make connections
    #[arg(long, hide = true)]
    pub ucx: bool,

    /// Move bulk data as for a GPU also where buffers could be mapped (for tests)
    #[arg(long, hide = true)]
    pub force_pinned: bool,

    /// The custom devices, as JSON
    #[arg(long, hide = true)]
    pub custom_devices: Option<String>,

    /// Try the machine's drivers for the server, and serve nobody
    #[arg(long, hide = true)]
    pub probe: bool,
}

#[derive(Args, Debug)]
pub struct TicketArgs {
    /// The server's state folder [default: $STATE_DIRECTORY, $XDG_STATE_HOME/ropeway or ~/.local/state/ropeway]
    #[arg(long, value_name = "DIR", global = true)]
    pub state: Option<PathBuf>,

    #[command(subcommand)]
    pub command: TicketCommand,
}

/// What the sessions of a client may use.
#[derive(Args, Clone, Debug)]
pub struct AllowanceArgs {
    /// Devices that the client sees: by number, by cpu, gpu, accelerator or custom, or by a part of the name; several with
    /// commas between them [default: all]
    #[arg(long, value_name = "DEVICES", value_delimiter = ',')]
    pub devices: Vec<DeviceSelector>,
    /// Most bytes of buffers, of all its sessions together; K, M and G are understood; what is beyond fails with
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE [default: what the server's options say]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Most OpenCL objects of all kinds, of all its sessions together; what is beyond fails with CL_OUT_OF_RESOURCES
    /// [default: 4194304 for each session, of which one more ends the session]
    #[arg(long, value_name = "N")]
    pub objects: Option<u64>,
    /// How long a kernel may run on its device, such as 10s or 2m; its session ends then [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub kernel_time: Option<Duration>,
    /// How long a build, compilation or link may take, such as 60s; its session ends then [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub build_time: Option<Duration>,
}

#[derive(Subcommand, Debug)]
pub enum TicketCommand {
    /// Make a ticket for a client, and print it: one line, which is a secret, and is not kept here
    New {
        /// The client's name, for lists and logs
        name: String,
        /// This server as clients reach it: host[:port] [default: this machine's name]
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// For how long it can be used, such as 30d or 12h [default: until it is revoked]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Most sessions at one time
        #[arg(long, value_name = "N")]
        sessions: Option<u32>,
        /// Weight, in sharing the time of devices with other clients that have one [default: none: its sessions take no
        /// turns]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WEIGHT)))]
        weight: Option<u32>,
        /// Most bytes of the server's main memory for each session; K, M and G are understood; a session that takes
        /// more ends [default: what the server's options say]
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        host_memory: Option<u64>,
        /// The client is a server that lends its devices through the broker whose state folder this is
        #[arg(long)]
        registers: bool,
        /// Most bytes of its compilers' caches that are kept on disk between sessions; K, M and G are understood; what
        /// was not used for longest goes first [default: 1G]
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        compiler_cache: Option<u64>,
        #[command(flatten)]
        allowed: AllowanceArgs,
    },
    /// List the clients that have tickets
    List,
    /// Show what the server knows of a client
    Show {
        /// The client's name
        name: String,
    },
    /// Void a client's ticket, and end its sessions
    Revoke {
        /// The client's name
        name: String,
    },
}

#[derive(Args, Debug)]
pub struct BrokerArgs {
    /// Where to listen: tls://host:port (port 0: any free one); may be given several times
    #[arg(long = "listen", value_name = "URL", default_value = "tls://127.0.0.1:7591")]
    pub listen: Vec<Endpoint>,

    /// Folder for the broker's key, its clients, and what it has lent
    /// [default: $STATE_DIRECTORY, $XDG_STATE_HOME/ropeway-broker or ~/.local/state/ropeway-broker]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// How long the lease of a program lasts while the broker cannot be reached
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub lasts: Duration,

    /// How long a program's lease waits for its holder when the connection to it has broken
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub returns: Duration,

    /// Where several brokers of one pool write what they lend, one of which leads:
    /// etcd://[USER@]HOST[:PORT],HOST[:PORT],...[/POOL] [default: $ROPEWAY_STORE, else a file of this
    /// broker's alone]
    #[arg(long, value_name = "URL")]
    pub store: Option<EtcdAddress>,

    /// Where clients reach this broker when it leads such a pool [default: as it listens]
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,

    /// The password of etcd's user, in a file that nobody else can read [default: in $ROPEWAY_STORE, after the user's
    /// name and a colon]
    #[arg(long, value_name = "FILE")]
    pub etcd_password: Option<PathBuf>,

    /// Certificates of who signs for etcd's members; encrypts the connections to it
    #[arg(long, value_name = "FILE")]
    pub etcd_ca: Option<PathBuf>,

    /// This broker's certificate, where etcd wants one
    #[arg(long, value_name = "FILE", requires_all = ["etcd_ca", "etcd_key"])]
    pub etcd_certificate: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    pub etcd_key: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct DraArgs {
    #[command(flatten)]
    pub broker: AskArgs,

    /// The driver's name in the cluster, which the DeviceClass names
    #[arg(long, value_name = "NAME", default_value = ropeway_dra::DRIVER, value_parser = parse_driver, global = true)]
    pub driver: String,

    /// The name of the broker's pool in the cluster
    #[arg(long, value_name = "NAME", default_value = "ropeway", value_parser = parse_driver, global = true)]
    pub pool: String,

    /// The cluster's API server, such as http://127.0.0.1:8001 of `kubectl proxy` [default: as pods have it]
    #[arg(long, value_name = "URL", global = true)]
    pub api_server: Option<String>,

    /// Certificates of who signs for it [default: as pods have it]
    #[arg(long, value_name = "FILE", global = true)]
    pub api_ca: Option<PathBuf>,

    /// File with the token that it is shown [default: as pods have it]
    #[arg(long, value_name = "FILE", global = true)]
    pub api_token: Option<PathBuf>,

    #[command(subcommand)]
    pub command: DraCommand,
}

#[derive(Subcommand, Debug)]
pub enum DraCommand {
    /// Tell the cluster which devices there are (ResourceSlices): one for each cluster
    Controller {
        /// The nodes that reach the servers have this label [default: all nodes reach them]
        #[arg(long, value_name = "LABEL=VALUE", value_parser = parse_label)]
        nodes: Option<(String, String)>,
        /// Tell it of so many shares of each device instead of the device: each has as much of its memory
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_SHARES)))]
        shares: u16,
        /// How often the broker is asked
        #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
        every: Duration,
    },
    /// Get leases for pods, as a plug-in of kubelet: one on each node
    Node {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node_name: String,
        /// Kubelet's folder
        #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
        kubelet: PathBuf,
        /// The folder in which the container runtime looks for devices (CDI)
        #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
        cdi: PathBuf,
        /// The library that containers get [default: the one that is installed with this program]
        #[arg(long, value_name = "FILE")]
        library: Option<PathBuf>,
        /// How long a pod's claim waits for devices that others have, before kubelet tries again
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_any_time)]
        wait: Duration,
        /// How long a lease lasts while the broker cannot be reached
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
        lasts: Duration,
    },
}

fn parse_driver(text: &str) -> Result<String, String> {
    if ropeway_dra::names::is_domain(text) {
        Ok(text.to_owned())
    } else {
        Err("it is not a name such as ropeway.io".into())
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (label, value) = text.split_once('=').ok_or("it is not a LABEL=VALUE")?;
    Ok((label.to_owned(), value.to_owned()))
}

/// Which broker is asked.
#[derive(Args, Clone, Debug)]
pub struct AskArgs {
    /// The broker: its ticket, or its name after `ropeway join`; several with commas between them
    /// [default: $ROPEWAY_BROKER]
    #[arg(long, value_name = "TICKET", value_delimiter = ',', value_parser = parse_broker)]
    pub broker: Vec<Endpoint>,
}

/// What is wanted of a broker.
#[derive(Args, Clone, Debug)]
pub struct WantArgs {
    /// The devices, such as 'gpu', '2 gpu, memory>=40G' or '2 gpu on one server and 1 cpu' [default: $ROPEWAY_WANT]
    #[arg(long, value_name = "DEVICES")]
    pub want: Option<Want>,

    /// How long to wait for them; 0s: not at all [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_any_time)]
    pub wait: Option<Duration>,

    /// Requests with a higher number go first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,

    /// How long they will be needed, as far as is known: what is short may go before others
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub expected: Option<Duration>,
}

#[derive(Args, Debug)]
pub struct LeaseArgs {
    #[command(subcommand)]
    pub command: LeaseCommand,
}

#[derive(Subcommand, Debug)]
pub enum LeaseCommand {
    /// Get a lease that lasts for a time, and print it: one line for each server, which are secrets
    New {
        #[command(flatten)]
        broker: AskArgs,
        #[command(flatten)]
        want: WantArgs,
        /// How long it lasts without being renewed
        #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = parse_time)]
        lasts: Duration,
        /// Write the lines into this file instead, which only this user can read: for ROPEWAY_HOSTFILE
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List this user's leases
    List {
        #[command(flatten)]
        broker: AskArgs,
        /// Everybody's
        #[arg(long)]
        all: bool,
    },
    /// Show what a lease has
    Show {
        #[command(flatten)]
        broker: AskArgs,
        /// The lease's number
        lease: LeaseId,
    },
    /// Make a lease last longer
    Renew {
        #[command(flatten)]
        broker: AskArgs,
        /// The lease's number
        lease: LeaseId,
        /// For how long from now [default: as long as before]
        #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
        lasts: Option<Duration>,
        /// The file that `lease new --output` has made, which gets the new proof
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// End a lease, and the sessions with it
    Release {
        #[command(flatten)]
        broker: AskArgs,
        /// The lease's number
        lease: LeaseId,
    },
}

#[derive(Args, Debug)]
pub struct JoinArgs {
    /// The ticket: ropeway://host/#...
    pub ticket: String,
}

#[derive(Args, Debug)]
pub struct LocalArgs {
    /// Be the server, with its socket in this folder
    #[arg(long, value_name = "DIR")]
    pub serve: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct HoldArgs {
    #[command(flatten)]
    pub broker: AskArgs,

    #[command(flatten)]
    pub want: WantArgs,

    /// The program's name, for lists
    #[arg(long, value_name = "NAME", default_value = "a program")]
    pub program: String,

    /// Be the holder itself
    #[arg(long)]
    pub keep: bool,
}

#[derive(Args, Debug)]
pub struct TunnelArgs {
    /// The host: ssh://[user@]host[:port]
    pub host: Endpoint,
    /// How long the host may take to answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub timeout: u64,
    /// Be the tunnel itself
    #[arg(long)]
    pub keep: bool,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    /// Server to use: host[:port], ssh://[user@]host[:port], tcp://host[:port], unix:/path, vsock://CID[:port] or
    /// local:; may be given
    /// several times [default: as configured]
    #[arg(long = "server", value_name = "URL", value_parser = parse_servers)]
    pub servers: Vec<Servers>,

    /// Use also trusted servers that announce themselves on the local network
    #[arg(long)]
    pub discover: bool,

    #[command(flatten)]
    pub broker: AskArgs,

    #[command(flatten)]
    pub want: WantArgs,

    /// Hide the machine's other OpenCL platforms from the program
    #[arg(long)]
    pub only: bool,

    /// Show one platform for each platform of each server, instead of one platform with all devices
    #[arg(long)]
    pub per_platform: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// Server to ask; may be given several times [default: as configured]
    #[arg(long = "server", value_name = "URL", value_parser = parse_servers)]
    pub servers: Vec<Servers>,

    /// Look for servers that announce themselves on the local network, too, and list also those that are not trusted
    #[arg(long)]
    pub discover: bool,

    /// Do not measure the links
    #[arg(long)]
    pub no_measure: bool,

    /// List the devices that this broker lends, and who has them: its ticket, or its name after `ropeway join`
    #[arg(long, value_name = "TICKET", value_delimiter = ',', value_parser = parse_broker, conflicts_with_all = ["servers", "discover"])]
    pub broker: Vec<Endpoint>,
}

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Server to check; may be given several times [default: as configured]
    #[arg(long = "server", value_name = "URL", value_parser = parse_servers)]
    pub servers: Vec<Servers>,
    /// State folder of a server on this machine, whose files are checked [default: as `ropeway serve` finds it, if it is there]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// One `--server`: like ROPEWAY_SERVERS, it may hold several with commas between them.
#[derive(Clone, Debug)]
pub struct Servers(pub Vec<Endpoint>);

/// All servers of all `--server` options.
pub fn flatten(servers: &[Servers]) -> Vec<Endpoint> {
    servers.iter().flat_map(|Servers(list)| list.clone()).collect()
}

/// A time that may be none at all.
fn parse_any_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| format!("'{text}' is not a time; write for example 10s or 2m"))
}

fn parse_servers(text: &str) -> Result<Servers, String> {
    let entries = text.split(',').map(|entry| match entry.trim() {
        "auto" => {
            Err("servers of the local network are looked for with --discover, or with ROPEWAY_SERVERS=auto".to_owned())
        }
        entry => entry.parse().map_err(|error| format!("{error}")),
    });
    entries.collect::<Result<_, _>>().map(Servers)
}

/// Reads `FILE` or `FILE,sessions=N`.
fn parse_guest_memory(text: &str) -> Result<(PathBuf, u64), String> {
    /// Sessions that share a file at the same time, unless it is said how many.
    const SESSIONS: u64 = 4;
    let Some((file, sessions)) = text.rsplit_once(",sessions=") else { return Ok((text.into(), SESSIONS)) };
    let sessions = sessions.parse().ok().filter(|sessions| (1..=256).contains(sessions));
    sessions.map(|sessions| (file.into(), sessions)).ok_or_else(|| "1 to 256 sessions can share it".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("500M"), Ok(500 << 20));
        assert_eq!(parse_size("7"), Ok(7));
        assert!(parse_size("").is_err() && parse_size("M").is_err() && parse_size("99999999999T").is_err());
    }

    #[test]
    fn what_is_found_is_no_address() {
        assert!(parse_servers("gpu7,auto").unwrap_err().contains("--discover"));
        assert_eq!(parse_servers("local:,gpu7").unwrap().0.len(), 2);
    }

    #[test]
    fn a_program_keeps_its_own_options() {
        let cli = Cli::try_parse_from(["ropeway", "run", "--only", "--", "clinfo", "--raw", "--only"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert_eq!(run.program, ["clinfo", "--raw", "--only"]);
    }
}
