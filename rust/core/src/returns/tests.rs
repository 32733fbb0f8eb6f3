use proptest::prelude::*;

use super::*;

fn assert_close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= 1e-9 * (1.0 + want.abs()), "at {i}: got {got}, want {want}");
    }
}

/// One column in which each observation has value 0.5, with gamma 0.9 and lambda 0.8.
fn gae_of(rewards: &[f64], next_values: &[f64], terminated: &[bool], truncated: &[bool]) -> Vec<f64> {
    let mut advantages = vec![f64::NAN; rewards.len()];
    let values = vec![0.5; rewards.len()];
    let ends = Ends::new(terminated, Some(truncated), 1);
    gae(rewards, &values, next_values, ends, 0.9, 0.8, &mut advantages);
    advantages
}

const NOWHERE: [bool; 3] = [false; 3];
const AT_ONE: [bool; 3] = [false, true, false];

#[test]
fn a1_gae_bootstraps_the_final_observation_at_truncation() {
    let got = gae_of(&[1.0; 3], &[0.5, 10.0, 0.5], &NOWHERE, &AT_ONE);
    assert_close(&got, &[7.79, 9.5, 0.95]);
}

#[test]
fn a2_gae_never_reads_past_termination() {
    for beyond in [0.5, 1e9, f64::INFINITY, f64::NAN] {
        let got = gae_of(&[1.0; 3], &[0.5, beyond, 0.5], &AT_ONE, &NOWHERE);
        assert_close(&got, &[1.31, 0.5, 0.95]);
        // Termination wins where both flags are set.
        assert_close(&gae_of(&[1.0; 3], &[0.5, beyond, 0.5], &AT_ONE, &AT_ONE), &[1.31, 0.5, 0.95]);
    }
}

#[test]
fn a2_what_is_nan_in_one_episode_stays_there() {
    let got = gae_of(&[1.0, 1.0, f64::NAN], &[0.5, 10.0, 0.5], &NOWHERE, &AT_ONE);
    assert_close(&got[..2], &[7.79, 9.5]);
    assert!(got[2].is_nan());
}

#[test]
fn a3_flags_are_read_at_their_own_step() {
    let flags = |at: usize| -> [bool; 8] { std::array::from_fn(|i| i == at) };
    let rewards: [f64; 8] = std::array::from_fn(|i| if i < 3 { 1.0 } else { 0.0 });
    let at = |step| gae_of(&rewards, &[0.5; 8], &flags(step), &[false; 8]);
    assert_close(&at(2)[..3], &[1.8932, 1.31, 0.5]);
    for wrong in [1, 3] {
        assert!((at(wrong)[0] - at(2)[0]).abs() > 1e-3);
    }
}

#[test]
fn a4_a_cut_roll_out_bootstraps_and_columns_do_not_mix() {
    // Environment 0 terminates at each step, environment 1 runs on.
    let rewards = [1.0, 10.0, 1.0, 10.0, 1.0, 10.0];
    let terminated = [true, false, true, false, true, false];
    let mut advantages = [f64::NAN; 6];
    let ends = Ends::new(&terminated, None, 2);
    gae(&rewards, &[0.5; 6], &[0.5; 6], ends, 0.9, 0.8, &mut advantages);
    let alone = gae_of(&[10.0; 3], &[0.5; 3], &NOWHERE, &NOWHERE);
    assert_close(&alone[2..], &[9.95]);
    assert_close(&advantages, &[0.5, alone[0], 0.5, alone[1], 0.5, alone[2]]);
}

fn nstep_of(rewards: &[f64], next_values: &[f64], terminated: &[bool], truncated: &[bool]) -> Vec<f64> {
    let mut returns = vec![f64::NAN; rewards.len()];
    nstep(rewards, next_values, Ends::new(terminated, Some(truncated), 1), 3, 0.5, &mut returns);
    returns
}

#[test]
fn a6_a7_nstep_uses_the_real_exponent_and_counts_the_last_reward() {
    // The roll-out of A5, as one that is cut after step 5.
    let terminated = [false, false, true, false, false, false];
    let truncated = [false, false, false, false, true, false];
    let next_values = [f64::NAN, f64::NAN, f64::NAN, f64::NAN, 100.0, 1000.0];
    let got = nstep_of(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], &next_values, &terminated, &truncated);
    assert_close(&got, &[3.0, 4.0, 4.0, 16.0 + 25.0, 16.0 + 50.0, 32.0 + 500.0]);
}

