//! Rows over a pool of threads.
//!
//! In:     an engine, a pool, rows.
//! Out:    verdicts in the rows' order.
//! Fails:  never.

use std::sync::Arc;

use stdx::pool::Pool;

use crate::check::Check;
use crate::engine::Engine;

/// Most rows in one call of an engine: 4,096 rows of 162 bytes stay within a second-level cache of 1 MiB, and a vector
/// engine gains nothing from more.
pub const CALL_ROWS_MAX: usize = 4096;

/// Fewest rows worth a call of their own: a vector engine shares its inversions over at least 128 rows.
const CALL_ROWS_MIN: usize = 128;

/// Checks `checks` with all threads of `pool`.
pub fn verify_parallel(engine: &Arc<dyn Engine>, pool: &Pool, checks: Vec<Check>) -> Vec<bool> {
    let count = checks.len();
    // Four calls a thread even out threads that are slowed down by others.
    let rows = count.div_ceil(4 * pool.threads()).clamp(CALL_ROWS_MIN, CALL_ROWS_MAX);
    if count <= rows {
        let mut verdicts = vec![false; count];
        engine.verify(&checks, &mut verdicts);
        return verdicts;
    }
    let (engine, checks) = (engine.clone(), Arc::new(checks));
    let starts = (0..count).step_by(rows);
    let parts = pool.map(starts, move |start| {
        let part = &checks[start..(start + rows).min(checks.len())];
        let mut verdicts = vec![false; part.len()];
        engine.verify(part, &mut verdicts);
        verdicts
    });
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineName, engine};
    use secp256k1::{Keypair, schnorr};

    #[test]
    fn verdicts_keep_the_order_of_rows() {
        let keypair = Keypair::from_secret_bytes([3; 32]).unwrap();
        let key = keypair.x_only_public_key().0.to_byte_array();
        let signature = schnorr::sign_no_aux_rand(&[5; 32], &keypair).to_byte_array();
        let good = Check::Schnorr { key, signature, message: [5; 32] };
        let bad = Check::Schnorr { key, signature, message: [6; 32] };
        let engines = [EngineName::Auto, EngineName::Scalar].map(|name| engine(name).unwrap());
        let pool = Pool::new("sigs-test", 3);
        for engine in engines {
            for count in [0, 1, 127, 128, 129, 700] {
                let want: Vec<bool> = (0..count).map(|row| row % 3 != 1).collect();
                let checks = want.iter().map(|&yes| if yes { good } else { bad }).collect();
                assert_eq!(verify_parallel(&engine, &pool, checks), want);
            }
            let counters = engine.counters();
            assert_eq!((counters.checks, counters.scalar + counters.lanes + counters.batched), (1085, 1085));
            assert!(counters.calls >= 7 && counters.accepted < counters.checks, "{counters:?}");
        }
    }
}
