//! Output descriptors: what scripts a short text stands for.
//!
//! In:     text such as `wpkh(KEY)` or `sh(multi(2,KEY,KEY))#checksum`; the network.
//! Out:    [`Descriptor`]: its canonical text, its scripts at a position of its range.
//! Fails:  a sentence that says what is wrong, in Core's words where it has them.
//! Source: BIP 380 to 386; Bitcoin Core, `src/script/descriptor.cpp`.
//!
//! Known are raw, addr, pk, pkh, wpkh, combo, multi, sortedmulti, sh, wsh, tr with a key alone, and rawtr. Script trees,
//! miniscript and multipath keys are not.

use primitives::hash::{hash160, sha256};
use primitives::{Params, address};
use secp256k1::{PublicKey, Scalar, XOnlyPublicKey};
use stdx::hex;

use super::extended::{ExtendedKey, HARDENED};
use super::secret::{Secret, written};
use crate::calls::coins::inferred;
use crate::decoded::descriptor::{CHECKSUM_LENGTH, checksum};

/// Keys of a `multi` (Core: `MAX_PUBKEYS_PER_MULTISIG`).
const MULTI_KEYS_MAX: usize = 20;

/// Where a script stands: keys and scripts allowed there differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Top,
    ScriptHash,
    WitnessScriptHash,
}

/// How the last step of a path is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wildcard {
    None,
    Plain,
    Hardened,
}

/// Where a key comes from.
#[derive(Clone, Debug)]
enum Source {
    Public(Vec<u8>),
    /// 32 bytes, as taproot writes keys.
    Short([u8; 32]),
    Secret(Secret),
    Extended {
        key: ExtendedKey,
        path: Vec<u32>,
        marks: String,
        wildcard: Wildcard,
    },
}

/// One key.
#[derive(Clone, Debug)]
struct Key {
    /// `[fingerprint/path]`, without the brackets.
    origin: Option<String>,
    source: Source,
}

/// A key at one position, and what is known of where it comes from.
struct Derived {
    /// As scripts write it: 33 or 65 bytes, or 32 for taproot.
    bytes: Vec<u8>,
    origin: String,
}

#[derive(Clone, Debug)]
enum Node {
    Raw(Vec<u8>),
    Addr(Vec<u8>, String),
    Pk(Key),
    Pkh(Key),
    Wpkh(Key),
    Combo(Key),
    Multi { required: usize, keys: Vec<Key>, sorted: bool },
    Sh(Box<Node>),
    Wsh(Box<Node>),
    Tr(Key),
    RawTr(Key),
}

/// A parsed descriptor.
#[derive(Clone, Debug)]
pub struct Descriptor(Node);

type Parsed<T> = Result<T, String>;

/// Parses text, with or without a checksum.
pub fn parse(text: &str, params: &Params, checksum_needed: bool) -> Parsed<Descriptor> {
    let (body, given) = match text.split_once('#') {
        Some((_, sum)) if sum.contains('#') => return Err("Multiple '#' symbols".to_owned()),
        Some((body, sum)) => (body, Some(sum)),
        None => (text, None),
    };
    if given.is_none() && checksum_needed {
        return Err("Missing checksum".to_owned());
    }
    let computed = checksum_text(body).ok_or("Invalid characters in payload")?;
    if let Some(given) = given {
        if given.len() != CHECKSUM_LENGTH {
            return Err(format!("Expected 8 character checksum, not {} characters", given.len()));
        }
        if given != computed {
            return Err(format!("Provided checksum '{given}' does not match computed checksum '{computed}'"));
        }
    }
    Ok(Descriptor(node(body, Place::Top, params)?))
}

/// The checksum of a descriptor's text, as text.
pub fn checksum_text(body: &str) -> Option<String> {
    checksum(body.as_bytes()).map(|sum| String::from_utf8(sum.to_vec()).expect("checksums are ASCII"))
}

