import type { Call } from "../call.ts";
import { hashOf } from "../ids.ts";
import { methodFacts } from "../methods.ts";
import { isMultiNode } from "./access-modes.ts";
import { useOn } from "./controller-order-rules.ts";
import { everyCall, type InFlight, type Rule, rule, type World } from "./rule.ts";

/** A call that changes something for which the controller plugin answers. */
const judged = ({ method }: { readonly method: Call["method"] }): boolean => {
  const { service, mutates } = methodFacts[method];
  return mutates && (service === "controller" || service === "group");
};

/** By its id too: once the work of a delete is done, the state no longer tells the name. */
const isOfSame = (lane: string, call: Call, other: InFlight): boolean =>
  other.lane === lane ||
  (["volumeId", "snapshotId", "groupSnapshotId"] as const).some((field) => {
    const id: unknown = Reflect.get(call.request, field);
    return id !== undefined && id !== "" && id === Reflect.get(other.request, field);
  });

/** A key may have been exchanged between a call and its repeat. */
const askedFor = ({ request }: { readonly request: object }): string => hashOf({ ...request, secrets: undefined });

/** The same call at the same instance, and the process that sent the first one is dead. */
const isSuccessors = (call: Call, other: InFlight): boolean =>
  other.orphaned &&
  other.instance === call.instance &&
  other.method === call.method &&
  askedFor(other) === askedFor(call);

const mountedOn = (world: World, volume: string): readonly string[] =>
  [...(world.state.stages.get(volume) ?? []), ...(world.state.publications.get(volume) ?? [])].map(({ node }) => node);

const firstUse = (world: World, volume: string, except?: string): string | undefined => {
  const attached = (world.state.attachments.get(volume) ?? []).find(({ node }) => node !== except);
  if (attached !== undefined) return `attached to ${attached.node}`;
  for (const node of mountedOn(world, volume)) {
    const use = node === except ? undefined : useOn(world, volume, node);
    if (use !== undefined) return `${use} on ${node}`;
  }
  return undefined;
};

/**
 * What must not even arrive at the controller half of a plugin, whatever its state would make of it: a backend that refuses politely
 * is luck. A call is open until it was answered or the plugin's process is gone: a caller that gave up has ended nothing.
 */
export const arrivalRules = (lane: string | undefined): readonly Rule[] => [
  everyCall(
    "arrived-beside-open-call",
    "ABORTED",
    "No call arrives for a volume, a name or a snapshot while another one is open; its sender's successor repeats the same one.",
    (call, world) => {
      if (lane === undefined || !judged(call)) return undefined;
      const other = world.inFlight.find(
        (open) => judged(open) && isOfSame(lane, call, open) && !isSuccessors(call, open),
      );
      return other === undefined
        ? undefined
        : `${call.method} arrived at ${call.instance} while ${other.method} (call ${other.seq} at ${other.instance}) is open for ${lane}`;
    },
  ),
  rule(
    "arrived-detach-in-use",
    "FAILED_PRECONDITION",
    "No ControllerUnpublish arrives for a pair whose volume is staged or published on that node.",
    {
      ControllerUnpublishVolume: ({ volumeId, nodeId }, world) => {
        const use = useOn(world, volumeId, nodeId);
        return use === undefined
          ? undefined
          : `ControllerUnpublishVolume of ${volumeId} from ${nodeId} arrived, where it is ${use}`;
      },
    },
  ),
  rule(
    "arrived-attach-elsewhere-in-use",
    "FAILED_PRECONDITION",
    "No ControllerPublish of a volume for one node arrives while the volume is attached to, staged or published on another one.",
    {
      ControllerPublishVolume: ({ volumeId, nodeId, volumeCapability }, world) => {
        const use = isMultiNode(volumeCapability) ? undefined : firstUse(world, volumeId, nodeId);
        return use === undefined
          ? undefined
          : `ControllerPublishVolume of ${volumeId} for ${nodeId} arrived; it is ${use}`;
      },
    },
  ),
  rule(
    "arrived-delete-in-use",
    "FAILED_PRECONDITION",
    "No DeleteVolume arrives for a volume that is attached, staged or published anywhere.",
    {
      DeleteVolume: ({ volumeId }, world) => {
        const use = firstUse(world, volumeId);
        return use === undefined ? undefined : `DeleteVolume of ${volumeId} arrived; it is ${use}`;
      },
    },
  ),
];
