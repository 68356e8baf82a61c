/**
 * The stores alone: commits a second beside the floor of the same server (a bare SET of the same bytes), round trips of a commit,
 * bytes that a volume takes with its places. `node bench/store-main.ts [volumes]`; redis-server has to be on the PATH.
 */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Commit } from "@holdfast/controller/domain/store-types";
import type { Store } from "@holdfast/controller/ports";
import type { Redis } from "ioredis";
import { type RedisServer, startRedisServer } from "../test/support/redis-server.ts";
import { openBenchStore } from "./support/bench-store.ts";

/** As in docs: a record of 1.5 KB, in the indexes that a claimed volume has. */
const body = JSON.stringify({ id: "x", filler: "v".repeat(1536 - 22) });
const goalBytes = Math.floor(2.2 * 1024);

/** Claimed and mounted: nothing is due. */
const settledVolume = (n: number): Commit => {
  const { writes, ...commit } = volumeCommit(n, 0);
  return { ...commit, writes: writes.map((write) => ({ ...write, due: [] })) };
};

const volumeCommit = (n: number, rev: number, more: Partial<Commit> = {}): Commit => {
  const key = `default/volume-${n}`;
  return {
    opId: randomUUID(),
    writes: [
      {
        ref: { kind: "volume", key },
        expectedRev: rev,
        body,
        indexes: [
          { index: "volume-all", value: "all" },
          { index: "volume-namespace", value: "default" },
          { index: "volume-plugin", value: "csi.example.com" },
          { index: "claim-node", value: `node-${n % 100}` },
          { index: "claim-workload", value: `default/workload-${n}` },
        ],
        due: [{ queue: "volumes", at: 1_800_000_000_000 + n }],
      },
    ],
    events: [],
    requiresVetted: false,
    ...more,
  };
};

/** Calls a second with so many under way, each on a subject of its own. */
const rate = async (inFlight: number, ms: number, act: (subject: number, turn: number) => Promise<unknown>) => {
  const until = performance.now() + ms;
  const begun = performance.now();
  let calls = 0;
  const worker = async (subject: number): Promise<void> => {
    for (let turn = 0; performance.now() < until; turn += 1) {
      await act(subject, turn);
      calls += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, (_, subject) => worker(subject)));
  return calls / ((performance.now() - begun) / 1000);
};

/** A grant as the hot path writes it: compared with the vetted process, and with an event. */
const grant: Partial<Commit> = {
  requiresVetted: true,
  events: [{ type: "claim", ref: { kind: "volume", key: "default/volume" }, body: '{"state":"ATTACHING","rev":1}' }],
};

const series = [1, 8, 32, 128] as const;
const sliceMs = 400;
const slices = 4;

type Act = (subject: number, turn: number) => Promise<unknown>;

/** All of them by turns, so that a busy moment of the machine falls on each. */
const rates = async (acts: readonly Act[], inFlight: number): Promise<readonly number[]> => {
  const sums = acts.map(() => 0);
  const turns = new Map<string, number>();
  for (let slice = 0; slice < slices; slice += 1)
    for (const [at, act] of acts.entries())
      sums[at] =
        (sums[at] ?? 0) +
        (await rate(inFlight, sliceMs, (subject) => {
          const name = `${at}/${subject}`;
          const turn = turns.get(name) ?? 0;
          turns.set(name, turn + 1);
          return act(subject, turn);
        }));
  return sums.map((sum) => sum / slices);
};

const infoNumber = async (client: Redis, section: string, field: string): Promise<number> =>
  Number(new RegExp(`^${field}:(\\d+)`, "m").exec(await client.info(section))?.[1]);

/** What the server read from its sockets for a commit, one at a time, less what the asking itself takes. */
const roundTrips = async (store: Store, client: Redis): Promise<number> => {
  const reads = () => infoNumber(client, "stats", "total_reads_processed");
  const commits = 500;
  const before = await reads();
  for (let rev = 0; rev < commits; rev += 1) await store.commit(volumeCommit(900_000, rev, grant));
  return ((await reads()) - before - 1) / commits;
};

