import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, test } from "vitest";
import { createHealthSecrets } from "./health-secrets.ts";

const fails = (kind: "unavailable" | "unimplemented" | "permission" | "precondition") => async () => {
  throw new HoldfastError({ kind, reason: "X", message: "no" });
};
const gives = (token: string) => async () => ({ secrets: { token } });

type Asked = () => Promise<{ secrets: Record<string, string> }>;

const created = (controllers: () => readonly Asked[]) => {
  const log = createMemoryLogger();
  const secretsOf = createHealthSecrets({
    node: "n1",
    controllers: () => controllers().map((getHealthSecrets) => ({ client: { getHealthSecrets } })),
    ...{ deadlineMs: 100, log, signal: new AbortController().signal },
  });
  return { log, secretsOf: () => secretsOf("csi.example") };
};

test.each([
  ["the first controller that answers gives them", [fails("unavailable"), gives("t")], { token: "t" }],
  ["one of an earlier version wants none", [fails("unimplemented")], {}],
  ["no controller is there", [], undefined],
  ["none of them gives them", [fails("permission"), fails("precondition"), fails("unavailable")], undefined],
] as const)("the secrets of NodeGetStorageHealth: %s", async (_, controllers, expected) => {
  expect(await created(() => controllers).secretsOf()).toEqual(expected);
});

test("a secret that is not to be had is told of once, and again after it was there", async () => {
  let now: Asked = fails("precondition");
  const { log, secretsOf } = created(() => [now]);
  for (let n = 0; n < 3; n += 1) await secretsOf();
  expect(log.lines).toMatchObject([{ level: "warn", fields: { plugin: "csi.example", why: "no" } }]);
  now = gives("t");
  await secretsOf();
  now = fails("precondition");
  await secretsOf();
  expect(log.lines).toHaveLength(2);
  expect(JSON.stringify(log.lines)).not.toContain('"t"');
});
