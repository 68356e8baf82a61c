import { expect, it } from "vitest";
import { noAttempts } from "../outcome.ts";
import { momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { expandAnswered } from "./expand-answer.ts";

it("E2 a refusal that never left ends no call that is open, whatever the size at the backend is by now", () => {
  const at = momentAt(7_000);
  const intent = {
    op: "expand",
    epoch: { gen: 1, ctr: 1 },
    issuer: at.issuer,
    opId: "op-1",
    via: "a",
    openSince: 5_000,
    uncertainSince: 5_000,
  } as const;
  const volume = volumeRecord([], [], {
    capacity: { required: 100, limit: 0, actual: 100 },
    expansion: {
      state: "CALLING",
      target: { required: 200, limit: 0 },
      onlyUnused: false,
      attempts: noAttempts,
      since: 1,
    },
    intent,
  });
  const failure = { reason: "CREDENTIALS_REFUSED", message: "no", advice: "fail", call: "not-sent" } as const;
  for (const known of [undefined, { capacity: 100, nodesFollow: false }, { capacity: 200, nodesFollow: false }])
    expect(expandAnswered(volume, { kind: "refused", failure }, known, at).volume).toMatchObject({
      intent,
      capacity: { actual: 100 },
      expansion: { state: "UNCERTAIN", blocked: { reason: "PLUGIN_REFUSED" } },
    });
});
