use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;

/// A folder of this test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ropeway-config-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("user/ropeway")).unwrap();
        fs::create_dir_all(path.join("system")).unwrap();
        Self(path)
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn load(&self, env: &[(&str, &str)]) -> Config {
        let mut env: HashMap<_, _> = env.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        env.insert("XDG_CONFIG_HOME".into(), self.0.join("user").display().to_string());
        Config::from_parts(|name| env.get(name).cloned(), &self.0.join("system"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(config: &Config) -> Vec<String> {
    config.servers.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_configured_is_no_servers() {
    let config = Config::from_parts(|_| None, Path::new("/nonexistent"));
    assert_eq!((names(&config), config.source), (vec![], Source::Nothing));
    assert_eq!(config.connect_timeout, Duration::from_secs(2));
    assert!(config.problems.is_empty(), "{:?}", config.problems);
}

#[test]
fn the_environment_comes_first() {
    let folder = Folder::new("environment");
    folder.write("user/ropeway/ropeway.toml", "servers = ['a']\nlog = 'debug'\nplatforms = 'per-platform'");
    let hosts = folder.write("hosts", "b");
    let env = [("ROPEWAY_SERVERS", " c , unix:/run/r.sock,,ftp://x"), ("ROPEWAY_HOSTFILE", hosts.to_str().unwrap())];
    let config = folder.load(&env);
    assert_eq!(names(&config), ["tls://c:7590", "unix:/run/r.sock"]);
    assert_eq!(config.source, Source::Environment);
    assert_eq!(config.log, LogLevel::Debug, "settings still come from the file");
    assert_eq!(config.presentation, Presentation::PerPlatform);
    assert_eq!(config.problems.len(), 1);
    assert!(config.problems[0].starts_with("ROPEWAY_SERVERS: 'ftp://x' is not"), "{:?}", config.problems);
}

#[test]
fn an_empty_variable_is_none() {
    let folder = Folder::new("empty");
    folder.write("system/ropeway.toml", "servers = ['a']");
    assert_eq!(names(&folder.load(&[("ROPEWAY_SERVERS", " "), ("ROPEWAY_LOG", "")])), ["tls://a:7590"]);
}

#[test]
fn a_host_file_is_dopencls() {
    let folder = Folder::new("hostfile");
    let hosts = folder.write("hosts", "# lab\ngpu1\n  gpu2:99 # the old one\n\nbad host\n[::1]:5\ngpu1\n");
    let config = folder.load(&[("ROPEWAY_HOSTFILE", hosts.to_str().unwrap())]);
    assert_eq!(names(&config), ["tls://gpu1:7590", "tls://gpu2:99", "tcp://[::1]:5"]);
    assert_eq!(config.source, Source::HostFile(hosts.clone()));
    assert_eq!(config.problems.len(), 2);
    assert!(config.problems[0].starts_with(&format!("{}:5: 'bad host'", hosts.display())), "{:?}", config.problems);
    assert!(config.problems[1].contains(":7: tls://gpu1:7590 is listed twice"), "{:?}", config.problems);
}

#[test]
fn a_folder_has_a_host_file_in_each_of_its_folders() {
    let folder = Folder::new("hostfolder");
    folder.write("claims/b/servers", "gpu2\nbad host\n");
    folder.write("claims/b/other", "gpu3\n");
    let first = folder.write("claims/a/servers", "gpu1\n");
    let claims = first.parent().unwrap().parent().unwrap().to_owned();
    let config = folder.load(&[("ROPEWAY_HOSTFILE", claims.to_str().unwrap())]);
    assert_eq!(names(&config), ["tls://gpu1:7590", "tls://gpu2:7590"]);
    assert_eq!(config.source, Source::HostFile(claims.clone()));
    assert_eq!(config.problems.len(), 1);
    assert!(config.problems[0].starts_with(&format!("{}/b/servers:2: 'bad host'", claims.display())));
    // One of which nothing can be read is not as though there were none.
    std::fs::create_dir(claims.join("c")).unwrap();
    let config = folder.load(&[("ROPEWAY_HOSTFILE", claims.to_str().unwrap())]);
    assert!(config.problems[1].contains("/c/servers (ROPEWAY_HOSTFILE)"), "{:?}", config.problems);
}

#[test]
fn a_missing_host_file_is_a_problem() {
    let config = Folder::new("missing").load(&[("ROPEWAY_HOSTFILE", "/nonexistent/hosts")]);
    assert!(config.servers.is_empty());
    assert!(config.problems[0].contains("cannot read the host file /nonexistent/hosts"), "{:?}", config.problems);
}

#[test]
fn the_users_file_hides_the_systems() {
    let folder = Folder::new("user");
    folder.write("system/ropeway.toml", "servers = ['system']");
    assert_eq!(names(&folder.load(&[])), ["tls://system:7590"]);
    let user = folder.write("user/ropeway/ropeway.toml", "servers = ['user']\nconnect-timeout = 0.5");
    let config = folder.load(&[]);
    assert_eq!(names(&config), ["tls://user:7590"]);
    assert_eq!(config.source, Source::File(user));
    assert_eq!(config.connect_timeout, Duration::from_millis(500));
    assert_eq!(folder.load(&[("ROPEWAY_CONNECT_TIMEOUT", "3")]).connect_timeout, Duration::from_secs(3));
}

#[test]
fn a_wrong_entry_is_named_with_file_and_line_and_the_others_work() {
    let folder = Folder::new("wrong");
    let text = "servers = [\n  'a',\n  'http://b',\n  7,\n  'c',\n]\nplatforms = 'two'\nlog = 3\nconnect-timeout = -1\ncolour = 'red'\n";
    let path = folder.write("user/ropeway/ropeway.toml", text);
    let config = folder.load(&[]);
    assert_eq!(names(&config), ["tls://a:7590", "tls://c:7590"]);
    for (line, words) in [
        (3, "'http://b' is not a server address"),
        (4, "a server is a text"),
        (7, "'two' is not a way"),
        (8, "this setting is a text"),
        (9, "a time of -1"),
        (10, "'colour' is not a setting"),
    ] {
        let start = format!("{}:{line}: {words}", path.display());
        assert!(config.problems.iter().any(|p| p.starts_with(&start)), "{start} in {:#?}", config.problems);
    }
    assert_eq!(config.problems.len(), 6, "{:#?}", config.problems);
}

#[test]
fn broken_syntax_is_named_with_its_line() {
    let folder = Folder::new("syntax");
    folder.write("user/ropeway/ropeway.toml", "servers = ['a']\nlog = = 'debug'\n");
    let config = folder.load(&[]);
    assert_eq!(names(&config), ["tls://a:7590"]);
    assert!(config.problems[0].contains("ropeway.toml:2: "), "{:?}", config.problems);
}

#[test]
fn settings_that_are_wrong_keep_their_default() {
    let config = Folder::new("settings").load(&[
        ("ROPEWAY_LOG", "loud"),
        ("ROPEWAY_PLATFORMS", "2"),
        ("ROPEWAY_CONNECT_TIMEOUT", "soon"),
    ]);
    assert_eq!((config.log, config.presentation), (LogLevel::Warn, Presentation::One));
    assert_eq!(config.connect_timeout, DEFAULT_CONNECT_TIMEOUT);
    assert_eq!(config.problems.len(), 3, "{:?}", config.problems);
}

#[test]
fn the_example_in_the_package_is_the_defaults() {
    let folder = Folder::new("example");
    folder.write("user/ropeway/ropeway.toml", include_str!("../../../../../packaging/ropeway.toml"));
    let (config, default) = (folder.load(&[]), Config::default());
    assert!(config.problems.is_empty(), "{:?}", config.problems);
    assert_eq!(config.servers, [ropeway_transport::Endpoint::default()]);
    assert_eq!((config.presentation, config.log), (default.presentation, default.log));
    assert_eq!(config.connect_timeout, default.connect_timeout);
}

#[test]
fn discovery_is_asked_for() {
    let folder = Folder::new("discover");
    assert!(!folder.load(&[]).discover);
    let config = folder.load(&[("ROPEWAY_SERVERS", "auto,gpu7")]);
    assert!(config.discover && config.problems.is_empty(), "{:?}", config.problems);
    assert_eq!(names(&config), ["tls://gpu7:7590"]);
    let text = "discover = true\ndiscover-time = 2\ntrusted = ['10.1.0.0/16', 'gpu7', 'fd00::/99999']\n";
    let path = folder.write("user/ropeway/ropeway.toml", text);
    let config = folder.load(&[]);
    assert!(config.discover && config.source == Source::File(path.clone()));
    assert_eq!(config.discover_time, Duration::from_secs(2));
    assert_eq!(config.trusted.len(), 2);
    assert!(config.problems[0].starts_with(&format!("{}:3: 'fd00::/99999'", path.display())), "{:?}", config.problems);
    // A list of servers in the environment is all there is.
    assert!(!folder.load(&[("ROPEWAY_SERVERS", "gpu7")]).discover);
    let env = [("ROPEWAY_TRUSTED", "gpu8 , ::1/128"), ("ROPEWAY_DISCOVER_TIME", "0.25")];
    let config = folder.load(&env);
    assert_eq!((config.trusted.len(), config.discover_time), (2, Duration::from_millis(250)));
}

#[test]
fn a_link_has_one_to_eight_sockets() {
    let folder = Folder::new("sockets");
    let of = |text: &str| text.parse::<Sockets>().unwrap();
    assert_eq!(folder.load(&[]).sockets, of("1"));
    folder.write("user/ropeway/ropeway.toml", "servers = ['a']\nsockets = 4");
    assert_eq!(folder.load(&[]).sockets, of("4"));
    let config = folder.load(&[("ROPEWAY_SERVERS", "sockets:8,tcp://b")]);
    assert_eq!((names(&config), config.sockets), (vec!["tcp://b:7590".to_owned()], of("8")));
    for wrong in ["0", "9", "-1", "many", "", "4.5", "300"] {
        let config = folder.load(&[("ROPEWAY_SERVERS", &format!("sockets:{wrong}"))]);
        assert_eq!(config.sockets, of("4"), "{wrong}");
        let said = format!("ROPEWAY_SERVERS: a link has 1 to 8 sockets, and not '{wrong}'");
        assert_eq!(config.problems, [said]);
    }
    folder.write("user/ropeway/ropeway.toml", "sockets = 'four'");
    let config = folder.load(&[]);
    assert_eq!(config.sockets, of("1"));
    assert!(config.problems[0].contains("ropeway.toml:1: a link has 1 to 8 sockets"), "{:?}", config.problems);
}
