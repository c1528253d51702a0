//! Fields of a request that repeat a name.
//!
//! A client chooses names and number of the fields. So the work for many fields grows no faster than a sort of them.

use crate::request::fields::{Field, Place};
use std::num::NonZeroU16;

/// The largest number of fields that are compared with each other.
const FEW: usize = 64;

/// Notes which fields repeat a name, and the next field of the same name.
pub(crate) fn mark_repeats(bytes: &[u8], fields: &mut [Field]) {
    match fields.len() {
        ..=FEW => mark_repeats_of_few(bytes, fields),
        _ => mark_repeats_of_many(bytes, fields),
    }
}

/// A set of 64 bits rules most comparisons out, so that a usual head costs one look at each field.
fn mark_repeats_of_few(bytes: &[u8], fields: &mut [Field]) {
    let mut seen = 0_u64;
    for i in 0..fields.len() {
        let name = fields[i].name.get(bytes);
        let ends = [name.first(), name.last()].map(|b| b.map_or(0, |b| usize::from(b | 0x20)));
        let bit = 1 << ((name.len() * 31 + ends[0] * 7 + ends[1]) % 64);
        if seen & bit != 0
            && let Some(former) = (0..i).rev().find(|&j| fields[j].has_name_of(&fields[i], bytes))
        {
            mark(fields, former, i);
        }
        seen |= bit;
    }
}

fn mark_repeats_of_many(bytes: &[u8], fields: &mut [Field]) {
    let mut order: Vec<usize> = (0..fields.len()).collect();
    // The sort is stable: fields of one name keep their order.
    order.sort_by_cached_key(|&i| fields[i].name.get(bytes).to_ascii_lowercase());
    for pair in order.windows(2) {
        if fields[pair[0]].has_name_of(&fields[pair[1]], bytes) {
            mark(fields, pair[0], pair[1]);
        }
    }
}

/// Notes that a field has the name of the former one.
fn mark(fields: &mut [Field], former: usize, later: usize) {
    if fields[former].place == Place::Only {
        fields[former].place = Place::First;
    }
    // A head has far fewer fields than this number can count.
    fields[former].next = u16::try_from(later).ok().and_then(NonZeroU16::new);
    fields[later].place = Place::Later;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::fields::{Name, Span};

    /// Returns the head and its fields of these names.
    fn fields(names: &[&str]) -> (Vec<u8>, Vec<Field>) {
        let bytes = names.concat().into_bytes();
        let mut end = 0;
        let spans = names.iter().map(|name| {
            end += name.len();
            Field::new(Span::from(end - name.len()..end), Span::default(), Name::Other)
        });
        let spans = spans.collect();
        (bytes, spans)
    }

    #[test]
    fn repeated_names_are_found() {
        use Place::{First, Later};
        let names = ["A", "B", "a", "Ab", "b", "aB", "A"];
        for mark in [mark_repeats_of_few, mark_repeats_of_many] {
            let (bytes, mut fields) = fields(&names);
            mark(&bytes, &mut fields);
            let places: Vec<_> = fields.iter().map(|f| f.place).collect();
            assert_eq!(places, [First, First, Later, First, Later, Later, Later]);
            let next: Vec<_> = fields.iter().map(|f| f.next.map_or(0, NonZeroU16::get)).collect();
            assert_eq!(next, [2, 4, 6, 5, 0, 0, 0]);
        }
    }

    #[test]
    fn few_and_many_fields_are_marked_alike() {
        let names: Vec<String> = (0..1000).map(|i| format!("X-{}", i * i % (i + 7))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (bytes, mut few) = fields(&names);
        let mut many = few.clone();
        mark_repeats_of_few(&bytes, &mut few);
        mark_repeats_of_many(&bytes, &mut many);
        let marks = |fields: &[Field]| fields.iter().map(|f| (f.place, f.next)).collect::<Vec<_>>();
        assert_eq!(marks(&few), marks(&many));
        assert!(many.iter().any(|field| field.place == Place::Only));
    }
}
