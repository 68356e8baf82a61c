/** A master that is cut off from those who choose one goes on answering a controller that reaches it, and does not know that it was replaced. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, it, onTestFinished } from "vitest";
import { startRedisCluster } from "../../../../../test/support/redis-cluster.ts";
import { startRedisSentinels } from "../../../../../test/support/redis-sentinels.ts";
import { openStore } from "../open-store.ts";
import { commitOf, ref, write } from "../test-commits.ts";
import { vet } from "./redis-fixture.ts";

const ways = {
  sentinels: async () => {
    const servers = await startRedisSentinels();
    return { ...servers, replace: () => servers.cutOff(servers.master, true) };
  },
  "the nodes of a cluster": async () => {
    const servers = await startRedisCluster();
    return { ...servers, replace: () => servers.replaceUnaware(servers.master) };
  },
};

it.each(Object.entries(ways))(
  "[I8] %s: it is left for its successor, by both connections of the store",
  { timeout: 60_000 },
  async (_who, start) => {
    const servers = await start();
    const stateDir = mkdtempSync(path.join(tmpdir(), "hf-replaced-"));
    const ending = new AbortController();
    const store = await openStore({
      url: servers.url,
      cell: "test",
      stateDir,
      allowVolatile: false,
      declaredDurable: false,
      log: createMemoryLogger(),
      clock: systemClock,
      ids: { uuid: randomUUID, random: Math.random },
      signal: ending.signal,
      tuning: { commandTimeoutMs: 500, recheckMs: 200 },
    });
    onTestFinished(async () => {
      ending.abort();
      await store.close();
      await servers.stop();
      rmSync(stateDir, { recursive: true, force: true });
    });
    const grant = (key: string) => commitOf([write(key, 0, "x")], { requiresVetted: true });
    await vet(store);
    await store.commit(grant("before"));
    await servers.replicated();
    const events = store.watch(await store.head(), ending.signal)[Symbol.asyncIterator]();
    const ended = events.next().then(
      () => "an event",
      (error: { reason?: string }) => error.reason,
    );
    const reasons: string[] = [];
    store.onSuspect((reason) => reasons.push(reason));

    const { master } = servers;
    const clients = async (): Promise<string> => String(await (await master.admin()).call("CLIENT", "LIST"));
    expect(await clients()).toContain("name=holdfast-controller-events");
    // It takes writes without a replica, so that nothing but its successor tells against it.
    await (await master.admin()).config("SET", "min-replicas-to-write", "0");
    await servers.replace();
    const next = await servers.settled(master);
    expect(await (await master.admin()).set("{hf:test}unaware", "x"), "it does not know, and takes writes").toBe("OK");
    await expect
      .poll(() => reasons.join("; "), { timeout: 20_000 })
      .toContain(`was replaced by 127.0.0.1:${next.port}`);
    await expect.poll(clients, { timeout: 20_000 }).not.toContain("name=holdfast-controller");
    expect(await ended).toBe("EVENTS_TRIMMED");

    await expect
      .poll(
        () =>
          vet(store)
            .then(() => store.commit(grant("after")).then(({ ok }) => ok))
            .catch(String),
        { timeout: 20_000 },
      )
      .toBe(true);
    expect(await (await next.admin()).exists("{hf:test}r:v:after")).toBe(1);
    expect(await (await master.admin()).exists("{hf:test}r:v:after")).toBe(0);
    expect((await store.get(ref("before")))?.body).toBe("x");
  },
);
