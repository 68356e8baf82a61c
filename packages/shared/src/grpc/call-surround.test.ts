import { setImmediate as turn } from "node:timers/promises";
import { Metadata } from "nice-grpc";
import type { CallContext as BareContext, ServerMiddlewareCall } from "nice-grpc-common";
import { expect, test } from "vitest";
import { createMemoryLogger } from "../log/logger.ts";
import type { CallContext, CallExtension } from "./call-context.ts";
import { createCallSurround } from "./call-surround.ts";

const surroundOf = () => createCallSurround({ log: createMemoryLogger(), address: () => "here" });

function call(surround: ReturnType<typeof surroundOf>, handler: (context: CallContext) => Promise<string>) {
  const bare: BareContext = {
    metadata: Metadata(),
    peer: "peer",
    header: Metadata(),
    sendHeader: () => undefined,
    trailer: Metadata(),
    signal: new AbortController().signal,
  };
  const method = { path: "/s/m", requestStream: false, responseStream: false, options: {} };
  // biome-ignore lint/correctness/useYield: a unary handler, as the library makes them
  const next = async function* (_request: string, context: BareContext) {
    return await handler(context as CallContext);
  };
  const made = { method, requestStream: false, request: "", responseStream: false, next } as const;
  return surround.service(made as ServerMiddlewareCall<string, string, CallExtension>, bare).next();
}

test("[S1] a call that comes after stop() is refused, although nothing else of a server is there", async () => {
  const surround = surroundOf();
  expect(await surround.stop(1_000)).toBe(true);
  await expect(call(surround, async () => "x")).rejects.toThrow("going down");
});

test("refusals leave in the turns of the event loop, a bounded number in each", async () => {
  const surround = surroundOf();
  await surround.stop(1_000);
  let refused = 0;
  for (let made = 0; made < 300; made += 1)
    call(surround, async () => "x").catch(() => {
      refused += 1;
    });
  let most = 0;
  for (let before = 0; before < 300; before = refused) {
    await turn();
    most = Math.max(most, refused - before);
  }
  // A turn of this test may see the end of one of the queue's and the begin of the next.
  expect(most).toBeLessThanOrEqual(64);
});

test("[S2] stop() aborts what runs after the grace, and does not wait for what minds nothing", async () => {
  const surround = surroundOf();
  const seen: string[] = [];
  const minded = call(surround, ({ signal }) => {
    seen.push("begun");
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  void call(surround, () => {
    seen.push("begun");
    return new Promise(() => undefined);
  });
  minded.catch(() => undefined);
  await expect.poll(() => seen).toEqual(["begun", "begun"]);
  expect(await surround.stop(1)).toBe(false);
  await expect(minded).rejects.toThrow("going down");
});

test("[S2] a call that ends within the grace is waited for", async () => {
  const surround = surroundOf();
  let finish: (value: string) => void = () => undefined;
  let begun = false;
  const running = call(
    surround,
    () =>
      new Promise((resolve) => {
        begun = true;
        finish = resolve;
      }),
  );
  await expect.poll(() => begun).toBe(true);
  const stopping = surround.stop(60_000);
  finish("done");
  expect(await stopping).toBe(true);
  expect((await running).value).toBe("done");
});
