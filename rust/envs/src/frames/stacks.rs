//! Stacks of the newest frames of each environment, in which each frame is stored once.
//!
//! The memory of a [`StackRing`] has a lane for each environment. A step writes the newest frame behind the others, so the
//! stacks of all environments are one view of the lanes, which moves on by a frame. Frames that were shown are never
//! written again: when lanes are full, or environments do not all take the same step, the stacks move to new memory. Each
//! frame has a number, by which a replay buffer recognises it without reading it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rlfast_core::error::{Error, Result};
use rlfast_core::recycle::{Block, Recycler};
use rlfast_core::source::Source;
use rlfast_core::vectors::product;

/// The most axes of a frame.
const MAX_AXES: usize = 8;
/// The most frames of a stack.
const MAX_STACK: usize = 16;
/// The approximate bytes of the lanes of all environments.
const LANES: usize = 4 << 20;
/// The fewest and the most steps that lanes have room for.
const STEPS: (usize, usize) = (8, 32);
static BLOCKS: Recycler = Recycler::new(16, 64 << 20);
/// The number of the next frame of this process; 0 is no frame's.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Stacks of frames, one for each of some environments. Their bytes never change.
#[derive(Clone, Debug)]
pub struct Stacks {
    memory: Arc<Block>,
    offset: usize,
    /// Number of stacks.
    pub rows: usize,
    /// Frames of a stack.
    pub stack: usize,
    /// Bytes of a frame.
    pub frame: usize,
    /// Bytes from one stack to the next.
    pub stride: usize,
    /// The numbers of the frames of all stacks, in order.
    pub numbers: Box<[u64]>,
}

impl Stacks {
    /// Returns the address of the first stack, whose frames follow each other.
    #[must_use]
    pub fn data(&self) -> *mut u8 {
        self.memory.base().wrapping_add(self.offset)
    }

    /// Returns whether an array with this first byte, these lengths and strides shows the frames of all stacks, in its first axes.
    #[must_use]
    #[inline]
    pub fn are_shown(&self, data: *const u8, dims: &[usize], strides: &[isize]) -> bool {
        data == self.data().cast_const()
            && dims.len() >= 2
            && dims[..2] == [self.rows, self.stack]
            && strides[..2] == [self.stride as isize, self.frame as isize]
    }

    /// Returns the numbers of the frames of all stacks, in order, if there are `rows` stacks of `nbytes` bytes.
    #[must_use]
    #[inline]
    pub fn numbers_of(&self, rows: usize, nbytes: usize) -> Option<&[u64]> {
        (rows == self.rows && nbytes == self.stack * self.frame).then_some(&self.numbers)
    }

    /// Returns new stacks: those of `self`, in which stack `places[k]` is stack `k` of `part`. None if there is no such place, or
    /// the stacks of `part` are of another size or not as many as there are places.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn with(&self, places: &[i64], part: &Self) -> Result<Option<Self>> {
        if (part.rows, part.stack, part.frame) != (places.len(), self.stack, self.frame) {
            return Ok(None);
        }
        let mut sources: Vec<(&Self, usize)> = (0..self.rows).map(|row| (self, row)).collect();
        for (k, &place) in places.iter().enumerate() {
            let Some(source) = usize::try_from(place).ok().and_then(|place| sources.get_mut(place)) else {
                return Ok(None);
            };
            *source = (part, k);
        }
        let made =
            Self::empty(self.rows, self.stack, self.frame, sources.iter().flat_map(|(from, row)| from.of(*row)))?;
        for (row, (from, k)) in sources.into_iter().enumerate() {
            let (from, to) = (from.data().wrapping_add(k * from.stride), made.data().wrapping_add(row * made.stride));
            // SAFETY: both have whole stacks of this size, and the new memory is not known to others yet.
            unsafe { copy(from, to, made.stride) };
        }
        Ok(Some(made))
    }

    fn of(&self, row: usize) -> impl Iterator<Item = u64> + use<'_> {
        self.numbers[row * self.stack..][..self.stack].iter().copied()
    }

    /// Returns stacks whose bytes are still to be written.
    fn empty(rows: usize, stack: usize, frame: usize, numbers: impl Iterator<Item = u64>) -> Result<Self> {
        let memory = Arc::new(BLOCKS.block(product(&[rows, stack, frame])?)?);
        Ok(Self { memory, offset: 0, rows, stack, frame, stride: stack * frame, numbers: numbers.collect() })
    }
}

