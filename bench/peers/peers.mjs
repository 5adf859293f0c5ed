// What graphile-worker and pg-boss do of the bench's workloads. Prints one line of JSON, as gd_bench once does.
//
//   npm install --prefix bench/peers
//   tools/private-postgres run -- node bench/peers/peers.mjs graphile drain --rows 20000

import { parseArgs } from 'node:util';
import { run, makeWorkerUtils, Logger } from 'graphile-worker';
import PgBoss from 'pg-boss';
import pg from 'pg';

const { positionals: [peer, what], values: { rows: given, steps: many } } = parseArgs({
  allowPositionals: true,
  options: { rows: { type: 'string', default: '20000' }, steps: { type: 'string', default: '1' } },
});
const rows = Number(given);
const steps = Number(many);
if (!['graphile', 'pgboss'].includes(peer) || !['drain', 'bulk'].includes(what) || !(rows > 0) || !(steps > 0)) {
  console.error('usage: peers.mjs graphile|pgboss drain|bulk [--rows N] [--steps N]');
  process.exit(2);
}

// GD_DATABASE is libpq's "name=value ..."; each run has a database of its own.
const to = Object.fromEntries(process.env.GD_DATABASE.split(' ').map((x) => x.split('=')));
const database = `peers_${process.pid}`;
const connection = (name) => ({ host: to.host, user: to.user, database: name });
const admin = new pg.Client(connection('postgres'));
await admin.connect();
await admin.query(`create database ${database}`);
const batch = 1000;

const inBatches = async (send) => {
  for (let first = 0; first < rows; first += batch) {
    await send(Math.min(batch, rows - first));
  }
};

async function timed(work) {
  const cpu = process.cpuUsage();
  const since = process.hrtime.bigint();
  await work();
  const seconds = Number(process.hrtime.bigint() - since) / 1e9;
  const used = process.cpuUsage(cpu);
  return { steps: what === 'bulk' ? rows : rows * steps, seconds, client_cpu: (used.user + used.system) / 1e6 };
}

async function graphile() {
  const pool = new pg.Pool({ ...connection(database), max: 30 });
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  pool.on('error', () => {});
  // Without a queue's name: jobs of a queue go one after the other.
  const insert = () => inBatches((n) => pool.query(
    `select count(*) from graphile_worker.add_jobs(array(
       select row('work', x, null, null, null, null, null, null)::graphile_worker.job_spec
       from json_array_elements($1::json) x))`,
    [JSON.stringify(Array.from({ length: n }, () => ({ left: steps })))]));
  if (what === 'bulk') return [await timed(insert), pool];
  await insert();
  let left = rows * steps;
  let done;
  const over = new Promise((resolve) => { done = resolve; });
  let runner;
  const found = await timed(async () => {
    runner = await run({
      pgPool: pool, logger, concurrency: 24, noHandleSignals: true, pollInterval: 100,
      taskList: {
        work: async (job, { addJob }) => {
          if (job.left > 1) await addJob('work', { left: job.left - 1 });
          if (--left === 0) done();
        },
      },
    });
    await over;
    await runner.stop(); // the last ones are completed
  });
  return [found, pool];
}

async function pgboss() {
  const boss = new PgBoss({ ...connection(database), max: 4, supervise: false, schedule: false });
  boss.on('error', () => {}); // its connections are ended below
  await boss.start();
  await boss.createQueue('work');
  const insert = () => inBatches((n) => boss.insert('work', Array.from({ length: n }, () => ({ data: { left: steps } }))));
  if (what === 'bulk') return [await timed(insert), boss];
  await insert();
  // Two that fetch, work and complete a batch at a time: its own workers would wait for their interval between two batches.
  let left = rows * steps;
  const found = await timed(() => Promise.all([1, 2].map(async () => {
    while (left > 0) {
      const jobs = await boss.fetch('work', { batchSize: batch });
      if (jobs.length === 0) continue;
      const more = jobs.filter((x) => x.data.left > 1).map((x) => ({ data: { left: x.data.left - 1 } }));
      if (more.length > 0) await boss.insert('work', more);
      await boss.complete('work', jobs.map((x) => x.id));
      left -= jobs.length;
    }
  })));
  return [found, boss];
}

const [found, held] = await { graphile, pgboss }[peer]();
console.log(JSON.stringify(found));
await (held.end?.() ?? held.stop({ graceful: false, close: true }));
await admin.query(`drop database ${database} with (force)`).catch(() => {});
process.exit(0);
