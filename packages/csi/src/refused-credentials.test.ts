import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { expect, it } from "vitest";
import { codecOf } from "./messages.ts";
import type { CallFailure, CallOutcome } from "./outcome.ts";
import { verdictOf } from "./outcome.ts";
import { createRefusedCredentials } from "./refused-credentials.ts";

it("R4 what is remembered was not sent, so that it ends no call that an earlier attempt left open", async () => {
  const failure: CallFailure = {
    method: "DeleteVolume",
    plugin: "p",
    code: "PERMISSION_DENIED",
    verdict: verdictOf("delete", "PERMISSION_DENIED"),
    message: "no",
    sent: true,
    answered: true,
  };
  const clock = createManualClock();
  let sent = 0;
  const plugin = {
    call: async (..._call: unknown[]): Promise<CallOutcome<never>> => {
      sent += 1;
      return { outcome: "refused", failure };
    },
  };
  const guarded = createRefusedCredentials(clock).guard("p", plugin, { version: "v1" });
  const request = codecOf("DeleteVolume").complete({ volumeId: "v" });
  const call = (attempt: number) =>
    guarded.call("DeleteVolume", request, { signal: new AbortController().signal, subject: { volume: "v", attempt } });
  expect(await call(1)).toEqual({ outcome: "refused", failure });
  const { answered: _a, ...rest } = failure;
  expect(await call(2)).toEqual({ outcome: "refused", failure: { ...rest, sent: false } });
  expect(sent).toBe(1);
  // An hour, whatever is done to the wall clock.
  clock.setWall(clock.now() + 86_400_000);
  await call(2);
  expect(sent).toBe(1);
  clock.setWall(clock.now() - 10 * 86_400_000);
  await clock.advance(3_600_000);
  await call(2);
  expect(sent).toBe(2);
});
