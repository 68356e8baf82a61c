import { readFile } from "node:fs/promises";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AgentServiceDefinition } from "../../gen/holdfast/internal/v1/agent.ts";
import {
  AgentLinkServiceDefinition,
  FromAgent,
  LinkReply,
  Order,
  ToAgent,
} from "../../gen/holdfast/internal/v1/controller_link.ts";
import { bodyFieldsOf, type StreamSide } from "./body-fields.ts";
import { answerFrame, callFrame, cancelFrame, noticeFrame, readFrame } from "./frames.ts";
import { maxFrameBytes } from "./serve-wire.ts";

const seqs = fc.bigInt({ min: 1n, max: BigInt(Number.MAX_SAFE_INTEGER) });
const heads = fc.record({
  seq: seqs,
  traceparent: fc.string({ maxLength: 60 }),
  tracestate: fc.string({ maxLength: 300 }),
  timeLeftMs: fc.nat(),
  identity: fc.string({ maxLength: 20 }),
  requestId: fc.string({ maxLength: 20 }),
  byTransfer: fc.boolean(),
});
const answerHeads = fc.record({ seq: seqs, byTransfer: fc.boolean(), failure: fc.uint8Array({ maxLength: 300 }) });

const sides: Readonly<Record<StreamSide, { asked: object; question: string; answer: string }>> = {
  controller: { asked: AgentServiceDefinition.methods, question: "Order", answer: "OrderAnswer" },
  agent: { asked: AgentLinkServiceDefinition.methods, question: "LinkRequest", answer: "LinkReply" },
};

/** The fields of a message, as its proto has them. */
async function fieldsOf(message: string): Promise<ReadonlyMap<string, number>> {
  const file = new URL("../../../../../proto/holdfast/internal/v1/controller_link.proto", import.meta.url);
  const [, body = ""] = new RegExp(`message ${message} \\{([\\s\\S]*?)\\n\\}`).exec(await readFile(file, "utf8")) ?? [];
  return new Map(
    [...body.matchAll(/^ {4}(\w+) (\w+) = (\d+);$/gm)].map(([, type = "", , number]) => [type, Number(number)]),
  );
}

describe("the table of bodies", () => {
  test.each(["agent", "controller"] as const)("of what the %s asks is the proto's own, both ways", async (side) => {
    const { asked, question, answer } = sides[side];
    const [questions, answers] = await Promise.all([fieldsOf(question), fieldsOf(answer)]);
    const { service, fieldOf, pathOf } = bodyFieldsOf[side];
    const names = Object.values(asked).map(({ name }: { readonly name: string }) => name);
    expect(questions.size).toBe(names.length);
    for (const name of names) {
      const path = `/${service}/${name}`;
      expect(fieldOf(path), name).toBe(questions.get(`${name}Request`));
      expect(fieldOf(path), name).toBe(answers.get(`${name}Response`));
      expect(pathOf(fieldOf(path) ?? 0)).toBe(path);
    }
  });
});

describe("a frame is what the generated code makes of it", () => {
  test("a call and its answer, in both directions", () => {
    fc.assert(
      fc.property(heads, answerHeads, fc.string({ maxLength: 40_000 }), (head, answer, text) => {
        const order = { head, stats: { volumeUids: [text, ""] } };
        const request = { head, greet: { node: text } };
        const said = { head: answer, stats: { volumes: [] } };
        const reply = { head: answer, greet: { controllerId: text, now: undefined, known: true } };
        const bodyOf = (whole: Uint8Array) => readFrame(whole) as { body: { field: number; bytes: Uint8Array } };
        const pairs = [
          [ToAgent.encode(ToAgent.fromPartial({ order })).finish(), callFrame, head],
          [FromAgent.encode(FromAgent.fromPartial({ request })).finish(), callFrame, head],
          [FromAgent.encode(FromAgent.fromPartial({ answer: said })).finish(), answerFrame, answer],
          [ToAgent.encode(ToAgent.fromPartial({ reply })).finish(), answerFrame, answer],
        ] as const;
        for (const [whole, make, told] of pairs) {
          const { body } = bodyOf(whole);
          const made = (make as (head: unknown, body: unknown) => Uint8Array)(told, body);
          expect(Buffer.compare(made, whole)).toBe(0);
          expect(readFrame(whole)).toMatchObject({ head: told });
        }
      }),
      { numRuns: 50 },
    );
  });

  test("a body of any size, a call given up, a notice, an answer without a body", () => {
    for (const size of [0, 1, 127, 128, 16_383, 16_384, 65_000]) {
      const head = {
        seq: 7n,
        traceparent: "",
        tracestate: "",
        timeLeftMs: 0,
        identity: "",
        requestId: "",
        byTransfer: false,
      };
      const relay = { plugin: "", method: "", request: Buffer.alloc(size, 1), gen: 0n, node: "" };
      const whole = ToAgent.encode(ToAgent.fromPartial({ order: { head, relay } })).finish();
      const frame = readFrame(whole);
      if (frame.kind !== "call" || frame.body === undefined) throw new Error("no call");
      expect(Buffer.compare(callFrame(frame.head, frame.body), whole)).toBe(0);
    }
    expect(FromAgent.decode(cancelFrame(2 ** 40)).cancel?.seq).toBe(2n ** 40n);
    expect(readFrame(cancelFrame(5))).toEqual({ kind: "cancel", seq: 5 });
    const hello = FromAgent.encode(
      FromAgent.fromPartial({ hello: { node: "n", instance: "i", stream: "s" } }),
    ).finish();
    const notice = readFrame(hello);
    if (notice.kind !== "notice") throw new Error("no notice");
    expect(Buffer.compare(noticeFrame(notice.bytes), hello)).toBe(0);
    const head = { seq: 3n, byTransfer: false, failure: new Uint8Array([120]) };
    expect(FromAgent.decode(answerFrame(head, undefined)).answer?.head).toEqual(head);
    expect(ToAgent.decode(answerFrame(head, undefined)).reply?.head).toEqual(head);
  });

  test("[F1] a body is read without a copy", () => {
    const order = { head: { seq: 1n }, relay: { request: Buffer.alloc(100) } };
    const whole = ToAgent.encode(ToAgent.fromPartial({ order })).finish();
    const frame = readFrame(whole);
    expect(frame.kind === "call" && frame.body?.bytes.buffer === whole.buffer).toBe(true);
  });
});

describe("[F2] a frame is refused", () => {
  const head = { seq: 1n };
  test.each<[string, Uint8Array]>([
    ["of no kind", new Uint8Array(0)],
    ["of a kind of another version", Buffer.from([0x7a, 1, 0])],
    [
      "that is cut short",
      FromAgent.encode(FromAgent.fromPartial({ request: { head, greet: { node: "n" } } }))
        .finish()
        .subarray(0, 6),
    ],
    ["that is noise", Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff])],
    ["without a head", ToAgent.encode(ToAgent.fromPartial({ order: Order.create({ stats: {} }) })).finish()],
    ["without a number", ToAgent.encode(ToAgent.fromPartial({ order: { head: {}, stats: {} } })).finish()],
    [
      "whose number is none",
      ToAgent.encode(ToAgent.fromPartial({ reply: LinkReply.create({ head: { seq: 2n ** 63n } }) })).finish(),
    ],
    ["above the limit", noticeFrame(Buffer.alloc(maxFrameBytes))],
  ])("%s", (_, bytes) => {
    expect(() => readFrame(bytes)).toThrow();
  });

  test("whatever it holds, it is read or refused", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          expect(["call", "cancel", "answer", "notice"]).toContain(readFrame(bytes).kind);
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
        }
      }),
    );
  });
});
