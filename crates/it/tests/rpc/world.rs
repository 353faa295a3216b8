//! A forged regtest chain, proved, with everything that calls look at.
//!
//! In:     nothing: the chain follows from a seed.
//! Out:    [`World`]: the environment of calls, the blocks, the writer on its thread.
//! Fails:  panics.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use chain::mempool::SharedMempool;
use chain::policy::Policy;
use chain::upkeep::{Followed, MempoolFile, Upkeep};
use chain::{Chain, Handle, Options};
use primitives::hash::BlockHash;
use primitives::{Block, Network as Net, Params};
use serve::door::Door;
use serve::pool::{MiningLimits, Pool as RpcPool};
use serve::rpc::answer::{Allowed, Answer, AnswerLimits, answer};
use serve::rpc::auth::Users;
use serve::rpc::env::Env;
use serve::rpc::needs::{
    AddedNode, Ban, Host, KnownAddress, Network, NetworkState, Orphan, Peer, RawAddress, Reachable, Refusal, Traffic,
};
use serve::rpc::{Config, ServerHandle, start};
use sim::forge::{Forge, ForgeOptions};
use stdx::clock::Clock;
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

/// Blocks of the sample chain.
pub const BLOCKS: u32 = 130;

/// A process that does nothing by itself.
#[derive(Default)]
pub struct TestHost {
    pub stopped: AtomicBool,
    pub now_s: AtomicU64,
}

impl Host for TestHost {
    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    fn stopping(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn uptime_s(&self) -> u64 {
        77
    }

    fn unix_s(&self) -> u64 {
        self.now_s.load(Ordering::SeqCst)
    }

    fn set_unix_s(&self, unix_s: u64) -> bool {
        self.now_s.store(unix_s, Ordering::SeqCst);
        true
    }

    fn pass_time(&self, _: Duration) -> bool {
        true
    }

    fn log_path(&self) -> String {
        "/log".into()
    }

    fn block_files_bytes(&self) -> u64 {
        123_456
    }

    fn warnings(&self) -> Vec<String> {
        vec!["A \"warning\"".into()]
    }
}

impl Clock for TestHost {
    fn unix_s(&self) -> u64 {
        self.now_s.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> std::time::Duration {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}

/// Two peers who never say anything, and a list of bans.
#[derive(Default)]
pub struct TestPeers {
    active: AtomicBool,
    bans: Mutex<Vec<(String, u64)>>,
    nodes: Mutex<Vec<String>>,
}

impl Network for TestPeers {
    fn state(&self) -> NetworkState {
        NetworkState {
            services: 0xc09,
            relays: true,
            active: self.active.load(Ordering::SeqCst),
            inbound: 1,
            outbound: 1,
            user_agent: "/Test:0/".into(),
            protocol_version: 70_016,
            reachable: vec![Reachable {
                name: "ipv4",
                reachable: true,
                proxy: String::new(),
                random_credentials: false,
            }],
            local_addresses: vec![("1.2.3.4".into(), 8333, 4)],
            ..NetworkState::default()
        }
    }

    fn peers(&self) -> Vec<Peer> {
        let peer = Peer {
            id: 3,
            address: "5.6.7.8:8333".into(),
            network: "ipv4",
            mapped_as: 64_512,
            services: 1 << 40 | 9,
            ping: Some(std::time::Duration::from_micros(1500)),
            user_agent: "/X:1\"/".into(),
            in_flight: vec![131, 132],
            sent_by_message: vec![("ping".into(), 32), ("pong".into(), 0)],
            connection_type: "outbound-full-relay",
            transport: "v2",
            fee_filter_sat_per_kvb: 100,
            ..Peer::default()
        };
        vec![peer]
    }

    fn traffic(&self) -> Traffic {
        Traffic { received_bytes: 5, sent_bytes: 6, serves_old_blocks: true, ..Traffic::default() }
    }

    fn ping(&self) {}

    fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::SeqCst);
    }

    fn add_node(&self, address: &str, _: Option<bool>) -> Result<(), Refusal> {
        self.nodes.lock().unwrap().push(address.into());
        Ok(())
    }

    fn remove_node(&self, address: &str) -> Result<(), Refusal> {
        let mut nodes = self.nodes.lock().unwrap();
        let before = nodes.len();
        nodes.retain(|node| node != address);
        match nodes.len() < before {
            true => Ok(()),
            false => Err(Refusal::new(-24, "Error: Node could not be removed. It has not been added previously.")),
        }
    }

