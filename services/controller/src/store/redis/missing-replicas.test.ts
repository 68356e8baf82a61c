import { expect, test } from "vitest";
import { commitOf, write } from "../test-commits.ts";
import { vetAnew } from "../vet-anew.ts";
import { missingReplicas } from "./missing-replicas.ts";
import { startRedisFixture } from "./redis-fixture.ts";

const lacking = (good: string | undefined, connected: string, asked?: number) => {
  const told = good === undefined ? {} : { min_slaves_good_slaves: good };
  return missingReplicas({ connected_slaves: connected, ...told }, asked)?.description;
};

test("what is missing is counted, and the cure is one that helps", () => {
  expect(lacking(undefined, "0", 0), "no replica is wanted").toBeUndefined();
  expect(lacking("1", "1", 1)).toBeUndefined();
  expect(lacking("1", "1"), "how many are wanted is not known").toBeUndefined();
  expect(lacking("1", "1", 2)).toMatch(/of its 1 connected replicas 1 keep up, .* wants 2: .*min-replicas-to-write 1,/);
  expect(lacking("0", "0")).toMatch(/of its 0 connected replicas 0 keep up, .* wants at least 1: .*to-write 0,/);
  expect(lacking("0", "2", 1)).toMatch(/min-replicas-max-lag/);
  expect(lacking("0", "2", 1), "it would be volatile").not.toContain("CONFIG SET");
});

test("a master without the replicas that it wants says so when it is opened, while it lasts, and when it is over", async () => {
  const fixture = await startRedisFixture({ "min-replicas-to-write": "1" });
  try {
    const { server, open, restricted, log } = fixture;
    const why = /refuses every write with NOREPLICAS, because of its 0 connected replicas 0 keep up, .* wants/;
    await expect(open(), "it has to be prepared").rejects.toMatchObject({
      reason: "STORE_UNAVAILABLE",
      message: expect.stringMatching(why),
    });
    const admin = await server.admin();
    await admin.config("SET", "min-replicas-to-write", "0");
    await (await open()).close();
    await admin.config("SET", "min-replicas-to-write", "1");

    const told = (message: string) => log.lines.filter((line) => line.message === message);
    // Prepared already, and by nobody who would have to write.
    const store = await open({ migrateUrl: await restricted("test"), tuning: { recheckMs: 30 } });
    expect(told("THE STORE TAKES NO WRITES").map(({ fields }) => fields["why"])).toEqual([expect.stringMatching(why)]);
    const refused = {
      reason: "STORE_UNAVAILABLE",
      message: expect.stringMatching(
        / refused \(\w+\): NOREPLICAS .*fewer replicas keep up with it than min-replicas-to-write/,
      ),
    };
    await expect(vetAnew(store)).rejects.toMatchObject(refused);
    const count = commitOf([write("k", 0, "x")]);
    await expect(store.commit(count)).rejects.toMatchObject(refused);

    await admin.config("SET", "min-replicas-to-write", "0");
    await expect.poll(() => told("the store takes writes again").length).toBe(1);
    await vetAnew(store);
    expect(await store.commit(count)).toMatchObject({ ok: true });
    await admin.config("SET", "min-replicas-to-write", "1");
    await expect.poll(() => told("THE STORE TAKES NO WRITES").length).toBe(2);
  } finally {
    await fixture.stop();
  }
});
