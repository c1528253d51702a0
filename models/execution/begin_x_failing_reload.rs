//! After an execution has reloaded, another has its turn before the first one's body, and fails to reload.
//!
//! Guards the loop in `Execution::begin_reloading`: a body begins once its share is back and the code is whole, not
//! once its own reload has succeeded. Without it, the first body runs on code that the second has half reloaded.
//! Asserted: the second reload fails, and the first body does not begin.
//!
//! The second reload is due because of a later change. Only an execution that accepts unloads can find that change
//! between the two. Here it wants to unload by itself, and gives that up in the middle of the first reload. Then
//! it begins a nested execution of the reloader, which looks and is refused.

use crate::execution::Refused;
use crate::kernel::sync::thread::JoinHandle;
use crate::models::interlock::rig::{owner, unload_async};
use crate::models::loaded_code::LoadedCode;
use crate::models::rig::*;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

#[test]
fn begin_x_failing_reload() {
    let ways = ["the finder had ended", "the finder had not ended"];
    explore(Model("begin_x_failing_reload", 1_022), &ways, move |outcomes| {
        let (code, builder) = LoadedCode::without_steps(2);
        let reloader = builder.build().expect("valid");
        code.fail(2);
        let mut finds = Box::pin({
            let (reloader, code) = (reloader.clone(), code.clone());
            async move {
                let mut execution = reloader.executor().run_async().await.expect("it is whole");
                {
                    let running = execution.running().expect("there is an interlock");
                    let mut waits = Box::pin(unload_async(running, || ()));
                    let mut polled = false;
                    poll_fn(|_| match std::mem::replace(&mut polled, true) {
                        true => Poll::Ready(()),
                        false => {
                            assert!(poll_once(waits.as_mut()).is_pending(), "others run");
                            Poll::Pending
                        }
                    })
                    .await;
                }
                code.edit(3);
                let nested = execution.within(|_| reloader.wrap(|_| Ok(())));
                let refused = nested.expect_err("a reload is due");
                assert!(refused.first().cause().is::<Refused>(), "{refused}");
                // Its hook looks at the code, and so needs the share.
                let running = execution.running().expect("there is an interlock");
                running.load_async(async |_| ()).await.expect("no limit");
            }
        });
        // The end of a load lets all in, so that all have a share before one asks to unload.
        let mut loader = owner(code.interlock());
        let mut loads = Box::pin(loader.load_async(async |_| std::future::pending::<()>().await));
        assert!(poll_once(loads.as_mut()).is_pending());
        let [mut second, mut first] = [(); 2].map(|()| {
            let (reloader, code) = (reloader.clone(), code.clone());
            Box::pin(async move { reloader.wrap_async(async |_| Ok(code.look())).await })
        });
        assert!(poll_once(finds.as_mut()).is_pending());
        assert!(poll_once(second.as_mut()).is_pending() && poll_once(first.as_mut()).is_pending());
        drop(loads);
        drop(loader);
        assert!(poll_once(finds.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        let finder: Arc<Mutex<Option<JoinHandle<()>>>> = Arc::default();
        let begun = finder.clone();
        code.amid_unload(move || {
            *begun.lock().expect("no panic") = Some(spawn(move || block_on(finds)));
        });
        assert!(poll_once(first.as_mut()).is_pending(), "it reloads, and lets the second go");
        let had_ended = code.completed() > 0;
        assert!(block_on(second).is_err(), "its reload fails on purpose");
        let refused = block_on(first).expect_err("the code is half reloaded");
        assert!(refused.first().cause().is::<Refused>(), "{refused}");
        let finder = finder.lock().expect("no panic").take().expect("there was an unload");
        finder.join().expect("no panic");
        assert_eq!(code.unloads(), 1);
        outcomes.note(ways[usize::from(!had_ended)]);
    });
}
