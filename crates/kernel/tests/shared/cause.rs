//! Why an episode begins, from `cc` to the kernel's code.

use lowtide_cc::Cause;
use lowtide_kernel::native;

pub fn native(cause: Cause) -> native::Cause {
    match cause {
        Cause::Loss => native::Cause::Loss,
        Cause::Ecn => native::Cause::Ecn,
        Cause::Timeout => native::Cause::Timeout,
    }
}
