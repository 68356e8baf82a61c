import fc from "fast-check";
import { ClientError, ServerError, Status } from "nice-grpc-common";
import { BadRequest, ErrorInfo, PreconditionFailure, RichClientError, RichServerError } from "nice-grpc-error-details";
import { describe, expect, test } from "vitest";
import {
  cutToBytes,
  fromClientError,
  kindOfStatus,
  maxMessageBytes,
  reasonSent,
  statusOf,
  statusOfKind,
  toServerError,
} from "./grpc-status.ts";
import { errorKinds, HoldfastError, invalidArgument } from "./holdfast-error.ts";

const word = fc.string({ unit: "binary", maxLength: 60 });
const anyError = fc
  .record({
    kind: fc.constantFrom(...errorKinds),
    reason: fc.stringMatching(/^[A-Z][A-Z_]{0,30}$/),
    message: fc.string({ unit: "grapheme", minLength: 1, maxLength: 200 }),
    metadata: fc.dictionary(fc.stringMatching(/^[a-z]{1,10}$/), word, { maxKeys: 4 }),
    violations: fc.array(fc.record({ field: word, description: word }), { maxLength: 5 }),
  })
  .map((init) => new HoldfastError(init));

/** What a client library makes of what a server library sent. */
function overTheWire(error: ServerError): ClientError {
  if (!(error instanceof RichServerError)) return new ClientError("/s/m", error.code, error.details);
  return new RichClientError("/s/m", error.code, error.details, error.extra);
}

