import type { Identity } from "@holdfast/shared/grpc/identity";
import { describe, expect, it } from "vitest";
import { checkCaller } from "./controller-link-service.ts";

const speak = (identity: Identity, node: string) => () => checkCaller(node, { identity });

describe("[I9] who may speak for a node", () => {
  it("is the node itself", () => {
    expect(speak({ role: "node", name: "n1" }, "n1")).not.toThrow();
  });

  it.each([
    { role: "node", name: "n2" },
    { role: "node", name: "" },
    { role: "scheduler", name: "n1" },
    { role: "controller", name: "n1" },
  ] as readonly Identity[])("is not $role $name for n1", (identity) => {
    expect(speak(identity, "n1")).toThrow(expect.objectContaining({ reason: "PERMISSION_DENIED" }));
  });
});
