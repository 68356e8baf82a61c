import { AgentLinkServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { expect, test } from "vitest";
import { noGrants, wireAccess } from "./access-wiring.ts";

const certificate = { trustDomain: "t", serial: "01", notBefore: 0, notAfter: 1, fingerprint: "f" };
const node: Identity = { role: "node", name: "n1", certificate };
const path = `/${AgentLinkServiceDefinition.fullName}/${AgentLinkServiceDefinition.methods.requestClaims.name}`;
const asks =
  (...[trust, setting]: [Parameters<typeof wireAccess>[0], (readonly string[])?]) =>
  () =>
    wireAccess(trust, noGrants, { nodeNamespaces: setting }).access.admitFirst(path, node, {
      node: "n1",
      namespace: "shop",
      ticket: "",
      claimUids: [],
    });

test("an agent with a certificate asks for claims where HOLDFAST_NODE_NAMESPACES says so, and nowhere without it", () => {
  expect(asks("certificates")).toThrow("HOLDFAST_NODE_NAMESPACES");
  expect(asks("certificates", ["web"])).toThrow("HOLDFAST_NODE_NAMESPACES");
  expect(asks("certificates", ["shop"])).not.toThrow();
});

test("an agent without a certificate asks anywhere, unless the setting says where", () => {
  expect(asks("loopback")).not.toThrow();
  expect(asks("loopback", [])).toThrow("HOLDFAST_NODE_NAMESPACES");
});
