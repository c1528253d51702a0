//! The number of the running thread of a model.

#[cfg(not(feature = "loom"))]
use shuttle as rt;

/// Which of the model's threads runs.
pub(crate) fn me() -> usize {
    #[cfg(feature = "loom")]
    {
        // loom shows the number only when it prints it. Each step asks, so a text of its own would be costly.
        struct Number(usize);
        impl std::fmt::Write for Number {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                for digit in text.bytes().filter(u8::is_ascii_digit) {
                    self.0 = self.0 * 10 + usize::from(digit - b'0');
                }
                Ok(())
            }
        }
        let mut number = Number(0);
        let _ = std::fmt::Write::write_fmt(
            &mut number,
            format_args!("{:?}", loom::thread::current().id()),
        );
        number.0
    }
    #[cfg(not(feature = "loom"))]
    {
        rt::current::me().into()
    }
}
