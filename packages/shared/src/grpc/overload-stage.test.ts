import type { MethodDescriptor } from "nice-grpc-common";
import { expect, test } from "vitest";
import type { CallContext } from "./call-context.ts";
import type { Identity } from "./identity.ts";
import { overloadStage } from "./overload-stage.ts";

const limits = {
  maxInFlight: 100,
  maxInFlightPerCaller: 100,
  maxPerSecondPerCaller: Number.POSITIVE_INFINITY,
  maxInFlightPerConnection: 100,
};
const watch = { requestStream: false, responseStream: true } as MethodDescriptor;
const say = { requestStream: false, responseStream: false } as MethodDescriptor;

test("one caller does not take the streams of the others, whose bound is that of all", () => {
  const open: number[] = [];
  const stage = overloadStage({ ...limits, maxOpenStreams: 3, maxOpenStreamsPerCaller: 2 }, (n) => open.push(n));
  const enter = (name: string, method = watch) => {
    const identity: Identity = { role: "scheduler", name };
    return stage(method, { identity, peer: "10.0.0.1:7" } as CallContext, {});
  };
  const first = enter("one");
  enter("one");
  expect(() => enter("one")).toThrow("scheduler/one at this server: 2 streams are in flight already");
  // Calls are counted on their own.
  enter("one", say)?.(undefined);
  const others = enter("two");
  expect(() => enter("two")).toThrow("this server: 3 streams are in flight already");
  others?.(undefined);
  first?.(undefined);
  enter("one");
  expect(() => enter("one")).toThrow("scheduler/one at this server: 2 streams");
  expect(open).toEqual([1, 2, 3, 2, 1, 2]);
});
