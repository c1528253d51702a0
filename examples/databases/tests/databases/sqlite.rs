//! A pool of connections to one file.

use databases::sqlite::pool;
use std::thread::scope;

/// Threads write side by side. Each tenth transaction is left open: it is rolled back, and holds up no other writer.
#[test]
fn threads_write_to_one_file() {
    let file = std::env::temp_dir().join(format!("cabrank-{}.sqlite", std::process::id()));
    let pool = pool(&file, 4).expect("valid");
    let lent = pool.borrow().expect("a connection");
    lent.execute_batch("CREATE TABLE t (n INTEGER)").expect("a new file");
    drop(lent);
    scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 0..20 {
                    let lent = pool.borrow().expect("a connection");
                    lent.execute_batch("BEGIN IMMEDIATE").expect("its turn");
                    lent.execute("INSERT INTO t VALUES (?1)", [number]).expect("a table");
                    if number % 10 != 0 {
                        lent.execute_batch("COMMIT").expect("a table");
                    }
                }
            });
        }
    });
    let lent = pool.borrow().expect("a connection");
    let count: i64 = lent.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("rows");
    assert_eq!(count, 8 * 18);
    assert!(pool.num_total() <= 4);
    drop(lent);
    drop(pool);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
}
