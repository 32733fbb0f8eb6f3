use super::*;

/// A host whose lock this thread holds.
struct Inside<'a> {
    lock: &'a Mutex<()>,
    held: std::cell::RefCell<Option<MutexGuard<'a, ()>>>,
}

impl<'a> Inside<'a> {
    fn of(lock: &'a Mutex<()>) -> Self {
        Self { lock, held: std::cell::RefCell::new(Some(lock.lock().unwrap())) }
    }
}

impl Host for Inside<'_> {
    fn outside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        drop(self.held.take());
        let result = work();
        self.held.replace(Some(self.lock.lock().unwrap()));
        result
    }
}

#[cfg(not(loom))]
mod with_threads {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn work_inside_and_outside_of_the_hosts_lock_excludes_other_work() {
        let (lock, sum) = (Mutex::new(()), Shared::new(0_u64));
        thread::scope(|scope| {
            for kind in 0..4 {
                let (lock, sum) = (&lock, &sum);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let host = Inside::of(lock);
                        let add = |sum: &mut u64| *sum += 1;
                        if kind % 2 == 0 { sum.with(&host, add) } else { sum.outside(&host, add) }
                    }
                });
            }
        });
        assert_eq!(sum.with(&Inside::of(&lock), |sum| *sum), 2000);
    }

    #[test]
    fn a_value_that_is_taken_gives_back_what_was_given() {
        let (lock, value, met) = (Mutex::new(()), Shared::new(1), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                value.outside(&Inside::of(&lock), |_| {
                    met.wait();
                    met.wait();
                });
            });
            met.wait();
            assert_eq!(value.try_with("given", |value, _| *value), Err("given"));
            met.wait();
        });
        assert_eq!(value.try_with(2, |value, more| *value + more), Ok(3));
    }

    #[test]
    fn a_panic_leaves_the_value_to_others() {
        let value = Shared::new(1);
        let failed = thread::scope(|scope| scope.spawn(|| value.try_with((), |_, ()| panic!("work failed"))).join());
        assert!(failed.is_err());
        assert_eq!(value.try_with((), |value, ()| *value), Ok(1));
        let lock = Mutex::new(());
        assert_eq!(value.outside(&Inside::of(&lock), |value| *value), 1);
    }
}

/// Run by `RUSTFLAGS="--cfg loom" cargo test -p rlfast-core --release --lib loom` (or `make loom`).
#[cfg(loom)]
mod loom_tests {
    use loom::thread;

    use super::*;

    /// The host's lock, the gate and a value. They are leaked, so that a failing model drops nothing.
    type World = &'static (Mutex<()>, Gate, Shared<usize>);

    fn world() -> World {
        let gate = Gate { inside: AtomicUsize::new(0), forks: AtomicUsize::new(0) };
        Box::leak(Box::new((Mutex::new(()), gate, Shared::new(0))))
    }

    /// Work during which another thread may run.
    fn count(value: &mut usize) {
        thread::yield_now();
        *value += 1;
    }

    fn short(world: World) {
        world.2.with_at(&world.1, &Inside::of(&world.0), count);
    }

    fn long(world: World) {
        world.2.outside_at(&world.1, &Inside::of(&world.0), count);
    }

    fn value(world: World) -> usize {
        world.2.try_with((), |value, ()| *value).expect("nobody else is there")
    }

    /// Runs all of `kinds` at once, each in its own thread.
    fn together<const N: usize>(kinds: [fn(World); N]) {
        loom::model(move || {
            let world = world();
            let threads: Vec<_> = kinds[1..].iter().map(|&kind| thread::spawn(move || kind(world))).collect();
            kinds[0](world);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(value(world), N);
        });
    }

    #[test]
    fn short_and_long_work_never_wait_for_each_other() {
        together([short, long]);
        together([long, long]);
        together([short, short]);
    }

    #[test]
    fn three_threads_do_not_either() {
        together([short, long, short]);
    }

    /// Checks, where a fork would happen, that no other thread holds the value.
    fn fork(world: World) {
        let host = Inside::of(&world.0);
        world.1.close();
        let counted = world.2.try_with((), |value, ()| *value += 1);
        assert!(counted.is_ok(), "the child would wait for a thread that it does not have");
        world.1.open();
        drop(host);
    }

    #[test]
    fn a_fork_finds_nobody_at_work() {
        together([fork, long]);
        together([fork, short]);
    }

    /// Checks that the models find a deadlock: one thread takes the host's lock while it holds the value, another waits
    /// for the value while it holds the host's lock.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn waiting_inside_the_hosts_lock_is_found() {
        fn keeps(world: World) {
            let mut value = world.2.lock();
            let _host = Inside::of(&world.0);
            *value += 1;
        }
        fn waits(world: World) {
            let _host = Inside::of(&world.0);
            *world.2.lock() += 1;
        }
        together([keeps, waits]);
    }

    /// Checks that the models find a fork that does not wait.
    #[test]
    #[should_panic(expected = "the child would wait")]
    fn a_fork_that_does_not_wait_is_found() {
        fn fork_at_once(world: World) {
            let host = Inside::of(&world.0);
            let counted = world.2.try_with((), |value, ()| *value += 1);
            assert!(counted.is_ok(), "the child would wait for a thread that it does not have");
            drop(host);
        }
        together([fork_at_once, long]);
    }
}
