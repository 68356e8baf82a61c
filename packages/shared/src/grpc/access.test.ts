import type { MethodDescriptor } from "nice-grpc-common";
import { describe, expect, test } from "vitest";
import { GreetRequest } from "../gen/holdfast/internal/v1/controller_link.ts";
import { type AccessRow, accessRows, createAccess, type Trust } from "./access.ts";
import type { CallContext } from "./call-context.ts";
import type { Identity } from "./identity.ts";

const method = { requestType: GreetRequest, requestStream: false, responseType: GreetRequest, responseStream: false };
const definition = {
  name: "Toy",
  fullName: "toy.v1.Toy",
  methods: { ask: { ...method, name: "Ask", options: {} }, open: { ...method, name: "Open", options: {} } },
} as const;

const row: AccessRow<string, GreetRequest> = { roles: ["node", "operator"], asked: ({ node }) => node };

const rig = (
  trust: Trust,
  rows = new Map(accessRows<typeof definition, string>(definition, { ask: row, open: row })),
) => {
  const judged: unknown[] = [];
  const access = createAccess<string>({ trust, rows, judge: (identity, asked) => judged.push([identity.role, asked]) });
  const call = (identity: Identity, { path = "/toy.v1.Toy/Ask", requestStream = false } = {}) => {
    const described = { path, requestStream, responseStream: false, options: {} } as MethodDescriptor;
    return () => access.stage(described, { identity } as CallContext, { node: "n1" });
  };
  return { access, call, judged, rows };
};
const certificate = { trustDomain: "t", serial: "01", notBefore: 0, notAfter: 1, fingerprint: "f" };
const caller = (role: Identity["role"], name = "x"): Identity => ({
  role,
  name,
  ...(name === "" ? {} : { certificate }),
});

describe("a table of rights", () => {
  test("AC1 is refused where a method of a service has no row, and a method without one is called by nobody", () => {
    const { access, call, rows } = rig("certificates");
    expect(() => access.requireRows(definition)).not.toThrow();
    rows.delete("/toy.v1.Toy/Open");
    expect(() => access.requireRows(definition)).toThrow("/toy.v1.Toy/Open has no row");
    expect(call(caller("operator"), { path: "/toy.v1.Toy/Open" })).toThrow(
      expect.objectContaining({ reason: "PERMISSION_DENIED" }),
    );
  });

  test.each(["certificates", "loopback"] as const)("AC2 holds for who has a role, by %s", (trust) => {
    const { call, judged } = rig(trust);
    expect(call(caller("operator"))).not.toThrow();
    expect(call(caller("scheduler"))).toThrow(
      expect.objectContaining({ reason: "PERMISSION_DENIED", message: expect.stringContaining("node or operator") }),
    );
    expect(judged).toEqual([["operator", "n1"]]);
  });

  test.each(["anonymous", "local"] as const)(
    "AC3 lets %s do everything by the address, and nothing by certificates",
    (role) => {
      expect(rig("loopback").call(caller(role, ""))).not.toThrow();
      const reason = role === "anonymous" ? "IDENTITY_REQUIRED" : "PERMISSION_DENIED";
      expect(rig("certificates").call(caller(role, ""))).toThrow(expect.objectContaining({ reason }));
    },
  );

  test("AC4 takes nobody at his word where others have certificates", () => {
    const said: Identity = { role: "operator", name: "ada" };
    expect(rig("certificates").call(said)).toThrow(expect.objectContaining({ reason: "IDENTITY_REQUIRED" }));
    expect(rig("loopback").call(said)).not.toThrow();
  });

  test("of a stream of requests judges the first message, which the stage does not see", () => {
    const { access, call, judged } = rig("certificates");
    call(caller("node"), { requestStream: true })();
    access.admitFirst("/toy.v1.Toy/Ask", caller("node"), { node: "n2" });
    expect(judged).toEqual([
      ["node", undefined],
      ["node", "n2"],
    ]);
  });
});
