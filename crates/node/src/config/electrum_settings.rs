//! The settings of the Electrum server, a part of the table of all settings.
//!
//! In:     nothing.
//! Out:    [`ELECTRUM_SETTINGS`].
//! Fails:  never; the tests of the table hold every default to its own range.

use super::schema::{Setting, setting};
use super::value::Kind;

const ELECTRUM: &str = "electrum";

/// Settings whose names begin with `electrum_`, in the order of the file and the manual.
pub const ELECTRUM_SETTINGS: &[Setting] = &[
    setting(
        ELECTRUM,
        "electrum_listen",
        Kind::Address,
        &["auto", "off"],
        "auto",
        "",
        "Where the Electrum server listens, plain TCP. \"auto\" is 127.0.0.1 with the network's usual port: 50001 main, \
         60001 testnet3, 40001 testnet4, 60601 signet, 60401 regtest. Port 0 takes a free one.",
    ),
    setting(
        ELECTRUM,
        "electrum_tls_listen",
        Kind::Address,
        &["auto", "off"],
        "off",
        "",
        "Where the Electrum server listens with TLS. \"auto\" is 127.0.0.1 with the port 50002 on main, and on other networks as far \
         from theirs for plain TCP. Wallets ask for this one first.",
    ),
    setting(
        ELECTRUM,
        "electrum_ws_listen",
        Kind::Address,
        &["auto", "off"],
        "off",
        "",
        "Where the Electrum server listens for WebSockets. \"auto\" is 127.0.0.1 with the port 50003 on main, and on other networks as far \
         from theirs for plain TCP.",
    ),
    setting(
        ELECTRUM,
        "electrum_wss_listen",
        Kind::Address,
        &["auto", "off"],
        "off",
        "",
        "Where the Electrum server listens for WebSockets with TLS, as browsers need them. \"auto\" is 127.0.0.1 with the port 50004 on main, and on other networks as far \
         from theirs for plain TCP.",
    ),
    setting(
        ELECTRUM,
        "electrum_http_listen",
        Kind::Address,
        &["auto", "off"],
        "off",
        "",
        "Where the Electrum server answers requests of HTTP (POST, application/json), one or a batch in each. \"auto\" is 127.0.0.1 with the port 50005 on main, and on other networks as far \
         from theirs for plain TCP.",
    ),
    setting(
        ELECTRUM,
        "electrum_https_listen",
        Kind::Address,
        &["auto", "off"],
        "off",
        "",
        "The same with TLS. \"auto\" is 127.0.0.1 with the port 50006 on main, and on other networks as far \
         from theirs for plain TCP.",
    ),
    setting(
        ELECTRUM,
        "electrum_unix_socket",
        Kind::Path,
        &["none"],
        "none",
        "",
        "A socket in the file system where the Electrum server listens, for the node's own user only. At most 107 bytes.",
    ),
    setting(
        ELECTRUM,
        "electrum_onion",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Keep an onion service for the Electrum server, under a name that stays: plain lines at the network's usual port. \
         Needs p2p_tor_control.",
    ),
    setting(
        ELECTRUM,
        "electrum_certificate",
        Kind::Path,
        &["auto"],
        "auto",
        "",
        "The certificate shown with TLS, and those that vouch for it, in PEM; read again when the file changes. \"auto\" is \
         one of the node's own, made on the first start as electrum-certificate.pem in the network's folder: wallets pin \
         it when they see it first.",
    ),
    setting(
        ELECTRUM,
        "electrum_certificate_key",
        Kind::Path,
        &["auto"],
        "auto",
        "",
        "The key of electrum_certificate, in PEM. \"auto\" is electrum-key.pem in the network's folder.",
    ),
    setting(
        ELECTRUM,
        "electrum_balancers",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses and subnets of balancers, between blanks. Their connections must begin with a header of the PROXY \
         protocol, version 2, and count for the client it names; nobody else's may.",
    ),
    setting(
        ELECTRUM,
        "electrum_report",
        Kind::Text,
        &[],
        "",
        "",
        "Where the public reaches the Electrum server, as tcp://host:port, ssl://, ws:// and wss://, between blanks; without a \
         port it is the one where that way in listens. Told in server.features, to other servers where electrum_discovery is \
         on, and named by the certificate of a first start. The name of electrum_onion is told without being listed.",
    ),
    setting(
        ELECTRUM,
        "electrum_discovery",
        Kind::Choice(&["on", "off"]),
        &[],
        "off",
        "",
        "Visit other Electrum servers, tell clients of those that are what they say, and tell those of what electrum_report \
         says. Onion services are visited through p2p_onion_proxy or p2p_proxy, others through p2p_proxy where it is set.",
    ),
    setting(
        ELECTRUM,
        "electrum_discovery_seeds",
        Kind::Text,
        &[],
        "",
        "",
        "Servers that discovery begins with, as tcp://host:port and ssl://host:port, between blanks. Those it found outlast a \
         restart.",
    ),
    setting(
        ELECTRUM,
        "electrum_server_name",
        Kind::Text,
        &["auto"],
        "auto",
        "",
        "The name in server.version. Wallets decide by it whether they send batches; \"auto\" is one that Sparrow, Nunchuk \
         and BlueWallet batch for.",
    ),
    setting(
        ELECTRUM,
        "electrum_banner",
        Kind::Text,
        &["auto"],
        "auto",
        "",
        "Text a wallet may show to people. \"auto\" is the program's name and version.",
    ),
    setting(
        ELECTRUM,
        "electrum_donation_address",
        Kind::Text,
        &[],
        "",
        "",
        "Address a wallet may show for thanks; empty for none.",
    ),
    setting(
        ELECTRUM,
        "electrum_sessions_max",
        Kind::Whole { min: 1, max: 100_000 },
        &[],
        "1000",
        "sessions",
        "Connections open at the same time; more are refused.",
    ),
    setting(
        ELECTRUM,
        "electrum_sessions_address_max",
        Kind::Whole { min: 1, max: 1 << 20 },
        &[],
        "100",
        "sessions",
        "Sessions of one address at the same time.",
    ),
    setting(
        ELECTRUM,
        "electrum_work_soft_s",
        Kind::Whole { min: 1, max: 1 << 20 },
        &[],
        "30",
        "s",
        "Work a session may have had done before its answers begin to wait, up to 2.5 s each. Work is time of a thread, and \
         a microsecond for each row read and each 16 bytes sent; an address has twice as much, a neighbourhood (/24 of IPv4, \
         /48 of IPv6) eight times.",
    ),
    setting(
        ELECTRUM,
        "electrum_work_hard_s",
        Kind::Whole { min: 2, max: 1 << 24 },
        &[],
        "300",
        "s",
        "Work after which a session is closed, with error -101.",
    ),
    setting(
        ELECTRUM,
        "electrum_work_forgiven_ms",
        Kind::Whole { min: 0, max: 1 << 20 },
        &[],
        "200",
        "ms",
        "Work that is forgotten each second: what a session may use for ever without waiting.",
    ),
    setting(
        ELECTRUM,
        "electrum_exempt",
        Kind::Text,
        &[],
        "127.0.0.0/8 ::1",
        "",
        "Addresses and subnets, between blanks, whose clients are never slowed down, closed or banned. Whoever comes through \
         electrum_unix_socket is among them.",
    ),
    setting(
        ELECTRUM,
        "electrum_login",
        Kind::Text,
        &[],
        "",
        "",
        "Secret words of 16 letters or more, between blanks. A client whose name in server.version ends with one of them is \
         never slowed down or closed for its work, wherever it comes from. Without TLS others may read the word on its way.",
    ),
    setting(
        ELECTRUM,
        "electrum_log_addresses",
        Kind::Choice(&["plain", "hashed"]),
        &[],
        "plain",
        "",
        "How the log names clients: by their addresses, or by a hash of them with a secret that changes at each start.",
    ),
    setting(
        ELECTRUM,
        "electrum_batch_requests_max",
        Kind::Whole { min: 1, max: 100_000 },
        &[],
        "1000",
        "requests",
        "Requests in one batch. The largest batches of known wallets have 200.",
    ),
    setting(
        ELECTRUM,
        "electrum_line_bytes_max",
        Kind::Whole { min: 1_024, max: 64 << 20 },
        &[],
        "1048576",
        "bytes",
        "Longest request line. A transaction of 400,000 bytes to broadcast is 800,000 digits.",
    ),
    setting(
        ELECTRUM,
        "electrum_subscriptions_session_max",
        Kind::Whole { min: 1, max: 100_000_000 },
        &[],
        "150000",
        "subscriptions",
        "Scripts, transactions and outpoints one session may subscribe to.",
    ),
    setting(
        ELECTRUM,
        "electrum_subscriptions_max",
        Kind::Whole { min: 1, max: 100_000_000 },
        &[],
        "500000",
        "subscriptions",
        "Subscriptions over all sessions; each takes about 150 bytes of memory.",
    ),
    setting(
        ELECTRUM,
        "electrum_waiting_mib_max",
        Kind::Whole { min: 1, max: 65_536 },
        &[],
        "256",
        "MiB",
        "Answers that wait for slow readers, over all sessions. Above it every session has 64 KiB.",
    ),
    setting(
        ELECTRUM,
        "electrum_idle_s",
        Kind::Whole { min: 10, max: 86_400 },
        &[],
        "600",
        "s",
        "A session without a request for this long is closed.",
    ),
    setting(
        ELECTRUM,
        "electrum_request_s",
        Kind::Whole { min: 1, max: 3_600 },
        &[],
        "30",
        "s",
        "Longest time one request may take to compute.",
    ),
    setting(
        ELECTRUM,
        "electrum_history_entries_max",
        Kind::Whole { min: 1, max: 1_000_000_000 },
        &["none"],
        "none",
        "entries",
        "Longest history that is answered; a longer one gets the protocol's error 10001. \"none\" answers any, page by page.",
    ),
];
