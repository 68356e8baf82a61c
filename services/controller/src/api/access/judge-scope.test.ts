import { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { type AccessRow, createAccess } from "@holdfast/shared/grpc/access";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { describe, expect, test } from "vitest";
import { noGrants } from "../../access-wiring.ts";
import type { AccessGrantRecord } from "../../domain/access/access-grant.ts";
import { everything } from "../../domain/access/caller-scope.ts";
import { nodeNamespacesOf } from "../../domain/access/node-namespaces.ts";
import { type Asked, createScopeJudge } from "./judge-scope.ts";
import { controllerRules } from "./rules.ts";

const shop: AccessGrantRecord = {
  ...{ scheduler: "shop", namespaces: ["shop", "web"], plugins: ["sim"], secretRoots: ["file:shop", "vault:kv/shop"] },
  ...{ createdAt: 1, updatedAt: 1, changedBy: { who: "operator/ada", why: "" } },
};
const scheduler: Identity = { role: "scheduler", name: "shop" };
const certificate = { trustDomain: "t", serial: "01", notBefore: 0, notAfter: 1, fingerprint: "f" };
const operator: Identity = { role: "operator", name: "ada", certificate };
const judging = (change: Partial<Parameters<typeof createScopeJudge>[0]> = {}) =>
  createScopeJudge({
    grants: { ...noGrants, of: (name) => (name === shop.scheduler ? shop : undefined) },
    clock: { now: () => 0 },
    heeded: () => true,
    reasons: true,
    nodeNamespaces: ["shop"],
    ...change,
  });
const judge = (asked: Asked | undefined, identity = scheduler, change = {}) => judging(change).judge(identity, asked);
const said = (run: () => unknown): unknown => {
  try {
    return run();
  } catch (error) {
    return error;
  }
};

describe("a scheduler", () => {
  test.each<[string, Asked]>([
    ["a namespace of its grant", { namespace: "web" }],
    ["no namespace in a filter", { filter: "" }],
    ["a plugin of its grant", { namespace: "shop", plugins: ["sim", ""] }],
    ["a secret below a root of its grant", { namespace: "shop", secrets: [{ field: "s", ref: "file:shop/login" }] }],
    ["a path below one", { namespace: "shop", secrets: [{ field: "s", ref: "vault:kv/shop/login" }] }],
    [
      "a stored secret, or none",
      { namespace: "shop", secrets: ["secret:login", ""].map((ref) => ({ field: "s", ref })) },
    ],
  ])("may name %s", (_what, asked) => {
    expect(() => judge(asked)).not.toThrow();
  });

  test.each<[string, Asked]>([
    ["another namespace", { namespace: "bank" }],
    ["another namespace in a filter", { filter: "bank" }],
    ["another namespace beside its own", { namespace: "shop", others: ["web", "bank"] }],
    ["another plugin", { namespace: "shop", plugins: ["sim", "ebs"] }],
  ])("may not name %s", (_what, asked) => {
    expect(() => judge(asked)).toThrow(expect.objectContaining({ reason: "PERMISSION_DENIED" }));
  });

  test.each(["file:other/login", "env:HOME", "vault:kv/shopping/login", "vault:kv/other"])(
    "may not refer to %s, as if it were not there",
    (ref) => {
      expect(() => judge({ namespace: "shop", secrets: [{ field: "secrets.create.ref", ref }] })).toThrow(
        expect.objectContaining({
          reason: "INVALID_ARGUMENT",
          violations: [expect.objectContaining({ field: "secrets.create.ref" })],
        }),
      );
    },
  );

  test("is told the same of a namespace that exists and of one that does not", () => {
    const words = (namespace: string) =>
      String((said(() => judge({ namespace })) as Error).message).replace(namespace, "*");
    expect(words("bank")).toBe(words("void"));
  });

  test("without a grant may do nothing, and sees nothing", () => {
    const stranger: Identity = { role: "scheduler", name: "stranger" };
    expect(() => judge(undefined, stranger)).toThrow(expect.objectContaining({ reason: "PERMISSION_DENIED" }));
    expect(() => judging().scopeOf(stranger)).toThrow(expect.objectContaining({ reason: "PERMISSION_DENIED" }));
  });

  test("sees the namespaces and plugins of its grant", () => {
    expect(judging().scopeOf(scheduler)).toEqual({ namespaces: ["shop", "web"], plugins: ["sim"] });
  });

  test("is held to no grant where none is heeded", () => {
    const change = { heeded: () => false };
    expect(() => judge({ namespace: "bank" }, scheduler, change)).not.toThrow();
    expect(judging(change).scopeOf(scheduler)).toBe(everything);
  });
});

describe("[I9] who may speak for a node", () => {
  const own: Identity = { role: "node", name: "n1" };
  test("is the node itself", () => {
    expect(() => judge({ node: "n1" }, own)).not.toThrow();
  });

  test.each(["n2", "n"])("is not n1 for %s", (node) => {
    expect(() => judge({ node }, own)).toThrow(expect.objectContaining({ reason: "PERMISSION_DENIED" }));
  });

  test("is nobody for no node", () => {
    expect(() => judge({ node: "" }, own)).toThrow(expect.objectContaining({ reason: "INVALID_ARGUMENT" }));
  });
});

describe("a node that asks for claims", () => {
  const own: Identity = { role: "node", name: "n1" };
  const paths = ["requestClaims", "releaseClaims"].map(
    (method) => AgentLinkServiceDefinition.methods[method as "requestClaims"].name,
  );
  const ask = (nodeNamespaces: readonly string[], request: object) =>
    paths.map((name) =>
      said(() =>
        createAccess({
          ...{ trust: "loopback", rows: controllerRules(), judge: judging({ nodeNamespaces }).judge },
        }).admitFirst(`/${AgentLinkServiceDefinition.fullName}/${name}`, own, {
          node: "n1",
          claimUids: [],
          ticket: "",
          ...request,
        }),
      ),
    );
  const refused = (namespace: string) =>
    expect.objectContaining({ reason: "PERMISSION_DENIED", metadata: { node: "n1", namespace } });

  test("may name a namespace of the operators', and no other one", () => {
    expect(ask(["shop", "web"], { namespace: "web" })).toEqual([undefined, undefined]);
    expect(ask(["shop", "web"], { namespace: "bank" })).toEqual([refused("bank"), refused("bank")]);
    expect(ask(["*"], { namespace: "bank" })).toEqual([undefined, undefined]);
    expect(ask([], { namespace: "shop" })).toEqual([refused("shop"), refused("shop")]);
    for (const error of ask(["shop"], { namespace: "" })) expect(error).toMatchObject({ reason: "INVALID_ARGUMENT" });
  });

  test("is told the setting, the node and the other way", () => {
    for (const error of ask([], { namespace: "shop" })) {
      expect(String(error)).toMatch(/node n1 .* namespace shop.*HOLDFAST_NODE_NAMESPACES.*ClaimService\.CreateClaims/);
    }
  });

  test("is told the same of a namespace that exists and of one that does not", () => {
    const words = (namespace: string) =>
      ask(["shop"], { namespace }).map((error) => String(error).replaceAll(namespace, "*"));
    expect(words("bank")).toEqual(words("void"));
    expect(words("bank")[0]).toContain("in namespace *,");
  });

  test("may name lives that it has anywhere, but for no other node", () => {
    expect(ask([], { namespace: "bank", claimUids: ["u1"] })).toEqual([undefined, undefined]);
    for (const error of ask(["*"], { namespace: "bank", claimUids: ["u1"], node: "n2" }))
      expect(error).toMatchObject({ reason: "PERMISSION_DENIED", metadata: { node: "n2" } });
  });

  test("without an operator's word: nowhere with certificates, everywhere without", () => {
    expect(nodeNamespacesOf(undefined, true)).toEqual([]);
    expect(nodeNamespacesOf(undefined, false)).toEqual(["*"]);
    expect(nodeNamespacesOf([], false)).toEqual([]);
    expect(nodeNamespacesOf(["shop"], true)).toEqual(["shop"]);
  });
});

test.each(["operator", "monitor"] as const)("a %s sees all", (role) => {
  expect(judging().scopeOf({ role, name: "x" })).toBe(everything);
});

describe("a decision of a proven operator", () => {
  test.each([
    ["/holdfast.v1.NodeService/DrainNode", {}],
    ["/holdfast.v1.NodeService/ForgetNode", {}],
    [`/${PluginServiceDefinition.fullName}/SetPluginProfile`, {}],
    [`/${PluginServiceDefinition.fullName}/DeletePlugin`, {}],
    ["/holdfast.v1.TrustService/Revoke", {}],
  ])("%s needs a reason", (path, request) => {
    const rows: Map<string, AccessRow<Asked>> = controllerRules();
    const call = (reason: string, reasons: boolean) => () =>
      createAccess({ trust: "certificates", rows, judge: judging({ reasons }).judge }).admitFirst(path, operator, {
        ...request,
        reason,
      });
    expect(call(" ", true)).toThrow(
      expect.objectContaining({ violations: [expect.objectContaining({ field: "reason" })] }),
    );
    expect(call("kernel update", true)).not.toThrow();
    expect(call("", false)).not.toThrow();
  });
});

test("a controller keeps its rules to itself: a copy is no way to change them", () => {
  controllerRules().clear();
  expect(controllerRules().size).toBeGreaterThan(80);
});
