//! The order of shuffled rows: which row follows which, found by their content.

use std::collections::HashMap;

/// What a row begins with, or leads to: the numbers of images, the action there, and the episode.
pub type State = ([u32; 4], i64, i64);

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Where the row begins.
    pub from: State,
    /// Where it leads; None if its episode ended.
    pub to: Option<State>,
}

/// The place of a row in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The row.
    pub row: usize,
    /// Whether the row after it in the order surely followed it in the episode.
    pub continues: bool,
}

/// Orders rows such that a row which leads to where another begins stands before that one.
///
/// It surely does so only if no other row leads there, and no other begins there. If there are several, as with images that do not
/// change for some steps, they are paired in the order of the file, so that equal images stand side by side, but nothing is said to
/// continue. A row that nothing leads to begins a chain; chains stand in the order of the file.
#[must_use]
pub fn order(rows: &[Link]) -> Vec<Placed> {
    let mut beginning: HashMap<State, Vec<u32>> = HashMap::with_capacity(rows.len());
    let mut leading: HashMap<State, u32> = HashMap::with_capacity(rows.len());
    for (row, link) in rows.iter().enumerate().rev() {
        beginning.entry(link.from).or_default().push(row as u32); // the first row is the last entry
        if let Some(to) = link.to {
            *leading.entry(to).or_default() += 1;
        }
    }
    let alone: HashMap<State, bool> = leading
        .iter()
        .map(|(state, &count)| (*state, count == 1 && beginning.get(state).is_some_and(|b| b.len() == 1)))
        .collect();
    let mut next: Vec<Option<(usize, bool)>> = vec![None; rows.len()];
    let mut is_led_to = vec![false; rows.len()];
    for (row, link) in rows.iter().enumerate() {
        let Some(to) = link.to else { continue };
        let Some(free) = beginning.get_mut(&to) else { continue };
        let Some(place) = free.iter().rposition(|&other| other as usize != row) else { continue };
        let other = free.remove(place) as usize;
        next[row] = Some((other, alone[&to]));
        is_led_to[other] = true;
    }
    chains(&next, &is_led_to)
}

fn chains(next: &[Option<(usize, bool)>], is_led_to: &[bool]) -> Vec<Placed> {
    let mut order = Vec::with_capacity(next.len());
    let mut seen = vec![false; next.len()];
    // Rows that lead to each other in a circle have no first row: any of them is the first.
    let heads = (0..next.len()).filter(|&row| !is_led_to[row]).chain(0..next.len());
    for head in heads {
        let mut at = Some((head, false));
        while let Some((row, continues)) = at.filter(|&(row, _)| !seen[row]) {
            if let (true, Some(last)) = (continues, order.last_mut()) {
                let last: &mut Placed = last;
                last.continues = true;
            }
            seen[row] = true;
            order.push(Placed { row, continues: false });
            at = next[row];
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(frame: u32) -> State {
        ([frame; 4], 0, 0)
    }

    fn rows(pairs: &[(u32, Option<u32>)]) -> Vec<Link> {
        pairs.iter().map(|&(from, to)| Link { from: state(from), to: to.map(state) }).collect()
    }

    fn found(pairs: &[(u32, Option<u32>)]) -> Vec<(usize, bool)> {
        order(&rows(pairs)).into_iter().map(|placed| (placed.row, placed.continues)).collect()
    }

    #[test]
    fn rows_follow_those_that_lead_to_them() {
        let shuffled = [(3, Some(4)), (1, Some(2)), (7, Some(8)), (4, None), (2, Some(3))];
        assert_eq!(found(&shuffled), [(1, true), (4, true), (0, true), (3, false), (2, false)]);
    }

    #[test]
    fn rows_that_cannot_be_told_apart_stand_side_by_side_and_continue_nothing() {
        // Two rows lead to state 2, and two begin there.
        let twice = [(1, Some(2)), (2, Some(3)), (9, Some(2)), (2, Some(5)), (3, None)];
        assert_eq!(found(&twice), [(0, false), (1, true), (4, false), (2, false), (3, false)]);
    }

    #[test]
    fn a_row_that_leads_to_itself_does_not_follow_itself() {
        assert_eq!(found(&[(1, Some(1))]), [(0, false)]);
        assert_eq!(found(&[(1, Some(1)), (1, Some(1)), (1, Some(2))]).len(), 3);
    }

    #[test]
    fn circles_are_cut() {
        assert_eq!(found(&[(1, Some(2)), (2, Some(3)), (3, Some(1))]), [(0, true), (1, true), (2, false)]);
    }

    #[test]
    fn the_episode_and_the_action_count() {
        let mut all = rows(&[(1, Some(2)), (2, Some(3))]);
        all[1].from.1 = 5;
        assert!(!order(&all)[0].continues);
        let mut all = rows(&[(1, Some(2)), (2, Some(3))]);
        all[1].from.2 = 5;
        assert!(!order(&all)[0].continues);
    }

    proptest! {
        #[test]
        fn every_row_has_one_place_and_links_are_true(
            pairs in prop::collection::vec((0_u32..40, prop::option::of(0_u32..40)), 0..120),
        ) {
            let (links, placed) = (rows(&pairs), order(&rows(&pairs)));
            let mut all: Vec<usize> = placed.iter().map(|p| p.row).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..pairs.len()).collect::<Vec<_>>());
            for pair in placed.windows(2).filter(|pair| pair[0].continues) {
                let (one, other) = (links[pair[0].row], links[pair[1].row]);
                prop_assert_eq!(one.to, Some(other.from));
                prop_assert_eq!(links.iter().filter(|l| l.to == one.to).count(), 1);
                prop_assert_eq!(links.iter().filter(|l| l.from == other.from).count(), 1);
            }
            prop_assert!(placed.last().is_none_or(|last| !last.continues));
        }
    }
}
