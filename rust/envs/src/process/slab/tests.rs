use super::*;

const STEP: Ask = Ask { kind: 1, bank: 0 };
const SECOND: Duration = Duration::from_secs(1);

fn slab(starts: &[usize], pipes: bool) -> Arc<Slab> {
    Arc::new(Slab::create(starts.to_vec(), 4096, 3, pipes, 0).unwrap())
}

/// Answers each request with `env + 100` until it is stopped.
fn serve(slab: Arc<Slab>, worker: usize) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || {
        let mut endpoint = WorkerEndpoint::new(slab, worker, 0);
        let mut steps = 0;
        loop {
            match endpoint.look() {
                Ok(Task::Env(env, ask)) => {
                    assert_eq!(endpoint.slab().running(worker).env, Some(env));
                    steps += 1;
                    endpoint.answer(env, env as f64 + 100.0, false, env % 2 == 1, ask.kind);
                }
                Ok(Task::Message) => {}
                Ok(Task::Stop) => return steps,
                Err(seen) => endpoint.sleep(seen, SECOND),
            }
        }
    })
}

#[test]
fn every_environment_answers_every_question_once() {
    for pipes in [false, true] {
        let slab = slab(&[0, 3, 5], pipes);
        let workers = [0, 1].map(|worker| serve(slab.clone(), worker));
        for _ in 0..2000 {
            slab.ask(0..5, STEP).unwrap();
            while slab.wait(5, SECOND) < 5 {}
            // SAFETY: the columns have five entries, and all have been answered.
            let reward = |env| unsafe { *slab.rewards().add(env) };
            assert_eq!([0, 1, 2, 3, 4].map(reward), [100.0, 101.0, 102.0, 103.0, 104.0]);
            // SAFETY: as above.
            assert_eq!(unsafe { *slab.flags(2).add(3) }, 1);
            slab.take(0..5);
            assert_eq!(slab.ready(), 0);
        }
        (0..2).for_each(|worker| slab.stop(worker));
        assert_eq!(workers.map(|worker| worker.join().unwrap()), [6000, 4000]);
    }
}

#[test]
fn any_order_and_any_subset_can_be_asked() {
    let slab = slab(&[0, 2, 4], false);
    let workers = [0, 1].map(|worker| serve(slab.clone(), worker));
    slab.ask([3, 0, 2].into_iter(), STEP).unwrap();
    while slab.wait(3, SECOND) < 3 {}
    assert_eq!([0, 1, 2, 3].map(|env| slab.answered(env)), [true, false, true, true]);
    assert_eq!(slab.ask([1, 2, 3].into_iter(), STEP), Err(Busy(vec![2, 3])));
    assert!(slab.pending(1).is_none(), "all or none");
    slab.take([0, 2, 3].into_iter());
    (0..2).for_each(|worker| slab.stop(worker));
    workers.into_iter().for_each(|worker| assert!(worker.join().is_ok()));
}

#[test]
fn a_worker_takes_its_environments_in_turn() {
    let slab = slab(&[0, 3], false);
    let mut endpoint = WorkerEndpoint::new(slab.clone(), 0, 0);
    slab.ask(0..3, STEP).unwrap();
    let mut order = Vec::new();
    for _ in 0..9 {
        let Ok(Task::Env(env, _)) = endpoint.look() else { panic!("something was asked") };
        order.push(env);
        endpoint.answer(env, 0.0, false, false, 0);
        slab.take([env].into_iter());
        slab.ask([env].into_iter(), STEP).unwrap(); // asked again at once, it still comes after the others
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn the_endpoint_of_a_dead_worker_tells_its_activity_and_can_be_used_again() {
    let slab = slab(&[0, 2], false);
    let mut endpoint = WorkerEndpoint::new(slab.clone(), 0, 0);
    slab.notify(0);
    slab.ask(0..2, Ask { kind: 2, bank: 1 }).unwrap();
    assert_eq!(endpoint.look(), Ok(Task::Message));
    assert_eq!(endpoint.look(), Ok(Task::Env(0, Ask { kind: 2, bank: 1 })));
    endpoint.answer(0, 7.0, true, false, 0);
    assert_eq!(endpoint.look(), Ok(Task::Env(1, Ask { kind: 2, bank: 1 })));
    drop(endpoint); // the worker dies
    let running = slab.running(0);
    assert_eq!((running.env, running.phase), (Some(1), 2));
    assert!(running.since < SECOND);
    slab.abandon(0);
    assert!(slab.answered(0) && !slab.answered(1) && slab.pending(1).is_none());
    assert_eq!(slab.running(0).env, None);
    let mut next = WorkerEndpoint::new(slab.clone(), 0, 0);
    assert!(next.look().is_err());
    slab.notify(0);
    assert_eq!(next.look(), Ok(Task::Message));
}

#[test]
fn a_wait_ends_in_time_with_what_is_there() {
    let slab = slab(&[0, 2], false);
    let mut endpoint = WorkerEndpoint::new(slab.clone(), 0, 0);
    slab.ask(0..2, STEP).unwrap();
    assert!(matches!(endpoint.look(), Ok(Task::Env(0, _))));
    endpoint.answer(0, 0.0, false, false, 0);
    let start = Instant::now();
    assert_eq!(slab.wait(2, Duration::from_millis(30)), 1);
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn banks_are_lent_until_they_are_given_back() {
    let slab = slab(&[0, 1], false);
    assert_eq!((slab.lend(), slab.lend(), slab.lend()), (Some(1), Some(2), None));
    slab.give_back(1);
    assert_eq!((slab.lend(), slab.lend()), (Some(1), None));
}

#[test]
fn rows_lie_inside_the_memory() {
    let slab = slab(&[0, 1], false);
    assert!(slab.rows(0, 4096).is_some() && slab.rows(4096, 0).is_some());
    assert!(slab.rows(1, 4096).is_none() && slab.rows(usize::MAX, 1).is_none());
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    assert!(Slab::create(vec![0, 1], 1 << 50, 1, false, 0).is_err());
}
