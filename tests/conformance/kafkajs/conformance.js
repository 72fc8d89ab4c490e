// kafkajs against a broker: admin, every built-in codec, headers, groups, transactions. Prints one JSON object per check.
const { Kafka, CompressionTypes, logLevel, Partitioners } = require("kafkajs");

const [bootstrap] = process.argv.slice(2);
// TLS and SCRAM-SHA-512 if the environment names an authority.
const security = process.env.TEST_CA
  ? {
      ssl: { ca: [require("fs").readFileSync(process.env.TEST_CA)] },
      sasl: { mechanism: "scram-sha-512", username: process.env.TEST_USER, password: process.env.TEST_PASSWORD },
    }
  : {};
const kafka = new Kafka({ clientId: "kafkajs-conformance", brokers: [bootstrap], logLevel: logLevel.NOTHING, ...security });
const report = (check, value) => console.log(JSON.stringify({ check, ...value }));

async function readAll(topic, groupId, count, options = {}) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, ...options });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const records = [];
  await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`only ${records.length} of ${count} records of ${topic} came`)), 30000);
    consumer
      .run({
        eachMessage: async ({ partition, message }) => {
          const headers = Object.fromEntries(Object.entries(message.headers || {}).map(([k, v]) => [k, String(v)]));
          records.push({ partition, offset: message.offset, key: message.key && String(message.key), value: String(message.value), headers });
          if (records.length === count) {
            clearTimeout(late);
            resolve();
          }
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
  return records;
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  const created = await admin.createTopics({
    topics: [
      { topic: "js-records", numPartitions: 3, configEntries: [{ name: "retention.ms", value: "3600000" }] },
      { topic: "js-transactions", numPartitions: 1 },
    ],
    waitForLeaders: true,
  });
  const again = await admin.createTopics({ topics: [{ topic: "js-records", numPartitions: 3 }] });
  report("create", { created, again });

  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: true });
  await producer.connect();
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    await producer.send({
      topic: "js-records",
      compression,
      acks: -1,
      messages: Array.from({ length: 50 }, (_, n) => ({ key: `k${n % 7}`, value: `${compression}:${n}`, headers: { codec: String(compression) } })),
    });
  }
  await producer.disconnect();
  const records = await readAll("js-records", "js-group", 100);
  const byPartition = {};
  for (const { partition, offset } of records) (byPartition[partition] ??= []).push(Number(offset));
  const inOrder = Object.values(byPartition).every((offsets) => offsets.every((offset, at) => offset === at));
  const keysStay = new Set(records.map(({ key, partition }) => `${key}@${partition}`)).size === 7;
  report("records", { count: records.length, values: new Set(records.map((r) => r.value)).size, inOrder, keysStay, header: records[0].headers.codec });

  const offsets = await admin.fetchTopicOffsets("js-records");
  report("offsets", { total: offsets.reduce((sum, { high }) => sum + Number(high), 0) });
  const committed = await admin.fetchOffsets({ groupId: "js-group", topics: ["js-records"] });
  report("committed", { total: committed[0].partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0) });
  const { groups } = await admin.describeGroups(["js-group"]);
  report("group", { state: groups[0].state, protocolType: groups[0].protocolType });

  const transactional = kafka.producer({ transactionalId: "js-transactional", maxInFlightRequests: 1, idempotent: true });
  await transactional.connect();
  for (const [value, commit] of [["kept-1", true], ["dropped", false], ["kept-2", true]]) {
    const transaction = await transactional.transaction();
    await transaction.send({ topic: "js-transactions", messages: [{ value }] });
    await (commit ? transaction.commit() : transaction.abort());
  }
  await transactional.disconnect();
  const visible = await readAll("js-transactions", "js-reader", 2, { readUncommitted: false });
  report("transactions", { values: visible.map((r) => r.value) });

  const configs = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: "js-records", configNames: ["retention.ms"] }] });
  report("configs", { value: configs.resources[0].configEntries[0].configValue });
  await admin.deleteGroups(["js-group", "js-reader"]);
  await admin.deleteTopics({ topics: ["js-records", "js-transactions"] });
  report("topics", { left: (await admin.listTopics()).filter((name) => name.startsWith("js-")) });
  await admin.disconnect();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
