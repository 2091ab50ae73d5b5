use super::*;

fn cache(folder: &Folder) -> PathBuf {
    folder.path.join("cache")
}

#[test]
fn a_client_finds_its_caches_again_and_no_others() {
    let root = tempfile::tempdir().unwrap();
    let folders = Folders::open(root.path(), true, None, None).unwrap();
    let session = |client: &str| {
        let mut folder = folders.for_worker().unwrap();
        make(&cache(&folder).join("compiler/objects")).unwrap();
        folder.lend_to(client, CACHES);
        folder
    };
    let first = session("a");
    fs::write(cache(&first).join("compiler/of a"), "x").unwrap();
    // Of two sessions at one time, each has its own.
    let second = session("a");
    assert!(!cache(&second).join("compiler/of a").exists());
    drop(first);
    let other = session("b");
    assert!(!cache(&other).join("compiler/of a").exists());
    let again = session("a");
    assert!(cache(&again).join("compiler/of a").exists());
    drop((second, again));
    let kept = fs::read_dir(root.path().join("clients/a")).unwrap().count();
    assert_eq!(kept, 2);
}

#[test]
fn what_a_driver_has_made_at_its_start_is_there_in_caches_from_before() {
    let root = tempfile::tempdir().unwrap();
    let folders = Folders::open(root.path(), true, None, None).unwrap();
    let mut folder = folders.for_worker().unwrap();
    folder.lend_to("a", CACHES);
    drop(folder);
    let mut folder = folders.for_worker().unwrap();
    make(&cache(&folder).join("new/driver")).unwrap();
    folder.lend_to("a", CACHES);
    assert!(cache(&folder).join("new/driver").is_dir() && folder.path.join("warm").is_dir());
}

#[test]
fn a_link_in_place_of_caches_is_neither_kept_nor_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let folders = Folders::open(root.path(), true, None, None).unwrap();
    let mut folder = folders.for_worker().unwrap();
    folder.lend_to("a", CACHES);
    fs::remove_dir_all(cache(&folder)).unwrap();
    std::os::unix::fs::symlink(outside.path(), cache(&folder)).unwrap();
    drop(folder);
    assert!(!root.path().join("clients/a").exists());
    // A link further down, where a driver has a folder at its start.
    let mut folder = folders.for_worker().unwrap();
    folder.lend_to("a", CACHES);
    std::os::unix::fs::symlink(outside.path(), cache(&folder).join("driver")).unwrap();
    drop(folder);
    let mut folder = folders.for_worker().unwrap();
    make(&cache(&folder).join("driver/objects")).unwrap();
    folder.lend_to("a", CACHES);
    drop(folder);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn folders_of_servers_that_are_gone_are_removed_and_of_others_not() {
    let root = tempfile::tempdir().unwrap();
    let gone = root.path().join("servers/1-1");
    make(&gone.join("0/tmp")).unwrap();
    fs::write(gone.join("lock"), "").unwrap();
    let first = Folders::open(root.path(), false, None, None).unwrap();
    let folder = first.for_worker().unwrap();
    let second = Folders::open(root.path(), false, None, None).unwrap();
    drop(second);
    assert!(!gone.exists() && folder.path.join("tmp").is_dir());
    drop((folder, first));
    assert_eq!(fs::read_dir(root.path().join("servers")).unwrap().count(), 0);
}
fn key(byte: u8) -> PublicKey {
    PublicKey::new([byte; 32])
}

/// Those who have caches.
fn kept(root: &Path) -> BTreeSet<String> {
    fs::read_dir(root.join("clients")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn names(keys: &[u8]) -> BTreeSet<String> {
    keys.iter().map(|byte| folder_of(&key(*byte))).collect()
}

#[test]
fn caches_of_clients_that_were_removed_are_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let open = || Folders::open(root.path(), true, None, Some(Path::new("/state"))).unwrap();
    let session = |folders: &Folders, client: u8| {
        let mut folder = folders.for_worker().unwrap();
        folder.lend_to(&folder_of(&key(client)), CACHES);
        folder
    };
    let folders = open();
    folders.rules_name(&[key(1), key(2), key(3)].into(), true);
    let both = (session(&folders, 1), session(&folders, 2));
    drop((session(&folders, 1), session(&folders, 3), session(&folders, 4)));
    assert_eq!(kept(root.path()), names(&[1, 3, 4]));
    folders.rules_name(&[key(3)].into(), true);
    // Also not of sessions that end later.
    drop((both, folders));
    assert_eq!(kept(root.path()), names(&[3, 4]));
    // A server that was not there when a client was removed; nor knows it those of certificates, ...
    let other = Folders::open(root.path(), true, None, Some(Path::new("/other"))).unwrap();
    other.rules_name(&BTreeSet::new(), true);
    drop(other);
    let folders = open();
    folders.rules_name(&BTreeSet::new(), false);
    drop(folders);
    assert_eq!(kept(root.path()), names(&[3, 4]));
    // ... if there are such.
    let folders = open();
    folders.rules_name(&[key(4)].into(), true);
    drop(folders);
    assert_eq!(kept(root.path()), names(&[4]));
}

#[test]
fn caches_are_bounded_when_a_session_has_ended() {
    let root = tempfile::tempdir().unwrap();
    let folders = Folders::open(root.path(), true, None, None).unwrap();
    let mut folder = folders.for_worker().unwrap();
    folder.lend_to("a", 1000);
    fs::write(cache(&folder).join("small"), [0; 900]).unwrap();
    fs::write(cache(&folder).join("large"), [0; 2000]).unwrap();
    let old = SystemTime::now() - Duration::from_secs(100);
    let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
    File::options().write(true).open(cache(&folder).join("large")).unwrap().set_times(times).unwrap();
    drop((folder, folders));
    let kept = root.path().join("clients/a/0");
    assert!(kept.join("small").exists() && !kept.join("large").exists());
}
