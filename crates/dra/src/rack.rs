//! What a broker has, and the leases on it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ropeway_lease::connection::{BrokerError, Connection};
use ropeway_lease::grant::{LeaseId, Share, WHOLE};
use ropeway_lease::messages::{Ask, Lease, LeaseAsk, PoolServer, Tell};
use ropeway_lease::want::Want;
use ropeway_transport::Endpoint;
use ropeway_transport::tls::Identity;

use crate::names;

/// How long connecting to a broker may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a broker has for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A connection to a broker.
pub struct Rack(Connection);

impl Rack {
    /// Connects to the one of these brokers that leads; `program` is what its lists say of who asks.
    pub fn open(brokers: &[Endpoint], program: &str) -> Result<Self, BrokerError> {
        Connection::open(brokers, program, CONNECT).map(Self)
    }

    /// All servers with these properties of their devices.
    pub fn servers(&mut self, properties: &[&str]) -> Result<Vec<PoolServer>, BrokerError> {
        let properties: Vec<String> = properties.iter().map(|name| (*name).to_owned()).collect();
        let (mut servers, mut from) = (Vec::new(), 0);
        loop {
            let Tell::Pool { servers: more, next } =
                self.0.ask(&Ask::Pool { from, properties: properties.clone() }, ANSWER)?
            else {
                return Err(BrokerError::strange());
            };
            servers.extend(more);
            match next {
                Some(next) if next > from => from = next,
                Some(_) => return Err(BrokerError::strange()),
                None => return Ok(servers),
            }
        }
    }

    /// A lease on what is wanted, waited for up to `wait`, which lasts for `lasts` unless it is renewed.
    pub fn lease(
        &mut self,
        want: Want,
        identity: &Identity,
        wait: Duration,
        lasts: Duration,
    ) -> Result<Lease, BrokerError> {
        let ask = LeaseAsk {
            want,
            key: identity.public().text(),
            for_ms: Some(lasts.as_millis() as u64),
            wait_ms: Some(wait.as_millis() as u64),
            priority: 0,
            expected_ms: None,
        };
        // The broker itself gives the request up; this is for one that cannot.
        let lease = self.0.obtain(ask, Some(Instant::now() + wait + ANSWER), |_, _| {})?;
        lease.ok_or_else(|| BrokerError::Unreachable("the broker gives no answer".to_owned()))
    }

    /// Makes a lease last for `lasts` from now; returns its new proof.
    pub fn renew(&mut self, lease: LeaseId, lasts: Duration) -> Result<String, BrokerError> {
        match self.0.ask(&Ask::Renew { lease, for_ms: Some(lasts.as_millis() as u64) }, ANSWER)? {
            Tell::Renewed { lease: renewed, certificate, .. } if renewed == lease => Ok(certificate),
            _ => Err(BrokerError::strange()),
        }
    }

    /// Gives a lease back.
    pub fn release(&mut self, lease: LeaseId) -> Result<(), BrokerError> {
        self.0.ask(&Ask::Release { lease }, ANSWER).map(drop)
    }

    /// The leases of this user that are not over: the name of the program that holds each, and its number.
    pub fn held(&mut self) -> Result<Vec<(String, LeaseId)>, BrokerError> {
        let Tell::Leases { leases, .. } = self.0.ask(&Ask::Leases { all: false }, ANSWER)? else {
            return Err(BrokerError::strange());
        };
        let held = leases.into_iter().filter(|line| line.lasts_ms.is_some());
        Ok(held.map(|line| (line.program, line.lease)).collect())
    }
}

/// The request for exactly these devices of the cluster: of one that it has several shares of, their sum.
///
/// # Errors
/// The broker does not have one of them: one sentence.
pub fn want(devices: &[String], servers: &[PoolServer]) -> Result<Want, String> {
    let mut shares: BTreeMap<(&str, usize), Share> = BTreeMap::new();
    for name in devices {
        let found = names::find(name, servers)
            .ok_or_else(|| format!("the broker has no device '{name}' any more; delete the claim and make it again"))?;
        *shares.entry((&found.server.key, found.number)).or_default() += WHOLE / found.shares;
    }
    let group = |((server, number), share): (&(&str, usize), &Share)| {
        let part = f64::from(*share) / f64::from(WHOLE);
        format!("1 device, server={server}, device={number}, share={part}")
    };
    shares.iter().map(group).collect::<Vec<_>>().join(" and ").parse()
}

#[cfg(test)]
mod tests {
    use ropeway_lease::messages::PoolDevice;
    use ropeway_lease::property::Properties;

    use super::*;

    #[test]
    fn a_claim_asks_for_exactly_its_devices() {
        let device = || PoolDevice { properties: Properties::new(), others: 0 };
        let server = |key: &str| PoolServer {
            name: "rack".into(),
            key: key.into(),
            online: true,
            devices: vec![device(), device()],
        };
        let servers = [server("k1"), server("k2")];
        let named = |key: &str, number| names::device("rack", key, number);
        let wanted = want(&[named("k2", 1), named("k1", 0)], &servers).unwrap();
        assert_eq!(wanted.to_string(), "1 device, server=k1, device=0 and 1 device, server=k2, device=1");
        let shares = names::shares(&named("k1", 1), 4);
        let wanted = want(&[shares[0].clone(), named("k2", 0), shares[3].clone()], &servers).unwrap();
        assert_eq!(wanted.to_string(), "1 device, server=k1, device=1, share=0.5 and 1 device, server=k2, device=0");
        assert_eq!(want(&shares, &servers).unwrap().to_string(), "1 device, server=k1, device=1");
        let error = want(&[named("k3", 0)], &servers).unwrap_err();
        assert!(error.contains("has no device 'rack-"), "{error}");
        // As many as a claim can have (resource.k8s.io/v1, AllocationResultsMaxSize), of keys as long as they are.
        let many = PoolServer { key: "k".repeat(43), devices: (0..32).map(|_| device()).collect(), ..server("") };
        let names: Vec<_> = (0..32).map(|number| named(&many.key, number)).collect();
        assert_eq!(want(&names, &[many]).unwrap().devices(), 32);
    }
}
