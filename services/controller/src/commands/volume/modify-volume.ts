import type { Tri } from "@holdfast/model/tri";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Change } from "../../domain/change.ts";
import { checkMap } from "../../domain/limits.ts";
import type { Moment } from "../../domain/moment.ts";
import { judgeModify, type Modification } from "../../domain/volume/modification.ts";
import { modificationNudged, modificationStarted, modificationWanted } from "../../domain/volume/modify-change.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginCannot } from "../errors.ts";
import type { Commands } from "../model.ts";
import { changeVolume, traceOf } from "./change-volume.ts";
import { refuse, validateModifyVolume } from "./validate-volume.ts";

const frozen = (volume: VolumeRecord, target: Modification["target"]): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "VOLUME_BUSY",
    message: `the parameters ${Object.keys(target).sort().join(", ")} of volume ${volumeKey(volume)} are being modified, and nobody knows yet whether that has happened; only the same values may be asked for until it has ended`,
    metadata: { namespace: volume.namespace, volume: volume.id, operation: "modify", node: "" },
  });

const wish = (
  volume: VolumeRecord,
  target: Modification["target"],
  can: Tri,
  trace: Modification["trace"],
  at: Moment,
) => {
  const wanted = modificationWanted(volume, target, trace, at);
  if (wanted.volume === null || wanted.volume.modification?.state !== "WANTED") return wanted;
  const started = modificationStarted(wanted.volume, can, at);
  return started.volume === wanted.volume ? wanted : started;
};

/** Writes down which parameters are wanted; the reconciler asks the plugin. */
export const modifyVolumeCommand = (deps: CommandDeps): Commands["modifyVolume"] => {
  const decide = (
    volume: VolumeRecord,
    wanted: Modification["target"],
    trace: Modification["trace"],
    at: Moment,
  ): Change => {
    const { mutableParameters, modification } = volume;
    const verdict = judgeModify(mutableParameters, modification, wanted);
    switch (verdict.kind) {
      case "has":
        return modificationNudged(volume, at);
      case "frozen":
        throw frozen(volume, verdict.target);
      case "wish": {
        const { ready, modifiesVolumes } = deps.plugins.facts(volume.plugin);
        if (modifiesVolumes === "no") throw pluginCannot(volume, volume.plugin, "plugin", "modify volumes");
        // What is set in the end has to fit into what CSI takes, not only what is sent now.
        refuse(checkMap("mutable_parameters", { ...mutableParameters, ...modification?.target, ...verdict.target }));
        return wish(volume, verdict.target, ready ? modifiesVolumes : "unknown", trace, at);
      }
    }
  };
  return async (input, caller) => {
    validateModifyVolume(input);
    const trace = traceOf(deps, caller);
    return await changeVolume(deps, input, caller, (volume, at) => decide(volume, input.mutableParameters, trace, at));
  };
};