fn node(text: &str, place: Place, params: &Params) -> Parsed<Node> {
    let inner = text.strip_suffix(')').and_then(|text| text.split_once('('));
    let Some((name, inner)) = inner else {
        return Err(format!("'{text}' is not a valid descriptor function"));
    };
    let key = |short_allowed| key(inner, place, short_allowed, params);
    let only_at_top = |node: Parsed<Node>| match place {
        Place::Top => node,
        _ => Err(format!("Can only have {name}() at top level")),
    };
    match name {
        "pk" => Ok(Node::Pk(key(false)?)),
        "pkh" => Ok(Node::Pkh(key(false)?)),
        "wpkh" if place == Place::WitnessScriptHash => {
            Err("Can only have wpkh() at top level or inside sh()".to_owned())
        }
        "wpkh" => {
            let key = key(false)?;
            if key.is_long() { Err("Uncompressed keys are not allowed".to_owned()) } else { Ok(Node::Wpkh(key)) }
        }
        "combo" => only_at_top(key(false).map(Node::Combo)),
        "multi" | "sortedmulti" => multi(inner, name == "sortedmulti", place, params),
        "sh" => only_at_top(node(inner, Place::ScriptHash, params).map(|node| Node::Sh(Box::new(node)))),
        "wsh" if place == Place::WitnessScriptHash => Err("Can only have wsh() at top level or inside sh()".to_owned()),
        "wsh" => Ok(Node::Wsh(Box::new(node(inner, Place::WitnessScriptHash, params)?))),
        "tr" if inner.contains(',') => Err("tr() with a script tree is not supported by this node".to_owned()),
        "tr" => only_at_top(key(true).map(Node::Tr)),
        "rawtr" => only_at_top(key(true).map(Node::RawTr)),
        "addr" => only_at_top(match address::to_script(inner, params) {
            Ok(script) => Ok(Node::Addr(script, inner.to_owned())),
            Err(_) => Err("Address is not valid".to_owned()),
        }),
        "raw" => only_at_top(hex::decode(inner).map(Node::Raw).map_err(|_| "Raw script is not hex".to_owned())),
        _ => Err(format!("'{text}' is not a valid descriptor function")),
    }
}

fn multi(inner: &str, sorted: bool, place: Place, params: &Params) -> Parsed<Node> {
    let mut parts = inner.split(',');
    let threshold = parts.next().unwrap_or_default();
    let required: usize = threshold.parse().map_err(|_| format!("Multi threshold '{threshold}' is not valid"))?;
    let keys = parts.map(|text| key(text, place, false, params)).collect::<Parsed<Vec<Key>>>()?;
    if keys.is_empty() || keys.len() > MULTI_KEYS_MAX {
        let count = keys.len();
        return Err(format!("Cannot have {count} keys in multisig; must have between 1 and 20 keys, inclusive"));
    }
    if required < 1 {
        return Err(format!("Multisig threshold cannot be {required}, must be at least 1"));
    }
    if required > keys.len() {
        let count = keys.len();
        return Err(format!(
            "Multisig threshold cannot be larger than the number of keys; threshold is {required} but only {count} keys specified"
        ));
    }
    if place == Place::Top && keys.len() > 3 {
        return Err(format!("Cannot have {} pubkeys in bare multisig; only at most 3 pubkeys", keys.len()));
    }
    Ok(Node::Multi { required, keys, sorted })
}

/// Numbers of the steps of a path.
fn steps(path: &str) -> Parsed<Vec<u32>> {
    let step = |text: &str| {
        let (digits, hardened) = text.strip_suffix(['h', '\'']).map_or((text, false), |digits| (digits, true));
        let number: u32 = digits.parse().map_err(|_| format!("Key path value '{text}' is not a valid uint32"))?;
        if number >= HARDENED {
            return Err(format!("Key path value {number} is out of range"));
        }
        Ok(if hardened { number | HARDENED } else { number })
    };
    path.split('/').filter(|text| !text.is_empty()).map(step).collect()
}