    fn try_node(&self, _: &str, _: Option<bool>) -> Result<(), Refusal> {
        Ok(())
    }

    fn added_nodes(&self) -> Vec<AddedNode> {
        self.nodes.lock().unwrap().iter().map(|name| AddedNode { name: name.clone(), connected: None }).collect()
    }

    fn open_connection(&self, _: &str, _: &str, _: bool) -> Result<(), Refusal> {
        Ok(())
    }

    fn disconnect_address(&self, address: &str) -> bool {
        address == "5.6.7.8:8333"
    }

    fn disconnect_id(&self, id: u64) -> bool {
        id == 3
    }

    fn ban(&self, subnet: &str, time_s: i64, absolute: bool) -> Result<(), Refusal> {
        if subnet == "x" {
            return Err(Refusal::new(-30, "Error: Invalid IP/Subnet"));
        }
        let until_s = if absolute { time_s } else { 100 + time_s };
        self.bans.lock().unwrap().push((subnet.into(), until_s as u64));
        Ok(())
    }

    fn unban(&self, subnet: &str) -> Result<(), Refusal> {
        let mut bans = self.bans.lock().unwrap();
        let before = bans.len();
        bans.retain(|ban| ban.0 != subnet);
        match bans.len() < before {
            true => Ok(()),
            false => Err(Refusal::new(-30, "Error: Unban failed.")),
        }
    }

    fn bans(&self) -> Vec<Ban> {
        let bans = self.bans.lock().unwrap();
        bans.iter().map(|ban| Ban { subnet: ban.0.clone(), since_s: 0, until_s: ban.1 }).collect()
    }

    fn clear_bans(&self) {
        self.bans.lock().unwrap().clear();
    }

    fn addresses(&self, _: usize, _: Option<&str>) -> Vec<KnownAddress> {
        vec![KnownAddress { time_s: 1, services: 9, address: "9.9.9.9".into(), port: 8333, network: "ipv4" }]
    }

    fn add_address(&self, _: &str, _: u16, tried: bool) -> Result<Option<&'static str>, Refusal> {
        Ok(tried.then_some("failed-adding-to-tried"))
    }

    fn raw_addresses(&self, tried: bool) -> Vec<RawAddress> {
        let known = KnownAddress { time_s: 1, services: 9, address: "9.9.9.9".into(), port: 8333, network: "ipv4" };
        let systems = if tried { (0, 64_512) } else { (64_513, 0) };
        let (source, source_network) = ("8.8.8.8".into(), "ipv4");
        let (mapped_as, source_mapped_as) = systems;
        vec![RawAddress { bucket: 7, position: 63, known, mapped_as, source, source_network, source_mapped_as }]
    }

    fn address_counts(&self) -> Vec<(&'static str, u64, u64)> {
        vec![("ipv4", 3, 2), ("ipv6", 1, 0)]
    }

    fn orphans(&self) -> Vec<Orphan> {
        let bytes = Params::of(Net::Main).genesis_block()[81..].to_vec();
        vec![Orphan { bytes, peers: vec![3] }]
    }

    fn send_message(&self, id: u64, _: &str, _: &[u8]) -> bool {
        id == 3
    }

    fn fetch_block(&self, _: u64, _: &BlockHash) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A folder that goes away with its owner.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A node without a program around it.
pub struct World {
    pub env: Arc<Env>,
    pub host: Arc<TestHost>,
    pub handle: Handle,
    /// From the genesis block on.
    pub blocks: Vec<Block>,
    pub mempool: SharedMempool,
    /// For whoever reads chain and mempool as of one moment.
    #[allow(dead_code)] // not every binary with this world does
    pub followed: Arc<Followed>,
    threads: Vec<JoinHandle<()>>,
    folder: Folder,
}

impl World {
    /// The chain, proved and followed; its mempool stands on the last block.
    pub fn new(name: &str) -> World {
        World::with(name, Policy::default(), true)
    }

    /// The same, with block filters or without.
    pub fn with_filters(name: &str, block_filters: bool) -> World {
        World::with(name, Policy::default(), block_filters)
    }

    /// The same with a mempool of this policy.
    pub fn with_policy(name: &str, policy: Policy) -> World {
        World::with(name, policy, true)
    }

