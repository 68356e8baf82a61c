import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createTracing } from "@holdfast/shared/tracing";
import { expect, it } from "vitest";
import { createCsiExchange } from "./csi-exchange.ts";
import { codecOf } from "./messages.ts";
import type { CsiTransport } from "./transport.ts";

it.each([
  ["of the plugin", { answered: true }, "done"],
  ["that was made up on the way", {}, "unknown"],
] as const)("the NOT_FOUND %s for a delete", async (_whose, answered, outcome) => {
  const transport: CsiTransport = {
    unary: async () => ({ failure: { code: "NOT_FOUND", message: "no", sent: true, ...answered } }),
    stream: async function* () {
      yield { bytes: new Uint8Array() };
    },
  };
  const exchange = createCsiExchange({
    plugin: () => "p",
    tracing: createTracing("test"),
    clock: createManualClock(),
  });
  const request = codecOf("DeleteVolume").complete({ volumeId: "v" });
  const options = { signal: new AbortController().signal, deadlineMs: 1_000, sensitive: [] };
  expect((await exchange.call(transport, "DeleteVolume", request, options)).outcome).toBe(outcome);
});
