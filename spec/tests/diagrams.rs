//! Compares the stored diagrams with those that the machine draws. To store the present ones:
//! `CABRANK_STORE_DIAGRAMS=1 cargo test -p cabrank-spec --test diagrams`.

use cabrank_spec::diagrams::all;

#[test]
fn the_stored_diagrams_are_current() {
    for (name, drawn) in all() {
        let file = format!("{}/diagrams/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("CABRANK_STORE_DIAGRAMS").is_some() {
            std::fs::write(&file, &drawn).expect("stored");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), drawn, "{name} has changed");
    }
}
