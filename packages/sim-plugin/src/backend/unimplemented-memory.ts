import { type Call, subjectOf } from "./call.ts";
import type { CodeName } from "./codes.ts";
import { methodFacts } from "./methods.ts";
import type { Method } from "./rpc.ts";

/** Which calls an instance has answered UNIMPLEMENTED since its capabilities were last read. */
export interface UnimplementedMemory {
  note(call: Call, code: CodeName | undefined): void;
  remembers(call: Call): boolean;
  /** A new life of the instance may be a new version of it. */
  forget(instance: string): void;
}

const capabilityReads: ReadonlySet<Method> = new Set<Method>([
  "GetPluginCapabilities",
  "ControllerGetCapabilities",
  "GroupControllerGetCapabilities",
  "NodeGetCapabilities",
]);

export const createUnimplementedMemory = (): UnimplementedMemory => {
  const known = new Map<string, Set<string>>();
  const keyOf = (call: Call): string => {
    const { volume = "", name = "" } = subjectOf(call);
    return [call.method, volume, name].join("\0");
  };
  return {
    note: (call, code) => {
      if (capabilityReads.has(call.method) && code === "OK") known.delete(call.instance);
      if (code !== "UNIMPLEMENTED" || methodFacts[call.method].service === "identity") return;
      const calls = known.get(call.instance) ?? new Set();
      known.set(call.instance, calls.add(keyOf(call)));
    },
    remembers: (call) => known.get(call.instance)?.has(keyOf(call)) ?? false,
    forget: (instance) => {
      known.delete(instance);
    },
  };
};
