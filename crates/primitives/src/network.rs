//! The networks and everything that differs between them.
//!
//! In:     a network's name.
//! Out:    [`Params`]: genesis, heights of rules, limits of proof of work, prefixes of addresses.
//! Fails:  only in parsing a name.
//! Source: Bitcoin Core, `src/kernel/chainparams.cpp` (buried deployments, `script_flag_exceptions`).

use std::fmt;
use std::str::FromStr;

use stdx::hex;

use crate::encode::put_compact_size;
use crate::hash::{BlockHash, sha256d};
use crate::header::Header;

/// A Bitcoin network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// The one with money on it.
    Main,
    /// The third public test network.
    Testnet3,
    /// The fourth (BIP 94).
    Testnet4,
    /// The default signed network (BIP 325).
    Signet,
    /// A private chain without difficulty.
    Regtest,
}

impl Network {
    /// Every network.
    pub const ALL: [Network; 5] =
        [Network::Main, Network::Testnet3, Network::Testnet4, Network::Signet, Network::Regtest];

    /// The name in configuration, logs and answers.
    pub fn name(self) -> &'static str {
        match self {
            Network::Main => "main",
            Network::Testnet3 => "testnet3",
            Network::Testnet4 => "testnet4",
            Network::Signet => "signet",
            Network::Regtest => "regtest",
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Network::ALL.into_iter().find(|network| network.name() == text);
        known.ok_or_else(|| format!("{text:?} is no network; known are main, testnet3, testnet4, signet, regtest"))
    }
}

/// Flags that `script_flag_exceptions` leaves on in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagException {
    /// Nothing but the buried soft forks of the block's height (Core: `SCRIPT_VERIFY_NONE`).
    None,
    /// BIP 16 and BIP 141 rules, and not BIP 341 (Core: `SCRIPT_VERIFY_P2SH | SCRIPT_VERIFY_WITNESS`).
    P2shAndWitness,
}

/// Constants of one network.
#[derive(Clone, Debug)]
pub struct Params {
    /// Which network.
    pub network: Network,
    /// First four bytes of every message and block-file record.
    pub magic: [u8; 4],
    /// Header of block 0.
    pub genesis: Header,
    /// Hash of block 0.
    pub genesis_hash: BlockHash,
    /// Blocks between halvings of the subsidy.
    pub subsidy_halving_interval: u32,
    /// First height of BIP 34.
    pub bip34_height: u32,
    /// Hash of the block at `bip34_height`; while it is an ancestor, BIP 30 need not be checked before 1,983,702.
    pub bip34_hash: Option<BlockHash>,
    /// First height of BIP 65.
    pub bip65_height: u32,
    /// First height of BIP 66.
    pub bip66_height: u32,
    /// First height of BIP 68, 112 and 113.
    pub csv_height: u32,
    /// First height of BIP 141, 143 and 147.
    pub segwit_height: u32,
    /// Blocks whose scripts are checked under fewer flags.
    pub flag_exceptions: Vec<(BlockHash, FlagException)>,
    /// Easiest target, 32 bytes big endian.
    pub pow_limit: [u8; 32],
    /// Seconds between blocks that retargeting aims at.
    pub pow_spacing_s: u32,
    /// Seconds of one retarget period.
    pub pow_timespan_s: u32,
    /// A block 20 minutes after its parent may use the easiest target.
    pub pow_allow_min_difficulty: bool,
    /// BIP 94: retargets start from the period's first block, and time warps are limited.
    pub bip94: bool,
    /// The target never changes.
    pub pow_no_retargeting: bool,
    /// Script every block must be signed for (BIP 325).
    pub signet_challenge: Option<Vec<u8>>,
    /// Least total work of a chain worth following, 32 bytes big endian.
    pub minimum_chainwork: [u8; 32],
    /// Port of the peer protocol.
    pub default_port: u16,
    /// Names whose addresses are those of peers; `x9.` before one asks for peers with all blocks and witnesses.
    pub dns_seeds: &'static [&'static str],
    /// Addresses of peers, one a line, for when no name can be asked; lines that begin with # are remarks.
    pub fixed_seeds: &'static str,
    /// Version byte of pay-to-pubkey-hash addresses.
    pub base58_pubkey_hash: u8,
    /// Version byte of pay-to-script-hash addresses.
    pub base58_script_hash: u8,
    /// Version byte of private keys in WIF.
    pub base58_secret_key: u8,
    /// Human-readable part of segwit addresses.
    pub bech32_hrp: &'static str,
}

const GENESIS_MESSAGE: &str = "The Times 03/Jan/2009 Chancellor on brink of second bailout for banks";
const GENESIS_KEY: &str = "04678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51e\
                           c112de5c384df7ba0b8d578a4c702b6bf11d5f";
