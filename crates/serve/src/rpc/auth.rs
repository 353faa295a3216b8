//! Who may connect, who may ask, and for what.
//!
//! In:     addresses, the `Authorization` header, settings in Core's forms.
//! Out:    a user's name, and the methods he may call.
//! Fails:  text of settings that cannot be read; everything else is simply not allowed.
//! Source: Bitcoin Core, `src/httprpc.cpp` (`RPCAuthorized`, `InitRPCAuthentication`), `src/httpserver.cpp`
//!         (`InitHTTPAllowList`).

use std::net::IpAddr;
use std::str::FromStr;

use bitcoin_hashes::{Hash as _, HashEngine as _, hmac, sha256};
use stdx::hex;

use super::answer::Allowed;
use crate::keys::base64;

/// The user of the cookie file.
pub const COOKIE_USER: &str = "__cookie__";

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// One of them.
    pub address: IpAddr,
    /// How many bits they share.
    pub prefix: u8,
}

impl Subnet {
    /// True for an address of this subnet; an IPv4 address inside of IPv6 counts as itself.
    pub fn contains(&self, address: &IpAddr) -> bool {
        let bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let ((ours, width), (theirs, other_width)) = (bits(self.address), bits(*address));
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
        width == other_width && ours & mask == theirs & mask
    }
}

impl FromStr for Subnet {
    type Err = String;

    /// `1.2.3.4`, `1.2.3.0/24`, `1.2.3.0/255.255.255.0`, `::1`, `fe80::/10`.
    fn from_str(text: &str) -> Result<Subnet, String> {
        let wrong = || format!("{text:?} is no address and no subnet such as 192.168.0.0/16");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let Some(prefix) = prefix else { return Ok(Subnet { address, prefix: bits }) };
        let prefix = match prefix.parse::<u8>() {
            Ok(prefix) => prefix,
            // A mask, whose ones stand in front.
            Err(_) => {
                let mask = u32::from(prefix.parse::<std::net::Ipv4Addr>().map_err(|_| wrong())?);
                let ones = mask.leading_ones();
                if mask.count_ones() != ones || bits != 32 {
                    return Err(wrong());
                }
                ones as u8
            }
        };
        if prefix <= bits { Ok(Subnet { address, prefix }) } else { Err(wrong()) }
    }
}

/// A user, his password only as a hash.
#[derive(Clone, PartialEq, Eq)]
struct Account {
    user: String,
    salt: String,
    hash: String,
}

/// Who may ask, and for what. Its `Debug` says no secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users {
    accounts: Vec<Account>,
    /// Methods that some users are limited to.
    limited: Vec<(String, Vec<String>)>,
    /// Whether users without a list may call nothing.
    others_forbidden: bool,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.accounts.iter().map(|account| &*account.user).collect();
        f.debug_struct("Users").field("names", &names).field("limited", &self.limited).finish_non_exhaustive()
    }
}

fn hash_of(salt: &str, password: &str) -> String {
    let mut engine = hmac::HmacEngine::<sha256::HashEngine>::new(salt.as_bytes());
    engine.input(password.as_bytes());
    hex::encode(&engine.finalize().to_byte_array())
}

/// Compares in a time that does not tell where two texts differ.
pub(crate) fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut different = a.len() ^ b.len();
    for (index, byte) in a.iter().enumerate() {
        different |= usize::from(byte ^ b.get(index).copied().unwrap_or(!byte));
    }
    different == 0
}

impl Users {
    /// Adds a user with his password; `salt` is 16 random bytes.
    pub fn add_plain(&mut self, user: &str, password: &str, salt: &[u8; 16]) {
        let salt = hex::encode(salt);
        let hash = hash_of(&salt, password);
        self.accounts.push(Account { user: user.to_owned(), salt, hash });
    }

    /// Adds `user:salt$hash` (Core's `rpcauth`).
    pub fn add_hashed(&mut self, text: &str) -> Result<(), String> {
        let parts = text.split_once(':').and_then(|(user, rest)| Some((user, rest.split_once('$')?)));
        match parts {
            Some((user, (salt, hash))) if !user.is_empty() && !hash.contains(['$', ':']) && !salt.contains(':') => {
                self.accounts.push(Account { user: user.into(), salt: salt.into(), hash: hash.into() });
                Ok(())
            }
            _ => Err("a hashed password is written user:salt$hash".to_owned()),
        }
    }

