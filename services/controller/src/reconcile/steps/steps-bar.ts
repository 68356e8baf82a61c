import { isOwnedPair } from "../../domain/bar.ts";
import type { Outcome } from "../../domain/outcome.ts";
import type { Bar, VolumeRecord } from "../../domain/volume/volume.ts";
import { liftBar, type Repeat } from "../owed/lift-bar.ts";
import { owedVolumes, type StepDeps, type StepHandler } from "./step-run.ts";

/** An overtaken call is not repeated beside the record's own call for the same. */
const isBusyWith = ({ intent }: VolumeRecord, { op, node }: Bar): boolean =>
  intent !== undefined && (intent.op === op || (node !== "" && intent.node === node));

/** The call of the bar once more at its instance, or its undo; undefined = the record has to move on first. */
const repeatOf = ({ plugins }: StepDeps, volume: VolumeRecord, bar: Bar): Repeat | undefined => {
  const { op, via, attachment, size = { required: volume.capacity.actual, limit: 0 }, parameters = {} } = bar;
  if (isBusyWith(volume, bar)) return undefined;
  const there: VolumeRecord = { ...volume, intent: { ...bar, via, epoch: volume.epoch } };
  switch (op) {
    case "attach":
    case "detach":
      // What the record has, its own detach ends.
      if (attachment === undefined || isOwnedPair(volume, bar)) return undefined;
      return (context) => plugins.unpublish(there, attachment, context);
    case "create":
      if (volume.externalId === "") return undefined;
      return async (context) => {
        // Another word than at first is other storage for the plugin, and refused.
        const mutableParameters = bar.parameters ?? volume.mutableParameters;
        const first = { ...there, capacity: { ...volume.capacity, ...bar.size }, mutableParameters };
        const made = await plugins.createVolume(first, context);
        return made.kind === "done" && made.value.externalId !== volume.externalId
          ? otherId(made.value.externalId)
          : made;
      };
    case "delete":
      return volume.externalId === "" ? undefined : (context) => plugins.deleteVolume(there, context);
    case "expand":
      return (context) => plugins.expandVolume(there, size, context);
    case "modify":
      return (context) => plugins.modifyVolume(there, parameters, context);
  }
};

const otherId = (externalId: string): Outcome<never> => ({
  kind: "unknown",
  failure: {
    reason: "STORAGE_TAKEN",
    message: `CreateVolume of the same name was answered with ${externalId}, which is other storage`,
    advice: "block",
    call: "ended",
  },
});

/** Finds out whether the overtaken call of a bar has ended. */
export const liftStep: StepHandler<"lift"> = (deps, { bar }, { volume, traceId }) =>
  liftBar(
    owedVolumes(deps),
    {
      gate: deps.gate,
      nodes: deps.nodes,
      quiesce: deps.plugins.quiesce,
      repeatOf: (record, one: Bar) => repeatOf(deps, record, one),
    },
    volume,
    bar,
    traceId,
  );
