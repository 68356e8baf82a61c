import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RedisServer, startRedisServer } from "../../../../../test/support/redis-server.ts";
import type { Store } from "../../ports.ts";
import { commitOf, write } from "../test-commits.ts";
import { CallFailure } from "./call-failure.ts";
import { type RedisFixture, startRedisFixture, vet } from "./redis-fixture.ts";
import { createReplicaAcks } from "./replica-acks.ts";

describe("a commit at a master with a replica", () => {
  let fixture: RedisFixture;
  let replica: RedisServer;
  let store: Store;
  beforeEach(async () => {
    [fixture, replica] = [await startRedisFixture({ "repl-diskless-sync-delay": "0" }), await startRedisServer()];
    await (await replica.admin()).call("REPLICAOF", "127.0.0.1", fixture.server.port);
    const admin = await fixture.server.admin();
    await expect.poll(() => admin.info("replication"), { timeout: 20_000 }).toContain("state=online");
    // Writes go on without a replica, which a master in use should refuse.
    store = await fixture.open({ allowVolatile: true });
    await vet(store);
  });
  afterEach(async () => {
    replica.signal("SIGCONT");
    await fixture.stop();
    await replica.stop();
  });

  it("[R7] [RA1] is answered when the replica has it", async () => {
    replica.signal("SIGSTOP");
    const answers: unknown[] = [];
    const commits = ["a", "b", "c"].map((key) =>
      store.commit(commitOf([write(key, 0, "1")])).then((answer) => answers.push(answer)),
    );
    const admin = await fixture.server.admin();
    const done = (): Promise<string> => admin.info("commandstats");
    await expect.poll(done, { timeout: 20_000 }).toMatch(/cmdstat_wait:calls=[2-9]/);
    expect(answers).toEqual([]);
    replica.signal("SIGCONT");
    await Promise.all(commits);
    expect(answers).toEqual(Array(3).fill(expect.objectContaining({ ok: true })));
  });

  it("[R7] is told as unknown when no replica gets it, and is there", async () => {
    replica.signal("SIGSTOP");
    const wanted = commitOf([write("a", 0, "1")]);
    await expect(store.commit(wanted)).rejects.toMatchObject({
      reason: "STORE_OUTCOME_UNKNOWN",
      message: expect.stringContaining("no replica has it"),
    });
    replica.signal("SIGCONT");
    expect(await store.commit(wanted)).toMatchObject({ ok: true, revs: [1] });
  });

  it("[RA3] waits for nobody when the replica is gone", async () => {
    await replica.kill();
    expect(await store.commit(commitOf([write("a", 0, "1")]))).toMatchObject({ ok: true });
  });
});

describe("what is known of replicas", () => {
  const build = (answer: (command: string) => unknown) => {
    const asked: string[] = [];
    const connection = {
      session: 1,
      current: () => ({ runId: "run", session: connection.session }),
      async call(command: string) {
        asked.push(command);
        return answer(command);
      },
    };
    const log = createMemoryLogger();
    return { asked, connection, log, acks: createReplicaAcks({ connection, log }) };
  };

  it("[RA3] without one nobody is asked", async () => {
    const { acks, asked } = build(() => 0);
    expect(await acks.acknowledged(1)).toBe(true);
    acks.saw(1);
    acks.saw(0);
    expect(await acks.acknowledged(1)).toBe(true);
    expect(asked).toEqual([]);
  });

  it("[RA1] commits that come meanwhile wait for one WAIT that begins after them", async () => {
    const { acks, asked } = build(() => 1);
    acks.saw(1);
    expect(await Promise.all([1, 2, 3].map(() => acks.acknowledged(1)))).toEqual([true, true, true]);
    expect(asked).toEqual(["WAIT", "WAIT"]);
  });

  it("[RA2] the word of another session is none", async () => {
    const { acks, connection } = build(() => {
      connection.session = 2;
      return 1;
    });
    acks.saw(1);
    expect(await acks.acknowledged(1)).toBe(false);
    expect(await acks.acknowledged(1)).toBe(false);
  });

  it("[RA3] a user who may not ask is told of once, and waits no more", async () => {
    const { acks, asked, log } = build(() => {
      throw new CallFailure("refused", "NOPERM", { code: "NOPERM" });
    });
    acks.saw(1);
    expect([await acks.acknowledged(1), await acks.acknowledged(1)]).toEqual([true, true]);
    expect([asked, log.lines.length]).toEqual([["WAIT"], 1]);
  });

  it("[RA3] is asked anew in the next session: its rights may be others by then", async () => {
    let forbidden = true;
    const { acks, asked, connection } = build(() => {
      if (forbidden) throw new CallFailure("refused", "NOPERM", { code: "NOPERM" });
      return 1;
    });
    acks.saw(1);
    expect(await acks.acknowledged(1)).toBe(true);
    forbidden = false;
    connection.session = 2;
    expect(await acks.acknowledged(2)).toBe(true);
    expect(asked).toEqual(["WAIT", "WAIT"]);
  });

  it("no answer is no word of a replica", async () => {
    const { acks } = build(() => {
      throw new CallFailure("unknown", "Command timed out");
    });
    acks.saw(1);
    expect(await acks.acknowledged(1)).toBe(false);
  });
});
