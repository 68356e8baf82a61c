import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, it } from "vitest";
import { openExportSource } from "../open-export-source.ts";
import { commitOf, write } from "../test-commits.ts";
import { startRedisFixture } from "./redis-fixture.ts";

it("an export of a Redis that is another process before it is over fails: where the scan was says nothing to that one", async () => {
  const fixture = await startRedisFixture();
  try {
    const store = await fixture.open();
    const names = Array.from({ length: 40 }, (_, n) => `k-${n}`);
    await store.commit(commitOf(names.map((name) => write(name, 0, "x"))));
    await store.close();
    // Far more than one step of the scan.
    await (await fixture.server.admin()).call("DEBUG", "POPULATE", 5000);
    const exported = async (meanwhile: () => Promise<void>): Promise<number> => {
      const source = await openExportSource({
        url: await fixture.migrator("test"),
        cell: "test",
        log: createMemoryLogger(),
        clock: systemClock,
        random: Math.random,
      });
      let found = 0;
      try {
        for await (const _ of source.records()) {
          if (found === 0) await meanwhile();
          found += 1;
        }
      } finally {
        await source.close();
      }
      return found;
    };
    expect(await exported(async () => undefined)).toBe(names.length);
    const restarted = exported(async () => {
      await fixture.server.kill();
      await fixture.server.restart();
    });
    await expect(restarted).rejects.toThrow("it is another process now: begin again");
  } finally {
    await fixture.stop();
  }
});
