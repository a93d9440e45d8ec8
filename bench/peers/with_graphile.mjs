// graphile-worker at the settings that drained fastest: 24 jobs at once, claims of 500 into its
// local queue, one statement for all that completed in a tick. The commands of adapter.py.
import fs from "node:fs";
import { createRequire } from "node:module";

const { Logger, makeWorkerUtils, run } = createRequire(process.env.PEER_MODULES + "/")("graphile-worker");
const connectionString = process.env.PEER_URL;
const logger = new Logger(() => () => {});
const AT_ONCE = 24, LOCAL = 500, REFETCH_MS = 10, CHUNK = 10_000;
const SLOTS = 8192, SLOT = 16, MOMENT = 8; // as in marks.py

const now = () => Number(process.hrtime.bigint()) / 1e9;
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const connect = () => makeWorkerUtils({ connectionString, logger, maxPoolSize: 1 });

function marker() {
  const file = fs.openSync(process.env.PEER_MARKS, "r+");
  const slot = Buffer.alloc(SLOT), moment = Buffer.alloc(MOMENT);
  let count = 0, written = 0;
  const write = () => {
    if (count === written) return;
    slot.writeBigUInt64LE(BigInt(count), 0);
    fs.writeSync(file, slot, 0, SLOT, (process.pid % SLOTS) * SLOT);
    written = count;
  };
  setInterval(write, 10); // a write for each run would be what Python's memory map spares its peers
  return (number) => {
    count += 1;
    if (count === 1) { slot.writeDoubleLE(now(), 8); write(); }
    if (process.env.PEER_TIMED) {
      moment.writeDoubleLE(now(), 0);
      fs.writeSync(file, moment, 0, MOMENT, SLOTS * SLOT + number * MOMENT);
    }
  };
}

const commands = {
  async setup() {
    await (await connect()).migrate();
    return {};
  },
  async singles(count) {
    const utils = await connect(), began = now();
    for (let number = 0; number < count; number++) await utils.addJob("noop", { n: number });
    return { seconds: now() - began };
  },
  async paced(count, every) {
    const utils = await connect(), returned = [], first = now() + 0.5;
    for (let number = 0; number < count; number++) {
      await sleep(Math.max(0, first + number * every - now()));
      await utils.addJob("noop", { n: number });
      returned.push(now());
    }
    return { returned };
  },
  async bulk(count) {
    const utils = await connect(), began = now();
    for (let start = 0; start < count; start += CHUNK) {
      const length = Math.min(CHUNK, count - start);
      await utils.addJobs(Array.from({ length }, (_, at) => ({ identifier: "noop", payload: { n: start + at } })));
    }
    return { seconds: now() - began };
  },
  async work() {
    const mark = marker();
    const worker = {
      logger, connectionString, concurrentJobs: AT_ONCE, maxPoolSize: AT_ONCE + 1,
      localQueue: { size: LOCAL, refetchDelay: { durationMs: REFETCH_MS } },
      completeJobBatchDelay: 0, failJobBatchDelay: 0,
    };
    const runner = await run({ preset: { worker }, logger, taskList: { noop: ({ n }) => mark(n) } });
    await runner.promise;
  },
};

const [command, ...numbers] = process.argv.slice(2);
console.log(JSON.stringify(await commands[command](...numbers.map(Number))));
process.exit(0);