interface Bytes {
  /** Of a volume on which nothing is going on. */
  readonly atRest: number;
  /** What the last commit of a volume adds for ten minutes. */
  readonly answer: number;
}

const bytesPerVolume = async (store: Store, client: Redis, volumes: number): Promise<Bytes> => {
  const used = () => infoNumber(client, "memory", "used_memory");
  const make = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n += 32)
      await Promise.all(Array.from({ length: Math.min(32, to - n) }, (_, i) => store.commit(settledVolume(n + i))));
  };
  const dropAnswers = async (): Promise<void> => {
    for await (const keys of client.scanStream({ match: "{hf:bench}o:*", count: 1000 }) as AsyncIterable<string[]>)
      if (keys.length > 0) await client.unlink(...keys);
    await new Promise((resolve) => setTimeout(resolve, 200));
  };
  await make(1_000_000, 1_000_100);
  await dropAnswers();
  const before = await used();
  await make(2_000_000, 2_000_000 + volumes);
  const full = await used();
  await dropAnswers();
  const rest = await used();
  return { atRest: (rest - before) / volumes, answer: (full - rest) / volumes };
};

const row = (name: string, cells: readonly (number | string)[]): void => {
  const texts = cells.map((cell) => (typeof cell === "number" ? String(Math.round(cell)) : cell).padStart(9));
  console.log(`${name.padEnd(34)}${texts.join("")}`);
};

const benchRedis = async (server: RedisServer, stateDir: string, volumes: number): Promise<boolean> => {
  const client = await server.admin();
  const store = await openBenchStore(server.url, stateDir);
  try {
    const table: (readonly number[])[] = [];
    const acts: readonly Act[] = [
      (subject) => client.set(`floor-${subject}`, body),
      (subject, turn) => store.commit(volumeCommit(10_000 + subject, turn)),
      (subject, turn) => store.commit(volumeCommit(20_000 + subject, turn, grant)),
    ];
    for (const [at, inFlight] of series.entries()) {
      const own = acts.map(
        (act): Act =>
          (subject, turn) =>
            act(at * 1000 + subject, turn),
      );
      table.push(await rates(own, inFlight));
    }
    const column = (at: number): readonly number[] => table.map((found) => found[at] ?? Number.NaN);
    row("Redis, calls/s in flight:", series);
    row("  floor: SET of the same bytes", column(0));
    row("  commit", column(1));
    row("  commit of a grant, with an event", column(2));
    row(
      "  grant to floor",
      table.map(([floor = Number.NaN, , granted = 0]) => (granted / floor).toFixed(2)),
    );
    const trips = await roundTrips(store, client);
    row("  round trips of a commit", [trips.toFixed(2)]);
    const bytes = await bytesPerVolume(store, client, volumes);
    row(`  bytes of a ${body.length} byte volume`, [bytes.atRest, `(goal ${goalBytes})`]);
    row("  bytes of an answer, for 10 min", [bytes.answer]);
    return trips <= 1.01 && bytes.atRest <= goalBytes;
  } finally {
    await store.close();
  }
};

const benchSqlite = async (dir: string): Promise<void> => {
  const store = await openBenchStore(`sqlite://${path.join(dir, "store.db")}`, dir);
  row("SQLite, calls/s in flight:", [1]);
  row("  commit of a grant, with an event", [
    await rate(1, sliceMs * slices, (subject, turn) => store.commit(volumeCommit(subject, turn, grant))),
  ]);
  await store.close();
};

const main = async (): Promise<void> => {
  const volumes = Number(process.argv[2] ?? 20_000);
  const dir = await mkdtemp(path.join(tmpdir(), "hf-bench-store-"));
  const server = await startRedisServer();
  try {
    const kept = await benchRedis(server, path.join(dir, "redis"), volumes);
    await benchSqlite(path.join(dir, "sqlite"));
    if (!kept) process.exitCode = 1;
  } finally {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  }
};

await main();
