import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createLeftCalls, type LeftCalls } from "../left-calls.ts";
import { memoryCallLog } from "./memory-call-log.ts";

/** Of a first life. */
export const nothingLeft = (): LeftCalls =>
  createLeftCalls({
    calls: memoryCallLog(),
    issuer: "c/1",
    isFormerLife: () => false,
    vettingUid: () => "",
    store: { identity: () => Promise.reject(new Error("there is nothing to compare")) },
    log: createMemoryLogger(),
  });