describe("kind ↔ status", () => {
  test("each kind has its own status, which leads back to it", () => {
    for (const kind of errorKinds) expect(kindOfStatus[statusOfKind[kind]]).toBe(kind);
    expect(new Set(Object.values(statusOfKind)).size).toBe(errorKinds.length);
    expect(statusOfKind).not.toHaveProperty("ok");
    expect(Object.values(statusOfKind)).not.toContain(Status.OK);
  });

  test("an error comes back as it was sent", () => {
    fc.assert(
      fc.property(anyError, (error) => {
        const back = fromClientError(overTheWire(toServerError(error)));
        expect(back.kind).toBe(error.kind);
        expect(back.reason).toBe(error.reason);
        expect(back.message).toBe(error.message.toWellFormed());
        expect(back.metadata).toEqual(error.metadata);
        expect(back.violations).toEqual(error.violations);
      }),
    );
  });

  test("whatever its size, it stays within what peers take", () => {
    const big = fc.tuple(fc.constantFrom("x", "é", "𝄞"), fc.nat(20_000)).map(([unit, count]) => unit.repeat(count));
    fc.assert(
      fc.property(
        big,
        fc.dictionary(fc.stringMatching(/^[a-z]{1,10}$/), big, { maxKeys: 20 }),
        fc.array(fc.record({ field: big, description: big }), { maxLength: 30 }),
        (message, metadata, violations) => {
          const sent = toServerError(
            new HoldfastError({ kind: "precondition", reason: "R", message, metadata, violations }),
          );
          expect(Buffer.byteLength(sent.details)).toBeLessThanOrEqual(maxMessageBytes);
          if (!(sent instanceof RichServerError)) throw new Error("no details");
          const encoded = sent.extra.map((detail) => {
            if (detail.$type === ErrorInfo.$type) return ErrorInfo.encode(detail).finish().length;
            if (detail.$type === BadRequest.$type) return BadRequest.encode(detail).finish().length;
            if (detail.$type === PreconditionFailure.$type) return PreconditionFailure.encode(detail).finish().length;
            throw new Error(detail.$type);
          });
          expect(encoded.reduce((sum, length) => sum + length, 0)).toBeLessThan(4096);
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe("toServerError", () => {
  test("says nothing of a foreign error", () => {
    const sent = toServerError(new TypeError("password hunter2 of undefined"));
    expect(sent.code).toBe(Status.INTERNAL);
    expect(JSON.stringify(sent)).not.toContain("hunter2");
    expect(sent.message).not.toContain("hunter2");
    expect(fromClientError(overTheWire(sent)).reason).toBe("INTERNAL");
  });

  test("leaves a ServerError alone, and knows aborts by their name", () => {
    const own = new ServerError(Status.NOT_FOUND, "x");
    expect(toServerError(own)).toBe(own);
    expect(toServerError(new DOMException("x", "AbortError")).code).toBe(Status.CANCELLED);
    expect(toServerError(new DOMException("x", "TimeoutError")).code).toBe(Status.DEADLINE_EXCEEDED);
  });

  test("a failed precondition names its subject in the standard detail", () => {
    const sent = toServerError(
      new HoldfastError({ kind: "precondition", reason: "IN_USE", message: "m", metadata: { volume: "ns/v" } }),
    );
    if (!(sent instanceof RichServerError)) throw new Error("no details");
    expect(sent.extra.find((detail) => detail.$type === PreconditionFailure.$type)).toMatchObject({
      violations: [{ type: "IN_USE", subject: "ns/v", description: "m" }],
    });
  });
});

describe("fromClientError", () => {
  test("keeps a HoldfastError, and makes one of anything", () => {
    const own = invalidArgument([]);
    expect(fromClientError(own)).toBe(own);
    expect(fromClientError("odd")).toMatchObject({ kind: "unknown", reason: "UNKNOWN", message: "odd" });
    expect(fromClientError(new ClientError("/s/m", Status.NOT_FOUND, ""))).toMatchObject({
      kind: "not_found",
      reason: "NOT_FOUND",
      message: "/s/m: NOT_FOUND",
    });
  });

  test("an error with status OK is of a broken peer: nothing is known", () => {
    expect(fromClientError(new ClientError("/s/m", Status.OK, "?")).kind).toBe("unknown");
  });

  test("another domain's ErrorInfo is read too", () => {
    const info = ErrorInfo.fromPartial({ reason: "QUOTA", domain: "example.com", metadata: { a: "b" } });
    const error = fromClientError(new RichClientError("/s/m", Status.RESOURCE_EXHAUSTED, "full", [info]));
    expect(error).toMatchObject({ kind: "exhausted", reason: "QUOTA", metadata: { a: "b" } });
  });
});

test("reasonSent tells the reason of a Holdfast server only: none that was derived, and none of another domain", () => {
  const sent = new HoldfastError({ kind: "permission", reason: "PERMISSION_DENIED", message: "no" });
  expect(reasonSent(fromClientError(overTheWire(toServerError(sent))))).toBe("PERMISSION_DENIED");
  const bare = fromClientError(new ClientError("/s/m", Status.PERMISSION_DENIED, "no"));
  const info = ErrorInfo.fromPartial({ reason: "PERMISSION_DENIED", domain: "example.com" });
  const foreign = fromClientError(new RichClientError("/s/m", Status.PERMISSION_DENIED, "no", [info]));
  expect([bare.reason, foreign.reason]).toEqual(["PERMISSION_DENIED", "PERMISSION_DENIED"]);
  expect([reasonSent(bare), reasonSent(foreign), reasonSent(sent)]).toEqual([undefined, undefined, undefined]);
});

test("statusOf agrees with what is sent", () => {
  fc.assert(
    fc.property(anyError, (error) => {
      expect(statusOf(error)).toBe(toServerError(error).code);
    }),
  );
  expect(statusOf(new Error("x"))).toBe(Status.INTERNAL);
  expect(statusOf(new ClientError("/s/m", Status.ABORTED, ""))).toBe(Status.ABORTED);
  expect(statusOf(new DOMException("x", "AbortError"))).toBe(Status.CANCELLED);
});

test("cutToBytes never exceeds, never halves a character, and keeps what fits", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), fc.integer({ min: 8, max: 300 }), (text, limit) => {
      const whole = text.toWellFormed();
      const cut = cutToBytes(whole, limit);
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(limit);
      if (!whole.includes("\ufffd")) expect(cut).not.toContain("\ufffd");
      if (Buffer.byteLength(whole) <= limit) expect(cut).toBe(whole);
      else expect(whole.startsWith(cut.slice(0, -1))).toBe(true);
    }),
  );
});

test("invalidArgument repeats every violation in its message", () => {
  const error = invalidArgument([
    { field: "a", description: "is missing" },
    { field: "b", description: "is too long" },
  ]);
  expect(error.message).toBe("a: is missing; b: is too long");
  expect(error.violations).toHaveLength(2);
});