const TESTNET4_MESSAGE: &str = "03/May/2024 000000000000000000001ebd58c244970b3aa9d783bb001011fbe8ea8e98e00e";
const TESTNET4_KEY: &str = "000000000000000000000000000000000000000000000000000000000000000000";
const SIGNET_CHALLENGE: &str = "512103ad5e0edad18cb1f0fc0d28a3d4f1f3e445640337489abb10404f2d1e086be430210359ef5021964f\
                                e22d6f8e05b2463c9540ce96883fe3b278760f048f5189f2e6c452ae";

impl Params {
    /// The constants of `network`.
    pub fn of(network: Network) -> Params {
        match network {
            Network::Main => main(),
            Network::Testnet3 => testnet3(),
            Network::Testnet4 => testnet4(),
            Network::Signet => signet(),
            Network::Regtest => regtest(),
        }
    }

    /// Blocks in one retarget period; 2016 everywhere but on regtest, where it is 144.
    pub fn pow_interval(&self) -> u32 {
        self.pow_timespan_s / self.pow_spacing_s
    }

    /// Bytes of block 0, whole.
    pub fn genesis_block(&self) -> Vec<u8> {
        let mut block = self.genesis.encode().to_vec();
        block.push(1);
        block.extend_from_slice(&genesis_transaction(self.network));
        block
    }
}

/// Core's `CreateGenesisBlock`: a coinbase that pushes 486604799, 4 and a newspaper's line.
fn genesis_transaction(network: Network) -> Vec<u8> {
    let (message, key) = match network {
        Network::Testnet4 => (TESTNET4_MESSAGE, TESTNET4_KEY),
        _ => (GENESIS_MESSAGE, GENESIS_KEY),
    };
    let mut script_sig = vec![4, 0xff, 0xff, 0x00, 0x1d, 1, 4];
    if message.len() > 75 {
        script_sig.push(0x4c);
    }
    script_sig.push(message.len() as u8);
    script_sig.extend_from_slice(message.as_bytes());
    let key = hex::decode(key).expect("a constant");
    let mut script = vec![key.len() as u8];
    script.extend_from_slice(&key);
    script.push(0xac);

    let mut tx = vec![1, 0, 0, 0, 1];
    tx.extend_from_slice(&[0; 32]);
    tx.extend_from_slice(&[0xff; 4]);
    put_compact_size(&mut tx, script_sig.len() as u64);
    tx.extend_from_slice(&script_sig);
    tx.extend_from_slice(&[0xff; 4]);
    tx.push(1);
    tx.extend_from_slice(&5_000_000_000u64.to_le_bytes());
    put_compact_size(&mut tx, script.len() as u64);
    tx.extend_from_slice(&script);
    tx.extend_from_slice(&[0; 4]);
    tx
}

fn hash(text: &str) -> BlockHash {
    text.parse().expect("a constant")
}

fn number(text: &str) -> [u8; 32] {
    hex::decode_array(text).expect("a constant")
}

fn genesis(network: Network, time_s: u32, nonce: u32, bits: u32) -> Header {
    let merkle_root = sha256d(&genesis_transaction(network));
    Header { version: 1, previous: BlockHash([0; 32]), merkle_root, time_s, bits, nonce }
}

