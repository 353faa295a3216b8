//! The settings of ZeroMQ, a part of the table of all.
//!
//! In:     nothing.
//! Out:    [`ZMQ_SETTINGS`].
//! Fails:  never.

use super::schema::{Setting, setting};
use super::value::Kind;

const ZMQ: &str = "zeromq";

/// Addresses and high-water mark of each topic.
pub const ZMQ_SETTINGS: &[Setting] = &[
    setting(
        ZMQ,
        "zmq_pub_hashblock",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses such as tcp://127.0.0.1:28332 or ipc:///path, between spaces: the hash of each new tip is published there.",
    ),
    setting(
        ZMQ,
        "zmq_pub_hashblock_hwm",
        Kind::Whole { min: 1, max: 1_000_000 },
        &[],
        "1000",
        "messages",
        "Messages that wait for a slow subscriber before those of hashblock are dropped for it.",
    ),
    setting(
        ZMQ,
        "zmq_pub_hashtx",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses where the txid of each transaction is published that comes into the mempool, or is in a block that joins or leaves the chain.",
    ),
    setting(
        ZMQ,
        "zmq_pub_hashtx_hwm",
        Kind::Whole { min: 1, max: 1_000_000 },
        &[],
        "1000",
        "messages",
        "Messages that wait for a slow subscriber before those of hashtx are dropped for it.",
    ),
    setting(
        ZMQ,
        "zmq_pub_rawblock",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses where the bytes of each new tip are published.",
    ),
    setting(
        ZMQ,
        "zmq_pub_rawblock_hwm",
        Kind::Whole { min: 1, max: 1_000_000 },
        &[],
        "1000",
        "messages",
        "Messages that wait for a slow subscriber before those of rawblock are dropped for it.",
    ),
    setting(
        ZMQ,
        "zmq_pub_rawtx",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses where the bytes of each transaction are published, as with zmq_pub_hashtx.",
    ),
    setting(
        ZMQ,
        "zmq_pub_rawtx_hwm",
        Kind::Whole { min: 1, max: 1_000_000 },
        &[],
        "1000",
        "messages",
        "Messages that wait for a slow subscriber before those of rawtx are dropped for it.",
    ),
    setting(
        ZMQ,
        "zmq_pub_sequence",
        Kind::Text,
        &[],
        "",
        "",
        "Addresses where it is published which blocks join (C) and leave (D) the chain, and which transactions come into the mempool (A) and leave it other than by a block (R).",
    ),
    setting(
        ZMQ,
        "zmq_pub_sequence_hwm",
        Kind::Whole { min: 1, max: 1_000_000 },
        &[],
        "1000",
        "messages",
        "Messages that wait for a slow subscriber before those of sequence are dropped for it.",
    ),
];
