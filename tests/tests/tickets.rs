//! Encrypted servers and tickets: who comes in, who does not, and what each is told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{c_program, ropeway, shifted_clock};
use ropeway_tests::program::Program;
use ropeway_tests::wait_for;

fn program(servers: &str) -> Program {
    Program::remote(c_program("vector_add"), servers)
}

/// What a program that gets no device is told.
fn refusal(servers: &str) -> String {
    let outcome = program(servers).run();
    assert!(!outcome.status.success());
    outcome.stderr
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_ticket_lets_a_client_in_until_it_is_revoked() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("alice", &[]);
    program(&ticket).run().success();
    encrypted.server.expect_log("name=\"alice\"");
    // The server keeps public keys only, and nobody else reads its own.
    for entry in fs::read_dir(&encrypted.state).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        assert!(!fs::read_to_string(&path).unwrap().contains(&ticket[ticket.len() - 40..]));
    }
    let listed = encrypted.ticket(&["list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("alice"), "{listed:?}");

    // A session that is under way ends within a second of the revocation.
    let running = Program::remote(c_program("held"), &ticket).start();
    let worker = encrypted.server.worker_of(running.pid());
    assert!(encrypted.ticket(&["revoke", "alice"]).status.success());
    wait_for("end of the session", Duration::from_secs(10), || {
        (!encrypted.server.workers().contains(&worker)).then_some(())
    });
    encrypted.server.expect_log("this client's ticket was revoked");
    running.kill();
    let told = refusal(&ticket);
    assert!(told.contains("it does not let this client's key in"), "{told}");
    let again = encrypted.ticket(&["revoke", "alice"]);
    assert!(
        !again.status.success() && String::from_utf8_lossy(&again.stderr).contains("no client 'alice'"),
        "{again:?}"
    );
}

#[test]
fn who_has_joined_needs_the_name_only() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("bob", &[]);
    let told = refusal(encrypted.server.url());
    assert!(told.contains("there is no ticket for 127.0.0.1") && told.contains("ropeway join"), "{told}");

    let config = tempfile::tempdir().unwrap();
    let joined =
        Command::new(ropeway()).args(["join", &ticket]).env("XDG_CONFIG_HOME", config.path()).output().unwrap();
    assert!(joined.status.success(), "{joined:?}");
    let joined_program = || program(encrypted.server.url()).env("XDG_CONFIG_HOME", config.path());
    joined_program().run().success();
    // A ticket that others can read is not used.
    let folder = config.path().join("ropeway/tickets");
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&file), 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let told = joined_program().run();
    assert!(!told.status.success() && told.stderr.contains("others can read or write it"), "{}", told.stderr);
}

#[test]
fn expired_tickets_and_too_many_sessions_are_refused_with_the_reason() {
    let encrypted = Encrypted::start();
    let brief = encrypted.new_ticket("brief", &["--expires", "1s"]);
    let told = wait_for("expiry", Duration::from_secs(20), || {
        let outcome = program(&brief).run();
        (!outcome.status.success()).then_some(outcome.stderr)
    });
    assert!(told.contains("the ticket of 'brief' has expired at "), "{told}");
    let one = encrypted.new_ticket("one", &["--sessions", "1"]);
    let first = Program::remote(c_program("held"), &one).start();
    encrypted.server.worker_of(first.pid());
    let told = refusal(&one);
    assert!(told.contains("'one' has 1 sessions there already, and may have 1"), "{told}");
    first.kill();
}

#[test]
fn another_server_in_its_place_and_plain_text_are_refused() {
    let (right, wrong) = (Encrypted::start(), Encrypted::start());
    let ticket = right.new_ticket("carol", &[]);
    let told = refusal(&ticket.replace(right.host(), wrong.host()));
    assert!(told.contains("it has another key than the ticket says"), "{told}");
    // Strangers that do not speak TLS hear nothing.
    let told = refusal(&right.server.url().replace("tls://", "tcp://"));
    assert!(told.contains("closed the connection") || told.contains("reset"), "{told}");
    right.server.expect_log("it does not speak TLS");
    // Half a ticket is no ticket, and is not repeated.
    let told = refusal(&ticket[..ticket.len() - 5]);
    assert!(told.contains("it was not copied whole") && !told.contains(&ticket[60..90]), "{told}");
}

