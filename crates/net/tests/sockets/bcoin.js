// A node of bcoin in memory on regtest: PORT RPC_PORT PEER, where PEER is "none" or HOST:PORT.
// The database that has to be compiled is left out: in memory nothing asks for it.
const Module = require('module');
const load = Module._load;
Module._load = function(name, ...rest) {
  return name === 'leveldown' ? {} : load.call(this, name, ...rest);
};
const {Address, FullNode} = require('bcoin');
const {createHash} = require('crypto');
const [port, rpcPort, peer] = process.argv.slice(-3);
const node = new FullNode({
  network: 'regtest', memory: true, workers: process.env.BCOIN_WORKERS === '1', listen: true, discover: false, bip37: false,
  noAuth: true,
  host: '127.0.0.1', publicHost: '127.0.0.1', port: Number(port), publicPort: Number(port),
  httpHost: '127.0.0.1', httpPort: Number(rpcPort), nodes: peer === 'none' ? [] : [peer]
});
// Nobody outside of this machine is asked for our address.
node.pool.discoverExternal = async () => {};
// What is mined is anybody's: the witness script is OP_TRUE.
node.miner.addAddress(Address.fromWitnessScripthash(createHash('sha256').update(Buffer.from([0x51])).digest()));
(async () => {
  await node.ensure();
  await node.open();
  await node.connect();
  node.startSync();
})();
