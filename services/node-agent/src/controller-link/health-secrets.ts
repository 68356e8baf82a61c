/** The secrets that a plugin of this node wants with NodeGetStorageHealth, asked of any controller with a stream, and kept nowhere. */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  GetHealthSecretsRequest,
  GetHealthSecretsResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Logger } from "@holdfast/shared/log/logger";
import type { LinkCall } from "./controller-session.ts";

interface SecretsClient {
  getHealthSecrets(request: GetHealthSecretsRequest, options: LinkCall): Promise<GetHealthSecretsResponse>;
}

export interface HealthSecretsOptions {
  readonly node: string;
  readonly controllers: () => readonly { readonly client: SecretsClient }[];
  readonly deadlineMs: number;
  readonly log: Pick<Logger, "warn">;
  readonly signal: AbortSignal;
}

/** undefined: no controller answers now, or the secret is not to be had. */
export type HealthSecrets = (plugin: string) => Promise<Readonly<Record<string, string>> | undefined>;

export function createHealthSecrets(options: HealthSecretsOptions): HealthSecrets {
  const { node, controllers, deadlineMs, log, signal } = options;
  /** By plugin: why it was not asked, as it was said last. */
  const said = new Map<string, string>();

  return async (plugin) => {
    let why = "";
    for (const { client } of controllers()) {
      try {
        const { secrets } = await client.getHealthSecrets({ node, plugin }, { signal, deadlineMs });
        said.delete(plugin);
        return secrets;
      } catch (error) {
        if (!isHoldfastError(error)) continue;
        // One of an earlier version knows of no profile that names a secret.
        if (error.kind === "unimplemented") return {};
        if (error.kind === "precondition") why = error.message;
      }
    }
    if (why !== "" && said.get(plugin) !== why)
      log.warn("a plugin is not asked about its storage: the secret that its profile names is not to be had", {
        plugin,
        why,
      });
    said.set(plugin, why);
    return undefined;
  };
}