    fn with(name: &str, policy: Policy, block_filters: bool) -> World {
        let pool = Arc::new(Pool::new("test", 2));
        let mut forge =
            Forge::new(&ForgeOptions { blocks: BLOCKS, inputs: 400, ..ForgeOptions::default() }, &pool).unwrap();
        let forged: Vec<Vec<u8>> = std::iter::from_fn(|| forge.next_block(&pool)).map(|block| block.bytes).collect();
        let params = Params::of(Net::Regtest);
        let folder = Folder(std::env::temp_dir().join(format!("assay-it-rpc-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        let blocks_from = folder.0.join("blocks");
        fs::create_dir_all(&blocks_from).unwrap();
        let mut records = Vec::new();
        for block in &forged {
            records.extend(params.magic);
            records.extend((block.len() as u32).to_le_bytes());
            records.extend(block);
        }
        fs::write(blocks_from.join("blk00000.dat"), records).unwrap();
        let all = std::iter::once(params.genesis_block()).chain(forged).map(|bytes| Block::parse(bytes).unwrap());
        let blocks: Vec<Block> = all.collect();
        let host = Arc::new(TestHost::default());
        let now_s = u64::from(blocks.last().unwrap().header().time_s) + 600;
        host.now_s.store(now_s, Ordering::SeqCst);
        let engine = sigs::engine(sigs::EngineName::Scalar).unwrap();
        let world =
            chain::World { disk: Arc::new(SystemDisk::default()), clock: host.clone(), pool, engine: engine.clone() };
        let mut options = Options::new(params.clone(), folder.0.join("data"), blocks_from, [7; 32]);
        options.own_blocks = Some(folder.0.join("own"));
        options.memory_bytes = 64 << 20;
        options.block_filters = block_filters;
        let mut chain = Chain::open(world, options).unwrap();
        chain.catch_up().unwrap();
        let handle = chain.handle();
        assert_eq!(handle.view().tip().height, BLOCKS);
        let writer = std::thread::Builder::new().name("writer".into()).spawn(move || chain.run().unwrap()).unwrap();
        let env = Arc::new(Env::new(params, host.clone()));
        let mut upkeep = Upkeep::open(&handle, policy, engine, host.clone(), [1; 16]);
        let disk = Arc::new(SystemDisk::default());
        let path = folder.0.join("mempool.dat");
        let file = MempoolFile::new(disk, path, upkeep.mempool().clone(), None);
        file.set_loaded();
        let pool = RpcPool {
            mempool: upkeep.mempool().clone(),
            estimates: upkeep.estimates().clone(),
            followed: upkeep.followed().clone(),
            file: Arc::new(file),
            mining: MiningLimits::default(),
            host: host.clone(),
        };
        let (mempool, followed, stopping) = (pool.mempool.clone(), pool.followed.clone(), handle.clone());
        let _ = env.mempool.set(Arc::new(pool));
        let follow = move || {
            while !stopping.stopping() {
                upkeep.step(std::time::Duration::from_millis(20));
            }
        };
        let follower = std::thread::Builder::new().name("mempool".into()).spawn(follow).unwrap();
        let _ = env.network.set(Arc::new(TestPeers::default()));
        let _ = env.blocks.set(Arc::new(Door::new(handle.clone(), host.clone())));
        let _ = env.chain.set(handle.clone());
        World { env, host, handle, blocks, mempool, followed, threads: vec![writer, follower], folder }
    }

    /// The folder of everything this world keeps.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder.0
    }

    /// The answer to a body.
    pub fn post(&self, body: &str) -> Answer {
        let limits = AnswerLimits { batch_max: 1000, answer_bytes_max: 64 << 20 };
        answer(&self.env, body.as_bytes(), &Allowed::All, &limits)
    }

    /// The result of a call, or its error.
    pub fn call(&self, method: &str, params: &str) -> Result<serde_json::Value, (i64, String)> {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}");
        let mut reply: serde_json::Value = serde_json::from_slice(&self.post(&body).body).unwrap();
        match reply["error"].take() {
            serde_json::Value::Null => Ok(reply["result"].take()),
            error => Err((error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().into())),
        }
    }

    /// A server with user `u`, password `p`.
    pub fn serve(&self, change: impl FnOnce(&mut Config)) -> ServerHandle {
        let mut users = Users::default();
        users.add_plain("u", "p", &[9; 16]);
        let mut config = Config::new("127.0.0.1:0".parse().unwrap(), users);
        config.rest = true;
        change(&mut config);
        start(config, self.env.clone()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.host.stop();
        self.handle.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
