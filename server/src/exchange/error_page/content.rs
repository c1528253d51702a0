//! The content of an error page, in any format.

/// The content of the page.
pub(super) struct Content {
    pub(super) status: u16,
    pub(super) title: &'static str,
    pub(super) text: String,
    /// The application's own output.
    pub(super) details: Option<String>,
    /// Further facts: names and texts.
    pub(super) facts: Vec<(&'static str, String)>,
}
