import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { callPolicy, neverRetried } from "./call-policy.ts";
import { methodNames, methodOf, methods, pathOf } from "./methods.ts";
import { codes } from "./outcome.ts";

const wire = readFileSync(new URL("../../../proto/csi/v1/wire.tsv", import.meta.url), "utf8")
  .split("\n")
  .map((line) => line.split("\t"))
  .filter(([kind]) => kind === "rpc");

describe("the method table", () => {
  it("has exactly the RPCs of the wire table, each under its service", () => {
    const want = wire.map(([, service, , name]) => `/${service}/${name}`).sort();
    expect(want).toHaveLength(36);
    expect(methodNames.map(pathOf).sort()).toEqual(want);
  });

  it("knows the streams of the wire table as streams, and no others", () => {
    const streams = wire.filter(([, , , , type]) => type?.includes("-> stream ")).map(([, , , name]) => name);
    expect(methodNames.filter((name) => methods[name].kind === "stream")).toEqual(streams);
  });

  it("finds a method by its path and refuses strangers", () => {
    for (const name of methodNames) expect(methodOf(pathOf(name))).toBe(name);
    expect(methodOf("/csi.v1.Node/CreateVolume")).toBeUndefined();
    expect(methodOf("CreateVolume")).toBeUndefined();
  });

  it("gives every undoable call an inverse of the other kind, in the same service, under the same key and capability", () => {
    const pairs = methodNames.filter((name) => methods[name].inverse !== "none");
    expect(pairs).toEqual([
      "CreateVolume",
      "ControllerPublishVolume",
      "CreateSnapshot",
      "CreateVolumeGroupSnapshot",
      "NodeStageVolume",
      "NodePublishVolume",
    ]);
    for (const name of pairs) {
      const { inverse, service, exclusive, needs } = methods[name];
      if (inverse === "none") throw new Error("filtered above");
      expect(methods[inverse]).toMatchObject({ kind: "unpublish-like", service, exclusive, needs });
    }
  });

  it("marks a call as mutating exactly when it holds an exclusive key", () => {
    for (const name of methodNames) expect(methods[name].mutating, name).toBe(methods[name].exclusive !== "none");
  });
});

describe("the call policy", () => {
  it("never repeats a mutating call", () => {
    for (const name of methodNames.filter((name) => methods[name].mutating))
      expect(callPolicy[name], name).toMatchObject({ retryCodes: [], attempts: 1 });
  });

  it("repeats nothing but UNAVAILABLE, and that only for questions", () => {
    const repeated = methodNames.filter((name) => callPolicy[name].retryCodes.length > 0);
    for (const name of repeated) expect(callPolicy[name].retryCodes, name).toEqual(["UNAVAILABLE"]);
    expect(repeated).toEqual(methodNames.filter((name) => methods[name].kind === "read"));
  });

  it("places every failing code either among the retryable or among those never retried", () => {
    expect([...neverRetried, "OK", "UNAVAILABLE"].sort()).toEqual([...codes].sort());
  });

  it("gives controller work 60 s, node work 120 s and probes seconds", () => {
    for (const name of methodNames) {
      const { service, mutating, kind } = methods[name];
      const { deadlineMs } = callPolicy[name];
      if (mutating) expect(deadlineMs, name).toBe(service === "Node" ? 120_000 : 60_000);
      if (kind === "probe") expect(deadlineMs, name).toBeLessThanOrEqual(15_000);
    }
  });
});
