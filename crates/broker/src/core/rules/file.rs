//! `pool.toml`, as people write it.
//!
//! ```toml
//! [queue]
//! half_life = "24h"
//! ahead = "10m"
//! aging = "24h"
//! assumed = "24h"
//! planned = 8
//! preempt = 10
//! grace = "30s"
//!
//! [default]
//! devices = 4
//!
//! [users.alice]
//! weight = 2
//! device_hours = 100
//!
//! [groups.lab]
//! members = ["alice", "bob"]
//! memory = "640G"
//!
//! [reservations.course]
//! want = "4 gpu"
//! groups = ["lab"]
//! from = "2026-12-24T18:00:00Z"
//! until = "2026-12-24T20:00:00Z"
//! ```

use std::time::{Duration, SystemTime};

use humantime::parse_rfc3339;
use ropeway_daemon::access::{parse_size, parse_time};
use ropeway_lease::grant::WHOLE;
use toml_edit::{DocumentMut, Item, TableLike};

use super::{Group, Limits, QueueRules, Reservation, Rules};

/// Most reservations.
pub const MAX_RESERVATIONS: usize = 32;

/// Most requests for which devices can be kept in time.
const MAX_PLANNED: i64 = 32;

/// The longest time that can be set: none is reckoned with that could overflow.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

impl Rules {
    /// Reads the file's text.
    ///
    /// # Errors
    /// One sentence for a person, in one line: where, and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|why| {
            let lines = why.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('|'));
            let line = lines.collect::<Vec<_>>().join(": ");
            line.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
        let mut rules = Self::default();
        // Users take what they do not say from here, wherever it stands in the file.
        if let Some(item) = document.get("default") {
            rules.default = read_limits(table(item, "default")?, &Limits::default(), &[], "[default]")?;
        }
        for (name, item) in document.iter() {
            match name {
                "queue" => rules.queue = read_queue(table(item, name)?).map_err(|why| format!("[queue]: {why}"))?,
                "default" => {}
                "users" => {
                    for (user, item) in table(item, name)?.iter() {
                        let of = format!("user '{user}'");
                        let limits = read_limits(table(item, &of)?, &rules.default, &[], &of)?;
                        rules.users.insert(user.to_owned(), limits);
                    }
                }
                "groups" => {
                    for (group, item) in table(item, name)?.iter() {
                        let of = format!("group '{group}'");
                        let fields = table(item, &of)?;
                        let limits = read_limits(fields, &Limits::default(), &["members"], &of)?;
                        let members = names(fields, "members").map_err(|why| format!("{of}: {why}"))?;
                        rules.groups.insert(group.to_owned(), Group { members, limits });
                    }
                }
                "reservations" => {
                    for (name, item) in table(item, name)?.iter() {
                        let of = format!("reservation '{name}'");
                        let read = read_reservation(table(item, &of)?).map_err(|why| format!("{of}: {why}"))?;
                        rules.reservations.insert(name.to_owned(), read);
                    }
                }
                _ => {
                    return Err(format!(
                        "'{name}' is not known here; there are [queue], [default], [users.NAME], [groups.NAME] and [reservations.NAME]"
                    ));
                }
            }
        }
        rules.check()?;
        Ok(rules)
    }

    /// What no table can say for itself.
    fn check(&self) -> Result<(), String> {
        let mut seen = std::collections::BTreeMap::new();
        for (name, group) in &self.groups {
            for member in &group.members {
                if let Some(other) = seen.insert(member, name) {
                    return Err(format!("group '{name}': '{member}' is in group '{other}' already"));
                }
            }
        }
        if self.reservations.len() > MAX_RESERVATIONS {
            return Err(format!("there are {MAX_RESERVATIONS} reservations at most"));
        }
        for (name, reservation) in &self.reservations {
            if let Some(group) = reservation.groups.iter().find(|group| !self.groups.contains_key(*group)) {
                return Err(format!("reservation '{name}': there is no group '{group}'"));
            }
        }
        Ok(())
    }
}

fn table<'a>(item: &'a Item, name: &str) -> Result<&'a dyn TableLike, String> {
    item.as_table_like().ok_or_else(|| format!("{name} is not a table"))
}

fn text<'a>(item: &'a Item, field: &str) -> Result<&'a str, String> {
    item.as_str().ok_or_else(|| format!("'{field}' is not text"))
}

/// A time such as `"24h"`.
fn time(item: &Item, field: &str) -> Result<Duration, String> {
    let time = parse_time(text(item, field)?).map_err(|why| format!("'{field}': {why}"))?;
    if time > LONGEST { Err(format!("'{field}' is longer than a hundred years")) } else { Ok(time) }
}

/// A moment, since the beginning of 1970.
fn moment(item: &Item, field: &str) -> Result<Duration, String> {
    let wrong = || format!("'{field}' is not a time such as 2026-12-24T18:00:00Z");
    let at = match item.as_datetime() {
        Some(written) => parse_rfc3339(&written.to_string()).map_err(|_| wrong())?,
        None => parse_rfc3339(text(item, field)?).map_err(|_| wrong())?,
    };
    at.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| wrong())
}

