//! Frames packed in groups, any one of which is read back by itself.
//!
//! The first frame of a group is its *key*, packed alone. Every other frame is packed with the key as its dictionary, so a picture
//! that differs from the key in a few places takes a few bytes. Reading a frame unpacks the key and that frame, whatever the size
//! of the group. (A chain, each frame after its predecessor, would be a little smaller and need all frames before. On Pong, XOR with the
//! key is both larger and slower.) The packed bytes stay in this process, and hold whatever this module wrote.

mod lz4;

use std::cell::Cell;

use zstd_safe::{CCtx, DCtx};

use crate::memory::{self, Codec};

/// The level of zstd: higher ones take longer and gain little on frames.
const LEVEL: i32 = 1;

/// A group of packed frames: where each ends (u32), then their bytes. A frame that packing would not shorten is stored as it is.
#[derive(Debug)]
pub struct Packed(Box<[u8]>);

const WORD: usize = size_of::<u32>();

impl Packed {
    /// Packs the frames of `frame` bytes that stand one after the other in `raw`; None if there is no memory for the result, or if its
    /// length does not fit into 32 bits.
    #[must_use]
    pub fn new(codec: Codec, raw: &[u8], frame: usize) -> Option<Self> {
        let count = raw.len() / frame;
        let mut packed = Vec::new();
        packed.try_reserve(count * WORD + 2 * frame).ok()?;
        packed.resize(count * WORD, 0);
        let mut packer = Packer::new(codec, frame)?;
        let (key, _) = raw.split_at(frame);
        for (place, plain) in raw.chunks_exact(frame).enumerate() {
            let short = packer.pack(plain, if place == 0 { &[] } else { key });
            let bytes = short.unwrap_or(plain);
            packed.try_reserve(bytes.len()).ok()?;
            packed.extend_from_slice(bytes);
            let end = u32::try_from(packed.len()).ok()?;
            packed[place * WORD..][..WORD].copy_from_slice(&end.to_ne_bytes());
        }
        Some(Self(packed.into_boxed_slice()))
    }

    /// Returns the bytes that the group takes.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.0.len()
    }

    fn end(&self, place: usize) -> usize {
        let word = self.0[place * WORD..][..WORD].try_into().expect("invariant: four bytes");
        u32::from_ne_bytes(word) as usize
    }

    /// Returns the packed bytes of a frame of a group of `count`.
    fn frame(&self, place: usize, count: usize) -> &[u8] {
        let start = if place == 0 { count * WORD } else { self.end(place - 1) };
        &self.0[start..self.end(place)]
    }
}

/// The memory that packing needs.
struct Packer {
    /// The context of zstd; None for LZ4.
    zstd: Option<CCtx<'static>>,
    room: Vec<u8>,
    frame: usize,
}

impl Packer {
    fn new(codec: Codec, frame: usize) -> Option<Self> {
        let (zstd, length) = match codec {
            Codec::Lz4 => (None, lz4_flex::block::get_maximum_output_size(frame)),
            Codec::Zstd => (Some(CCtx::try_create()?), zstd_safe::compress_bound(frame)),
        };
        let mut room = Vec::new();
        room.try_reserve_exact(length).ok()?;
        room.resize(length, 0);
        Some(Self { zstd, room, frame })
    }

    /// Returns the packed frame; None if it is not shorter.
    fn pack(&mut self, plain: &[u8], key: &[u8]) -> Option<&[u8]> {
        let room = &mut self.room[..];
        let length = match &mut self.zstd {
            None if key.is_empty() => lz4_flex::block::compress_into(plain, room).ok()?,
            None => lz4_flex::block::compress_into_with_dict(plain, room, key).ok()?,
            // A key that looks like a dictionary of zstd and is none is refused; then the frame is stored as it is.
            Some(context) => context.compress_using_dict(room, plain, key, LEVEL).ok()?,
        };
        (length < self.frame).then(|| &self.room[..length])
    }
}

/// How many keys an [`Unpacker`] remembers. A stack of consecutive frames is in two groups at most.
const KEYS: usize = 2;

