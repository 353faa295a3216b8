// The Electrum client that mempool's backend uses (@mempool/electrum-client), told over its standard input what to ask.
//
// In:     the server's port as argument; lines {"id", "method", "params"}, the method as the protocol names it.
// Out:    lines {"id", "result"} or {"id", "error"}, and {"told", "params"} for whatever the server tells by itself.
// Fails:  the process ends where the connection cannot be made.

'use strict';

const readline = require('readline');
const ElectrumClient = require('@mempool/electrum-client');

// The library has a function of its own for each of these; what it lacks goes through its `request`.
const functions = {
  'server.version': 'server_version',
  'server.banner': 'server_banner',
  'server.features': 'server_features',
  'server.ping': 'server_ping',
  'server.donation_address': 'serverDonation_address',
  'server.peers.subscribe': 'serverPeers_subscribe',
  'blockchain.headers.subscribe': 'blockchainHeaders_subscribe',
  'blockchain.estimatefee': 'blockchainEstimatefee',
  'blockchain.relayfee': 'blockchain_relayfee',
  'blockchain.scripthash.subscribe': 'blockchainScripthash_subscribe',
  'blockchain.scripthash.get_balance': 'blockchainScripthash_getBalance',
  'blockchain.scripthash.get_history': 'blockchainScripthash_getHistory',
  'blockchain.scripthash.get_mempool': 'blockchainScripthash_getMempool',
  'blockchain.scripthash.listunspent': 'blockchainScripthash_listunspent',
  'blockchain.transaction.broadcast': 'blockchainTransaction_broadcast',
  'blockchain.transaction.get': 'blockchainTransaction_get',
  'blockchain.transaction.get_merkle': 'blockchainTransaction_getMerkle',
  'mempool.get_fee_histogram': 'mempool_getFeeHistogram',
};
const batches = {
  'blockchain.scripthash.get_balance': 'blockchainScripthash_getBalanceBatch',
  'blockchain.scripthash.get_history': 'blockchainScripthash_getHistoryBatch',
  'blockchain.scripthash.listunspent': 'blockchainScripthash_listunspentBatch',
  'blockchain.transaction.get': 'blockchainTransaction_getBatch',
};
const subscriptions = ['blockchain.headers.subscribe', 'blockchain.scripthash.subscribe'];

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

// The library hands out the whole message where its result is null, zero or empty.
const resultOf = (value) => (value && value.jsonrpc && 'result' in value ? value.result : value);

async function answer(client, { method, params }) {
  if (method === 'each') {
    const [name, each] = params;
    const answers = await client[batches[name]](each);
    return each.map((param) => answers.find((one) => one.param === param).result);
  }
  const own = functions[method];
  return resultOf(own ? await client[own](...params) : await client.request(method, params));
}

async function main() {
  const client = new ElectrumClient(Number(process.argv[2]), '127.0.0.1', 'tcp', null, { onLog: () => {} });
  await client.initElectrum({ client: 'mempool-v2', version: '1.4' });
  for (const name of subscriptions) {
    client.subscribe.on(name, (params) => say({ told: name, params }));
  }
  say({ id: 0, result: client.versionInfo });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    answer(client, asked).then(
      (result) => say({ id: asked.id, result }),
      (error) => say({ id: asked.id, error: error.message || String(error) }),
    );
  }
  client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
