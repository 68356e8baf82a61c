/**
 * A permit as it is sent: with the secrets of its calls, which are read for each push and are gone with it, and with what its plugin wants
 * beside it. Rejects where a secret, or the key for a token that is wanted, is not to be had: nothing is sent then.
 */
import type { DeepPartial, Permit as WirePermit } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { Permit } from "../domain/claim/permit.ts";
import type { Publishing } from "../domain/plugin/publishing.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import type { Secrets } from "../secrets/secrets.ts";
import { tokensUnsigned } from "../secrets/tokens/token-keys.ts";
import { permitMessage } from "./convert.ts";

export interface PermitWords {
  readonly message: DeepPartial<WirePermit>;
  /** Values that must not be shown. */
  readonly sensitive: readonly string[];
}

/** What NodePublishVolume is told of workloads. */
export interface PublishingFacts {
  of(volume: VolumeRecord): Publishing;
  /** Why no token can be signed now; undefined: one can. */
  trouble(): Promise<string | undefined>;
}

export interface PermitWordsOptions {
  readonly secrets: Pick<Secrets, "resolve">;
  readonly publishing: PublishingFacts;
}

export const createPermitWords =
  ({ secrets, publishing }: PermitWordsOptions) =>
  async (permit: Permit, attempt: number): Promise<PermitWords> => {
    const { namespace, secretRefs } = permit.volume;
    const { nodeStage, nodePublish, nodeExpand } = secretRefs;
    const wanted = publishing.of(permit.volume);
    const unsigned = wanted.tokens.length === 0 ? undefined : await publishing.trouble();
    if (unsigned !== undefined) throw tokensUnsigned(unsigned);
    const read = (ref: string | undefined, method: string) =>
      secrets.resolve(ref, namespace, { volume: permit.volume.id, method });
    const [stage, publish, expand] = await Promise.all([
      read(nodeStage, "NodeStageVolume"),
      read(nodePublish, "NodePublishVolume"),
      read(permit.expandTo === undefined ? undefined : nodeExpand, "NodeExpandVolume"),
    ]);
    return {
      message: {
        ...permitMessage(permit, { stage, publish, expand }, attempt),
        wantsTokens: wanted.tokens.length > 0,
        republishMs: wanted.againMs,
      },
      sensitive: [stage, publish, expand].flatMap(Object.values),
    };
  };
