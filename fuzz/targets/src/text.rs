//! What people write: tickets and other addresses, and a server's access rules.

use std::time::{Duration, SystemTime};

use ropeway_daemon::access::{Clients, from_now, parse_size, size_text, text_of};
use ropeway_generate::{Entropy, damage};
use ropeway_transport::Endpoint;
use ropeway_transport::tls::{Identity, Lease, LeaseCertificate, PublicKey, Ticket, issue_lease};

/// Beginnings, hosts and ends of addresses.
const SCHEMES: [&str; 8] = ["ropeway://", "tls://", "tcp://", "ssh://", "", "unix:", "unix://", "ropewy://"];
const HOSTS: [&str; 12] =
    ["gpu.lab", "[::1]", "127.0.0.1", "localhost", "[fe80::1%eth0]", "a@b", "::1", "/run/x", "", "[", "h\u{e9}", " "];
const PORTS: [&str; 8] = [":7590", "", ":0", ":65535", ":65536", ":", ":-1", "]"];

/// A ticket's line, or another address.
///
/// # Panics
/// When an address that was understood is printed as another, or a message repeats a ticket's secret.
pub fn ticket(data: &[u8]) {
    let mut entropy = Entropy::new(data);
    let pick = entropy.byte();
    let mut secret = String::new();
    let mut bytes = if pick < 32 {
        entropy.slice(usize::MAX).to_vec()
    } else {
        let mut of = |all: &[&'static str]| all[usize::from(entropy.byte()) % all.len()];
        let (scheme, host, port) = (of(&SCHEMES), of(&HOSTS), of(&PORTS));
        let keys: Vec<u8> = entropy.slice(64).iter().copied().chain(std::iter::repeat(pick)).take(64).collect();
        let (server, client) = keys.split_at(32);
        let key = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).expect("32 bytes");
        let server = PublicKey::new(key(server));
        let identity = Identity::from_seed(key(client)).expect("any seed makes a key");
        let lease = (pick & 64 != 0).then(|| lease(&identity, &mut entropy));
        secret = Ticket { server, identity, lease }.secret_text();
        let end = match pick % 4 {
            0 => format!("/#{}", server.text()),
            1 => String::new(),
            _ => format!("/#{secret}"),
        };
        format!("{scheme}{host}{port}{end}").into_bytes()
    };
    if pick.is_multiple_of(3) && !entropy.is_empty() {
        damage(&mut bytes, &mut entropy);
    }
    let text = String::from_utf8_lossy(&bytes);
    match text.parse::<Endpoint>() {
        Ok(endpoint) => {
            let (line, pinned) = (endpoint.with_secret(), endpoint.with_key());
            let parse =
                |line: &str| line.parse::<Endpoint>().unwrap_or_else(|why| panic!("{line:?} of {text:?}: {why}"));
            assert_eq!(parse(&line).with_secret(), line, "of {text:?}");
            assert_eq!((parse(&line), parse(&line).pass()), (endpoint.clone(), endpoint.pass()), "of {text:?}");
            assert_eq!(parse(&pinned).with_key(), pinned, "of {text:?}");
            assert_eq!(parse(&endpoint.to_string()), endpoint, "of {text:?}");
        }
        // Damage may have moved the secret to where nobody would look for one.
        Err(error) if secret.len() > 80 && text.contains('#') => {
            let (error, address) = (error.to_string(), text.split('#').next().unwrap_or_default());
            for part in [&secret[..16], &secret[64..80]] {
                assert!(address.contains(part) || !error.contains(part), "it tells the secret: {error}");
            }
        }
        Err(_) => {}
    }
}

/// A lease for this key. What is left of its certificate when that is damaged is read, too.
fn lease(identity: &Identity, entropy: &mut Entropy<'_>) -> LeaseCertificate {
    let broker = Identity::from_seed([4; 32]).expect("any seed makes a key");
    let len = usize::from(entropy.byte() % 32);
    let contents = String::from_utf8_lossy(entropy.slice(len)).into_owned();
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(entropy.number() % 200_000_000_000);
    let issued = issue_lease(&broker, identity.public(), &contents, begin, begin + Duration::from_secs(60));
    let der = issued.expect("what is short and before the year 9999 is issued");
    let lease = LeaseCertificate::from_der(&der).expect("what was issued is a lease");
    assert_eq!(
        (lease.holder(), lease.lease()),
        (identity.public(), &Lease { contents, not_before: begin, not_after: begin + Duration::from_secs(60) })
    );
    let mut damaged = der;
    damage(&mut damaged, entropy);
    if let Some(lease) = LeaseCertificate::from_der(&damaged) {
        assert_eq!(lease.der(), damaged);
    }
    lease
}