#[test]
fn rules_with_an_error_leave_the_old_ones() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("dora", &[]);
    // A server that has not read the right rules yet would not have her among the old ones.
    encrypted.server.expect_log("the access rules were read again");
    let file = encrypted.state.join("access.toml");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{good}\n[clients.dora\n")).unwrap();
    encrypted.server.expect_log("the access rules stay as they were");
    program(&ticket).run().success();
    // Two servers do not share a state folder.
    let second = Command::new(ropeway())
        .args(["serve", "--listen", "tls://127.0.0.1:0", "--state"])
        .arg(&encrypted.state)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && told.contains("another server uses the state folder"), "{told}");
}

#[test]
fn servers_send_each_other_memory_over_encrypted_connections() {
    let servers: Vec<_> = (0..3).map(|_| Encrypted::start()).collect();
    let tickets: Vec<_> = servers.iter().map(|server| server.new_ticket("erin", &[])).collect();
    // Random commands over all three, checked word by word (see random.rs).
    let outcome = Program::remote(c_program("random"), &tickets.join(","))
        .args(["1", "3", "600", "without"])
        .limit(Duration::from_secs(300))
        .run()
        .success();
    assert!(!outcome.stderr.contains("do not reach each other"), "{}", outcome.stderr);
    // Who has another session's ticket is no peer of this one: there were no refusals either.
    for server in &servers {
        assert!(!server.server.log().contains("refused"), "{}", server.server.log());
    }
}