thread_local! {
    /// A context that is not in use. Making one takes longer than unpacking a frame.
    static SPARE: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// A reader of packed frames, with the keys that it unpacked last.
pub struct Unpacker {
    /// The context of zstd; None for LZ4.
    zstd: Option<DCtx<'static>>,
    /// For each remembered key the address of its group, and the unpacked frame.
    keys: [(*const u8, Vec<u8>); KEYS],
    /// The key that is forgotten next.
    oldest: usize,
    plain: Vec<u8>,
    /// Frames of each group.
    count: usize,
}

impl Unpacker {
    /// Returns a reader of groups of `count` frames.
    #[must_use]
    pub fn new(codec: Codec, count: usize) -> Self {
        let zstd = matches!(codec, Codec::Zstd).then(|| SPARE.take().unwrap_or_else(DCtx::create));
        let keys = std::array::from_fn(|_| (std::ptr::null(), Vec::new()));
        Self { zstd, keys, oldest: 0, plain: Vec::new(), count }
    }

    /// Returns a frame of a group, of `frame` bytes. The groups that are read must not be freed while the reader lives.
    ///
    /// # Panics
    /// If the group is not one of `count` such frames.
    pub fn read(&mut self, group: &Packed, place: usize, frame: usize) -> &[u8] {
        let at = group.0.as_ptr();
        let key = self.keys.iter().position(|(known, _)| *known == at).unwrap_or_else(|| {
            let key = self.oldest;
            self.oldest = (key + 1) % KEYS;
            self.keys[key].0 = at;
            unpack(&mut self.zstd, group.frame(0, self.count), &[], &mut self.keys[key].1, frame);
            key
        });
        let key = &self.keys[key].1;
        if place == 0 {
            return key;
        }
        unpack(&mut self.zstd, group.frame(place, self.count), key, &mut self.plain, frame);
        &self.plain
    }

    /// Copies a frame of a group.
    ///
    /// # Safety
    /// `dst` is writable for `frame` bytes.
    pub unsafe fn copy(&mut self, group: &Packed, place: usize, dst: *mut u8, frame: usize) {
        let plain = self.read(group, place, frame);
        // SAFETY: `plain` is a frame; the caller promises `dst`.
        unsafe { memory::copy(plain.as_ptr(), dst, frame) };
    }
}

impl Drop for Unpacker {
    fn drop(&mut self) {
        if let Some(context) = self.zstd.take() {
            // Where the thread is about to end, the context goes with it.
            let _ = SPARE.try_with(|spare| spare.set(Some(context)));
        }
    }
}

fn unpack(zstd: &mut Option<DCtx<'static>>, packed: &[u8], key: &[u8], plain: &mut Vec<u8>, frame: usize) {
    plain.resize(frame, 0);
    if packed.len() == frame {
        return plain.copy_from_slice(packed);
    }
    let length = match zstd {
        None => lz4::unpack(packed, key, plain),
        Some(context) => context.decompress_using_dict(&mut plain[..], packed, key).ok(),
    };
    assert_eq!(length, Some(frame), "invariant: a frame as it was packed");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn codecs() -> Vec<Codec> {
        if cfg!(miri) { vec![Codec::Lz4] } else { vec![Codec::Lz4, Codec::Zstd] } // miri cannot call C
    }

    fn check(frames: &[Vec<u8>], order: &[usize]) -> Vec<usize> {
        let frame = frames[0].len();
        let sizes = codecs().into_iter().map(|codec| {
            let packed = Packed::new(codec, &frames.concat(), frame).unwrap();
            let mut unpacker = Unpacker::new(codec, frames.len());
            for &place in order {
                assert_eq!(unpacker.read(&packed, place, frame), frames[place], "frame {place} of {codec:?}");
            }
            packed.nbytes()
        });
        sizes.collect()
    }

    #[test]
    fn frames_that_differ_in_few_places_take_few_bytes() {
        let noise: Vec<u8> = (0..7056_u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let frames: Vec<Vec<u8>> = (0..8)
            .map(|k| {
                let mut frame = noise.clone();
                frame[100 * k] ^= 1;
                frame
            })
            .collect();
        assert!(check(&frames, &[7, 0, 3, 3]).iter().all(|&bytes| bytes < 7056 + 7 * 100 + 64));
    }

    #[test]
    fn frames_that_cannot_be_shortened_are_stored_as_they_are() {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let frames: Vec<Vec<u8>> = (0..3).map(|_| (0..1024).map(|_| noise()).collect()).collect();
        assert!(check(&frames, &[0, 1, 2]).iter().all(|&bytes| (3072..=3072 + 12).contains(&bytes)));
    }

    #[test]
    fn a_key_that_looks_like_a_dictionary_is_a_frame_like_others() {
        let mut key = vec![3_u8; 2000];
        key[..4].copy_from_slice(&0xEC30_A437_u32.to_le_bytes());
        let mut other = key.clone();
        other[1000] = 9;
        check(&[key, other], &[1, 0]);
    }

    #[test]
    fn an_unpacker_reads_several_groups_in_turn() {
        for codec in codecs() {
            let groups: Vec<_> = (0..4_u8).map(|k| Packed::new(codec, &[k; 900], 300).unwrap()).collect();
            let mut unpacker = Unpacker::new(codec, 3);
            for k in [0, 1, 0, 2, 3, 1, 1, 0_u8] {
                assert_eq!(unpacker.read(&groups[usize::from(k)], 2, 300), [k; 300]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn frames_come_back_as_they_were(
            (base, patches) in (prop::collection::vec(prop_oneof![4 => Just(0_u8), 1 => any::<u8>()], 1..3000)).prop_flat_map(|base| {
                let patch = prop::collection::vec((0..base.len(), 1_usize..200, any::<u8>()), 0..6);
                (Just(base), prop::collection::vec(patch, 1..6))
            })
        ) {
            let frames: Vec<Vec<u8>> = patches.iter().map(|patch| {
                let mut frame = base.clone();
                for &(at, length, value) in patch {
                    let end = (at + length).min(frame.len());
                    frame[at..end].fill(value);
                }
                frame
            }).collect();
            let order: Vec<usize> = (0..frames.len()).rev().collect();
            check(&frames, &order);
        }
    }
}
