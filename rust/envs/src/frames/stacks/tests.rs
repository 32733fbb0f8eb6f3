use super::*;
use rlfast_core::rng::Stream;

const FRAME: usize = 3;
const STACK: usize = 4;

fn shown(stacks: &Stacks) -> Vec<Vec<u8>> {
    // SAFETY: a row of stacks is `STACK` frames.
    let row = |k| unsafe { std::slice::from_raw_parts(stacks.data().add(k * stacks.stride), STACK * FRAME) };
    (0..stacks.rows).map(|k| row(k).to_vec()).collect()
}

/// Stacks as plain vectors: a frame is one value, repeated.
fn expanded(model: &[u8]) -> Vec<u8> {
    model.iter().flat_map(|&value| [value; FRAME]).collect()
}

#[test]
fn stacks_equal_those_of_a_plain_model_and_never_change() {
    let mut random = Stream::named(3, "stacks");
    for envs in [1, 3] {
        let mut ring = StackRing::new(envs, STACK, FRAME).unwrap();
        let mut model = vec![vec![0_u8; STACK]; envs];
        let mut held: Vec<(Stacks, Vec<Vec<u8>>)> = Vec::new();
        for step in 0..400_usize {
            let value = |env: usize| (step * 7 + env) as u8;
            let kind = random.next_u64() % 8;
            let subset: Vec<usize> = (0..envs).filter(|_| random.next_u64().is_multiple_of(2)).collect();
            let some = (kind < 2 && !subset.is_empty()).then_some(&subset[..]);
            let named: Vec<usize> = some.map_or_else(|| (0..envs).collect(), <[_]>::to_vec);
            let fresh: Vec<bool> = named.iter().map(|_| kind % 3 == 1 && random.next_u64().is_multiple_of(2)).collect();
            let frames: Vec<u8> = named.iter().flat_map(|&env| [value(env); FRAME]).collect();
            // SAFETY: a frame for each environment.
            let stacks =
                unsafe { ring.push(some, Source::rows(frames.as_ptr(), FRAME as isize), Some(&fresh)) }.unwrap();
            for (k, &env) in named.iter().enumerate() {
                let line = &mut model[env];
                line.remove(0);
                line.push(value(env));
                if fresh[k] {
                    line.fill(value(env));
                }
            }
            let wanted: Vec<_> = named.iter().map(|&env| expanded(&model[env])).collect();
            assert_eq!(shown(&stacks), wanted);
            assert_eq!(shown(&ring.stacks(None).unwrap()), model.iter().map(|m| expanded(m)).collect::<Vec<_>>());
            held.push((stacks, wanted));
            for (stacks, wanted) in &held {
                assert_eq!(&shown(stacks), wanted, "what was shown has changed");
            }
            if held.len() > 50 {
                held.drain(..40);
            }
        }
    }
}

#[test]
fn frames_of_one_number_are_equal_and_shift_by_one() {
    let mut ring = StackRing::new(2, STACK, FRAME).unwrap();
    let push = |ring: &mut StackRing, value: u8, envs: Option<&[usize]>, fresh: Option<&[bool]>| {
        let frames = [value; 2 * FRAME];
        // SAFETY: a frame for each of two environments.
        unsafe { ring.push(envs, Source::rows(frames.as_ptr(), FRAME as isize), fresh) }.unwrap()
    };
    let first = push(&mut ring, 1, None, Some(&[true, true]));
    assert!((1..STACK).all(|j| first.numbers[j] == first.numbers[0]));
    assert_ne!(first.numbers[0], first.numbers[STACK]);
    let mut before = first;
    for step in 0..100_u8 {
        let after = push(&mut ring, step, None, None);
        for row in 0..2 {
            let (old, new) = (&before.numbers[row * STACK..][..STACK], &after.numbers[row * STACK..][..STACK]);
            assert_eq!(old[1..], new[..STACK - 1]);
            assert!(!old.contains(&new[STACK - 1]));
        }
        before = after;
    }
    let one = push(&mut ring, 9, Some(&[1]), None);
    assert_eq!(one.numbers[..STACK - 1], before.numbers[STACK + 1..]);
    let all = ring.stacks(None).unwrap();
    assert_eq!((&all.numbers[..STACK], &all.numbers[STACK..]), (&before.numbers[..STACK], &one.numbers[..]));
}

