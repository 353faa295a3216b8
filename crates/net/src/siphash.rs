//! SipHash-2-4 of 32 bytes, without a buffer: an identifier of a transaction is hashed for every filter and every compact block.
//!
//! In:     a key of 128 bits, 32 bytes.
//! Out:    64 bits.
//! Fails:  never.
//! Source: "SipHash: a fast short-input PRF", Aumasson and Bernstein; Bitcoin Core, `PresaltedSipHasher`.

/// One round.
#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[inline(always)]
fn word(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
}

/// The hash of 32 bytes.
#[inline]
pub fn siphash(key: [u64; 2], bytes: &[u8; 32]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, _) = bytes.as_chunks::<8>();
    for bytes in words {
        word(&mut v, u64::from_le_bytes(*bytes));
    }
    // The last word holds the length in its highest byte.
    word(&mut v, 32 << 56);
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin_hashes::siphash24;
    use stdx::random::Random;

    #[test]
    fn it_is_the_library_s_siphash() {
        let mut random = Random::new(24);
        for _ in 0..1_000 {
            let (key, bytes): ([u64; 2], [u8; 32]) = ([random.next_u64(), random.next_u64()], random.bytes());
            assert_eq!(siphash(key, &bytes), siphash24::Hash::hash_to_u64_with_keys(key[0], key[1], &bytes));
        }
    }
}
