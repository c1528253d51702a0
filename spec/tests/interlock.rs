//! The load interlock.
use cabrank_spec::interlock::{exploration::check, rules::*, scenarios::all};
#[test]
fn all_of_them() {
    for s in all() {
        match check(&s.world(Rules::AS_MENDED)) {
            Ok(r) => {
                let e: Vec<_> = r.ends.iter().map(|s| s.as_str()).collect();
                println!("{:34} {:6} {:6} {:3} {}", s.name, r.states, r.steps, r.depth, if e == s.ends {"ok".into()} else {format!("ENDS {e:?}")});
            }
            Err(c) => println!("{:34} BROKEN {} {:#?} for ever {:?}", s.name, c.what, c.actions.iter().map(|a| format!("{} {:?}", s.scripts[a.owner].name, a.step)).collect::<Vec<_>>(), c.for_ever),
        }
    }
    let line = |rules| all().iter().map(|s| match check(&s.world(rules)) {
        Err(c) => format!("{}:{} ", s.name, c.what),
        Ok(r) if r.ends.iter().map(|s| s.as_str()).collect::<Vec<_>>() != s.ends => format!("{}:ends ", s.name),
        _ => String::new(),
    }).collect::<String>();
    for &d in Defect::ALL { println!("{d:?}: {}", line(Rules::AS_MENDED.but(d))); }
    println!("RAILS: {}", line(Rules::AS_IN_RAILS));
    for &p in Planted::ALL { println!("{p:?}: {}", line(Rules::AS_MENDED.with(p))); }
}