#[test]
fn discounted_returns_by_hand() {
    let (rewards, next_values) = ([1.0, 2.0, 4.0], [f64::NAN, 8.0, 16.0]);
    let mut returns = [f64::NAN; 3];
    discounted(&rewards, None, Ends::new(&NOWHERE, Some(&AT_ONE), 1), 0.5, &mut returns);
    assert_close(&returns, &[2.0, 2.0, 4.0]);
    discounted(&rewards, Some(&next_values), Ends::new(&NOWHERE, Some(&AT_ONE), 1), 0.5, &mut returns);
    assert_close(&returns, &[4.0, 6.0, 12.0]);
    discounted(&rewards, Some(&[f64::NAN, f64::NAN, 16.0]), Ends::new(&AT_ONE, None, 1), 0.5, &mut returns);
    assert_close(&returns, &[2.0, 2.0, 12.0]);
}

/// A random roll-out of shape `[T, columns]`. Each next value is the value of the next row, except where an episode
/// ends.
#[derive(Clone, Debug)]
struct RollOut {
    columns: usize,
    rewards: Vec<f64>,
    values: Vec<f64>,
    next_values: Vec<f64>,
    log_ratios: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl RollOut {
    fn ends(&self) -> Ends<'_> {
        Ends::new(&self.terminated, Some(&self.truncated), self.columns)
    }

    fn empty(&self) -> Vec<f64> {
        vec![f64::NAN; self.rewards.len()]
    }

    /// Returns for each step the steps of its episode from it on.
    fn futures(&self) -> Vec<Vec<usize>> {
        let len = self.rewards.len();
        let future = |start: usize| {
            let mut steps = vec![start];
            while !self.ends().is_last(steps[steps.len() - 1]) {
                steps.push(steps[steps.len() - 1] + self.columns);
            }
            steps
        };
        (0..len).map(future).collect()
    }

    fn bootstrap(&self, step: usize) -> f64 {
        if self.terminated[step] { 0.0 } else { self.next_values[step] }
    }

    fn delta(&self, step: usize, gamma: f64) -> f64 {
        self.rewards[step] + gamma * self.bootstrap(step) - self.values[step]
    }
}

fn roll_outs() -> impl Strategy<Value = RollOut> {
    let step = (-2.0..2.0, -2.0..2.0, -2.0..2.0, -1.0..1.0, 0..12_u32);
    (1_usize..40, 0_usize..30)
        .prop_flat_map(move |(columns, rows)| (Just(columns), prop::collection::vec(step.clone(), columns * rows)))
        .prop_map(|(columns, steps)| {
            let values: Vec<f64> = steps.iter().map(|step| step.1).collect();
            let mut roll_out = RollOut {
                columns,
                rewards: steps.iter().map(|step| step.0).collect(),
                next_values: steps.iter().map(|step| step.2).collect(),
                log_ratios: steps.iter().map(|step| step.3).collect(),
                terminated: steps.iter().map(|step| step.4 == 0).collect(),
                truncated: steps.iter().map(|step| step.4 == 1).collect(),
                values,
            };
            for step in 0..steps.len().saturating_sub(columns) {
                if !roll_out.ends().is_last(step) {
                    roll_out.next_values[step] = roll_out.values[step + columns];
                }
            }
            roll_out
        })
}

