//! The rules as switches: the defects of the loaders as they were written, and the faults that the tests plant.

use crate::checking::switches::{self, switches};

switches! {
    /// A defect of the loaders before the rules of this machine.
    Defect:
    LateReader "the input of a request tests whether the request has ended, and then reads"
       "a read and the end of the input exclude each other; if a read is in progress at the end, the connection ends";
    LateWriter "an answer tests whether it has ended, and then sends"
       "a write and the end of the answer exclude each other";
    ChildGoesOn "a forked child goes on with the answer of its parent"
       "each send and receive checks the process, and the child leaves as soon as the application's code returns";
}

switches! {
    /// A fault that the checks must notice.
    Planted:
    InputEndsLate "the input ends after the end of the answer was sent" "it ends before";
    KeepsAbandoned "the server keeps a connection whose client has left before the end of the answer" "it awaits the end, or ends the connection";
    RetriesAfterByte "the server sends a request again although bytes of an answer have come" "it cuts the answer";
    RestStays "the loader takes the rest of a request for the head of the next" "it discards the rest first";
    AwaitsNothing "the server ends a connection, and awaits an answer on it" "its client gets an error, or another attempt";
    TakesCutForWhole "the server takes the end of the connection for the end of the answer" "the answer is cut";
    EndWithoutNews "the loader ends the connection, and the server does not notice" "the server notices";
}

/// How a machine differs from the one as ruled.
pub type Rules = switches::Rules<Defect, Planted>;
