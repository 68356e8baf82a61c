/** Streams that are cut at any frame or chunk, with calls of every kind under way in both directions. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { fromClientError, reasonSent } from "../../errors/grpc-status.ts";
import { AgentServiceDefinition } from "../../gen/holdfast/internal/v1/agent.ts";
import { AgentLinkServiceDefinition } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { createStreamServices, type StreamServices } from "../../testing/stream-services.ts";
import type { CallContext } from "../call-context.ts";
import { createGrpcClient, type GrpcChannel } from "../client.ts";

const idle = { asked: 0, served: 0, queuedBytes: 0 };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const kinds = [
  "order",
  "large order",
  "order answered large",
  "stream",
  "request",
  "large request",
  "request answered large",
] as const;

const calls = fc.array(
  fc.record({
    kind: fc.constantFrom(...kinds),
    /** Turns that its handler takes, and after which its caller gives it up. */
    work: fc.nat(6),
    patience: fc.option(fc.nat(12), { nil: undefined }),
    /** It listens to its signal. */
    minds: fc.boolean(),
  }),
  { minLength: 1, maxLength: 8 },
);
const cuts = fc.record({
  on: fc.constantFrom("toAgent", "toController", "chunk", "nowhere"),
  at: fc.nat(12),
  held: fc.constantFrom("toAgent", "toController", "none"),
});
type Call = typeof calls extends fc.Arbitrary<(infer One)[]> ? One : never;

/** How often each call of a channel was told its end. */
function counted(channel: GrpcChannel, ends: number[]): GrpcChannel {
  return new Proxy(channel, {
    get(target, key) {
      if (key !== "createCall") return Reflect.get(target, key);
      return (...given: Parameters<GrpcChannel["createCall"]>) => {
        const call = target.createCall(...given);
        const number = ends.push(0) - 1;
        const start = call.start.bind(call);
        call.start = (metadata, listener) =>
          start(metadata, {
            onReceiveMetadata: (told) => listener.onReceiveMetadata(told),
            onReceiveMessage: (message: unknown) => listener.onReceiveMessage(message),
            onReceiveStatus: (status) => {
              ends[number] = (ends[number] ?? 0) + 1;
              listener.onReceiveStatus(status);
            },
          });
        return call;
      };
    },
  });
}

async function ask(stream: StreamServices, ends: number[], id: string, { kind }: Call, signal: AbortSignal) {
  const { log } = stream;
  const orders = createGrpcClient(AgentServiceDefinition, counted(stream.controller.channel, ends), { log });
  const requests = createGrpcClient(AgentLinkServiceDefinition, counted(stream.agent.channel, ends), { log });
  const large = "x".repeat(150_000);
  if (kind === "order") await orders.relay({ plugin: id, method: "small" }, { signal });
  else if (kind === "large order") await orders.relay({ plugin: id, request: Buffer.alloc(150_000) }, { signal });
  else if (kind === "order answered large") await orders.relay({ plugin: id, method: "large" }, { signal });
  else if (kind === "stream") for await (const _ of orders.relayStream({ plugin: id }, { signal }));
  else if (kind === "request") await requests.greet({ node: id }, { signal });
  else if (kind === "large request") await requests.requestClaims({ node: id, workload: large }, { signal });
  else await requests.issueTokens({ node: id }, { signal });
}

test("[A1] [T2] every call ends once, nothing is left, and what was told to be not sent was never seen", async () => {
  await fc.assert(
    fc.asyncProperty(calls, cuts, async (script, { on, at, held }) => {
      const seen = new Set<string>();
      const work = async (id: string, { signal }: CallContext) => {
        seen.add(id);
        const { work: turns = 0, minds = true } = script[Number(id)] ?? {};
        for (let done = 0; done < turns; done += 1) {
          await turn();
          if (minds) signal.throwIfAborted();
        }
      };
      let chunks = 0;
      const stream: StreamServices = createStreamServices({
        onChunk() {
          chunks += 1;
          if (on === "chunk" && chunks === at + 1) stream.cut();
        },
        onAgent: {
          async relay({ plugin, method }, context) {
            await work(plugin, context);
            return { response: Buffer.alloc(method === "large" ? 150_000 : 1) };
          },
          async *relayStream({ plugin }, context) {
            for (let sent = 0; sent < 3; sent += 1) {
              await work(plugin, context);
              yield { response: Buffer.alloc(40_000) };
            }
          },
        },
        onController: {
          async greet({ node }, context) {
            await work(node, context);
            return {};
          },
          async requestClaims({ node }, context) {
            await work(node, context);
            return {};
          },
          async issueTokens({ node }, context) {
            await work(node, context);
            return { tokens: [{ token: "x".repeat(150_000) }] };
          },
        },
      });
      let frames = 0;
      for (const name of ["toAgent", "toController"] as const)
        stream[name].onFrame = () => {
          if (on !== name) return "deliver";
          frames += 1;
          return frames === at + 1 ? "cut" : "deliver";
        };
      if (held !== "none") {
        stream[held].hold();
        setTimeout(() => (on === "nowhere" ? stream[held].release() : stream.cut()), 5);
      }

      const ends: number[] = [];
      const unsent = new Set<string>();
      await Promise.all(
        script.map(async (call, index) => {
          const give = new AbortController();
          const asked = ask(stream, ends, String(index), call, give.signal).catch((error: unknown) => {
            if (reasonSent(fromClientError(error)) === "NOT_SENT") unsent.add(String(index));
          });
          for (let turns = call.patience ?? 0; turns > 0; turns -= 1) await turn();
          if (call.patience !== undefined) give.abort();
          await asked;
        }),
      );
      if (on === "nowhere")
        await expect.poll(() => [stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
      stream.cut();
      await Promise.all([stream.agent.ended, stream.controller.ended]);
      expect([stream.agent.load(), stream.controller.load()]).toEqual([idle, idle]);
      expect(ends.filter((times) => times !== 1)).toEqual([]);
      expect([...unsent].filter((id) => seen.has(id))).toEqual([]);
      expect(stream.toAgent.thrown() ?? stream.toController.thrown()).toBe(undefined);
      for (let turns = 0; turns < 50 && stream.transfers().open > 0; turns += 1) await turn();
      expect(stream.transfers().open).toBe(0);
    }),
    { numRuns: 150 },
  );
}, 60_000);
