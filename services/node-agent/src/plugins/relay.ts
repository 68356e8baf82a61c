/** Passes a controller's CSI call to a plugin of this host, bytes in and bytes out. */
import { type CsiMethod, methodOf, methods, type UnaryMethod } from "@holdfast/csi/methods";
import { codes } from "@holdfast/csi/outcome";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { NodeMethod } from "../ports.ts";

export interface RelayedCall {
  readonly plugin: string;
  readonly method: string;
  readonly request: Uint8Array;
  readonly deadlineMs: number;
}

export type RelayedEnd =
  | { readonly response: Uint8Array }
  | { readonly failure: { readonly code: number; readonly message: string; readonly notSent: boolean } };

export function createRelay(directory: Pick<PluginDirectory, "get">) {
  return async (
    { plugin, method: path, request, deadlineMs }: RelayedCall,
    signal: AbortSignal,
  ): Promise<RelayedEnd> => {
    const method = methodOf(path);
    if (method === undefined || !isUnaryMethod(method)) {
      throw invalidArgument([{ field: "method", description: `${path} is no unary method of CSI` }]);
    }
    if (journalled.has(method)) {
      const description = `${path} changes mounts: the agent makes it by itself, after its own journal`;
      throw invalidArgument([{ field: "method", description }]);
    }
    const connection = directory.get(plugin);
    if (connection === undefined) {
      return {
        failure: { code: codes.indexOf("UNAVAILABLE"), message: `plugin ${plugin} is not on this host`, notSent: true },
      };
    }
    const outcome = await connection.relay(method, request, { signal, ...(deadlineMs > 0 ? { deadlineMs } : {}) });
    if (outcome.outcome === "done") return { response: outcome.value };
    const { code, message, sent } = outcome.failure;
    return { failure: { code: codes.indexOf(code), message, notSent: !sent } };
  };
}

/** What a mount comes and goes by never passes the journal by (I4). */
const journalled: ReadonlySet<CsiMethod> = new Set<NodeMethod>([
  "NodeStageVolume",
  "NodePublishVolume",
  "NodeUnpublishVolume",
  "NodeUnstageVolume",
]);

const isUnaryMethod = (method: CsiMethod): method is UnaryMethod => methods[method].kind !== "stream";