fn key(text: &str, place: Place, short_allowed: bool, params: &Params) -> Parsed<Key> {
    let (origin, text) = match text.strip_prefix('[') {
        None => (None, text),
        Some(rest) => {
            let (origin, key) = rest.split_once(']').ok_or("Key origin start '[ character expected but not found")?;
            let (fingerprint, path) = origin.split_once('/').unwrap_or((origin, ""));
            if hex::decode_array::<4>(fingerprint).is_err() {
                return Err(format!("Fingerprint '{fingerprint}' is not hex"));
            }
            steps(path)?;
            (Some(origin.to_owned()), key)
        }
    };
    let source = source(text, short_allowed, params)?;
    let key = Key { origin, source };
    if place == Place::WitnessScriptHash && key.is_long() {
        return Err("Uncompressed keys are not allowed".to_owned());
    }
    Ok(key)
}

fn source(text: &str, short_allowed: bool, params: &Params) -> Parsed<Source> {
    if text.is_empty() {
        return Err("No key provided".to_owned());
    }
    if let Ok(bytes) = hex::decode(text) {
        if short_allowed && let Ok(short) = <[u8; 32]>::try_from(&bytes[..]) {
            let valid = XOnlyPublicKey::from_byte_array(short).is_ok();
            return if valid { Ok(Source::Short(short)) } else { Err(format!("Pubkey '{text}' is invalid")) };
        }
        let plain = matches!((bytes.first(), bytes.len()), (Some(2 | 3), 33) | (Some(4), 65));
        if !plain || PublicKey::from_slice(&bytes).is_err() {
            return Err(format!("Pubkey '{text}' is invalid"));
        }
        return match short_allowed && bytes.len() == 65 {
            true => Err("Uncompressed keys are not allowed".to_owned()),
            false => Ok(Source::Public(bytes)),
        };
    }
    if let Some(secret) = Secret::parse(text, params) {
        return Ok(Source::Secret(secret));
    }
    let (base, path) = text.split_once('/').unwrap_or((text, ""));
    let key = ExtendedKey::parse(base, params.network).ok_or_else(|| format!("key '{text}' is not valid"))?;
    let (path, wildcard) = match path.rsplit_once('/').unwrap_or(("", path)) {
        (before, "*") => (before, Wildcard::Plain),
        (before, "*h" | "*'") => (before, Wildcard::Hardened),
        _ => (path, Wildcard::None),
    };
    let marks = text[base.len()..].to_owned();
    Ok(Source::Extended { key, path: steps(path)?, marks, wildcard })
}

impl Key {
    fn is_long(&self) -> bool {
        match &self.source {
            Source::Public(bytes) => bytes.len() == 65,
            Source::Secret(secret) => !secret.compressed,
            _ => false,
        }
    }

    fn is_range(&self) -> bool {
        matches!(&self.source, Source::Extended { wildcard, .. } if *wildcard != Wildcard::None)
    }

    fn is_secret(&self) -> bool {
        match &self.source {
            Source::Secret(_) => true,
            Source::Extended { key, .. } => key.secret().is_some(),
            _ => false,
        }
    }

    /// Its text without private keys; 32 bytes of it where `short`.
    fn text(&self, short: bool) -> String {
        let body = match &self.source {
            Source::Public(bytes) if short => hex::encode(&bytes[1..]),
            Source::Public(bytes) => hex::encode(bytes),
            Source::Short(bytes) => hex::encode(bytes),
            Source::Secret(secret) if short => hex::encode(&secret.public()[1..33]),
            Source::Secret(secret) => hex::encode(&secret.public()),
            Source::Extended { key, marks, .. } => format!("{}{marks}", key.public_text()),
        };
        self.origin.as_ref().map_or(body.clone(), |origin| format!("[{origin}]{body}"))
    }

    /// The key at a position; none where a hardened step has no private key.
    fn derive(&self, position: u32, short: bool) -> Option<Derived> {
        let (full, path): (Vec<u8>, String) = match &self.source {
            Source::Public(bytes) => (bytes.clone(), String::new()),
            Source::Secret(secret) => (secret.public(), String::new()),
            Source::Short(bytes) => ([&[2], &bytes[..]].concat(), String::new()),
            Source::Extended { key, path, wildcard, .. } => {
                let last = match wildcard {
                    Wildcard::None => None,
                    Wildcard::Plain => Some(position),
                    Wildcard::Hardened => Some(position | HARDENED),
                };
                let steps: Vec<u32> = path.iter().copied().chain(last).collect();
                let end = steps.iter().try_fold(key.clone(), |key, step| key.child(*step))?;
                let shown = steps.iter().map(|step| match step & HARDENED {
                    0 => format!("/{step}"),
                    _ => format!("/{}h", step & !HARDENED),
                });
                (written(end.public(), true), shown.collect())
            }
        };
        let origin = match (&self.origin, &self.source) {
            (Some(origin), _) => format!("{origin}{path}"),
            (None, Source::Extended { key, .. }) => format!("{}{path}", hex::encode(&key.fingerprint())),
            (None, _) => hex::encode(&hash160(&full)[..4]),
        };
        let bytes = if short { full[1..33].to_vec() } else { full };
        Some(Derived { bytes, origin })
    }
}