/// Lines of an access file; `$` stands for any number, `@` for any text.
const LINES: [&str; 26] = [
    "[clients.a]\n",
    "[clients.\"@\"]\n",
    "[clients]\n",
    "[@]\n",
    "key = \"AgNzpXHjDfIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"\n",
    "key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"\n",
    "key = \"@\"\n",
    "created = \"2026-11-22T11:20:18Z\"\n",
    "expires = \"2026-12-24T18:00:00.25Z\"\n",
    "expires = \"$-12-24T18:00:00Z\"\n",
    "expires = \"@\"\n",
    "expires = 2026-12-24\n",
    "sessions = $\n",
    "devices = [\"gpu\", \"0\", \"H200\"]\n",
    "devices = [\"@\", $]\n",
    "devices = []\n",
    "memory = \"$G\"\n",
    "memory = \"@\"\n",
    "host_memory = \"$T\"\n",
    "host_memory = \"$\"\n",
    "# @\n",
    "@ = $\n",
    "clients.b = { key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\", memory = \"$K\" }\n",
    "[[clients]]\n",
    "\n",
    "@",
];

/// Times as `--expires` takes them; `$` stands for any number.
const SPANS: [&str; 8] = ["$d", "$h", "$y $m", "$s", "$ms", "$", "$years", "d"];

/// An access file, and what else of it is written by people: sizes and times.
///
/// # Panics
/// When rules that were understood are written as others, or a message has more than one line.
pub fn access(data: &[u8]) {
    let mut entropy = Entropy::new(data);
    let pick = entropy.byte();
    let mut bytes = if pick < 16 { entropy.slice(usize::MAX).to_vec() } else { Vec::new() };
    while pick >= 16 && !entropy.is_empty() && bytes.len() < 8192 {
        let line = LINES[usize::from(entropy.byte()) % LINES.len()];
        bytes.extend_from_slice(fill(line, &mut entropy).as_bytes());
        if pick >= 200 && entropy.byte() >= 250 {
            damage(&mut bytes, &mut entropy);
        }
    }
    check_rules(&String::from_utf8_lossy(&bytes));
    let mut entropy = Entropy::new(data);
    let number = entropy.number();
    assert_eq!(parse_size(&size_text(number)), Ok(number));
    let text = fill("@", &mut entropy);
    if let Ok(size) = parse_size(&text).or_else(one_line) {
        assert_eq!(parse_size(&size_text(size)), Ok(size), "{text}");
    }
    let text = fill(SPANS[usize::from(pick) % SPANS.len()], &mut entropy);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    if let Ok(at) = from_now(&text, now).or_else(one_line) {
        assert!(!text_of(at).is_empty(), "{text}");
    }
}

/// Fills in numbers and texts.
fn fill(line: &str, entropy: &mut Entropy<'_>) -> String {
    let mut filled = String::new();
    for letter in line.chars() {
        match letter {
            '$' => filled.push_str(&entropy.number().to_string()),
            '@' => {
                let len = usize::from(entropy.byte() % 24);
                let text = String::from_utf8_lossy(entropy.slice(len)).into_owned();
                // Half of it as a person would write it.
                match len % 2 {
                    0 => filled.extend(text.chars().map(|letter| char::from(b' ' + letter as u8 % 95))),
                    _ => filled.push_str(&text),
                }
            }
            letter => filled.push(letter),
        }
    }
    filled
}

/// A message has one line.
fn one_line<T>(message: String) -> Result<T, ()> {
    assert!(!message.contains(['\n', '\r', '\u{1b}']), "a message of several lines: {message:?}");
    Err(())
}

fn check_rules(text: &str) {
    let Ok(clients) = Clients::parse(text).or_else(one_line) else { return };
    let again = Clients::parse(&clients.text()).unwrap_or_else(|why| panic!("{why}: {:?} of {text:?}", clients.text()));
    assert_eq!(again.all(), clients.all(), "of {text:?}");
    let (mut anew, mut fewer) = (Clients::default(), clients.clone());
    for (name, rules) in clients.all() {
        anew.add(name, rules).unwrap_or_else(|why| panic!("{why}: {text:?}"));
        assert!(fewer.remove(name), "{name} of {text:?}");
        let left = Clients::parse(&fewer.text()).unwrap_or_else(|why| panic!("{why}: {:?} of {text:?}", fewer.text()));
        assert_eq!(left.all(), fewer.all(), "without {name}, of {text:?}");
    }
    let again = Clients::parse(&anew.text()).unwrap_or_else(|why| panic!("{why}: {:?} of {text:?}", anew.text()));
    let whole = |at: SystemTime| text_of(at);
    for ((name, rules), (as_name, before)) in again.all().iter().zip(clients.all()) {
        assert_eq!((name, rules.key, rules.sessions), (as_name, before.key, before.sessions), "of {text:?}");
        assert_eq!((&rules.allowance, rules.host_memory), (&before.allowance, before.host_memory), "of {text:?}");
        // Seconds are what is written of a time.
        assert_eq!(rules.expires.map(whole), before.expires.map(whole), "of {text:?}");
        assert_eq!(rules.created.map(whole), before.created.map(whole), "of {text:?}");
    }
    assert_eq!(again.all().len(), clients.all().len(), "of {text:?}");
}
