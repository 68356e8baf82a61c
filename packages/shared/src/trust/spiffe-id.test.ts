import { describe, expect, test } from "vitest";
import { formatSpiffeId, parseSpiffeId } from "./spiffe-id.ts";

const long = "a".repeat(64);

describe("the name in a certificate", () => {
  test.each([
    ["spiffe://test.example/csi/controller/c1", { trustDomain: "test.example", role: "controller", name: "c1" }],
    ["spiffe://a/csi/node/n-1.rack_2", { trustDomain: "a", role: "node", name: "n-1.rack_2" }],
    ["spiffe://a_b-c.9/csi/scheduler/Nomad", { trustDomain: "a_b-c.9", role: "scheduler", name: "Nomad" }],
    ["spiffe://a/csi/operator/ada", { trustDomain: "a", role: "operator", name: "ada" }],
    ["spiffe://a/csi/monitor", { trustDomain: "a", role: "monitor", name: "" }],
    [`spiffe://a/csi/node/${long}`, { trustDomain: "a", role: "node", name: long }],
  ] as const)("%s is read, and written as it was", (text, id) => {
    expect(parseSpiffeId(text)).toEqual(id);
    expect(formatSpiffeId(id)).toBe(text);
  });

  test.each([
    "",
    "spiffe://",
    "spiffe:///csi/node/n1",
    "https://a/csi/node/n1",
    "SPIFFE://a/csi/node/n1",
    "spiffe:/a/csi/node/n1",
    "spiffe://A/csi/node/n1",
    "spiffe://-a/csi/node/n1",
    "spiffe://a:80/csi/node/n1",
    "spiffe://u@a/csi/node/n1",
    "spiffe://a/csi/node/n1?x",
    "spiffe://a/csi/node/n1#x",
    "spiffe://a/csi/node/n%31",
    "spiffe://a/csi/node/n1\0",
    "spiffe://a/csi/node/n1\0.example",
    "spiffe://a/csi/node/n1\n",
    "spiffe://a/csi/node/n\u00e9",
    "spiffe://a/csi/node/n1/",
    "spiffe://a/csi/node/n1/x",
    "spiffe://a/csi/node/",
    "spiffe://a/csi/node",
    "spiffe://a/csi//n1",
    "spiffe://a//csi/node/n1",
    "spiffe://a/csi/node/.",
    "spiffe://a/csi/node/..",
    "spiffe://a/csi/../csi/node/n1",
    "spiffe://a/csi/node/N1",
    `spiffe://a/csi/node/${long}a`,
    "spiffe://a/csi/root/n1",
    "spiffe://a/csi/local",
    "spiffe://a/csi/anonymous",
    "spiffe://a/csi/monitor/",
    "spiffe://a/csi/monitor/m",
    "spiffe://a/ns/default/sa/web",
    "spiffe://a/csi/node/n1,URI:spiffe://a/csi/controller/c1",
    `spiffe://${"a".repeat(300)}/csi/node/n1`,
    `spiffe://a/csi/operator/${"a".repeat(600)}`,
  ])("%j is none", (text) => {
    expect(parseSpiffeId(text)).toBeUndefined();
  });
});
