import * as csi from "@holdfast/shared/gen/csi/v1/csi";
import type { Answer } from "./answer.ts";
import { type Backend, type BackendOptions, createBackend } from "./backend.ts";
import type { Call, PathFacts, TokenFacts } from "./call.ts";
import type { CodeName } from "./codes.ts";
import { methodFacts } from "./methods.ts";
import type { StringMap } from "./model.ts";
import type { Method, Requests, Responses } from "./rpc.ts";

/** Calls a backend as role processes would, without sockets: controller calls as one instance, node calls as another. */
export interface Driver {
  readonly backend: Backend;
  ask<M extends Method>(method: M, request: Partial<Requests[M]>, by?: Caller): Answer;
  /** The response; throws when the call was refused. */
  get<M extends Method>(method: M, request: Partial<Requests[M]>, by?: Caller): Responses[M];
  /** Begins a call that stays in flight; answers its ticket. */
  open<M extends Method>(method: M, request: Partial<Requests[M]>, by?: Caller): number;
}

export interface Caller {
  readonly node?: "node-a" | "node-b";
  /** The controller half that is called, which the test attached; "controller" unless told. */
  readonly half?: string;
  readonly paths?: PathFacts;
  readonly token?: TokenFacts;
}

export const writer: csi.VolumeCapability = {
  block: undefined,
  mount: { fsType: "", mountFlags: [], volumeMountGroup: "" },
  accessMode: { mode: csi.VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
};

export const inMode = (mode: keyof typeof csi.VolumeCapability_AccessMode_Mode): csi.VolumeCapability => ({
  ...writer,
  accessMode: { mode: csi.VolumeCapability_AccessMode_Mode[mode] },
});

const definitions = [
  csi.IdentityDefinition,
  csi.ControllerDefinition,
  csi.GroupControllerDefinition,
  csi.SnapshotMetadataDefinition,
  csi.NodeDefinition,
];

/** A whole request, with every field that is not given at its default. */
const blank = (method: Method, request: object): object => {
  const found = definitions.flatMap((one) => Object.values(one.methods)).find((one) => one.name === method);
  if (found === undefined) throw new Error(`csi.proto has no method ${method}`);
  return (found.requestType as { fromPartial(request: object): object }).fromPartial(request);
};

export const createDriver = (options: BackendOptions = {}): Driver => {
  const backend = createBackend(options);
  backend.attach({ name: "controller", role: "controller" });
  for (const node of ["node-a", "node-b"]) backend.attach({ name: node, role: "node", node });

  const begin = (method: Method, request: object, by: Caller, handsOn: boolean) => {
    const instance = methodFacts[method].service === "node" ? (by.node ?? "node-a") : (by.half ?? "controller");
    const seen = { ...(by.paths && { paths: by.paths }), ...(by.token && { token: by.token }) };
    const call = { instance, method, request: blank(method, request), handsOn, ...seen };
    return backend.begin(call as unknown as Call);
  };

  const ask = (method: Method, request: object, by: Caller = {}): Answer => {
    const admission = begin(method, request, by, false);
    if (admission.kind === "answered") return admission.answer;
    const answer = backend.apply(admission.ticket);
    backend.close(admission.ticket, { reply: "sent" });
    return answer;
  };

  return {
    backend,
    ask,
    get: <M extends Method>(method: M, request: Partial<Requests[M]>, by?: Caller) => {
      const answer = ask(method, request, by);
      if ("refusal" in answer) throw new Error(`${method}: ${answer.refusal.code} ${answer.refusal.message}`);
      return answer.response as Responses[M];
    },
    open: (method, request, by = {}) => {
      const admission = begin(method, request, by, true);
      if (admission.kind === "answered") throw new Error(`${method} did not stay open`);
      return admission.ticket;
    },
  };
};

export const codeOf = (answer: Answer): CodeName => ("refusal" in answer ? answer.refusal.code : "OK");

/** Volume "one" brought up to a step of its life on node-a, with what the next calls need. */
export interface Lived {
  readonly volumeId: string;
  readonly volumeContext: StringMap;
  readonly volumeCapability: csi.VolumeCapability;
  readonly publishContext: StringMap;
  readonly stagingTargetPath: string;
  readonly targetPath: string;
}

export type Step = "created" | "attached" | "staged" | "published";
const steps: readonly Step[] = ["created", "attached", "staged", "published"];

export const live = (driver: Driver, until: Step, volumeCapability = writer, name = "one"): Lived => {
  const reached = (step: Step): boolean => steps.indexOf(until) >= steps.indexOf(step);
  const { volume } = driver.get("CreateVolume", { name, volumeCapabilities: [volumeCapability], secrets: {} });
  const volumeId = volume?.volumeId ?? "";
  const stagingTargetPath = `/staging/${name}`;
  const targetPath = `/target/${name}`;
  const base = { volumeId, volumeContext: volume?.volumeContext ?? {}, volumeCapability };
  const publishContext = reached("attached")
    ? driver.get("ControllerPublishVolume", { ...base, nodeId: "node-a" }).publishContext
    : {};
  const lived = { ...base, publishContext, stagingTargetPath, targetPath };
  if (reached("staged")) driver.get("NodeStageVolume", { ...base, publishContext, stagingTargetPath });
  if (reached("published")) driver.get("NodePublishVolume", lived);
  return lived;
};
