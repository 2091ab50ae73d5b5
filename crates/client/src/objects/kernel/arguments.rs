//! A kernel's arguments, and which homes have them.
//!
//! In a context with one home the server gets each value when it is set. With several, values are kept here, together
//! with the objects that they name, and go to a home before the next launch there.

use std::collections::HashMap;
use std::sync::Arc;

use ropeway_protocol::ids::{DeviceQueueId, KernelId, MemoryId};
use ropeway_protocol::messages::SetKernelArg;
use ropeway_protocol::types::ArgValue;
use smallvec::SmallVec;

use super::Arg;
use crate::base::status::Result;
use crate::objects::home::Home;
use crate::objects::memory::Memory;
use crate::objects::sampler::Sampler;

/// All arguments of a kernel.
#[derive(Clone, Default)]
pub(super) struct Arguments {
    pub values: Vec<Option<Value>>,
    /// How often each was set to another value.
    changes: Vec<u32>,
    /// For each home's number, which of these changes have been sent there.
    homes: HashMap<usize, Vec<u32>>,
}

/// An argument's value.
#[derive(Clone)]
pub(super) enum Value {
    Bytes(SmallVec<[u8; 16]>),
    Memory(Option<Object<Memory>>),
    Sampler(Object<Sampler>),
    Queue(u64),
    Local(usize),
    Svm(Option<(MemoryId, u64)>),
}

/// An object that is an argument.
pub(super) struct Object<T> {
    name: u64,
    /// The name of the object whose storage a memory object uses.
    pub storage: u64,
    /// Where a sub-buffer begins.
    pub offset: usize,
    /// The object itself, held if it may still have to be made in other homes.
    pub held: Option<Arc<T>>,
}

impl<T> Clone for Object<T> {
    fn clone(&self) -> Self {
        Self { name: self.name, storage: self.storage, offset: self.offset, held: self.held.clone() }
    }
}

impl Value {
    /// Returns the value to keep for an argument; with `holds`, it holds the objects that it names.
    fn of(value: Arg<'_>, holds: bool) -> Self {
        match value {
            Arg::Bytes(bytes) => Self::Bytes(SmallVec::from_slice(bytes)),
            Arg::Memory(memory) => Self::Memory(memory.map(|memory| Object {
                name: memory.name(),
                storage: memory.storage_id(),
                offset: memory.offset(),
                held: holds.then(|| Arc::clone(memory)),
            })),
            Arg::Sampler(sampler) => Self::Sampler(Object {
                name: sampler.name(),
                storage: 0,
                offset: 0,
                held: holds.then(|| Arc::clone(sampler)),
            }),
            Arg::Queue(queue) => Self::Queue(queue.name()),
            Arg::Local(size) => Self::Local(size),
            Arg::Svm(region) => Self::Svm(region.map(crate::objects::svm::Region::place)),
        }
    }

    fn is(&self, value: Arg<'_>) -> bool {
        match (self, value) {
            (Self::Bytes(kept), Arg::Bytes(bytes)) => kept.as_slice() == bytes,
            (Self::Memory(kept), Arg::Memory(memory)) => {
                kept.as_ref().map(|kept| kept.name) == memory.map(|memory| memory.name())
            }
            (Self::Sampler(kept), Arg::Sampler(sampler)) => kept.name == sampler.name(),
            (Self::Queue(kept), Arg::Queue(queue)) => *kept == queue.name(),
            (Self::Local(kept), Arg::Local(size)) => *kept == size,
            (Self::Svm(kept), Arg::Svm(region)) => *kept == region.map(crate::objects::svm::Region::place),
            _ => false,
        }
    }

