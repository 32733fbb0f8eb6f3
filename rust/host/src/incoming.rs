//! Rows that a host gives: where the bytes of each column are, found and checked without changing anything.

use crate::schema::{Column, Role};
use rlfast_core::convert::{self, NumberType, as_doubles, as_singles};
use rlfast_core::error::{Error, Result};
use rlfast_core::source::{Source, is_packed, is_shape};

/// `Err(Error::Mismatch(..))` with a formatted message.
macro_rules! mismatch {
    ($($arg:tt)*) => { Err(to_mismatch(format_args!($($arg)*))) };
}

#[cold]
fn to_mismatch(text: std::fmt::Arguments<'_>) -> Error {
    Error::Mismatch(text.to_string())
}

/// An array of a host's.
#[derive(Clone, Copy, Debug)]
pub struct GivenArray<'a> {
    /// The first element.
    pub data: *const u8,
    /// Lengths of the axes.
    pub dims: &'a [usize],
    /// Bytes from one element of each axis to the next.
    pub strides: &'a [isize],
    /// Whether its elements stand in C order without gaps.
    pub is_contiguous: bool,
    /// Whether its dtype is the column's.
    pub same_dtype: bool,
    /// The type of its numbers; None for what is no plain number in this machine's order of bytes.
    pub number: Option<NumberType>,
}

/// Where the engine reads rows from.
#[derive(Debug, Default)]
pub struct Incoming {
    sources: Vec<Source>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// Numbers that were no arrays.
    cells: Vec<[u8; 8]>,
    doubles: Vec<Vec<f64>>,
    singles: Vec<Vec<f32>>,
    cast: Vec<Vec<u8>>,
}

impl Incoming {
    /// Forgets what was found, for `rows` rows of so many columns of zeros.
    #[inline]
    pub fn start(&mut self, columns: usize, rows: usize) {
        self.sources.clear();
        self.sources.resize(columns, Source::ZEROS);
        self.cells.resize(columns, [0; 8]);
        self.release();
        for flags in [&mut self.terminated, &mut self.truncated] {
            flags.clear();
            flags.resize(rows, false);
        }
    }

    /// Frees the converted numbers; what was found must not be read any more.
    #[inline]
    pub fn release(&mut self) {
        self.doubles.clear();
        self.singles.clear();
        self.cast.clear();
    }

    /// A source for each column.
    #[must_use]
    #[inline]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Whether each row terminated its episode.
    #[must_use]
    #[inline]
    pub fn terminated(&self) -> &[bool] {
        &self.terminated
    }

    /// Whether each row truncated its episode.
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> &[bool] {
        &self.truncated
    }

    /// Whether any row ends its episode.
    #[must_use]
    #[inline]
    pub fn any_done(&self) -> bool {
        self.terminated.contains(&true) || self.truncated.contains(&true)
    }

    /// Room for a number of the column `at`.
    #[inline]
    pub fn cell(&mut self, at: usize) -> &mut [u8; 8] {
        &mut self.cells[at]
    }

    /// Takes the number in the cell of the column `at` for the only row.
    #[inline]
    pub fn place_cell<D>(&mut self, at: usize, column: &Column<D>) {
        let cell = &self.cells[at];
        match column.role() {
            Role::Terminated => self.terminated[0] = cell[0] != 0,
            Role::Truncated => self.truncated[0] = cell[0] != 0,
            _ => self.sources[at] = Source::rows(cell.as_ptr(), 0),
        }
    }

    /// Takes an array for the column `at`: one row (None), or `rows` of them along the first axis.
    ///
    /// # Errors
    /// `Mismatch` for another shape, for elements that have gaps between them inside a row, and for numbers that cannot be converted.
    ///
    /// # Safety
    /// The array is as it is described, and lives until the rows are read.
    #[inline(always)]
    pub unsafe fn place<D>(
        &mut self,
        at: usize,
        column: &Column<D>,
        array: GivenArray<'_>,
        rows: Option<usize>,
    ) -> Result<()> {
        let leaf = &column.leaf;
        let (outer, inner) = array.dims.split_at(usize::from(rows.is_some()).min(array.dims.len()));
        if !is_shape(inner, &leaf.shape) || rows.is_some_and(|rows| outer.first() != Some(&rows)) {
            return mismatch!("{} has shape {:?}", leaf.path.join("."), array.dims);
        }
        if !array.is_contiguous && !is_packed(inner, &array.strides[outer.len()..], leaf.itemsize) {
            return mismatch!("{} is not contiguous", leaf.path.join("."));
        }
        let source = Source::rows(array.data, if outer.is_empty() { 0 } else { array.strides[0] });
        if !array.same_dtype {
            // SAFETY: as the caller promises; the shape was checked.
            return unsafe { self.place_converted(at, column, array.number, source, rows.unwrap_or(1)) };
        }
        // SAFETY: as above.
        unsafe { self.place_source(at, column, source) };
        Ok(())
    }

