import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { messageTypes } from "../gen/redacted-fields.ts";
import { mask, redactMessage, scrub } from "./redact.ts";

const secretField = Object.entries(messageTypes).flatMap(([type, { redacted }]) =>
  redacted.map((field) => [type, field] as const),
);

describe("redactMessage", () => {
  test("CSI's twenty-two secret fields are known, all maps named secrets", () => {
    const csi = secretField.filter(([type]) => type.startsWith("csi.v1."));
    expect(csi).toHaveLength(22);
    expect(new Set(csi.map(([, field]) => field))).toEqual(new Set(["secrets"]));
  });

  test("tickets of workloads, and what is handed in as a ticket key, are marked in each message that has them", () => {
    const marked = secretField.filter(([, field]) => /^ticket/.test(field));
    expect(marked.map(([type, field]) => `${type}.${field}`).sort()).toEqual([
      "holdfast.agent.v1.PrepareWorkloadRequest.ticket",
      "holdfast.agent.v1.ReleaseWorkloadRequest.ticket",
      "holdfast.internal.v1.ReleaseClaimsRequest.ticket",
      "holdfast.internal.v1.RequestClaimsRequest.ticket",
      "holdfast.v1.SetGrantRequest.ticketKeys",
    ]);
  });

  test.each(secretField)("%s.%s shows keys at most, at any depth", (type, field) => {
    const canary = "canary-7f3a";
    for (const value of [{ user: canary }, canary, [canary], Buffer.from(canary)]) {
      const shown = JSON.stringify(redactMessage(type, { [field]: value, other: 1 }));
      expect(shown).not.toContain(canary);
      expect(shown).toContain('"other":1');
    }
  });

  test("a request keeps what is harmless, its copy is a copy", () => {
    const request = {
      volumeId: "vol-1",
      secrets: { password: "hunter2" },
      volumeContext: { token: "t0ken", pool: "fast" },
      publishContext: { devicePath: "/dev/x" },
      readonly: false,
      volumeCapability: { mount: { fsType: "ext4", mountFlags: ["nfsvers=4", "password=p"] }, accessMode: { mode: 1 } },
    };
    const before = structuredClone(request);
    expect(redactMessage("csi.v1.NodePublishVolumeRequest", request)).toEqual({
      volumeId: "vol-1",
      secrets: { password: mask },
      volumeContext: { token: mask, pool: mask },
      publishContext: { devicePath: mask },
      readonly: false,
      volumeCapability: { mount: { fsType: "ext4", mountFlags: [mask, mask] }, accessMode: { mode: 1 } },
    });
    expect(request).toEqual(before);
  });

  test("lists of messages are entered; numbers, dates and bytes stay readable", () => {
    const message = {
      entries: [{ volume: { volumeId: "v", capacityBytes: 5n, volumeContext: { a: "secret" } } }],
      nextToken: "page",
    };
    expect(redactMessage("csi.v1.ListVolumesResponse", message)).toEqual({
      entries: [{ volume: { volumeId: "v", capacityBytes: "5", volumeContext: { a: mask } } }],
      nextToken: mask,
    });
  });

  test("a type that nobody described shows its fields and nothing of their values", () => {
    expect(redactMessage("who.knows.Message", { a: "x", b: 5, c: { d: "y" } })).toEqual({
      a: mask,
      b: mask,
      c: { d: mask },
    });
  });

  test("no value under a denied name survives, whatever is around it", () => {
    const leaf = fc.oneof(
      fc.constant("CANARY"),
      fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.constant("CANARY")),
    );
    const denied = fc.constantFrom(
      "volumeContext",
      "publishContext",
      "parameters",
      "mutableParameters",
      "mountFlags",
      "secrets",
    );
    fc.assert(
      fc.property(denied, leaf, fc.constantFrom(...Object.keys(messageTypes)), (field, value, type) => {
        const wrapped = { [field]: value, volumeCapability: { mount: { [field]: value } }, list: [{ x: 1 }] };
        expect(JSON.stringify(redactMessage(type, { [field]: wrapped[field] }))).not.toContain("CANARY");
        expect(JSON.stringify(redactMessage("csi.v1.NodeStageVolumeRequest", wrapped))).not.toContain("CANARY");
      }),
    );
  });
});

const encodings: Readonly<Record<string, (secret: string) => string>> = {
  raw: (s) => s,
  base64: (s) => Buffer.from(s).toString("base64"),
  "base64 behind one byte": (s) => Buffer.from(`:${s}:more`).toString("base64"),
  "base64 behind two bytes": (s) => Buffer.from(`u:${s}:more`).toString("base64"),
  "base64 behind three bytes": (s) => Buffer.from(`us:${s}:more`).toString("base64"),
  base64url: (s) => Buffer.from(s).toString("base64url"),
  hex: (s) => Buffer.from(s).toString("hex"),
  HEX: (s) => Buffer.from(s).toString("hex").toUpperCase(),
  url: (s) => encodeURIComponent(s),
  form: (s) => encodeURIComponent(s).replaceAll("%20", "+"),
  json: (s) => JSON.stringify(s).slice(1, -1),
  "json in json": (s) => JSON.stringify(JSON.stringify(s)).slice(2, -2),
};
const secretText = fc
  .string({ unit: "grapheme", minLength: 8, maxLength: 40 })
  .filter((s) => /\S{6}/.test(s) && s.isWellFormed() && !s.includes("*"));

describe("scrub", () => {
  test.each(Object.entries(encodings))("strikes out a secret as %s", (_name, encode) => {
    fc.assert(
      fc.property(secretText, fc.string({ maxLength: 30 }), fc.string({ maxLength: 30 }), (secret, before, after) => {
        const scrubbed = scrub(`${before} "${encode(secret)}" ${after}`, ["other-secret", secret]);
        expect(scrubbed).not.toContain(secret);
        if (!before.includes(encode(secret)) && !mask.includes(encode(secret))) expect(scrubbed).toContain(mask);
        expect(scrubbed.replaceAll(mask, "")).not.toContain(encode(secret).slice(2, -2));
      }),
      { numRuns: 60 },
    );
  });

  test("secrets that overlap or hold each other are all gone", () => {
    expect(scrub("x abcdefgh y", ["abcdef", "cdefgh"])).toBe(`x ${mask} y`);
    expect(scrub("x abcdefgh y", ["cdef", "abcdefgh"])).toBe(`x ${mask} y`);
    expect(scrub("aaaaaaa", ["aaaa"])).toBe(mask);
  });

  test("short values go only where they stand alone, and the text stays readable", () => {
    expect(scrub("mode rw failed: rwx overwritten", ["rw"])).toBe(`mode ${mask} failed: rwx overwritten`);
    expect(scrub("nothing secret here", ["", "zzzz"])).toBe("nothing secret here");
  });

  test("each line of a key is a secret of its own", () => {
    const key = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\nq8Zf93jfkd83jdkw\n-----END KEY-----";
    expect(scrub("bad line q8Zf93jfkd83jdkw in key", [key])).toBe(`bad line ${mask} in key`);
  });

  test("cut at 1 KiB, and no half of a secret survives a cut of what is searched", () => {
    expect(Buffer.byteLength(scrub("é".repeat(5000), []))).toBeLessThanOrEqual(1024);
    const secret = "0123456789abcdef".repeat(4).slice(0, 61);
    const text = secret.repeat(1100);
    const scrubbed = scrub(text, [secret]);
    expect(scrubbed).not.toMatch(/[0-9a-f]{8}/);
  });
});
