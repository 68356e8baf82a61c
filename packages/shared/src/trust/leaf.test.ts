import { X509Certificate } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { createTestAuthority, type LeafWish, type TestAuthority } from "../testing/test-authority.ts";
import { readLeaf } from "./leaf.ts";
import { createLeafReader } from "./leaf-reader.ts";

let authority: TestAuthority;
beforeAll(async () => {
  authority = await createTestAuthority();
});

const uri = "spiffe://test.example/csi/node/n1";
const other = "spiffe://test.example/csi/controller/c1";
const read = async (wish: LeafWish) => readLeaf((await authority.issue(wish)).der);

const lengthOf = ({ length }: Buffer): Buffer => Buffer.from(length < 128 ? [length] : [0x81, length]);

/** Alternative names as these bytes, whatever they are. */
const rawNames = (...names: readonly (readonly [tag: number, content: string | Buffer])[]) => {
  const elements = names.map(([tag, content]) => {
    const bytes = Buffer.from(content as string, "latin1");
    return Buffer.concat([Buffer.from([tag]), lengthOf(bytes), bytes]);
  });
  const list = Buffer.concat(elements);
  return {
    names: [],
    extensions: [{ oid: "2.5.29.17", value: Buffer.concat([Buffer.from([0x30]), lengthOf(list), list]) }],
  };
};

describe("a certificate is read from its DER", () => {
  test("with its name, its serial number and its times, as Node shows them", async () => {
    const { der } = await authority.issue({ path: "csi/operator/ada", serial: "00c0ffee" });
    const node = new X509Certificate(der);
    expect(readLeaf(der)).toEqual({
      id: { trustDomain: "test.example", role: "operator", name: "ada" },
      serial: node.serialNumber,
      notBefore: node.validFromDate.getTime(),
      notAfter: node.validToDate.getTime(),
    });
    expect(node.serialNumber).toBe("C0FFEE");
  });

  test("also one that is valid beyond 2049, whose times have another form", async () => {
    const notAfter = Date.UTC(2061, 1, 28, 12, 30, 15);
    expect(await read({ notAfter })).toMatchObject({ notAfter });
  });

  test("a DNS name and an address may stand beside the name, and give nothing", async () => {
    const names = [
      { type: "dns", value: "controller.example" },
      { type: "url", value: uri },
      { type: "ip", value: "10.0.0.1" },
    ] as const;
    expect(await read({ names: [...names] })).toMatchObject({ id: { role: "node", name: "n1" } });
  });

  test.each<readonly [string, LeafWish, RegExp]>([
    ["no alternative name", { names: [] }, /no alternative names/],
    ["no URI", { names: [{ type: "dns", value: "n1" }] }, /0 URIs/],
    [
      "two URIs",
      {
        names: [
          { type: "url", value: uri },
          { type: "url", value: other },
        ],
      },
      /2 URIs/,
    ],
    ["the same URI twice", rawNames([0x86, uri], [0x86, uri]), /2 URIs/],
    ["a mail address beside it", rawNames([0x86, uri], [0x81, "a@b"]), /no URI, DNS name or address/],
    ["a directory name beside it", rawNames([0x86, uri], [0xa4, Buffer.from("3000", "hex")]), /no URI, DNS name/],
    ["another kind of name beside it", rawNames([0x86, uri], [0xa0, ""]), /no URI, DNS name/],
    ["a URI in the tag of a structure", rawNames([0xa6, uri]), /no URI, DNS name/],
    ["a NUL behind the name", rawNames([0x86, `${uri}\0`]), /its URI is not/],
    ["a NUL in the name", rawNames([0x86, `spiffe://test.example/csi/node/n1\0/csi/controller/c1`]), /its URI is not/],
    ["a byte that is no ASCII", rawNames([0x86, "spiffe://test.example/csi/node/n\xe9"]), /its URI is not/],
    ["a percent sign", rawNames([0x86, "spiffe://test.example/csi/node/n%31"]), /its URI is not/],
    ["a comma and a second name in one", rawNames([0x86, `${uri}, URI:${other}`]), /its URI is not/],
    ["a DNS name that holds a URI, and no URI", rawNames([0x82, `x, URI:${other}`]), /0 URIs/],
    ["a signing authority", { isAuthority: true }, /authority/],
    ["more bytes than any of ours", { extensions: [{ oid: "1.2.3", value: Buffer.alloc(17_000) }] }, /bytes/],
    [
      "an extension twice",
      { extensions: [{ oid: "2.5.29.19", value: Buffer.from("3000", "hex") }] },
      /an extension is there twice/,
    ],
  ])("%s refuses it", async (_, wish, words) => {
    expect(await read(wish)).toEqual({ wrong: expect.stringMatching(words) });
  });

  test("a DNS name that holds the text of a second name changes nothing of the first", async () => {
    expect(await read(rawNames([0x86, uri], [0x82, `x, URI:${other}`]))).toMatchObject({
      id: { role: "node", name: "n1" },
    });
  });

  test("bytes behind it, and any cut of it, refuse it", async () => {
    const { der } = await authority.issue({});
    expect(readLeaf(Buffer.concat([der, Buffer.from([5, 0])]))).toHaveProperty("wrong");
    for (let length = 0; length < der.length; length += 1)
      expect(readLeaf(der.subarray(0, length)), `${length} bytes`).toHaveProperty("wrong");
  });

  test("the reader remembers by the hash of the bytes, and no more than it may", async () => {
    const [first, second] = await Promise.all([authority.issue({}), authority.issue({ path: "csi/node/n2" })]);
    const reader = createLeafReader(1);
    const before = reader(first.der);
    expect(reader(Buffer.from(first.der))).toBe(before);
    expect(reader(second.der).leaf).toMatchObject({ id: { name: "n2" } });
    expect(reader(first.der)).not.toBe(before);
    expect(reader(first.der)).toEqual(before);
  });
});
