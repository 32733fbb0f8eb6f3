//! Products of matrices of f32 on one thread, by the crate `gemm`.

/// A matrix in memory of others. A step is the distance to the next element along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// The first element.
    pub data: *mut f32,
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Elements from a row to the next, and from a column to the next.
    pub steps: [isize; 2],
}

/// Writes `a b`, or `a b + bias`, into `out`. A bias has one row.
///
/// # Panics
///
/// The shapes do not match.
///
/// # Safety
///
/// The memory of each matrix is valid for its shape and steps, that of `out` for writes, and nobody else writes to any or
/// reads `out` meanwhile. `out` overlaps with no other.
pub unsafe fn multiply(out: Matrix, a: Matrix, b: Matrix, bias: Option<Matrix>) {
    let ([rows, columns], inner) = (out.shape, a.shape[1]);
    assert!(a.shape[0] == rows && b.shape == [inner, columns], "matrices of other shapes");
    if let Some(bias) = bias {
        assert!(bias.shape == [1, columns], "a bias of another shape");
        for row in 0..rows as isize {
            for column in 0..columns as isize {
                // SAFETY: both are within the shapes.
                unsafe {
                    *out.data.offset(row * out.steps[0] + column * out.steps[1]) =
                        *bias.data.offset(column * bias.steps[1]);
                }
            }
        }
    }
    // SAFETY: what the caller guarantees.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            out.data,
            out.steps[1],
            out.steps[0],
            bias.is_some(),
            a.data.cast_const(),
            a.steps[1],
            a.steps[0],
            b.data.cast_const(),
            b.steps[1],
            b.steps[0],
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix over a vector, by rows or, transposed, by columns.
    fn matrix(values: &mut [f32], shape: [usize; 2], is_transposed: bool) -> Matrix {
        assert_eq!(values.len(), shape[0] * shape[1]);
        let steps = if is_transposed { [1, shape[0] as isize] } else { [shape[1] as isize, 1] };
        Matrix { data: values.as_mut_ptr(), shape, steps }
    }

    #[test]
    fn a_product_is_the_sum_of_products() {
        for (rows, inner, columns) in [(1, 1, 1), (3, 5, 2), (17, 33, 20), (64, 128, 7)] {
            for (turned_a, turned_b) in [(false, false), (false, true), (true, false), (true, true)] {
                for has_bias in [false, true] {
                    let mut a: Vec<f32> = (0..rows * inner).map(|i| (i % 7) as f32 - 3.0).collect();
                    let mut b: Vec<f32> = (0..inner * columns).map(|i| (i % 5) as f32 - 2.0).collect();
                    let mut bias: Vec<f32> = (0..columns).map(|i| i as f32).collect();
                    let mut out = vec![f32::NAN; rows * columns];
                    let [ma, mb] =
                        [matrix(&mut a, [rows, inner], turned_a), matrix(&mut b, [inner, columns], turned_b)];
                    let mbias = has_bias.then(|| matrix(&mut bias, [1, columns], false));
                    // SAFETY: all are matrices over vectors of their own.
                    unsafe { multiply(matrix(&mut out, [rows, columns], false), ma, mb, mbias) };
                    for row in 0..rows {
                        for column in 0..columns {
                            let sum: f32 = (0..inner)
                                .map(|i| {
                                    let one = a[if turned_a { i * rows + row } else { row * inner + i }];
                                    one * b[if turned_b { column * inner + i } else { i * columns + column }]
                                })
                                .sum();
                            let expected = if has_bias { sum + bias[column] } else { sum };
                            assert_eq!(out[row * columns + column], expected, "{rows} {inner} {columns}");
                        }
                    }
                }
            }
        }
    }
}
