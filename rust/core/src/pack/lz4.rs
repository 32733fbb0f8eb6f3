//! Unpacking of LZ4 blocks.
//!
//! `lz4_flex` copies a match that overlaps itself byte by byte, and frames with flat backgrounds are mostly such matches: for Pong this
//! function takes a sixth of its time. The format: <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>.

/// The shortest match.
const MATCH: usize = 4;
/// The longest copy that is done in one piece, beyond the bytes that are wanted.
const PIECE: usize = 16;

/// Unpacks a block to `out`, and returns the length of the result. Matches may begin in `key`, which stands before the result. None for
/// bytes that are no such block.
pub(super) fn unpack(block: &[u8], key: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut at, mut end) = (0, 0);
    loop {
        let token = *block.get(at)?;
        at += 1;
        let literals = length(block, &mut at, token >> 4)?;
        copy(block, at, out, end, literals)?;
        at += literals;
        end += literals;
        if at == block.len() {
            return Some(end);
        }
        let distance = usize::from(u16::from_le_bytes([*block.get(at)?, *block.get(at + 1)?]));
        at += 2;
        let mut left = length(block, &mut at, token & 15)? + MATCH;
        if distance == 0 || left > out.len() - end {
            return None;
        }
        if let Some(before) = distance.checked_sub(end).filter(|&before| before > 0) {
            let inside = left.min(before);
            copy(key, key.len().checked_sub(before)?, out, end, inside)?;
            end += inside;
            left -= inside;
        }
        if left > 0 {
            repeat(out, end, distance, left);
            end += left;
        }
    }
}

/// Reads the rest of a length, of which a token has `first`.
fn length(block: &[u8], at: &mut usize, first: u8) -> Option<usize> {
    let mut length = usize::from(first);
    if first == 15 {
        loop {
            let more = *block.get(*at)?;
            *at += 1;
            length += usize::from(more);
            if more < 255 {
                break;
            }
        }
    }
    Some(length)
}

/// Copies `length` bytes. Short copies write a whole piece, if there is room; later ones write over what is too much.
fn copy(from: &[u8], at: usize, out: &mut [u8], end: usize, length: usize) -> Option<()> {
    if length <= PIECE
        && let (Some(piece), Some(room)) = (from.get(at..at + PIECE), out.get_mut(end..end + PIECE))
    {
        room.copy_from_slice(piece);
        return Some(());
    }
    out.get_mut(end..end.checked_add(length)?)?.copy_from_slice(from.get(at..at + length)?);
    Some(())
}

/// Appends `length` bytes after `end`, each equal to the one `distance` before.
fn repeat(out: &mut [u8], end: usize, distance: usize, length: usize) {
    let start = end - distance;
    if distance == 1 {
        let value = out[start];
        return out[end..end + length].fill(value);
    }
    let mut done = 0;
    while done < length {
        let piece = (distance + done).min(length - done);
        out.copy_within(start..start + piece, end + done);
        done += piece;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_overlapping_matches() {
        // Three literals, a match of ten bytes three before, and two last literals.
        let block = [0x36, b'a', b'b', b'c', 3, 0, 0x20, b'x', b'y'];
        let mut out = [0; 15];
        assert_eq!(unpack(&block, &[], &mut out), Some(15));
        assert_eq!(&out, b"abcabcabcabcaxy");
    }

    #[test]
    fn a_match_may_run_from_the_key_into_the_result() {
        let block = [0x14, b'z', 3, 0, 0x10, b'.'];
        let mut out = [0; 10];
        assert_eq!(unpack(&block, b"..kl", &mut out), Some(10));
        assert_eq!(&out, b"zklzklzkl.");
    }

    #[test]
    fn a_block_that_does_not_fit_is_refused() {
        let block = [0x36, b'a', b'b', b'c', 3, 0, 0x20, b'x', b'y'];
        for room in 0..15 {
            assert_eq!(unpack(&block, &[], &mut vec![0; room]), None, "{room} bytes");
        }
        for cut in 0..block.len() {
            assert!(unpack(&block[..cut], &[], &mut [0; 15]).is_none_or(|length| length < 15));
        }
        assert_eq!(unpack(&[0x10, b'a', 0, 0, 0], &[], &mut [0; 15]), None, "a distance of 0");
        assert_eq!(unpack(&[0x10, b'a', 9, 0, 0], &[], &mut [0; 15]), None, "a distance beyond the key");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_unpacked_as_lz4_flex_does_or_refused(
            block in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..20], 0..60), key in prop::collection::vec(any::<u8>(), 0..40)
        ) {
            let (mut mine, mut theirs) = ([0; 300], [0; 300]);
            let found = unpack(&block, &key, &mut mine);
            let wanted = lz4_flex::block::decompress_into_with_dict(&block, &mut theirs, &key);
            if let (Some(length), Ok(wanted)) = (found, wanted) {
                prop_assert_eq!(length, wanted);
                prop_assert_eq!(&mine[..length], &theirs[..length]);
            }
        }
    }
}