    /// Takes numbers of another type than the column's.
    ///
    /// # Safety
    /// `source` has numbers of the type `from` of the column's shape for each row.
    #[inline(never)]
    unsafe fn place_converted<D>(
        &mut self,
        at: usize,
        column: &Column<D>,
        from: Option<NumberType>,
        source: Source,
        rows: usize,
    ) -> Result<()> {
        let width = column.leaf.shape.iter().product();
        if column.role() == Role::Reward {
            // SAFETY: as the caller promises.
            let doubles = from.and_then(|from| unsafe { as_doubles(from, source, rows, width) });
            let Some(doubles) = doubles else { return mismatch!("rew is not of a dtype that is read directly") };
            self.sources[at] = Source::rows(doubles.as_ptr().cast(), 8 * width as isize);
            self.doubles.push(doubles);
            return Ok(());
        }
        // SAFETY: as the caller promises.
        let cast = |(from, to)| unsafe { convert::cast(from, source, rows, width, to) };
        let Some(cast) = from.zip(column.number).and_then(cast) else {
            return mismatch!("{} is of another dtype", column.leaf.path.join("."));
        };
        let source = Source::rows(cast.as_ptr(), (width * column.leaf.itemsize) as isize);
        // SAFETY: numbers of the column's type for each row.
        unsafe { self.place_source(at, column, source) };
        self.cast.push(cast);
        Ok(())
    }

    /// Takes the numbers of the frames of all rows of the column `at`, in order; see `recognition`.
    ///
    /// # Safety
    /// There is one for each frame of each row, until the rows are read; frames of one number are equal.
    #[inline]
    pub unsafe fn place_numbers(&mut self, at: usize, numbers: *const u64) {
        self.sources[at].numbers = numbers;
    }

    /// # Safety
    /// `source` has elements of the column for each row.
    #[inline(always)]
    unsafe fn place_source<D>(&mut self, at: usize, column: &Column<D>, source: Source) {
        let flags = match column.role() {
            Role::Terminated => &mut self.terminated,
            Role::Truncated => &mut self.truncated,
            _ => {
                self.sources[at] = source;
                return;
            }
        };
        // SAFETY: the caller promises a flag for each row.
        unsafe { convert::read_flags(source, flags) };
    }

    /// Takes an array of as many elements as `rows` rows have, whatever its shape.
    ///
    /// # Errors
    /// `Mismatch` for another length or dtype, or elements that have gaps between them.
    ///
    /// # Safety
    /// As [`Self::place`].
    pub unsafe fn place_flat<D>(
        &mut self,
        at: usize,
        column: &Column<D>,
        array: GivenArray<'_>,
        rows: usize,
    ) -> Result<()> {
        let leaf = &column.leaf;
        let fits = array.dims.iter().product::<usize>() * leaf.itemsize == rows * leaf.nbytes();
        if !fits || !array.is_contiguous || !array.same_dtype {
            return mismatch!("{} has another shape or dtype, or is not contiguous", leaf.path.join("."));
        }
        self.sources[at] = Source::rows(array.data, leaf.nbytes() as isize);
        Ok(())
    }

    /// Takes one number for each row, for a column of one float32.
    ///
    /// # Errors
    /// `Mismatch` for another column, or without numbers.
    pub fn place_singles<D>(&mut self, at: usize, column: &Column<D>, singles: Option<Vec<f32>>) -> Result<()> {
        let is_single = column.number == Some(NumberType::F32) && column.leaf.shape.is_empty();
        let Some(singles) = singles.filter(|singles| is_single && singles.len() == self.terminated.len()) else {
            return mismatch!("{} is not read directly", column.leaf.path.join("."));
        };
        self.sources[at] = Source::rows(singles.as_ptr().cast(), 4);
        self.singles.push(singles);
        Ok(())
    }
}