/// The newest frames of one environment.
#[derive(Clone, Debug)]
struct Lane {
    memory: Arc<Block>,
    /// Where the stack begins.
    offset: usize,
    numbers: Vec<u64>,
}

impl Lane {
    fn at(&self, bytes: usize) -> *mut u8 {
        self.memory.base().wrapping_add(self.offset + bytes)
    }
}

/// The newest frames of some environments.
#[derive(Debug)]
pub struct StackRing {
    stack: usize,
    frame: usize,
    /// Frames of a lane of the shared memory.
    slots: usize,
    lanes: Vec<Lane>,
    /// The frame of the shared memory with which the stacks of all environments begin; None if they are elsewhere.
    at: Option<usize>,
}

impl StackRing {
    /// Returns a ring for `envs` environments with stacks of `stack` frames of `frame` bytes, which are zeros.
    ///
    /// # Errors
    /// `Value` if a number is 0 or the stacks are longer than [`MAX_STACK`], `Room` or `Memory` if there is not enough memory.
    pub fn new(envs: usize, stack: usize, frame: usize) -> Result<Self> {
        if envs == 0 || frame == 0 || !(1..=MAX_STACK).contains(&stack) {
            let text = format!(
                "frames need an environment, stacks of 1 to {MAX_STACK} frames, and a shape without zeros; got {envs}, {stack} \
                 and frames of {frame} bytes"
            );
            return Err(Error::Value(text));
        }
        let steps = (LANES / product(&[envs, frame])?).clamp(STEPS.0, STEPS.1);
        let slots = stack - 1 + steps;
        let memory = Arc::new(BLOCKS.block(product(&[envs, slots, frame])?)?);
        let numbers = vec![number(); stack];
        let lane = |env| Lane { memory: memory.clone(), offset: env * slots * frame, numbers: numbers.clone() };
        let ring = Self { stack, frame, slots, lanes: (0..envs).map(lane).collect(), at: Some(0) };
        for lane in &ring.lanes {
            // SAFETY: the first `stack` frames of a lane, which nobody else knows yet.
            unsafe { lane.at(0).write_bytes(0, stack * frame) };
        }
        Ok(ring)
    }

    /// Returns a ring for frames of a shape, whose elements have `itemsize` bytes.
    ///
    /// # Errors
    /// As [`Self::new`], and `Value` for a shape of more than [`MAX_AXES`] axes.
    pub fn of_shape(envs: usize, stack: usize, shape: &[usize], itemsize: usize) -> Result<Self> {
        let frame = product(&[shape, &[itemsize]].concat())?;
        if shape.len() > MAX_AXES {
            let text = format!("frames need a shape of at most {MAX_AXES} axes, got {shape:?}");
            return Err(Error::Value(text));
        }
        Self::new(envs, stack, frame)
    }