#[test]
fn a_ticket_shows_some_devices_and_gives_some_memory() {
    let encrypted = Encrypted::start();
    let cpu = encrypted.new_ticket("cpu", &["--devices", "cpu"]);
    let gpu = encrypted.new_ticket("gpu", &["--devices", "gpu,no such name"]);
    let listed = |ticket: &str| Program::remote("clinfo", ticket).args(["-l"]).run().stdout;
    let devices = |ticket: &str| listed(ticket).lines().filter(|line| line.contains("Device #")).count();
    // PoCL's device is a processor, and the server has no other.
    assert_eq!((devices(&cpu), devices(&gpu)), (1, 0));
    program(&cpu).run().success();
    // 64 MiB do not fit.
    let small = encrypted.new_ticket("small", &["--memory", "32M"]);
    program(&small).run().success();
    let told = Program::remote(c_program("held"), &small).run();
    assert!(!told.status.success() && told.stdout.contains("returned -4"), "{}{}", told.stdout, told.stderr);
    let listed = encrypted.ticket(&["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("gpu,no such name") && listed.contains("32M"), "{listed}");
    let shown = encrypted.ticket(&["show", "small"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("32M") && !shown.contains("no such name"), "{shown}");
    assert!(!encrypted.ticket(&["show", "nobody"]).status.success());
}

#[test]
fn who_takes_more_of_the_main_memory_than_his_ticket_gives_is_told_whose_limit_it_was() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("fay", &["--host-memory", "64M"]);
    // 64 MiB of buffers, beside all that a worker takes anyway.
    let outcome = Program::remote(c_program("held"), &ticket).limit(Duration::from_secs(60)).start();
    encrypted.server.expect_log("MiB of the server's main memory and may take 64 (the limit of 'fay' there)");
    outcome.kill();
}

#[test]
fn a_ticket_may_be_used_by_several_at_the_same_time_and_no_more_than_it_says() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("ida", &["--sessions", "3"]);
    let all: Vec<_> = (0..6).map(|_| Program::remote(c_program("held"), &ticket).start()).collect();
    let (mut inside, mut refused) = (Vec::new(), 0);
    for mut program in all {
        if program.line() == "ready" {
            inside.push(program);
        } else {
            let told = program.finish().stderr;
            assert!(told.contains("'ida' has 3 sessions there already, and may have 3"), "{told}");
            refused += 1;
        }
    }
    assert_eq!((inside.len(), refused), (3, 3));
    for mut program in inside {
        program.say("once more");
        assert_eq!(program.line(), "1");
        program.finish().success();
    }
}

#[test]
fn a_clock_that_goes_back_or_leaps_ends_no_more_sessions_than_it_must() {
    let folder = tempfile::tempdir().unwrap();
    let shift = folder.path().join("shift");
    let set = |seconds: &str| fs::write(&shift, seconds).unwrap();
    set("0");
    let clock = shifted_clock();
    let env = [("LD_PRELOAD", clock.to_str().unwrap()), ("SHIFTED_CLOCK_FILE", shift.to_str().unwrap())];
    let encrypted = Encrypted::start_in(&[], &env);
    let ticket = encrypted.new_ticket("jo", &["--expires", "1h"]);
    let mut running = Program::remote(c_program("held"), &ticket).start();
    assert_eq!(running.line(), "ready");
    // A day back: the session goes on, and others begin.
    set("-86400");
    program(&ticket).run().success();
    running.say("once more");
    assert_eq!(running.line(), "1");
    // A day ahead: the ticket's time is over.
    let worker = encrypted.server.worker_of(running.pid());
    set("86400");
    wait_for("end of the session", Duration::from_secs(20), || {
        (!encrypted.server.workers().contains(&worker)).then_some(())
    });
    assert!(refusal(&ticket).contains("the ticket of 'jo' has expired at "));
    running.kill();
    // And right again.
    set("0");
    program(&ticket).run().success();
}

#[test]
fn each_session_and_each_refusal_is_a_line_of_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut encrypted = Encrypted::start_with(&["--audit-log", log.to_str().unwrap()]);
    let ticket = encrypted.new_ticket("gina", &["--sessions", "1"]);
    program(&ticket).run().success();
    let lines = || fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let all = wait_for("two lines", Duration::from_secs(10), || Some(lines()).filter(|lines| lines.len() == 2));
    let field = |line: &str, name: &str| {
        let value = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name}: {line}")).1;
        value[..value.find([',', '}']).unwrap()].to_owned()
    };
    for (line, event) in all.iter().zip(["\"begin\"", "\"end\""]) {
        assert_eq!(field(line, "event"), event);
        assert_eq!((field(line, "client"), field(line, "program")), ("\"gina\"".into(), "\"vector_add\"".into()));
        assert!(field(line, "address").contains("127.0.0.1:"), "{line}");
    }
    assert_eq!(field(&all[1], "outcome"), "\"ended\"");
    assert!(!field(&all[1], "devices").is_empty() && all[1].contains("\"devices\":[\""), "{}", all[1]);
    for counted in ["sent", "received", "peak_memory"] {
        assert!(field(&all[1], counted).parse::<u64>().unwrap() > 100, "{counted}: {}", all[1]);
    }

    let first = Program::remote(c_program("held"), &ticket).start();
    encrypted.server.worker_of(first.pid());
    refusal(&ticket);
    encrypted.ticket(&["revoke", "gina"]);
    let all = wait_for("five lines", Duration::from_secs(10), || Some(lines()).filter(|lines| lines.len() == 5));
    first.kill();
    assert!(field(&all[3], "event") == "\"refused\"" && all[3].contains("may have 1"), "{}", all[3]);
    assert!(field(&all[4], "outcome").contains("revoked"), "{}", all[4]);
    // A session that ends with the server has an end, too.
    let hugo = encrypted.new_ticket("hugo", &[]);
    let last = Program::remote(c_program("held"), &hugo).start();
    encrypted.server.worker_of(last.pid());
    assert!(encrypted.server.stop().success());
    last.kill();
    let all = lines();
    assert_eq!(field(all.last().unwrap(), "outcome"), "\"the server was stopped\"");
    // What the server says of its clients is no secret's text.
    let (_, secret) = ticket.split_once('#').unwrap();
    let said = fs::read_to_string(&log).unwrap() + &encrypted.server.log();
    assert!(!secret.as_bytes().windows(20).any(|part| said.contains(std::str::from_utf8(part).unwrap())));
}