fn main() -> Params {
    Params {
        network: Network::Main,
        magic: [0xf9, 0xbe, 0xb4, 0xd9],
        genesis: genesis(Network::Main, 1_231_006_505, 2_083_236_893, 0x1d00_ffff),
        genesis_hash: hash("000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"),
        subsidy_halving_interval: 210_000,
        bip34_height: 227_931,
        bip34_hash: Some(hash("000000000000024b89b42a942fe0d9fea3bb44ab7bd1b19115dd6a759c0808b8")),
        bip65_height: 388_381,
        bip66_height: 363_725,
        csv_height: 419_328,
        segwit_height: 481_824,
        flag_exceptions: vec![
            (hash("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22"), FlagException::None),
            (hash("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad"), FlagException::P2shAndWitness),
        ],
        pow_limit: number("00000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
        pow_spacing_s: 600,
        pow_timespan_s: 1_209_600,
        pow_allow_min_difficulty: false,
        bip94: false,
        pow_no_retargeting: false,
        signet_challenge: None,
        minimum_chainwork: number("0000000000000000000000000000000000000001128750f82f4c366153a3a030"),
        default_port: 8333,
        dns_seeds: &[
            "dnsseed.bluematt.me",
            "seed.bitcoin.jonasschnelli.ch",
            "seed.btc.petertodd.net",
            "seed.bitcoin.sprovoost.nl",
            "dnsseed.emzy.de",
            "seed.bitcoin.wiz.biz",
            "seed.mainnet.achownodes.xyz",
        ],
        fixed_seeds: include_str!("seeds/main.txt"),
        base58_pubkey_hash: 0,
        base58_script_hash: 5,
        base58_secret_key: 128,
        bech32_hrp: "bc",
    }
}

fn testnet3() -> Params {
    Params {
        network: Network::Testnet3,
        magic: [0x0b, 0x11, 0x09, 0x07],
        genesis: genesis(Network::Testnet3, 1_296_688_602, 414_098_458, 0x1d00_ffff),
        genesis_hash: hash("000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943"),
        bip34_height: 21_111,
        bip34_hash: Some(hash("0000000023b3a96d3484e5abb3755c413e7d41500f8e2a5c3f0dd01299cd8ef8")),
        bip65_height: 581_885,
        bip66_height: 330_776,
        csv_height: 770_112,
        segwit_height: 834_624,
        flag_exceptions: vec![(
            hash("00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105"),
            FlagException::None,
        )],
        pow_allow_min_difficulty: true,
        minimum_chainwork: number("0000000000000000000000000000000000000000000017dde1c649f3708d14b6"),
        default_port: 18_333,
        dns_seeds: &[
            "testnet-seed.bitcoin.jonasschnelli.ch",
            "seed.tbtc.petertodd.net",
            "seed.testnet.bitcoin.sprovoost.nl",
            "testnet-seed.bluematt.me",
            "seed.testnet.achownodes.xyz",
        ],
        fixed_seeds: include_str!("seeds/testnet3.txt"),
        base58_pubkey_hash: 111,
        base58_script_hash: 196,
        base58_secret_key: 239,
        bech32_hrp: "tb",
        ..main()
    }
}

fn testnet4() -> Params {
    Params {
        network: Network::Testnet4,
        magic: [0x1c, 0x16, 0x3f, 0x28],
        genesis: genesis(Network::Testnet4, 1_714_777_860, 393_743_547, 0x1d00_ffff),
        genesis_hash: hash("00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043"),
        bip34_height: 1,
        bip34_hash: None,
        bip65_height: 1,
        bip66_height: 1,
        csv_height: 1,
        segwit_height: 1,
        flag_exceptions: Vec::new(),
        bip94: true,
        minimum_chainwork: number("0000000000000000000000000000000000000000000009a0fe15d0177d086304"),
        default_port: 48_333,
        dns_seeds: &["seed.testnet4.bitcoin.sprovoost.nl", "seed.testnet4.wiz.biz"],
        fixed_seeds: include_str!("seeds/testnet4.txt"),
        ..testnet3()
    }
}

fn signet() -> Params {
    Params {
        network: Network::Signet,
        magic: [0x0a, 0x03, 0xcf, 0x40],
        genesis: genesis(Network::Signet, 1_598_918_400, 52_613_770, 0x1e03_77ae),
        genesis_hash: hash("00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6"),
        pow_limit: number("00000377ae000000000000000000000000000000000000000000000000000000"),
        pow_allow_min_difficulty: false,
        bip94: false,
        signet_challenge: Some(hex::decode(SIGNET_CHALLENGE).expect("a constant")),
        minimum_chainwork: number("00000000000000000000000000000000000000000000000000000b463ea0a4b8"),
        default_port: 38_333,
        dns_seeds: &["seed.signet.bitcoin.sprovoost.nl", "seed.signet.achownodes.xyz"],
        fixed_seeds: include_str!("seeds/signet.txt"),
        ..testnet4()
    }
}

fn regtest() -> Params {
    Params {
        network: Network::Regtest,
        magic: [0xfa, 0xbf, 0xb5, 0xda],
        genesis: genesis(Network::Regtest, 1_296_688_602, 2, 0x207f_ffff),
        genesis_hash: hash("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"),
        subsidy_halving_interval: 150,
        segwit_height: 0,
        pow_limit: number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
        pow_timespan_s: 86_400,
        pow_no_retargeting: true,
        bip94: false,
        minimum_chainwork: [0; 32],
        default_port: 18_444,
        dns_seeds: &[],
        fixed_seeds: "",
        bech32_hrp: "bcrt",
        ..testnet4()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::hash::sha256d;

    #[test]
    fn genesis_blocks_have_their_published_hashes() {
        for network in Network::ALL {
            let params = Params::of(network);
            let block = Block::parse(params.genesis_block()).unwrap();
            assert_eq!(block.header().hash(), params.genesis_hash, "{network}");
            assert_eq!(block.tx(0).txid().0, params.genesis.merkle_root, "{network}");
            assert_eq!(network.name().parse(), Ok(network));
        }
    }

    #[test]
    fn signet_magic_comes_from_its_challenge() {
        let params = Params::of(Network::Signet);
        let challenge = params.signet_challenge.unwrap();
        let mut bytes = vec![challenge.len() as u8];
        bytes.extend_from_slice(&challenge);
        assert_eq!(sha256d(&bytes)[..4], params.magic);
    }
}