impl GivenArray<'_> {
    /// The numbers as float32, one for each row or the same for all; None where they are not as many, or cannot be converted.
    ///
    /// # Safety
    /// As [`Incoming::place`].
    #[must_use]
    pub unsafe fn singles(&self, rows: usize) -> Option<Vec<f32>> {
        let stride = match self.dims {
            [] | [1] => 0,
            &[count] if count == rows => self.strides[0],
            _ => return None,
        };
        // SAFETY: the array has an item for each row, `stride` bytes apart, or one for all.
        unsafe { as_singles(self.number?, Source::rows(self.data, stride), rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlfast_core::replay::layout::Leaf;

    fn column(name: &str, number: NumberType, itemsize: usize, shape: &[usize]) -> Column<()> {
        let leaf = Leaf { path: vec![name.to_owned()], dtype: String::new(), itemsize, shape: shape.to_vec() };
        Column::new(leaf, Some(number), ())
    }

    fn array<'a, T>(data: &'a [T], dims: &'a [usize], strides: &'a [isize], number: NumberType) -> GivenArray<'a> {
        let data = data.as_ptr().cast();
        let is_contiguous = is_packed(dims, strides, size_of::<T>());
        GivenArray { data, dims, strides, is_contiguous, same_dtype: false, number: Some(number) }
    }

    fn started(rows: usize) -> Incoming {
        let mut incoming = Incoming::default();
        incoming.start(1, rows);
        incoming
    }

    fn read<T: Copy>(incoming: &Incoming, row: usize) -> T {
        // SAFETY: the tests keep their arrays alive, and ask for rows that are there.
        unsafe { incoming.sources()[0].row(row).cast::<T>().read_unaligned() }
    }

    #[test]
    fn an_array_of_the_columns_type_is_read_where_it_is() {
        let values = [1.0_f32, 2.0, 3.0, 4.0];
        let column = column("obs", NumberType::F32, 4, &[2]);
        let mut incoming = started(2);
        let given = GivenArray { same_dtype: true, ..array(&values, &[2, 2], &[8, 4], NumberType::F32) };
        // SAFETY: the array is as described.
        unsafe { incoming.place(0, &column, given, Some(2)) }.unwrap();
        assert_eq!(incoming.sources()[0].ptr, values.as_ptr().cast());
        assert_eq!(read::<f32>(&incoming, 1), 3.0);
    }

    #[test]
    fn other_shapes_and_gaps_are_refused() {
        let values = [0.0_f32; 8];
        let column = column("obs", NumberType::F32, 4, &[2]);
        for (dims, strides, rows, wanted) in [
            (&[3][..], &[4][..], None, "obs has shape [3]"),
            (&[2, 3], &[12, 4], Some(2), "obs has shape [2, 3]"),
            (&[3, 2], &[8, 4], Some(2), "obs has shape [3, 2]"),
            (&[2], &[8], None, "obs is not contiguous"),
        ] {
            let given = GivenArray { same_dtype: true, ..array(&values, dims, strides, NumberType::F32) };
            // SAFETY: the array is as described.
            let error = unsafe { started(rows.unwrap_or(1)).place(0, &column, given, rows) }.unwrap_err();
            assert_eq!(error.to_string(), wanted);
        }
        let given = GivenArray { same_dtype: true, ..array(&values, &[2, 2], &[16, 4], NumberType::F32) };
        // SAFETY: the array is as described: a gap between rows is none inside them.
        assert!(unsafe { started(2).place(0, &column, given, Some(2)) }.is_ok());
    }

    #[test]
    fn rewards_become_doubles_and_flags_become_flags() {
        let mut incoming = started(2);
        let rewards = array(&[1.5_f32, -2.0], &[2], &[4], NumberType::F32);
        // SAFETY: the arrays are as described.
        unsafe { incoming.place(0, &column("rew", NumberType::F64, 8, &[]), rewards, Some(2)) }.unwrap();
        assert_eq!((read::<f64>(&incoming, 0), read::<f64>(&incoming, 1)), (1.5, -2.0));
        let flags = array(&[0_u8, 1], &[2], &[1], NumberType::U8);
        for name in ["terminated", "truncated"] {
            let flag = column(name, NumberType::Bool, 1, &[]);
            // SAFETY: the arrays are as described.
            unsafe { incoming.place(0, &flag, GivenArray { same_dtype: true, ..flags }, Some(2)) }.unwrap();
        }
        assert_eq!((incoming.terminated(), incoming.truncated()), (&[false, true][..], &[false, true][..]));
        assert!(incoming.any_done() && !started(2).any_done());
    }

    #[test]
    fn numbers_are_one_for_all_or_one_for_each_row() {
        let numbers = [1_i64, 0, 1];
        let column = column("dones", NumberType::F32, 4, &[]);
        for (dims, wanted) in
            [(&[3][..], Some([1.0, 0.0, 1.0])), (&[1], Some([1.0; 3])), (&[], Some([1.0; 3])), (&[2], None)]
        {
            let mut incoming = started(3);
            let given = array(&numbers, dims, &[8], NumberType::I64);
            // SAFETY: the array is as described.
            let singles = unsafe { given.singles(3) };
            let placed = incoming.place_singles(0, &column, singles);
            let found = placed.is_ok().then(|| [0, 1, 2].map(|row| read::<f32>(&incoming, row)));
            assert_eq!(found, wanted);
        }
        assert!(started(2).place_singles(0, &column, Some(vec![0.0; 3])).is_err());
    }

    #[test]
    fn actions_may_have_any_shape_of_as_many_elements() {
        let column = column("actions", NumberType::I64, 8, &[1]);
        let values = [4_i64, 5];
        for (dims, fits) in [(&[2][..], true), (&[2, 1], true), (&[1, 2], true), (&[1], false)] {
            let strides = [8, 8];
            let given = GivenArray {
                same_dtype: true,
                is_contiguous: true,
                ..array(&values, dims, &strides[..dims.len()], NumberType::I64)
            };
            let mut incoming = started(2);
            // SAFETY: the array is as described.
            assert_eq!(unsafe { incoming.place_flat(0, &column, given, 2) }.is_ok(), fits, "{dims:?}");
            assert!(!fits || read::<i64>(&incoming, 1) == 5);
        }
    }
}
