//! What is wanted, each kind once, with the devices that fit it.

use std::collections::HashMap;

use fixedbitset::FixedBitSet;
use ropeway_lease::want::Want;

use super::placement::possible;
use super::pool::Pool;

/// Most kinds that are remembered though nobody waits for them.
const MAX_IDLE: usize = 4096;

/// The place of a kind among all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WantIndex(pub u32);

/// A kind of request.
#[derive(Debug)]
pub struct Known {
    /// What is wanted.
    pub want: Want,
    /// For each of its groups, the devices that it can use at all.
    pub usable: Vec<FixedBitSet>,
    /// The pool's generation for which that is true.
    generation: Option<u64>,
    /// Whether it could be met by all devices of the pool.
    possible: Result<(), String>,
    /// How many wait for it.
    waiting: u32,
}

/// All kinds of requests that wait, and some that did.
#[derive(Default, Debug)]
pub struct Wants {
    all: Vec<Known>,
    by_want: HashMap<Want, WantIndex>,
    /// Places where nothing is.
    empty: Vec<WantIndex>,
    idle: usize,
}

impl Wants {
    /// The place of this kind, for somebody who waits for it.
    ///
    /// # Errors
    /// It can never be met by the devices that there are: one sentence.
    pub fn wait_for(&mut self, want: &Want, pool: &Pool) -> Result<WantIndex, String> {
        let index = match self.by_want.get(want) {
            Some(index) => *index,
            None => {
                if self.idle >= MAX_IDLE {
                    self.forget_idle();
                }
                self.idle += 1;
                self.add(want)
            }
        };
        self.look_at(index, pool).possible.clone()?;
        let known = &mut self.all[index.0 as usize];
        self.idle -= usize::from(known.waiting == 0);
        known.waiting += 1;
        Ok(index)
    }

    /// Somebody does not wait for it any more.
    pub fn left(&mut self, index: WantIndex) {
        let known = &mut self.all[index.0 as usize];
        known.waiting -= 1;
        self.idle += usize::from(known.waiting == 0);
    }

    /// A kind, as the pool is now.
    pub fn look_at(&mut self, index: WantIndex, pool: &Pool) -> &Known {
        let known = &mut self.all[index.0 as usize];
        if known.generation != Some(pool.generation()) {
            known.usable = known.want.groups.iter().map(|group| pool.usable(group)).collect();
            known.possible = possible(pool, known);
            known.generation = Some(pool.generation());
        }
        known
    }

    /// A kind as it was looked at last.
    pub fn get(&self, index: WantIndex) -> &Known {
        &self.all[index.0 as usize]
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    fn add(&mut self, want: &Want) -> WantIndex {
        let known = Known { want: want.clone(), usable: Vec::new(), generation: None, possible: Ok(()), waiting: 0 };
        let index = self.empty.pop().unwrap_or(WantIndex(self.all.len() as u32));
        match self.all.get_mut(index.0 as usize) {
            Some(place) => *place = known,
            None => self.all.push(known),
        }
        self.by_want.insert(want.clone(), index);
        index
    }

    fn forget_idle(&mut self) {
        let all = &self.all;
        let idle: Vec<_> = self.by_want.values().copied().filter(|index| all[index.0 as usize].waiting == 0).collect();
        for index in idle {
            let known = &mut self.all[index.0 as usize];
            known.usable = Vec::new();
            self.by_want.remove(&known.want);
            self.empty.push(index);
        }
        self.idle = 0;
    }
}

impl Known {
    /// A kind by itself, as the pool is now.
    pub fn of(want: &Want, pool: &Pool) -> Self {
        let usable = want.groups.iter().map(|group| pool.usable(group)).collect();
        Self { want: want.clone(), usable, generation: None, possible: Ok(()), waiting: 0 }
    }
}
