/** The product's calls to a plugin: what each says to a gate, and what a reply of the model is to it. */
import { failureOf } from "@holdfast/csi/csi-exchange";
import { gateSubject } from "@holdfast/csi/gate-subject";
import { codecOf, type RequestOf } from "@holdfast/csi/messages";
import type { UnaryMethod } from "@holdfast/csi/methods";
import type { CallOutcome, Code } from "@holdfast/csi/outcome";
import { type PluginCall, type Reply, replies } from "./model-types.ts";

export const externalIdOf = (name: string): string => `ext ${name}`;

/** As far as the model reads it. */
export const callOf = (method: UnaryMethod, request: object): PluginCall => {
  const { name, volumeId, nodeId, capacityRange, mutableParameters } = request as Partial<
    RequestOf<"CreateVolume"> & RequestOf<"ControllerPublishVolume"> & RequestOf<"ControllerExpandVolume">
  >;
  const node = nodeId?.replace(/^id-/, "") ?? "";
  switch (method) {
    case "CreateVolume":
      return { method, node, what: name ?? "" };
    case "DeleteVolume":
      return { method, node, what: volumeId ?? "" };
    case "ControllerExpandVolume":
      return { method, node, what: String(capacityRange?.requiredBytes) };
    case "ControllerModifyVolume":
      return { method, node, what: mutableParameters?.["speed"] ?? "" };
    case "ControllerPublishVolume":
    case "ControllerUnpublishVolume":
      return { method, node };
    default:
      throw new Error(`the model makes no call ${method}`);
  }
};

export const requestOf = ({ method, node, what = "" }: PluginCall): Uint8Array => {
  const codec = codecOf(method);
  const sizes = { requiredBytes: BigInt(Number(what) || 0), limitBytes: 0n };
  const fields = {
    name: what,
    volumeId: method === "DeleteVolume" ? what : "ext-1",
    nodeId: `id-${node}`,
    capacityRange: sizes,
    mutableParameters: { speed: what },
  };
  return codec.encode(codec.complete(fields));
};

/** What the gate of the call counts together. */
export const subjectOf = ({ method, what = "" }: PluginCall): string => {
  if (method === "CreateVolume") return gateSubject("volume", { name: what });
  return gateSubject("volume", { id: method === "DeleteVolume" ? what : "ext-1" });
};

export const codeIn = (reply: Exclude<Reply, "OK" | "WRONG">) => {
  const { code = reply } = replies[reply] as { readonly code?: Code };
  return code as Code;
};

/** WRONG: it is done, and not as it was asked for. */
const responseTo = (method: UnaryMethod, request: object, wrong: boolean): object => {
  const { what = "" } = method === "ValidateVolumeCapabilities" ? {} : callOf(method, request);
  switch (method) {
    case "CreateVolume":
      return {
        volume: {
          volumeId: externalIdOf(what),
          capacityBytes: wrong ? 2n : 1n,
          volumeContext: {},
          accessibleTopology: [],
        },
      };
    case "ControllerExpandVolume":
      return { capacityBytes: wrong ? 1n : BigInt(what), nodeExpansionRequired: false };
    case "ValidateVolumeCapabilities":
      return { confirmed: undefined, message: "" };
    default:
      return { publishContext: {} };
  }
};

export const outcomeOf = (method: UnaryMethod, request: object, reply: Reply): CallOutcome<object> => {
  if (reply === "OK" || reply === "WRONG")
    return { outcome: "done", value: responseTo(method, request, reply === "WRONG") };
  const { answered, sent } = replies[reply];
  const wire = { code: codeIn(reply), message: "", answered, sent, ...(reply === "STALE" ? { stale: true } : {}) };
  const failure = failureOf("model", method, wire, []);
  return { outcome: failure.verdict.outcome === "refused" ? "refused" : "unknown", failure };
};

export const wordsOf = ({ method, node, what }: PluginCall): string =>
  `${method}${what === undefined ? "" : ` of ${what}`}${node === "" ? "" : ` for ${node}`}`;
