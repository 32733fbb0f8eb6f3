//! Native environments for `rlfast`.
