// A group member that prints its assignments and the records it reads, with the machine's monotonic time, one per line:
//   assigned|revoked NANOSECONDS PARTITION,PARTITION...     read NANOSECONDS PARTITION OFFSET VALUE
// It commits only printed records. After SIGTERM it leaves the group and exits.
const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const [topic, bootstrap, groupId] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "member", brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 20 } });
const consumer = kafka.consumer({ groupId, sessionTimeout: 3000, heartbeatInterval: 300, rebalanceTimeout: 10000, maxWaitTimeInMs: 100 });
// Written at once: a killed process must not have committed a record that it had not printed.
const tell = (lines) => fs.writeSync(1, lines);
const now = () => process.hrtime.bigint();
let owned = [];
let leaving = false;

function release() {
  if (owned.length) tell(`revoked ${now()} ${owned.join(",")}\n`);
  owned = [];
}

consumer.on(consumer.events.REBALANCING, release);
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  release();
  owned = payload.memberAssignment[topic] || [];
  tell(`assigned ${now()} ${owned.join(",")}\n`);
});

process.on("SIGTERM", async () => {
  leaving = true;
  release();
  await consumer.disconnect();
  process.exit(0);
});

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, heartbeat, resolveOffset, isRunning, isStale }) => {
      if (leaving || !isRunning() || isStale()) return;
      tell(batch.messages.map((m) => `read ${now()} ${batch.partition} ${m.offset} ${m.value}\n`).join(""));
      resolveOffset(batch.lastOffset());
      await consumer.commitOffsets([{ topic, partition: batch.partition, offset: String(BigInt(batch.lastOffset()) + 1n) }]);
      await heartbeat();
    },
  });
}

main();