    /// Returns the number of environments.
    #[must_use]
    pub fn envs(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the environments with these numbers.
    ///
    /// # Errors
    /// `Index` for one that does not exist.
    pub fn places(&self, ids: &[i64]) -> Result<Vec<usize>> {
        let unknown = |id| Error::Index(format!("there are environments 0 to {}, got {id}", self.envs() - 1));
        let place = |&id| usize::try_from(id).ok().filter(|&env| env < self.envs()).ok_or_else(|| unknown(id));
        ids.iter().map(place).collect()
    }

    /// Adds frames as [`Self::push`] does, for the environments with these numbers.
    ///
    /// # Errors
    /// As [`Self::places`] and `push`, and `Value` where there are not as many flags as frames.
    ///
    /// # Safety
    /// As `push`.
    pub unsafe fn push_at(&mut self, ids: Option<&[i64]>, frames: Source, fresh: Option<&[bool]>) -> Result<Stacks> {
        let envs = ids.map(|ids| self.places(ids)).transpose()?;
        let count = ids.map_or(self.envs(), <[_]>::len);
        if let Some(fresh) = fresh.filter(|fresh| fresh.len() != count) {
            return Err(Error::Value(format!("{count} frames need as many flags, got {}", fresh.len())));
        }
        // SAFETY: the caller's promise.
        unsafe { self.push(envs.as_deref(), frames, fresh) }
    }

    /// Returns the stacks of the environments with these numbers (None for all).
    ///
    /// # Errors
    /// As [`Self::places`] and [`Self::stacks`].
    pub fn stacks_at(&mut self, ids: Option<&[i64]>) -> Result<Stacks> {
        let envs = ids.map(|ids| self.places(ids)).transpose()?;
        self.stacks(envs.as_deref())
    }

    /// Replaces the stacks of the environments with these numbers (None for all).
    ///
    /// # Errors
    /// As [`Self::places`] and [`Self::set`].
    ///
    /// # Safety
    /// As `set`.
    pub unsafe fn set_at(&mut self, ids: Option<&[i64]>, stacks: Source) -> Result<()> {
        let envs = ids.map(|ids| self.places(ids)).transpose()?;
        // SAFETY: the caller's promise.
        unsafe { self.set(envs.as_deref(), stacks) }
    }

    /// Adds a frame for each of `envs` (None for all), and returns their stacks. Where `fresh` is true, the stack is
    /// forgotten, and the frame fills the new one.
    ///
    /// # Errors
    /// If there is no memory; nothing is changed then.
    ///
    /// # Panics
    /// If an environment does not exist, or there are not as many flags.
    ///
    /// # Safety
    /// Each environment occurs once, and the frame of the `k`-th of them is readable as row `k` of `frames`.
    pub unsafe fn push(&mut self, envs: Option<&[usize]>, frames: Source, fresh: Option<&[bool]>) -> Result<Stacks> {
        let count = envs.map_or(self.envs(), <[_]>::len);
        assert!(fresh.is_none_or(|fresh| fresh.len() == count), "a flag for each environment");
        let fresh = fresh.filter(|fresh| fresh.contains(&true));
        match (envs, fresh, self.at) {
            (None, None, Some(at)) if at + self.stack < self.slots => {
                let (frame, newest) = (self.frame, self.stack * self.frame);
                for (env, lane) in self.lanes.iter_mut().enumerate() {
                    // SAFETY: the caller promises the frame; its place in the lane was never shown.
                    unsafe { copy(frames.row(env), lane.at(newest), frame) };
                    lane.offset += frame;
                    lane.numbers.rotate_left(1);
                    lane.numbers[self.stack - 1] = number();
                }
                self.at = Some(at + 1);
            }
            // SAFETY: the caller's promise.
            _ => unsafe {
                self.move_on(envs, |k, is_newest| (is_newest || fresh.is_some_and(|f| f[k])).then(|| frames.row(k)))?
            },
        }
        self.stacks(envs)
    }

    /// Replaces the stacks of `envs` (None for all).
    ///
    /// # Errors
    /// If there is no memory; nothing is changed then.
    ///
    /// # Panics
    /// If an environment does not exist.
    ///
    /// # Safety
    /// As `push`, for whole stacks.
    pub unsafe fn set(&mut self, envs: Option<&[usize]>, stacks: Source) -> Result<()> {
        let places: Vec<usize> = envs.map_or_else(|| (0..self.envs()).collect(), <[_]>::to_vec);
        let numbers = places.iter().flat_map(|_| (0..self.stack).map(|_| number()));
        let made = Stacks::empty(places.len(), self.stack, self.frame, numbers)?;
        for (k, &env) in places.iter().enumerate() {
            // SAFETY: the caller promises the stack; the new memory is not known to others yet.
            unsafe { copy(stacks.row(k), made.data().add(k * made.stride), made.stride) };
            self.lanes[env] = self.lane_of(&made, k);
        }
        self.at = None;
        Ok(())
    }

    /// Returns the stacks of `envs` (None for all).
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// # Panics
    /// If an environment does not exist.
    pub fn stacks(&mut self, envs: Option<&[usize]>) -> Result<Stacks> {
        if envs.is_none() {
            if self.at.is_none() {
                // SAFETY: no frame is asked for.
                unsafe { self.gather_lanes()? };
            }
            let (memory, offset) = (self.lanes[0].memory.clone(), self.lanes[0].offset);
            let numbers = self.lanes.iter().flat_map(|lane| lane.numbers.iter().copied()).collect();
            let (stack, frame) = (self.stack, self.frame);
            return Ok(Stacks { memory, offset, rows: self.envs(), stack, frame, stride: self.slots * frame, numbers });
        }
        let lanes: Vec<&Lane> = envs.unwrap_or_default().iter().map(|&env| &self.lanes[env]).collect();
        let numbers = lanes.iter().flat_map(|lane| lane.numbers.iter().copied());
        let made = Stacks::empty(lanes.len(), self.stack, self.frame, numbers)?;
        for (k, lane) in lanes.into_iter().enumerate() {
            // SAFETY: both are whole stacks, and the new memory is not known to others yet.
            unsafe { copy(lane.at(0), made.data().add(k * made.stride), made.stride) };
        }
        Ok(made)
    }

    /// Adds frames in new memory. `frame_of(k, is_newest)` is the frame that the `k`-th environment takes at the newest
    /// place and at others; None for that of the stack before.
    ///
    /// # Safety
    /// The frames are readable.
    unsafe fn move_on(
        &mut self,
        envs: Option<&[usize]>,
        frame_of: impl Fn(usize, bool) -> Option<*const u8>,
    ) -> Result<()> {
        let (count, slots) = envs.map_or((self.envs(), self.slots), |envs| (envs.len(), self.stack));
        let memory = Arc::new(BLOCKS.block(product(&[count, slots, self.frame])?)?);
        for k in 0..count {
            let env = envs.map_or(k, |envs| envs[k]);
            let (before, newest) = (&self.lanes[env], number());
            let mut lane = Lane { memory: memory.clone(), offset: k * slots * self.frame, numbers: Vec::new() };
            for j in 0..self.stack {
                let given = frame_of(k, j + 1 == self.stack);
                lane.numbers.push(if given.is_some() { newest } else { before.numbers[j + 1] });
                let from = given.unwrap_or_else(|| before.at((j + 1) * self.frame));
                // SAFETY: a frame of the caller's or of the stack before; the new memory was never shown.
                unsafe { copy(from, lane.at(j * self.frame), self.frame) };
            }
            self.lanes[env] = lane;
        }
        self.at = if envs.is_none() { Some(0) } else { None };
        Ok(())
    }

    /// Moves the stacks of all environments to new shared memory.
    unsafe fn gather_lanes(&mut self) -> Result<()> {
        let memory = Arc::new(BLOCKS.block(product(&[self.envs(), self.slots, self.frame])?)?);
        for (env, lane) in self.lanes.iter_mut().enumerate() {
            let (from, offset) = (lane.at(0), env * self.slots * self.frame);
            // SAFETY: whole stacks; the new memory was never shown.
            unsafe { copy(from, memory.base().add(offset), self.stack * self.frame) };
            (lane.memory, lane.offset) = (memory.clone(), offset);
        }
        self.at = Some(0);
        Ok(())
    }

    fn lane_of(&self, stacks: &Stacks, row: usize) -> Lane {
        let numbers = stacks.of(row).collect();
        Lane { memory: stacks.memory.clone(), offset: stacks.offset + row * stacks.stride, numbers }
    }
}

fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// # Safety
/// `from` is readable and `to` writable for `bytes`, and they do not overlap.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

#[cfg(test)]
mod tests;
