//! Bitcoin Core's JSON-RPC, REST and their HTTP, on a forged chain with the real writer, mempool and sockets.

mod world;

mod abuse;
mod checked;
mod filters;
mod golden;
mod http;
mod mining;
mod speed;
mod types;
mod unconfirmed;
mod zmq;
