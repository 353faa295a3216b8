//! What a connection is for, and what its peer may do.
//!
//! In:     nothing.
//! Out:    [`ConnectionKind`], [`Permissions`].
//! Fails:  never.
//! Source: Bitcoin Core, `src/node/connection_types.h`, `src/net_permissions.h`.

/// The number of a peer; never used twice in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionKind {
    /// They connected.
    Inbound,
    /// We connected for blocks, transactions and addresses.
    OutboundFull,
    /// We connected for blocks only; nobody learns of the connection from what is relayed.
    BlocksOnly,
    /// We connected to see whether somebody is there.
    Feeler,
    /// We connected to ask for addresses.
    AddressFetch,
    /// The user asked for it.
    Manual,
}

impl ConnectionKind {
    /// Core's name in `getpeerinfo`.
    pub fn name(self) -> &'static str {
        match self {
            ConnectionKind::Inbound => "inbound",
            ConnectionKind::OutboundFull => "outbound-full-relay",
            ConnectionKind::BlocksOnly => "block-relay-only",
            ConnectionKind::Feeler => "feeler",
            ConnectionKind::AddressFetch => "addr-fetch",
            ConnectionKind::Manual => "manual",
        }
    }

    /// True where we connected.
    pub fn is_outbound(self) -> bool {
        self != ConnectionKind::Inbound
    }

    /// True where transactions go over it, if both sides want them (Core: `RejectIncomingTxs`).
    pub fn relays_txs(self) -> bool {
        !matches!(self, ConnectionKind::BlocksOnly | ConnectionKind::Feeler)
    }

    /// True where addresses go over it (Core: `SetupAddressRelay`).
    pub fn relays_addresses(self) -> bool {
        !matches!(self, ConnectionKind::BlocksOnly)
    }

    /// True where a peer without the services we need is of no use (Core: `ExpectServicesFromConn`).
    pub fn expects_services(self) -> bool {
        use ConnectionKind::{AddressFetch, BlocksOnly, OutboundFull};
        matches!(self, OutboundFull | BlocksOnly | AddressFetch)
    }
}

/// What a peer may do that others may not; a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Permissions(u32);

impl Permissions {
    /// Nothing more than others.
    pub const NONE: Permissions = Permissions(0);
    /// May ask for filtered blocks.
    pub const BLOOM_FILTER: Permissions = Permissions(1);
    /// Its transactions are relayed although we relay none.
    pub const RELAY: Permissions = Permissions(1 << 1);
    /// Its transactions are relayed even where they are known.
    pub const FORCE_RELAY: Permissions = Permissions(1 << 2);
    /// May get blocks when the upload budget is spent.
    pub const DOWNLOAD: Permissions = Permissions(1 << 3);
    /// Is not discouraged, and not evicted.
    pub const NO_BAN: Permissions = Permissions(1 << 4);
    /// May ask for the mempool.
    pub const MEMPOOL: Permissions = Permissions(1 << 5);
    /// Its addresses are not limited, and it gets fresh ones.
    pub const ADDRESSES: Permissions = Permissions(1 << 6);

    /// Names in `getpeerinfo` and in whitelists.
    const NAMES: [(&'static str, Permissions); 7] = [
        ("bloomfilter", Permissions::BLOOM_FILTER),
        ("noban", Permissions::NO_BAN),
        ("forcerelay", Permissions::FORCE_RELAY),
        ("relay", Permissions::RELAY),
        ("mempool", Permissions::MEMPOOL),
        ("download", Permissions::DOWNLOAD),
        ("addr", Permissions::ADDRESSES),
    ];

    /// True when all of `wanted` are there.
    pub fn has(self, wanted: Permissions) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Both together.
    pub const fn and(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }

    /// What a whitelist means that names no permission: `relays` and `forces` as the user set them for such hosts (Core:
    /// `NetPermissionFlags::Implicit`, `-whitelistrelay`, `-whitelistforcerelay`).
    pub fn implicit(relays: bool, forces: bool) -> Permissions {
        let mut all = Permissions::NO_BAN.and(Permissions::DOWNLOAD).and(Permissions::MEMPOOL);
        if relays || forces {
            all = all.and(Permissions::RELAY);
        }
        if forces { all.and(Permissions::FORCE_RELAY) } else { all }
    }

    /// Names of those that are there.
    pub fn names(self) -> Vec<&'static str> {
        Permissions::NAMES.iter().filter(|(_, bit)| self.has(*bit)).map(|(name, _)| *name).collect()
    }

    /// The permission of a name, with those that it implies in Core; `None` for an unknown name.
    pub fn of_name(name: &str) -> Option<Permissions> {
        Some(match name {
            "bloomfilter" | "bloom" => Permissions::BLOOM_FILTER,
            "noban" => Permissions::NO_BAN.and(Permissions::DOWNLOAD),
            "forcerelay" => Permissions::FORCE_RELAY.and(Permissions::RELAY),
            "relay" => Permissions::RELAY,
            "mempool" => Permissions::MEMPOOL,
            "download" => Permissions::DOWNLOAD,
            "addr" => Permissions::ADDRESSES,
            "all" => Permissions((1 << 7) - 1),
            _ => return None,
        })
    }
}