#[test]
fn stacks_can_be_set_and_put_among_others() {
    let mut ring = StackRing::new(3, STACK, FRAME).unwrap();
    let given: Vec<u8> = (0..(2 * STACK * FRAME) as u8).collect();
    // SAFETY: two stacks.
    unsafe { ring.set(Some(&[2, 0]), Source::rows(given.as_ptr(), (STACK * FRAME) as isize)) }.unwrap();
    let all = ring.stacks(None).unwrap();
    assert_eq!(shown(&all), [given[STACK * FRAME..].to_vec(), vec![0; STACK * FRAME], given[..STACK * FRAME].to_vec()]);
    let part = ring.stacks(Some(&[2])).unwrap();
    let mixed = all.with(&[1], &part).unwrap().unwrap();
    assert_eq!(shown(&mixed), [shown(&all)[0].clone(), shown(&part)[0].clone(), shown(&all)[2].clone()]);
    assert_eq!(mixed.numbers[STACK..2 * STACK], part.numbers[..]);
    for places in [&[3][..], &[-1], &[0, 1]] {
        assert!(all.with(places, &part).unwrap().is_none(), "{places:?}");
    }
    let other = StackRing::new(1, STACK, FRAME + 1).unwrap().stacks(None).unwrap();
    assert!(all.with(&[1], &other).unwrap().is_none());
}

#[test]
fn an_array_shows_stacks_by_its_address_and_its_first_axes() {
    let stacks = StackRing::new(2, STACK, FRAME).unwrap().stacks(None).unwrap();
    let (data, stride) = (stacks.data().cast_const(), stacks.stride as isize);
    let (rows, stack, frame) = (2, STACK, FRAME as isize);
    assert!(stacks.are_shown(data, &[rows, stack, 3], &[stride, frame, 1]));
    assert!(stacks.are_shown(data, &[rows, stack], &[stride, frame]));
    for (data, dims, strides) in [
        (data.wrapping_add(1), &[rows, stack][..], &[stride, frame][..]),
        (data, &[1, stack], &[stride, frame]),
        (data, &[rows, 1], &[stride, frame]),
        (data, &[rows, stack], &[0, frame]),
        (data, &[rows, stack], &[stride, 0]),
        (data, &[rows], &[stride]),
    ] {
        assert!(!stacks.are_shown(data, dims, strides), "{dims:?} {strides:?}");
    }
    assert_eq!(stacks.numbers_of(2, STACK * FRAME), Some(&stacks.numbers[..]));
    assert!(stacks.numbers_of(1, STACK * FRAME).is_none() && stacks.numbers_of(2, FRAME).is_none());
}

#[test]
fn sizes_and_environments_that_cannot_be_are_errors() {
    for (envs, stack, frame) in [(0, STACK, FRAME), (1, 0, FRAME), (1, MAX_STACK + 1, FRAME), (1, STACK, 0)] {
        assert!(StackRing::new(envs, stack, frame).is_err(), "{envs} {stack} {frame}");
    }
    let ring = StackRing::new(2, STACK, FRAME).unwrap();
    assert_eq!(ring.places(&[1, 0]).unwrap(), [1, 0]);
    for bad in [-1, 2] {
        let error = ring.places(&[0, bad]).unwrap_err().to_string();
        assert_eq!(error, format!("there are environments 0 to 1, got {bad}"));
    }
}

#[test]
fn shapes_flags_and_numbers_from_outside_are_checked() {
    let text = |error: Error| error.to_string();
    let found = text(StackRing::of_shape(1, STACK, &[1; MAX_AXES + 1], 1).unwrap_err());
    assert!(found.starts_with("frames need a shape of at most 8 axes, got"), "{found}");
    let mut ring = StackRing::of_shape(2, STACK, &[FRAME], 1).unwrap();
    let frames = [7_u8; 2 * FRAME];
    let source = Source::rows(frames.as_ptr(), FRAME as isize);
    // SAFETY: the frames outlive the calls, and there is one for each environment.
    unsafe {
        let found = text(ring.push_at(None, source, Some(&[true])).unwrap_err());
        assert_eq!(found, "2 frames need as many flags, got 1");
        assert!(ring.push_at(Some(&[2]), source, None).is_err() && ring.set_at(Some(&[-1]), source).is_err());
        let stacks = ring.push_at(Some(&[1]), source, Some(&[true])).unwrap();
        assert_eq!((stacks.rows, stacks.stack), (1, STACK));
    }
    assert!(ring.stacks_at(Some(&[0, 2])).is_err());
    assert_eq!(ring.stacks_at(Some(&[1, 0])).unwrap().rows, 2);
}