/// A number that is not negative, with a point or without.
fn number(item: &Item, field: &str) -> Result<f64, String> {
    let number = item.as_float().or_else(|| item.as_integer().map(|number| number as f64));
    let number = number.filter(|number| number.is_finite() && (0.0..=1e9).contains(number));
    number.ok_or_else(|| format!("'{field}' is not a number from 0 on"))
}

fn whole<T: TryFrom<i64>>(item: &Item, field: &str) -> Result<T, String> {
    let number = item.as_integer().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("'{field}' is not a whole number that it may be"))
}

fn truth(item: &Item, field: &str) -> Result<bool, String> {
    item.as_bool().ok_or_else(|| format!("'{field}' is not true or false"))
}

fn names(fields: &dyn TableLike, field: &str) -> Result<Vec<String>, String> {
    let Some(item) = fields.get(field) else { return Ok(Vec::new()) };
    let wrong = || format!("'{field}' is not a list of names");
    let list = item.as_array().ok_or_else(wrong)?;
    list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

fn read_queue(fields: &dyn TableLike) -> Result<QueueRules, String> {
    let mut queue = QueueRules::default();
    for (field, item) in fields.iter() {
        match field {
            "half_life" => queue.half_life = time(item, field)?,
            "ahead" => queue.ahead = time(item, field)?,
            "aging" => queue.aging = time(item, field)?,
            "assumed" => queue.assumed = time(item, field)?,
            "planned" => {
                let planned = item.as_integer().filter(|planned| (1..=MAX_PLANNED).contains(planned));
                let planned = planned.ok_or_else(|| format!("'planned' is not a number from 1 to {MAX_PLANNED}"))?;
                queue.planned = planned as usize;
            }
            "preempt" => {
                let step: i32 = whole(item, field)?;
                if step < 1 {
                    return Err("'preempt' is not a difference of priorities from 1 on".to_owned());
                }
                queue.preempt = Some(step);
            }
            "grace" => queue.grace = time(item, field)?,
            _ => return Err(format!("'{field}' is not known")),
        }
    }
    Ok(queue)
}

fn read_limits(fields: &dyn TableLike, default: &Limits, others: &[&str], of: &str) -> Result<Limits, String> {
    let mut limits = default.clone();
    let mut read = |field: &str, item: &Item| {
        match field {
            "weight" => {
                limits.weight = number(item, field)?;
                if limits.weight < 0.001 {
                    return Err("'weight' is less than 0.001".to_owned());
                }
            }
            "devices" => limits.devices = Some((number(item, field)? * f64::from(WHOLE)).round() as u64),
            "memory" => limits.memory = Some(parse_size(text(item, field)?).map_err(|why| format!("'memory': {why}"))?),
            "device_hours" => limits.device_hours = Some(number(item, field)?),
            "waiting" => limits.waiting = Some(whole(item, field)?),
            "priority" => limits.priority = Some(whole(item, field)?),
            "preemptible" => limits.preemptible = truth(item, field)?,
            _ if others.contains(&field) => {}
            _ => return Err(format!("'{field}' is not known")),
        }
        Ok(())
    };
    fields.iter().try_for_each(|(field, item)| read(field, item)).map_err(|why| format!("{of}: {why}"))?;
    Ok(limits)
}

fn read_reservation(fields: &dyn TableLike) -> Result<Reservation, String> {
    let known = ["want", "users", "groups", "from", "until"];
    if let Some((field, _)) = fields.iter().find(|(field, _)| !known.contains(field)) {
        return Err(format!("'{field}' is not known"));
    }
    let needed = |field: &str| fields.get(field).ok_or_else(|| format!("it has no '{field}'"));
    let want = text(needed("want")?, "want")?.parse().map_err(|why| format!("'want': {why}"))?;
    let (users, groups) = (names(fields, "users")?, names(fields, "groups")?);
    if users.is_empty() && groups.is_empty() {
        return Err("it has neither 'users' nor 'groups'".to_owned());
    }
    let (from, until) = (moment(needed("from")?, "from")?, moment(needed("until")?, "until")?);
    if from >= until {
        return Err("'until' is not later than 'from'".to_owned());
    }
    Ok(Reservation { want, users, groups, from, until })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE_FILE: &str = r#"
        [users."bob b"]
        weight = 0.5
        devices = 2.5
        memory = "80G"
        device_hours = 100
        waiting = 7
        priority = -3
        preemptible = false
        [default]
        devices = 4
        [users.alice]
        [groups.lab]
        members = ["alice", "bob b"]
        weight = 3
        [queue]
        half_life = "2h"
        ahead = "1s"
        aging = "1h"
        assumed = "30m"
        planned = 3
        preempt = 10
        grace = "5s"
        [reservations.course]
        want = "4 gpu"
        users = ["carol"]
        groups = ["lab"]
        from = "1970-01-01T01:00:00Z"
        until = 1970-01-01T02:00:00Z
    "#;

    #[test]
    fn a_file_with_everything_is_read() {
        let rules = Rules::parse(WHOLE_FILE).unwrap();
        let bob = rules.user("bob b");
        assert_eq!((bob.weight, bob.devices, bob.memory), (0.5, Some(2500), Some(80 << 30)));
        assert_eq!((bob.device_hours, bob.waiting, bob.priority), (Some(100.0), Some(7), Some(-3)));
        assert!(!bob.preemptible && rules.user("alice").preemptible);
        assert_eq!((rules.user("alice").devices, rules.user("zoe").devices), (Some(4000), Some(4000)));
        assert_eq!((rules.group_of("alice"), rules.group_of("zoe")), (Some("lab"), None));
        assert_eq!((rules.groups["lab"].limits.weight, rules.groups["lab"].limits.devices), (3.0, None));
        let seconds = Duration::from_secs;
        assert_eq!(
            rules.queue,
            QueueRules {
                half_life: seconds(7200),
                ahead: seconds(1),
                aging: seconds(3600),
                assumed: seconds(1800),
                planned: 3,
                preempt: Some(10),
                grace: seconds(5),
            }
        );
        let course = &rules.reservations["course"];
        assert_eq!((course.from, course.until, course.want.devices()), (seconds(3600), seconds(7200), 4));
        assert_eq!(Rules::parse("").unwrap(), Rules::default());
    }

    #[test]
    fn a_wrong_file_says_where_in_one_line() {
        let reserved = |fields: &str| format!("[reservations.r]\n{fields}");
        let times = "from = 2026-01-01T00:00:00Z\nuntil = 2026-01-02T00:00:00Z\n";
        for (text, what) in [
            ("[queue]\ncolour = 1".to_owned(), "[queue]: 'colour' is not known"),
            ("[queue]\ngrace = 5".to_owned(), "[queue]: 'grace' is not text"),
            ("[queue]\ngrace = \"soon\"".to_owned(), "[queue]: 'grace': 'soon' is not a time"),
            ("[queue]\nhalf_life = \"9000y\"".to_owned(), "'half_life' is longer than"),
            ("[queue]\npreempt = 0".to_owned(), "'preempt' is not a difference"),
            ("[queue]\nplanned = 1000".to_owned(), "'planned' is not a number from 1"),
            ("[user.a]".to_owned(), "'user' is not known here; there are [queue]"),
            ("users = 1".to_owned(), "users is not a table"),
            ("[users.a]\nweight = 0".to_owned(), "user 'a': 'weight' is less than"),
            ("[users.a]\nweight = nan".to_owned(), "user 'a': 'weight' is not a number from 0"),
            ("[users.a]\ndevices = -1".to_owned(), "user 'a': 'devices' is not a number from 0"),
            ("[users.a]\nmembers = []".to_owned(), "user 'a': 'members' is not known"),
            ("[users.a]\nwaiting = 1.5".to_owned(), "user 'a': 'waiting' is not a whole number"),
            ("[default]\nmemory = \"much\"".to_owned(), "[default]: 'memory': 'much' is not a size"),
            ("[groups.g]\nmembers = [1]".to_owned(), "group 'g': 'members' is not a list of names"),
            ("[groups.g]\nmembers=['a']\n[groups.h]\nmembers=['a']".to_owned(), "'a' is in group 'g' already"),
            (reserved(times), "reservation 'r': it has no 'want'"),
            (reserved(&format!("want = 'gpu'\n{times}")), "reservation 'r': it has neither 'users' nor 'groups'"),
            (reserved(&format!("want = 'tpu'\nusers = ['a']\n{times}")), "reservation 'r': 'want': 'tpu' is not"),
            (reserved(&format!("want = 'gpu'\ngroups = ['g']\n{times}")), "there is no group 'g'"),
            (
                reserved("want = 'gpu'\nusers = ['a']\nfrom = 2026-01-02T00:00:00Z\nuntil = 2026-01-02T00:00:00Z"),
                "'until' is not later than 'from'",
            ),
            (reserved("want = 'gpu'\nusers = ['a']\nfrom = 'now'\nuntil = 'then'"), "'from' is not a time such as"),
            ("[queue".to_owned(), "TOML parse error"),
        ] {
            let why = Rules::parse(&text).unwrap_err();
            assert!(why.contains(what) && !why.contains('\n'), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n\t\u{e9}]{0,200}", at in 0..WHOLE_FILE.len(), with in "[ -~\n]{0,6}") {
            let _ = Rules::parse(&text);
            let mut changed = WHOLE_FILE.to_owned();
            changed.replace_range(at..(at + with.len() / 2).min(WHOLE_FILE.len()), &with);
            if let Err(why) = Rules::parse(&changed) {
                prop_assert!(!why.contains('\n'));
            }
        }
    }
}