proptest! {
    #[test]
    fn gae_is_the_sum_of_its_definition(roll_out in roll_outs(), gamma in 0.0..=1.0, lambda in 0.0..=1.0) {
        let mut got = roll_out.empty();
        gae(&roll_out.rewards, &roll_out.values, &roll_out.next_values, roll_out.ends(), gamma, lambda, &mut got);
        let want: Vec<f64> = roll_out.futures().iter().map(|future| {
            future.iter().enumerate().map(|(k, &step)| (gamma * lambda).powi(k as i32) * roll_out.delta(step, gamma)).sum()
        }).collect();
        assert_close(&got, &want);
    }

    #[test]
    fn episodic_is_gae_cut_at_unfinished_rows(
        roll_out in roll_outs().prop_map(|roll_out| RollOut { columns: 1, ..roll_out }),
        gamma in 0.0..=1.0, lambda in 0.0..=1.0, jumps in prop::collection::vec(1_i64..3, 0..64),
        unfinished in prop::collection::btree_set(0_i64..200, 0..20),
        with_values: bool, with_next: bool,
    ) {
        let steps = roll_out.rewards.len();
        let places: Vec<i64> = (0..steps).scan(-1, |place, i| {
            *place += jumps.get(i).copied().unwrap_or(1);
            Some(*place)
        }).collect();
        let truncated: Vec<bool> =
            (0..steps).map(|i| roll_out.truncated[i] || unfinished.contains(&places[i])).collect();
        let ends = Ends::new(&roll_out.terminated, Some(&truncated), 1);
        let next_values = if with_next { roll_out.next_values.clone() } else { vec![0.0; steps] };
        let narrow: Vec<f32> = roll_out.values.iter().map(|&value| value as f32).collect();
        let values: Vec<f64> = if with_values {
            narrow.iter().map(|&value| f64::from(value)).collect()
        } else {
            (0..steps).map(|i| if i == 0 || ends.flagged(i - 1) { 0.0 } else { next_values[i - 1] }).collect()
        };
        let (mut want, mut returns, mut advantages) = (roll_out.empty(), roll_out.empty(), roll_out.empty());
        gae(&roll_out.rewards, &values, &next_values, ends, gamma, lambda, &mut want);
        let unfinished: Vec<i64> = unfinished.into_iter().collect();
        episodic(
            &Floats::from(&roll_out.rewards[..]), with_values.then_some(&Floats::from(&narrow[..])),
            with_next.then_some(&Floats::from(&next_values[..])), (&roll_out.terminated, &roll_out.truncated),
            BufferRows { places: &places, unfinished: &unfinished }, gamma, lambda, &mut returns, &mut advantages,
        );
        prop_assert_eq!(&advantages, &want);
        let sums: Vec<f64> = (0..steps).map(|i| want[i] + values[i]).collect();
        prop_assert_eq!(returns, sums);
    }

    #[test]
    fn nstep_is_the_sum_of_its_definition(roll_out in roll_outs(), gamma in 0.0..=1.0, n_step in 1_usize..9) {
        let mut got = roll_out.empty();
        nstep(&roll_out.rewards, &roll_out.next_values, roll_out.ends(), n_step, gamma, &mut got);
        let want: Vec<f64> = roll_out.futures().iter().map(|future| {
            let seen = &future[..n_step.min(future.len())];
            let rewards: f64 = seen.iter().enumerate().map(|(k, &step)| gamma.powi(k as i32) * roll_out.rewards[step]).sum();
            rewards + gamma.powi(seen.len() as i32) * roll_out.bootstrap(seen[seen.len() - 1])
        }).collect();
        assert_close(&got, &want);
    }

    #[test]
    fn discounted_is_nstep_without_end(roll_out in roll_outs(), gamma in 0.0..=1.0) {
        let (mut got, mut want) = (roll_out.empty(), roll_out.empty());
        discounted(&roll_out.rewards, Some(&roll_out.next_values), roll_out.ends(), gamma, &mut got);
        nstep(&roll_out.rewards, &roll_out.next_values, roll_out.ends(), usize::MAX, gamma, &mut want);
        assert_close(&got, &want);
    }

    #[test]
    fn vtrace_is_equation_1(roll_out in roll_outs(), gamma in 0.0..=1.0, trace_lambda in 0.0..=1.0,
                            rho_bar in 0.5..2.0, c_bar in 0.5..2.0) {
        let options = VTrace { gamma, trace_lambda, rho_bar, c_bar };
        let (mut targets, mut advantages) = (roll_out.empty(), roll_out.empty());
        vtrace(&roll_out.rewards, &roll_out.values, &roll_out.next_values, &roll_out.log_ratios, roll_out.ends(),
               options, &mut targets, &mut advantages);
        let rho = |step: usize| roll_out.log_ratios[step].exp().min(rho_bar);
        let trace = |step: usize| trace_lambda * roll_out.log_ratios[step].exp().min(c_bar);
        let want: Vec<f64> = roll_out.futures().iter().map(|future| {
            let corrections = future.iter().enumerate().map(|(k, &step)| {
                let traces: f64 = future[..k].iter().map(|&before| trace(before)).product();
                gamma.powi(k as i32) * traces * rho(step) * roll_out.delta(step, gamma)
            });
            roll_out.values[future[0]] + corrections.sum::<f64>()
        }).collect();
        assert_close(&targets, &want);
        let want: Vec<f64> = roll_out.futures().iter().map(|future| {
            let next_target = future.get(1).map_or_else(|| roll_out.bootstrap(future[0]), |&next| want[next]);
            rho(future[0]) * (roll_out.rewards[future[0]] + gamma * next_target - roll_out.values[future[0]])
        }).collect();
        assert_close(&advantages, &want);
    }

    #[test]
    fn on_policy_vtrace_is_gae(roll_out in roll_outs(), gamma in 0.0..=1.0, lambda in 0.0..=1.0) {
        let options = VTrace { gamma, trace_lambda: lambda, rho_bar: 1.0, c_bar: 1.0 };
        let (mut targets, mut unused, mut advantages) = (roll_out.empty(), roll_out.empty(), roll_out.empty());
        let log_ratios = vec![0.0; roll_out.rewards.len()];
        vtrace(&roll_out.rewards, &roll_out.values, &roll_out.next_values, &log_ratios, roll_out.ends(), options,
               &mut targets, &mut unused);
        gae(&roll_out.rewards, &roll_out.values, &roll_out.next_values, roll_out.ends(), gamma, lambda, &mut advantages);
        let want: Vec<f64> = advantages.iter().zip(&roll_out.values).map(|(advantage, value)| advantage + value).collect();
        assert_close(&targets, &want);
    }
}

