import { describe, expect, test, vi } from "vitest";
import type { SecretKeys } from "./key-file.ts";
import { holdsSame, open, rewrap, seal } from "./seal.ts";

const keysOf = (...ids: readonly string[]): SecretKeys => {
  const entries = ids.map((id) => ({ id, key: Buffer.alloc(32, id) }));
  const [first] = entries;
  if (first === undefined) throw new Error("no key");
  return { first, byId: new Map(entries.map(({ id, key }) => [id, key])) };
};

const values = { user: "u", token: "cAnAry" };
const subject = { clusterUid: "c", namespace: "default", name: "s", version: 1 };

describe("a sealed value", () => {
  test("opens for what it was sealed for, and holds nothing in plain", () => {
    const sealed = seal(values, subject, keysOf("k1"));
    expect(open(sealed, subject, keysOf("k2", "k1"))).toEqual(values);
    expect(JSON.stringify(sealed)).not.toContain("cAnAry");
    expect(seal(values, subject, keysOf("k1"))).not.toEqual(sealed);
  });

  test.each([
    ["another secret", { name: "t" }],
    ["another version", { version: 2 }],
    ["another namespace", { namespace: "other" }],
    ["another cluster", { clusterUid: "d" }],
  ])("[S2] does not open as %s", (_what, change) => {
    const sealed = seal(values, subject, keysOf("k1"));
    expect(() => open(sealed, { ...subject, ...change }, keysOf("k1"))).toThrow(
      expect.objectContaining({ reason: "SECRETS_UNAVAILABLE", kind: "data_loss" }),
    );
  });

  test.each(["body", "wrapped"] as const)("does not open when a bit of its %s is another one", (part) => {
    const sealed = seal(values, subject, keysOf("k1"));
    const [salt, rest = sealed.body] = part === "wrapped" ? sealed.wrapped.split(" ") : [""];
    const bytes = Buffer.from(rest, "base64");
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    const spoilt = `${part === "wrapped" ? `${salt} ` : ""}${bytes.toString("base64")}`;
    expect(() => open({ ...sealed, [part]: spoilt }, subject, keysOf("k1"))).toThrow(/put it anew/);
    expect(() => open({ ...sealed, [part]: "" }, subject, keysOf("k1"))).toThrow(/put it anew/);
  });

  test("without its key says which one is missing", () => {
    const sealed = seal(values, subject, keysOf("k1"));
    expect(() => open(sealed, subject, keysOf("k2"))).toThrow(/needs key k1.*put it back/);
  });

  test("is compared whatever the order of its keys, and never by a part", () => {
    const sealed = seal(values, subject, keysOf("k1"));
    expect(holdsSame(sealed, subject, keysOf("k1"), { token: "cAnAry", user: "u" })).toBe(true);
    for (const other of [{}, { user: "u" }, { ...values, more: "" }, { user: "u", token: "cAnArx" }])
      expect(holdsSame(sealed, subject, keysOf("k1"), other)).toBe(false);
  });

  test("is put under a new first key without the old one being needed any more", () => {
    const sealed = seal(values, subject, keysOf("k1"));
    const again = rewrap(sealed, subject, keysOf("k2", "k1"));
    expect(again).toMatchObject({ key: "k2", body: sealed.body });
    expect(open(again, subject, keysOf("k2"))).toEqual(values);
    expect(rewrap(again, subject, keysOf("k2"))).toBe(again);
  });
});

describe("[S3] bytes of values and keys", () => {
  /** Buffers that are made while `act` runs. */
  const buffersOf = <T>(act: () => T): { readonly result: T; readonly made: readonly Buffer[] } => {
    const made: Buffer[] = [];
    const kept =
      <A extends readonly never[]>(make: (...given: A) => unknown) =>
      (...given: A): unknown => {
        const buffer = make(...given);
        if (Buffer.isBuffer(buffer)) made.push(buffer);
        return buffer;
      };
    const { from, concat } = Buffer;
    const spies = [
      vi.spyOn(Buffer, "from").mockImplementation(kept(from.bind(Buffer) as never) as never),
      vi.spyOn(Buffer, "concat").mockImplementation(kept(concat.bind(Buffer) as never) as never),
    ];
    try {
      return { result: act(), made };
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  };
  /** 32 bytes that are neither zero nor a part of what is stored. */
  const isKey = (one: Buffer, ...stored: readonly { readonly wrapped: string }[]): boolean =>
    one.length === 32 &&
    one.some((byte) => byte !== 0) &&
    stored.every(({ wrapped }) => !Buffer.from(wrapped.split(" ")[1] ?? "", "base64").includes(one));

  test("are zero once a value was sealed, opened, compared and put under another key", () => {
    const { result: sealed, made } = buffersOf(() => seal(values, subject, keysOf("k1")));
    const opening = buffersOf(() => open(sealed, subject, keysOf("k1")));
    const comparing = buffersOf(() => holdsSame(sealed, subject, keysOf("k1"), values));
    const again = buffersOf(() => rewrap(sealed, subject, keysOf("k2", "k1")));
    expect([opening.result, comparing.result]).toEqual([values, true]);
    for (const buffers of [made, opening.made, comparing.made, again.made]) {
      expect(buffers.length).toBeGreaterThan(2);
      expect(buffers.filter((one) => one.includes("cAnAry"))).toEqual([]);
      // The value of the version is sealed with a key of 32 bytes, which is sealed with another: neither is left.
      expect(buffers.filter((one) => isKey(one, sealed, again.result))).toEqual([]);
    }
  });
});