impl Derived {
    fn text(&self) -> String {
        format!("[{}]{}", self.origin, hex::encode(&self.bytes))
    }
}

fn pay_to_hash(key: &[u8]) -> Vec<u8> {
    [&[0x76, 0xa9, 20][..], &hash160(key), &[0x88, 0xac]].concat()
}

fn pay_to_key(key: &[u8]) -> Vec<u8> {
    [&[key.len() as u8][..], key, &[0xac]].concat()
}

/// The output script of P2SH for a script.
pub fn pay_to_script_hash(script: &[u8]) -> Vec<u8> {
    [&[0xa9, 20][..], &hash160(script), &[0x87]].concat()
}

/// A version 0 output script.
pub fn witness_v0(program: &[u8]) -> Vec<u8> {
    [&[0, program.len() as u8][..], program].concat()
}

/// `m key... n CHECKMULTISIG`.
pub fn multisig_script(required: usize, keys: &[Vec<u8>]) -> Vec<u8> {
    let number = |script: &mut Vec<u8>, value: usize| match value {
        1..=16 => script.push(0x50 + value as u8),
        _ => script.extend_from_slice(&[1, value as u8]),
    };
    let mut script = Vec::new();
    number(&mut script, required);
    for key in keys {
        script.push(key.len() as u8);
        script.extend_from_slice(key);
    }
    number(&mut script, keys.len());
    script.push(0xae);
    script
}

/// The output key of a taproot output with an internal key and no scripts (BIP 341, BIP 386).
pub fn taproot_output(internal: &[u8; 32]) -> Option<[u8; 32]> {
    let key = XOnlyPublicKey::from_byte_array(*internal).ok()?;
    let tag = sha256(b"TapTweak");
    let tweak = Scalar::from_be_bytes(sha256(&[&tag[..], &tag, internal].concat())).ok()?;
    Some(key.add_tweak(&tweak).ok()?.0.to_byte_array())
}

/// A script, and the descriptor that stands for it alone, without checksum.
type Expanded = (Vec<u8>, String);

impl Node {
    fn keys(&self) -> Vec<&Key> {
        match self {
            Node::Raw(_) | Node::Addr(..) => Vec::new(),
            Node::Pk(key) | Node::Pkh(key) | Node::Wpkh(key) | Node::Combo(key) | Node::Tr(key) | Node::RawTr(key) => {
                vec![key]
            }
            Node::Multi { keys, .. } => keys.iter().collect(),
            Node::Sh(inner) | Node::Wsh(inner) => inner.keys(),
        }
    }

    fn text(&self) -> String {
        match self {
            Node::Raw(script) => format!("raw({})", hex::encode(script)),
            Node::Addr(_, text) => format!("addr({text})"),
            Node::Pk(key) => format!("pk({})", key.text(false)),
            Node::Pkh(key) => format!("pkh({})", key.text(false)),
            Node::Wpkh(key) => format!("wpkh({})", key.text(false)),
            Node::Combo(key) => format!("combo({})", key.text(false)),
            Node::Multi { required, keys, sorted } => {
                let keys: Vec<String> = keys.iter().map(|key| key.text(false)).collect();
                format!("{}multi({required},{})", if *sorted { "sorted" } else { "" }, keys.join(","))
            }
            Node::Sh(inner) => format!("sh({})", inner.text()),
            Node::Wsh(inner) => format!("wsh({})", inner.text()),
            Node::Tr(key) => format!("tr({})", key.text(true)),
            Node::RawTr(key) => format!("rawtr({})", key.text(true)),
        }
    }

