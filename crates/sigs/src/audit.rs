//! Rows that an engine of ours accepted, checked again by libsecp256k1 at random.
//!
//! In:     rows and an engine's verdicts.
//! Out:    how many were checked again.
//! Fails:  panics with the row, where libsecp256k1 refuses it: nothing decided since is certain.
//! Source: docs/signatures.md, "Safety".

use std::hash::{BuildHasher, RandomState};

use stdx::random::Random;

use crate::check::Check;
use crate::scalar::verify_one;

/// One accepted row in so many is checked again.
const ONE_IN: u64 = 256;

/// Draws the rows to check again; each thread has its own.
pub struct Auditor {
    /// Seeded by the operating system: nobody who makes signatures can know which rows are drawn.
    random: Random,
}

impl Auditor {
    /// With a seed of the operating system.
    pub fn new() -> Auditor {
        Auditor { random: Random::new(RandomState::new().hash_one(0)) }
    }

    /// Checks some of the rows `engine` accepted again; gives their number.
    pub fn audit<'a>(&mut self, engine: &str, accepted: impl Iterator<Item = &'a Check>) -> u64 {
        let mut audits = 0;
        for check in accepted {
            if self.random.chance(1, ONE_IN) {
                audits += 1;
                expect_good(engine, check);
            }
        }
        audits
    }
}

/// Panics where libsecp256k1 refuses the row.
fn expect_good(engine: &str, check: &Check) {
    assert!(
        verify_one(check),
        "signature engine \"{engine}\" accepted what libsecp256k1 refuses; the processor or this program is at fault, \
         restart with sig_engine = \"scalar\" and report this row: {check:x?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::self_test;

    #[test]
    fn one_in_256_is_drawn() {
        let rows = self_test::rows().0;
        let good = rows.iter().step_by(2).cycle().take(20_000);
        assert!((30..150).contains(&Auditor::new().audit("lanes", good)));
    }

    #[test]
    #[should_panic(expected = "accepted what libsecp256k1 refuses")]
    fn a_failed_audit_stops_the_program() {
        Auditor::new().audit("lanes", self_test::rows().0.iter().skip(1).step_by(2).cycle().take(20_000));
    }
}
