import type { Identity } from "@holdfast/shared/grpc/identity";
import { describe, expect, it } from "vitest";
import { createCallerCheck } from "./caller-check.ts";

const certificate = { trustDomain: "t", serial: "01", notBefore: 0, notAfter: 1, fingerprint: "f" };
const others = [
  { role: "node", name: "n2" },
  { role: "node", name: "" },
  { role: "scheduler", name: "n1" },
  { role: "operator", name: "n1" },
  { role: "controller", name: "n1" },
  { role: "monitor", name: "" },
] as readonly Identity[];
const denied = expect.objectContaining({ reason: "PERMISSION_DENIED" });

describe("[I9] who may speak for a node", () => {
  const check = createCallerCheck({ certified: false });

  it("is the node itself, and without certificates a caller that says nothing of itself", () => {
    for (const identity of [
      { role: "node", name: "n1" },
      { role: "anonymous", name: "" },
      { role: "local", name: "" },
    ] as readonly Identity[])
      expect(() => check("n1", { identity })).not.toThrow();
  });

  it.each(others)("is not $role $name for n1", (identity) => {
    expect(() => check("n1", { identity })).toThrow(denied);
  });
});

describe("[I9] with certificates, who may speak for a node", () => {
  const check = createCallerCheck({ certified: true });

  it("is the bearer of the node's certificate", () => {
    expect(() => check("n1", { identity: { role: "node", name: "n1", certificate } })).not.toThrow();
  });

  it.each([
    ...others.map((identity) => ({ ...identity, certificate })),
    { role: "node", name: "n1" },
    { role: "anonymous", name: "" },
    { role: "local", name: "" },
  ] as readonly Identity[])("is not $role $name, which proves nothing or another name", (identity) => {
    expect(() => check("n1", { identity })).toThrow(denied);
  });
});