    /// Limits a user to methods: `user:method,method` (Core's `rpcwhitelist`); a second list leaves what is in both.
    pub fn limit(&mut self, text: &str) {
        let (user, methods) = text.split_once(':').unwrap_or((text, ""));
        let methods: Vec<String> =
            methods.split([',', ' ']).filter(|method| !method.is_empty()).map(str::to_owned).collect();
        match self.limited.iter_mut().find(|(known, _)| known == user) {
            Some((_, known)) => known.retain(|method| methods.contains(method)),
            None => self.limited.push((user.to_owned(), methods)),
        }
        self.others_forbidden = true;
    }

    /// Whether users without a list may call everything all the same (Core's `rpcwhitelistdefault=0`).
    pub fn allow_others(&mut self, allowed: bool) {
        self.others_forbidden = !allowed;
    }

    /// True where nobody can ask.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// The user that an `Authorization` header proves.
    pub fn user(&self, header: &str) -> Option<String> {
        let text = header.strip_prefix("Basic ")?.trim();
        let plain = String::from_utf8(base64::decode(text)?).ok()?;
        let (user, password) = plain.split_once(':')?;
        let fits =
            |account: &&Account| equal(&account.user, user) && equal(&hash_of(&account.salt, password), &account.hash);
        self.accounts.iter().find(fits).map(|account| account.user.clone())
    }

    /// What a user may call; none for nothing at all.
    pub fn allowed(&self, user: &str) -> Option<Allowed<'_>> {
        match self.limited.iter().find(|(known, _)| known == user) {
            Some((_, methods)) => Some(Allowed::Only(methods)),
            None if self.others_forbidden => None,
            None => Some(Allowed::All),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_contain_their_addresses() {
        #[track_caller]
        fn check(subnet: &str, address: &str, want: bool) {
            let (subnet, address): (Subnet, IpAddr) = (subnet.parse().unwrap(), address.parse().unwrap());
            assert_eq!(subnet.contains(&address), want, "{subnet:?} {address}");
        }
        check("1.2.3.4", "1.2.3.4", true);
        check("1.2.3.4", "1.2.3.5", false);
        check("1.2.3.0/24", "1.2.3.255", true);
        check("1.2.3.0/24", "1.2.4.0", false);
        check("1.2.0.0/255.255.0.0", "1.2.255.255", true);
        check("0.0.0.0/0", "255.255.255.255", true);
        check("0.0.0.0/0", "::1", false);
        check("1.2.3.4", "::ffff:1.2.3.4", true);
        check("::/0", "::1", true);
        check("fe80::/10", "febf::1", true);
        check("fe80::/10", "fec0::1", false);
        for wrong in ["", "1.2.3", "1.2.3.4/33", "1.2.3.4/255.0.255.0", "::1/129", "::1/255.0.0.0", "host", "1.2.3.4/"]
        {
            assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn passwords_are_proved_and_methods_limited() {
        let mut users = Users::default();
        assert!(users.is_empty());
        users.add_plain("a", "p:w", &[7; 16]);
        // The first test vector of Core's rpcauth-test.py's shape: HMAC-SHA256 keyed with the salt's text.
        users.add_hashed(&format!("b:{}${}", "f00d", hash_of("f00d", "x"))).unwrap();
        assert!(
            users.add_hashed("b").is_err() && users.add_hashed("b:c").is_err() && users.add_hashed(":a$b").is_err()
        );
        let header = |plain: &str| format!("Basic {}", base64::encode(plain.as_bytes()));
        assert_eq!(users.user(&header("a:p:w")).as_deref(), Some("a"));
        assert_eq!(users.user(&header("b:x")).as_deref(), Some("b"));
        for wrong in ["a:p", "a:", "A:p:w", "b:p:w", ":", ""] {
            assert_eq!(users.user(&header(wrong)), None, "{wrong}");
        }
        assert_eq!(users.user("Basic !!!"), None);
        assert_eq!(users.user(&base64::encode(b"a:p:w")), None);
        assert!(matches!(users.allowed("a"), Some(Allowed::All)));
        users.limit("a:getblock,getblockcount");
        users.limit("a:getblockcount");
        assert!(matches!(users.allowed("a"), Some(Allowed::Only(list)) if list == ["getblockcount"]));
        assert!(users.allowed("b").is_none());
        users.allow_others(true);
        assert!(users.allowed("b").is_some());
        assert!(!format!("{users:?}").contains("hash"));
    }

    #[test]
    fn the_hash_is_hmac_sha256() {
        // RFC 4231, test case 2.
        assert_eq!(
            hash_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