    /// The scripts at a position; none where a private key is missing.
    fn expand(&self, position: u32, params: &Params) -> Option<Vec<Expanded>> {
        let one = |script: Vec<u8>, text: String| Some(vec![(script, text)]);
        match self {
            Node::Raw(script) | Node::Addr(script, _) => {
                let text = inferred(script, params);
                let body = text.split('#').next().unwrap_or_default().to_owned();
                one(script.clone(), body)
            }
            Node::Pk(key) => {
                let key = key.derive(position, false)?;
                one(pay_to_key(&key.bytes), format!("pk({})", key.text()))
            }
            Node::Pkh(key) => {
                let key = key.derive(position, false)?;
                one(pay_to_hash(&key.bytes), format!("pkh({})", key.text()))
            }
            Node::Wpkh(key) => {
                let key = key.derive(position, false)?;
                one(witness_v0(&hash160(&key.bytes)), format!("wpkh({})", key.text()))
            }
            Node::Combo(key) => {
                let key = key.derive(position, false)?;
                let mut all = vec![
                    (pay_to_key(&key.bytes), format!("pk({})", key.text())),
                    (pay_to_hash(&key.bytes), format!("pkh({})", key.text())),
                ];
                if key.bytes.len() == 33 {
                    let witness = witness_v0(&hash160(&key.bytes));
                    all.push((witness.clone(), format!("wpkh({})", key.text())));
                    all.push((pay_to_script_hash(&witness), format!("sh(wpkh({}))", key.text())));
                }
                Some(all)
            }
            Node::Multi { required, keys, sorted } => {
                let mut keys = keys.iter().map(|key| key.derive(position, false)).collect::<Option<Vec<_>>>()?;
                if *sorted {
                    keys.sort_by(|a, b| a.bytes.cmp(&b.bytes));
                }
                let shown: Vec<String> = keys.iter().map(Derived::text).collect();
                let bytes: Vec<Vec<u8>> = keys.into_iter().map(|key| key.bytes).collect();
                one(multisig_script(*required, &bytes), format!("multi({required},{})", shown.join(",")))
            }
            Node::Sh(inner) => {
                let (script, text) = inner.expand(position, params)?.pop()?;
                one(pay_to_script_hash(&script), format!("sh({text})"))
            }
            Node::Wsh(inner) => {
                let (script, text) = inner.expand(position, params)?.pop()?;
                one(witness_v0(&sha256(&script)), format!("wsh({text})"))
            }
            Node::Tr(key) => {
                let key = key.derive(position, true)?;
                let output = taproot_output(&key.bytes[..].try_into().ok()?)?;
                one([&[0x51, 32][..], &output].concat(), format!("tr({})", key.text()))
            }
            Node::RawTr(key) => {
                let key = key.derive(position, true)?;
                one([&[0x51, 32][..], &key.bytes].concat(), format!("rawtr({})", key.text()))
            }
        }
    }
}

impl Descriptor {
    /// Its text without private keys, checksum included.
    pub fn text(&self) -> String {
        let body = self.0.text();
        let sum = checksum_text(&body).expect("made of its characters");
        format!("{body}#{sum}")
    }

    /// True where it stands for a row of scripts.
    pub fn is_range(&self) -> bool {
        self.0.keys().into_iter().any(Key::is_range)
    }

    /// True where keys that could sign are named.
    pub fn is_solvable(&self) -> bool {
        !self.0.keys().is_empty()
    }

    /// True where the text held a private key.
    pub fn has_secrets(&self) -> bool {
        self.0.keys().into_iter().any(Key::is_secret)
    }

    /// Its scripts at a position, each with the descriptor that stands for it alone; none where a private key is
    /// missing on the way.
    pub fn scripts(&self, position: u32, params: &Params) -> Option<Vec<(Vec<u8>, String)>> {
        let with_sum = |(script, body): Expanded| {
            let sum = checksum_text(&body).expect("made of its characters");
            (script, format!("{body}#{sum}"))
        };
        Some(self.0.expand(position, params)?.into_iter().map(with_sum).collect())
    }
}
