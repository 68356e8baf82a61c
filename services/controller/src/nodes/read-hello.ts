/** Who dials: the first frame of a stream. */
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { FromAgent } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { checkId, checkRequired } from "../domain/limits.ts";

export interface AgentHello {
  readonly node: string;
  readonly instance: string;
  /** Of the stream. */
  readonly id: string;
}

export const readHello = (frame: Uint8Array): AgentHello => {
  const hello = decoded(frame)?.hello;
  if (hello === undefined)
    throw invalidArgument([{ field: "hello", description: "has to be the first frame of a stream" }]);
  const { node, instance, stream } = hello;
  const violations = [
    ...checkId("hello.node", node),
    ...checkRequired("hello.instance", instance),
    ...checkRequired("hello.stream", stream),
  ];
  if (violations.length > 0) throw invalidArgument(violations);
  return { node, instance, id: stream };
};

const decoded = (frame: Uint8Array): FromAgent | undefined => {
  try {
    return FromAgent.decode(frame);
  } catch {
    return undefined;
  }
};
