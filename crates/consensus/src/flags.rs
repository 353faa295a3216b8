//! Which script rules a block is judged by.
//!
//! In:     a block's height and hash, and the network.
//! Out:    [`Flags`]; bits have the values of Core's `SCRIPT_VERIFY_*` and of libbitcoinkernel's flags.
//! Fails:  never.
//! Source: Bitcoin Core, `validation.cpp`, `GetBlockScriptFlags`.

use std::ops::BitOr;

use primitives::network::FlagException;
use primitives::{BlockHash, Params};

/// A set of script rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// No rule that came by soft fork.
    pub const NONE: Flags = Flags(0);
    /// Pay to script hash (BIP 16).
    pub const P2SH: Flags = Flags(1 << 0);
    /// Strict DER signatures (BIP 66).
    pub const DERSIG: Flags = Flags(1 << 2);
    /// The extra element of CHECKMULTISIG is empty (BIP 147).
    pub const NULLDUMMY: Flags = Flags(1 << 4);
    /// CHECKLOCKTIMEVERIFY (BIP 65).
    pub const CLTV: Flags = Flags(1 << 9);
    /// CHECKSEQUENCEVERIFY (BIP 112).
    pub const CSV: Flags = Flags(1 << 10);
    /// Witness programs (BIP 141, BIP 143).
    pub const WITNESS: Flags = Flags(1 << 11);
    /// Taproot (BIP 341, BIP 342).
    pub const TAPROOT: Flags = Flags(1 << 17);
    /// What no block is judged by and mempools ask of what they take in: rules that stop malleation and keep room for
    /// soft forks. One set, since templates and mempool want all of them or none: STRICTENC, LOW_S, MINIMALDATA,
    /// DISCOURAGE_UPGRADABLE_NOPS, CLEANSTACK, DISCOURAGE_UPGRADABLE_WITNESS_PROGRAM, MINIMALIF, NULLFAIL,
    /// WITNESS_PUBKEYTYPE, CONST_SCRIPTCODE, DISCOURAGE_UPGRADABLE_TAPROOT_VERSION, DISCOURAGE_OP_SUCCESS,
    /// DISCOURAGE_UPGRADABLE_PUBKEYTYPE (Core: `STANDARD_NOT_MANDATORY_VERIFY_FLAGS`).
    pub const POLICY: Flags =
        Flags(1 << 1 | 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 16 | 7 << 18);
    /// Every rule a mempool asks for (Core: `STANDARD_SCRIPT_VERIFY_FLAGS`).
    pub const STANDARD: Flags = Flags(Self::ALL.0 | Self::POLICY.0);
    /// Every rule in force today.
    pub const ALL: Flags = Flags(
        Self::P2SH.0
            | Self::DERSIG.0
            | Self::NULLDUMMY.0
            | Self::CLTV.0
            | Self::CSV.0
            | Self::WITNESS.0
            | Self::TAPROOT.0,
    );

    /// True where every rule of `other` is in this set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// True where some rule of [`Flags::POLICY`] is in this set.
    #[inline]
    pub const fn any_policy(self) -> bool {
        self.0 & Self::POLICY.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The rules for scripts in the block at `height` with `hash`.
pub fn at(height: u32, hash: &BlockHash, params: &Params) -> Flags {
    let exception = params.flag_exceptions.iter().find(|(block, _)| block == hash);
    // BIP 16, 141 and 341 are in force from genesis: the two blocks that break them are exceptions by hash.
    let mut flags = match exception.map(|(_, flags)| flags) {
        None => Flags::P2SH | Flags::WITNESS | Flags::TAPROOT,
        Some(FlagException::P2shAndWitness) => Flags::P2SH | Flags::WITNESS,
        Some(FlagException::None) => Flags::NONE,
    };
    let buried = [
        (params.bip66_height, Flags::DERSIG),
        (params.bip65_height, Flags::CLTV),
        (params.csv_height, Flags::CSV),
        (params.segwit_height, Flags::NULLDUMMY),
    ];
    for (first_height, flag) in buried {
        if height >= first_height {
            flags = flags | flag;
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Network;

    #[test]
    fn bits_are_those_of_libbitcoinkernel() {
        assert_eq!(Flags::P2SH.0, bitcoinkernel::VERIFY_P2SH);
        assert_eq!(Flags::DERSIG.0, bitcoinkernel::VERIFY_DERSIG);
        assert_eq!(Flags::NULLDUMMY.0, bitcoinkernel::VERIFY_NULLDUMMY);
        assert_eq!(Flags::CLTV.0, bitcoinkernel::VERIFY_CHECKLOCKTIMEVERIFY);
        assert_eq!(Flags::CSV.0, bitcoinkernel::VERIFY_CHECKSEQUENCEVERIFY);
        assert_eq!(Flags::WITNESS.0, bitcoinkernel::VERIFY_WITNESS);
        assert_eq!(Flags::TAPROOT.0, bitcoinkernel::VERIFY_TAPROOT);
        assert_eq!(Flags::ALL.0, bitcoinkernel::VERIFY_ALL);
    }

    #[test]
    fn rules_begin_at_their_heights_and_spare_two_blocks() {
        #[track_caller]
        fn check(network: Network, height: u32, hash: &str, want: Flags) {
            let hash = if hash.is_empty() { BlockHash::default() } else { hash.parse().unwrap() };
            assert_eq!(at(height, &hash, &Params::of(network)), want, "{network} {height}");
        }
        let always = Flags::P2SH | Flags::WITNESS | Flags::TAPROOT;
        let at_csv = always | Flags::DERSIG | Flags::CLTV | Flags::CSV;
        check(Network::Main, 0, "", always);
        check(Network::Main, 363_724, "", always);
        check(Network::Main, 363_725, "", always | Flags::DERSIG);
        check(Network::Main, 388_380, "", always | Flags::DERSIG);
        check(Network::Main, 388_381, "", always | Flags::DERSIG | Flags::CLTV);
        check(Network::Main, 419_327, "", always | Flags::DERSIG | Flags::CLTV);
        check(Network::Main, 419_328, "", at_csv);
        check(Network::Main, 481_823, "", at_csv);
        check(Network::Main, 481_824, "", Flags::ALL);
        check(Network::Main, 170_060, "00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22", Flags::NONE);
        let without_taproot = Flags(Flags::ALL.0 & !Flags::TAPROOT.0);
        let hash = "0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad";
        check(Network::Main, 692_261, hash, without_taproot);
        check(Network::Testnet3, 692_261, hash, at_csv.without_csv());
        check(Network::Testnet3, 394, "00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105", Flags::NONE);
        check(Network::Regtest, 0, "", always | Flags::NULLDUMMY);
        check(Network::Regtest, 1, "", Flags::ALL);
        check(Network::Signet, 1, "", Flags::ALL);
        check(Network::Testnet4, 1, "", Flags::ALL);
    }

    impl Flags {
        fn without_csv(self) -> Flags {
            Flags(self.0 & !Flags::CSV.0)
        }
    }
}