    /// Returns the value as messages to `home` carry it, after making its objects there.
    fn in_home(&self, home: &Home) -> Result<ArgValue<'_>> {
        Ok(match self {
            Self::Bytes(bytes) => ArgValue::Bytes(bytes),
            Self::Memory(None) => ArgValue::Memory(None),
            Self::Memory(Some(memory)) => {
                memory.held.as_ref().map_or(Ok(()), |held| held.ensure(home))?;
                ArgValue::Memory(Some(MemoryId(home.name(memory.name))))
            }
            Self::Sampler(sampler) => {
                sampler.held.as_ref().map_or(Ok(()), |held| held.ensure(home))?;
                ArgValue::Sampler(ropeway_protocol::ids::SamplerId(home.name(sampler.name)))
            }
            // Device queues exist only in contexts with one home.
            Self::Queue(name) => ArgValue::Queue(DeviceQueueId(home.name(*name))),
            Self::Local(size) => ArgValue::Local(*size as u64),
            Self::Svm(place) => ArgValue::Svm(*place),
        })
    }
}

impl Arguments {
    /// Returns `count` arguments without values.
    pub(super) fn none(count: usize) -> Self {
        Self { values: vec![None; count], changes: vec![0; count], homes: HashMap::new() }
    }

    /// The same values, for a kernel that is in no home yet.
    pub(super) fn copy(&self) -> Self {
        Self { homes: HashMap::new(), ..self.clone() }
    }

    /// How many have no value.
    pub(super) fn unset(&self) -> usize {
        self.values.iter().filter(|value| value.is_none()).count()
    }

    /// Whether an argument has this value.
    pub(super) fn has(&self, index: usize, value: Arg<'_>) -> bool {
        self.values.get(index).and_then(Option::as_ref).is_some_and(|kept| kept.is(value))
    }

    /// Sets an argument; with `holds`, holds the objects that the value names. Returns whether the argument had no
    /// value before.
    pub(super) fn set(&mut self, index: usize, value: Arg<'_>, holds: bool) -> bool {
        let (Some(place), Some(changes)) = (self.values.get_mut(index), self.changes.get_mut(index)) else {
            return false;
        };
        *changes = changes.wrapping_add(1);
        place.replace(Value::of(value, holds)).is_none()
    }

    /// Sends a home those values that it does not have yet; `kernel` is the kernel's name there.
    ///
    /// # Errors
    /// Those of making the objects there, [`crate::SERVER_LOST`].
    pub(super) fn send(&mut self, kernel: KernelId, home: &Home) -> Result<()> {
        let sent = self.homes.entry(home.number()).or_insert_with(|| vec![0; self.changes.len()]);
        let each = self.values.iter().zip(&self.changes).zip(sent).enumerate();
        for (index, ((value, changes), sent)) in each.filter(|(_, ((_, changes), sent))| *changes != *sent) {
            let Some(value) = value else { continue };
            home.connection().post(&SetKernelArg { kernel, index: index as u32, value: value.in_home(home)? })?;
            *sent = *changes;
        }
        Ok(())
    }

    /// One value on its way to the only home.
    pub(super) fn wire<'a>(value: Arg<'a>, home: &Home) -> ArgValue<'a> {
        match value {
            Arg::Bytes(bytes) => ArgValue::Bytes(bytes),
            Arg::Memory(memory) => ArgValue::Memory(memory.map(|memory| memory.id(home))),
            Arg::Sampler(sampler) => ArgValue::Sampler(sampler.id(home)),
            Arg::Queue(queue) => ArgValue::Queue(queue.id(home)),
            Arg::Local(size) => ArgValue::Local(size as u64),
            Arg::Svm(region) => ArgValue::Svm(region.map(crate::objects::svm::Region::place)),
        }
    }

    /// The offsets of all sub-buffers, or'ed: a power of two divides that if it divides each of them.
    pub(super) fn offsets(&self) -> usize {
        let offset = |value: &Option<Value>| match value {
            Some(Value::Memory(Some(memory))) => memory.offset,
            _ => 0,
        };
        self.values.iter().map(offset).fold(0, |all, one| all | one)
    }

    /// Bytes of local memory that they take.
    pub(super) fn local_bytes(&self) -> u64 {
        self.values.iter().map(|value| if let Some(Value::Local(size)) = value { *size as u64 } else { 0 }).sum()
    }
}
