//! Names of messages, and the one-byte identifiers that the encrypted transport has for most of them.
//!
//! In:     12 bytes of a frame, or a name.
//! Out:    a [`Command`].
//! Fails:  `None` for bytes that Core's `IsMessageTypeValid` refuses.
//! Source: Bitcoin Core, `src/protocol.h`, `V2_MESSAGE_IDS` of `src/net.cpp`; BIP 324, "v2 Bitcoin P2P message structure".

use std::fmt;

/// Bytes of a command in a frame.
pub const COMMAND_BYTES: usize = 12;

/// The name of a message: printable ASCII, then zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command([u8; COMMAND_BYTES]);

impl Command {
    /// A name known when the program was written.
    const fn constant(name: &str) -> Command {
        let name = name.as_bytes();
        let mut bytes = [0; COMMAND_BYTES];
        let mut at = 0;
        while at < name.len() {
            bytes[at] = name[at];
            at += 1;
        }
        Command(bytes)
    }

    /// The command of a frame.
    pub fn from_bytes(bytes: [u8; COMMAND_BYTES]) -> Option<Command> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(COMMAND_BYTES);
        let is_valid = bytes[..end].iter().all(|byte| (b' '..=0x7e).contains(byte));
        (is_valid && bytes[end..].iter().all(|byte| *byte == 0)).then_some(Command(bytes))
    }

    /// The command of a name of at most 12 printable characters.
    pub fn from_name(name: &str) -> Option<Command> {
        let mut bytes = [0; COMMAND_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Command::from_bytes(bytes).filter(|command| command.name().len() == name.len())
    }

    /// The bytes of a frame.
    pub fn bytes(&self) -> &[u8; COMMAND_BYTES] {
        &self.0
    }

    /// The name without its zeros.
    pub fn name(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(COMMAND_BYTES);
        std::str::from_utf8(&self.0[..end]).expect("commands are ASCII")
    }

    /// True for the command of a message we know.
    pub fn is_known(&self) -> bool {
        ALL.contains(self)
    }

    /// The command that one byte stands for (BIP 324).
    pub fn of_short_id(short_id: u8) -> Option<Command> {
        if short_id == FEATURE_SHORT_ID {
            return Some(Command::FEATURE);
        }
        SHORT_IDS.get(usize::from(short_id).checked_sub(1)?).copied()
    }

    /// The byte that stands for the command, where BIP 324 has one.
    pub fn short_id(&self) -> Option<u8> {
        if *self == Command::FEATURE {
            return Some(FEATURE_SHORT_ID);
        }
        SHORT_IDS.iter().position(|command| command == self).map(|index| index as u8 + 1)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! commands {
    ($($name:ident $text:literal)*) => {
        #[allow(missing_docs)] // each is the message of its name
        impl Command {
            $(pub const $name: Command = Command::constant($text);)*
        }

        /// Every command we know.
        const ALL: &[Command] = &[$(Command::$name),*];
    };
}

commands! {
    ADDR "addr" ADDRV2 "addrv2" BLOCK "block" BLOCKTXN "blocktxn" CFCHECKPT "cfcheckpt" CFHEADERS "cfheaders"
    CFILTER "cfilter" CMPCTBLOCK "cmpctblock" FEATURE "feature" FEEFILTER "feefilter" FILTERADD "filteradd"
    FILTERCLEAR "filterclear" FILTERLOAD "filterload" GETADDR "getaddr" GETBLOCKS "getblocks" GETBLOCKTXN "getblocktxn"
    GETCFCHECKPT "getcfcheckpt" GETCFHEADERS "getcfheaders" GETCFILTERS "getcfilters" GETDATA "getdata"
    GETHEADERS "getheaders" HEADERS "headers" INV "inv" MEMPOOL "mempool" MERKLEBLOCK "merkleblock" NOTFOUND "notfound"
    PING "ping" PONG "pong" REJECT "reject" SENDADDRV2 "sendaddrv2" SENDCMPCT "sendcmpct" SENDHEADERS "sendheaders"
    SENDTXRCNCL "sendtxrcncl" TX "tx" VERACK "verack" VERSION "version" WTXIDRELAY "wtxidrelay"
}

/// The one identifier that does not follow on the others: BIP 434.
const FEATURE_SHORT_ID: u8 = 37;
/// Commands by their short identifier, from 1 on (BIP 324).
const SHORT_IDS: [Command; 28] = [
    Command::ADDR,
    Command::BLOCK,
    Command::BLOCKTXN,
    Command::CMPCTBLOCK,
    Command::FEEFILTER,
    Command::FILTERADD,
    Command::FILTERCLEAR,
    Command::FILTERLOAD,
    Command::GETBLOCKS,
    Command::GETBLOCKTXN,
    Command::GETDATA,
    Command::GETHEADERS,
    Command::HEADERS,
    Command::INV,
    Command::MEMPOOL,
    Command::MERKLEBLOCK,
    Command::NOTFOUND,
    Command::PING,
    Command::PONG,
    Command::SENDCMPCT,
    Command::TX,
    Command::GETCFILTERS,
    Command::CFILTER,
    Command::GETCFHEADERS,
    Command::CFHEADERS,
    Command::GETCFCHECKPT,
    Command::CFCHECKPT,
    Command::ADDRV2,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_bytes_and_short_identifiers_agree() {
        for command in ALL {
            assert_eq!(Command::from_bytes(*command.bytes()), Some(*command));
            assert_eq!(Command::from_name(command.name()), Some(*command));
            if let Some(short_id) = command.short_id() {
                assert_eq!(Command::of_short_id(short_id), Some(*command));
            }
        }
        // BIP 324's table, sampled at its ends.
        assert_eq!(Command::ADDR.short_id(), Some(1));
        assert_eq!(Command::GETCFILTERS.short_id(), Some(22));
        assert_eq!(Command::ADDRV2.short_id(), Some(28));
        assert_eq!(Command::FEATURE.short_id(), Some(37));
        assert_eq!(Command::VERSION.short_id(), None);
        assert_eq!((Command::of_short_id(0), Command::of_short_id(29)), (None, None));
    }

    #[test]
    fn only_printable_names_padded_with_zeros_are_commands() {
        #[track_caller]
        fn check(bytes: &[u8; 12], want: bool) {
            assert_eq!(Command::from_bytes(*bytes).is_some(), want, "{bytes:?}");
        }
        check(b"abcdefghijkl", true);
        check(b"ping\0\0\0\0\0\0\0\0", true);
        check(b" ~\0\0\0\0\0\0\0\0\0\0", true);
        check(b"ping\0\0\0\0\0\0\0x", false);
        check(b"pi\x1fg\0\0\0\0\0\0\0\0", false);
        check(b"pi\x7fg\0\0\0\0\0\0\0\0", false);
        check(&[0xff; 12], false);
        assert_eq!(Command::from_name("thirteenchars"), None);
        assert_eq!(Command::from_name("a\0"), None);
    }
}
