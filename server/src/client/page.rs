//! An answer of the server itself.

/// A page that the server itself answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
    /// More fields: names and values.
    pub(crate) fields: &'a [(&'a str, &'a str)],
}