#[test]
fn groups_join_without_a_seam() {
    // Compares several columns with each column alone, over several blocks, for numbers of columns that groups divide
    // and that they do not.
    for columns in [2, 4, 5, 8, 11, 16, 37] {
        joined(2600, columns);
    }
}

fn joined(rows: usize, columns: usize) {
    let mut stream = crate::rng::Stream::new(1);
    let mut draw = || -> Vec<f64> { (0..rows * columns).map(|_| stream.uniform()).collect() };
    let (rewards, values, next_values, chance) = (draw(), draw(), draw(), draw());
    let terminated: Vec<bool> = chance.iter().map(|&chance| chance < 0.01).collect();
    let truncated: Vec<bool> = chance.iter().map(|&chance| chance > 0.99).collect();
    let mut together = vec![f64::NAN; rows * columns];
    let ends = Ends::new(&terminated, Some(&truncated), columns);
    gae(&rewards, &values, &next_values, ends, 0.99, 0.95, &mut together);
    fn column<T: Copy>(array: &[T], start: usize, columns: usize) -> Vec<T> {
        array[start..].iter().step_by(columns).copied().collect()
    }
    for start in 0..columns {
        let mut alone = vec![f64::NAN; rows];
        let flags = (column(&terminated, start, columns), column(&truncated, start, columns));
        let ends = Ends::new(&flags.0, Some(&flags.1), 1);
        let of = |array: &[f64]| column(array, start, columns);
        gae(&of(&rewards), &of(&values), &of(&next_values), ends, 0.99, 0.95, &mut alone);
        assert_close(&of(&together), &alone);
    }
}

#[test]
fn an_episode_may_end_anywhere_in_a_block() {
    // All numbers behind the end of the episode are NaN, which would show in the result if they were read.
    let len = 2100;
    let (values, nan) = (vec![0.0; len], vec![f64::NAN; len]);
    for end in (0..30).chain(1000..1050).chain(2030..len) {
        let terminated: Vec<bool> = (0..len).map(|i| i == end).collect();
        let rewards: Vec<f64> = (0..len).map(|i| if i <= end { 1.0 } else { f64::NAN }).collect();
        let next_values: Vec<f64> = (0..len).map(|i| if i < end { 0.0 } else { nan[i] }).collect();
        let mut advantages = nan.clone();
        gae(&rewards, &values, &next_values, Ends::new(&terminated, None, 1), 1.0, 1.0, &mut advantages);
        for (i, advantage) in advantages.into_iter().enumerate() {
            let want = if i <= end { (end - i + 1) as f64 } else { f64::NAN };
            assert!(advantage == want || advantage.is_nan() && want.is_nan(), "{end}: {advantage} at {i}");
        }
    }
}

#[test]
fn single_precision_is_close() {
    let mut advantages = [0.0_f32; 3];
    let ends = Ends::new(&NOWHERE, Some(&AT_ONE), 1);
    gae(&[1.0; 3], &[0.5; 3], &[0.5, 10.0, 0.5], ends, 0.9, 0.8, &mut advantages);
    for (got, want) in advantages.into_iter().zip([7.79, 9.5, 0.95]) {
        assert!((got - want).abs() < 1e-5);
    }
}

#[test]
fn a2_what_follows_a_discount_of_zero_is_not_read() {
    let next = [2.0, 4.0, f64::NAN, f64::INFINITY, -1.0, 0.5];
    let mut returns = [f64::NAN; 6];
    bootstrapped(&[1.0, 5.0, -3.0], &[0.5, 0.0, 0.9], &next, &mut returns);
    assert_close(&returns, &[2.0, 3.0, 5.0, 5.0, -3.9, -2.55]);
    bootstrapped::<f64>(&[], &[], &[], &mut []);
    bootstrapped::<f32>(&[1.0, 2.0], &[0.5, 0.5], &[], &mut []);
}

#[test]
#[should_panic(expected = "rows of different lengths")]
fn bootstrapping_takes_whole_rows() {
    bootstrapped(&[1.0, 2.0], &[0.5, 0.5], &[1.0_f32; 3], &mut [0.0; 3]);
}

#[test]
fn numbers_are_read_as_either_type_and_copied_only_to_convert_them() {
    let (single, double) = ([1.5_f32, -2.0], [1.5, 0.1]);
    assert!(matches!(f32::read(Floats::from(&single[..])).unwrap(), Cow::Borrowed(numbers) if numbers == single));
    assert!(matches!(f64::read(Floats::from(&double[..])).unwrap(), Cow::Borrowed(numbers) if numbers == double));
    assert_eq!(f64::read(Floats::from(&single[..])).unwrap()[..], [1.5, -2.0]);
    assert_eq!(f32::read(Floats::from(&double[..])).unwrap()[..], [1.5, 0.1_f32]);
}
