/**
 * NodePublishVolume once more, for a claim that is published: never a stage, and never an undo, whatever the plugin answers.
 *
 * Again-1 Nothing is journalled before the call: the journal has the publication, and its undo is owed (I4). Again-2 A mount that the plugin
 * has made anew gets what every mount has to have, and is journalled with what it shows.
 */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Halt } from "../domain/answer-types.ts";
import { marksUnder, seenAt } from "../domain/mounts.ts";
import type { MountTable, NodePlugin, PermitContents, PublishTokens } from "../ports.ts";
import { nameVolume, pluginAwayHalt, republishHalt } from "./halts.ts";
import { orderOf } from "./mount-steps.ts";
import type { SecureMount } from "./secure-mount.ts";
import type { VolumeRun } from "./volume-run.ts";

export interface RepublishTools {
  readonly plugin: NodePlugin | undefined;
  readonly mounts: Pick<MountTable, "look">;
  readonly secure: SecureMount;
  readonly signal: AbortSignal;
}

/** Shorter than a first call gets: a release of the volume waits for it. */
const deadlineMs = 30_000;

/** In the volume's lane. Undefined: done. */
export async function republishStep(
  run: VolumeRun,
  claimUid: string,
  told: { readonly contents: PermitContents; readonly tokens: PublishTokens },
  { plugin, mounts, secure, signal }: RepublishTools,
): Promise<Halt | undefined> {
  const { ref, claims } = run.volume();
  const mountId = claims[claimUid]?.mountId;
  if (plugin === undefined) return pluginAwayHalt(ref, "its plugin is not there");
  const order = { ...orderOf(run, claimUid, told.contents), tokens: told.tokens, deadlineMs };
  const { target } = order.facts;
  run.staleView();
  const result = await plugin.publish(order, signal); // Again-1
  const view = await mounts.look(false);
  const line = seenAt(view, target);
  // Who watches the mounts tells that it is lost, and its permit brings it back.
  if (line === undefined)
    return republishHalt(ref, { message: `nothing is mounted at ${target} any more`, cure: "wait for its mount" });
  const secured = await secure(ref, order.facts, { view, line });
  if (line.id !== mountId) {
    // Again-2
    const { stage } = run.volume();
    const marks = marksUnder(view, stage.needed ? [stage.path, target] : [target]);
    await run.commit(
      { type: "publish-intent", claimUid },
      { type: "published", claimUid, mountId: line.id, marks, before: [] },
    );
  }
  if (secured.kind === "insecure") return republishHalt(ref, { message: secured.message, cure: "" });
  if (result.kind === "done") return undefined;
  const { method, code, message, sent, needs } = result.failure;
  if (!sent) return pluginAwayHalt(ref, message);
  return republishHalt(ref, { message: `the plugin answered ${code}: ${message}`, method, code, cure: needs });
}

/** Why controllers gave nothing for it. */
export function notGivenHalt(ref: Parameters<typeof republishHalt>[0], error: unknown): Halt {
  if (!isHoldfastError(error)) throw error;
  const { reason, message } = error;
  const cure = cures[reason];
  if (cure !== undefined) return republishHalt(ref, { message, cure });
  return { reason, message: `${nameVolume(ref)}: ${message}`, method: "", code: "" };
}

const cures: Readonly<Partial<Record<string, string>>> = {
  TOKENS_UNSIGNED: "give every controller HOLDFAST_TOKEN_KEYS and HOLDFAST_TOKEN_ISSUER",
  SECRET_NOT_FOUND: "correct the secret that the volume refers to",
  SECRETS_UNAVAILABLE: "correct the secret that the volume refers to",
};
