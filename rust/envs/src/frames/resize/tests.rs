use super::*;

/// Pixels in no order.
fn noise(count: usize) -> Vec<u8> {
    (0..count as u32).map(|i| (i.wrapping_add(7).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// The mean over the area, by the definition, in units of 1 / (target rows * target columns) of a pixel.
fn mean_by_definition(frame: &[u8], source: [usize; 2], target: [usize; 2], row: usize, column: usize) -> u8 {
    let overlap = |axis: usize, index: usize, pixel: usize| {
        let (start, end) = (index * source[axis], (index + 1) * source[axis]);
        end.min((pixel + 1) * target[axis]).saturating_sub(start.max(pixel * target[axis])) as u64
    };
    let mut total = 0;
    for y in (0..source[0]).filter(|&y| overlap(0, row, y) > 0) {
        for x in 0..source[1] {
            total += overlap(0, row, y) * overlap(1, column, x) * u64::from(frame[y * source[1] + x]);
        }
    }
    let area = (source[0] * source[1]) as u64;
    let (below, twice) = (total / area, 2 * (total % area));
    (below + u64::from(twice > area || twice == area && below % 2 == 1)) as u8
}

fn check(source: [usize; 2], target: [usize; 2]) {
    let frame = noise(source[0] * source[1]);
    let mut out = vec![0; target[0] * target[1]];
    AreaResize::new(source, target).expect("sizes are fine").resize(&frame, &mut out);
    for (i, &got) in out.iter().enumerate() {
        let wanted = mean_by_definition(&frame, source, target, i / target[1], i % target[1]);
        assert_eq!(got, wanted, "{source:?} to {target:?}, pixel {i}");
    }
}

#[test]
fn pixels_are_means_of_what_they_cover() {
    for (source, target) in [
        ([210, 160], [84, 84]),
        ([250, 160], [84, 84]),
        ([7, 5], [3, 2]),
        ([6, 4], [3, 2]),
        ([5, 5], [5, 5]),
        ([9, 1], [1, 1]),
        ([31, 17], [30, 16]),
    ] {
        check(source, target);
    }
}

#[test]
fn any_two_widths_are_means_of_what_they_cover() {
    for source in 1..40 {
        for target in 1..=source {
            check([6, source], [4, target]);
            check([4, source], [4, target]);
        }
    }
    check([128, 33], [1, 20]);
    check([129, 33], [1, 20]); // sums beyond 15 bits
}

#[test]
#[cfg(target_arch = "x86_64")]
fn processors_with_shuffles_use_them_for_screens() {
    let quick = |source, target| AreaResize::new(source, target).expect("sizes are fine").shuffles.is_some();
    assert_eq!(quick([210, 160], [84, 84]), is_x86_feature_detected!("avx2"));
    assert!(!quick([210, 160], [84, 20]));
    assert!(!quick([129, 33], [1, 20]));
}

#[test]
fn the_extremes_stay() {
    for size in [[210, 160], [771, 5], [257, LARGEST]] {
        for value in [0, 1, 254, 255] {
            let mut out = [0; 9];
            AreaResize::new(size, [3, 3]).expect("sizes are fine").resize(&vec![value; size[0] * size[1]], &mut out);
            assert_eq!(out, [value; 9], "{size:?}");
        }
    }
}

#[test]
fn every_total_is_divided_as_by_division() {
    for divisor in [1, 2, 3, 7, 199, 200, 4600, 65_537, LARGEST_TOTAL * LARGEST as u32] {
        let mean = Mean::of(divisor);
        let close = (0..=255 * divisor).step_by(1 + divisor as usize / 64);
        let ties = (0..255).flat_map(|whole| [0, 1, 2].map(|k| (whole * divisor + divisor / 2 + k).saturating_sub(1)));
        for total in close.chain(ties.filter(|&total| total <= 255 * divisor)) {
            let (below, twice) = (total / divisor, 2 * (total % divisor));
            let wanted = below + u32::from(twice > divisor || twice == divisor && below % 2 == 1);
            assert_eq!(u32::from(mean.rounded(total)), wanted, "{total} / {divisor}");
        }
    }
}

#[test]
fn sizes_that_are_not_smaller_are_refused() {
    for target in [[0, 1], [1, 0], [3, 2], [2, 3]] {
        let error = AreaResize::new([2, 2], target).expect_err("not smaller");
        assert_eq!(error, ResizeError::Size { source_size: [2, 2], target });
    }
    for size in [[2, 4097], [1 << 40, 2]] {
        assert_eq!(AreaResize::new(size, size).expect_err("too large"), ResizeError::Large(size));
    }
    assert_eq!(AreaResize::new([263, 2], [84, 1]).expect_err("a prime number of rows"), ResizeError::Rows(263, 84));
}
